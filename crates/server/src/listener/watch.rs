//! Noticing what is going on on a connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Counts what happens on one connection.
///
/// hyper has a timeout for headers, but sets a timer anew for every request. Counting costs next to nothing, and
/// whoever looks twice and finds the same knows that nothing has happened in between.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    answered: AtomicU64,
    /// Times that the peer took something of an answer.
    written: AtomicU64,
}

/// What had happened when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    begun: u64,
    answered: u64,
    written: u64,
}

impl Activity {
    /// Whether a request is being answered.
    pub fn is_busy(self) -> bool {
        self.begun != self.answered
    }

    /// Whether there has been a request at all.
    pub fn has_spoken(self) -> bool {
        self.begun > 0
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Busy<'a>(&'a Counts);

impl Watch {
    pub fn busy(&self) -> Busy<'_> {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        Busy(&self.0)
    }

    /// The peer has taken something: an answer on its way is no idleness.
    pub fn wrote(&self) {
        self.0.written.fetch_add(1, Ordering::Relaxed);
    }

    pub fn activity(&self) -> Activity {
        let [begun, answered, written] =
            [&self.0.begun, &self.0.answered, &self.0.written].map(|count| count.load(Ordering::Relaxed));
        Activity { begun, answered, written }
    }

    /// Returns when a whole period has passed in which nothing happened and no request was being answered.
    pub async fn until_idle_for(&self, period: Duration) {
        let mut seen = self.activity();
        loop {
            tokio::time::sleep(period).await;
            let now = self.activity();
            if now == seen && !now.is_busy() {
                return;
            }
            seen = now;
        }
    }
}

impl Drop for Busy<'_> {
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
