//! Runs the expiries of overdue checks at the same time.

use std::{collections::HashSet, pin::pin};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use ringtrue_domain::lifecycle::CheckId;

use crate::ports::store::StoreError;

/// The running expiries. Each check has at most one.
#[derive(Default)]
pub(super) struct Expiries<'s> {
    running: FuturesUnordered<BoxFuture<'s, (CheckId, Result<(), StoreError>)>>,
    checks: HashSet<CheckId>,
    failed: usize,
    last_failure: Option<StoreError>,
}

impl<'s> Expiries<'s> {
    /// Starts the expiry of a check, unless it is running.
    pub(super) fn start<F>(&mut self, check: CheckId, expire: impl FnOnce() -> F)
    where
        F: Future<Output = Result<(), StoreError>> + Send + 's,
    {
        if self.checks.insert(check) {
            self.running.push(expire().map(move |result| (check, result)).boxed());
        }
    }

    /// Runs the expiries until `future` has ended, and returns its output.
    pub(super) async fn run_until<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                output = &mut future => return output,
                Some((check, result)) = self.running.next() => self.finish(check, result),
            }
        }
    }

    /// Runs the expiries until all have ended.
    pub(super) async fn run_all(&mut self) {
        while let Some((check, result)) = self.running.next().await {
            self.finish(check, result);
        }
    }

    fn finish(&mut self, check: CheckId, result: Result<(), StoreError>) {
        self.checks.remove(&check);
        if let Err(error) = result {
            self.failed += 1;
            self.last_failure = Some(error);
        }
    }

    /// Logs the failures since the last call. Returns whether there were any.
    pub(super) fn log_failures(&mut self) -> bool {
        let Some(error) = self.last_failure.take() else { return false };
        tracing::warn!(checks = self.failed, %error, "overdue checks could not expire; retrying");
        self.failed = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn expiry_that_hangs_does_not_hold_up_others() {
        let mut expiries = Expiries::default();
        let [stuck, other] = [1, 2].map(|number| CheckId(Uuid::from_u128(number)));
        expiries.start(stuck, pending);
        expiries.start(stuck, || -> std::future::Ready<Result<(), StoreError>> { panic!("it is running") });
        for _ in 0..2 {
            expiries.start(other, || ready(Ok(())));
            expiries.run_until(tokio::task::yield_now()).await;
            assert_eq!(expiries.checks, HashSet::from([stuck]));
        }
    }
}
