//! A plain receiver: HTTP/1.1 with connections that stay open, and a bare 200 for whatever comes.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::bail;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::load::content_length;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
/// How often it is looked whether all are there.
const LOOK: Duration = Duration::from_millis(2);

/// Stops when it goes out of scope.
pub struct Receiver {
    pub address: SocketAddr,
    received: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Receiver {
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let received = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let count = Arc::clone(&received);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                connections.spawn(async move { answer(stream, &count).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Receiver { address, received, _tasks: tasks })
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until so many have come in all.
    pub async fn wait_for(&self, count: u64, patience: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.received() < count {
            if begun.elapsed() > patience {
                bail!("only {} of {count} messages came within {} s", self.received(), patience.as_secs());
            }
            sleep(LOOK).await;
        }
        Ok(())
    }
}

async fn answer(mut stream: TcpStream, count: &AtomicU64) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(4096);
    while let Ok(1..) = stream.read_buf(&mut buffer).await {
        while let Some(head) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let length = head + 4 + content_length(&buffer[..head]).unwrap_or(0);
            if buffer.len() < length {
                break;
            }
            buffer.drain(..length);
            count.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
    }
}
