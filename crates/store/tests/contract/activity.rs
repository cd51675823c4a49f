use futures_util::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    activity::ActivityCounts,
    network::NetworkId,
    product::Product,
    tenancy::ProjectId,
    verification::{
        Method,
        funnel::{Funnel, FunnelEvent, FunnelStage},
    },
};
use ringtrue_engine::ports::{
    activity::{
        ActivityDelta, ActivityFilter, ActivityScope, CompletionDuration, FunnelDelta, PeriodActivity, WaitingCallbacks,
    },
    callbacks::AttemptOutcome,
    combined::Store,
};

use crate::{callbacks::settlement, check_sample, fixture::StoreFixture, sample};

const NETWORKS: [Option<&str>; 3] = [None, Some("23410"), Some("310004")];

pub fn count(project: ProjectId, minute: &str, network: Option<&str>, counts: ActivityCounts) -> ActivityDelta {
    ActivityDelta {
        project,
        minute: minute.parse().unwrap(),
        product: Product::ReverseSms,
        network: network.map(|id| id.parse().unwrap()),
        is_step: false,
        counts,
    }
}

fn created(created: i64) -> ActivityCounts {
    ActivityCounts { created, ..ActivityCounts::default() }
}

/// Returns a filter for one day, in periods of `minutes`.
fn day(minutes: i64) -> ActivityFilter {
    ActivityFilter {
        from: "2026-11-15T00:00:00Z".parse().unwrap(),
        to: "2026-11-16T00:00:00Z".parse().unwrap(),
        period: SignedDuration::from_mins(minutes),
        scope: ActivityScope::All,
        network: None,
    }
}

fn summarize(periods: &[PeriodActivity]) -> Vec<(String, i64)> {
    periods.iter().map(|period| (period.start.strftime("%dT%H:%M").to_string(), period.counts.created)).collect()
}

async fn total(store: &dyn Store, project: ProjectId, filter: ActivityFilter) -> i64 {
    store.activity(project, filter).await.unwrap().iter().map(|period| period.counts.created).sum()
}

pub async fn activity_counts_round_trip(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let mut counts = ActivityCounts {
        created: 1,
        seen: 2,
        completed: 3,
        matched: 4,
        expired: 5,
        failed: 6,
        attempts_delivered: 7,
        attempts_failed: 8,
        given_up: 9,
        ..ActivityCounts::default()
    };
    for (bucket, number) in counts.latency.iter_mut().zip(10..) {
        *bucket = number;
    }
    store.add_activity(vec![]).await.unwrap();
    let minute = "2026-11-15T02:30:00Z";
    store.add_activity(vec![count(shop, minute, Some("23410"), counts)]).await.unwrap();
    let start = minute.parse().unwrap();
    assert_eq!(store.activity(shop, day(1)).await.unwrap(), [PeriodActivity { start, counts }]);

    store.add_activity(vec![count(shop, minute, Some("23410"), counts)]).await.unwrap();
    let mut twice = counts;
    twice += &counts;
    assert_eq!(store.activity(shop, day(1)).await.unwrap(), [PeriodActivity { start, counts: twice }]);
}

pub async fn activity_is_summed_by_period(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let minutes = ["14T23:59", "15T00:00", "15T02:10", "15T02:14", "15T02:15", "15T23:59", "16T00:00"];
    let counts = minutes.map(|minute| count(shop, &format!("2026-11-{minute}:00Z"), None, created(1)));
    store.add_activity(counts.to_vec()).await.unwrap();
    for (period, expected) in [
        (1, vec![("15T00:00", 1), ("15T02:10", 1), ("15T02:14", 1), ("15T02:15", 1), ("15T23:59", 1)]),
        (15, vec![("15T00:00", 1), ("15T02:00", 2), ("15T02:15", 1), ("15T23:45", 1)]),
        (24 * 60, vec![("15T00:00", 5)]),
    ] {
        let found = summarize(&store.activity(shop, day(period)).await.unwrap());
        let expected: Vec<_> = expected.into_iter().map(|(start, count)| (start.to_owned(), count)).collect();
        assert_eq!(found, expected, "{period} minutes");
    }
}

pub async fn activity_is_filtered_by_product_and_network(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let mut counts = Vec::new();
    for (number, (product, network)) in [Product::ReverseSms, Product::SimSwap]
        .into_iter()
        .flat_map(|product| NETWORKS.map(|id| (product, id)))
        .enumerate()
    {
        let created = created(1 << number);
        counts.push(ActivityDelta { product, ..count(shop, "2026-11-15T02:30:00Z", network, created) });
    }
    store.add_activity(counts).await.unwrap();
    let checks = |product| ActivityScope::Checks(Some(product));
    for (scope, network, expected) in [
        (ActivityScope::All, None, 0b11_1111),
        (ActivityScope::Checks(None), None, 0b11_1111),
        (ActivityScope::Verifications, None, 0),
        (checks(Product::ReverseSms), None, 0b00_0111),
        (checks(Product::SimSwap), None, 0b11_1000),
        (ActivityScope::All, Some("23410"), 0b01_0010),
        (checks(Product::SimSwap), Some("310004"), 0b10_0000),
        (checks(Product::Discovery), None, 0),
        (ActivityScope::All, Some("23415"), 0),
    ] {
        let network = network.map(|id| id.parse().unwrap());
        let found = total(store, shop, ActivityFilter { scope, network: network.clone(), ..day(60) }).await;
        assert_eq!(found, expected, "{scope:?} {network:?}");
    }
    let ActivityFilter { from, to, .. } = day(1);
    let by_network = store.activity_by_network(shop, from, to).await.unwrap();
    let rows: Vec<_> = by_network
        .iter()
        .map(|row| (row.product, row.network.as_ref().map(NetworkId::as_str), row.counts.created))
        .collect();
    assert_eq!(
        rows,
        [
            (Product::ReverseSms, None, 1),
            (Product::ReverseSms, Some("23410"), 2),
            (Product::ReverseSms, Some("310004"), 4),
            (Product::SimSwap, None, 8),
            (Product::SimSwap, Some("23410"), 16),
            (Product::SimSwap, Some("310004"), 32),
        ]
    );
    assert_eq!(store.activity_by_network(shop, to, Timestamp::MAX).await.unwrap(), []);
}

pub async fn steps_are_counted_apart(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let minute = "2026-11-15T02:30:00Z";
    let verification = ActivityDelta { product: Product::Verification, ..count(shop, minute, None, created(1)) };
    let step = ActivityDelta { is_step: true, ..count(shop, minute, None, created(2)) };
    let check = count(shop, minute, None, created(4));
    store.add_activity(vec![verification, check, step]).await.unwrap();
    for (scope, expected) in [
        (ActivityScope::All, 7),
        (ActivityScope::Verifications, 1),
        (ActivityScope::Checks(None), 4),
        (ActivityScope::Checks(Some(Product::ReverseSms)), 4),
    ] {
        assert_eq!(total(store, shop, ActivityFilter { scope, ..day(1) }).await, expected, "{scope:?}");
    }
    let ActivityFilter { from, to, .. } = day(1);
    let rows = async || {
        let rows = store.activity_by_network(shop, from, to).await.unwrap().into_iter();
        rows.map(|row| (row.product, row.is_step, row.counts.created)).collect::<Vec<_>>()
    };
    let expected = [(Product::ReverseSms, false, 4), (Product::ReverseSms, true, 2), (Product::Verification, false, 1)];
    assert_eq!(rows().await, expected);
    assert_eq!(store.roll_up_activity(to).await.unwrap(), 3);
    assert_eq!(rows().await, expected, "also after the roll-up");
}

pub async fn funnel_is_summed_and_rolled_up(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (shop, bank) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    let opened = FunnelEvent::Reached(FunnelStage::Opened);
    let verified = FunnelEvent::Verified(Method::SecureSna);
    let delta = |project, minute: &str, event, count| FunnelDelta {
        project,
        minute: format!("2026-11-{minute}:00Z").parse().unwrap(),
        event,
        count,
    };
    store.add_funnel(vec![]).await.unwrap();
    store.add_funnel(vec![delta(shop, "15T02:30", opened, 3), delta(shop, "15T02:30", verified, 1)]).await.unwrap();
    store.add_funnel(vec![delta(shop, "15T02:30", opened, 2), delta(shop, "15T02:31", opened, 4)]).await.unwrap();
    store.add_funnel(vec![delta(shop, "16T00:00", opened, 8), delta(bank, "15T02:30", opened, 16)]).await.unwrap();
    let ActivityFilter { from, to, .. } = day(1);
    let expected = Funnel(vec![(opened, 9), (verified, 1)]);
    assert_eq!(store.funnel(shop, from, to).await.unwrap(), expected);
    assert_eq!(store.funnel(bank, from, to).await.unwrap(), Funnel(vec![(opened, 16)]));
    assert_eq!(store.funnel(ProjectId(sample::uuid()), from, to).await.unwrap(), Funnel::default());

    assert_eq!(store.roll_up_activity(to).await.unwrap(), 4);
    assert_eq!(store.roll_up_activity(to).await.unwrap(), 0);
    assert_eq!(store.funnel(shop, from, to).await.unwrap(), expected);
    assert_eq!(store.delete_activity_before(to).await.unwrap(), 3);
    assert_eq!(store.funnel(shop, from, to).await.unwrap(), Funnel::default());
    assert_eq!(store.funnel(shop, to, Timestamp::MAX).await.unwrap(), Funnel(vec![(opened, 8)]));
}

pub async fn activity_is_scoped_by_project(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (shop, bank) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    for (project, number) in [(shop, 3), (bank, 4)] {
        store.add_activity(vec![count(project, "2026-11-15T02:30:00Z", Some("23410"), created(number))]).await.unwrap();
    }
    let other_project = ProjectId(sample::uuid());
    let ActivityFilter { from, to, .. } = day(1);
    for (project, expected, networks) in [(shop, 3, 1), (bank, 4, 1), (other_project, 0, 0)] {
        assert_eq!(total(store, project, day(1)).await, expected);
        assert_eq!(store.activity_by_network(project, from, to).await.unwrap().len(), networks);
    }
}

/// Nodes that add to the counts of the same minutes must not deadlock.
pub async fn concurrent_activity_is_summed(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let projects = [ProjectId(sample::uuid()), ProjectId(sample::uuid())];
    let attempts = (0..100).map(|number: usize| {
        let mut counts: Vec<_> = projects
            .into_iter()
            .flat_map(|project| NETWORKS.map(|network| count(project, "2026-11-15T02:30:00Z", network, created(1))))
            .collect();
        counts.rotate_left(number % 6);
        let store = stores[number % 2].clone();
        async move { store.add_activity(counts).await.unwrap() }
    });
    // A hundred at a time would wait too long for a connection on a slow machine.
    stream::iter(attempts).buffer_unordered(16).collect::<Vec<_>>().await;
    for project in projects {
        assert_eq!(total(&*fixture.store, project, day(1)).await, 300);
    }
}

pub async fn old_minutes_are_rolled_up_and_old_hours_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let mut counts = Vec::new();
    for minute in 0..24 * 60 {
        let at = day(1).from + SignedDuration::from_mins(minute);
        counts.push(count(shop, &at.to_string(), Some("23410"), ActivityCounts { seen: minute, ..created(1) }));
    }
    store.add_activity(counts.clone()).await.unwrap();
    let by_day = store.activity(shop, day(24 * 60)).await.unwrap();

    let noon: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let mut gone = Vec::new();
    while let minutes @ 1.. = store.roll_up_activity(day(1).to).await.unwrap() {
        gone.push(minutes);
    }
    assert_eq!(gone, [1_000, 440], "a limited number at a time");
    let by_hour = store.activity(shop, day(1)).await.unwrap();
    assert_eq!(by_hour.len(), 24);
    assert!(by_hour.iter().all(|hour| hour.counts.created == 60), "{by_hour:?}");
    assert_eq!(store.activity(shop, day(24 * 60)).await.unwrap(), by_day, "sums are preserved");

    // A count that arrives after the roll-up is added to its hour.
    store.add_activity(vec![counts[0].clone()]).await.unwrap();
    assert_eq!(store.roll_up_activity(day(1).to).await.unwrap(), 1);
    assert_eq!(store.activity(shop, day(1)).await.unwrap()[0].counts.created, 61);

    assert_eq!(store.delete_activity_before(noon).await.unwrap(), 12);
    assert_eq!(store.delete_activity_before(noon).await.unwrap(), 0);
    assert_eq!(summarize(&store.activity(shop, day(1)).await.unwrap())[0].0, "15T12:00");
}

pub async fn completion_durations_are_those_of_completed_checks(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (shop, bank) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    // Each of these checks completes after seven seconds. The last check, below, stays open.
    for project in [shop, shop, bank] {
        check_sample::concluded(store, project, sample::later(9)).await;
    }
    check_sample::store_check(store, shop).await;
    let whole_day = day(24 * 60);
    let before = ActivityFilter { to: sample::now(), ..day(1) };
    let after = ActivityFilter { from: sample::later(1), ..day(1) };
    let of = |product| ActivityFilter { scope: ActivityScope::Checks(Some(product)), ..day(1) };
    let verifications = ActivityFilter { scope: ActivityScope::Verifications, ..day(1) };
    let served_by = |network: &str| ActivityFilter { network: network.parse().ok(), ..day(1) };
    let seven_seconds = |count| Some(vec![CompletionDuration { millis: 7_000, count }]);
    for (project, filter, expected) in [
        (shop, whole_day.clone(), seven_seconds(2)),
        (bank, whole_day.clone(), seven_seconds(1)),
        (ProjectId(sample::uuid()), whole_day.clone(), Some(vec![])),
        (shop, before, Some(vec![])),
        (shop, after, Some(vec![])),
        (shop, of(Product::ReverseSms), seven_seconds(2)),
        (shop, of(Product::SimSwap), Some(vec![])),
        (shop, verifications, Some(vec![])),
        (shop, served_by("23410"), seven_seconds(2)),
        (shop, served_by("310004"), Some(vec![])),
    ] {
        let found = store.completion_durations(project, filter.clone(), 4).await.unwrap();
        assert_eq!(found, expected, "{filter:?}");
    }
    assert_eq!(store.completion_durations(shop, whole_day, 3).await.unwrap(), None, "as many checks as the limit");
}

pub async fn waiting_callbacks_are_counted_by_project(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (shop, bank) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    let mut checks = Vec::new();
    for project in [shop, shop, shop, bank] {
        checks.push(check_sample::concluded(store, project, sample::later(9)).await);
    }
    let delivered = settlement(checks[0].id, 1, AttemptOutcome::Delivered);
    assert!(store.settle_attempt(delivered).await.unwrap());
    let waiting = |count, is_cut| WaitingCallbacks { count, is_truncated: is_cut };
    for (project, scope, expected) in [
        (shop, ActivityScope::All, 2),
        (shop, ActivityScope::Checks(Some(Product::ReverseSms)), 2),
        (shop, ActivityScope::Checks(Some(Product::Discovery)), 0),
        (shop, ActivityScope::Verifications, 0),
        (bank, ActivityScope::All, 1),
        (ProjectId(sample::uuid()), ActivityScope::All, 0),
    ] {
        let found = store.waiting_callbacks(project, scope, 9).await.unwrap();
        assert_eq!(found, waiting(expected, false), "{scope:?}");
    }
    assert!(
        store.waiting_callbacks(shop, ActivityScope::All, 2).await.unwrap().is_truncated,
        "the scan limit counts other projects too"
    );
}
