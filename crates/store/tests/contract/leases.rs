use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::{
    combined::Store,
    leases::{Lease, LeaseRequest},
    node::NodeId,
};

use crate::{
    fixture::{Database, StoreFixture},
    sample,
};

const DURATION: Duration = Duration::from_secs(5);

fn node() -> NodeId {
    NodeId(sample::uuid())
}

async fn acquire(store: &dyn Store, name: &str, node: NodeId, links_up: u32, machine_now: Timestamp) -> Lease {
    let request = LeaseRequest { name: name.to_owned(), node, duration: DURATION, links_up };
    store.acquire_lease(request, machine_now).await.unwrap()
}

/// Makes a lease expire, as if its time had passed.
async fn expire(fixture: &StoreFixture, name: &str) {
    fixture.database.execute(&format!("update leases set expires_at = 1 where name = '{name}'")).await;
}

pub async fn lease_is_held_by_one_node(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, second, now) = (node(), node(), sample::now());
    assert_eq!(store.find_lease("a", now).await.unwrap(), None);
    let lease = acquire(store, "a", first, 0, now).await;
    assert_eq!((lease.holder, lease.links_up, &*lease.name), (first, 0, "a"));
    assert_eq!(acquire(store, "a", second, 3, now).await, lease, "another node does not change it");
    assert_eq!(acquire(store, "b", second, 0, now).await.holder, second, "another lease");
    let renewed = acquire(store, "a", first, 2, now).await;
    assert!(renewed.expires_at >= lease.expires_at && renewed.links_up == 2, "{renewed:?}");
    assert_eq!(store.find_lease("a", now).await.unwrap(), Some(renewed));
}

pub async fn released_lease_is_free(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, second, now) = (node(), node(), sample::now());
    acquire(store, "a", first, 1, now).await;
    store.release_lease("a", second).await.unwrap();
    assert_eq!(acquire(store, "a", second, 0, now).await.holder, first, "only the holder releases it");
    store.release_lease("a", first).await.unwrap();
    assert_eq!(store.find_lease("a", now).await.unwrap(), None);
    assert_eq!(acquire(store, "a", second, 0, now).await.holder, second);
}

pub async fn deregistered_node_releases_its_leases(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, second, now) = (node(), node(), sample::now());
    for (name, node) in [("a", first), ("b", first), ("c", second)] {
        acquire(store, name, node, 1, now).await;
    }
    store.deregister_node(first).await.unwrap();
    let holders = join_all(["a", "b", "c"].map(|name| store.find_lease(name, now))).await;
    let holders: Vec<_> = holders.into_iter().map(|lease| lease.unwrap().map(|lease| lease.holder)).collect();
    assert_eq!(holders, [None, None, Some(second)]);
}

pub async fn expired_lease_is_free(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, second, now) = (node(), node(), sample::now());
    acquire(store, "a", first, 1, now).await;
    expire(fixture, "a").await;
    assert_eq!(store.find_lease("a", now).await.unwrap(), None);
    let taken = acquire(store, "a", second, 0, now).await;
    assert_eq!((taken.holder, taken.links_up), (second, 0));
    assert_eq!(acquire(store, "a", first, 1, now).await, taken, "the former holder has lost it");
}

/// Where the database has a clock, the clock of a node's machine has no effect.
pub async fn lease_expires_by_the_clock_of_the_database(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, second) = (node(), node());
    let lease = acquire(store, "a", first, 0, sample::now()).await;
    let much_later = lease.expires_at + SignedDuration::from_hours(1);
    let by_another_machine = acquire(store, "a", second, 0, much_later).await;
    if matches!(fixture.database, Database::Postgres { .. }) {
        let clock = store.database_time(sample::now()).await.unwrap().clock;
        let left = lease.expires_at.duration_since(clock);
        assert!(left.is_positive() && left <= SignedDuration::try_from(DURATION).unwrap(), "{left}");
        assert_eq!(by_another_machine, lease, "a machine an hour ahead does not take it");
    } else {
        assert_eq!(lease.expires_at, sample::now() + DURATION);
        assert_eq!(by_another_machine.holder, second);
    }
}

pub async fn concurrent_requests_acquire_a_lease_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    for round in 0..10 {
        let name = format!("lease {round}");
        let nodes: Vec<_> = (0..8).map(|_| node()).collect();
        if round % 2 == 1 {
            // In half of the rounds, the nodes compete for an expired lease.
            acquire(&*fixture.store, &name, node(), 1, sample::now()).await;
            expire(fixture, &name).await;
        }
        let requests = nodes.iter().zip(stores.iter().cycle());
        let requests = requests.map(|(node, store)| acquire(&**store, &name, *node, 0, sample::now()));
        let holders: Vec<_> = join_all(requests).await.into_iter().map(|lease| lease.holder).collect();
        assert!(nodes.contains(&holders[0]) && holders.iter().all(|holder| *holder == holders[0]), "{holders:?}");
    }
}
