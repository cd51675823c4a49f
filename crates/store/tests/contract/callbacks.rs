use std::collections::BTreeSet;

use futures_util::future::join_all;
use ringtrue_domain::{
    audit::Action,
    lifecycle::{CheckId, Sealed},
    product::Product,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    AttemptLog, CallbackRecord, CallbackState, Found, LeasedCallback, MAX_ATTEMPTS_KEPT, MAX_RESENDS, Recorded, Resent,
    Settlement, Store, Then,
};

use crate::{bench::Bench, check_sample, sample};

fn log(number: i64) -> AttemptLog {
    AttemptLog {
        started_at: sample::later(number),
        ended_at: sample::later(number + 1),
        status: (number % 2 == 0).then_some(503),
        failure: (number % 2 == 1).then(|| "timeout".to_owned()),
        exchange: Some(Sealed(vec![7; 20])),
    }
}

pub fn settlement(check: CheckId, attempt: u32, then: Then) -> Settlement {
    Settlement { check, attempt, then, log: log(attempt.into()) }
}

async fn record(store: &dyn Store, project: ProjectId, check: CheckId) -> CallbackRecord {
    match store.callback(project, check).await.unwrap() {
        Found::Mine(record) => record,
        other => panic!("{other:?}"),
    }
}

pub async fn an_end_queues_its_callback(bench: &Bench) {
    let store = &*bench.store;
    assert_eq!(store.next_due().await.unwrap(), None);
    let check = check_sample::ended(store, ProjectId(sample::uuid()), sample::later(30)).await;
    let expected = CallbackRecord {
        check: check.id,
        product: Product::ReverseSms,
        url: Sealed(b"sealed url".to_vec()),
        body: Some(Sealed(b"sealed body".to_vec())),
        state: CallbackState::Waiting { due_at: sample::later(30) },
        attempts: vec![],
    };
    assert_eq!(record(store, check.project, check.id).await, expected);
    assert_eq!(store.callback(ProjectId(sample::uuid()), check.id).await.unwrap(), Found::SomeoneElses);
    assert_eq!(store.next_due().await.unwrap(), Some(sample::later(30)));
    let without = check_sample::stored(store, check.project).await;
    store.conclude(check_sample::ending(without.clone().expire().unwrap()).0, None).await.unwrap();
    assert_eq!(store.callback(check.project, without.id).await.unwrap(), Found::Nothing);
}

pub async fn an_end_that_comes_late_queues_nothing(bench: &Bench) {
    let store = &*bench.store;
    let check = check_sample::ended(store, ProjectId(sample::uuid()), sample::now()).await;
    let late = check_sample::check(check.project, sample::now());
    let late = ringtrue_domain::lifecycle::Check { id: check.id, ..late };
    let (ending, _) = check_sample::ending(late.expire().unwrap());
    let recorded = store.conclude(ending, Some(check_sample::callback(sample::later(99)))).await.unwrap();
    assert_eq!(recorded, Recorded::AlreadyConcluded);
    let state = record(store, check.project, check.id).await.state;
    assert_eq!(state, CallbackState::Waiting { due_at: sample::now() });
}

/// The callback's place is taken, so it cannot be queued: then the check has not ended either.
pub async fn a_check_does_not_end_without_its_callback(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let checks = join_all((0..20).map(|_| check_sample::stored(store, project))).await;
    bench
        .database
        .execute(
            "insert into callbacks (check_id, project_id, created_at, failed_attempts, state, product, url)
             select id, project_id, 0, 0, 'delivered', product, number_hash from checks order by id limit 1",
        )
        .await;
    let unlucky = checks.iter().map(|check| check.id).min().unwrap();
    let ends = checks.iter().map(|check| {
        let (ending, _) = check_sample::ending(check_sample::received(check, true));
        store.conclude(ending, Some(check_sample::callback(sample::now())))
    });
    for (check, recorded) in checks.iter().zip(join_all(ends).await) {
        assert_eq!(recorded.is_ok(), check.id != unlucky, "{recorded:?}");
        assert_eq!(check_sample::found(store, check).await.updated_at().is_some(), check.id != unlucky);
    }
}

pub async fn what_is_due_is_leased_longest_due_first(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for due in [3, 1, 2, 4] {
        checks.push(check_sample::ended(store, project, sample::later(due)).await.id);
    }
    let ids = |leased: Vec<LeasedCallback>| leased.into_iter().map(|callback| callback.check).collect::<Vec<_>>();
    let lease = |now, until, limit| store.lease_due(sample::later(now), sample::later(until), limit, &[]);
    assert_eq!(ids(lease(0, 60, 9).await.unwrap()), []);
    let first = lease(3, 60, 2).await.unwrap();
    assert_eq!(first[0].url, Sealed(b"sealed url".to_vec()));
    assert_eq!(first[0].body, Sealed(b"sealed body".to_vec()));
    assert_eq!((first[0].project, first[0].product, first[0].failed_attempts), (project, Product::ReverseSms, 0));
    assert_eq!(ids(first), [checks[1], checks[2]]);
    assert_eq!(ids(lease(5, 60, 9).await.unwrap()), [checks[0], checks[3]]);
    assert_eq!(store.next_due().await.unwrap(), Some(sample::later(60)), "leases that run out are due");
    assert_eq!(ids(lease(59, 120, 9).await.unwrap()), []);
    assert_eq!(ids(lease(60, 120, 9).await.unwrap()).len(), 4, "whoever held them has died");
}

pub async fn no_two_lease_the_same_callback(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let project = ProjectId(sample::uuid());
    join_all((0..60).map(|_| check_sample::ended(&*bench.store, project, sample::now()))).await;
    let mut seen = BTreeSet::new();
    while seen.len() < 60 {
        let claims = (0..8).map(|number| stores[number % 2].lease_due(sample::later(1), sample::later(60), 7, &[]));
        for callback in join_all(claims).await.into_iter().flat_map(Result::unwrap) {
            assert!(seen.insert(callback.check), "leased twice");
        }
    }
}

pub async fn an_attempt_is_settled_once(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let check = check_sample::ended(store, project, sample::now()).await.id;
    let retry = Then::RetryAt(sample::later(10));
    assert!(!store.settle(settlement(check, 2, retry)).await.unwrap(), "the first attempt is still to be made");
    assert!(store.settle(settlement(check, 1, retry)).await.unwrap());
    assert!(!store.settle(settlement(check, 1, Then::Delivered)).await.unwrap());
    let leased = store.lease_due(sample::later(10), sample::later(60), 9, &[]).await.unwrap();
    assert_eq!(leased.iter().map(|callback| callback.failed_attempts).collect::<Vec<_>>(), [1]);

    let settled = join_all((0..30).map(|_| store.settle(settlement(check, 2, Then::Delivered)))).await;
    assert_eq!(settled.into_iter().filter(|settled| *settled.as_ref().unwrap()).count(), 1);
    let record = record(store, project, check).await;
    assert_eq!((record.state, record.attempts), (CallbackState::Delivered, vec![(1, log(1)), (2, log(2))]));
    assert_eq!(store.next_due().await.unwrap(), None);
    assert!(!store.settle(settlement(CheckId(sample::uuid()), 1, Then::Delivered)).await.unwrap());
}

pub async fn many_attempts_are_settled_at_once(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let checks = join_all((0..40).map(|_| check_sample::ended(store, project, sample::now()))).await;
    let settled = join_all(checks.iter().map(|check| store.settle(settlement(check.id, 1, Then::GivenUp)))).await;
    assert!(settled.into_iter().all(Result::unwrap));
    for check in checks {
        assert_eq!(record(store, project, check.id).await.state, CallbackState::GivenUp);
    }
}

pub async fn a_lease_is_given_back(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let due = sample::later(60);
    let mut checks = Vec::new();
    for _ in 0..3 {
        checks.push(check_sample::ended(store, project, due).await.id);
    }
    store.settle(settlement(checks[1], 1, Then::Delivered)).await.unwrap();
    let held = |checks: &[CheckId], until| checks.iter().map(|check| (*check, until)).collect::<Vec<_>>();
    store.release(held(&checks[..2], due), sample::now()).await.unwrap();
    // Those that somebody else holds by now are left alone.
    store.release(held(&checks, sample::later(59)), sample::now()).await.unwrap();
    let leased = store.lease_due(sample::now(), due, 9, &[]).await.unwrap();
    assert_eq!(leased.iter().map(|callback| callback.check).collect::<Vec<_>>(), [checks[0]]);
    assert_eq!(record(store, project, checks[2]).await.state, CallbackState::Waiting { due_at: due });
    assert_eq!(record(store, project, checks[1]).await.state, CallbackState::Delivered);
}

pub async fn a_callback_is_sent_again_in_a_new_series(bench: &Bench) {
    let store = &*bench.store;
    let workspace = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let check = check_sample::ended(store, project, sample::now()).await.id;
    let resend = async |project, check| {
        let audit = sample::event(workspace.id, Action::CallbackResent);
        store.resend(project, check, sample::later(100), &audit, None).await.unwrap()
    };
    assert_eq!(resend(project, check).await, Found::Mine(Resent::StillWaiting));
    assert!(store.settle(settlement(check, 1, Then::RetryAt(sample::later(10)))).await.unwrap());
    assert!(store.settle(settlement(check, 2, Then::Delivered)).await.unwrap());

    assert_eq!(resend(ProjectId(sample::uuid()), check).await, Found::SomeoneElses);
    assert_eq!(resend(project, CheckId(sample::uuid())).await, Found::Nothing);
    assert_eq!(resend(project, check).await, Found::Mine(Resent::Queued));
    assert_eq!(resend(project, check).await, Found::Mine(Resent::StillWaiting));
    assert_eq!(record(store, project, check).await.state, CallbackState::Waiting { due_at: sample::later(100) });
    let leased = store.lease_due(sample::later(100), sample::later(130), 9, &[]).await.unwrap();
    assert_eq!((leased[0].failed_attempts, leased[0].earlier_attempts), (2, 2));

    assert!(store.settle(settlement(check, 3, Then::GivenUp)).await.unwrap());
    let ended = record(store, project, check).await;
    assert_eq!((ended.state, ended.attempts.len()), (CallbackState::GivenUp, 3));
    let events = store.audit_events(workspace.id, sample::ANY, sample::whole()).await.unwrap().items;
    assert_eq!(events.iter().filter(|event| event.action == Action::CallbackResent).count(), 1);

    bench.database.execute("update callbacks set body = null").await;
    assert_eq!(resend(project, check).await, Found::Mine(Resent::Erased));
}

pub async fn callbacks_long_overdue_are_given_up(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for due in [10, 20, 30] {
        checks.push(check_sample::ended(store, project, sample::later(due)).await.id);
    }
    assert_eq!(store.give_up_overdue(sample::later(30), 1).await.unwrap(), 1);
    assert_eq!(store.give_up_overdue(sample::later(30), 9).await.unwrap(), 1);
    assert_eq!(store.give_up_overdue(sample::later(30), 9).await.unwrap(), 0);
    for (check, is_given_up) in checks.into_iter().zip([true, true, false]) {
        let Found::Mine(callback) = store.callback(project, check).await.unwrap() else { panic!("no callback") };
        assert_eq!(callback.state == CallbackState::GivenUp, is_given_up);
    }

    // Its check expires after 300 seconds: that is too long ago as well, however late the callback is due.
    let late = check_sample::ended(store, project, sample::later(10_000)).await;
    let is_given_up = async || {
        let Found::Mine(callback) = store.callback(project, late.id).await.unwrap() else { panic!("no callback") };
        callback.state == CallbackState::GivenUp
    };
    store.give_up_overdue(late.expires_at, 9).await.unwrap();
    assert!(!is_given_up().await);
    assert_eq!(store.give_up_overdue(late.expires_at + jiff::SignedDuration::from_secs(1), 9).await.unwrap(), 1);
    assert!(is_given_up().await);
}

/// A backlog of one project must not hide what others have due.
pub async fn projects_can_be_passed_over_when_leasing(bench: &Bench) {
    let store = &*bench.store;
    let (busy, other) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    for _ in 0..5 {
        check_sample::ended(store, busy, sample::now()).await;
    }
    let check = check_sample::ended(store, other, sample::later(1)).await.id;
    let lease = async |skip: &[ProjectId]| store.lease_due(sample::later(2), sample::later(60), 3, skip).await.unwrap();
    let leased = lease(&[busy, ProjectId(sample::uuid())]).await;
    assert_eq!(leased.iter().map(|callback| callback.check).collect::<Vec<_>>(), [check]);
    assert_eq!(lease(&[busy, other]).await, []);
    assert_eq!(lease(&[other]).await.len(), 3, "what was passed over is as due as before");
}

pub async fn resends_and_kept_attempts_are_bounded(bench: &Bench) {
    let store = &*bench.store;
    let workspace = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let check = check_sample::ended(store, project, sample::now()).await.id;
    assert!(store.settle(settlement(check, 1, Then::Delivered)).await.unwrap());
    let resend = async || {
        let audit = sample::event(workspace.id, Action::CallbackResent);
        store.resend(project, check, sample::later(100), &audit, None).await.unwrap()
    };
    for attempt in (2..).take(MAX_RESENDS as usize) {
        assert_eq!(resend().await, Found::Mine(Resent::Queued));
        assert!(store.settle(settlement(check, attempt, Then::Delivered)).await.unwrap());
    }
    assert_eq!(resend().await, Found::Mine(Resent::LimitReached));
    let record = record(store, project, check).await;
    assert_eq!(record.state, CallbackState::Delivered, "nothing was written");
    let kept: Vec<u32> = record.attempts.iter().map(|(number, _)| *number).collect();
    assert_eq!(kept, (2..=1 + MAX_ATTEMPTS_KEPT).collect::<Vec<_>>(), "the newest");
    let events = store.audit_events(workspace.id, sample::ANY, sample::whole()).await.unwrap().items;
    let resends = events.iter().filter(|event| event.action == Action::CallbackResent).count();
    assert_eq!(resends, MAX_RESENDS as usize);
}
