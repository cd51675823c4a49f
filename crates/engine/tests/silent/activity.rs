//! What is counted of checks and callbacks, and what an overview says of it.

use jiff::SignedDuration;
use ringtrue_domain::{
    activity::Counts,
    lifecycle::{AnyVerdict, Ending},
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, Origin, Sender},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::{
    activity::{Overview, OverviewFilter, Span},
    ports::{Clock, Disposition, Inbox, Recorded, Reply},
    reverse_sms::{CreateReverseSms, CreatedReverseSms},
    silent::CreateSilent,
};

use crate::{
    operators::number,
    world::{AT_HOME, ON_OTHER, ON_OURS, OURS, World},
};

const PHONE: &str = "+990123456700";

async fn overview(world: &World, project: ProjectId, span: Span) -> Overview {
    let filter = OverviewFilter { span, product: None, network: None };
    world.engine.overview(project, filter).await.unwrap()
}

async fn of_network(world: &World, id: &str) -> Counts {
    let filter = OverviewFilter { span: Span::Hour, product: None, network: id.parse().ok() };
    world.engine.overview(world.live.id, filter).await.unwrap().total
}

async fn create(world: &World, callback_url: Option<&str>) -> CreatedReverseSms {
    let callback_url = callback_url.map(str::to_owned);
    let request = CreateReverseSms { phone_number: PHONE.to_owned(), reference: None, callback_url };
    world.engine.create_reverse_sms(&world.sandbox, request, None).await.unwrap()
}

async fn text(world: &World, to: &Msisdn, text: &str) -> Disposition {
    let from = Sender::Number(Msisdn::parse(PHONE, Mode::Sandbox).unwrap());
    let received_at = world.clock.now();
    let sms = InboundSms {
        origin: Origin::Sandbox(world.sandbox.id),
        connector: "sandbox".into(),
        from,
        to: to.clone(),
        text: text.to_owned(),
        received_at,
    };
    world.engine.receive(sms).await.unwrap()
}

#[tokio::test]
async fn a_check_is_counted_in_the_minute_of_its_creation() {
    let world = World::new().await;
    let created = create(&world, Some("https://shop.example/done")).await;
    world.pass(100);
    text(&world, &created.invitation.receiver, &created.invitation.sms_body).await;
    world.callbacks().await;
    let overview = overview(&world, world.sandbox.id, Span::Hour).await;
    let [first, second] = &overview.periods[58..] else { panic!("sixty periods") };
    let mut expected = Counts { created: 1, seen: 1, completed: 1, matched: 1, ..Counts::default() };
    expected.latency[Counts::bucket(100_000)] = 1;
    assert_eq!(first.counts, expected);
    assert_eq!(
        second.counts,
        Counts { attempts_delivered: 1, ..Counts::default() },
        "a callback is counted when it ends"
    );
    assert_eq!(overview.networks, ["00101".parse().unwrap()]);
    assert!(overview.periods[..58].iter().all(|period| period.counts.is_nothing()));
}

#[tokio::test]
async fn whoever_texts_something_else_is_seen_once() {
    let world = World::new().await;
    let created = create(&world, None).await;
    let receiver = created.invitation.receiver;
    for expected in [Disposition::Pending, Disposition::Unmatched] {
        assert_eq!(text(&world, &receiver, "hello?").await, expected);
    }
    world.pass(1_000);
    world.engine.sweep().await.unwrap();
    let total = overview(&world, world.sandbox.id, Span::Hour).await.total;
    assert_eq!(total, Counts { created: 1, seen: 1, expired: 1, ..Counts::default() });
}

#[tokio::test]
async fn what_another_node_has_ended_is_not_ended_again() {
    let world = World::new().await;
    let CreatedReverseSms { check, invitation } = create(&world, None).await;
    // This node remembers the check as it was.
    let concluded = check.expire().unwrap().map(AnyVerdict::from);
    let ended_elsewhere = world.engine.store().conclude(Ending::from(&concluded), None).await.unwrap();
    assert_eq!(ended_elsewhere, Recorded::Now { was_pending: false });
    for _ in 0..2 {
        assert_eq!(text(&world, &invitation.receiver, &invitation.sms_body).await, Disposition::TooLate);
    }
    let total = overview(&world, world.sandbox.id, Span::Hour).await.total;
    assert_eq!(total, Counts { created: 1, ..Counts::default() }, "ends are counted where they are recorded");
}

#[tokio::test]
async fn a_discovered_device_is_counted_for_the_network_that_it_is_on() {
    let world = World::new().await;
    world.ours.says(Ok(number(OURS)));
    let device = world.create(Product::Discovery).await;
    let before = overview(&world, world.live.id, Span::Hour).await;
    assert_eq!((before.total.created, before.networks), (1, vec![]));

    // It changes its network on the way, and is still one device.
    for (from, [ours, other]) in [(ON_OTHER, [0, 1]), (ON_OURS, [1, 0]), (ON_OURS, [1, 0])] {
        device.opens_url_from(from).await.unwrap();
        for (network, expected) in [("23410", ours), ("23420", other)] {
            let counts = of_network(&world, network).await;
            assert_eq!((counts.created, counts.seen), (expected, expected), "{network} from {from}");
        }
    }
    let code = device.brings_a_code().await;
    world.pass(2);
    device.redeem(&code).await.unwrap();
    let total = of_network(&world, "23410").await;
    assert_eq!((total.created, total.seen, total.completed, total.matched, total.open()), (1, 1, 1, 1, 0));
    assert_eq!(overview(&world, world.live.id, Span::Hour).await.total, total);
}

#[tokio::test]
async fn failures_and_mismatches_are_told_apart() {
    let world = World::new().await;
    let stopped = world.create(Product::SecureSna).await;
    stopped.is_stopped_at(AT_HOME).await;
    world.ours.says(Ok(Reply::Match(false)));
    let mismatched = world.create_in(Mode::Live, Product::SecureSna, CreateSilent::default()).await;
    let code = mismatched.brings_a_code().await;
    mismatched.redeem(&code).await.unwrap();
    let total = overview(&world, world.live.id, Span::Hour).await.total;
    assert_eq!(
        (total.created, total.seen, total.failed, total.completed, total.matched, total.expired),
        (2, 2, 1, 1, 0, 0)
    );
    assert_eq!(overview(&world, world.sandbox.id, Span::Month).await.total, Counts::default(), "another project's");
}

#[tokio::test]
async fn counts_outlive_their_minutes_and_go_after_forty_days() {
    let world = World::new().await;
    for _ in 0..3 {
        create(&world, None).await;
        world.pass(61);
    }
    assert_eq!(world.engine.tidy_activity_up().await.unwrap(), 0);
    world.engine.sweep().await.unwrap();
    let fresh = overview(&world, world.sandbox.id, Span::Month).await.total;
    assert_eq!(fresh.created, 3);

    world.clock.advance(SignedDuration::from_hours(50));
    assert_eq!(world.engine.tidy_activity_up().await.unwrap(), 3, "minutes become an hour");
    assert_eq!(world.engine.tidy_activity_up().await.unwrap(), 0);
    assert_eq!(overview(&world, world.sandbox.id, Span::Month).await.total, fresh);

    // What ends long after it was made finds its hour.
    world.engine.sweep().await.unwrap();
    world.engine.flush_activity().await.unwrap();
    assert_eq!(world.engine.tidy_activity_up().await.unwrap(), 3);
    let ended = overview(&world, world.sandbox.id, Span::Month).await.total;
    assert_eq!((ended.created, ended.expired), (3, 3));

    world.clock.advance(SignedDuration::from_hours(38 * 24));
    assert_eq!(world.engine.tidy_activity_up().await.unwrap(), 1);
    let networks = overview(&world, world.sandbox.id, Span::Month).await.networks;
    assert_eq!(networks, []);
}
