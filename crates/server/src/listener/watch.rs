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
    /// Frames of request bodies.
    received: AtomicU64,
    /// Requests whose body has not been received in full.
    receiving: AtomicU64,
}

/// What had happened when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    begun: u64,
    answered: u64,
    written: u64,
    received: u64,
    receiving: u64,
}

impl Activity {
    /// Whether a request is being answered.
    pub fn is_busy(self) -> bool {
        self.begun != self.answered
    }

    /// Whether a complete request is being answered: not one whose body is still on its way.
    pub fn has_complete_request(self) -> bool {
        self.is_busy() && self.receiving == 0
    }

    /// Whether the first request has begun and was not answered yet.
    pub fn is_first_unanswered(self) -> bool {
        self.begun > 0 && self.answered == 0
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

    /// Counts a request body as incomplete until the guard is dropped.
    pub fn receiving(&self) -> Receiving {
        self.0.receiving.fetch_add(1, Ordering::Relaxed);
        Receiving(Arc::clone(&self.0))
    }

    /// The peer has taken something: an answer on its way is no idleness.
    pub fn wrote(&self) {
        self.0.written.fetch_add(1, Ordering::Relaxed);
    }

    pub fn activity(&self) -> Activity {
        let Counts { begun, answered, written, received, receiving } = &*self.0;
        let [begun, answered, written, received, receiving] =
            [begun, answered, written, received, receiving].map(|count| count.load(Ordering::Relaxed));
        Activity { begun, answered, written, received, receiving }
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

/// A request body that has not been received in full.
#[derive(Debug)]
pub struct Receiving(Arc<Counts>);

impl Receiving {
    pub fn received(&self) {
        self.0.received.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::Relaxed);
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
