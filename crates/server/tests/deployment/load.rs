//! Writers who keep a process busy until it is gone.

use std::sync::Arc;

use tokio::{sync::watch, task::JoinSet, time::timeout};

use super::client::PATIENCE;

/// How many answers there were, for whoever waits until there are enough.
#[derive(Clone, Default)]
pub struct Answers(Arc<watch::Sender<usize>>);

impl Answers {
    pub fn count(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn so_far(&self) -> usize {
        *self.0.borrow()
    }

    pub async fn reach(&self, enough: usize) {
        let mut count = self.0.subscribe();
        let reached = timeout(PATIENCE, count.wait_for(|count| *count >= enough)).await;
        reached.unwrap_or_else(|_| panic!("no more than {} answers come", self.so_far())).expect("it is counted");
    }
}

/// People who write at the same time, each until the service is gone.
#[derive(Default)]
pub struct Writers(JoinSet<()>);

impl Writers {
    pub fn spawn(&mut self, writing: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(writing);
    }

    /// Waits until they have got so many answers.
    pub async fn get(&mut self, answers: &Answers, enough: usize) {
        tokio::select! {
            biased;
            () = answers.reach(enough) => {}
            ended = self.0.join_next() => panic!("nobody gives up before: {ended:?}"),
        }
    }

    /// Waits until all of them have noticed.
    pub async fn leave(mut self) {
        let gone = async {
            while let Some(ended) = self.0.join_next().await {
                ended.unwrap();
            }
        };
        timeout(PATIENCE, gone).await.expect("the service is gone");
    }
}
