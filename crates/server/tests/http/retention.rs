//! Forgetting: by time, and when asked. What is counted stays.

use std::time::Duration;

use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::CheckId,
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, Origin, Sender},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{CallbackRecord, CallbackState, Clock, Disposition, Erased, Found, Inbox, StillOpen};
use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    receiver::Receiver,
    reverse_sms::{Asker, CHECKS, EVEN, Invited},
    world::{World, eventually},
};

const OTHER: &str = "+990123456702";
const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 6\r\n\r\nbroken";
/// As configured by default.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Longer than housekeeping pauses.
const A_MINUTE_AND_A_BIT: Duration = Duration::from_secs(61);

/// What is stored of a check, as nobody outside can see it.
struct Kept {
    number: bool,
    callback: Option<CallbackRecord>,
}

impl Kept {
    async fn of(asker: &Asker<'_>, check: &Invited) -> Self {
        let project = ProjectId(asker.project.project_id.parse().unwrap());
        let id = CheckId(check.id.parse().unwrap());
        let store = asker.world.node.engine.store();
        let Found::Mine(stored) = store.find_check(project, Product::ReverseSms, id).await.unwrap() else {
            panic!("no check")
        };
        let callback = match store.callback(project, id).await.unwrap() {
            Found::Mine(record) => Some(record),
            _ => None,
        };
        Kept { number: stored.claimed.is_some(), callback }
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

/// Whether a code is still known.
async fn knows_the_code(asker: &Asker<'_>, check: &Invited) -> bool {
    let project = asker.project.project_id.parse().unwrap();
    let number = |text: &str| Msisdn::parse(text, Mode::Sandbox).unwrap();
    let sms = InboundSms {
        origin: Origin::Sandbox(project),
        connector: "sandbox".into(),
        from: Sender::Number(number(EVEN)),
        to: number(&check.receiver),
        text: check.body.clone(),
        received_at: asker.world.clock.now(),
    };
    match asker.world.node.engine.receive(sms).await.unwrap() {
        Disposition::TooLate => true,
        Disposition::Unmatched => false,
        other => panic!("{other:?}"),
    }
}

/// Lets the housekeeping of the node come round: its minute passes at once.
async fn housekeeping() {
    tokio::time::pause();
    tokio::time::advance(A_MINUTE_AND_A_BIT).await;
    tokio::time::resume();
}

/// A check that has ended, and whose callback was taken at the second attempt.
async fn told_at_the_second_attempt(asker: &Asker<'_>, receiver: &mut Receiver) -> Invited {
    receiver.answer([BROKEN]);
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    asker.text(EVEN, &check.receiver, &check.body).await;
    receiver.next().await;
    waits_again(asker, &check).await;
    asker.world.advance(SignedDuration::from_secs(10));
    receiver.next().await;
    eventually("it is delivered", async || Kept::of(asker, &check).await.is_delivered()).await;
    check
}

/// The first attempt has failed and is recorded.
async fn waits_again(asker: &Asker<'_>, check: &Invited) {
    let has_failed = async || Kept::of(asker, check).await.callback.is_some_and(|record| record.attempts.len() == 1);
    eventually("the first attempt is settled", has_failed).await;
}

async fn usage(world: &World) -> Value {
    let path = format!("{}/usage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&group_by=day", world.acme.path());
    world.manage(Request::get(&path)).await.assert(200).json()
}

/// The same project, with a token that is good now.
async fn later(asker: &mut Asker<'_>) {
    let (id, secret) = (&asker.project.client_id, &asker.project.client_secret);
    asker.token = asker.world.token(id, secret, "reverse_sms").await;
}

async fn what_was_kept_long_enough_is_erased(world: World) {
    let mut asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let older = asker.create(json!({"phone_number": OTHER})).await;
    asker.text(OTHER, &older.receiver, &older.body).await;
    asker.ends_as(&older.id, "COMPLETED").await;
    world.advance(SignedDuration::from_millis(1));
    let check = told_at_the_second_attempt(&asker, &mut receiver).await;
    let (said, counted) = (asker.get(&check.id).await.json(), usage(&world).await);
    assert!(counted.to_string().contains("COMPLETED"), "{counted}");

    // Ten seconds of it have passed already.
    world.advance(KEPT - SignedDuration::from_secs(10));
    eventually("the older one is erased", async || {
        housekeeping().await;
        !Kept::of(&asker, &older).await.number
    })
    .await;
    let kept = Kept::of(&asker, &check).await;
    assert!(kept.number && kept.has_body() && kept.has_exchanges(), "to the last instant");
    assert!(knows_the_code(&asker, &check).await);

    world.advance(SignedDuration::from_millis(1));
    eventually("it is erased", async || {
        housekeeping().await;
        !Kept::of(&asker, &check).await.number
    })
    .await;
    let kept = Kept::of(&asker, &check).await;
    assert!(!kept.has_body() && !kept.has_exchanges());
    assert!(!knows_the_code(&asker, &check).await);

    later(&mut asker).await;
    assert_eq!(asker.get(&check.id).await.assert(200).json(), said, "how it ended stays");
    assert_eq!(usage(&world).await, counted, "what was counted stays");
    assert_eq!(asker.list("").await.json()["page"]["total_elements"], 2);
    assert!(receiver.is_quiet());
}

async fn erasing_a_number_finds_all_that_is_kept_of_it(world: World) {
    let one = Asker::sandbox(&world).await;
    let project = world.project("Another", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let other = Asker { world: &world, project, token };
    let mut receiver = Receiver::start().await;
    let told = told_at_the_second_attempt(&one, &mut receiver).await;
    let untold = other.create(json!({"phone_number": EVEN})).await;
    other.text(OTHER, &untold.receiver, &untold.body).await;
    assert_eq!(other.ends_as(&untold.id, "COMPLETED").await["match"], false);
    let open = one.create(json!({"phone_number": EVEN})).await;
    let open_until = world.clock.now() + SignedDuration::from_secs(300);
    let stranger = one.create(json!({"phone_number": OTHER})).await;
    one.text(OTHER, &stranger.receiver, &stranger.body).await;
    one.ends_as(&stranger.id, "COMPLETED").await;
    let counted = usage(&world).await;

    let number = Msisdn::parse(EVEN, Mode::Sandbox).unwrap();
    let erase = async || world.node.engine.erase_number(&number).await.unwrap().0;
    let left = Some(StillOpen { checks: 1, until: open_until });
    assert_eq!(erase().await, Erased { checks: 2, callbacks: 1, attempts: 2, left });
    for (asker, check, is_kept) in [(&one, &told, false), (&other, &untold, false), (&one, &open, true)] {
        assert_eq!(Kept::of(asker, check).await.number, is_kept);
    }
    assert!(Kept::of(&one, &stranger).await.number, "of another number");
    let kept = Kept::of(&one, &told).await;
    assert!(!kept.has_body() && !kept.has_exchanges());
    assert_eq!(usage(&world).await, counted);
    assert_eq!(erase().await, Erased { left, ..Erased::default() }, "there is nothing else left");

    one.text(EVEN, &open.receiver, &open.body).await;
    assert_eq!(one.ends_as(&open.id, "COMPLETED").await["match"], true, "it could still be compared");
    assert_eq!(erase().await, Erased { checks: 1, ..Erased::default() });
}

/// One that failed once, whose receiver is to hear of it although the number is erased.
async fn a_callback_under_way_is_forgotten_when_it_has_come(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.answer([BROKEN]);
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    asker.text(EVEN, &check.receiver, &check.body).await;
    let first = receiver.next().await;
    waits_again(&asker, &check).await;
    let erased = world.node.engine.erase_number(&Msisdn::parse(EVEN, Mode::Sandbox).unwrap()).await.unwrap().0;
    assert_eq!(erased.checks, 1);
    assert!(!Kept::of(&asker, &check).await.number);

    world.advance(SignedDuration::from_secs(10));
    assert_eq!(receiver.next().await.body, first.body);
    eventually("it is delivered", async || Kept::of(&asker, &check).await.is_delivered()).await;
    eventually("nothing is left of it", async || {
        housekeeping().await;
        let kept = Kept::of(&asker, &check).await;
        !kept.has_body() && !kept.has_exchanges()
    })
    .await;
}

/// One of them has something to tell.
async fn what_was_open_is_erased_when_it_has_ended(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.answer([BROKEN]);
    let told = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let expired = asker.create(json!({"phone_number": EVEN})).await;
    let number = Msisdn::parse(EVEN, Mode::Sandbox).unwrap();
    let left = world.node.engine.erase_number(&number).await.unwrap().0.left;
    assert_eq!(left.map(|left| left.checks), Some(2));
    world.advance(SignedDuration::from_secs(10));
    let later = asker.create(json!({"phone_number": EVEN})).await;

    asker.text(EVEN, &told.receiver, &told.body).await;
    assert_eq!(asker.ends_as(&told.id, "COMPLETED").await["match"], true, "it could still be compared");
    let first = receiver.next().await;
    waits_again(&asker, &told).await;
    eventually("its number is erased", async || {
        housekeeping().await;
        !Kept::of(&asker, &told).await.number
    })
    .await;
    assert!(Kept::of(&asker, &told).await.has_body(), "it is still to be told");
    assert!(Kept::of(&asker, &expired).await.number, "it is still open");

    world.advance(SignedDuration::from_secs(290));
    assert_eq!(receiver.next().await.body, first.body);
    asker.ends_as(&expired.id, "EXPIRED").await;
    eventually("it is delivered", async || Kept::of(&asker, &told).await.is_delivered()).await;
    eventually("nothing is left of them", async || {
        housekeeping().await;
        let kept = Kept::of(&asker, &told).await;
        !kept.has_body() && !kept.has_exchanges() && !Kept::of(&asker, &expired).await.number
    })
    .await;
    let resend = Request::post(&format!("{CHECKS}/{}/callback-resends", told.id)).bearer(&asker.token);
    world.send(resend).await.assert_problem(410, "callback_erased");
    assert!(Kept::of(&asker, &later).await.number, "it began when the number had been erased");
    assert!(receiver.is_quiet());
}

on_both_stores!(
    a_callback_under_way_is_forgotten_when_it_has_come,
    what_was_open_is_erased_when_it_has_ended,
    what_was_kept_long_enough_is_erased,
    erasing_a_number_finds_all_that_is_kept_of_it,
);
