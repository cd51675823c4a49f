use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use ringtrue_domain::{lifecycle::CheckStatus, product::Product, tenancy::ProjectId};
use ringtrue_engine::ports::{
    activity::{UsageDelta, UsageFilter, UsagePeriod, UsageRow},
    combined::Store,
    store::StoreError,
};
use strum::VariantArray as _;

use crate::{fixture::StoreFixture, sample};

fn count(project: ProjectId, at: &str, status: CheckStatus, change: i64) -> UsageDelta {
    UsageDelta {
        project,
        product: Product::ReverseSms,
        at: at.parse().unwrap(),
        status,
        matched: None,
        network: None,
        via: None,
        delta: change,
    }
}

fn filter(from: &str, to: &str, period: UsagePeriod) -> UsageFilter {
    UsageFilter { from: from.parse().unwrap(), to: to.parse().unwrap(), period, project: None }
}

fn all_of_2026(period: UsagePeriod) -> UsageFilter {
    filter("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", period)
}

fn summarize(rows: &[UsageRow]) -> Vec<(Timestamp, CheckStatus, i64)> {
    rows.iter().map(|row| (row.period_start, row.status, row.count)).collect()
}

async fn project(store: &dyn Store) -> (ringtrue_domain::tenancy::WorkspaceId, ProjectId) {
    let acme = sample::stored_workspace(store).await;
    let (project, _) = sample::stored_project(store, acme.id, "Shop").await;
    (acme.id, project.id)
}

pub async fn usage_counts_are_summed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let at = "2026-11-15T02:30:00.123Z";
    let matched = UsageDelta {
        matched: Some(true),
        network: Some("23410".parse().unwrap()),
        ..count(shop, at, CheckStatus::Completed, 1)
    };
    let missed = UsageDelta { matched: Some(false), ..matched.clone() };
    store.add_usage(&[]).await.unwrap();
    // One call may change the same counter twice.
    let accepted = count(shop, at, CheckStatus::Accepted, 2);
    store.add_usage(&[accepted.clone(), accepted.clone(), missed]).await.unwrap();
    store.add_usage(&[count(shop, at, CheckStatus::Accepted, -4), matched.clone(), matched.clone()]).await.unwrap();

    let rows = store.usage(acme, all_of_2026(UsagePeriod::Hour)).await.unwrap();
    let row = |matched, count| UsageRow {
        period_start: "2026-11-15T02:00:00Z".parse().unwrap(),
        project: shop,
        product: Product::ReverseSms,
        status: CheckStatus::Completed,
        matched: Some(matched),
        network: Some("23410".parse().unwrap()),
        via: None,
        count,
    };
    assert_eq!(rows, [row(false, 1), row(true, 2)], "zero counts are omitted");
}

pub async fn usage_is_grouped_by_period(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let status = CheckStatus::Expired;
    for at in ["2026-11-15T02:10:00Z", "2026-11-15T02:50:00Z", "2026-11-15T03:00:00Z", "2026-11-30T23:59:59.999Z"] {
        store.add_usage(&[count(shop, at, status, 1)]).await.unwrap();
    }
    store.add_usage(&[count(shop, "2026-12-01T00:00:00Z", CheckStatus::Error, 1)]).await.unwrap();
    for (period, expected) in [
        (
            UsagePeriod::Hour,
            vec![
                ("2026-11-15T02:00:00Z", 2),
                ("2026-11-15T03:00:00Z", 1),
                ("2026-11-30T23:00:00Z", 1),
                ("2026-12-01T00:00:00Z", 1),
            ],
        ),
        (UsagePeriod::Day, vec![("2026-11-15T00:00:00Z", 3), ("2026-11-30T00:00:00Z", 1), ("2026-12-01T00:00:00Z", 1)]),
        (UsagePeriod::Month, vec![("2026-11-01T00:00:00Z", 4), ("2026-12-01T00:00:00Z", 1)]),
    ] {
        let rows = store.usage(acme, all_of_2026(period)).await.unwrap();
        let found: Vec<_> = summarize(&rows).into_iter().map(|(start, _, count)| (start.to_string(), count)).collect();
        let expected: Vec<_> = expected.into_iter().map(|(start, count)| (start.to_owned(), count)).collect();
        assert_eq!(found, expected, "{period:?}");
    }
}

pub async fn usage_includes_only_full_hours(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    for hour in ["01", "02", "03", "04"] {
        store.add_usage(&[count(shop, &format!("2026-11-15T{hour}:30:00Z"), CheckStatus::Pending, 1)]).await.unwrap();
    }
    for (from, to, hours) in [
        ("2026-11-15T02:00:00Z", "2026-11-15T04:00:00Z", "02 03"),
        ("2026-11-15T01:00:00.001Z", "2026-11-15T03:00:00.001Z", "02 03"),
        ("2026-11-15T02:00:00Z", "2026-11-15T02:00:00Z", ""),
        ("2026-11-15T02:15:00Z", "2026-11-15T02:45:00Z", ""),
    ] {
        let rows = store.usage(acme, filter(from, to, UsagePeriod::Hour)).await.unwrap();
        let found: Vec<_> = rows.iter().map(|row| row.period_start.strftime("%H").to_string()).collect();
        assert_eq!(found.join(" "), hours, "{from} {to}");
    }
}

pub async fn usage_is_scoped_by_workspace(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let ((acme, shop), (other, bank)) = (project(store).await, project(store).await);
    let (second, _) = sample::stored_project(store, acme, "Second").await;
    let at = "2026-11-15T02:00:00Z";
    let sim_swap = UsageDelta { product: Product::SimSwap, ..count(shop, at, CheckStatus::Accepted, 9) };
    let counts = [
        sim_swap,
        count(second.id, at, CheckStatus::Completed, 3),
        count(bank, at, CheckStatus::Completed, 4),
        count(shop, at, CheckStatus::Error, 2),
        count(shop, at, CheckStatus::Accepted, 1),
    ];
    store.add_usage(&counts).await.unwrap();
    let usage = all_of_2026(UsagePeriod::Month);
    let of = |rows: Vec<UsageRow>| rows.iter().map(|row| row.count).collect::<Vec<_>>();
    assert_eq!(of(store.usage(acme, usage).await.unwrap()), [1, 2, 9, 3], "by project, product, status");
    assert_eq!(of(store.usage(other, usage).await.unwrap()), [4]);
    let of_project = |project| UsageFilter { project: Some(project), ..usage };
    assert_eq!(of(store.usage(acme, of_project(second.id)).await.unwrap()), [3]);
    assert_eq!(of(store.usage(acme, of_project(bank)).await.unwrap()), [] as [i64; 0]);
}

/// Runs calls concurrently, but only some at a time, so that none waits too long for a connection.
async fn run_concurrently<T>(calls: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    stream::iter(calls).buffer_unordered(16).collect().await
}

/// Batches of two nodes with the same counters in different orders must not deadlock.
pub async fn concurrent_counts_are_summed(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let (acme, shop) = project(&*fixture.store).await;
    let at = "2026-11-15T02:00:00Z";
    let attempts = (0..400).map(|number: usize| {
        let mut counts: Vec<_> = CheckStatus::VARIANTS.iter().map(|status| count(shop, at, *status, 1)).collect();
        counts.rotate_left(number % 5);
        if number.is_multiple_of(2) {
            counts.reverse();
        }
        let store = stores[number % 2].clone();
        async move { store.add_usage(&counts).await.unwrap() }
    });
    run_concurrently(attempts).await;
    let rows = fixture.store.usage(acme, all_of_2026(UsagePeriod::Day)).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [400; 5]);
}

pub async fn overflowing_count_fails_only_itself(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let at = "2026-11-15T02:00:00Z";
    store.add_usage(&[count(shop, at, CheckStatus::Error, i64::MAX - 1)]).await.unwrap();
    // Every tenth call overflows its counter. Such a call must not change any counter. A counter is the sum of several
    // rows, so only the counts of one call certainly overflow.
    let attempts = (0..200).map(|number| {
        let overflowing = || count(shop, at, CheckStatus::Error, i64::MAX);
        let valid = count(shop, at, CheckStatus::Accepted, 1);
        let counts = if number % 10 == 3 { vec![valid, overflowing(), overflowing()] } else { vec![valid] };
        async move { (number, store.add_usage(&counts).await) }
    });
    for (number, result) in run_concurrently(attempts).await {
        match result {
            Ok(()) => assert_ne!(number % 10, 3, "{number}"),
            Err(StoreError::Refused(_)) => assert_eq!(number % 10, 3, "{number}"),
            Err(other) => panic!("{number}: {other}"),
        }
    }
    let rows = store.usage(acme, all_of_2026(UsagePeriod::Hour)).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [180, i64::MAX - 1]);
}
