//! Simulated mobile operator on real sockets, for tests, demonstrations and `ringtrue dev`.
//!
//! - [`smsc`]: SMSC that delivers SMS of simulated handsets over SMPP, with scripted faults.
//! - [`camara`]: OpenID provider and the CAMARA APIs Number Verification and SIM Swap, for simulated SIMs.
//! - [`directory`]: number directory, queried by ENUM and as an HLR over HTTP.
//! - [`wallet`]: wallet of a phone, which hands out operator tokens of its SIMs.
//! - [`operator_access`]: the operator as sandbox projects reach it, for the engine.
//! - [`handsets`]: handsets of sandbox projects, for the API and the console.
//!
//! Only [`operator_access`] and [`handsets`] depend on the domain and the engine of the service. The simulated servers
//! share no code with the service except `ringtrue_smpp`, so that they do not repeat its misunderstandings. Faults are
//! set for each message or response, and are deterministic for a seed. Timers use Tokio's clock and dates an injected
//! clock, so that tests can control both.
//!
//! `Debug` masks numbers, texts and passwords; none of them is logged.

pub mod camara;
pub mod directory;
pub mod handsets;
pub mod operator_access;
pub mod smsc;
pub mod wallet;

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Delay before a failed accept or receive is tried again.
const SOCKET_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts connections until `stop` is cancelled, up to `max_connections` at a time. Further ones are closed
/// immediately.
async fn accept_connections<Connection>(
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
