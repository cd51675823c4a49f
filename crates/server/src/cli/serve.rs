//! `ringtrue serve`.

use std::sync::Arc;

use ringtrue_engine::ports::SystemEntropy;
use tokio_util::sync::CancellationToken;

use super::{
    desk::{Desk, database_clock, open_store},
    failure::Failure,
    signals::{Signals, run_until_stopped},
};
use crate::{
    config::{self, Config},
    telemetry,
    wiring::{self, Assembly},
};

pub(super) async fn serve(desk: &Desk) -> Result<(), Failure> {
    let config = desk.config()?;
    let telemetry = telemetry::start(&config.log, &config.telemetry)?;
    let ended = serve_until_stopped(desk, config).await;
    if let Err(failure) = &ended {
        tracing::error!("{failure}");
    }
    telemetry.finish().await;
    ended
}

async fn serve_until_stopped(desk: &Desk, config: Config) -> Result<(), Failure> {
    let signals = Signals::listen().map_err(|problem| Failure::Failed(problem.into()))?;
    let grace = config.http.shutdown_grace;
    let master = desk.master_key(&config)?;
    let store = open_store(&config).await?;
    let shutdown = CancellationToken::new();
    let clock = Arc::new(database_clock(&*store).await?);
    let assembly = Assembly { config, store, master, clock, entropy: Arc::new(SystemEntropy::default()) };
    let running = wiring::start(assembly, shutdown.clone()).await?;
    tracing::info!(
        base_url = running.base_url,
        address = %running.address,
        metrics = running.metrics_address.map(tracing::field::display),
        version = env!("CARGO_PKG_VERSION"),
        "ready"
    );
    let read_again = || config::load(desk.config_file.as_deref(), &desk.environment).map(|loaded| loaded.config);
    run_until_stopped(running, &shutdown, grace, signals, read_again).await
}
