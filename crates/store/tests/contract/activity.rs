use futures_util::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{activity::ActivityCounts, network::NetworkId, product::Product, tenancy::ProjectId};
use ringtrue_engine::ports::{
    activity::{ActivityDelta, ActivityFilter, CompletionTime, PeriodActivity, WaitingCallbacks},
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
        product: None,
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
    for (product, network, expected) in [
        (None, None, 0b11_1111),
        (Some(Product::ReverseSms), None, 0b00_0111),
        (Some(Product::SimSwap), None, 0b11_1000),
        (None, Some("23410"), 0b01_0010),
        (Some(Product::SimSwap), Some("310004"), 0b10_0000),
        (Some(Product::Discovery), None, 0),
        (None, Some("23415"), 0),
    ] {
        let network = network.map(|id| id.parse().unwrap());
        let found = total(store, shop, ActivityFilter { product, network: network.clone(), ..day(60) }).await;
        assert_eq!(found, expected, "{product:?} {network:?}");
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

pub async fn completion_times_are_those_of_completed_checks(fixture: &StoreFixture) {
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
    let of = |product| ActivityFilter { product: Some(product), ..day(1) };
    let served_by = |network: &str| ActivityFilter { network: network.parse().ok(), ..day(1) };
    let seven_seconds = |count| Some(vec![CompletionTime { millis: 7_000, count }]);
    for (project, filter, expected) in [
        (shop, whole_day.clone(), seven_seconds(2)),
        (bank, whole_day.clone(), seven_seconds(1)),
        (ProjectId(sample::uuid()), whole_day.clone(), Some(vec![])),
        (shop, before, Some(vec![])),
        (shop, after, Some(vec![])),
        (shop, of(Product::ReverseSms), seven_seconds(2)),
        (shop, of(Product::SimSwap), Some(vec![])),
        (shop, served_by("23410"), seven_seconds(2)),
        (shop, served_by("310004"), Some(vec![])),
    ] {
        let found = store.completion_times(project, filter.clone(), 4).await.unwrap();
        assert_eq!(found, expected, "{filter:?}");
    }
    assert_eq!(store.completion_times(shop, whole_day, 3).await.unwrap(), None, "as many checks as the limit");
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
    for (project, product, expected) in [
        (shop, None, 2),
        (shop, Some(Product::ReverseSms), 2),
        (shop, Some(Product::Discovery), 0),
        (bank, None, 1),
        (ProjectId(sample::uuid()), None, 0),
    ] {
        let found = store.waiting_callbacks(project, product, 9).await.unwrap();
        assert_eq!(found, waiting(expected, false), "{product:?}");
    }
    assert!(
        store.waiting_callbacks(shop, None, 2).await.unwrap().is_truncated,
        "the scan limit counts other projects too"
    );
}
