use std::collections::BTreeSet;

use futures_util::future::join_all;
use ringtrue_domain::{
    audit::Action,
    lifecycle::{Check, CheckId, Sealed, ShardBucket},
    product::Product,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    callbacks::{
        AttemptOutcome, AttemptRecord, AttemptSettlement, AttemptSummary, CallbackList, CallbackQuery, CallbackRecord,
        CallbackSelection, CallbackState, LastAttempt, LeasedCallback, ListedCallback, MAX_LOGGED_ATTEMPTS,
        MAX_RESENDS, ResendOutcome, ResendProgress,
    },
    checks::ConcludeOutcome,
    combined::Store,
    store::TenantLookup,
};

use crate::{check_sample, fixture::StoreFixture, sample};

fn log(number: i64) -> AttemptRecord {
    AttemptRecord {
        started_at: sample::later(number),
        ended_at: sample::later(number + 1),
        status: (number % 2 == 0).then_some(503),
        failure: (number % 2 == 1).then(|| "timeout".to_owned()),
        exchange: Some(Sealed(vec![7; 20])),
    }
}

pub fn settlement(check: CheckId, attempt: u32, then: AttemptOutcome) -> AttemptSettlement {
    AttemptSettlement { check, attempt, outcome: then, log: log(attempt.into()) }
}

async fn record(store: &dyn Store, project: ProjectId, check: CheckId) -> CallbackRecord {
    match store.find_callback(project, check).await.unwrap() {
        TenantLookup::Found(record) => record,
        other => panic!("{other:?}"),
    }
}

pub async fn conclusion_queues_its_callback(fixture: &StoreFixture) {
    let store = &*fixture.store;
    assert_eq!(store.next_callback_due_at().await.unwrap(), None);
    let check = check_sample::concluded(store, ProjectId(sample::uuid()), sample::later(30)).await;
    let expected = CallbackRecord {
        check: check.id,
        product: Product::ReverseSms,
        url: Sealed(b"sealed url".to_vec()),
        body: Some(Sealed(b"sealed body".to_vec())),
        state: CallbackState::Waiting { due_at: sample::later(30) },
        attempts: vec![],
    };
    assert_eq!(record(store, check.project, check.id).await, expected);
    assert_eq!(store.find_callback(ProjectId(sample::uuid()), check.id).await.unwrap(), TenantLookup::OtherTenant);
    assert_eq!(store.next_callback_due_at().await.unwrap(), Some(sample::later(30)));
    let without = check_sample::store_check(store, check.project).await;
    store.conclude(check_sample::conclusion(without.clone().expire().unwrap()).0, None).await.unwrap();
    assert_eq!(store.find_callback(check.project, without.id).await.unwrap(), TenantLookup::NotFound);
}

pub async fn late_conclusion_queues_no_callback(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let check = check_sample::concluded(store, ProjectId(sample::uuid()), sample::now()).await;
    let late = check_sample::check(check.project, sample::now());
    let late = ringtrue_domain::lifecycle::Check { id: check.id, ..late };
    let (conclusion, _) = check_sample::conclusion(late.expire().unwrap());
    let recorded = store.conclude(conclusion, Some(check_sample::callback(sample::later(99)))).await.unwrap();
    assert_eq!(recorded, ConcludeOutcome::AlreadyConcluded);
    let state = record(store, check.project, check.id).await.state;
    assert_eq!(state, CallbackState::Waiting { due_at: sample::now() });
}

/// The insert of the callback fails with a duplicate key, which must roll back the conclusion.
pub async fn check_stays_open_if_its_callback_fails(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let checks = join_all((0..20).map(|_| check_sample::store_check(store, project))).await;
    let bucket = if fixture.database.has_buckets() { ", bucket" } else { "" };
    fixture
        .database
        .execute(&format!(
            "insert into callbacks (check_id, project_id, created_at, failed_attempts, state, product, url{bucket})
             select id, project_id, 0, 0, 'delivered', product, number_hash{bucket} from checks order by id limit 1",
        ))
        .await;
    let failing = checks.iter().map(|check| check.id).min().unwrap();
    let ends = checks.iter().map(|check| {
        let (conclusion, _) = check_sample::conclusion(check_sample::received(check, true));
        store.conclude(conclusion, Some(check_sample::callback(sample::now())))
    });
    for (check, recorded) in checks.iter().zip(join_all(ends).await) {
        assert_eq!(recorded.is_ok(), check.id != failing, "{recorded:?}");
        assert_eq!(check_sample::find(store, check).await.updated_at().is_some(), check.id != failing);
    }
}

pub async fn due_callbacks_are_leased_oldest_first(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for due in [3, 1, 2, 4] {
        // Servers of a cluster share the limit of a lease, so all are on one.
        let check = check_sample::check(project, sample::now());
        let check = Check { id: check.id.with_bucket(ShardBucket::of([0, 7])), ..check };
        store.create_check(check_sample::new(check.clone())).await.unwrap();
        checks.push(check_sample::conclude(store, &check, sample::later(due)).await.id);
    }
    let ids = |leased: Vec<LeasedCallback>| leased.into_iter().map(|callback| callback.check).collect::<Vec<_>>();
    let lease = |now, until, limit| store.lease_due_callbacks(sample::later(now), sample::later(until), limit, &[]);
    assert_eq!(ids(lease(0, 60, 9).await.unwrap()), []);
    let first = lease(3, 60, 2).await.unwrap();
    assert_eq!(first[0].url, Sealed(b"sealed url".to_vec()));
    assert_eq!(first[0].body, Sealed(b"sealed body".to_vec()));
    assert_eq!((first[0].project, first[0].product, first[0].failed_attempts), (project, Product::ReverseSms, 0));
    assert_eq!(ids(first), [checks[1], checks[2]]);
    assert_eq!(ids(lease(5, 60, 9).await.unwrap()), [checks[0], checks[3]]);
    assert_eq!(store.next_callback_due_at().await.unwrap(), Some(sample::later(60)), "expired leases are due");
    assert_eq!(ids(lease(59, 120, 9).await.unwrap()), []);
    assert_eq!(ids(lease(60, 120, 9).await.unwrap()).len(), 4, "expired leases are leased again");
}

/// Another node has leased a callback and not committed yet. Leasing does not wait for it, and leases as many others as
/// requested.
pub async fn leasing_skips_callbacks_that_another_node_is_leasing(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for due in 1..=4 {
        checks.push(check_sample::concluded(store, project, sample::later(due)).await.id);
    }
    let lease = format!("update callbacks set due_at = due_at + 60000 where check_id = '{}'", checks[0]);
    let other = fixture.database.begin(&lease).await;
    let leased = store.lease_due_callbacks(sample::later(9), sample::later(60), 2, &[]).await.unwrap();
    assert_eq!(leased.into_iter().map(|callback| callback.check).collect::<Vec<_>>(), checks[1..3]);
    drop(other);
}

pub async fn callback_is_leased_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let project = ProjectId(sample::uuid());
    join_all((0..60).map(|_| check_sample::concluded(&*fixture.store, project, sample::now()))).await;
    let mut seen = BTreeSet::new();
    while seen.len() < 60 {
        let claims =
            (0..8).map(|number| stores[number % 2].lease_due_callbacks(sample::later(1), sample::later(60), 7, &[]));
        for callback in join_all(claims).await.into_iter().flat_map(Result::unwrap) {
            assert!(seen.insert(callback.check), "leased twice");
        }
    }
}

pub async fn attempt_is_settled_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let check = check_sample::concluded(store, project, sample::now()).await.id;
    let retry = AttemptOutcome::RetryAt(sample::later(10));
    assert!(!store.settle_attempt(settlement(check, 2, retry)).await.unwrap(), "the first attempt is not settled");
    assert!(store.settle_attempt(settlement(check, 1, retry)).await.unwrap());
    assert!(!store.settle_attempt(settlement(check, 1, AttemptOutcome::Delivered)).await.unwrap());
    let leased = store.lease_due_callbacks(sample::later(10), sample::later(60), 9, &[]).await.unwrap();
    assert_eq!(leased.iter().map(|callback| callback.failed_attempts).collect::<Vec<_>>(), [1]);

    let settled =
        join_all((0..30).map(|_| store.settle_attempt(settlement(check, 2, AttemptOutcome::Delivered)))).await;
    assert_eq!(settled.into_iter().filter(|settled| *settled.as_ref().unwrap()).count(), 1);
    let record = record(store, project, check).await;
    assert_eq!((record.state, record.attempts), (CallbackState::Delivered, vec![(1, log(1)), (2, log(2))]));
    assert_eq!(store.next_callback_due_at().await.unwrap(), None);
    assert!(!store.settle_attempt(settlement(CheckId(sample::uuid()), 1, AttemptOutcome::Delivered)).await.unwrap());
}

pub async fn concurrent_settlements_are_stored(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let checks = join_all((0..40).map(|_| check_sample::concluded(store, project, sample::now()))).await;
    let settled =
        join_all(checks.iter().map(|check| store.settle_attempt(settlement(check.id, 1, AttemptOutcome::GivenUp))))
            .await;
    assert!(settled.into_iter().all(Result::unwrap));
    for check in checks {
        assert_eq!(record(store, project, check.id).await.state, CallbackState::GivenUp);
    }
}

pub async fn lease_is_released(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let due = sample::later(60);
    let mut checks = Vec::new();
    for _ in 0..3 {
        checks.push(check_sample::concluded(store, project, due).await.id);
    }
    store.settle_attempt(settlement(checks[1], 1, AttemptOutcome::Delivered)).await.unwrap();
    let held = |checks: &[CheckId], until| checks.iter().map(|check| (*check, until)).collect::<Vec<_>>();
    store.release_leases(held(&checks[..2], due), sample::now()).await.unwrap();
    // A lease is identified by its end. A lease with another end has another holder, and is not released.
    store.release_leases(held(&checks, sample::later(59)), sample::now()).await.unwrap();
    let leased = store.lease_due_callbacks(sample::now(), due, 9, &[]).await.unwrap();
    assert_eq!(leased.iter().map(|callback| callback.check).collect::<Vec<_>>(), [checks[0]]);
    assert_eq!(record(store, project, checks[2]).await.state, CallbackState::Waiting { due_at: due });
    assert_eq!(record(store, project, checks[1]).await.state, CallbackState::Delivered);
}

pub async fn resent_callback_starts_a_new_series(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let workspace = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let check = check_sample::concluded(store, project, sample::now()).await.id;
    let resend = async |project, check| {
        let audit = sample::event(workspace.id, Action::CallbackResent);
        store.resend_callback(project, check, sample::later(100), &audit, None).await.unwrap()
    };
    assert_eq!(resend(project, check).await, TenantLookup::Found(ResendOutcome::StillWaiting));
    assert!(store.settle_attempt(settlement(check, 1, AttemptOutcome::RetryAt(sample::later(10)))).await.unwrap());
    assert!(store.settle_attempt(settlement(check, 2, AttemptOutcome::Delivered)).await.unwrap());

    assert_eq!(resend(ProjectId(sample::uuid()), check).await, TenantLookup::OtherTenant);
    assert_eq!(resend(project, CheckId(sample::uuid())).await, TenantLookup::NotFound);
    assert_eq!(resend(project, check).await, TenantLookup::Found(ResendOutcome::Queued));
    assert_eq!(resend(project, check).await, TenantLookup::Found(ResendOutcome::StillWaiting));
    assert_eq!(record(store, project, check).await.state, CallbackState::Waiting { due_at: sample::later(100) });
    let leased = store.lease_due_callbacks(sample::later(100), sample::later(130), 9, &[]).await.unwrap();
    assert_eq!((leased[0].failed_attempts, leased[0].earlier_attempts), (2, 2));

    assert!(store.settle_attempt(settlement(check, 3, AttemptOutcome::GivenUp)).await.unwrap());
    let concluded = record(store, project, check).await;
    assert_eq!((concluded.state, concluded.attempts.len()), (CallbackState::GivenUp, 3));
    let events = store.list_audit_events(workspace.id, sample::ANY, sample::first_100()).await.unwrap().items;
    assert_eq!(events.iter().filter(|event| event.action == Action::CallbackResent).count(), 1);

    fixture.database.execute("update callbacks set body = null").await;
    assert_eq!(resend(project, check).await, TenantLookup::Found(ResendOutcome::Erased));
}

pub async fn overdue_callbacks_are_given_up(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for due in [10, 20, 30] {
        checks.push(check_sample::concluded(store, project, sample::later(due)).await.id);
    }
    assert_eq!(store.give_up_overdue_callbacks(sample::later(30), 1).await.unwrap(), 1);
    assert_eq!(store.give_up_overdue_callbacks(sample::later(30), 9).await.unwrap(), 1);
    assert_eq!(store.give_up_overdue_callbacks(sample::later(30), 9).await.unwrap(), 0);
    for (check, is_given_up) in checks.into_iter().zip([true, true, false]) {
        let TenantLookup::Found(callback) = store.find_callback(project, check).await.unwrap() else {
            panic!("no callback")
        };
        assert_eq!(callback.state == CallbackState::GivenUp, is_given_up);
    }

    // A callback is also given up if the deadline of its check was before the given time, even if its next attempt is
    // due much later.
    let late = check_sample::concluded(store, project, sample::later(10_000)).await;
    let is_given_up = async || {
        let TenantLookup::Found(callback) = store.find_callback(project, late.id).await.unwrap() else {
            panic!("no callback")
        };
        callback.state == CallbackState::GivenUp
    };
    store.give_up_overdue_callbacks(late.expires_at, 9).await.unwrap();
    assert!(!is_given_up().await);
    assert_eq!(
        store.give_up_overdue_callbacks(late.expires_at + jiff::SignedDuration::from_secs(1), 9).await.unwrap(),
        1
    );
    assert!(is_given_up().await);
}

/// A backlog of one project must not delay the due callbacks of other projects.
pub async fn lease_skips_projects(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (busy, other) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    for _ in 0..5 {
        check_sample::concluded(store, busy, sample::now()).await;
    }
    let check = check_sample::concluded(store, other, sample::later(1)).await.id;
    let lease = async |skip: &[ProjectId]| {
        store.lease_due_callbacks(sample::later(2), sample::later(60), 3, skip).await.unwrap()
    };
    let leased = lease(&[busy, ProjectId(sample::uuid())]).await;
    assert_eq!(leased.iter().map(|callback| callback.check).collect::<Vec<_>>(), [check]);
    assert_eq!(lease(&[busy, other]).await, []);
    assert_eq!(lease(&[other]).await.len(), 3, "skipped callbacks stay due");
}

pub async fn resends_and_logged_attempts_are_limited(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let workspace = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let check = check_sample::concluded(store, project, sample::now()).await.id;
    assert!(store.settle_attempt(settlement(check, 1, AttemptOutcome::Delivered)).await.unwrap());
    let resend = async || {
        let audit = sample::event(workspace.id, Action::CallbackResent);
        store.resend_callback(project, check, sample::later(100), &audit, None).await.unwrap()
    };
    for attempt in (2..).take(MAX_RESENDS as usize) {
        assert_eq!(resend().await, TenantLookup::Found(ResendOutcome::Queued));
        assert!(store.settle_attempt(settlement(check, attempt, AttemptOutcome::Delivered)).await.unwrap());
    }
    assert_eq!(resend().await, TenantLookup::Found(ResendOutcome::LimitReached));
    let record = record(store, project, check).await;
    assert_eq!(record.state, CallbackState::Delivered, "nothing was written");
    let kept: Vec<u32> = record.attempts.iter().map(|(number, _)| *number).collect();
    assert_eq!(kept, (2..=1 + MAX_LOGGED_ATTEMPTS).collect::<Vec<_>>(), "only the newest are kept");
    let events = store.list_audit_events(workspace.id, sample::ANY, sample::first_100()).await.unwrap().items;
    let resends = events.iter().filter(|event| event.action == Action::CallbackResent).count();
    assert_eq!(resends, MAX_RESENDS as usize);
}

fn all_times(project: ProjectId, selection: CallbackSelection) -> CallbackQuery {
    CallbackQuery { project, selection, product: None, created_after: None, created_before: None, limit: 9 }
}

pub async fn callbacks_are_listed_by_time(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let mut checks = vec![];
    for seconds in 0..5 {
        let check = check_sample::check(project, sample::later(seconds));
        store.create_check(check_sample::new(check.clone())).await.unwrap();
        // The check in the middle has no callback.
        let callback = (seconds != 2).then(|| check_sample::callback(sample::now()));
        let (conclusion, _) = check_sample::conclusion(check_sample::received(&check, true));
        store.conclude(conclusion, callback).await.unwrap();
        if seconds != 2 {
            assert!(store.settle_attempt(settlement(check.id, 1, AttemptOutcome::GivenUp)).await.unwrap());
        }
        assert_eq!(check.id.created_at(), sample::later(seconds));
        checks.push(check.id);
    }
    let position = |id| checks.iter().position(|check| *check == id).unwrap();
    let shown = |list: CallbackList| {
        let listed: Vec<_> = list.callbacks.into_iter().map(|callback| position(callback.check)).collect();
        (listed, list.cut_at.map(position))
    };
    for (selection, after, before, limit, expected) in [
        (CallbackSelection::All, None, None, 9, (vec![4, 3, 1, 0], None)),
        (CallbackSelection::All, Some(0), None, 9, (vec![4, 3, 1], None)),
        (CallbackSelection::All, None, Some(3), 9, (vec![1, 0], None)),
        (CallbackSelection::All, Some(0), Some(4), 9, (vec![3, 1], None)),
        (CallbackSelection::All, None, None, 2, (vec![4, 3], Some(3))),
        // The list is cut by the number of checks, of which some have no callback.
        (CallbackSelection::All, None, Some(3), 1, (vec![], Some(2))),
        (CallbackSelection::GivenUp, Some(0), Some(4), 9, (vec![3, 1], None)),
        (CallbackSelection::GivenUp, None, Some(4), 2, (vec![3, 1], Some(1))),
        (CallbackSelection::Failing, Some(2), None, 9, (vec![4, 3], None)),
        (CallbackSelection::Recovered, None, None, 9, (vec![], None)),
    ] {
        let [created_after, created_before] = [after, before].map(|seconds| seconds.map(sample::later));
        let query = CallbackQuery { created_after, created_before, limit, ..all_times(project, selection) };
        assert_eq!(shown(store.list_callbacks(query).await.unwrap()), expected, "{query:?}");
    }
}

pub async fn failing_callbacks_are_listed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let workspace = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let retry = AttemptOutcome::RetryAt(sample::later(10));
    let mut checks = vec![];
    let outcomes: [&[AttemptOutcome]; 6] = [
        &[],
        &[AttemptOutcome::Delivered],
        &[retry, AttemptOutcome::Delivered],
        &[retry],
        &[retry, AttemptOutcome::GivenUp],
        &[AttemptOutcome::Delivered],
    ];
    for outcomes in outcomes {
        let check = check_sample::concluded(store, project, sample::now()).await.id;
        for (attempt, outcome) in (1..).zip(outcomes) {
            assert!(store.settle_attempt(settlement(check, attempt, *outcome)).await.unwrap());
        }
        checks.push(check);
    }
    let audit = sample::event(workspace.id, Action::CallbackResent);
    store.resend_callback(project, checks[5], sample::later(100), &audit, None).await.unwrap();
    let list = store.list_callbacks(all_times(project, CallbackSelection::Failing)).await.unwrap();
    let failing: BTreeSet<_> = list.callbacks.into_iter().map(|callback| callback.check).collect();
    assert_eq!(failing, BTreeSet::from([checks[3], checks[4], checks[5]]));
}

pub async fn attempts_are_listed_by_check(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (project, other) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    let one = check_sample::concluded(store, project, sample::now()).await.id;
    let two = check_sample::concluded(store, project, sample::now()).await.id;
    let foreign = check_sample::concluded(store, other, sample::now()).await.id;
    let retry = AttemptOutcome::RetryAt(sample::later(10));
    for (check, attempt) in [(one, 1), (one, 2), (two, 1), (foreign, 1)] {
        assert!(store.settle_attempt(settlement(check, attempt, retry)).await.unwrap());
    }
    let attempt = |check, number: u32| {
        let AttemptRecord { started_at, ended_at, status, failure, .. } = log(number.into());
        AttemptSummary { check, started_at, ended_at, status, failure }
    };
    let list = async |checks: &[CheckId], limit| store.list_attempts(project, checks.to_vec(), limit).await.unwrap();
    assert_eq!(list(&[one], 9).await, [attempt(one, 2), attempt(one, 1)]);
    assert_eq!(list(&[one, two, foreign], 9).await.len(), 3, "attempts of other projects are not listed");
    assert_eq!(list(&[one], 1).await, [attempt(one, 2)]);
    assert_eq!(list(&[], 9).await, []);
}

pub async fn callbacks_are_listed_by_state(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let workspace = sample::stored_workspace(store).await;
    let (project, other) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    let concluded = async |project| check_sample::concluded(store, project, sample::now()).await.id;
    let settle = async |check, attempt, outcome| {
        assert!(store.settle_attempt(settlement(check, attempt, outcome)).await.unwrap());
    };
    let retry = AttemptOutcome::RetryAt(sample::later(10));
    let (given_up, retrying, recovered) =
        (concluded(project).await, concluded(project).await, concluded(project).await);
    let (delivered, waiting, others) = (concluded(project).await, concluded(project).await, concluded(other).await);
    for check in [given_up, retrying, recovered, others] {
        settle(check, 1, retry).await;
    }
    settle(given_up, 2, AttemptOutcome::GivenUp).await;
    settle(recovered, 2, AttemptOutcome::Delivered).await;
    settle(delivered, 1, AttemptOutcome::Delivered).await;

    let query = |selection| all_times(project, selection);
    let list = async |query| store.list_callbacks(query).await.unwrap().callbacks;
    let attempt = |number: u32, status, failure: Option<&str>| LastAttempt {
        number,
        ended_at: sample::later(i64::from(number) + 1),
        status,
        failure: failure.map(str::to_owned),
    };
    let expected = |check, state, last_attempt| ListedCallback {
        check,
        product: Product::ReverseSms,
        url: Sealed(b"sealed url".to_vec()),
        is_erased: false,
        created_at: sample::later(7),
        state,
        resends: 0,
        last_attempt: Some(last_attempt),
    };
    assert_eq!(
        list(query(CallbackSelection::GivenUp)).await,
        [expected(given_up, CallbackState::GivenUp, attempt(2, Some(503), None))]
    );
    let waits =
        expected(retrying, CallbackState::Waiting { due_at: sample::later(10) }, attempt(1, None, Some("timeout")));
    assert_eq!(list(query(CallbackSelection::Retrying)).await, [waits]);
    assert_eq!(
        list(query(CallbackSelection::Recovered)).await,
        [expected(recovered, CallbackState::Delivered, attempt(2, Some(503), None))]
    );

    let given_up_query = query(CallbackSelection::GivenUp);
    for (query, count) in [
        (CallbackQuery { product: Some(Product::ReverseSms), ..given_up_query }, 1),
        (CallbackQuery { product: Some(Product::Discovery), ..given_up_query }, 0),
        (CallbackQuery { created_after: Some(sample::now()), ..given_up_query }, 0),
        (CallbackQuery { project: ProjectId(sample::uuid()), ..given_up_query }, 0),
    ] {
        assert_eq!(list(query).await.len(), count, "{query:?}");
    }

    // Lists the callbacks of the project's newest checks, whatever their state.
    let all = query(CallbackSelection::All);
    let mut every = [given_up, retrying, recovered, delivered, waiting];
    every.sort_unstable_by(|one, other| other.cmp(one));
    let listed = list(all).await;
    assert_eq!(listed.iter().map(|callback| callback.check).collect::<Vec<_>>(), every);
    let find = |check| listed.iter().find(|callback| callback.check == check).unwrap();
    let first = attempt(1, None, Some("timeout"));
    assert_eq!(find(delivered), &expected(delivered, CallbackState::Delivered, first));
    assert_eq!(find(waiting).last_attempt, None);
    for (query, count) in [
        (CallbackQuery { product: Some(Product::ReverseSms), ..all }, 5),
        (CallbackQuery { product: Some(Product::Verification), ..all }, 0),
        (CallbackQuery { created_after: Some(sample::now()), ..all }, 0),
        (CallbackQuery { project: other, ..all }, 1),
        (CallbackQuery { limit: 2, ..all }, 2),
    ] {
        assert_eq!(list(query).await.len(), count, "{query:?}");
    }

    // The list includes a callback that was given up before its first attempt.
    assert_eq!(store.give_up_overdue_callbacks(sample::later(1), 9).await.unwrap(), 1);
    let listed = list(given_up_query).await;
    let (newest, oldest) = (waiting.max(given_up), waiting.min(given_up));
    assert_eq!(listed.iter().map(|callback| callback.check).collect::<Vec<_>>(), [newest, oldest]);
    assert!(listed.iter().any(|callback| callback.check == waiting && callback.last_attempt.is_none()));
    assert_eq!(list(CallbackQuery { limit: 1, ..given_up_query }).await[0].check, newest);

    // A resend counts as waiting until it has a result, and then counts by its result.
    let progress = async |since: i64| {
        let checks = oldest..=newest;
        store.resend_progress(project, checks, sample::later(since)).await.unwrap()
    };
    assert_eq!(progress(0).await, ResendProgress::default());
    for check in [given_up, waiting] {
        let audit = sample::event(workspace.id, Action::CallbackResent);
        let resent = store.resend_callback(project, check, sample::later(100), &audit, None).await.unwrap();
        assert_eq!(resent, TenantLookup::Found(ResendOutcome::Queued));
    }
    assert_eq!(progress(0).await, ResendProgress { waiting: 2, ..ResendProgress::default() });
    settle(waiting, 1, AttemptOutcome::Delivered).await;
    settle(given_up, 3, AttemptOutcome::GivenUp).await;
    assert_eq!(progress(0).await, ResendProgress { delivered: 1, given_up: 1, waiting: 0 });
    assert_eq!(progress(3).await, ResendProgress { given_up: 1, ..ResendProgress::default() });
    assert_eq!(progress(99).await, ResendProgress::default());
    assert_eq!(list(given_up_query).await[0].resends, 1);
    fixture.database.execute("update callbacks set body = null where state <> 'waiting'").await;
    assert!(list(given_up_query).await[0].is_erased);
}
