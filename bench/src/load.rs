//! The load: requests over and over, on connections that stay open.
//!
//! Deliberately thin, since it shares the machine with what it measures: of an answer only the status and the length
//! are looked at.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};

/// As many as keep two cores busy while others wait for a database, a disk or an operator: with fewer, what is measured is
/// how long those take.
pub const CONNECTIONS: usize = 256;
/// Short ones, and many of them in turn: what threads do to each other on few cores differs from moment to moment, and a
/// slow moment of the machine should hit all contestants.
pub const ROUND: Duration = Duration::from_secs(1);
pub const ROUNDS: usize = 15;

/// Sends `request` on all connections for the length of a round. Answers per second; any but a success is an error.
pub async fn rate(address: SocketAddr, request: &[u8]) -> anyhow::Result<f64> {
    let request: Arc<[u8]> = request.into();
    rate_of(address, CONNECTIONS, ROUND, move |next| next.extend_from_slice(&request)).await
}

/// The same with requests that `write` puts into the empty buffer that it is given.
pub async fn rate_of(
    address: SocketAddr,
    connections: usize,
    round: Duration,
    write: impl Fn(&mut Vec<u8>) + Send + Sync + 'static,
) -> anyhow::Result<f64> {
    let write = Arc::new(write);
    rate_of_errands(address, connections, round, || Exchange { write: Arc::clone(&write), request: Vec::new() }).await
}

/// What a caller does over and over, on a connection of its own.
pub trait Errand: Send + 'static {
    fn run(&mut self, connection: &mut Connection) -> impl Future<Output = anyhow::Result<()>> + Send;
}

struct Exchange<W> {
    write: Arc<W>,
    request: Vec<u8>,
}

impl<W: Fn(&mut Vec<u8>) + Send + Sync + 'static> Errand for Exchange<W> {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.request.clear();
        (self.write)(&mut self.request);
        connection.exchange(&self.request).await.map(drop)
    }
}

/// Runs an errand on each connection, again and again for the length of a round. Errands per second.
pub async fn rate_of_errands<E: Errand>(
    address: SocketAddr,
    connections: usize,
    round: Duration,
    errand: impl Fn() -> E,
) -> anyhow::Result<f64> {
    let answered = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..connections {
        let mut connection = Connection::open(address).await?;
        let (mut errand, answered, over) = (errand(), Arc::clone(&answered), Arc::clone(&over));
        callers.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                errand.run(&mut connection).await?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    let started = Instant::now();
    tokio::time::sleep(round).await;
    let count = answered.load(Ordering::Relaxed);
    let elapsed = started.elapsed();
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(per_second(count, elapsed))
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// One exchange; the length of the answer's body.
pub async fn body_length(address: SocketAddr, request: &[u8]) -> anyhow::Result<usize> {
    Ok(Connection::open(address).await?.exchange(request).await?.len())
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

    /// Sends a request, and gives the body of the answer. Any but a success is an error.
    pub async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        let (head, length) = self.answered(request, b"HTTP/1.1 20").await?;
        Ok(&self.buffer[head..head + length])
    }

    /// Sends a request, and gives the answer's head and its body, whatever it says.
    pub async fn answer(&mut self, request: &[u8]) -> anyhow::Result<(&[u8], &[u8])> {
        let (head, length) = self.answered(request, b"HTTP/1.1 ").await?;
        Ok((&self.buffer[..head], &self.buffer[head..head + length]))
    }

    /// Sends a request, and gives where the answer leads. Any but a redirect is an error.
    pub async fn redirected(&mut self, request: &[u8]) -> anyhow::Result<&str> {
        let (head, _) = self.answered(request, b"HTTP/1.1 30").await?;
        header(&self.buffer[..head], b"location:").context("a redirect without a location")
    }

    /// The lengths of the answer's head and of its body. An error, if it begins otherwise.
    async fn answered(&mut self, request: &[u8], beginning: &[u8]) -> anyhow::Result<(usize, usize)> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server hung up");
            }
            let Some(head) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            if !self.buffer.starts_with(beginning) {
                bail!("answered {}", String::from_utf8_lossy(&self.buffer));
            }
            let length = content_length(&self.buffer[..head]).context("an answer without a length")?;
            if self.buffer.len() >= head + 4 + length {
                return Ok((head + 4, length));
            }
        }
    }
}

pub fn content_length(head: &[u8]) -> Option<usize> {
    header(head, b"content-length:")?.parse().ok()
}

/// Of a name with its colon.
pub fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let at = head.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name))?;
    let line = head[at + name.len()..].split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok().map(str::trim)
}
