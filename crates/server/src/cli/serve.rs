//! `ringtrue serve`, and the handling of signals that stop and reload a server.

use std::{sync::Arc, time::Duration};

use ringtrue_client::{SignalAction, Signals};
use ringtrue_engine::{accounts::PasswordCosts, ports::entropy::SystemEntropy};
use tokio_util::sync::CancellationToken;

use super::{
    context::{CommandContext, database_clock, open_store},
    error::CliError,
};
use crate::{
    config::{self, Config, ConfigErrors},
    telemetry,
    wiring::{self, NodeDependencies, RunningNode},
};

pub(super) async fn serve(context: &CommandContext) -> Result<(), CliError> {
    let config = context.config()?;
    let telemetry = telemetry::start(&config.log, &config.telemetry)?;
    let result = serve_until_stopped(context, config).await;
    if let Err(error) = &result {
        tracing::error!("{error}");
    }
    telemetry.flush().await;
    result
}

async fn serve_until_stopped(context: &CommandContext, config: Config) -> Result<(), CliError> {
    let signals = Signals::listen().map_err(|error| CliError::Other(error.into()))?;
    let grace = config.http.shutdown_grace;
    let master = context.master_key(&config)?;
    let store = open_store(&config).await?;
    let shutdown = CancellationToken::new();
    let clock = Arc::new(database_clock(&*store).await?);
    let entropy = Arc::new(SystemEntropy::default());
    let dependencies = NodeDependencies {
        config,
        store,
        master,
        clock,
        entropy,
        password_costs: PasswordCosts::default(),
        development: None,
        periodic_heartbeats: true,
    };
    let running = wiring::start(dependencies, shutdown.clone()).await?;
    tracing::info!(
        base_url = running.base_url,
        address = %running.address,
        metrics = running.metrics_address.map(tracing::field::display),
        version = env!("CARGO_PKG_VERSION"),
        "ready"
    );
    let load_config = || config::load(context.config_file.as_deref(), &context.environment).map(|loaded| loaded.config);
    run_until_stopped(running, &shutdown, grace, signals, load_config).await
}

/// Runs a server until SIGTERM or SIGINT. The first of these signals drains requests. A second signal, or the end of
/// `grace`, aborts them. SIGHUP reloads the configuration.
pub(super) async fn run_until_stopped(
    running: RunningNode,
    shutdown: &CancellationToken,
    grace: Duration,
    mut signals: Signals,
    load_config: impl Fn() -> Result<Config, ConfigErrors>,
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

/// Reloads the configuration. If another SIGHUP arrives meanwhile, reloads again, because the files may have changed
/// after they were read.
async fn reload(
    running: &RunningNode,
    signals: &mut Signals,
    load_config: impl Fn() -> Result<Config, ConfigErrors>,
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
