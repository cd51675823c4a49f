//! Where connections come in, for everything here that listens on TCP.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long to leave a socket alone that cannot be heard.
pub(crate) const BREATH: Duration = Duration::from_millis(100);

/// Takes connections in until `stop`, at most `most` at a time. Those that there is no room for are closed at once.
pub(crate) async fn take_in<Serving>(
    listener: TcpListener,
    most: usize,
    stop: CancellationToken,
    tasks: TaskTracker,
    serve: impl Fn(TcpStream) -> Serving,
) where
    Serving: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the simulated operator cannot accept connections");
                sleep(BREATH).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (stop, serving) = (stop.clone(), serve(stream));
        tasks.spawn(async move {
            stop.run_until_cancelled_owned(serving).await;
            drop(place);
        });
    }
}
