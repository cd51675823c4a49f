//! Tests the partitions of tables by month, and their distribution over the servers of a Citus cluster.

use futures_util::future::{join, join_all};
use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::CheckId, product::Product, reverse_sms::ReverseSmsCheck, tenancy::ProjectId};
use ringtrue_engine::ports::{
    callbacks::{AttemptOutcome, AttemptRecord, AttemptSettlement},
    checks::{CompanionRow, ConcludeOutcome, CreateCheckOutcome, NewCheck},
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotentResponse},
    store::{Completeness, TenantLookup},
};
use ringtrue_store::{CitusAccess, DistributionState, StoreOptions, distribute, distribution_state, migrate};

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
    let log = AttemptRecord {
        started_at: sample::now(),
        ended_at: sample::later(1),
        status: Some(200),
        failure: None,
        exchange: None,
    };
    AttemptSettlement { check, attempt: 1, outcome: AttemptOutcome::Delivered, log }
}

/// Returns how many statements on distributed tables the servers have executed on one shard, and on several. Statements
/// on the shards themselves are not counted.
pub async fn forwarded_statements(database: &Database) -> (i64, i64) {
    let select = "select query_execution_single_shard, query_execution_multi_shard
                    from citus_stat_counters where name = current_database()";
    let counters = database.query_every_server(select).await;
    counters.iter().fold((0, 0), |(one, several), row| (one + row.get::<_, i64>(0), several + row.get::<_, i64>(1)))
}

pub async fn lookups_through_the_coordinator_are_one_task(fixture: &StoreFixture) {
    let options = StoreOptions { citus: CitusAccess::Coordinator, ..StoreOptions::default() };
    let store = &*fixture.database.open_with(options).await;
    let project = ProjectId(sample::uuid());
    let new = check_sample::new(check_sample::check(project, sample::now()));
    store.create_check(new.clone()).await.unwrap();
    let (single, multi) = forwarded_statements(&fixture.database).await;
    for _ in 0..5 {
        store.find_check(project, Product::ReverseSms, new.check.id).await.unwrap();
        assert!(store.find_check_by_code(vec![check_sample::code(&new)]).await.unwrap().is_some());
    }
    assert_eq!(forwarded_statements(&fixture.database).await, (single + 10, multi));
}

/// A check is created, found, concluded and reported, and others are swept, without a statement through the coordinator.
pub async fn frequent_operations_ask_the_server_that_has_the_rows(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let before = forwarded_statements(&fixture.database).await;
    let mut created = 0;
    while created < 20 {
        // As the engine does, so that the limit of the number is on the server of the check.
        let check = check_sample::check(project, sample::now());
        if !store.are_colocated(CompanionRow::NumberLimit(check.claimed.unwrap().hash), check.id.bucket()) {
            continue;
        }
        let new = check_sample::new(check.clone());
        created += 1;
        store.create_check(new.clone()).await.unwrap();
        let found = store.find_check_by_code(vec![check_sample::code(&new)]).await.unwrap().unwrap();
        assert_eq!(found.id, check.id);
        store.find_check(project, Product::ReverseSms, new.check.id).await.unwrap();
        let (conclusion, _) = check_sample::conclusion(check_sample::received(&check, true));
        let callback = Some(check_sample::callback(sample::now()));
        assert_eq!(
            store.conclude(conclusion, callback).await.unwrap(),
            ConcludeOutcome::Concluded { was_pending: false }
        );
        assert!(store.settle_attempt(settlement(new.check.id)).await.unwrap());
    }
    assert!(store.overdue_checks(sample::now(), 10, Completeness::All).await.unwrap().is_empty());
    assert!(store.lease_due_callbacks(sample::now(), sample::later(1), 10, &[]).await.unwrap().is_empty());
    assert_eq!(store.next_callback_due_at().await.unwrap(), None);
    assert_eq!(forwarded_statements(&fixture.database).await, before);
    assert_eq!(fixture.sum("usage_counters").await, 20, "every server counts its checks");
}

/// A check that is stored with the response to a request with an idempotency key is on the server of the key, if its id
/// was chosen for this.
pub async fn keyed_creates_ask_one_server(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let before = forwarded_statements(&fixture.database).await;
    for _ in 0..20 {
        let request = IdempotencyClaim { key_digest: sample::random(), ..sample::claim(project.0, 1, 1) };
        assert_eq!(store.claim_idempotency_key(&request).await.unwrap(), ClaimOutcome::Claimed);
        let key = CompanionRow::IdempotencyKey(request.key_digest);
        let checks = std::iter::repeat_with(|| check_sample::check(project, sample::now()));
        let check = checks.into_iter().find(|check| store.are_colocated(key, check.id.bucket())).unwrap();
        let response = IdempotentResponse {
            tenant: request.tenant,
            key_digest: request.key_digest,
            claim_id: request.claim_id,
            sealed_response: b"sealed".to_vec(),
        };
        let new = check_sample::new(check.clone());
        store.create_check(NewCheck { number_limit: None, idempotent_response: Some(response), ..new }).await.unwrap();
        let again = IdempotencyClaim { claim_id: sample::uuid(), ..request };
        assert_eq!(store.claim_idempotency_key(&again).await.unwrap(), ClaimOutcome::Completed(b"sealed".to_vec()));
    }
    assert_eq!(forwarded_statements(&fixture.database).await, before);
}

/// A node that has not learned yet that shards have moved writes to the right server all the same.
pub async fn moved_shards_are_found(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let before = join_all((0..20).map(|_| check_sample::store_check(store, project))).await;
    fixture
        .database
        .execute(
            "select citus_move_shard_placement(shardid, nodename, nodeport, other_name, other_port, 'block_writes')
               from citus_shards
                    join lateral (select nodename as other_name, nodeport as other_port from pg_dist_node
                                   where groupid > 0 and nodeport <> citus_shards.nodeport) as other on true
              where table_name = 'checks'::regclass",
        )
        .await;
    for check in &before {
        assert_eq!(check_sample::find(store, check).await, *check);
    }
    let after = join_all((0..20).map(|_| check_sample::store_check(store, project))).await;
    for check in before.iter().chain(&after) {
        let (conclusion, _) = check_sample::conclusion(check_sample::received(check, true));
        let outcomes = join(store.conclude(conclusion.clone(), None), store.conclude(conclusion, None)).await;
        let concluded = [outcomes.0.unwrap(), outcomes.1.unwrap()];
        let first = ConcludeOutcome::Concluded { was_pending: false };
        assert_eq!(concluded.iter().filter(|outcome| **outcome == first).count(), 1, "{concluded:?}");
    }
    assert_eq!(fixture.count("checks where concluded_at is not null").await, 40);
    assert_eq!(fixture.count("deadlines").await, 0);
    assert_eq!(fixture.sum("usage_counters").await, 40);
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
