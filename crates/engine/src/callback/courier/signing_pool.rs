//! Runs RSA signing outside the async worker threads.

use std::{num::NonZero, sync::Arc, thread::available_parallelism};

use tokio::{sync::Semaphore, task::spawn_blocking};

/// Extra permits keep all cores busy while permits are handed over.
const SPARE_PERMITS: usize = 2;

/// Bounded use of the blocking thread pool: one permit per core, plus a few spare ones.
pub struct SigningPool(Arc<Semaphore>);

impl SigningPool {
    pub fn new() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        SigningPool(Arc::new(Semaphore::new(cores + SPARE_PERMITS)))
    }

    /// `None`: the runtime is shutting down.
    pub async fn run<T: Send + 'static>(&self, sign: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let permit = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let signing = spawn_blocking(move || {
            let signed = sign();
            // Released here, so that the next signature does not wait until this task is polled again.
            drop(permit);
            signed
        });
        signing.await.ok()
    }
}
