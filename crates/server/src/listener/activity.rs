//! Activity tracking of a connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Counts events on one connection. Two equal snapshots mean that nothing happened in between.
///
/// hyper's header timeout would start a timer for every request; counters are much cheaper.
#[derive(Clone, Debug, Default)]
pub struct ActivityCounter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    started: AtomicU64,
    finished: AtomicU64,
    /// Writes accepted by the peer.
    written: AtomicU64,
    /// Frames of request bodies received.
    received: AtomicU64,
    /// Requests with incomplete bodies.
    receiving: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivitySnapshot {
    started: u64,
    finished: u64,
    written: u64,
    received: u64,
    receiving: u64,
}

impl ActivitySnapshot {
    /// Whether a request is in progress.
    pub fn is_busy(self) -> bool {
        self.started != self.finished
    }

    /// Whether a request is in progress whose body was received completely.
    pub fn has_complete_request(self) -> bool {
        self.is_busy() && self.receiving == 0
    }

    /// Whether the first request has started but not finished.
    pub fn is_first_unanswered(self) -> bool {
        self.started > 0 && self.finished == 0
    }

    pub fn has_requests(self) -> bool {
        self.started > 0
    }
}

/// A request in progress.
#[derive(Debug)]
pub struct RequestGuard<'a>(&'a Counts);

impl ActivityCounter {
    pub fn begin_request(&self) -> RequestGuard<'_> {
        self.0.started.fetch_add(1, Ordering::Relaxed);
        RequestGuard(&self.0)
    }

    /// Counts a request body as incomplete until the guard is dropped.
    pub fn begin_body(&self) -> BodyGuard {
        self.0.receiving.fetch_add(1, Ordering::Relaxed);
        BodyGuard(Arc::clone(&self.0))
    }

    /// Counts a write: a connection that sends a response is not idle.
    pub fn count_write(&self) {
        self.0.written.fetch_add(1, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> ActivitySnapshot {
        let Counts { started, finished, written, received, receiving } = &*self.0;
        let [started, finished, written, received, receiving] =
            [started, finished, written, received, receiving].map(|count| count.load(Ordering::Relaxed));
        ActivitySnapshot { started, finished, written, received, receiving }
    }

    /// Returns after a period without events and without a request in progress.
    pub async fn wait_until_idle(&self, period: Duration) {
        let mut previous = self.snapshot();
        loop {
            tokio::time::sleep(period).await;
            let now = self.snapshot();
            if now == previous && !now.is_busy() {
                return;
            }
            previous = now;
        }
    }
}

/// An incomplete request body.
#[derive(Debug)]
pub struct BodyGuard(Arc<Counts>);

impl BodyGuard {
    pub fn count_frame(&self) {
        self.0.received.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for BodyGuard {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.finished.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_only_without_requests_in_progress() {
        let counter = ActivityCounter::default();
        let request = counter.begin_request();
        let long = PERIOD * 10;
        assert!(tokio::time::timeout(long, counter.wait_until_idle(PERIOD)).await.is_err(), "a request is in progress");
        drop(request);
        assert!(tokio::time::timeout(PERIOD * 2, counter.wait_until_idle(PERIOD)).await.is_ok());
    }
}
