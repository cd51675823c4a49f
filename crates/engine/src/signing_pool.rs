//! Runs RSA signatures, which take about 0.4 ms each, on blocking threads.

use std::{num::NonZero, sync::Arc, thread::available_parallelism};

use tokio::{sync::Semaphore, task::spawn_blocking};

/// Permits beyond one per core. They keep all cores busy while a permit passes from one task to the next.
const SPARE_PERMITS: usize = 2;

/// Bounds how many signatures are computed at the same time. Clones share the bound.
#[derive(Clone, Debug)]
pub struct SigningPool(Arc<Semaphore>);

impl Default for SigningPool {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        SigningPool(Arc::new(Semaphore::new(cores + SPARE_PERMITS)))
    }
}

impl SigningPool {
    /// Runs `sign` on a blocking thread. `None`: the runtime is shutting down.
    pub(crate) async fn run<T: Send + 'static>(&self, sign: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let permit = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let signing = spawn_blocking(move || {
            let signed = sign();
            // Releases the permit on this thread, so that the next signature does not wait until the runtime polls this
            // task.
            drop(permit);
            signed
        });
        signing.await.ok()
    }
}
