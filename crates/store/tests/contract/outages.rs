use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{join, join_all};
use ringtrue_engine::ports::{KnownDatabase, NodeId, Revocation, Store, StoreError, Version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinSet, yield_now},
    time::timeout,
};

use crate::{
    bench::{Bench, Database},
    sample,
};

pub async fn a_read_only_database_is_unavailable(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    store.ping().await.unwrap();
    let blocked = bench.database.block_writes().await;

    let (node, request) = (NodeId(sample::uuid()), sample::claim(acme.id.0, 1, 1));
    let (ping, heartbeat, revoke, claim, abandon) = futures_util::join!(
        store.ping(),
        store.heartbeat(node, sample::now(), sample::now(), KnownDatabase::default()),
        store.revoke(sample::revocation()),
        store.claim(&request),
        store.abandon(acme.id.0, [1; 32], sample::uuid()),
    );
    for answer in [ping, heartbeat.map(drop), revoke, claim.map(drop), abandon] {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    // What can be read is read.
    until_it_answers(async || store.changes_since(Version(0), sample::now()).await).await;

    bench.database.allow_writes(blocked).await;
    until_it_answers(async || store.ping().await).await;
    let revocation = sample::revocation();
    until_it_answers(async || store.revoke(revocation).await).await;
    assert!(store.changes_since(Version(0), sample::now()).await.unwrap().revocations.contains(&revocation));
}

/// Connections are cut again and again under load: what was answered is there, and work goes on.
pub async fn a_database_that_comes_back_is_used_again(bench: &Bench) {
    let store = &bench.store;
    let cutting = AtomicBool::new(true);
    let revoke_until_the_end = async || {
        let mut acknowledged = Vec::new();
        while cutting.load(Ordering::SeqCst) {
            let revocation = sample::revocation();
            match store.revoke(revocation).await {
                Ok(()) => acknowledged.push(revocation.token),
                Err(StoreError::Unavailable(_)) => yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
        acknowledged
    };
    let cut = async {
        for _ in 0..5 {
            sample_work(store).await;
            bench.database.cut_connections().await;
        }
        cutting.store(false, Ordering::SeqCst);
    };
    let (acknowledged, ()) = join(join_all((0..8).map(|_| revoke_until_the_end())), cut).await;

    until_it_answers(async || store.ping().await).await;
    let changes = until_it_answers(async || store.changes_since(Version(0), sample::now()).await).await;
    let stored: BTreeSet<_> = changes.revocations.iter().map(|Revocation { token, .. }| *token).collect();
    let acknowledged: Vec<_> = acknowledged.into_iter().flatten().collect();
    assert!(!acknowledged.is_empty());
    assert!(acknowledged.iter().all(|token| stored.contains(token)));
}

/// Some revocations that succeed, however long that takes.
async fn sample_work(store: &Arc<dyn Store>) {
    for _ in 0..10 {
        until_it_answers(async || store.revoke(sample::revocation()).await).await;
    }
}

/// A database that is back is to be noticed within seconds.
async fn until_it_answers<T>(mut ask: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let asking = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(StoreError::Unavailable(_)) => yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    };
    timeout(Duration::from_secs(10), asking).await.expect("the database is used again")
}

/// A server that is there and says nothing must not hold anybody up for longer than the deadlines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_postgres_is_unavailable_within_seconds() {
    let database = Database::postgres().await;
    ringtrue_store::migrate(&database.url(), sample::now()).await.unwrap();
    let wire = Wire::to(&database).await;
    let url = wire.url(&database).parse().unwrap();
    let options = ringtrue_store::StoreOptions { connections: 2, readers: 1, ..Default::default() };
    let store = ringtrue_store::open(&url, &options).await.unwrap();
    store.ping().await.unwrap();
    store.revoke(sample::revocation()).await.unwrap();

    wire.silence(true);
    let asked = join_all((0..6).map(|number| {
        let store = &store;
        async move {
            match number % 3 {
                0 => store.ping().await,
                1 => store.revoke(sample::revocation()).await,
                _ => store.changes_since(Version(0), sample::now()).await.map(drop),
            }
        }
    }));
    for answer in timeout(Duration::from_secs(9), asked).await.expect("answers within the deadlines") {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    wire.silence(false);
    until_it_answers(async || store.ping().await).await;
    until_it_answers(async || store.revoke(sample::revocation()).await).await;
    drop(store);
    database.clear().await;
}

/// A wire to a server that can be made to swallow everything.
struct Wire {
    port: u16,
    is_silent: Arc<AtomicBool>,
    _connections: JoinSet<()>,
}

impl Wire {
    async fn to(database: &Database) -> Self {
        let Database::Postgres { server, .. } = database else { panic!("there is no wire to a file") };
        let authority = server.split('@').nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, is_silent) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let silence = Arc::clone(&is_silent);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut pairs = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let far = TcpStream::connect(&authority).await.unwrap();
                let ((near_out, near_in), (far_out, far_in)) = (near.into_split(), far.into_split());
                pairs.spawn(carry(near_out, far_in, Arc::clone(&silence)));
                pairs.spawn(carry(far_out, near_in, Arc::clone(&silence)));
            }
        });
        Wire { port, is_silent, _connections: connections }
    }

    fn url(&self, database: &Database) -> String {
        let Database::Postgres { server, name } = database else { panic!("there is no wire to a file") };
        let user = server.split("//").nth(1).and_then(|rest| rest.split('@').next()).unwrap();
        format!("postgres://{user}@127.0.0.1:{}/{name}", self.port)
    }

    fn silence(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    is_silent: Arc<AtomicBool>,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if !is_silent.load(Ordering::SeqCst) && to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
