//! Two thousand clients that are slow on purpose, against the real binary: others are served as if they were not there,
//! and none of them keeps its connection.
//!
//! Another process, which nobody attacks, is asked in turn with the one under attack. Whatever else this machine does
//! slows both.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "not all of it is needed here")]
mod deployment;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use deployment::{Deployment, Server, client, database::Database};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

/// Who sends a head that never ends, a body that never ends, and who never reads. Of the last there are few: what they
/// do not read takes memory of this machine, on both sides.
const CROWD: [(Slowness, usize); 3] = [(Slowness::Head, 1_000), (Slowness::Body, 940), (Slowness::Reading, 60)];
/// Shorter times than by default, so that the test is no longer than it must be.
const LIMITS: [(&str, &str); 5] = [
    // All of the crowd come from one address.
    ("RINGTRUE_HTTP__MAX_CONNECTIONS_PER_ADDRESS", "5000"),
    ("RINGTRUE_HTTP__HEADER_TIMEOUT", "8s"),
    ("RINGTRUE_HTTP__BODY_TIMEOUT", "8s"),
    ("RINGTRUE_HTTP__IDLE_TIMEOUT", "8s"),
    ("RINGTRUE_HTTP__WRITE_TIMEOUT", "12s"),
];
/// What is promised with the limits that are the default.
const CLOSED_WITHIN: Duration = Duration::from_secs(35);
/// Between two bytes.
const DRIP: Duration = Duration::from_secs(1);
/// Before somebody who was thrown out comes again.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two who come. All are in before the first has to go.
const PACE: Duration = Duration::from_millis(3);
/// Longer than the longest of the limits.
const ATTACK: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slowness {
    Head,
    Body,
    Reading,
}

impl Slowness {
    /// What is sent at once. The body is of somebody who may send one: others are refused before.
    fn start(self, projects: &str, token: &str) -> Vec<u8> {
        match self {
            Slowness::Head => b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: ".to_vec(),
            Slowness::Body => format!(
                "POST {projects} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
                 Content-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
            )
            .into_bytes(),
            // More pages than fit into any buffer on the way.
            Slowness::Reading => b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n".repeat(60),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_slow_nobody_else() {
    allow_many_files();
    let (calm, attacked) = (Site::open().await, Site::open().await);
    let crowd = Arc::new(Crowd::default());
    let mut attackers = JoinSet::new();
    for (slowness, count) in CROWD {
        for _ in 0..count {
            let (crowd, address, start) =
                (Arc::clone(&crowd), attacked.server.address, slowness.start(&attacked.projects, &attacked.manager));
            attackers.spawn(async move { crowd.attack(slowness, address, &start).await });
            // One after the other, or they would all be thrown out at once.
            tokio::time::sleep(PACE).await;
        }
    }
    let all = attackers.len();
    let begun = Instant::now();
    while crowd.inside() < all * 4 / 5 {
        assert!(begun.elapsed() < client::PATIENCE, "{} are in", crowd.inside());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let (mut before, mut during, mut fewest) = (vec![], vec![], all);
    let begun = Instant::now();
    while begun.elapsed() < ATTACK || during.len() < 100 {
        before.push(calm.time_one().await);
        during.push(attacked.time_one().await);
        fewest = fewest.min(crowd.inside());
    }
    attackers.shutdown().await;
    assert!(fewest > all / 2, "{fewest} are no crowd");
    crowd.assert_closed_in_time();
    // Twice as long, and what a busy machine takes from the one and not from the other: less than any of the limits, which
    // whoever had to wait for one of the crowd would have waited for.
    for (share, slack) in [(50, Duration::from_millis(5)), (99, Duration::from_secs(1))] {
        let (calm, attacked) = (percentile(&mut before, share), percentile(&mut during, share));
        assert!(attacked <= calm * 2 + slack, "p{share}: {attacked:?} instead of {calm:?}");
    }
}

/// A service with nothing else to do.
struct Site {
    server: Server,
    manager: String,
    /// Where projects are created.
    projects: String,
    _database: Database,
}

impl Site {
    async fn open() -> Self {
        let database = Database::sqlite().await;
        let deployment = Deployment::new(database.address());
        let server = deployment.serve_with(&LIMITS);
        let manager = deployment.manager(server.address).await;
        // Made when it is first asked for.
        server.get("/docs", &manager).await.assert(200);
        Site { server, manager, projects: format!("{}/projects", deployment.path()), _database: database }
    }

    async fn time_one(&self) -> Duration {
        let begun = Instant::now();
        assert_eq!(self.server.get("/v1/management/workspaces", &self.manager).await.status, 200);
        begun.elapsed()
    }
}

#[derive(Default)]
struct Crowd {
    /// When those came in who are in.
    inside: Mutex<BTreeMap<usize, (Slowness, Instant)>>,
    /// How long those were in who were thrown out.
    stays: Mutex<Vec<(Slowness, Duration)>>,
    visits: AtomicUsize,
}

impl Crowd {
    /// Comes in, stays until it is thrown out, and comes again a moment later.
    async fn attack(&self, slowness: Slowness, address: SocketAddr, start: &[u8]) {
        loop {
            if let Ok(stream) = connect(slowness, address).await {
                let (visit, begun) = (self.visits.fetch_add(1, Ordering::SeqCst), Instant::now());
                self.inside.lock().unwrap().insert(visit, (slowness, begun));
                stay(slowness, start, stream).await;
                self.inside.lock().unwrap().remove(&visit);
                self.stays.lock().unwrap().push((slowness, begun.elapsed()));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn inside(&self) -> usize {
        self.inside.lock().unwrap().len()
    }

    fn assert_closed_in_time(&self) {
        let stays = self.stays.lock().unwrap();
        for (slowness, count) in CROWD {
            let closed = stays.iter().filter(|(kind, _)| *kind == slowness).count();
            assert!(closed >= count / 2, "{slowness:?}: only {closed} were closed");
        }
        let inside = self.inside.lock().unwrap();
        let so_far = inside.values().map(|(slowness, begun)| (*slowness, begun.elapsed()));
        for (slowness, stay) in stays.iter().copied().chain(so_far) {
            assert!(stay <= CLOSED_WITHIN, "{slowness:?}: {stay:?}");
        }
    }
}

async fn connect(slowness: Slowness, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if slowness == Slowness::Reading {
        socket.set_recv_buffer_size(4096)?;
    }
    socket.connect(address).await
}

/// Until the server has closed the connection, or given it up.
async fn stay(slowness: Slowness, start: &[u8], stream: TcpStream) {
    let (mut read, mut write) = stream.into_split();
    let drip = async {
        write.write_all(start).await?;
        loop {
            tokio::time::sleep(DRIP).await;
            write.write_all(b"a").await?;
        }
    };
    let listen = async {
        if slowness == Slowness::Reading {
            // Whoever does not read learns of the end by writing.
            std::future::pending::<()>().await;
        }
        let mut answer = vec![];
        let _ = read.read_to_end(&mut answer).await;
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

/// For us, and for the processes that we start.
fn allow_many_files() {
    let this = std::process::id().to_string();
    let status = Command::new("prlimit").args(["--pid", &this, "--nofile=8192:"]).status().expect("prlimit runs");
    assert!(status.success(), "8,192 open files are not allowed here");
}
