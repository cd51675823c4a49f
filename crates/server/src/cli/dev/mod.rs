//! `ringtrue dev`: from nothing to a working `curl`.
//!
//! Everything that it needs is in one folder, which only its owner can enter: the database, the master key, and the
//! credentials of a demo workspace in `dev.json`, for scripts. That file is there only while the server is ready, or
//! after it has stopped; a start that is under way has none.

mod demo;
mod folder;
mod welcome;

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

use self::{demo::Demo, folder::Folder};
use super::{
    arguments::DevArguments,
    desk::{Desk, open_store},
    failure::Failure,
    printer,
    signals::{Signals, run_until_stopped},
};
use crate::{
    config::{self, Config, ConfigError, Environment},
    telemetry,
    wiring::{self, Assembly, Running},
};

pub(super) async fn dev(desk: &Desk, arguments: &DevArguments) -> Result<(), Failure> {
    if desk.config_file.is_some() {
        return Err(Failure::refused(
            "`dev` takes no configuration file",
            "Use `ringtrue serve --config PATH`; for `dev`, set single settings in the environment.",
        ));
    }
    let folder = Folder::open(&arguments.data)?;
    let read_config = || config::for_development(&folder.database(), arguments.listen, &desk.environment);
    let config = read_config()?;
    let telemetry = telemetry::start(&config.log, &config.telemetry)?;
    let ended = serve_until_stopped(&folder, config, read_config).await;
    telemetry.finish().await;
    ended
}

async fn serve_until_stopped(
    folder: &Folder,
    config: Config,
    read_config: impl Fn() -> Result<Config, ConfigError>,
) -> Result<(), Failure> {
    let signals = Signals::listen().map_err(|problem| Failure::Failed(problem.into()))?;
    let grace = config.http.shutdown_grace;
    let shutdown = CancellationToken::new();
    let (running, demo, file) =
        start(folder, config, Arc::new(DatabaseClock::new(Arc::new(SystemClock))), shutdown.clone()).await?;
    let binary = std::env::current_exe().unwrap_or_else(|_| "ringtrue".into());
    printer::text(&welcome::text(&demo, &file, &binary))?;
    run_until_stopped(running, &shutdown, grace, signals, read_config).await
}

/// What a command needs to work on the database of a `ringtrue dev`, whether or not that runs.
pub(super) struct DevData {
    pub config: Config,
    pub master: MasterKey,
    pub base_url: String,
}

pub(super) fn open_data(path: &Path, environment: &Environment) -> Result<DevData, Failure> {
    let (database, master, base_url) = Folder::find(path)?;
    let config = config::for_development(&database, SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), environment)?;
    let base_url = base_url.unwrap_or_else(|| format!("http://{}", config.http.listen));
    Ok(DevData { config, master, base_url })
}

/// A server for a while, on any free port and with nothing of the environment. What is in its folder is as for `dev`.
pub(super) async fn start_apart(
    path: &Path,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) -> Result<(Running, PathBuf), Failure> {
    let folder = Folder::open(path)?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = config::for_development(&folder.database(), any_port, &Environment::default())?;
    let (running, _, file) = start(&folder, config, clock, shutdown).await?;
    Ok((running, file))
}

/// Gives the server, its demo, and the file that tells scripts about it.
async fn start(
    folder: &Folder,
    config: Config,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) -> Result<(Running, Demo, PathBuf), Failure> {
    let previous = folder.take_previous()?;
    let master = folder.master_key(&SystemEntropy::default())?;
    let url = &config.store.url;
    ringtrue_store::migrate(url, SystemClock.now())
        .await
        .map_err(|problem| Failure::Migrate { url: url.to_string(), problem })?;
    let store = open_store(&config).await?;

    let listen = config.http.listen;
    let assembly = Assembly { config, store, master, clock, entropy: Arc::new(SystemEntropy::default()) };
    let running = wiring::start(assembly, shutdown).await.map_err(|error| {
        let is_taken = error.chain().any(|cause| {
            cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
        });
        if is_taken {
            Failure::refused(
                format!("something listens on {listen} already"),
                "Stop it, or choose another address: `--listen 127.0.0.1:0` takes a free port.",
            )
        } else {
            error.into()
        }
    })?;
    let demo = Demo::set_up(&running.engine, &running.base_url, previous).await?;
    let file = folder.publish(&demo)?;
    Ok((running, demo, file))
}
