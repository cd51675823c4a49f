//! HTTP load generator with keep-alive connections.
//!
//! Parses only the status and the length of responses, because it shares the machine with the measured server.

use std::{
    io::ErrorKind,
    mem,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};

/// Enough to keep two cores busy while requests wait for a database, a disk or an operator.
pub const CONNECTIONS: usize = 256;
/// Short alternating rounds, so that a slow moment of the machine affects all candidates.
pub const ROUND_DURATION: Duration = Duration::from_secs(1);
pub const ROUNDS: usize = 15;
/// Sends `request` on all connections for one round; returns responses per second. Non-2xx responses are errors.
pub async fn rate(address: SocketAddr, request: &[u8]) -> anyhow::Result<f64> {
    let request: Arc<[u8]> = request.into();
    generated_rate(address, CONNECTIONS, ROUND_DURATION, move |next| next.extend_from_slice(&request)).await
}

/// Like [`rate`], with requests that `write` appends to an empty buffer.
pub async fn generated_rate(
    address: SocketAddr,
    connections: usize,
    duration: Duration,
    write: impl Fn(&mut Vec<u8>) + Send + Sync + 'static,
) -> anyhow::Result<f64> {
    let write = Arc::new(write);
    workload_rate(address, connections, duration, || SingleRequest { write: Arc::clone(&write), request: Vec::new() })
        .await
}

/// Repeated on each connection.
pub trait Workload: Send + 'static {
    fn run(&mut self, connection: &mut Connection) -> impl Future<Output = anyhow::Result<()>> + Send;
}

struct SingleRequest<W> {
    write: Arc<W>,
    request: Vec<u8>,
}

impl<W: Fn(&mut Vec<u8>) + Send + Sync + 'static> Workload for SingleRequest<W> {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.request.clear();
        (self.write)(&mut self.request);
        connection.fetch_body(&self.request).await.map(drop)
    }
}

/// Repeats a workload on each connection for one round; returns runs per second.
pub async fn workload_rate<W: Workload>(
    address: SocketAddr,
    connections: usize,
    duration: Duration,
    workload: impl Fn() -> W,
) -> anyhow::Result<f64> {
    let completed = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        let mut connection = Connection::open(address).await?;
        let (mut workload, completed, stop) = (workload(), Arc::clone(&completed), Arc::clone(&stop));
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                workload.run(&mut connection).await?;
                completed.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    let started = Instant::now();
    tokio::time::sleep(duration).await;
    let count = completed.load(Ordering::Relaxed);
    let elapsed = started.elapsed();
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(per_second(count, elapsed))
}

/// Prepares requests that can be sent once, such as the redemption of a code.
pub trait Preparation: Send + 'static {
    /// Returns the next request.
    fn prepare(&mut self, connection: &mut Connection) -> impl Future<Output = anyhow::Result<String>> + Send;
}

/// Prepares `count` requests on all connections. Returns them in the order in which they became ready, in which clients
/// would send them. In this order consecutive requests use rows that were written together. In another order, nearly
/// every row is on another page of the database.
pub async fn prepare<P: Preparation>(
    address: SocketAddr,
    count: usize,
    preparation: impl Fn() -> P,
) -> anyhow::Result<Arc<[String]>> {
    let missing = Arc::new(AtomicUsize::new(count));
    let requests = Arc::new(Mutex::new(Vec::with_capacity(count)));
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(address).await?;
        let (mut preparation, missing, requests) = (preparation(), Arc::clone(&missing), Arc::clone(&requests));
        clients.spawn(async move {
            while missing.try_update(Ordering::Relaxed, Ordering::Relaxed, |missing| missing.checked_sub(1)).is_ok() {
                let request = preparation.prepare(&mut connection).await?;
                requests.lock().push(request);
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let requests = mem::take(&mut *requests.lock());
    Ok(requests.into())
}

/// Sends each of the prepared requests once, on all connections; returns responses per second.
pub async fn prepared_rate(address: SocketAddr, requests: &Arc<[String]>) -> anyhow::Result<f64> {
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(address).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    let started = Instant::now();
    for mut connection in connections {
        let (requests, next) = (Arc::clone(requests), Arc::clone(&next));
        clients.spawn(async move {
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                connection.fetch_body(request.as_bytes()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(per_second(requests.len() as u64, started.elapsed()))
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// Length of the response body.
pub async fn body_length(address: SocketAddr, request: &[u8]) -> anyhow::Result<usize> {
    Ok(Connection::open(address).await?.fetch_body(request).await?.len())
}

pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Whether the peer has neither closed the idle connection nor sent anything.
    pub fn is_idle(&self) -> bool {
        self.stream.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Sends a request and returns the body of its 2xx response.
    pub async fn fetch_body(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        let (head, length) = self.read_response(request, b"HTTP/1.1 20").await?;
        Ok(&self.buffer[head..head + length])
    }

    /// Sends a request and returns head and body of its response with any status.
    pub async fn fetch(&mut self, request: &[u8]) -> anyhow::Result<(&[u8], &[u8])> {
        let (head, length) = self.read_response(request, b"HTTP/1.1 ").await?;
        Ok((&self.buffer[..head], &self.buffer[head..head + length]))
    }

    /// Sends a request and returns the location of its redirect response.
    pub async fn fetch_redirect(&mut self, request: &[u8]) -> anyhow::Result<&str> {
        let (head, _) = self.read_response(request, b"HTTP/1.1 30").await?;
        header(&self.buffer[..head], b"location:").context("redirect without a location")
    }

    /// Returns the lengths of head and body of a response with this status line prefix.
    async fn read_response(&mut self, request: &[u8], status_prefix: &[u8]) -> anyhow::Result<(usize, usize)> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            let Some(head) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            if !self.buffer.starts_with(status_prefix) {
                bail!("unexpected response: {}", String::from_utf8_lossy(&self.buffer));
            }
            let length = content_length(&self.buffer[..head]).context("response without Content-Length")?;
            if self.buffer.len() >= head + 4 + length {
                return Ok((head + 4, length));
            }
        }
    }
}

pub fn content_length(head: &[u8]) -> Option<usize> {
    header(head, b"content-length:")?.parse().ok()
}

/// `name` includes the colon.
pub fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let at = head.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name))?;
    let line = head[at + name.len()..].split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok().map(str::trim)
}
