//! Writers that keep a process busy until it is gone.

use std::sync::Arc;

use tokio::{sync::watch, task::JoinSet, time::timeout};

use super::client::WAIT_LIMIT;

/// Counts responses and wakes those who wait for a number of them.
#[derive(Clone, Default)]
pub struct ResponseCounter(Arc<watch::Sender<usize>>);

impl ResponseCounter {
    pub fn count(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn so_far(&self) -> usize {
        *self.0.borrow()
    }

    pub async fn reach(&self, enough: usize) {
        let mut count = self.0.subscribe();
        let reached = timeout(WAIT_LIMIT, count.wait_for(|count| *count >= enough)).await;
        reached.unwrap_or_else(|_| panic!("no more than {} responses come", self.so_far())).expect("it is counted");
    }
}

/// Concurrent writers that run until the service is gone.
#[derive(Default)]
pub struct Writers(JoinSet<()>);

impl Writers {
    pub fn spawn(&mut self, writing: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(writing);
    }

    /// Waits for this many responses.
    pub async fn get(&mut self, responses: &ResponseCounter, enough: usize) {
        tokio::select! {
            biased;
            () = responses.reach(enough) => {}
            ended = self.0.join_next() => panic!("a writer stopped early: {ended:?}"),
        }
    }

    /// Waits until all writers have stopped.
    pub async fn leave(mut self) {
        let gone = async {
            while let Some(ended) = self.0.join_next().await {
                ended.unwrap();
            }
        };
        timeout(WAIT_LIMIT, gone).await.expect("the service is gone");
    }
}
