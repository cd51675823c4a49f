//! `ringtrue dev`: a development server with a demo workspace; and `ringtrue selftest`, against a temporary one.
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
    serve::run_until_stopped,
};
use crate::{
    config::{self, Config, ConfigError, Environment},
    telemetry,
    wiring::{self, NodeDependencies, RunningNode},
};

/// Simulated number that matches, because its last digit is even.
const NUMBER: &str = "+990123456700";

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
    printer::print_text(&render_banner(&demo, &file, &binary))?;
    run_until_stopped(running, &shutdown, grace, signals, read_config).await
}

/// Access to the database of `ringtrue dev`, running or not.
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

/// Tests the server of a profile, or a temporary server with an adjustable clock, so that the expiry case need not wait.
pub(super) async fn selftest(context: &CommandContext, arguments: &SelftestArguments) -> Result<(), CliError> {
    let client = context.client()?;
    if let Some(profile) = &arguments.profile {
        return Ok(selftest_profile(&client, profile, arguments.slow).await?);
    }
    let temporary = tempfile::Builder::new().prefix("ringtrue-selftest-").tempdir()?;
    let data_dir = DataDir::open(temporary.path())?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    // Ignores the environment.
    let config = config::load_for_development(&data_dir.database(), any_port, &Environment::default())?;
    let clock = Arc::new(AdjustableClock::default());
    let shutdown = CancellationToken::new();
    let (running, _, dev_file) = start(&data_dir, config, clock.clone(), shutdown.clone()).await?;
    let result = selftest_server(&client, &dev_file, Box::new(move |seconds| clock.advance(seconds))).await;
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
    let dependencies = NodeDependencies { config, store, master, clock, entropy: Arc::new(SystemEntropy::default()) };
    let running = wiring::start(dependencies, shutdown).await.map_err(|error| {
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

/// Renders the URLs, the credentials and example commands.
fn render_banner(demo: &DemoWorkspace, file: &Path, binary: &Path) -> String {
    let DemoWorkspace { base_url, workspace, project, console_url } = demo;
    let workspace_id = &workspace.workspace_id;
    let [workspace_login, project_login] = [&workspace.credential, &project.credential];
    let [manage, verify] = [workspace_login, project_login]
        .map(|login| format!("-u {}:{} -d grant_type=client_credentials", login.client_id, login.client_secret));
    // `sed` instead of `jq`: the examples need only a POSIX shell and `curl`.
    let token = r#"sed 's/.*"access_token":"\([^"]*\)".*/\1/'"#;
    let member = r#"sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/""#;
    let code = r#"sed 's/.*"code":"\([^"]*\)".*/\1/'"#;
    let (binary, folder) = (shell_quote(binary), shell_quote(file.parent().unwrap_or(file)));
    format!(
        "
  Ringtrue is ready at {base_url}

  Console         {console_url}
                  (single-use sign-in link, valid for an hour)

  Workspace       {workspace_id}
  client id       {}
  client secret   {}

  Project         {}  (sandbox: no real operator is contacted)
  client id       {}
  client secret   {}

  First check. In a second terminal, start a callback receiver:

    {binary} listen --data {folder}

  In a third terminal, get a token, create a Reverse SMS check, send its SMS from a simulated phone and read the result:

    checks={base_url}/v1/number-verification/reverse-sms-checks json='Content-Type: application/json'
    token=$(curl -s {verify} -d scope=reverse_sms {base_url}/oauth2/token | {token})
    check=$(curl -s -H \"Authorization: Bearer $token\" -H \"$json\" -d '{{\"phone_number\": \"{NUMBER}\", \"callback_url\": \"http://127.0.0.1:9099/callbacks\"}}' $checks)
    of() {{ echo \"$check\" | {member}; }}
    curl -H \"Authorization: Bearer $token\" -H \"$json\" -d \"{{\\\"from\\\": \\\"{NUMBER}\\\", \\\"to\\\": \\\"$(of receiver_phone_number)\\\", \\\"body\\\": \\\"$(of expected_sms_body)\\\"}}\" {base_url}/v1/sandbox/inbound-sms
    curl -H \"Authorization: Bearer $token\" $checks/$(of check_id)

  Silent check. `curl -L` stands in for the phone's browser on mobile data; then redeem the code:

    checks={base_url}/v1/number-verification/secure-sna-checks
    token=$(curl -s {verify} -d scope=secure_sna {base_url}/oauth2/token | {token})
    check=$(curl -s -H \"Authorization: Bearer $token\" -H \"$json\" -d '{{\"phone_number\": \"{NUMBER}\"}}' $checks)
    code=$(curl -sL \"$(of url)\" | {code})
    curl -H \"Authorization: Bearer $token\" -H \"$json\" -d \"{{\\\"code\\\": \\\"$code\\\"}}\" $checks/$(of check_id)

  Management API: get a token and list your projects:

    token=$(curl -s {manage} -d scope=management {base_url}/oauth2/token | {token})
    curl -H \"Authorization: Bearer $token\" {base_url}/v1/management/workspaces/{workspace_id}/projects

  The same with the API client commands:

    {binary} login --data {folder}
    {binary} reverse-sms create {NUMBER} --callback-url http://127.0.0.1:9099/callbacks
    {binary} trigger

  API reference   {base_url}/docs
  Script file     {}
  To stop         Ctrl+C

",
        workspace_login.client_id,
        workspace_login.client_secret,
        project.project_id,
        project_login.client_id,
        project_login.client_secret,
        file.display(),
    )
}

/// Quotes a path for a POSIX shell if needed.
fn shell_quote(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = path.chars().all(|character| character.is_alphanumeric() || "/._-+:@".contains(character));
    if is_plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_special_characters_are_quoted() {
        for (path, quoted) in [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("/$x", "'/$x'")]
        {
            assert_eq!(shell_quote(Path::new(path)), quoted);
        }
    }
}
