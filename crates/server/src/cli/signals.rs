//! What the operating system tells a running server, and how it ends.

use std::{io, time::Duration};

use tokio::signal::unix::{self, SignalKind};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use crate::{
    config::{Config, ConfigError},
    wiring::Running,
};

/// The signals that a server listens to.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
}

enum Wish {
    Stop,
    Reload,
}

impl Signals {
    /// From now on these signals end nothing by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Signals {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hangup: unix::signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::Stop,
            _ = self.interrupt.recv() => Wish::Stop,
            _ = self.hangup.recv() => Wish::Reload,
        }
    }

    /// Waits until the process is told to stop.
    pub(super) async fn stop(&mut self) {
        while let Wish::Reload = self.next().await {}
    }
}

/// Lets a server run until it is told to stop; `read_again` gives the configuration when that is to be read again. A
/// first signal drains it; a second one, or the end of `grace`, ends it.
pub(super) async fn run_until_stopped(
    running: Running,
    shutdown: &CancellationToken,
    grace: Duration,
    mut signals: Signals,
    read_again: impl Fn() -> Result<Config, ConfigError>,
) -> Result<(), Failure> {
    loop {
        tokio::select! {
            wish = signals.next() => match wish {
                Wish::Stop => break,
                Wish::Reload => {
                    if let Wish::Stop = reload(&running, &mut signals, &read_again).await {
                        break;
                    }
                }
            },
            () = shutdown.cancelled() => break,
        }
    }
    tracing::info!("stopping: requests in flight may finish");
    shutdown.cancel();
    tokio::select! {
        () = running.finished() => {
            tracing::info!("stopped");
            Ok(())
        }
        () = signals.stop() => Err(cut_short("a second signal came")),
        () = tokio::time::sleep(grace) => Err(cut_short("their time was up (`http.shutdown_grace`)")),
    }
}

/// Has a server read everything again, and once more if that is wished meanwhile: what was read may be old by then.
async fn reload(
    running: &Running,
    signals: &mut Signals,
    read_again: impl Fn() -> Result<Config, ConfigError>,
) -> Wish {
    loop {
        let mut once_more = false;
        let mut reload = std::pin::pin!(running.reload(read_again().map_err(Into::into)));
        loop {
            tokio::select! {
                () = &mut reload => break,
                wish = signals.next() => match wish {
                    Wish::Stop => return Wish::Stop,
                    Wish::Reload => once_more = true,
                },
            }
        }
        if !once_more {
            return Wish::Reload;
        }
    }
}

fn cut_short(why: &str) -> Failure {
    tracing::warn!("requests in flight were cut off");
    Failure::Failed(anyhow::anyhow!("requests in flight were cut off: {why}"))
}
