use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::Action,
    lifecycle::{CheckId, Sealed},
    product::Product,
    reverse_sms::ReverseSmsCheck,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    activity::{UsageFilter, UsagePeriod},
    callbacks::{AttemptOutcome, AttemptRecord, AttemptSettlement},
    checks::CreateCheckOutcome,
    combined::Store,
    store::TenantLookup,
};

use crate::{
    check_lists::{self, Random},
    check_sample,
    fixture::StoreFixture,
    sample,
};

/// Time limit that is enough to delete all checks of a test.
const UNLIMITED: Duration = Duration::from_mins(1);

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Returns the first of a month, which is a valid retention boundary in all databases.
fn boundary() -> Timestamp {
    "2026-11-01T00:00:00Z".parse().unwrap()
}

/// Deletes everything that can be deleted now.
async fn delete_before(store: &dyn Store, before: Timestamp) {
    assert!(store.delete_old_checks(before, UNLIMITED).await.unwrap().is_complete);
}

/// Stores a concluded check and its callback, whose first attempt had this outcome.
async fn concluded_at(store: &dyn Store, created_at: Timestamp, outcome: AttemptOutcome) -> ReverseSmsCheck {
    let check = check_sample::check(ProjectId(sample::uuid()), created_at);
    assert_eq!(store.create_check(check_sample::new(check.clone())).await.unwrap(), CreateCheckOutcome::Created);
    let (conclusion, concluded) = check_sample::conclusion(check_sample::received(&check, true));
    store.conclude(conclusion, Some(check_sample::callback(created_at))).await.unwrap();
    settle(store, check.id, 1, outcome).await;
    concluded
}

async fn settle(store: &dyn Store, check: CheckId, attempt: u32, outcome: AttemptOutcome) {
    let log = AttemptRecord {
        started_at: sample::now(),
        ended_at: sample::now(),
        status: Some(200),
        failure: None,
        exchange: Some(Sealed(b"sealed".to_vec())),
    };
    assert!(store.settle_attempt(AttemptSettlement { check, attempt, outcome, log }).await.unwrap());
}

async fn exists(store: &dyn Store, check: &ReverseSmsCheck) -> bool {
    let found = store.find_check(check.project, check.product, check.id).await.unwrap();
    let callback = store.find_callback(check.project, check.id).await.unwrap();
    let exists = matches!(found, TenantLookup::Found(_));
    assert_eq!(exists, matches!(callback, TenantLookup::Found(_)), "a check and its callback vanish together");
    exists
}

async fn listed(store: &dyn Store, check: &ReverseSmsCheck) -> u64 {
    let page = check_sample::list(store, check.project, Product::ReverseSms, None, sample::first_100()).await.unwrap();
    assert_eq!(page.items.len() as u64, page.total_items);
    page.total_items
}

pub async fn old_checks_are_deleted_with_their_callbacks_and_attempts(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let next_month = boundary() + DAY * 30;
    let created = [
        boundary() - DAY * 40,
        boundary() - SignedDuration::from_millis(1),
        boundary(),
        boundary() + HOUR * 5,
        next_month + HOUR,
    ];
    // Creates partitions where the database has them, so that they are dropped as a whole.
    store.create_partitions(created[0], next_month).await.unwrap();
    let mut checks = Vec::new();
    for created_at in created {
        let check = concluded_at(store, created_at, AttemptOutcome::RetryAt(sample::later(10))).await;
        // The callback is still waiting, so part of the erasure is left in `erasures`.
        let audit = sample::event(acme.id, Action::NumberErased);
        store.erase_number(check.claimed.unwrap().hash, &audit).await.unwrap();
        settle(store, check.id, 2, AttemptOutcome::Delivered).await;
        checks.push(check);
    }
    for (table, rows) in [("callback_attempts", 10), ("erasures", 5)] {
        assert_eq!(fixture.count(table).await, rows, "{table}");
    }
    let events = store.list_all_audit_events(sample::ANY, sample::first_100()).await.unwrap().total_items;
    let [counters, days] = [fixture.sum("usage_counters").await, fixture.sum("usage_days").await];
    assert_eq!((counters, days), (5, 5));

    let assert_deleted = async |deleted: usize| {
        for (position, check) in checks.iter().enumerate() {
            assert_eq!(exists(store, check).await, position >= deleted, "{}", check.created_at);
            assert_eq!(listed(store, check).await, u64::from(position >= deleted), "{}", check.created_at);
        }
    };
    delete_before(store, created[0]).await;
    assert_deleted(0).await;
    for _ in 0..2 {
        delete_before(store, boundary()).await;
        assert_deleted(2).await;
    }
    delete_before(store, next_month).await;
    assert_deleted(4).await;
    for (table, rows) in [("checks", 1), ("callbacks", 1), ("callback_attempts", 2), ("erasures", 1), ("deadlines", 0)]
    {
        assert_eq!(fixture.count(table).await, rows, "{table}");
    }
    assert_eq!(fixture.sum("usage_counters").await, counters, "usage outlives the checks");
    assert_eq!(fixture.sum("usage_days").await, days);
    let events_after = store.list_all_audit_events(sample::ANY, sample::first_100()).await.unwrap().total_items;
    assert_eq!(events_after, events, "audit events outlive the checks");
}

/// Each call deletes at most one check. Lists never show or count a deleted check, although its counters remain.
pub async fn lists_are_exact_at_the_retention_boundary(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = check_lists::project(store).await;
    let mut random = Random(11);
    let stored = check_lists::checks(store, shop, &mut random, 120).await;
    let all_time = UsageFilter {
        from: "2026-01-01T00:00:00Z".parse().unwrap(),
        to: "2027-01-01T00:00:00Z".parse().unwrap(),
        period: UsagePeriod::Hour,
        project: Some(shop),
    };
    let usage = store.usage(acme, all_time).await.unwrap();
    // Boundaries at the start of a day, an hour and a month, within an hour, and at the time of a check.
    let within = stored[stored.len() / 3].created_at;
    let [hour, minute] = [boundary() - HOUR * 3, boundary() + HOUR * 3 + SignedDuration::from_millis(1_800_001)];
    let retained_after = |before: Timestamp| {
        let month = if before < boundary() { boundary() - DAY * 31 } else { boundary() };
        let before = if fixture.database.deletes_months() { month } else { before };
        stored.iter().filter(|check| check.created_at >= before).cloned().collect::<Vec<_>>()
    };
    for before in [boundary() - DAY, hour, boundary(), minute, within] {
        let retained = retained_after(before);
        let mut steps = 0;
        loop {
            let step = store.delete_old_checks(before, Duration::ZERO).await.unwrap();
            assert!(step.deleted_rows <= 1, "the first chunk is one check");
            if steps < 2 || step.is_complete {
                check_lists::assert_lists_match(store, shop, &retained, &mut random, 12).await;
            }
            if step.is_complete {
                break;
            }
            steps += 1;
        }
    }
    assert_eq!(store.usage(acme, all_time).await.unwrap(), usage);
    // A boundary before the last one deletes nothing, and lists do not count deleted checks again.
    let retained = retained_after(within);
    delete_before(store, boundary() - DAY).await;
    check_lists::assert_lists_match(store, shop, &retained, &mut random, 12).await;
}

pub async fn open_checks_and_waiting_callbacks_outlive_the_retention(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let open = check_sample::store_check(store, ProjectId(sample::uuid())).await;
    let waiting = concluded_at(store, sample::now(), AttemptOutcome::RetryAt(sample::later(10))).await;
    let delivered = concluded_at(store, sample::now(), AttemptOutcome::Delivered).await;
    let next_month = sample::now() + DAY * 31;
    delete_before(store, next_month).await;
    assert!(!exists(store, &delivered).await && exists(store, &waiting).await);
    assert_eq!(check_sample::find(store, &open).await, open);
    for check in [&open, &waiting] {
        assert_eq!(listed(store, check).await, 0, "lists omit what is older than the boundary");
    }

    settle(store, waiting.id, 2, AttemptOutcome::GivenUp).await;
    delete_before(store, next_month).await;
    assert!(!exists(store, &waiting).await);
    assert_eq!(check_sample::find(store, &open).await, open);
    let (conclusion, _) = check_sample::conclusion(open.expire().unwrap());
    store.conclude(conclusion, None).await.unwrap();
    delete_before(store, next_month).await;
    assert_eq!(fixture.count("checks").await, 0);
}

/// Two nodes delete the same checks at the same time.
pub async fn concurrent_deletions_delete_each_check_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let shop = ProjectId(sample::uuid());
    check_lists::checks(&*fixture.store, shop, &mut Random(3), 150).await;
    let concluded = fixture.count("checks where concluded_at is not null").await;
    let delete = async |store: &dyn Store| {
        let mut deleted = 0;
        loop {
            let step = store.delete_old_checks(sample::later(86_400 * 30), Duration::from_millis(1)).await.unwrap();
            deleted += step.deleted_rows;
            if step.is_complete {
                return deleted;
            }
        }
    };
    let (one, other) = futures_util::join!(delete(&*stores[0]), delete(&*stores[1]));
    // Each node skips the checks that the other is deleting, so some may be left.
    let rest = delete(&*stores[0]).await;
    assert_eq!(i64::try_from(one + other + rest).unwrap(), concluded);
    assert_eq!(fixture.count("checks where concluded_at is not null").await, 0);
    assert_eq!(fixture.database.deadlocks().await, 0);
}
