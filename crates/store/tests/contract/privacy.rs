use ringtrue_domain::{
    audit::{Action, AuditEvent},
    lifecycle::{Check, CheckId, CheckStatus, DiscoveredNumber, ErrorCode, Sealed, StoredNumber, Verdict},
    product::Product,
    reverse_sms::ReverseSmsCheck,
    silent::{OperatorVerdict, SilentCheck},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    callbacks::{AttemptOutcome, AttemptRecord, AttemptSettlement, CallbackRecord, CallbackState},
    checks::CreateCheckOutcome,
    combined::Store,
    privacy::{DeferredErasure, ErasureCounts},
    store::TenantLookup,
};

use crate::{check_sample, fixture::StoreFixture, sample, silent_sample};

async fn record(store: &dyn Store, project: ProjectId, check: CheckId) -> CallbackRecord {
    match store.find_callback(project, check).await.unwrap() {
        TenantLookup::Found(record) => record,
        other => panic!("{other:?}"),
    }
}

async fn settle(store: &dyn Store, check: CheckId, attempt: u32, outcome: AttemptOutcome) {
    let log = AttemptRecord {
        started_at: sample::now(),
        ended_at: sample::now(),
        status: Some(500),
        failure: None,
        exchange: Some(Sealed(b"sealed".to_vec())),
    };
    assert!(store.settle_attempt(AttemptSettlement { check, attempt, outcome, log }).await.unwrap());
}

async fn fail_once(store: &dyn Store, check: CheckId) {
    settle(store, check, 1, AttemptOutcome::RetryAt(sample::later(10))).await;
}

pub async fn number_is_erased(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let concluded = check_sample::concluded(store, project, sample::now()).await;
    let number = concluded.claimed.unwrap().hash;
    fail_once(store, concluded.id).await;
    let open = Check { claimed: concluded.claimed, ..check_sample::check(project, sample::now()) };
    store.create_check(check_sample::new(open.clone())).await.unwrap();
    let other = check_sample::concluded(store, project, sample::now()).await;

    let event = sample::event(acme.id, Action::ProjectUpdated);
    let erased = store.erase_number(number, &event).await.unwrap();
    let deferred = Some(DeferredErasure { checks: 1, until: open.expires_at });
    assert_eq!(erased, ErasureCounts { checks: 1, callbacks: 0, attempts: 1, deferred });
    let changes = vec!["open_checks=1".to_owned(), format!("open_until={:.3}", open.expires_at)];
    let events = store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap();
    assert_eq!(events.items[0], AuditEvent { changes, ..event });

    assert_eq!(check_sample::find(store, &concluded).await, Check { claimed: None, ..concluded.clone() });
    let callback = record(store, project, concluded.id).await;
    assert!(callback.body.is_some(), "its callback is still waiting");
    assert_eq!(callback.state, CallbackState::Waiting { due_at: sample::later(10) });
    let (first, attempt) = &callback.attempts[0];
    assert_eq!((*first, attempt.status, attempt.exchange.clone()), (1, Some(500), None));
    assert_eq!(check_sample::find(store, &open).await, open, "open checks keep their number");
    assert_eq!(check_sample::find(store, &other).await, other);
    assert!(record(store, project, other.id).await.body.is_some());

    // Only the open check is left to erase. Erased checks do not count towards the limit of checks for the number.
    let again = store.erase_number(number, &sample::event(acme.id, Action::ProjectUpdated)).await.unwrap();
    assert_eq!(again, ErasureCounts { deferred, ..ErasureCounts::default() });
    for _ in 0..4 {
        let next = Check { claimed: concluded.claimed, ..check_sample::check(project, sample::now()) };
        let new = check_sample::new(next);
        assert_eq!(store.create_check(new).await.unwrap(), CreateCheckOutcome::Created);
    }
}

pub async fn old_checks_are_erased_in_batches(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for _ in 0..5 {
        let concluded = check_sample::concluded(store, project, sample::now()).await;
        fail_once(store, concluded.id).await;
        checks.push(concluded);
    }
    let open = check_sample::store_check(store, project).await;
    let ended_at = checks[0].updated_at().unwrap();
    assert_eq!(store.erase_old_checks(ended_at, 9).await.unwrap(), ErasureCounts::default(), "the bound is exclusive");
    let later = sample::later(86_400);
    let mut erased = Vec::new();
    for _ in 0..4 {
        erased.push(store.erase_old_checks(later, 2).await.unwrap().checks);
    }
    assert_eq!(erased, [2, 2, 1, 0]);
    for check in &checks {
        assert_eq!(check_sample::find(store, check).await.claimed, None);
        let callback = record(store, project, check.id).await;
        assert_eq!((callback.body, callback.state, callback.attempts), (None, CallbackState::GivenUp, vec![]));
    }
    assert_eq!(check_sample::find(store, &open).await, open);
}

/// Returns a Discovery check as it is after the erasure of its number.
fn without_number(check: &SilentCheck) -> SilentCheck {
    check.clone().map(|_| OperatorVerdict::Number(DiscoveredNumber { number: None, sealed: None }))
}

/// Returns a check as it is after its complete erasure.
fn fully_erased(check: SilentCheck) -> SilentCheck {
    Check { claimed: None, callback_url: None, redirect_url: None, ..check }
}

pub async fn discovered_numbers_are_erased_earlier(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let mut discovered = Vec::new();
    for _ in 0..3 {
        discovered.push(silent_sample::redeemed(store, project, Product::Discovery).await);
    }
    let proved = silent_sample::redeemed(store, project, Product::SecureSna).await;
    let open = silent_sample::store_check(store, project, Product::Discovery).await;
    let expired = silent_sample::store_check(store, project, Product::Discovery).await;
    let (conclusion, expired) = check_sample::conclusion(expired.expire().unwrap());
    store.conclude(conclusion, Some(check_sample::callback(sample::now()))).await.unwrap();

    let ended_at = discovered[0].updated_at().unwrap();
    assert_eq!(
        store.erase_discovered_numbers(ended_at, 9).await.unwrap(),
        ErasureCounts::default(),
        "the bound is exclusive"
    );
    let mut erased = Vec::new();
    for _ in 0..3 {
        let ErasureCounts { checks, callbacks, .. } =
            store.erase_discovered_numbers(sample::later(600), 2).await.unwrap();
        erased.push((checks, callbacks));
    }
    assert_eq!(erased, [(2, 2), (2, 2), (0, 0)], "the expired check had a callback, too");
    for check in &discovered {
        let found = check_sample::find(store, check).await;
        assert_eq!((found.status(), &found), (CheckStatus::Completed, &fully_erased(without_number(check))));
        let callback = record(store, project, check.id).await;
        assert_eq!((callback.body, callback.state), (None, CallbackState::GivenUp));
    }
    for check in [&proved, &open] {
        assert_eq!(check_sample::find(store, check).await, *check);
    }
    assert!(record(store, project, proved.id).await.body.is_some());
    assert_eq!(record(store, project, expired.id).await.body, None);
    assert_eq!(check_sample::find(store, &expired).await, fully_erased(expired.clone()));
    assert!(silent_sample::redirect_session(store, &open).await.session.is_some());
    assert_eq!(
        store.erase_old_checks(sample::later(600), 9).await.unwrap().checks,
        1,
        "Secure SNA is kept as long as others"
    );
    let found = check_sample::find(store, &proved).await;
    assert_eq!(found, fully_erased(proved));
}

pub async fn discovered_number_is_erased_by_hash(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let [settled, waiting, other] = [
        silent_sample::redeemed(store, project, Product::Discovery).await,
        silent_sample::redeemed(store, project, Product::Discovery).await,
        silent_sample::redeemed(store, project, Product::Discovery).await,
    ];
    let hash = |check: &SilentCheck| check.verdict().unwrap().discovered_number().unwrap().number.unwrap().hash;
    fail_once(store, settled.id).await;
    let (_, log) = record(store, project, settled.id).await.attempts.remove(0);
    let delivered = AttemptSettlement { check: settled.id, attempt: 2, outcome: AttemptOutcome::Delivered, log };
    assert!(store.settle_attempt(delivered).await.unwrap());

    // The URL of a callback is erased immediately if its delivery has ended, and later if the callback is still
    // waiting.
    let settled_after = fully_erased(without_number(&settled));
    let waiting_after = Check { redirect_url: None, ..without_number(&waiting) };
    for (check, callbacks, attempts, then) in [(&settled, 1, 2, settled_after), (&waiting, 0, 0, waiting_after)] {
        let audit = sample::event(acme.id, Action::NumberErased);
        let erased = store.erase_number(hash(check), &audit).await.unwrap();
        assert_eq!(erased, ErasureCounts { checks: 1, callbacks, attempts, deferred: None });
        assert_eq!(check_sample::find(store, check).await, then);
    }
    let callback = record(store, project, settled.id).await;
    assert_eq!((callback.body, callback.url), (None, Sealed(vec![])));
    assert!(record(store, project, waiting.id).await.body.is_some(), "its callback is still waiting");
    assert_eq!(check_sample::find(store, &other).await, other);

    // The waiting callback is erased when old checks are erased.
    let erased = store.erase_old_checks(sample::later(600), 9).await.unwrap();
    assert_eq!((erased.checks, erased.callbacks), (2, 2));
    let callback = record(store, project, waiting.id).await;
    assert_eq!((callback.body, callback.url), (None, Sealed(vec![])));
    for check in [&waiting, &other] {
        assert_eq!(check_sample::find(store, check).await, fully_erased(without_number(check)));
    }
}

/// The redirect URL is erased even though the check has neither a number nor a callback.
pub async fn redirect_url_is_erased(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let open = silent_sample::check(project, Product::Discovery, sample::now());
    let open = Check { callback_url: None, ..open };
    store.create_check(silent_sample::new(open.clone())).await.unwrap();
    assert_eq!(
        store.erase_discovered_numbers(sample::later(600), 9).await.unwrap(),
        ErasureCounts::default(),
        "the check is still open"
    );
    let (conclusion, expired) = check_sample::conclusion(open.expire().unwrap());
    store.conclude(conclusion, None).await.unwrap();
    assert_eq!(check_sample::find(store, &expired).await, expired);

    let erased = store.erase_discovered_numbers(sample::later(600), 9).await.unwrap();
    assert_eq!(erased, ErasureCounts { checks: 1, ..ErasureCounts::default() });
    assert_eq!(check_sample::find(store, &expired).await, fully_erased(expired));
    assert_eq!(store.erase_discovered_numbers(sample::later(600), 9).await.unwrap(), ErasureCounts::default());
}

pub async fn settled_callback_is_erased_with_its_number(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let sent = check_sample::concluded(store, project, sample::now()).await;
    let log = AttemptRecord {
        started_at: sample::now(),
        ended_at: sample::now(),
        status: Some(200),
        failure: None,
        exchange: None,
    };
    assert!(
        store
            .settle_attempt(AttemptSettlement { check: sent.id, attempt: 1, outcome: AttemptOutcome::Delivered, log })
            .await
            .unwrap()
    );
    let silent = silent_sample::store_check(store, project, Product::SecureSna).await;
    let (conclusion, silent) = check_sample::conclusion(silent.expire().unwrap());
    store.conclude(conclusion, None).await.unwrap();

    for number in [sent.claimed, silent.claimed].map(|claimed| claimed.unwrap().hash) {
        let erased = store.erase_number(number, &sample::event(acme.id, Action::NumberErased)).await.unwrap();
        assert_eq!((erased.checks, erased.deferred), (1, None));
    }
    assert_eq!(check_sample::find(store, &sent).await, Check { claimed: None, callback_url: None, ..sent });
    assert_eq!(check_sample::find(store, &silent).await, fully_erased(silent));
}

/// Stores open checks of one number, and requests the erasure of the number, which is deferred because they are open.
async fn deferred_checks<const N: usize>(store: &dyn Store, project: ProjectId) -> [ReverseSmsCheck; N] {
    let claimed = check_sample::check(project, sample::now()).claimed;
    let open = [(); N].map(|()| Check { claimed, ..check_sample::check(project, sample::now()) });
    for check in &open {
        assert_eq!(store.create_check(check_sample::new(check.clone())).await.unwrap(), CreateCheckOutcome::Created);
    }
    assert_eq!(request_erasure(store, claimed).await.deferred.unwrap().checks, N as u64);
    open
}

async fn request_erasure(store: &dyn Store, claimed: Option<StoredNumber>) -> ErasureCounts {
    let acme = sample::stored_workspace(store).await;
    let audit = sample::event(acme.id, Action::NumberErased);
    store.erase_number(claimed.unwrap().hash, &audit).await.unwrap()
}

pub async fn open_check_is_erased_after_its_conclusion(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let [completed, expired, open] = deferred_checks(store, project).await;
    let failed = silent_sample::store_check(store, project, Product::SecureSna).await;
    assert_eq!(request_erasure(store, failed.claimed).await.deferred.unwrap().checks, 1);
    let later = Check { claimed: open.claimed, ..check_sample::check(project, sample::now()) };
    store.create_check(check_sample::new(later.clone())).await.unwrap();
    assert_eq!(store.erase_deferred(9).await.unwrap(), ErasureCounts::default(), "open checks keep their number");

    let (completion, completed) = check_sample::conclusion(check_sample::received(&completed, true));
    let (expiry, expired) = check_sample::conclusion(expired.expire().unwrap());
    let (failure, failed) =
        check_sample::conclusion(failed.conclude_with_error(ErrorCode::MnoTimeout, sample::later(7)).unwrap());
    let (conclusion, later) = check_sample::conclusion(check_sample::received(&later, true));
    for conclusion in [completion, expiry, failure, conclusion] {
        store.conclude(conclusion, None).await.unwrap();
    }

    assert_eq!(store.erase_deferred(9).await.unwrap(), ErasureCounts { checks: 3, ..ErasureCounts::default() });
    for check in [completed, expired] {
        assert_eq!(check_sample::find(store, &check).await, Check { claimed: None, callback_url: None, ..check });
    }
    assert_eq!(check_sample::find(store, &failed).await, fully_erased(failed));
    assert_eq!(check_sample::find(store, &open).await, open);
    assert_eq!(check_sample::find(store, &later).await, later, "created after the erasure");
    assert_eq!(store.erase_deferred(9).await.unwrap(), ErasureCounts::default());
}

pub async fn waiting_callback_is_erased_after_its_settlement(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let [delivered, given_up] = deferred_checks(store, project).await;
    for check in [&delivered, &given_up] {
        let (conclusion, _) = check_sample::conclusion(check_sample::received(check, true));
        store.conclude(conclusion, Some(check_sample::callback(sample::now()))).await.unwrap();
    }
    // The third check is concluded before its erasure is requested, so nothing is deferred.
    let concluded = check_sample::concluded(store, project, sample::now()).await;
    assert_eq!(request_erasure(store, concluded.claimed).await.deferred, None);

    assert_eq!(
        store.erase_deferred(9).await.unwrap(),
        ErasureCounts { checks: 2, ..ErasureCounts::default() },
        "numbers are erased immediately"
    );
    assert_eq!(store.erase_deferred(9).await.unwrap(), ErasureCounts::default());
    let all = [delivered.id, given_up.id, concluded.id];
    let due = store.lease_due_callbacks(sample::now(), sample::later(30), 9, &[]).await.unwrap();
    assert_eq!(due.len(), all.len(), "all callbacks are waiting");
    for id in all {
        assert!(record(store, project, id).await.body.is_some());
        settle(store, id, 1, AttemptOutcome::RetryAt(sample::later(10))).await;
    }
    assert_eq!(store.erase_deferred(9).await.unwrap(), ErasureCounts::default(), "the callbacks are retried");

    for (id, then) in
        all.into_iter().zip([AttemptOutcome::Delivered, AttemptOutcome::GivenUp, AttemptOutcome::Delivered])
    {
        settle(store, id, 2, then).await;
    }
    let erased = store.erase_deferred(9).await.unwrap();
    assert_eq!(erased, ErasureCounts { checks: 3, callbacks: 3, attempts: 6, deferred: None });
    for (id, state) in [(delivered.id, CallbackState::Delivered), (given_up.id, CallbackState::GivenUp)] {
        let callback = record(store, project, id).await;
        assert_eq!((callback.body, callback.url, callback.state), (None, Sealed(vec![]), state));
    }
    assert_eq!(store.erase_deferred(9).await.unwrap(), ErasureCounts::default());
}

pub async fn deferred_erasures_run_in_batches(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let open: [_; 5] = deferred_checks(store, project).await;
    for check in &open[..4] {
        let (conclusion, _) = check_sample::conclusion(check.clone().expire().unwrap());
        store.conclude(conclusion, None).await.unwrap();
    }
    // Old checks are erased even if their erasure by number is deferred. The deferred erasure is then not repeated.
    assert_eq!(store.erase_old_checks(sample::later(600), 1).await.unwrap().checks, 1);
    let mut erased = Vec::new();
    for _ in 0..3 {
        erased.push(store.erase_deferred(2).await.unwrap().checks);
    }
    assert_eq!(erased, [2, 1, 0]);
}
