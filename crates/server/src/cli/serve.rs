//! `ringtrue serve`.

use std::sync::Arc;

use ringtrue_engine::ports::SystemEntropy;
use tokio_util::sync::CancellationToken;

use super::{
    context::{CommandContext, database_clock, open_store},
    error::CliError,
    signals::{Signals, run_until_stopped},
};
use crate::{
    config::{self, Config},
    telemetry,
    wiring::{self, NodeParts},
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
    let parts = NodeParts { config, store, master, clock, entropy: Arc::new(SystemEntropy::default()) };
    let running = wiring::start(parts, shutdown.clone()).await?;
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
