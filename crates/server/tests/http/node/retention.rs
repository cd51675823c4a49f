//! Erasure after the retention period and on request. Counters are kept.

use std::time::Duration;

use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::CheckId,
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    callbacks::{CallbackRecord, CallbackState},
    clock::Clock,
    privacy::{DeferredErasure, ErasureCounts},
    sms::{Inbox, SmsOutcome},
    store::TenantLookup,
};
use ringtrue_test_support::poll_until;
use serde_json::{Value, json};

use crate::{
    client::Request,
    database::Database,
    on_both_databases, on_both_stores,
    products::reverse_sms::{CHECKS, EVEN, InvitedCheck, ReverseSmsClient},
    receiver::Receiver,
    world::World,
};

const OTHER: &str = "+990123456702";
const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 6\r\n\r\nbroken";
/// Default retention of numbers.
const RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Time to advance until housekeeping runs. Longer than its interval.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_secs(61);

/// Data of a check that the database still contains. `number` is false once the number was erased.
struct StoredCheck {
    number: bool,
    callback: Option<CallbackRecord>,
}

impl StoredCheck {
    async fn of(backend: &ReverseSmsClient<'_>, check: &InvitedCheck) -> Self {
        let project = ProjectId(backend.project.project_id.parse().unwrap());
        let id = CheckId(check.id.parse().unwrap());
        let store = backend.world.node.engine.store();
        let TenantLookup::Found(stored) = store.find_check(project, Product::ReverseSms, id).await.unwrap() else {
            panic!("no check")
        };
        let callback = match store.find_callback(project, id).await.unwrap() {
            TenantLookup::Found(record) => Some(record),
            _ => None,
        };
        StoredCheck { number: stored.claimed.is_some(), callback }
    }

    fn has_body(&self) -> bool {
        self.callback.as_ref().is_some_and(|callback| callback.body.is_some())
    }

    fn has_exchanges(&self) -> bool {
        self.callback.iter().flat_map(|callback| &callback.attempts).any(|(_, log)| log.exchange.is_some())
    }

    fn is_delivered(&self) -> bool {
        self.callback.as_ref().is_some_and(|callback| callback.state == CallbackState::Delivered)
    }
}

/// Returns whether the code of a check is still stored.
async fn is_code_stored(backend: &ReverseSmsClient<'_>, check: &InvitedCheck) -> bool {
    let project = backend.project.project_id.parse().unwrap();
    let number = |text: &str| Msisdn::parse(text, Mode::Sandbox).unwrap();
    let sms = InboundSms {
        environment: SmsEnvironment::Sandbox(project),
        connector: "sandbox".into(),
        from: SmsSender::Number(number(EVEN)),
        to: number(&check.receiver),
        text: check.body.clone(),
        received_at: backend.world.clock.now(),
    };
    match backend.world.node.engine.checks.receive(sms).await.unwrap() {
        SmsOutcome::TooLate => true,
        SmsOutcome::Unmatched => false,
        other => panic!("{other:?}"),
    }
}

/// Waits for the node's housekeeping by advancing the clock.
async fn housekeeping() {
    tokio::time::pause();
    tokio::time::advance(HOUSEKEEPING_PAUSE).await;
    tokio::time::resume();
}

/// Concludes a check whose callback is delivered at the second attempt.
async fn delivered_at_second_attempt(backend: &ReverseSmsClient<'_>, receiver: &mut Receiver) -> InvitedCheck {
    receiver.respond_with([BROKEN]);
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    receiver.next().await;
    backend.world.wait_for_callback_results().await;
    backend.world.advance(SignedDuration::from_secs(10));
    receiver.next().await;
    backend.world.wait_for_callback_results().await;
    assert!(StoredCheck::of(backend, &check).await.is_delivered());
    check
}

async fn usage(world: &World) -> Value {
    let path = format!("{}/usage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&group_by=day", world.acme.path());
    world.manage(Request::get(&path)).await.assert(200).json()
}

/// Requests a new token for the same project.
async fn with_new_token(backend: &mut ReverseSmsClient<'_>) {
    let (id, secret) = (&backend.project.client_id, &backend.project.client_secret);
    backend.token = backend.world.token(id, secret, "reverse_sms").await;
}

async fn personal_data_is_erased_after_its_retention(world: World) {
    let mut backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let older = backend.create(json!({"phone_number": OTHER})).await;
    backend.text(OTHER, &older.receiver, &older.body).await;
    backend.expect_status(&older.id, "COMPLETED").await;
    world.advance(SignedDuration::from_millis(1));
    let check = delivered_at_second_attempt(&backend, &mut receiver).await;
    let (concluded, counted) = (backend.get(&check.id).await.json(), usage(&world).await);
    assert!(counted.to_string().contains("COMPLETED"), "{counted}");

    // For the older check, ten seconds of the retention period have already passed.
    world.advance(RETENTION - SignedDuration::from_secs(10));
    poll_until("the older check is erased", async || {
        housekeeping().await;
        !StoredCheck::of(&backend, &older).await.number
    })
    .await;
    let kept = StoredCheck::of(&backend, &check).await;
    assert!(kept.number && kept.has_body() && kept.has_exchanges(), "kept until the retention ends");
    assert!(is_code_stored(&backend, &check).await);

    world.advance(SignedDuration::from_millis(1));
    world.node.engine.node.housekeep().await;
    let kept = StoredCheck::of(&backend, &check).await;
    assert!(!kept.number && !kept.has_body() && !kept.has_exchanges());
    assert!(!is_code_stored(&backend, &check).await);

    with_new_token(&mut backend).await;
    assert_eq!(backend.get(&check.id).await.assert(200).json(), concluded, "the result is kept");
    assert_eq!(usage(&world).await, counted, "usage counts are kept");
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 2);
    assert!(receiver.is_quiet());
}

async fn erasing_a_number_erases_all_of_its_data(world: World) {
    let one = ReverseSmsClient::sandbox(&world).await;
    let project = world.project("Another", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let other = ReverseSmsClient { world: &world, project, token };
    let mut receiver = Receiver::start().await;
    let with_callback = delivered_at_second_attempt(&one, &mut receiver).await;
    let without_callback = other.create(json!({"phone_number": EVEN})).await;
    other.text(OTHER, &without_callback.receiver, &without_callback.body).await;
    assert_eq!(other.expect_status(&without_callback.id, "COMPLETED").await["match"], false);
    let open = one.create(json!({"phone_number": EVEN})).await;
    let open_until = world.clock.now() + SignedDuration::from_secs(300);
    let other_number = one.create(json!({"phone_number": OTHER})).await;
    one.text(OTHER, &other_number.receiver, &other_number.body).await;
    one.expect_status(&other_number.id, "COMPLETED").await;
    let counted = usage(&world).await;

    let number = Msisdn::parse(EVEN, Mode::Sandbox).unwrap();
    let erase = async || world.node.engine.node.erase_number(&number).await.unwrap().0;
    let deferred = Some(DeferredErasure { checks: 1, until: open_until });
    assert_eq!(erase().await, ErasureCounts { checks: 2, callbacks: 1, attempts: 2, deferred });
    for (backend, check, is_kept) in
        [(&one, &with_callback, false), (&other, &without_callback, false), (&one, &open, true)]
    {
        assert_eq!(StoredCheck::of(backend, check).await.number, is_kept);
    }
    assert!(StoredCheck::of(&one, &other_number).await.number, "checks of other numbers are kept");
    let kept = StoredCheck::of(&one, &with_callback).await;
    assert!(!kept.has_body() && !kept.has_exchanges());
    assert_eq!(usage(&world).await, counted);
    assert_eq!(erase().await, ErasureCounts { deferred, ..ErasureCounts::default() }, "a second erasure finds nothing");

    one.text(EVEN, &open.receiver, &open.body).await;
    assert_eq!(
        one.expect_status(&open.id, "COMPLETED").await["match"],
        true,
        "open checks keep the number until they conclude"
    );
    assert_eq!(erase().await, ErasureCounts { checks: 1, ..ErasureCounts::default() });
}

/// The callback is retried after the number was erased.
async fn callback_in_progress_is_erased_after_delivery(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN]);
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    let first = receiver.next().await;
    backend.world.wait_for_callback_results().await;
    let erased = world.node.engine.node.erase_number(&Msisdn::parse(EVEN, Mode::Sandbox).unwrap()).await.unwrap().0;
    assert_eq!(erased.checks, 1);
    assert!(!StoredCheck::of(&backend, &check).await.number);

    world.advance(SignedDuration::from_secs(10));
    assert_eq!(receiver.next().await.body, first.body);
    backend.world.wait_for_callback_results().await;
    assert!(StoredCheck::of(&backend, &check).await.is_delivered());
    world.node.engine.node.housekeep().await;
    let kept = StoredCheck::of(&backend, &check).await;
    assert!(!kept.has_body() && !kept.has_exchanges(), "callback data is erased");
}

/// Erases the number of two open checks, one of which has a callback.
async fn open_check_is_erased_after_it_concludes(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN]);
    let with_callback = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let expired = backend.create(json!({"phone_number": EVEN})).await;
    let number = Msisdn::parse(EVEN, Mode::Sandbox).unwrap();
    let left = world.node.engine.node.erase_number(&number).await.unwrap().0.deferred;
    assert_eq!(left.map(|left| left.checks), Some(2));
    world.advance(SignedDuration::from_secs(10));
    let created_after_erasure = backend.create(json!({"phone_number": EVEN})).await;

    backend.text(EVEN, &with_callback.receiver, &with_callback.body).await;
    assert_eq!(
        backend.expect_status(&with_callback.id, "COMPLETED").await["match"],
        true,
        "open checks keep the number until they conclude"
    );
    let first = receiver.next().await;
    backend.world.wait_for_callback_results().await;
    world.node.engine.node.housekeep().await;
    assert!(!StoredCheck::of(&backend, &with_callback).await.number);
    assert!(StoredCheck::of(&backend, &with_callback).await.has_body(), "data of a pending callback is kept");
    assert!(StoredCheck::of(&backend, &expired).await.number, "open checks keep the number");

    world.advance(SignedDuration::from_secs(290));
    assert_eq!(receiver.next().await.body, first.body);
    backend.expect_status(&expired.id, "EXPIRED").await;
    backend.world.wait_for_callback_results().await;
    assert!(StoredCheck::of(&backend, &with_callback).await.is_delivered());
    world.node.engine.node.housekeep().await;
    let kept = StoredCheck::of(&backend, &with_callback).await;
    assert!(!kept.has_body() && !kept.has_exchanges());
    assert!(!StoredCheck::of(&backend, &expired).await.number, "the number of the expired check is erased");
    let resend = Request::post(&format!("{CHECKS}/{}/callback-resends", with_callback.id)).bearer(&backend.token);
    world.send(resend).await.assert_problem(410, "callback_erased");
    assert!(
        StoredCheck::of(&backend, &created_after_erasure).await.number,
        "checks created after the erasure are not affected"
    );
    assert!(receiver.is_quiet());
}

/// Checks are deleted by whole days, on PostgreSQL by whole months. Usage counters are kept.
async fn checks_are_deleted_after_their_retention(world: World) {
    let day = SignedDuration::from_hours(24);
    // The clock starts on the first of January, so the first month has 31 days.
    let period = if world.database.address().starts_with("sqlite:") { day } else { day * 31 };
    let mut backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let older = delivered_at_second_attempt(&backend, &mut receiver).await;
    world.advance(period);
    with_new_token(&mut backend).await;
    let newer = delivered_at_second_attempt(&backend, &mut receiver).await;
    let counted = usage(&world).await;
    let node = &world.node.engine.node;

    world.advance(day * 400 - period);
    node.delete_old_checks().await.unwrap();
    with_new_token(&mut backend).await;
    backend.get(&older.id).await.assert(200);
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 2, "the period of the older check is not over");
    world.advance(period);
    node.delete_old_checks().await.unwrap();
    with_new_token(&mut backend).await;
    backend.get(&older.id).await.assert_problem(404, "check_not_found");
    let resend = Request::post(&format!("{CHECKS}/{}/callback-resends", older.id)).bearer(&backend.token);
    assert_eq!(world.send(resend).await.status, 404);
    backend.get(&newer.id).await.assert(200);
    let listed = backend.list("").await.json();
    assert_eq!((&listed["page"]["total_elements"], &listed["content"][0]["check_id"]), (&json!(1), &json!(newer.id)));
    let found = backend.list("?search=status==COMPLETED").await.json();
    assert_eq!(found["page"]["total_elements"], 1);
    assert_eq!(usage(&world).await, counted, "usage counts are kept");

    world.advance(period);
    node.delete_old_checks().await.unwrap();
    with_new_token(&mut backend).await;
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 0);
    backend.get(&newer.id).await.assert_problem(404, "check_not_found");
}

async fn checks_are_kept_for_ever_without_a_retention(database: Database) {
    let world = World::with(database, |config| config.retention.checks = None).await;
    let mut backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    backend.expect_status(&check.id, "COMPLETED").await;
    world.advance(SignedDuration::from_hours(24 * 3_650));
    assert_eq!(world.node.engine.node.delete_old_checks().await.unwrap(), 0);
    with_new_token(&mut backend).await;
    backend.get(&check.id).await.assert(200);
}

on_both_databases!(checks_are_kept_for_ever_without_a_retention);
on_both_stores!(
    checks_are_deleted_after_their_retention,
    callback_in_progress_is_erased_after_delivery,
    open_check_is_erased_after_it_concludes,
    personal_data_is_erased_after_its_retention,
    erasing_a_number_erases_all_of_its_data,
);
