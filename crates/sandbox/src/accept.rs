//! Accept loop of the TCP listeners.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Delay after a failed accept or receive.
pub(crate) const SOCKET_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`, up to `max_connections` at a time; further ones are closed immediately.
pub(crate) async fn accept_connections<Connection>(
    listener: TcpListener,
    max_connections: usize,
    stop: CancellationToken,
    tasks: TaskTracker,
    serve: impl Fn(TcpStream) -> Connection,
) where
    Connection: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "sandbox accept failed");
                sleep(SOCKET_RETRY_DELAY).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
        let (stop, connection) = (stop.clone(), serve(stream));
        tasks.spawn(async move {
            stop.run_until_cancelled_owned(connection).await;
            drop(permit);
        });
    }
}
