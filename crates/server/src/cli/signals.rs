//! Unix signals, and the shutdown of a server.

use std::{io, time::Duration};

use tokio::signal::unix::{self, SignalKind};
use tokio_util::sync::CancellationToken;

use super::error::CliError;
use crate::{
    config::{Config, ConfigError},
    wiring::RunningNode,
};

#[derive(Debug)]
pub(super) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
}

enum SignalAction {
    Stop,
    Reload,
}

impl Signals {
    /// Installs the handlers, which replace the default action of these signals.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Signals {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hangup: unix::signal(SignalKind::hangup())?,
        })
    }

    async fn next_action(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }

    /// Waits for SIGTERM or SIGINT.
    pub(super) async fn wait_for_stop(&mut self) {
        while let SignalAction::Reload = self.next_action().await {}
    }
}

/// Runs a server until SIGTERM or SIGINT; SIGHUP reloads the configuration. The first stop signal drains requests, a
/// second one or the end of `grace` aborts them.
pub(super) async fn run_until_stopped(
    running: RunningNode,
    shutdown: &CancellationToken,
    grace: Duration,
    mut signals: Signals,
    load_config: impl Fn() -> Result<Config, ConfigError>,
) -> Result<(), CliError> {
    loop {
        tokio::select! {
            action = signals.next_action() => match action {
                SignalAction::Stop => break,
                SignalAction::Reload => {
                    if let SignalAction::Stop = reload(&running, &mut signals, &load_config).await {
                        break;
                    }
                }
            },
            () = shutdown.cancelled() => break,
        }
    }
    tracing::info!("stopping; draining requests in flight");
    shutdown.cancel();
    tokio::select! {
        () = running.wait_until_stopped() => {
            tracing::info!("stopped");
            Ok(())
        }
        () = signals.wait_for_stop() => Err(shutdown_aborted("received a second signal")),
        () = tokio::time::sleep(grace) => Err(shutdown_aborted("`http.shutdown_grace` expired")),
    }
}

/// Reloads, and repeats if another SIGHUP arrives meanwhile, since the files read may already be outdated.
async fn reload(
    running: &RunningNode,
    signals: &mut Signals,
    load_config: impl Fn() -> Result<Config, ConfigError>,
) -> SignalAction {
    loop {
        let mut reload_again = false;
        let mut reload = std::pin::pin!(running.reload(load_config().map_err(Into::into)));
        loop {
            tokio::select! {
                () = &mut reload => break,
                action = signals.next_action() => match action {
                    SignalAction::Stop => return SignalAction::Stop,
                    SignalAction::Reload => reload_again = true,
                },
            }
        }
        if !reload_again {
            return SignalAction::Reload;
        }
    }
}

fn shutdown_aborted(reason: &str) -> CliError {
    tracing::warn!("shutdown aborted requests in flight");
    CliError::Other(anyhow::anyhow!("shutdown aborted requests in flight: {reason}"))
}
