use std::collections::BTreeSet;

use futures_util::{
    StreamExt,
    future::{Either, join_all, select},
    stream,
};
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Invitation, InvitationId, Role},
    audit::Action,
};
use ringtrue_engine::ports::{
    combined::Store,
    idempotency::ClaimOutcome,
    node::{LastSeenDatabase, NodeId},
    store::ControlPlaneVersion,
    tokens::Revocation,
};

use crate::{
    fixture::{Database, StoreFixture},
    sample,
};

/// Sends a heartbeat and returns the live nodes.
async fn live_nodes(store: &dyn Store, node: NodeId, now: Timestamp, dead_before: Timestamp) -> Vec<NodeId> {
    store.heartbeat(node, now, dead_before, LastSeenDatabase::default()).await.unwrap().nodes
}

pub async fn node_is_live_until_its_heartbeat_expires(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, second) = (NodeId(sample::uuid()), NodeId(sample::uuid()));
    let heartbeat =
        async |node, seconds| live_nodes(store, node, sample::later(seconds), sample::later(seconds - 10)).await;
    assert_eq!(heartbeat(second, 0).await, [second]);
    assert_eq!(heartbeat(first, 5).await, [first, second], "sorted by id");
    assert_eq!(heartbeat(first, 10).await, [first, second], "ten seconds are within the limit");
    assert_eq!(store.count_live_nodes(sample::later(1)).await.unwrap(), 1);
    assert_eq!(heartbeat(first, 11).await, [first]);
    assert_eq!(heartbeat(second, 12).await, [first, second]);
}

pub async fn latest_recorded_time_never_decreases(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let machine_now = sample::now();
    let read = store.database_time(machine_now).await.unwrap();
    assert_eq!(read.latest_recorded, Timestamp::UNIX_EPOCH);
    for (seconds, latest) in [(60, 60), (30, 60), (90, 90)] {
        let now = sample::later(seconds);
        live_nodes(store, NodeId(sample::uuid()), now, now).await;
        assert_eq!(
            store.database_time(machine_now).await.unwrap().latest_recorded,
            sample::later(latest),
            "after {seconds} s"
        );
    }
    let clocks = [store.database_time(machine_now).await.unwrap(), store.database_time(machine_now).await.unwrap()];
    if matches!(fixture.database, Database::Postgres { .. }) {
        assert!(machine_now < clocks[0].clock && clocks[0].clock <= clocks[1].clock, "the server's clock");
    } else {
        assert_eq!(clocks[0].clock, machine_now, "the machine's clock");
    }
}

pub async fn database_rollback_is_detected(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (node, now) = (NodeId(sample::uuid()), sample::now());
    let heartbeat = async |generation, identity: Option<&str>| {
        let known = LastSeenDatabase { generation, identity: identity.map(str::to_owned) };
        store.heartbeat(node, now, now, known).await.unwrap()
    };
    let first = heartbeat(0, Some("one")).await;
    assert_eq!((first.generation, first.rollback_detected_at), (1, None));
    assert_eq!(heartbeat(1, Some("two")).await.rollback_detected_at, None, "a failover without loss");
    assert_eq!(heartbeat(0, Some("two")).await.rollback_detected_at, None, "the identity was recorded");
    assert_eq!(heartbeat(0, None).await.rollback_detected_at, None, "a node without memory");
    assert_eq!(heartbeat(0, Some("three")).await.rollback_detected_at, Some(now), "another identity, unknown loss");
    assert_eq!(heartbeat(5, Some("three")).await.rollback_detected_at, Some(now), "until the restore is accepted");

    let event = sample::event(None, Action::DatabaseRestored);
    let acme = sample::stored_workspace(store).await;
    let invitation = Invitation {
        id: InvitationId(sample::uuid()),
        workspace: acme.id,
        email: "jane@example.com".parse().unwrap(),
        role: Role::Owner,
        invited_by: None,
        created_at: now,
        expires_at: sample::later(60),
    };
    store.create_invitation(&invitation, 10, &sample::event(acme.id, Action::InvitationCreated)).await.unwrap();
    assert_eq!(store.accept_restored_database(&event).await.unwrap(), 0);
    assert_eq!(store.find_invitation(invitation.id, now).await.unwrap(), None, "restored invitations are revoked");
    assert_eq!(store.database_history().await.unwrap().rollback_detected_at, None);
    let after = heartbeat(7, None).await;
    assert_eq!(after.rollback_detected_at, None, "the generation exceeds any node's memory");
    assert_eq!(heartbeat(after.generation, None).await.rollback_detected_at, None);
    assert_eq!(heartbeat(after.generation + 2, None).await.rollback_detected_at, Some(now));

    store.reset_latest_time().await.unwrap();
    assert_eq!(store.database_time(now).await.unwrap().latest_recorded, Timestamp::UNIX_EPOCH);
    let identity = store.database_identity().await.unwrap();
    assert_eq!(identity.is_some(), matches!(fixture.database, Database::Postgres { .. }), "{identity:?}");
}

pub async fn deregistered_node_is_not_live(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, second) = (NodeId(sample::uuid()), NodeId(sample::uuid()));
    for node in [first, second] {
        live_nodes(store, node, sample::now(), sample::later(-10)).await;
    }
    store.deregister_node(second).await.unwrap();
    store.deregister_node(second).await.unwrap();
    assert_eq!(live_nodes(store, first, sample::now(), sample::later(-10)).await, [first]);
}

pub async fn demand_is_exchanged_between_nodes(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let nodes: [NodeId; 3] = std::array::from_fn(|_| NodeId(sample::uuid()));
    let publish = async |node: usize, demand: &str, seconds: i64| {
        let others = store.exchange_demand(nodes[node], demand.to_owned(), sample::later(seconds)).await.unwrap();
        let number = |id| nodes.iter().position(|node| *node == id).unwrap();
        let published = others.into_iter().map(|other| (number(other.node), other.published_at, other.demand));
        published.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let published = |node, seconds, demand: &str| (node, sample::later(seconds), demand.to_owned());
    assert_eq!(publish(0, "a", 0).await, []);
    assert_eq!(publish(1, "b", 1).await, [published(0, 0, "a")]);
    assert_eq!(publish(2, "", 2).await, [published(0, 0, "a"), published(1, 1, "b")]);
    assert_eq!(publish(0, "c", 3).await, [published(1, 1, "b"), published(2, 2, "")], "own demand is excluded");
    store.deregister_node(nodes[2]).await.unwrap();
    assert_eq!(publish(1, "d", 4).await, [published(0, 3, "c")]);
    live_nodes(store, nodes[1], sample::later(5), sample::later(4)).await;
    assert_eq!(publish(2, "e", 5).await, [published(1, 4, "d")], "a heartbeat deletes the demand of dead nodes");
}

/// A node that hangs while it publishes its request counts, by which nodes divide rate limits, does not delay the
/// others.
pub async fn demand_exchange_does_not_wait_for_other_nodes(fixture: &StoreFixture) {
    let Some(hanging) = fixture.database.lock_own_demand(NodeId(sample::uuid())).await else { return };
    let (node, now) = (NodeId(sample::uuid()), sample::now());
    let others = fixture.store.exchange_demand(node, "a".to_owned(), now).await.unwrap();
    assert_eq!(others, [], "the other node has not committed");
    drop(hanging);
}

/// After an outage, all nodes send heartbeats, and each considers the others dead.
pub async fn concurrent_heartbeats_do_not_deadlock(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let nodes: Vec<_> = (0..16).map(|_| NodeId(sample::uuid())).collect();
    for round in 1..=5 {
        let now = sample::later(round * 60);
        let heartbeats =
            nodes.iter().zip(stores.iter().cycle()).map(|(&node, store)| live_nodes(&**store, node, now, now));
        for live in join_all(heartbeats).await {
            assert!(!live.is_empty());
        }
        assert_eq!(live_nodes(&*fixture.store, nodes[0], now, now).await, nodes, "round {round}");
    }
}

pub async fn heartbeats_do_not_wait_for_tenants(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let slow = fixture.database.delay_audit_log_reads().await;

    // More reads than there are connections or readers. They are queued before the requests of the node.
    let tenants = join_all((0..12).map(|_| store.list_audit_events(acme.id, sample::ANY, sample::first_100())));
    let node = async {
        let id = NodeId(sample::uuid());
        let changes = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
        assert_eq!(changes.workspaces.len(), 1);
        assert_eq!(live_nodes(store, id, sample::now(), sample::now()).await, [id]);
        store.ping().await.unwrap();
        store.deregister_node(id).await.unwrap();
    };
    match select(tenants, Box::pin(node)).await {
        Either::Left(_) => panic!("the node waited for all tenants"),
        Either::Right(((), tenants)) => drop(tenants),
    }
    drop(slow);
}

pub async fn expired_rows_are_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let old = Revocation { expires_at: sample::later(10), ..sample::revocation() };
    let fresh = Revocation { expires_at: sample::later(20), ..sample::revocation() };
    let (old_key, fresh_key) = (sample::claim(sample::uuid(), 1, 1), sample::claim(sample::uuid(), 1, 1));
    let old_key = ringtrue_engine::ports::idempotency::IdempotencyClaim { expires_at: sample::later(10), ..old_key };
    for revocation in [old, fresh] {
        store.revoke_token(revocation).await.unwrap();
    }
    for request in [&old_key, &fresh_key] {
        store.claim_idempotency_key(request).await.unwrap();
    }
    assert_eq!(store.delete_expired(sample::later(9)).await.unwrap(), 0);
    assert_eq!(store.delete_expired(sample::later(11)).await.unwrap(), 2);
    assert_eq!(store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().revocations, [fresh]);
    let again = sample::claim(fresh_key.tenant, 1, 1);
    assert_eq!(store.claim_idempotency_key(&again).await.unwrap(), ClaimOutcome::InProgress);
    store.ping().await.unwrap();
}

pub async fn old_audit_events_are_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let before = store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap().total_items;
    assert_eq!(store.delete_audit_events_before(sample::now()).await.unwrap(), 0, "events at the bound stay");
    assert_eq!(store.delete_audit_events_before(sample::later(1)).await.unwrap(), before);
    assert_eq!(store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap().total_items, 0);
}

pub async fn deletion_of_expired_rows_is_limited(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let revoked = (0..1_100).map(|_| store.revoke_token(sample::revocation()));
    // Only some calls run at a time, so that none waits too long for a connection.
    stream::iter(revoked).buffer_unordered(16).for_each(async |result| result.unwrap()).await;
    let much_later = sample::later(86_400);
    assert_eq!(store.delete_expired(much_later).await.unwrap(), 1_000);
    assert_eq!(store.delete_expired(much_later).await.unwrap(), 100);
    assert_eq!(store.delete_expired(much_later).await.unwrap(), 0);
}
