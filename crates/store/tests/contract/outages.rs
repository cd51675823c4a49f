use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{join, join_all};
use ringtrue_engine::ports::{ControlPlaneVersion, LastSeenDatabase, NodeId, Revocation, Store, StoreError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinSet, yield_now},
    time::timeout,
};

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

/// Connections break repeatedly under load. Acknowledged writes must be stored.
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

/// Stores some revocations, with retries.
async fn revoke_some(store: &Arc<dyn Store>) {
    for _ in 0..10 {
        retry_until_available(async || store.revoke_token(sample::revocation()).await).await;
    }
}

/// Retries until the database is available again.
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

/// An unresponsive server must not delay a call beyond its timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unresponsive_postgres_is_unavailable_within_seconds() {
    let database = Database::postgres().await;
    ringtrue_store::migrate(&database.url(), sample::now()).await.unwrap();
    let proxy = DroppingProxy::start(&database).await;
    let url = proxy.url(&database).parse().unwrap();
    let options = ringtrue_store::StoreOptions { connections: 2, readers: 1, ..Default::default() };
    let store = ringtrue_store::open(&url, &options).await.unwrap();
    store.ping().await.unwrap();
    store.revoke_token(sample::revocation()).await.unwrap();

    proxy.drop_traffic(true);
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
    proxy.drop_traffic(false);
    retry_until_available(async || store.ping().await).await;
    retry_until_available(async || store.revoke_token(sample::revocation()).await).await;
    drop(store);
    database.clear().await;
}

/// A TCP proxy that can drop all traffic.
struct DroppingProxy {
    port: u16,
    is_dropping: Arc<AtomicBool>,
    _connections: JoinSet<()>,
}

impl DroppingProxy {
    async fn start(database: &Database) -> Self {
        let Database::Postgres { server, .. } = database else { panic!("SQLite has no server") };
        let authority = server.split('@').nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, is_dropping) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let dropping = Arc::clone(&is_dropping);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut pairs = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let far = TcpStream::connect(&authority).await.unwrap();
                let ((near_out, near_in), (far_out, far_in)) = (near.into_split(), far.into_split());
                pairs.spawn(forward(near_out, far_in, Arc::clone(&dropping)));
                pairs.spawn(forward(far_out, near_in, Arc::clone(&dropping)));
            }
        });
        DroppingProxy { port, is_dropping, _connections: connections }
    }

    fn url(&self, database: &Database) -> String {
        let Database::Postgres { server, name } = database else { panic!("SQLite has no server") };
        let user = server.split("//").nth(1).and_then(|rest| rest.split('@').next()).unwrap();
        format!("postgres://{user}@127.0.0.1:{}/{name}", self.port)
    }

    fn drop_traffic(&self, is_dropping: bool) {
        self.is_dropping.store(is_dropping, Ordering::SeqCst);
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    is_dropping: Arc<AtomicBool>,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if !is_dropping.load(Ordering::SeqCst) && to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
