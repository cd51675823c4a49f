use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{join, join_all};
use ringtrue_engine::ports::{
    combined::Store,
    idempotency::ClaimOutcome,
    node::{LastSeenDatabase, NodeId},
    store::{ControlPlaneVersion, StoreError, TenantLookup},
    tokens::Revocation,
};
use ringtrue_test_support::database_proxy::{DatabaseProxy, ProxyState};
use tokio::{task::yield_now, time::timeout};

use crate::{
    fixture::{Database, StoreFixture},
    sample,
};

pub async fn read_only_database_is_unavailable(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    store.ping().await.unwrap();
    let blocked = fixture.database.block_writes().await;

    let (node, request) = (NodeId(sample::uuid()), sample::claim(acme.id.0, 1, 1));
    let (ping, heartbeat, revoke, claim, release) = futures_util::join!(
        store.ping(),
        store.heartbeat(node, sample::now(), sample::now(), LastSeenDatabase::default()),
        store.revoke_token(sample::revocation()),
        store.claim_idempotency_key(&request),
        store.release_idempotency_key(acme.id.0, [1; 32], sample::uuid()),
    );
    for result in [ping, heartbeat.map(drop), revoke, claim.map(drop), release] {
        assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
    }
    // Reads still work.
    retry_until_available(async || store.changes_since(ControlPlaneVersion(0), sample::now()).await).await;

    fixture.database.allow_writes(blocked).await;
    retry_until_available(async || store.ping().await).await;
    let revocation = sample::revocation();
    retry_until_available(async || store.revoke_token(revocation).await).await;
    assert!(
        store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().revocations.contains(&revocation)
    );
}

/// Connections break repeatedly under load. All acknowledged writes must be stored.
pub async fn store_recovers_after_lost_connections(fixture: &StoreFixture) {
    let store = &fixture.store;
    let cutting = AtomicBool::new(true);
    let revoke_until_stopped = async || {
        let mut acknowledged = Vec::new();
        while cutting.load(Ordering::SeqCst) {
            let revocation = sample::revocation();
            match store.revoke_token(revocation).await {
                Ok(()) => acknowledged.push(revocation.token),
                Err(StoreError::Unavailable(_)) => yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
        acknowledged
    };
    let cut = async {
        for _ in 0..5 {
            revoke_some(store).await;
            fixture.database.cut_connections().await;
        }
        cutting.store(false, Ordering::SeqCst);
    };
    let (acknowledged, ()) = join(join_all((0..8).map(|_| revoke_until_stopped())), cut).await;

    retry_until_available(async || store.ping().await).await;
    let changes =
        retry_until_available(async || store.changes_since(ControlPlaneVersion(0), sample::now()).await).await;
    let stored: BTreeSet<_> = changes.revocations.iter().map(|Revocation { token, .. }| *token).collect();
    let acknowledged: Vec<_> = acknowledged.into_iter().flatten().collect();
    assert!(!acknowledged.is_empty());
    assert!(acknowledged.iter().all(|token| stored.contains(token)));
}

/// Stores some revocations, and retries each until it succeeds.
async fn revoke_some(store: &Arc<dyn Store>) {
    for _ in 0..10 {
        retry_until_available(async || store.revoke_token(sample::revocation()).await).await;
    }
}

/// Repeats a call until the database is available again.
async fn retry_until_available<T>(mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let retries = async {
        loop {
            match call().await {
                Ok(result) => return result,
                Err(StoreError::Unavailable(_)) => yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    };
    timeout(Duration::from_secs(10), retries).await.expect("the database is available again")
}

/// A server that does not respond must not delay a call beyond its timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unresponsive_postgres_is_unavailable_within_seconds() {
    let database = Database::postgres().await;
    ringtrue_store::migrate(&database.url(), sample::now()).await.unwrap();
    let proxy = DatabaseProxy::start().await;
    let url = database.url_through(proxy.port);
    let options = ringtrue_store::StoreOptions { connections: 2, readers: 1, ..Default::default() };
    let store = ringtrue_store::open(&url, &options).await.unwrap();
    store.ping().await.unwrap();
    store.revoke_token(sample::revocation()).await.unwrap();

    proxy.set_state(ProxyState::Blocked);
    let calls = join_all((0..6).map(|number| {
        let store = &store;
        async move {
            match number % 3 {
                0 => store.ping().await,
                1 => store.revoke_token(sample::revocation()).await,
                _ => store.changes_since(ControlPlaneVersion(0), sample::now()).await.map(drop),
            }
        }
    }));
    for result in timeout(Duration::from_secs(9), calls).await.expect("calls end within their timeouts") {
        assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
    }
    proxy.set_state(ProxyState::Open);
    retry_until_available(async || store.ping().await).await;
    retry_until_available(async || store.revoke_token(sample::revocation()).await).await;
    drop(store);
    database.clear().await;
}

pub async fn completed_writes_survive_a_reopen(fixture: &StoreFixture) {
    let first = fixture.database.open().await;
    let acme = sample::stored_workspace(&*first).await;
    let (project, credential) = sample::stored_project(&*first, acme.id, "Shop").await;
    let revocation = sample::revocation();
    first.revoke_token(revocation).await.unwrap();
    let request = sample::claim(acme.id.0, 1, 1);
    first.claim_idempotency_key(&request).await.unwrap();
    let version = first.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;
    drop(first);

    let second = fixture.database.open().await;
    let changes = second.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
    assert_eq!(changes.version, version);
    assert_eq!((changes.workspaces, changes.projects), (vec![acme.clone()], vec![project]));
    assert_eq!(changes.revocations, [revocation]);
    let found = second.find_credential(credential.owner, &credential.client_id).await.unwrap();
    assert_eq!(found, TenantLookup::Found(credential));
    let again = sample::claim(acme.id.0, 1, 1);
    assert_eq!(second.claim_idempotency_key(&again).await.unwrap(), ClaimOutcome::InProgress);
}

pub async fn two_stores_share_a_database(fixture: &StoreFixture) {
    let other = fixture.database.open().await;
    let acme = sample::stored_workspace(&*fixture.store).await;
    assert_eq!(other.find_workspace(acme.id, acme.id).await.unwrap(), TenantLookup::Found(acme.clone()));
    sample::stored_project(&*other, acme.id, "Shop").await;
    assert_eq!(fixture.store.changes_since(ControlPlaneVersion(1), sample::now()).await.unwrap().projects.len(), 1);
}
