use ringtrue_domain::{
    audit::{Action, AuditEvent},
    lifecycle::{Check, CheckId, ClaimedNumber, DiscoveredNumber, ErrorCode, Sealed, Status, Verdict},
    product::Product,
    reverse_sms::ReverseSmsCheck,
    silent::{Proof, SilentCheck},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    Admitted, AttemptLog, CallbackRecord, CallbackState, Erased, Found, Settlement, StillOpen, Store, Then,
};

use crate::{bench::Bench, check_sample, sample, silent_sample};

async fn record(store: &dyn Store, project: ProjectId, check: CheckId) -> CallbackRecord {
    match store.callback(project, check).await.unwrap() {
        Found::Mine(record) => record,
        other => panic!("{other:?}"),
    }
}

async fn settle(store: &dyn Store, check: CheckId, attempt: u32, then: Then) {
    let log = AttemptLog {
        started_at: sample::now(),
        ended_at: sample::now(),
        status: Some(500),
        failure: None,
        exchange: Some(Sealed(b"sealed".to_vec())),
    };
    assert!(store.settle(Settlement { check, attempt, then, log }).await.unwrap());
}

async fn fail_once(store: &dyn Store, check: CheckId) {
    settle(store, check, 1, Then::RetryAt(sample::later(10))).await;
}

pub async fn a_number_is_erased(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let ended = check_sample::ended(store, project, sample::now()).await;
    let number = ended.claimed.unwrap().hash;
    fail_once(store, ended.id).await;
    let open = Check { claimed: ended.claimed, ..check_sample::check(project, sample::now()) };
    store.create_check(check_sample::new(open.clone())).await.unwrap();
    let other = check_sample::ended(store, project, sample::now()).await;

    let event = sample::event(acme.id, Action::ProjectUpdated);
    let erased = store.erase_number(number, &event).await.unwrap();
    let left = Some(StillOpen { checks: 1, until: open.expires_at });
    assert_eq!(erased, Erased { checks: 1, callbacks: 0, attempts: 1, left });
    let changes = vec!["open_checks=1".to_owned(), format!("open_until={:.3}", open.expires_at)];
    let told = store.audit_events(acme.id, sample::ANY, sample::whole()).await.unwrap();
    assert_eq!(told.items[0], AuditEvent { changes, ..event });

    assert_eq!(check_sample::found(store, &ended).await, Check { claimed: None, ..ended.clone() });
    let callback = record(store, project, ended.id).await;
    assert!(callback.body.is_some(), "it is still to be sent");
    assert_eq!(callback.state, CallbackState::Waiting { due_at: sample::later(10) });
    let (first, attempt) = &callback.attempts[0];
    assert_eq!((*first, attempt.status, attempt.exchange.clone()), (1, Some(500), None));
    assert_eq!(check_sample::found(store, &open).await, open, "it is still to be compared");
    assert_eq!(check_sample::found(store, &other).await, other);
    assert!(record(store, project, other.id).await.body.is_some());

    // Nothing is left to be erased but what is open, and the guard has forgotten what has ended.
    let again = store.erase_number(number, &sample::event(acme.id, Action::ProjectUpdated)).await.unwrap();
    assert_eq!(again, Erased { left, ..Erased::default() });
    for _ in 0..4 {
        let next = Check { claimed: ended.claimed, ..check_sample::check(project, sample::now()) };
        let new = check_sample::new(next);
        assert_eq!(store.create_check(new).await.unwrap(), Admitted::Stored);
    }
}

pub async fn what_is_old_is_erased_a_little_at_a_time(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for _ in 0..5 {
        let ended = check_sample::ended(store, project, sample::now()).await;
        fail_once(store, ended.id).await;
        checks.push(ended);
    }
    let open = check_sample::stored(store, project).await;
    let ended_at = checks[0].updated_at().unwrap();
    assert_eq!(store.erase_old(ended_at, 9).await.unwrap(), Erased::default(), "they ended then, not before");
    let later = sample::later(86_400);
    let mut erased = Vec::new();
    for _ in 0..4 {
        erased.push(store.erase_old(later, 2).await.unwrap().checks);
    }
    assert_eq!(erased, [2, 2, 1, 0]);
    for check in &checks {
        assert_eq!(check_sample::found(store, check).await.claimed, None);
        let callback = record(store, project, check.id).await;
        assert_eq!((callback.body, callback.state, callback.attempts), (None, CallbackState::GivenUp, vec![]));
    }
    assert_eq!(check_sample::found(store, &open).await, open);
}

/// A check that has found a number out, as it is when the number is erased.
fn forgotten(check: &SilentCheck) -> SilentCheck {
    check.clone().map(|_| Proof::Number(DiscoveredNumber { number: None, sealed: None }))
}

/// A check as it is when it is old: whom it told is forgotten too.
fn old(check: SilentCheck) -> SilentCheck {
    Check { claimed: None, callback_url: None, redirect_url: None, ..check }
}

pub async fn what_was_discovered_is_erased_sooner(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let mut discovered = Vec::new();
    for _ in 0..3 {
        discovered.push(silent_sample::redeemed(store, project, Product::Discovery).await);
    }
    let proved = silent_sample::redeemed(store, project, Product::SecureSna).await;
    let open = silent_sample::stored(store, project, Product::Discovery).await;
    let expired = silent_sample::stored(store, project, Product::Discovery).await;
    let (ending, expired) = check_sample::ending(expired.expire().unwrap());
    store.conclude(ending, Some(check_sample::callback(sample::now()))).await.unwrap();

    let ended_at = discovered[0].updated_at().unwrap();
    assert_eq!(store.erase_discovered(ended_at, 9).await.unwrap(), Erased::default(), "they ended then, not before");
    let mut erased = Vec::new();
    for _ in 0..3 {
        let Erased { checks, callbacks, .. } = store.erase_discovered(sample::later(600), 2).await.unwrap();
        erased.push((checks, callbacks));
    }
    assert_eq!(erased, [(2, 2), (2, 2), (0, 0)], "the expired one told somebody, too");
    for check in &discovered {
        let found = check_sample::found(store, check).await;
        assert_eq!((found.status(), &found), (Status::Completed, &old(forgotten(check))));
        let callback = record(store, project, check.id).await;
        assert_eq!((callback.body, callback.state), (None, CallbackState::GivenUp));
    }
    for check in [&proved, &open] {
        assert_eq!(check_sample::found(store, check).await, *check);
    }
    assert!(record(store, project, proved.id).await.body.is_some());
    assert_eq!(record(store, project, expired.id).await.body, None);
    assert_eq!(check_sample::found(store, &expired).await, old(expired.clone()));
    assert!(silent_sample::journey(store, &open).await.progress.is_some());
    assert_eq!(store.erase_old(sample::later(600), 9).await.unwrap().checks, 1, "Secure SNA is kept as long as others");
    let found = check_sample::found(store, &proved).await;
    assert_eq!(found, old(proved));
}

pub async fn a_discovered_number_is_erased_by_its_hash(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let [told, untold, other] = [
        silent_sample::redeemed(store, project, Product::Discovery).await,
        silent_sample::redeemed(store, project, Product::Discovery).await,
        silent_sample::redeemed(store, project, Product::Discovery).await,
    ];
    let hash = |check: &SilentCheck| check.verdict().unwrap().discovered().unwrap().number.unwrap().hash;
    fail_once(store, told.id).await;
    let (_, log) = record(store, project, told.id).await.attempts.remove(0);
    let delivered = Settlement { check: told.id, attempt: 2, then: Then::Delivered, log };
    assert!(store.settle(delivered).await.unwrap());

    // Whom the one told is forgotten at once, and the other when it has.
    let told_then = old(forgotten(&told));
    let untold_then = Check { redirect_url: None, ..forgotten(&untold) };
    for (check, callbacks, attempts, then) in [(&told, 1, 2, told_then), (&untold, 0, 0, untold_then)] {
        let audit = sample::event(acme.id, Action::NumberErased);
        let erased = store.erase_number(hash(check), &audit).await.unwrap();
        assert_eq!(erased, Erased { checks: 1, callbacks, attempts, left: None });
        assert_eq!(check_sample::found(store, check).await, then);
    }
    let callback = record(store, project, told.id).await;
    assert_eq!((callback.body, callback.url), (None, Sealed(vec![])));
    assert!(record(store, project, untold.id).await.body.is_some(), "it is still to be sent");
    assert_eq!(check_sample::found(store, &other).await, other);

    // What was still to be sent goes with what is old.
    let erased = store.erase_old(sample::later(600), 9).await.unwrap();
    assert_eq!((erased.checks, erased.callbacks), (2, 2));
    let callback = record(store, project, untold.id).await;
    assert_eq!((callback.body, callback.url), (None, Sealed(vec![])));
    for check in [&untold, &other] {
        assert_eq!(check_sample::found(store, check).await, old(forgotten(check)));
    }
}

/// It has no number, and told nobody.
pub async fn where_a_device_was_sent_is_erased_too(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let open = silent_sample::check(project, Product::Discovery, sample::now());
    let open = Check { callback_url: None, ..open };
    store.create_check(silent_sample::new(open.clone())).await.unwrap();
    assert_eq!(store.erase_discovered(sample::later(600), 9).await.unwrap(), Erased::default(), "it is still open");
    let (ending, expired) = check_sample::ending(open.expire().unwrap());
    store.conclude(ending, None).await.unwrap();
    assert_eq!(check_sample::found(store, &expired).await, expired);

    let erased = store.erase_discovered(sample::later(600), 9).await.unwrap();
    assert_eq!(erased, Erased { checks: 1, ..Erased::default() });
    assert_eq!(check_sample::found(store, &expired).await, old(expired));
    assert_eq!(store.erase_discovered(sample::later(600), 9).await.unwrap(), Erased::default());
}

pub async fn a_callback_that_is_done_is_forgotten_with_its_number(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let project = ProjectId(sample::uuid());
    let sent = check_sample::ended(store, project, sample::now()).await;
    let log = AttemptLog {
        started_at: sample::now(),
        ended_at: sample::now(),
        status: Some(200),
        failure: None,
        exchange: None,
    };
    assert!(store.settle(Settlement { check: sent.id, attempt: 1, then: Then::Delivered, log }).await.unwrap());
    let silent = silent_sample::stored(store, project, Product::SecureSna).await;
    let (ending, silent) = check_sample::ending(silent.expire().unwrap());
    store.conclude(ending, None).await.unwrap();

    for number in [sent.claimed, silent.claimed].map(|claimed| claimed.unwrap().hash) {
        let erased = store.erase_number(number, &sample::event(acme.id, Action::NumberErased)).await.unwrap();
        assert_eq!((erased.checks, erased.left), (1, None));
    }
    assert_eq!(check_sample::found(store, &sent).await, Check { claimed: None, callback_url: None, ..sent });
    assert_eq!(check_sample::found(store, &silent).await, old(silent));
}

/// Open checks of one number, whose erasure was asked for.
async fn left_open<const N: usize>(store: &dyn Store, project: ProjectId) -> [ReverseSmsCheck; N] {
    let claimed = check_sample::check(project, sample::now()).claimed;
    let open = [(); N].map(|()| Check { claimed, ..check_sample::check(project, sample::now()) });
    for check in &open {
        assert_eq!(store.create_check(check_sample::new(check.clone())).await.unwrap(), Admitted::Stored);
    }
    assert_eq!(ask_to_erase(store, claimed).await.left.unwrap().checks, N as u64);
    open
}

async fn ask_to_erase(store: &dyn Store, claimed: Option<ClaimedNumber>) -> Erased {
    let acme = sample::stored_workspace(store).await;
    let audit = sample::event(acme.id, Action::NumberErased);
    store.erase_number(claimed.unwrap().hash, &audit).await.unwrap()
}

pub async fn what_was_open_is_erased_when_it_has_ended(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let [completed, expired, open] = left_open(store, project).await;
    let failed = silent_sample::stored(store, project, Product::SecureSna).await;
    assert_eq!(ask_to_erase(store, failed.claimed).await.left.unwrap().checks, 1);
    let later = Check { claimed: open.claimed, ..check_sample::check(project, sample::now()) };
    store.create_check(check_sample::new(later.clone())).await.unwrap();
    assert_eq!(store.erase_left(9).await.unwrap(), Erased::default(), "they are still to be compared");

    let (completion, completed) = check_sample::ending(check_sample::received(&completed, true));
    let (expiry, expired) = check_sample::ending(expired.expire().unwrap());
    let (failure, failed) = check_sample::ending(failed.fail(ErrorCode::MnoTimeout, sample::later(7)).unwrap());
    let (ending, later) = check_sample::ending(check_sample::received(&later, true));
    for ending in [completion, expiry, failure, ending] {
        store.conclude(ending, None).await.unwrap();
    }

    assert_eq!(store.erase_left(9).await.unwrap(), Erased { checks: 3, ..Erased::default() });
    for check in [completed, expired] {
        assert_eq!(check_sample::found(store, &check).await, Check { claimed: None, callback_url: None, ..check });
    }
    assert_eq!(check_sample::found(store, &failed).await, old(failed));
    assert_eq!(check_sample::found(store, &open).await, open);
    assert_eq!(check_sample::found(store, &later).await, later, "it began when the number had been erased");
    assert_eq!(store.erase_left(9).await.unwrap(), Erased::default());
}

pub async fn what_was_being_told_is_erased_when_it_has_come(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let [delivered, given_up] = left_open(store, project).await;
    for check in [&delivered, &given_up] {
        let (ending, _) = check_sample::ending(check_sample::received(check, true));
        store.conclude(ending, Some(check_sample::callback(sample::now()))).await.unwrap();
    }
    // The third had ended before its number was erased.
    let ended = check_sample::ended(store, project, sample::now()).await;
    assert_eq!(ask_to_erase(store, ended.claimed).await.left, None);

    assert_eq!(store.erase_left(9).await.unwrap(), Erased { checks: 2, ..Erased::default() }, "their numbers at once");
    assert_eq!(store.erase_left(9).await.unwrap(), Erased::default());
    let all = [delivered.id, given_up.id, ended.id];
    let due = store.lease_due(sample::now(), sample::later(30), 9, &[]).await.unwrap();
    assert_eq!(due.len(), all.len(), "all are still to be sent");
    for id in all {
        assert!(record(store, project, id).await.body.is_some());
        settle(store, id, 1, Then::RetryAt(sample::later(10))).await;
    }
    assert_eq!(store.erase_left(9).await.unwrap(), Erased::default(), "they are tried again");

    for (id, then) in all.into_iter().zip([Then::Delivered, Then::GivenUp, Then::Delivered]) {
        settle(store, id, 2, then).await;
    }
    let erased = store.erase_left(9).await.unwrap();
    assert_eq!(erased, Erased { checks: 3, callbacks: 3, attempts: 6, left: None });
    for (id, state) in [(delivered.id, CallbackState::Delivered), (given_up.id, CallbackState::GivenUp)] {
        let callback = record(store, project, id).await;
        assert_eq!((callback.body, callback.url, callback.state), (None, Sealed(vec![]), state));
    }
    assert_eq!(store.erase_left(9).await.unwrap(), Erased::default());
}

pub async fn what_was_left_is_erased_a_little_at_a_time(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let open: [_; 5] = left_open(store, project).await;
    for check in &open[..4] {
        let (ending, _) = check_sample::ending(check.clone().expire().unwrap());
        store.conclude(ending, None).await.unwrap();
    }
    // What is old goes as ever, and is not looked for again.
    assert_eq!(store.erase_old(sample::later(600), 1).await.unwrap().checks, 1);
    let mut erased = Vec::new();
    for _ in 0..3 {
        erased.push(store.erase_left(2).await.unwrap().checks);
    }
    assert_eq!(erased, [2, 1, 0]);
}
