//! Runs the expiries of overdue checks: those of a sweep at the same time, and those of one check only once.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use parking_lot::Mutex;
use ringtrue_domain::lifecycle::CheckId;
use tokio::sync::OnceCell;

use crate::ports::store::StoreError;

/// The running expiries. Each check has at most one.
#[derive(Default)]
pub(super) struct RunningExpiries<'s> {
    running: FuturesUnordered<BoxFuture<'s, (CheckId, Result<(), StoreError>)>>,
    checks: HashSet<CheckId>,
    failed: usize,
    last_failure: Option<StoreError>,
}

impl<'s> RunningExpiries<'s> {
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

type SharedResult = Arc<OnceCell<Result<(), StoreError>>>;

/// Lets concurrent expiries of the same check share one transaction. Every list of checks first expires those that are
/// overdue: if expiries are slow, each list would otherwise expire all checks that the others are about to expire.
#[derive(Debug, Default)]
pub(super) struct SharedExpiries(Mutex<HashMap<CheckId, SharedResult>>);

impl SharedExpiries {
    /// Expires a check, or waits for the running expiry of this check, and returns its result.
    pub(super) async fn run(
        &self,
        check: CheckId,
        expire: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        let entry = Entry { expiries: self, check, result: Arc::clone(self.0.lock().entry(check).or_default()) };
        // If the caller that expires the check is dropped, the next one takes over.
        entry.result.get_or_init(|| expire).await.clone()
    }
}

/// A caller's part in an expiry. Removes the expiry once it has ended, or if no other caller waits for it, so that a
/// later one runs again.
struct Entry<'e> {
    expiries: &'e SharedExpiries,
    check: CheckId,
    result: SharedResult,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut entries = self.expiries.0.lock();
        let is_own = entries.get(&self.check).is_some_and(|result| Arc::ptr_eq(result, &self.result));
        // The two references are this one and that of the map.
        if is_own && (self.result.initialized() || Arc::strong_count(&self.result) == 2) {
            entries.remove(&self.check);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{future::join_all, poll};
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn expiry_that_hangs_does_not_hold_up_others() {
        let mut expiries = RunningExpiries::default();
        let [stuck, other] = [1, 2].map(|number| CheckId(Uuid::from_u128(number)));
        expiries.start(stuck, pending);
        expiries.start(stuck, || -> std::future::Ready<Result<(), StoreError>> { panic!("it is running") });
        for _ in 0..2 {
            expiries.start(other, || ready(Ok(())));
            expiries.run_until(tokio::task::yield_now()).await;
            assert_eq!(expiries.checks, HashSet::from([stuck]));
        }
    }

    #[tokio::test]
    async fn concurrent_expiries_of_a_check_run_once() {
        let (expiries, runs) = (SharedExpiries::default(), AtomicUsize::new(0));
        let [one, other] = [1, 2].map(|number| CheckId(Uuid::from_u128(number)));
        let fail = || async {
            runs.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Err(StoreError::Unavailable("injected".to_owned()))
        };
        let results = join_all([one, one, other, one].map(|check| expiries.run(check, fail()))).await;
        assert!(results.iter().all(|result| matches!(result, Err(StoreError::Unavailable(_)))), "{results:?}");
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert!(expiries.0.lock().is_empty());
        // A later call tries again.
        expiries.run(one, ready(Ok(()))).await.unwrap();
    }

    #[tokio::test]
    async fn next_caller_takes_over_an_expiry_whose_caller_is_dropped() {
        let (expiries, check) = (SharedExpiries::default(), CheckId(Uuid::from_u128(1)));
        let mut first = Box::pin(expiries.run(check, pending()));
        assert!(poll!(first.as_mut()).is_pending());
        let mut second = pin!(expiries.run(check, ready(Ok(()))));
        assert!(poll!(second.as_mut()).is_pending());
        drop(first);
        second.await.unwrap();
        assert!(expiries.0.lock().is_empty());

        let mut dropped = Box::pin(expiries.run(check, pending()));
        assert!(poll!(dropped.as_mut()).is_pending());
        drop(dropped);
        assert!(expiries.0.lock().is_empty());
    }
}
