//! Noticing a connection on which nothing is going on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Counts the requests of one connection: how many were begun, and how many were answered.
///
/// hyper has a timeout for headers, but sets a timer anew for every request. Here one timer per connection looks, once
/// in a while, whether anything has happened since it looked last. A peer that sends a header slowly, or nothing, is
/// noticed after one to two periods.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Requests>);

#[derive(Debug, Default)]
struct Requests {
    begun: AtomicU64,
    answered: AtomicU64,
    /// Times that the peer took something of an answer.
    written: AtomicU64,
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Busy(Arc<Requests>);

impl Watch {
    pub fn busy(&self) -> Busy {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.0))
    }

    /// The peer has taken something: an answer on its way is no idleness.
    pub fn wrote(&self) {
        self.0.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns when a whole period has passed in which no request was being answered.
    pub async fn until_idle_for(&self, period: Duration) {
        self.until_idle(period, period).await;
    }

    /// As [`until_idle_for`](Self::until_idle_for), with a period of its own until the first request has come.
    pub async fn until_idle(&self, before_the_first: Duration, between_two: Duration) {
        let mut seen = self.state();
        loop {
            let [begun, ..] = seen;
            let has_spoken = begun > 0;
            tokio::time::sleep(if has_spoken { between_two } else { before_the_first }).await;
            let now = self.state();
            let [begun, answered, _] = now;
            if now == seen && begun == answered {
                return;
            }
            seen = now;
        }
    }

    fn state(&self) -> [u64; 3] {
        [&self.0.begun, &self.0.answered, &self.0.written].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_noticed_and_a_busy_one_left_alone() {
        let watch = Watch::default();
        let busy = watch.busy();
        let long = PERIOD * 10;
        assert!(tokio::time::timeout(long, watch.until_idle_for(PERIOD)).await.is_err(), "one request takes long");
        drop(busy);
        assert!(tokio::time::timeout(PERIOD * 2, watch.until_idle_for(PERIOD)).await.is_ok());
    }
}
