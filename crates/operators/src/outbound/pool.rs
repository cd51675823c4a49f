//! Pool of idle connections, by origin.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::connection::HttpConnection;

/// As many as are used concurrently.
const MAX_IDLE_PER_ORIGIN: usize = 256;
const MAX_IDLE_TOTAL: usize = 512;
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Keyed by scheme, host and port.
#[derive(Default)]
pub struct ConnectionPool(Mutex<IdleConnections>);

#[derive(Default)]
struct IdleConnections {
    origins: HashMap<String, Vec<(Instant, HttpConnection)>>,
    count: usize,
    evicted_at: Option<Instant>,
}

impl ConnectionPool {
    /// The most recently used connection. The peer may have closed it.
    pub fn take(&self, key: &str) -> Option<HttpConnection> {
        let mut idle = self.idle();
        let connections = idle.origins.get_mut(key)?;
        let before = connections.len();
        let found = loop {
            match connections.pop() {
                Some((since, connection)) if since.elapsed() < IDLE_TIMEOUT => break Some(connection),
                Some(_) => {}
                None => break None,
            }
        };
        // An empty entry is reused soon or evicted.
        idle.count -= before - connections.len();
        found
    }

    pub fn put(&self, key: &str, connection: HttpConnection) {
        if connection.sender.is_closed() {
            return;
        }
        let now = Instant::now();
        let mut idle = self.idle();
        idle.evict_expired(now);
        if idle.count >= MAX_IDLE_TOTAL {
            return;
        }
        match idle.origins.get_mut(key) {
            Some(connections) if connections.len() >= MAX_IDLE_PER_ORIGIN => return,
            Some(connections) => connections.push((now, connection)),
            None => drop(idle.origins.insert(key.to_owned(), vec![(now, connection)])),
        }
        idle.count += 1;
    }

    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleConnections {
    /// Runs at most once per `IDLE_TIMEOUT`.
    fn evict_expired(&mut self, now: Instant) {
        if self.evicted_at.is_some_and(|at| now.duration_since(at) < IDLE_TIMEOUT) {
            return;
        }
        self.evicted_at = Some(now);
        self.origins.retain(|_, connections| {
            connections.retain(|(since, _)| since.elapsed() < IDLE_TIMEOUT);
            !connections.is_empty()
        });
        self.count = self.origins.values().map(Vec::len).sum();
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionPool({} idle)", self.idle().count)
    }
}
