//! Signing, kept away from the threads that do I/O.

use tokio::sync::Semaphore;

/// Runs signatures on threads that may block, no more at a time than there are cores.
pub struct SigningDesk(Semaphore);

impl SigningDesk {
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        SigningDesk(Semaphore::new(cores))
    }

    /// `None`: the process is ending.
    pub async fn run<T: Send + 'static>(&self, sign: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _seat = self.0.acquire().await.ok()?;
        tokio::task::spawn_blocking(sign).await.ok()
    }
}
