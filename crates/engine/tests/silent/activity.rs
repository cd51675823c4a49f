//! Tests the activity counts of checks and callbacks.

use jiff::SignedDuration;
use ringtrue_domain::{
    activity::ActivityCounts,
    lifecycle::{AnyVerdict, CheckConclusion},
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::{
    activity::{OverviewFilter, OverviewSpan, ProjectOverview},
    checks::reverse_sms::{CreateReverseSms, CreatedReverseSms},
    ports::{
        activity::ActivityScope,
        checks::ConcludeOutcome,
        clock::Clock,
        silent::SilentResult,
        sms::{Inbox, SmsOutcome},
    },
    silent::CreateSilent,
};

use crate::{
    operators::number,
    world::{NOT_MOBILE, ON_OTHER, ON_OURS, OURS, World},
};

const PHONE: &str = "+990123456700";

async fn overview(world: &World, project: ProjectId, span: OverviewSpan) -> ProjectOverview {
    let filter = OverviewFilter { span, scope: ActivityScope::All, network: None };
    world.engine.activity.project_overview(project, filter).await.unwrap()
}

async fn of_network(world: &World, id: &str) -> ActivityCounts {
    let filter = OverviewFilter { span: OverviewSpan::Hour, scope: ActivityScope::All, network: id.parse().ok() };
    world.engine.activity.project_overview(world.live.id, filter).await.unwrap().total
}

async fn create(world: &World, callback_url: Option<&str>) -> CreatedReverseSms {
    let callback_url = callback_url.map(str::to_owned);
    let request = CreateReverseSms { phone_number: PHONE.to_owned(), reference: None, callback_url };
    world.engine.checks.create_reverse_sms(&world.sandbox, request, None).await.unwrap()
}

async fn text(world: &World, to: &Msisdn, text: &str) -> SmsOutcome {
    let from = SmsSender::Number(Msisdn::parse(PHONE, Mode::Sandbox).unwrap());
    let received_at = world.clock.now();
    let sms = InboundSms {
        environment: SmsEnvironment::Sandbox(world.sandbox.id),
        connector: "sandbox".into(),
        from,
        to: to.clone(),
        text: text.to_owned(),
        received_at,
    };
    world.engine.checks.receive(sms).await.unwrap()
}

#[tokio::test]
async fn check_is_counted_in_its_creation_minute() {
    let world = World::new().await;
    let created = create(&world, Some("https://shop.example/done")).await;
    world.advance_seconds(100);
    text(&world, &created.instructions.receiver, &created.instructions.sms_body).await;
    world.callbacks().await;
    let overview = overview(&world, world.sandbox.id, OverviewSpan::Hour).await;
    let [first, second] = &overview.periods[58..] else { panic!("sixty periods") };
    let mut expected = ActivityCounts { created: 1, seen: 1, completed: 1, matched: 1, ..ActivityCounts::default() };
    expected.latency[ActivityCounts::latency_bucket(100_000)] = 1;
    assert_eq!(first.counts, expected);
    assert_eq!(
        second.counts,
        ActivityCounts { attempts_delivered: 1, ..ActivityCounts::default() },
        "a callback is counted when it is settled"
    );
    assert_eq!(overview.networks, ["00101".parse().unwrap()]);
    assert!(overview.periods[..58].iter().all(|period| period.counts.is_zero()));
}

#[tokio::test]
async fn sender_without_code_is_counted_once() {
    let world = World::new().await;
    let created = create(&world, None).await;
    let receiver = created.instructions.receiver;
    for expected in [SmsOutcome::Pending, SmsOutcome::Unmatched] {
        assert_eq!(text(&world, &receiver, "hello?").await, expected);
    }
    world.advance_seconds(1_000);
    world.engine.checks.sweep().await.unwrap();
    let total = overview(&world, world.sandbox.id, OverviewSpan::Hour).await.total;
    assert_eq!(total, ActivityCounts { created: 1, seen: 1, expired: 1, ..ActivityCounts::default() });
}

#[tokio::test]
async fn check_concluded_by_another_node_stays_concluded() {
    let world = World::new().await;
    let CreatedReverseSms { check, instructions } = create(&world, None).await;
    // Concludes the check only in the store, as if another node had done so. This node's cache still contains the open
    // check.
    let concluded = check.expire().unwrap().map(AnyVerdict::from);
    let outcome = world.engine.store().conclude(CheckConclusion::from(&concluded), None).await.unwrap();
    assert_eq!(outcome, ConcludeOutcome::Concluded { was_pending: false });
    for _ in 0..2 {
        assert_eq!(text(&world, &instructions.receiver, &instructions.sms_body).await, SmsOutcome::TooLate);
    }
    let total = overview(&world, world.sandbox.id, OverviewSpan::Hour).await.total;
    assert_eq!(
        total,
        ActivityCounts { created: 1, ..ActivityCounts::default() },
        "conclusions are counted by the concluding node"
    );
}

#[tokio::test]
async fn discovery_is_counted_for_the_device_network() {
    let world = World::new().await;
    world.ours.set_result(Ok(number(OURS)));
    let device = world.create(Product::Discovery).await;
    let before = overview(&world, world.live.id, OverviewSpan::Hour).await;
    assert_eq!((before.total.created, before.networks), (1, vec![]));

    // The device moves to another network. The check counts for the network of its latest request.
    for (from, [ours, other]) in [(ON_OTHER, [0, 1]), (ON_OURS, [1, 0]), (ON_OURS, [1, 0])] {
        device.open_url_from(from).await.unwrap();
        for (network, expected) in [("23410", ours), ("23420", other)] {
            let counts = of_network(&world, network).await;
            assert_eq!((counts.created, counts.seen), (expected, expected), "{network} from {from}");
        }
    }
    let code = device.obtain_code().await;
    world.advance_seconds(2);
    device.redeem(&code).await.unwrap();
    let total = of_network(&world, "23410").await;
    assert_eq!((total.created, total.seen, total.completed, total.matched, total.open_checks()), (1, 1, 1, 1, 0));
    assert_eq!(overview(&world, world.live.id, OverviewSpan::Hour).await.total, total);
}

#[tokio::test]
async fn failures_and_mismatches_are_counted_separately() {
    let world = World::new().await;
    let stopped = world.create(Product::SecureSna).await;
    stopped.open_url_and_finish(NOT_MOBILE).await;
    world.ours.set_result(Ok(SilentResult::Match(false)));
    let mismatched = world.create_in(Mode::Live, Product::SecureSna, CreateSilent::default()).await;
    let code = mismatched.obtain_code().await;
    mismatched.redeem(&code).await.unwrap();
    let total = overview(&world, world.live.id, OverviewSpan::Hour).await.total;
    assert_eq!(
        (total.created, total.seen, total.failed, total.completed, total.matched, total.expired),
        (2, 2, 1, 1, 0, 0)
    );
    assert_eq!(
        overview(&world, world.sandbox.id, OverviewSpan::Month).await.total,
        ActivityCounts::default(),
        "other projects are not counted"
    );
}

#[tokio::test]
async fn counts_are_rolled_up_and_deleted_after_forty_days() {
    let world = World::new().await;
    for _ in 0..3 {
        create(&world, None).await;
        world.advance_seconds(61);
    }
    assert_eq!(world.engine.activity.roll_up().await.unwrap(), 0);
    world.engine.checks.sweep().await.unwrap();
    let fresh = overview(&world, world.sandbox.id, OverviewSpan::Month).await.total;
    assert_eq!(fresh.created, 3);

    world.clock.advance(SignedDuration::from_hours(50));
    assert_eq!(world.engine.activity.roll_up().await.unwrap(), 3, "minutes become an hour");
    assert_eq!(world.engine.activity.roll_up().await.unwrap(), 0);
    assert_eq!(overview(&world, world.sandbox.id, OverviewSpan::Month).await.total, fresh);

    // The conclusion of an old check counts in the hour in which the check was created.
    world.engine.checks.sweep().await.unwrap();
    world.engine.activity.flush().await.unwrap();
    assert_eq!(world.engine.activity.roll_up().await.unwrap(), 3);
    let ended = overview(&world, world.sandbox.id, OverviewSpan::Month).await.total;
    assert_eq!((ended.created, ended.expired), (3, 3));

    world.clock.advance(SignedDuration::from_hours(38 * 24));
    assert_eq!(world.engine.activity.roll_up().await.unwrap(), 1);
    let networks = overview(&world, world.sandbox.id, OverviewSpan::Month).await.networks;
    assert_eq!(networks, []);
}
