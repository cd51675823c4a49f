use futures_util::future::{Either, join_all, select};
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Invitation, InvitationId, Role},
    audit::Action,
};
use ringtrue_engine::ports::{ClaimOutcome, KnownDatabase, NodeId, Revocation, Store, Version};

use crate::{
    bench::{Bench, Database},
    sample,
};

/// The live nodes after a heartbeat of one of them.
async fn live(store: &dyn Store, node: NodeId, now: Timestamp, dead_before: Timestamp) -> Vec<NodeId> {
    store.heartbeat(node, now, dead_before, KnownDatabase::default()).await.unwrap().nodes
}

pub async fn a_node_lives_while_it_is_heard_of(bench: &Bench) {
    let store = &*bench.store;
    let (first, second) = (NodeId(sample::uuid()), NodeId(sample::uuid()));
    let beat = async |node, seconds| live(store, node, sample::later(seconds), sample::later(seconds - 10)).await;
    assert_eq!(beat(second, 0).await, [second]);
    assert_eq!(beat(first, 5).await, [first, second], "in the order of their ids");
    assert_eq!(beat(first, 10).await, [first, second], "ten seconds are not too long");
    assert_eq!(beat(first, 11).await, [first]);
    assert_eq!(beat(second, 12).await, [first, second]);
}

pub async fn the_latest_time_is_kept(bench: &Bench) {
    let store = &*bench.store;
    let machine_now = sample::now();
    let read = store.database_time(machine_now).await.unwrap();
    assert_eq!(read.latest, Timestamp::UNIX_EPOCH);
    for (seconds, latest) in [(60, 60), (30, 60), (90, 90)] {
        let now = sample::later(seconds);
        live(store, NodeId(sample::uuid()), now, now).await;
        assert_eq!(store.database_time(machine_now).await.unwrap().latest, sample::later(latest), "after {seconds} s");
    }
    let clocks = [store.database_time(machine_now).await.unwrap(), store.database_time(machine_now).await.unwrap()];
    if matches!(bench.database, Database::Postgres { .. }) {
        assert!(machine_now < clocks[0].clock && clocks[0].clock <= clocks[1].clock, "the server's clock");
    } else {
        assert_eq!(clocks[0].clock, machine_now, "there is no other clock");
    }
}

pub async fn a_database_that_went_back_is_noticed(bench: &Bench) {
    let store = &*bench.store;
    let (node, now) = (NodeId(sample::uuid()), sample::now());
    let beat = async |generation, identity: Option<&str>| {
        let known = KnownDatabase { generation, identity: identity.map(str::to_owned) };
        store.heartbeat(node, now, now, known).await.unwrap()
    };
    let first = beat(0, Some("one")).await;
    assert_eq!((first.generation, first.went_back_at), (1, None));
    assert_eq!(beat(1, Some("two")).await.went_back_at, None, "nothing is lost, so a standby took over");
    assert_eq!(beat(0, Some("two")).await.went_back_at, None, "its identity is recorded");
    assert_eq!(beat(0, None).await.went_back_at, None, "nothing is known");
    assert_eq!(beat(0, Some("three")).await.went_back_at, Some(now), "nobody knows what is lost");
    assert_eq!(beat(5, Some("three")).await.went_back_at, Some(now), "until somebody says that it is right");

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
    store.invite(&invitation, 10, &sample::event(acme.id, Action::InvitationCreated)).await.unwrap();
    assert_eq!(store.accept_restored_database(&event).await.unwrap(), 0);
    assert_eq!(store.invitation(invitation.id, now).await.unwrap(), None, "it may have been withdrawn since");
    assert_eq!(store.database_history().await.unwrap().went_back_at, None);
    let after = beat(7, None).await;
    assert_eq!(after.went_back_at, None, "no node remembers more");
    assert_eq!(beat(after.generation, None).await.went_back_at, None);
    assert_eq!(beat(after.generation + 2, None).await.went_back_at, Some(now));

    store.reset_latest_time().await.unwrap();
    assert_eq!(store.database_time(now).await.unwrap().latest, Timestamp::UNIX_EPOCH);
    let identity = store.database_identity().await.unwrap();
    assert_eq!(identity.is_some(), matches!(bench.database, Database::Postgres { .. }), "{identity:?}");
}

pub async fn a_node_leaves(bench: &Bench) {
    let store = &*bench.store;
    let (first, second) = (NodeId(sample::uuid()), NodeId(sample::uuid()));
    for node in [first, second] {
        live(store, node, sample::now(), sample::later(-10)).await;
    }
    store.leave(second).await.unwrap();
    store.leave(second).await.unwrap();
    assert_eq!(live(store, first, sample::now(), sample::later(-10)).await, [first]);
}

pub async fn nodes_read_what_others_published(bench: &Bench) {
    let store = &*bench.store;
    let nodes: [NodeId; 3] = std::array::from_fn(|_| NodeId(sample::uuid()));
    let publish = async |node: usize, demand: &str, seconds: i64| {
        let (now, stale_before) = (sample::later(seconds), sample::later(seconds - 3));
        let mut others = store.exchange_demand(nodes[node], demand.to_owned(), now, stale_before).await.unwrap();
        others.sort();
        others.into_iter().map(|(_, demand)| demand).collect::<Vec<_>>()
    };
    assert_eq!(publish(0, "a", 0).await, [""; 0]);
    assert_eq!(publish(1, "b", 1).await, ["a"]);
    assert_eq!(publish(2, "", 2).await, ["a", "b"]);
    assert_eq!(publish(0, "c", 2).await, ["b", ""], "its own is not read back");
    assert_eq!(publish(0, "d", 5).await, [""], "what is old is forgotten");
    store.leave(nodes[2]).await.unwrap();
    assert_eq!(publish(0, "d", 5).await, [""; 0]);
}

/// After an outage all are heard of again, and each takes the others for dead.
pub async fn many_nodes_are_heard_at_once(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let nodes: Vec<_> = (0..16).map(|_| NodeId(sample::uuid())).collect();
    for round in 1..=5 {
        let now = sample::later(round * 60);
        let beats = nodes.iter().zip(stores.iter().cycle()).map(|(&node, store)| live(&**store, node, now, now));
        for live in join_all(beats).await {
            assert!(!live.is_empty());
        }
        assert_eq!(live(&*bench.store, nodes[0], now, now).await, nodes, "round {round}");
    }
}

pub async fn a_node_lives_on_while_tenants_keep_the_database_busy(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let slow = bench.database.slow_audit_log_down().await;

    // More than there are connections or readers. They are asked for first.
    let tenants = join_all((0..12).map(|_| store.audit_events(acme.id, sample::ANY, sample::whole())));
    let node = async {
        let id = NodeId(sample::uuid());
        let changes = store.changes_since(Version(0), sample::now()).await.unwrap();
        assert_eq!(changes.workspaces.len(), 1);
        assert_eq!(live(store, id, sample::now(), sample::now()).await, [id]);
        store.ping().await.unwrap();
        store.leave(id).await.unwrap();
    };
    match select(tenants, Box::pin(node)).await {
        Either::Left(_) => panic!("the node waited until all tenants were answered"),
        Either::Right(((), tenants)) => drop(tenants),
    }
    drop(slow);
}

pub async fn what_has_expired_is_forgotten(bench: &Bench) {
    let store = &*bench.store;
    let old = Revocation { expires_at: sample::later(10), ..sample::revocation() };
    let fresh = Revocation { expires_at: sample::later(20), ..sample::revocation() };
    let (old_key, fresh_key) = (sample::claim(sample::uuid(), 1, 1), sample::claim(sample::uuid(), 1, 1));
    let old_key = ringtrue_engine::ports::ClaimRequest { expires_at: sample::later(10), ..old_key };
    for revocation in [old, fresh] {
        store.revoke(revocation).await.unwrap();
    }
    for request in [&old_key, &fresh_key] {
        store.claim(request).await.unwrap();
    }
    assert_eq!(store.forget_expired(sample::later(9)).await.unwrap(), 0);
    assert_eq!(store.forget_expired(sample::later(11)).await.unwrap(), 2);
    assert_eq!(store.changes_since(Version(0), sample::now()).await.unwrap().revocations, [fresh]);
    let again = sample::claim(fresh_key.tenant, 1, 1);
    assert_eq!(store.claim(&again).await.unwrap(), ClaimOutcome::InProgress);
    store.ping().await.unwrap();
}

pub async fn old_audit_events_are_deleted(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let before = store.audit_events(acme.id, sample::ANY, sample::whole()).await.unwrap().total_items;
    assert_eq!(store.delete_audit_events(sample::now()).await.unwrap(), 0, "events of that instant stay");
    assert_eq!(store.delete_audit_events(sample::later(1)).await.unwrap(), before);
    assert_eq!(store.audit_events(acme.id, sample::ANY, sample::whole()).await.unwrap().total_items, 0);
}

pub async fn only_a_bounded_number_is_forgotten_at_once(bench: &Bench) {
    let store = &*bench.store;
    let revoked = (0..1_100).map(|_| store.revoke(sample::revocation()));
    for answer in join_all(revoked).await {
        answer.unwrap();
    }
    let much_later = sample::later(86_400);
    assert_eq!(store.forget_expired(much_later).await.unwrap(), 1_000);
    assert_eq!(store.forget_expired(much_later).await.unwrap(), 100);
    assert_eq!(store.forget_expired(much_later).await.unwrap(), 0);
}
