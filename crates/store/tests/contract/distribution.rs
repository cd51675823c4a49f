//! Division of tables by time, and over the servers of a Citus cluster.

use futures_util::future::{join, join_all};
use jiff::SignedDuration;
use ringtrue_domain::{product::Product, tenancy::ProjectId};
use ringtrue_engine::ports::{CreateCheckOutcome, TenantLookup};
use ringtrue_store::{DistributionState, distribute, distribution_state, migrate};

use crate::{
    check_sample,
    fixture::{Database, StoreFixture},
    sample,
};

pub async fn missing_partitions_are_created(fixture: &StoreFixture) {
    let store = &*fixture.store;
    // Partitions of the months around the real time exist.
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

/// A server creates checks while its tables are distributed.
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
