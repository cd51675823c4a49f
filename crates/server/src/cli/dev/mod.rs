//! `ringtrue dev`, a development server with a demo workspace; and `ringtrue selftest`, which by default tests a
//! temporary server.
//!
//! One private directory holds the database, the master key and, for scripts, `dev.json` with the credentials of the
//! demo workspace. `dev.json` is missing while the server starts, and stays after it has stopped.

mod data_dir;
mod demo_workspace;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_client::{SelftestArguments, Signals, printer, selftest_profile, selftest_server};
use ringtrue_domain::account::Email;
use ringtrue_engine::{
    Engine,
    accounts::{AccessLink, PasswordCosts},
    keys::MasterKey,
    ports::{
        clock::{Clock, DatabaseClock, SystemClock},
        entropy::SystemEntropy,
    },
};
use ringtrue_web::development::Development;
use tokio_util::sync::CancellationToken;

use self::{data_dir::DataDir, demo_workspace::DemoWorkspace};
use super::{
    arguments::DevArguments,
    context::{CommandContext, open_store},
    error::CliError,
    serve::run_until_stopped,
};
use crate::{
    config::{self, Config, ConfigErrors, Environment},
    telemetry,
    wiring::{self, NodeDependencies, RunningNode},
};

/// Simulated number in the examples. Checks of this number match, because its last digit is even.
const EXAMPLE_NUMBER: &str = "+990123456700";
const ADMIN_EMAIL: &str = "dev@localhost";

pub(super) async fn dev(context: &CommandContext, arguments: &DevArguments) -> Result<(), CliError> {
    if context.config_file.is_some() {
        return Err(CliError::usage(
            "`dev` does not read a configuration file",
            "Use `ringtrue serve --config PATH`; for `dev`, override settings with environment variables.",
        ));
    }
    let data_dir = DataDir::open(&arguments.data)?;
    let read_config =
        || config::load_for_development(&data_dir.database_path(), arguments.listen, &context.environment);
    let config = read_config()?;
    let telemetry = telemetry::start(&config.log, &config.telemetry)?;
    let result = serve_until_stopped(&data_dir, config, read_config).await;
    telemetry.flush().await;
    result
}

async fn serve_until_stopped(
    data_dir: &DataDir,
    config: Config,
    read_config: impl Fn() -> Result<Config, ConfigErrors>,
) -> Result<(), CliError> {
    let signals = Signals::listen().map_err(|error| CliError::Other(error.into()))?;
    let grace = config.http.shutdown_grace;
    let shutdown = CancellationToken::new();
    let clock = Arc::new(DatabaseClock::new(Arc::new(SystemClock)));
    let StartedServer { running, demo, development, .. } = start(data_dir, config, clock, shutdown.clone()).await?;
    printer::print_text(&render_banner(&demo, &development))?;
    run_until_stopped(running, &shutdown, grace, signals, read_config).await
}

/// What a command needs to work on the database of `ringtrue dev`, whether or not `ringtrue dev` is running.
pub(super) struct DevDeployment {
    pub config: Config,
    pub master: MasterKey,
    pub base_url: String,
}

pub(super) fn open_data_dir(context: &CommandContext, path: &Path) -> Result<DevDeployment, CliError> {
    if context.config_file.is_some() {
        return Err(CliError::usage(
            "`--data` and `--config` cannot be combined",
            "Use `--data DIR` for `ringtrue dev`, and `--config PATH` for `ringtrue serve`.",
        ));
    }
    let (database, master, base_url) = DataDir::read_existing(path)?;
    let listen = base_url.as_deref().and_then(|url| url.strip_prefix("http://")).and_then(|text| text.parse().ok());
    let listen = listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)));
    let config = config::load_for_development(&database, listen, &context.environment)?;
    let base_url = base_url.unwrap_or_else(|| format!("http://{}", config.http.listen));
    Ok(DevDeployment { config, master, base_url })
}

/// Creates a link that signs in to the console as the administrator, without a password.
pub(super) async fn create_sign_in_link(engine: &Engine) -> Result<AccessLink, CliError> {
    let admin = ADMIN_EMAIL.parse::<Email>().map_err(anyhow::Error::new)?;
    Ok(engine.accounts.create_admin_sign_in_link(&admin).await?)
}

/// Tests the server of a profile, or else a temporary server. The latter has an adjustable clock, so that the test of
/// expiry need not wait.
pub(super) async fn selftest(context: &CommandContext, arguments: &SelftestArguments) -> Result<(), CliError> {
    let client = context.client_context()?;
    if let Some(profile) = &arguments.profile {
        return Ok(selftest_profile(&client, profile, arguments.slow).await?);
    }
    let temporary = tempfile::Builder::new().prefix("ringtrue-selftest-").tempdir()?;
    let data_dir = DataDir::open(temporary.path())?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    // The temporary server ignores environment variables.
    let config = config::load_for_development(&data_dir.database_path(), any_port, &Environment::default())?;
    let clock = Arc::new(AdjustableClock::default());
    let shutdown = CancellationToken::new();
    let StartedServer { running, file, .. } = start(&data_dir, config, clock.clone(), shutdown.clone()).await?;
    let result = selftest_server(&client, &file, Box::new(move |seconds| clock.advance(seconds))).await;
    shutdown.cancel();
    running.wait_until_stopped().await;
    Ok(result?)
}

/// System clock with an adjustable offset.
#[derive(Debug, Default)]
struct AdjustableClock {
    ahead_millis: AtomicI64,
}

impl AdjustableClock {
    fn advance(&self, seconds: i64) {
        self.ahead_millis.fetch_add(seconds.saturating_mul(1_000), Ordering::SeqCst);
    }
}

impl Clock for AdjustableClock {
    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead_millis.load(Ordering::SeqCst));
        SystemClock.now().checked_add(ahead).unwrap_or(Timestamp::MAX)
    }
}

struct StartedServer {
    running: RunningNode,
    demo: DemoWorkspace,
    development: Arc<Development>,
    /// Path of `dev.json`.
    file: PathBuf,
}

async fn start(
    data_dir: &DataDir,
    config: Config,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) -> Result<StartedServer, CliError> {
    let previous = data_dir.take_previous_demo()?;
    let master = data_dir.master_key(&SystemEntropy::default())?;
    let url = &config.store.url;
    ringtrue_store::migrate(url, SystemClock.now())
        .await
        .map_err(|error| CliError::Migrate { url: url.to_string(), error })?;
    let store = open_store(&config).await?;

    let listen = config.http.listen;
    let binary = std::env::current_exe().unwrap_or_else(|_| "ringtrue".into());
    let development = Arc::new(Development::new(&binary, data_dir.path(), &data_dir.ready_file()));
    let dependencies = NodeDependencies {
        config,
        store,
        master,
        clock,
        entropy: Arc::new(SystemEntropy::default()),
        password_costs: PasswordCosts::default(),
        development: Some(Arc::clone(&development)),
        periodic_heartbeats: true,
    };
    let running = Box::pin(wiring::start(dependencies, shutdown)).await.map_err(|error| {
        let is_in_use = error.chain().any(|cause| {
            cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
        });
        if is_in_use {
            CliError::failed(
                format!("{listen} is already in use"),
                "Stop the other program, or use another address: `--listen 127.0.0.1:0` picks a free port.",
            )
        } else {
            error.into()
        }
    })?;
    let demo = DemoWorkspace::set_up(&running.engine, &running.base_url, previous).await?;
    if let (Ok(workspace), Ok(project)) = (demo.workspace.workspace_id.parse(), demo.project.project_id.parse()) {
        development.set_demo_project(workspace, project);
    }
    let file = data_dir.write_ready_file(&demo)?;
    Ok(StartedServer { running, demo, development, file })
}

/// Renders the message at startup: URLs and the next commands. Client secrets are only in the credentials file, and
/// examples only in the console.
fn render_banner(demo: &DemoWorkspace, development: &Development) -> String {
    let DemoWorkspace { base_url, console_url, .. } = demo;
    let renew = development.sign_in_link_command();
    let file = development.credentials_file();
    let login = development.data_command("login");
    let verify = development.command(&format!("verify {EXAMPLE_NUMBER}"));
    let listen = development.data_command("listen");
    format!(
        "
  Ringtrue is ready at {base_url}

  Console      {console_url}
               (signs in once, within an hour; for another link: {renew})
  API          {base_url}/v1
  Reference    {base_url}/docs
  Credentials  {file}
  Try it       {login} && {verify}
  Callbacks    {listen}
  Stop         Ctrl+C

"
    )
}
