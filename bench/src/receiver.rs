//! Minimal HTTP/1.1 callback receiver with keep-alive, which responds 200 to every request unless told otherwise.

use std::{
    net::{Ipv4Addr, SocketAddr},
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

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Reaction to a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    Accept,
    Fail,
    /// Closes the connection without a response.
    Disconnect,
    /// Keeps the connection open without a response.
    Hang,
}

impl Reaction {
    fn response(self) -> &'static [u8] {
        match self {
            Reaction::Accept => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Reaction::Fail => b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
            Reaction::Disconnect | Reaction::Hang => b"",
        }
    }
}

/// Stops when dropped.
pub struct CallbackReceiver {
    pub address: SocketAddr,
    received: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl CallbackReceiver {
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_on(Ipv4Addr::LOCALHOST, |_, _| Reaction::Accept).await
    }

    /// `react` gets head and body of each request.
    pub async fn start_on(
        address: Ipv4Addr,
        react: impl Fn(&[u8], &[u8]) -> Reaction + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let received = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let (count, react) = (Arc::clone(&received), Arc::new(react));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (count, react) = (Arc::clone(&count), Arc::clone(&react));
                connections.spawn(async move { serve(stream, &count, &*react).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(CallbackReceiver { address, received, _tasks: tasks })
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits for a total number of requests.
    pub async fn wait_for(&self, count: u64, timeout: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while self.received() < count {
            if started.elapsed() > timeout {
                bail!("only {} of {count} requests received within {} s", self.received(), timeout.as_secs());
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

async fn serve(mut stream: TcpStream, count: &AtomicU64, react: &(dyn Fn(&[u8], &[u8]) -> Reaction + Send + Sync)) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(4096);
    while let Ok(1..) = stream.read_buf(&mut buffer).await {
        while let Some(head) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let length = head + 4 + content_length(&buffer[..head]).unwrap_or(0);
            if buffer.len() < length {
                break;
            }
            let reaction = react(&buffer[..head], &buffer[head + 4..length]);
            buffer.drain(..length);
            count.fetch_add(1, Ordering::Relaxed);
            if reaction == Reaction::Disconnect || stream.write_all(reaction.response()).await.is_err() {
                return;
            }
        }
    }
}
