//! `ringtrue serve` on its own PostgreSQL or SQLite database, with a workspace and projects.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{load::Connection, postgres::Database, process::Process};

/// Arbitrary 32 bytes.
pub const MASTER_KEY: &str = "cmluZ3RydWUgYmVuY2ggcmluZ3RydWUgYmVuY2ggMTI=";
/// Marks the log line with the listen address.
const READY: &str = "\"ready\"";
/// Rate limits to raise, because the load exceeds the defaults.
const RAISED_RATE_LIMITS: [&str; 5] = ["CREATE", "READ", "ELIGIBILITY", "TOKEN", "DEVICE"];

pub struct Deployment<D = Database> {
    // In drop order.
    process: Process,
    pub database: D,
    _folder: TempDir,
    pub address: SocketAddr,
    settings: Settings,
    workspace: WorkspaceCredentials,
}

/// Environment of the deployment's commands.
struct Settings {
    file: PathBuf,
    store: String,
}

impl Settings {
    fn command(&self) -> anyhow::Result<Command> {
        let mut command = Command::new(binary()?);
        command
            .env("RINGTRUE_CONFIG", &self.file)
            .env("RINGTRUE_STORE__URL", &self.store)
            .env("RINGTRUE_MASTER_KEY", MASTER_KEY)
            .env("RINGTRUE_HTTP__LISTEN", "127.0.0.1:0")
            // All load comes from one address.
            .env("RINGTRUE_HTTP__MAX_CONNECTIONS_PER_ADDRESS", "5000")
            .env("RINGTRUE_METRICS__LISTEN", "off")
            .env("BENCH_SMSC_PASSWORD", "sandbox")
            .env("BENCH_CLIENT_SECRET", "sandbox");
        for limit in RAISED_RATE_LIMITS {
            command.env(format!("RINGTRUE_RATE_LIMITS__{limit}"), "1000000");
        }
        Ok(command)
    }

    /// Runs a command with JSON output.
    fn run(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&run_command(self.command()?.args(arguments).args(["--output", "json"]))?)?)
    }
}

/// SQLite file in the deployment's folder.
pub struct Sqlite;

/// A workspace and its client credentials.
struct WorkspaceCredentials {
    id: String,
    client_id: String,
    client_secret: String,
}

impl WorkspaceCredentials {
    fn create(settings: &Settings, name: &str) -> anyhow::Result<Self> {
        let created = settings.run(&["workspace", "create", name])?;
        Ok(WorkspaceCredentials {
            id: json_text(&created, "/workspace_id")?,
            client_id: json_text(&created, "/client_id")?,
            client_secret: json_text(&created, "/client_secret")?,
        })
    }
}

/// A project with an access token.
pub struct Project {
    pub id: String,
    pub token: String,
}

/// A project with its client credentials.
pub struct ProjectCredentials {
    pub id: String,
    pub client_id: String,
    pub client_secret: String,
}

impl Deployment<Database> {
    /// `settings` is TOML.
    pub fn start(database: &'static str, settings: &str) -> anyhow::Result<Self> {
        Self::start_on_postgres(Database::create(database)?, settings)
    }

    /// Starts a deployment on a Citus cluster with these workers.
    pub fn start_on_citus(database: &'static str, workers: &[PathBuf], settings: &str) -> anyhow::Result<Self> {
        Self::start_on_postgres(Database::create_on_cluster(database, workers)?, settings)
    }

    fn start_on_postgres(database: Database, settings: &str) -> anyhow::Result<Self> {
        let url = database.url.clone();
        Deployment::start_on(database, |_| url, settings)
    }
}

impl Deployment<Sqlite> {
    pub fn start_on_sqlite(settings: &str) -> anyhow::Result<Self> {
        Deployment::start_on(Sqlite, |folder| format!("sqlite:{}", folder.join("ringtrue.db").display()), settings)
    }
}

impl<D> Deployment<D> {
    fn start_on(database: D, url: impl FnOnce(&Path) -> String, settings: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("ringtrue.toml");
        std::fs::write(&file, settings)?;
        let settings = Settings { file, store: url(folder.path()) };
        run_command(settings.command()?.arg("migrate"))?;
        let workspace = WorkspaceCredentials::create(&settings, "Bench")?;
        let process = Process::start(settings.command()?.arg("serve"), READY)?;
        let address = listen_address(&process)?;
        Ok(Deployment { process, database, _folder: folder, address, settings, workspace })
    }

    /// Kills the node and starts it again. Returns the time from its start until it is ready.
    pub fn restart(&mut self) -> anyhow::Result<Duration> {
        self.process.kill();
        let mut command = self.settings.command()?;
        let started = Instant::now();
        self.process = Process::start(command.arg("serve"), READY)?;
        let elapsed = started.elapsed();
        self.address = listen_address(&self.process)?;
        Ok(elapsed)
    }

    /// Starts another node on the same database.
    pub fn start_node(&self, listen: SocketAddr, log: File) -> anyhow::Result<Process> {
        let mut command = self.settings.command()?;
        Process::start_with_log(command.arg("serve").env("RINGTRUE_HTTP__LISTEN", listen.to_string()), READY, log)
    }

    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Runs an administrator command with JSON output.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        self.settings.run(arguments)
    }

    pub fn workspace_id(&self) -> &str {
        &self.workspace.id
    }

    pub async fn sandbox_project(&self) -> anyhow::Result<Project> {
        self.project("sandbox", None, "reverse_sms").await
    }

    /// Creates a project in a new workspace.
    pub async fn sandbox_project_of_another_workspace(&self) -> anyhow::Result<Project> {
        let workspace = WorkspaceCredentials::create(&self.settings, "Other")?;
        // The node loads changes of other processes within a second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.project_of(&workspace, "sandbox", None, "reverse_sms").await
    }

    pub async fn sandbox_project_for(&self, scope: &str) -> anyhow::Result<Project> {
        self.project("sandbox", None, scope).await
    }

    /// A live project with one allowed network.
    pub async fn live_project(&self, network: &str) -> anyhow::Result<Project> {
        self.project("live", Some((network, &["reverse_sms"])), "reverse_sms").await
    }

    /// A live project for eligibility requests, with one allowed network.
    pub async fn eligibility_project(&self, network: &str, products: &[&str]) -> anyhow::Result<Project> {
        self.project("live", Some((network, products)), "eligibility").await
    }

    async fn project(&self, mode: &str, network: Option<(&str, &[&str])>, scope: &str) -> anyhow::Result<Project> {
        self.project_of(&self.workspace, mode, network, scope).await
    }

    async fn project_of(
        &self,
        workspace: &WorkspaceCredentials,
        mode: &str,
        network: Option<(&str, &[&str])>,
        scope: &str,
    ) -> anyhow::Result<Project> {
        let created = self.create_project(workspace, &json!({ "name": "Bench", "mode": mode })).await?;
        let ProjectCredentials { id, client_id, client_secret } = created;
        if let Some((network, products)) = network {
            let allowed = json!({ "networks": [{ "network_id": network, "products": products }] });
            let path = format!("/v1/management/workspaces/{}/projects/{id}/allowed-networks", workspace.id);
            self.send("PUT", &path, &self.management_token(workspace).await?, &allowed).await?;
        }
        let token = self.token(&client_id, &client_secret, scope).await?;
        Ok(Project { id, token })
    }

    /// A sandbox project with this configuration.
    pub async fn configured_project(&self, configuration: &Value) -> anyhow::Result<ProjectCredentials> {
        self.create_project(&self.workspace, &json!({ "name": "Bench", "configuration": configuration })).await
    }

    async fn create_project(
        &self,
        workspace: &WorkspaceCredentials,
        project: &Value,
    ) -> anyhow::Result<ProjectCredentials> {
        let path = format!("/v1/management/workspaces/{}/projects", workspace.id);
        let created = self.send("POST", &path, &self.management_token(workspace).await?, project).await?;
        Ok(ProjectCredentials {
            id: json_text(&created, "/project_id")?,
            client_id: json_text(&created, "/credentials/0/client_id")?,
            client_secret: json_text(&created, "/credentials/0/client_secret")?,
        })
    }

    async fn management_token(&self, workspace: &WorkspaceCredentials) -> anyhow::Result<String> {
        self.token(&workspace.client_id, &workspace.client_secret, "management").await
    }

    pub async fn token(&self, client_id: &str, client_secret: &str, scope: &str) -> anyhow::Result<String> {
        let request = token_request("/oauth2/token", client_id, client_secret, scope);
        let response: Value =
            serde_json::from_slice(Connection::open(self.address).await?.fetch_body(&request).await?)?;
        json_text(&response, "/access_token")
    }

    async fn send(&self, method: &str, path: &str, token: &str, body: &Value) -> anyhow::Result<Value> {
        let request = json_request(method, path, token, &body.to_string());
        Ok(serde_json::from_slice(Connection::open(self.address).await?.fetch_body(request.as_bytes()).await?)?)
    }
}

/// Listen address of a node.
pub fn listen_address(node: &Process) -> anyhow::Result<SocketAddr> {
    Ok(json_text(&serde_json::from_str(&node.ready_line)?, "/address")?.parse()?)
}

/// `ringtrue` from the same build.
pub fn binary() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("ringtrue"))
}

/// Token request with client credentials.
pub fn token_request(path: &str, id: &str, secret: &str, scope: &str) -> Vec<u8> {
    let body = format!("grant_type=client_credentials&scope={scope}");
    let basic = BASE64_STANDARD.encode(format!("{id}:{secret}"));
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {basic}\r\nAccept: application/json\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub fn json_request(method: &str, path: &str, token: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

pub fn get_request(path: &str, token: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n\r\n"
    )
}

pub fn json_text(value: &Value, pointer: &str) -> anyhow::Result<String> {
    let text = value.pointer(pointer).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no {pointer} in {value}"))?.to_owned())
}

fn run_command(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        bail!("ringtrue failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
