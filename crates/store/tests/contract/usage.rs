use futures_util::future::join_all;
use jiff::Timestamp;
use ringtrue_domain::{lifecycle::Status, product::Product, tenancy::ProjectId};
use ringtrue_engine::ports::{Store, StoreError, UsageCount, UsageFilter, UsageGrouping, UsageRow};

use crate::{bench::Bench, sample};

fn count(project: ProjectId, at: &str, status: Status, change: i64) -> UsageCount {
    UsageCount {
        project,
        product: Product::ReverseSms,
        at: at.parse().unwrap(),
        status,
        matched: None,
        network: None,
        change,
    }
}

fn filter(from: &str, to: &str, grouping: UsageGrouping) -> UsageFilter {
    UsageFilter { from: from.parse().unwrap(), to: to.parse().unwrap(), grouping, project: None }
}

fn all_of_2026(grouping: UsageGrouping) -> UsageFilter {
    filter("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", grouping)
}

fn brief(rows: &[UsageRow]) -> Vec<(Timestamp, Status, i64)> {
    rows.iter().map(|row| (row.period_start, row.status, row.count)).collect()
}

async fn project(store: &dyn Store) -> (ringtrue_domain::tenancy::WorkspaceId, ProjectId) {
    let acme = sample::stored_workspace(store).await;
    let (project, _) = sample::stored_project(store, acme.id, "Shop").await;
    (acme.id, project.id)
}

pub async fn counts_add_up(bench: &Bench) {
    let store = &*bench.store;
    let (acme, shop) = project(store).await;
    let at = "2026-11-15T02:30:00.123Z";
    let matched = UsageCount {
        matched: Some(true),
        network: Some("23410".parse().unwrap()),
        ..count(shop, at, Status::Completed, 1)
    };
    let missed = UsageCount { matched: Some(false), ..matched.clone() };
    store.count(&[]).await.unwrap();
    // One caller may name a counter twice.
    let accepted = count(shop, at, Status::Accepted, 2);
    store.count(&[accepted.clone(), accepted.clone(), missed]).await.unwrap();
    store.count(&[count(shop, at, Status::Accepted, -4), matched.clone(), matched.clone()]).await.unwrap();

    let rows = store.usage(acme, all_of_2026(UsageGrouping::Hour)).await.unwrap();
    let row = |matched, count| UsageRow {
        period_start: "2026-11-15T02:00:00Z".parse().unwrap(),
        project: shop,
        product: Product::ReverseSms,
        status: Status::Completed,
        matched: Some(matched),
        network: Some("23410".parse().unwrap()),
        count,
    };
    assert_eq!(rows, [row(false, 1), row(true, 2)], "what is zero is left out");
}

pub async fn counts_are_grouped_by_period(bench: &Bench) {
    let store = &*bench.store;
    let (acme, shop) = project(store).await;
    let status = Status::Expired;
    for at in ["2026-11-15T02:10:00Z", "2026-11-15T02:50:00Z", "2026-11-15T03:00:00Z", "2026-11-30T23:59:59.999Z"] {
        store.count(&[count(shop, at, status, 1)]).await.unwrap();
    }
    store.count(&[count(shop, "2026-12-01T00:00:00Z", Status::Error, 1)]).await.unwrap();
    for (grouping, expected) in [
        (
            UsageGrouping::Hour,
            vec![
                ("2026-11-15T02:00:00Z", 2),
                ("2026-11-15T03:00:00Z", 1),
                ("2026-11-30T23:00:00Z", 1),
                ("2026-12-01T00:00:00Z", 1),
            ],
        ),
        (
            UsageGrouping::Day,
            vec![("2026-11-15T00:00:00Z", 3), ("2026-11-30T00:00:00Z", 1), ("2026-12-01T00:00:00Z", 1)],
        ),
        (UsageGrouping::Month, vec![("2026-11-01T00:00:00Z", 4), ("2026-12-01T00:00:00Z", 1)]),
    ] {
        let rows = store.usage(acme, all_of_2026(grouping)).await.unwrap();
        let found: Vec<_> = brief(&rows).into_iter().map(|(start, _, count)| (start.to_string(), count)).collect();
        let expected: Vec<_> = expected.into_iter().map(|(start, count)| (start.to_owned(), count)).collect();
        assert_eq!(found, expected, "{grouping:?}");
    }
}

pub async fn whole_hours_are_counted(bench: &Bench) {
    let store = &*bench.store;
    let (acme, shop) = project(store).await;
    for hour in ["01", "02", "03", "04"] {
        store.count(&[count(shop, &format!("2026-11-15T{hour}:30:00Z"), Status::Pending, 1)]).await.unwrap();
    }
    for (from, to, hours) in [
        ("2026-11-15T02:00:00Z", "2026-11-15T04:00:00Z", "02 03"),
        ("2026-11-15T01:00:00.001Z", "2026-11-15T03:00:00.001Z", "02 03"),
        ("2026-11-15T02:00:00Z", "2026-11-15T02:00:00Z", ""),
        ("2026-11-15T02:15:00Z", "2026-11-15T02:45:00Z", ""),
    ] {
        let rows = store.usage(acme, filter(from, to, UsageGrouping::Hour)).await.unwrap();
        let found: Vec<_> = rows.iter().map(|row| row.period_start.strftime("%H").to_string()).collect();
        assert_eq!(found.join(" "), hours, "{from} {to}");
    }
}

pub async fn usage_is_a_workspaces_own(bench: &Bench) {
    let store = &*bench.store;
    let ((acme, shop), (other, bank)) = (project(store).await, project(store).await);
    let (second, _) = sample::stored_project(store, acme, "Second").await;
    let at = "2026-11-15T02:00:00Z";
    let sim_swap = UsageCount { product: Product::SimSwap, ..count(shop, at, Status::Accepted, 9) };
    let counts = [
        sim_swap,
        count(second.id, at, Status::Completed, 3),
        count(bank, at, Status::Completed, 4),
        count(shop, at, Status::Error, 2),
        count(shop, at, Status::Accepted, 1),
    ];
    store.count(&counts).await.unwrap();
    let usage = all_of_2026(UsageGrouping::Month);
    let of = |rows: Vec<UsageRow>| rows.iter().map(|row| row.count).collect::<Vec<_>>();
    assert_eq!(of(store.usage(acme, usage).await.unwrap()), [1, 2, 9, 3], "by project, product, status");
    assert_eq!(of(store.usage(other, usage).await.unwrap()), [4]);
    let of_project = |project| UsageFilter { project: Some(project), ..usage };
    assert_eq!(of(store.usage(acme, of_project(second.id)).await.unwrap()), [3]);
    assert_eq!(of(store.usage(acme, of_project(bank)).await.unwrap()), [] as [i64; 0]);
}

/// Batches of two nodes with the same counters in different orders must not wait for each other.
pub async fn many_count_at_once(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let (acme, shop) = project(&*bench.store).await;
    let at = "2026-11-15T02:00:00Z";
    let attempts = (0..400).map(|number: usize| {
        let mut counts: Vec<_> = Status::ALL.map(|status| count(shop, at, status, 1)).to_vec();
        counts.rotate_left(number % 5);
        if number.is_multiple_of(2) {
            counts.reverse();
        }
        let store = stores[number % 2].clone();
        async move { store.count(&counts).await.unwrap() }
    });
    join_all(attempts).await;
    let rows = bench.store.usage(acme, all_of_2026(UsageGrouping::Day)).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [400; 5]);
}

pub async fn a_poisonous_count_fails_alone(bench: &Bench) {
    let store = &*bench.store;
    let (acme, shop) = project(store).await;
    let at = "2026-11-15T02:00:00Z";
    store.count(&[count(shop, at, Status::Error, i64::MAX - 1)]).await.unwrap();
    // Every tenth one would make that counter overflow, and must not count anything at all.
    let attempts = (0..200).map(|number| {
        let poison = count(shop, at, Status::Error, 2);
        let good = count(shop, at, Status::Accepted, 1);
        let counts = if number % 10 == 3 { vec![good, poison] } else { vec![good] };
        async move { (number, store.count(&counts).await) }
    });
    for (number, answer) in join_all(attempts).await {
        match answer {
            Ok(()) => assert_ne!(number % 10, 3, "{number}"),
            Err(StoreError::Refused(_)) => assert_eq!(number % 10, 3, "{number}"),
            Err(other) => panic!("{number}: {other}"),
        }
    }
    let rows = store.usage(acme, all_of_2026(UsageGrouping::Hour)).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [180, i64::MAX - 1]);
}
