//! Signing, kept away from the threads that do I/O.

use std::{num::NonZero, sync::Arc, thread::available_parallelism};

use tokio::{sync::Semaphore, task::spawn_blocking};

/// Besides one for each core: while some change hands, no core waits for them.
const SPARE_SEATS: usize = 2;

/// Runs signatures on threads that may block, a few more at a time than there are cores.
pub struct SigningDesk(Arc<Semaphore>);

impl SigningDesk {
    pub fn new() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        SigningDesk(Arc::new(Semaphore::new(cores + SPARE_SEATS)))
    }

    /// `None`: the process is ending.
    pub async fn run<T: Send + 'static>(&self, sign: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let seat = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let signing = spawn_blocking(move || {
            let signed = sign();
            // Now, and not when whoever waits for the signature is told: the next one need not wait for that.
            drop(seat);
            signed
        });
        signing.await.ok()
    }
}
