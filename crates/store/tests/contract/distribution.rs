//! Tests the partitions of tables by month, and their distribution over the servers of a Citus cluster.

use futures_util::future::{join, join_all};
use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::CheckId, product::Product, reverse_sms::ReverseSmsCheck, tenancy::ProjectId};
use ringtrue_engine::ports::{
    callbacks::{AttemptLog, AttemptOutcome, AttemptSettlement},
    checks::{ConcludeOutcome, CreateCheckOutcome},
    store::TenantLookup,
};
use ringtrue_store::{DistributionState, distribute, distribution_state, migrate};

use crate::{
    check_sample,
    fixture::{Database, StoreFixture},
    sample,
};

pub async fn missing_partitions_are_created(fixture: &StoreFixture) {
    let store = &*fixture.store;
    // The time is far in the future, because partitions around the current time exist already.
    let later = sample::now() + SignedDuration::from_hours(24 * 365 * 20);
    let month = SignedDuration::from_hours(24 * 28);
    assert_eq!(store.create_partitions(later, later + month).await.unwrap(), 8, "four tables, two months");
    assert_eq!(store.create_partitions(later, later + month).await.unwrap(), 0);

    let project = ProjectId(sample::uuid());
    for (created_at, partition) in [(later, "checks_2046_11"), (later + month * 3, "checks_default")] {
        let new = check_sample::new(check_sample::check(project, created_at));
        let id = new.check.id;
        assert_eq!(store.create_check(new).await.unwrap(), CreateCheckOutcome::Created);
        let row = fixture.database.query_one(&format!("select count(*) from {partition} where id = '{id}'")).await;
        assert_eq!(row.get::<_, i64>(0), 1, "{partition}");
        let found = store.find_check(project, Product::ReverseSms, id).await.unwrap();
        assert!(matches!(found, TenantLookup::Found(_)), "{found:?}");
    }
}

/// The planner has no statistics about new partitions. It must still not read all rows between the first and the last
/// id of a batch.
pub async fn batches_read_only_their_rows_of_new_partitions(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let checks = join_all((0..1_000).map(|_| check_sample::store_check(store, project))).await;
    let mut concluded = 0;
    for first in 0..5 {
        let batch: Vec<_> = checks.iter().skip(first).step_by(20).collect();
        let conclude = |check: &&ReverseSmsCheck| {
            let (conclusion, _) = check_sample::conclusion(check_sample::received(check, true));
            store.conclude(conclusion, Some(check_sample::callback(sample::now())))
        };
        for outcome in join_all(batch.iter().map(conclude)).await {
            assert_eq!(outcome.unwrap(), ConcludeOutcome::Concluded { was_pending: false });
        }
        for outcome in join_all(batch.iter().map(|check| store.settle_attempt(settlement(check.id)))).await {
            outcome.unwrap();
        }
        concluded += i64::try_from(batch.len()).unwrap();
    }
    fixture.database.end_sessions().await;
    for table in ["checks", "callbacks"] {
        let read = format!(
            "select sum(idx_tup_read)::bigint from pg_stat_user_indexes
              where relname like '{table}_%' and indexrelname like '%_pkey'"
        );
        let read: i64 = fixture.database.query_one(&read).await.get(0);
        // A row that was updated may have two index entries.
        assert!((concluded..=3 * concluded).contains(&read), "{read} index entries of {table} for {concluded} rows");
    }
}

fn settlement(check: CheckId) -> AttemptSettlement {
    let log = AttemptLog {
        started_at: sample::now(),
        ended_at: sample::later(1),
        status: Some(200),
        failure: None,
        exchange: None,
    };
    AttemptSettlement { check, attempt: 1, outcome: AttemptOutcome::Delivered, log }
}

pub async fn lookups_by_id_and_code_are_one_task(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let new = check_sample::new(check_sample::check(project, sample::now()));
    store.create_check(new.clone()).await.unwrap();
    let executions = async || {
        let row = fixture
            .database
            .query_one(
                "select query_execution_single_shard, query_execution_multi_shard
                   from citus_stat_counters where name = current_database()",
            )
            .await;
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    let (single, multi) = executions().await;
    for _ in 0..5 {
        store.find_check(project, Product::ReverseSms, new.check.id).await.unwrap();
        assert!(store.find_check_by_code(vec![check_sample::code(&new)]).await.unwrap().is_some());
    }
    assert_eq!(executions().await, (single + 10, multi));
}

/// A server creates checks while their tables are being distributed.
pub async fn tables_with_rows_are_distributed_while_they_are_written(_: &StoreFixture) {
    let database = Database::empty_citus().await;
    let url = database.url();
    migrate(&url, sample::now()).await.unwrap();
    let store = database.open().await;
    let project = ProjectId(sample::uuid());
    let before = join_all((0..50).map(|_| check_sample::store_check(&*store, project))).await;
    assert!(
        matches!(distribution_state(&url).await.unwrap(), Some(DistributionState::Pending(tables)) if tables.len() > 20)
    );

    let mut progress = Vec::new();
    let (distributed, during) = join(distribute(&url, |step| progress.push(step.table)), async {
        let mut created = Vec::new();
        for _ in 0..200 {
            created.push(check_sample::store_check(&*store, project).await);
        }
        created
    })
    .await;
    let distributed = distributed.unwrap();
    assert_eq!(distributed, progress);
    assert_eq!(distribute(&url, |_| {}).await.unwrap(), [""; 0], "nothing is left");

    let after = check_sample::store_check(&*store, project).await;
    for check in before.iter().chain(&during).chain([&after]) {
        assert_eq!(check_sample::find(&*store, check).await, *check);
    }
    let listed = check_sample::list(&*store, project, Product::ReverseSms, None, sample::first_100()).await.unwrap();
    assert_eq!(listed.total_items, 251);
    let Some(DistributionState::Distributed(balance)) = distribution_state(&url).await.unwrap() else {
        panic!("not distributed");
    };
    assert_eq!(balance.servers.len(), 2, "{balance:?}");
    drop(store);
    database.clear().await;
}
