//! Attacks the real binary with two thousand deliberately slow clients: other clients are served normally, and no slow
//! client keeps its connection.
//!
//! The response times of the attacked process are compared with those of a second process, so that other load on this
//! machine affects both.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

#[expect(dead_code, reason = "each test target uses a part of it")]
#[path = "process/deployment.rs"]
mod deployment;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use deployment::Deployment;
use parking_lot::Mutex;
use ringtrue_test_support::{WAIT_LIMIT, database::Database, server_process::ServerProcess};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

/// Numbers of clients that send heads slowly, send bodies slowly, or do not read. The last are few, because unread data
/// uses memory on both sides.
const SLOW_CLIENTS: [(SlowClient, usize); 3] =
    [(SlowClient::Head, 1_000), (SlowClient::Body, 940), (SlowClient::Reading, 60)];
/// Shorter timeouts than the defaults, to keep the test short.
const LIMITS: [(&str, &str); 5] = [
    // All of the slow clients come from one address.
    ("RINGTRUE_HTTP__MAX_CONNECTIONS_PER_ADDRESS", "5000"),
    ("RINGTRUE_HTTP__HEADER_TIMEOUT", "8s"),
    ("RINGTRUE_HTTP__BODY_TIMEOUT", "8s"),
    ("RINGTRUE_HTTP__IDLE_TIMEOUT", "8s"),
    ("RINGTRUE_HTTP__WRITE_TIMEOUT", "12s"),
];
/// Maximum duration of a slow connection: what the default configuration guarantees.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(35);
/// Pause of a slow client between two bytes.
const BYTE_INTERVAL: Duration = Duration::from_secs(1);
/// Pause before a disconnected slow client connects again.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);
/// Pause between the starts of two slow clients. With this pause, all of them are connected before the first times out.
const CONNECT_INTERVAL: Duration = Duration::from_millis(3);
/// Duration of the attack. Longer than the longest timeout.
const ATTACK_DURATION: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlowClient {
    Head,
    Body,
    Reading,
}

impl SlowClient {
    /// Returns the data that a slow client sends immediately. A slow body belongs to an authenticated request, because
    /// others are rejected before the body is read.
    fn start(self, projects: &str, token: &str) -> Vec<u8> {
        match self {
            SlowClient::Head => b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: ".to_vec(),
            SlowClient::Body => format!(
                "POST {projects} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
                 Content-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
            )
            .into_bytes(),
            // More pages than fit into all buffers.
            SlowClient::Reading => b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(60),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_do_not_delay_others() {
    raise_file_limit();
    let (calm, attacked) = (Target::open().await, Target::open().await);
    let slow_clients = Arc::new(SlowClients::default());
    let mut attackers = JoinSet::new();
    for (slowness, count) in SLOW_CLIENTS {
        for _ in 0..count {
            let (slow_clients, address, start) = (
                Arc::clone(&slow_clients),
                attacked.server.address,
                slowness.start(&attacked.projects, &attacked.manager),
            );
            attackers.spawn(async move { slow_clients.attack(slowness, address, &start).await });
            // Starts the clients one after the other, so that they do not time out at the same time.
            tokio::time::sleep(CONNECT_INTERVAL).await;
        }
    }
    let all = attackers.len();
    let are_most_connected = |open_connections: &OpenConnections| open_connections.len() >= all * 4 / 5;
    let connected =
        timeout(WAIT_LIMIT, slow_clients.open_connections.subscribe().wait_for(are_most_connected)).await.is_ok();
    assert!(connected, "only {} clients are connected", slow_clients.count());

    let (mut before, mut during, mut fewest) = (vec![], vec![], all);
    let started_at = Instant::now();
    while started_at.elapsed() < ATTACK_DURATION || during.len() < 100 {
        before.push(calm.measure_request().await);
        during.push(attacked.measure_request().await);
        fewest = fewest.min(slow_clients.count());
    }
    attackers.shutdown().await;
    assert!(fewest > all / 2, "only {fewest} clients were connected");
    slow_clients.assert_closed_in_time();
    // Allows twice the time, plus a margin for a busy machine. The margin is below every timeout, and a client blocked
    // by the attack would have to wait for a timeout.
    for (share, margin) in [(50, Duration::from_millis(5)), (99, Duration::from_secs(1))] {
        let (calm, attacked) = (percentile(&mut before, share), percentile(&mut during, share));
        assert!(attacked <= calm * 2 + margin, "p{share}: {attacked:?} under attack, {calm:?} without");
    }
}

/// A server, and a token to call it.
struct Target {
    server: ServerProcess,
    manager: String,
    /// Path of project creation.
    projects: String,
    _database: Database,
}

impl Target {
    async fn open() -> Self {
        let database = Database::sqlite().await;
        let deployment = Deployment::new(database.address());
        let server = deployment.serve_with(&LIMITS);
        let manager = deployment.manager(server.address).await;
        // Requested before the measurement, because the page is rendered on first access.
        server.get("/openapi.json", &manager).await.assert(200);
        Target { server, manager, projects: format!("{}/projects", deployment.path()), _database: database }
    }

    async fn measure_request(&self) -> Duration {
        let started_at = Instant::now();
        assert_eq!(self.server.get("/v1/management/workspaces", &self.manager).await.status, 200);
        started_at.elapsed()
    }
}

type OpenConnections = BTreeMap<usize, (SlowClient, Instant)>;

#[derive(Default)]
struct SlowClients {
    /// Time of connection of each slow client that is connected now.
    open_connections: watch::Sender<OpenConnections>,
    /// How long each disconnected slow client was connected.
    durations: Mutex<Vec<(SlowClient, Duration)>>,
    connection_count: AtomicUsize,
}

impl SlowClients {
    /// Connects, stays until disconnected, and reconnects after a pause.
    async fn attack(&self, slowness: SlowClient, address: SocketAddr, start: &[u8]) {
        loop {
            if let Ok(stream) = connect(slowness, address).await {
                let (connection_id, started_at) =
                    (self.connection_count.fetch_add(1, Ordering::SeqCst), Instant::now());
                self.open_connections
                    .send_modify(|open_connections| _ = open_connections.insert(connection_id, (slowness, started_at)));
                stay(slowness, start, stream).await;
                self.open_connections.send_modify(|open_connections| _ = open_connections.remove(&connection_id));
                self.durations.lock().push((slowness, started_at.elapsed()));
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    fn count(&self) -> usize {
        self.open_connections.borrow().len()
    }

    fn assert_closed_in_time(&self) {
        let durations = self.durations.lock();
        for (slowness, count) in SLOW_CLIENTS {
            let closed = durations.iter().filter(|(kind, _)| *kind == slowness).count();
            assert!(closed >= count / 2, "{slowness:?}: only {closed} were closed");
        }
        let open_connections = self.open_connections.borrow();
        let so_far = open_connections.values().map(|(slowness, started_at)| (*slowness, started_at.elapsed()));
        for (slowness, stay) in durations.iter().copied().chain(so_far) {
            assert!(stay <= MAX_CONNECTION_TIME, "{slowness:?}: {stay:?}");
        }
    }
}

async fn connect(slowness: SlowClient, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if slowness == SlowClient::Reading {
        socket.set_recv_buffer_size(4096)?;
    }
    socket.connect(address).await
}

/// Keeps a slow connection open. Returns when the server has closed it.
async fn stay(slowness: SlowClient, start: &[u8], stream: TcpStream) {
    let (mut read, mut write) = stream.into_split();
    let drip = async {
        write.write_all(start).await?;
        loop {
            tokio::time::sleep(BYTE_INTERVAL).await;
            write.write_all(b"a").await?;
        }
    };
    let listen = async {
        if slowness == SlowClient::Reading {
            // A client that does not read notices the close only when it writes.
            std::future::pending::<()>().await;
        }
        let mut response = vec![];
        let _ = read.read_to_end(&mut response).await;
    };
    tokio::select! {
        () = listen => {}
        broken = drip => { let _: std::io::Result<()> = broken; }
    }
}

fn percentile(times: &mut [Duration], share: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * share / 100).min(times.len() - 1)]
}

/// Raises the limit of open files for this process and its children.
fn raise_file_limit() {
    let this = std::process::id().to_string();
    let status = Command::new("prlimit").args(["--pid", &this, "--nofile=8192:"]).status().expect("prlimit runs");
    assert!(status.success(), "8,192 open files are not allowed here");
}
