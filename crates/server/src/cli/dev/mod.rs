//! `ringtrue dev`: a development server with a demo workspace.
//!
//! One private directory holds the database, the master key and, for scripts, `dev.json` with the credentials of the
//! demo workspace. `dev.json` is missing while the server starts, and stays after it has stopped.

mod banner;
mod data_dir;
mod demo_workspace;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use ringtrue_engine::{
    keys::MasterKey,
    ports::{Clock, DatabaseClock, SystemClock, SystemEntropy},
};
use tokio_util::sync::CancellationToken;

use self::{data_dir::DataDir, demo_workspace::DemoWorkspace};
use super::{
    arguments::DevArguments,
    context::{CommandContext, open_store},
    error::CliError,
    printer,
    signals::{Signals, run_until_stopped},
};
use crate::{
    config::{self, Config, ConfigError, Environment},
    telemetry,
    wiring::{self, NodeParts, RunningNode},
};

pub(super) async fn dev(context: &CommandContext, arguments: &DevArguments) -> Result<(), CliError> {
    if context.config_file.is_some() {
        return Err(CliError::with_hint(
            "`dev` does not read a configuration file",
            "Use `ringtrue serve --config PATH`; for `dev`, override settings with environment variables.",
        ));
    }
    let data_dir = DataDir::open(&arguments.data)?;
    let read_config = || config::load_for_development(&data_dir.database(), arguments.listen, &context.environment);
    let config = read_config()?;
    let telemetry = telemetry::start(&config.log, &config.telemetry)?;
    let result = serve_until_stopped(&data_dir, config, read_config).await;
    telemetry.flush().await;
    result
}

async fn serve_until_stopped(
    data_dir: &DataDir,
    config: Config,
    read_config: impl Fn() -> Result<Config, ConfigError>,
) -> Result<(), CliError> {
    let signals = Signals::listen().map_err(|error| CliError::Other(error.into()))?;
    let grace = config.http.shutdown_grace;
    let shutdown = CancellationToken::new();
    let (running, demo, file) =
        start(data_dir, config, Arc::new(DatabaseClock::new(Arc::new(SystemClock))), shutdown.clone()).await?;
    let binary = std::env::current_exe().unwrap_or_else(|_| "ringtrue".into());
    printer::print_text(&banner::render(&demo, &file, &binary))?;
    run_until_stopped(running, &shutdown, grace, signals, read_config).await
}

/// Access to the database of a `ringtrue dev`, running or not.
pub(super) struct DevDeployment {
    pub config: Config,
    pub master: MasterKey,
    pub base_url: String,
}

pub(super) fn open_data_dir(path: &Path, environment: &Environment) -> Result<DevDeployment, CliError> {
    let (database, master, base_url) = DataDir::open_existing(path)?;
    let config = config::load_for_development(&database, SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), environment)?;
    let base_url = base_url.unwrap_or_else(|| format!("http://{}", config.http.listen));
    Ok(DevDeployment { config, master, base_url })
}

/// Starts a server on a free port, ignoring the environment. Its directory is laid out as for `dev`.
pub(super) async fn start_temporary(
    path: &Path,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) -> Result<(RunningNode, PathBuf), CliError> {
    let data_dir = DataDir::open(path)?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = config::load_for_development(&data_dir.database(), any_port, &Environment::default())?;
    let (running, _, file) = start(&data_dir, config, clock, shutdown).await?;
    Ok((running, file))
}

/// Returns the server, its demo workspace and the path of `dev.json`.
async fn start(
    data_dir: &DataDir,
    config: Config,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) -> Result<(RunningNode, DemoWorkspace, PathBuf), CliError> {
    let previous = data_dir.take_previous_demo()?;
    let master = data_dir.master_key(&SystemEntropy::default())?;
    let url = &config.store.url;
    ringtrue_store::migrate(url, SystemClock.now())
        .await
        .map_err(|error| CliError::Migrate { url: url.to_string(), error })?;
    let store = open_store(&config).await?;

    let listen = config.http.listen;
    let parts = NodeParts { config, store, master, clock, entropy: Arc::new(SystemEntropy::default()) };
    let running = wiring::start(parts, shutdown).await.map_err(|error| {
        let is_in_use = error.chain().any(|cause| {
            cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
        });
        if is_in_use {
            CliError::with_hint(
                format!("{listen} is already in use"),
                "Stop the other program, or use another address: `--listen 127.0.0.1:0` picks a free port.",
            )
        } else {
            error.into()
        }
    })?;
    let demo = DemoWorkspace::set_up(&running.engine, &running.base_url, previous).await?;
    let file = data_dir.write_ready_file(&demo)?;
    Ok((running, demo, file))
}
