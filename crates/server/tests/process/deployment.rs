//! Runs deployments of the real binary, and clients that keep writing until the server is gone.

use std::{
    ffi::OsStr,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use ringtrue_engine::{keys::MasterKey, ports::entropy::SystemEntropy};
use ringtrue_test_support::{
    WAIT_LIMIT,
    http_client::{self, Request},
    poll_until,
    server_process::ServerProcess,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinSet, time::timeout};

/// Path of Reverse SMS checks.
pub const CHECKS: &str = "/v1/number-verification/reverse-sms-checks";

pub const BINARY: &str = env!("CARGO_BIN_EXE_ringtrue");

/// A database with a workspace, and the settings of its server processes.
#[derive(Clone)]
pub struct Deployment {
    store: String,
    master: String,
    binary: PathBuf,
    /// Id and credential of the workspace, as the command line printed them.
    workspace: Value,
}

/// A small disk that only one server process sees, in its mount namespace.
pub struct SmallDisk {
    deployment: Deployment,
    server: u32,
    directory: TempDir,
}

impl SmallDisk {
    /// Runs a command of the binary in the namespace in which the disk is mounted.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.enter(self.deployment.binary.as_os_str()).args(arguments).output().unwrap()
    }

    pub fn fill(&self) {
        let full =
            self.enter("sh".as_ref()).args(["-c", "cat /dev/zero > \"$0\""]).arg(self.filling()).output().unwrap();
        assert!(String::from_utf8_lossy(&full.stderr).contains("No space left"), "{full:?}");
    }

    pub fn free(&self) {
        assert!(self.enter("rm".as_ref()).arg(self.filling()).status().unwrap().success());
    }

    fn filling(&self) -> PathBuf {
        self.directory.path().join("filling")
    }

    fn enter(&self, program: &OsStr) -> Command {
        let mut nsenter = self.deployment.set_up(Command::new("nsenter"));
        nsenter.arg("--target").arg(self.server.to_string()).args(["--user", "--preserve-credentials", "--mount"]);
        nsenter.arg(program);
        nsenter
    }
}

impl Deployment {
    pub fn new(store: &str) -> Self {
        Self::of_release(Path::new(BINARY), store)
    }

    /// Sets up a deployment with the binary of a release.
    pub fn of_release(binary: &Path, store: &str) -> Self {
        let master = MasterKey::generate(&SystemEntropy::default()).to_string();
        let (store, binary) = (store.to_owned(), binary.to_owned());
        let mut deployment = Deployment { store, master, binary, workspace: Value::Null };
        deployment.workspace = deployment.json(&["workspace", "create", "Acme"]);
        deployment
    }

    /// Returns the same deployment on another database.
    pub fn with_store(&self, store: &str) -> Self {
        Deployment { store: store.to_owned(), ..self.clone() }
    }

    /// Returns the same deployment with the binary of another release.
    pub fn with_binary(&self, binary: &Path) -> Self {
        Deployment { binary: binary.to_owned(), ..self.clone() }
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Runs a command, asserts that it succeeds, and returns its output.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["--output", "json"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn command(&self) -> Command {
        self.set_up(Command::new(&self.binary))
    }

    fn set_up(&self, mut command: Command) -> Command {
        command
            .env("RINGTRUE_STORE__URL", &self.store)
            .env("RINGTRUE_MASTER_KEY", &self.master)
            .env("RINGTRUE_HTTP__LISTEN", "127.0.0.1:0")
            .env("RINGTRUE_METRICS__LISTEN", "off")
            .env("RINGTRUE_LOG__FORMAT", "json")
            .env("RINGTRUE_CALLBACKS__ALLOWED_ADDRESSES", "[\"127.0.0.0/8\"]")
            .env("RINGTRUE_RATE_LIMITS__CREATE", "1000000")
            .env("RINGTRUE_RATE_LIMITS__READ", "1000000")
            .env("RINGTRUE_RATE_LIMITS__MANAGEMENT", "1000000")
            .env("RINGTRUE_RATE_LIMITS__TOKEN", "1000000");
        command
    }

    pub fn serve(&self) -> ServerProcess {
        self.serve_with(&[] as &[(&str, &str)])
    }

    /// Starts a server with additional settings as environment variables.
    pub fn serve_with(&self, settings: &[(impl AsRef<OsStr>, impl AsRef<OsStr>)]) -> ServerProcess {
        let settings = settings.iter().map(|(name, value)| (name, value));
        ServerProcess::start(self.command().arg("serve").envs(settings)).expect("the service is ready")
    }

    /// Starts a server in which `strace` injects a fault into one kind of system call, counted per thread. Returns
    /// `None` if the server died before it was ready.
    pub fn serve_with_fault(&self, call: &str, fault: &str) -> Option<ServerProcess> {
        let mut strace = self.set_up(Command::new("strace"));
        // `-D` detaches `strace`, so that the child process is the server itself.
        strace.args(["-D", "-f", "--quiet=all", "--output=/dev/null"]);
        strace.arg(format!("--trace={call}")).arg(format!("--inject={call}:{fault}"));
        ServerProcess::start(strace.arg(&self.binary).arg("serve"))
    }

    /// Starts a server on a copy of the SQLite database, on a disk of a few megabytes that only this server can see.
    pub fn serve_on_small_disk(&self) -> (ServerProcess, SmallDisk) {
        let directory = TempDir::new().unwrap();
        let source = Path::new(self.store.strip_prefix("sqlite:").expect("a SQLite database"));
        let copy = directory.path().join(source.file_name().expect("a file"));
        let deployment = self.with_store(&format!("sqlite:{}", copy.display()));
        let mut unshare = deployment.set_up(Command::new("unshare"));
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-euc"]);
        unshare.arg("mount -t tmpfs -o size=8m tmpfs \"$1\"; cp \"$2\"* \"$1\"; exec \"$3\" serve");
        unshare.arg("sh").arg(directory.path()).arg(source).arg(&self.binary);
        let server = ServerProcess::start(&mut unshare).expect("the service is ready");
        let disk = SmallDisk { deployment, server: server.id(), directory };
        (server, disk)
    }

    /// Starts a server whose writes, syncs and sent data `strace` records in a file. Syncs are slowed down, so that a
    /// response that does not wait for its sync is sent before it.
    pub fn serve_traced(&self, trace: &Path) -> ServerProcess {
        let mut strace = self.set_up(Command::new("strace"));
        strace.args(["-D", "-f", "-y", "--quiet=all", "--string-limit=65536", "--strings-in-hex=all"]);
        strace.args(["--trace=pwrite64,fdatasync,fsync,write,writev,sendto,sendmsg"]);
        strace.args(["--inject=fdatasync:delay_enter=10ms", "--output"]).arg(trace);
        ServerProcess::start(strace.arg(&self.binary).arg("serve")).expect("the service is ready")
    }

    pub fn path(&self) -> String {
        format!("/v1/management/workspaces/{}", self.text("workspace_id"))
    }

    pub fn token_request(&self) -> Request {
        http_client::token_request(self.text("client_id"), self.text("client_secret"), "management")
    }

    pub fn revoke_request(&self, token: &str) -> Request {
        Request::post("/oauth2/revoke")
            .basic(self.text("client_id"), self.text("client_secret"))
            .form(&[("token", token)])
    }

    fn text(&self, name: &str) -> &str {
        self.workspace[name].as_str().unwrap_or_else(|| panic!("{name}: {}", self.workspace))
    }

    /// Creates a project with these Reverse SMS settings and returns its credential.
    pub async fn product_credential(&self, server: &ServerProcess, settings: Value) -> Value {
        let manager = self.manager(server.address).await;
        let project = json!({"name": "Shop", "configuration": {"reverse_sms": settings}});
        let create = Request::post(&format!("{}/projects", self.path())).bearer(&manager).json(&project);
        server.send(create).await.assert(201).json()["credentials"][0].clone()
    }

    /// Creates a project with these Reverse SMS settings and returns a token.
    pub async fn product_token(&self, server: &ServerProcess, settings: Value) -> String {
        let credential = self.product_credential(server, settings).await;
        let [id, secret] = ["client_id", "client_secret"].map(|name| credential[name].as_str().unwrap());
        server.send(http_client::token_request(id, secret, "reverse_sms")).await.access_token()
    }

    /// Creates a live project that may use all networks and returns a Reverse SMS token.
    pub async fn live_token(&self, server: &ServerProcess) -> String {
        let manager = self.manager(server.address).await;
        let projects = format!("{}/projects", self.path());
        let create = Request::post(&projects).bearer(&manager).json(&json!({"name": "Shop", "mode": "live"}));
        let project = server.send(create).await.assert(201).json();
        let path = format!("{projects}/{}/allowed-networks", project["project_id"].as_str().unwrap());
        let allowed = json!({"networks": [{"network_id": "*", "products": ["reverse_sms"]}]});
        server.send(Request::put(&path).bearer(&manager).json(&allowed)).await.assert(200);
        let [id, secret] = ["client_id", "client_secret"].map(|name| project["credentials"][0][name].as_str().unwrap());
        server.send(http_client::token_request(id, secret, "reverse_sms")).await.access_token()
    }

    /// Runs a command with additional settings. Returns whether it succeeded, and its output.
    pub fn run_with(&self, arguments: &[&str], settings: &[(String, String)]) -> (bool, String) {
        let output = self.command().args(arguments).envs(settings.iter().cloned()).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    pub async fn manager(&self, address: SocketAddr) -> String {
        http_client::send(address, &self.token_request()).await.access_token()
    }
}

/// Returns whether a check is concluded.
pub fn is_ended(check: &Value) -> bool {
    !["ACCEPTED", "PENDING"].contains(&check["status"].as_str().unwrap())
}

/// Counts responses. Tests can wait for a count.
#[derive(Clone, Default)]
pub struct ResponseCounter(Arc<watch::Sender<usize>>);

impl ResponseCounter {
    pub fn count(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn so_far(&self) -> usize {
        *self.0.borrow()
    }

    pub async fn wait_for_count(&self, expected: usize) {
        let mut count = self.0.subscribe();
        let reached = timeout(WAIT_LIMIT, count.wait_for(|count| *count >= expected)).await;
        reached.unwrap_or_else(|_| panic!("timed out after {} responses", self.so_far())).expect("the counter exists");
    }
}

/// Concurrent clients that write until the server is gone.
#[derive(Default)]
pub struct Writers(JoinSet<()>);

impl Writers {
    pub fn spawn(&mut self, writing: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(writing);
    }

    /// Waits for this many responses. Fails if a writer stops before.
    pub async fn get(&mut self, responses: &ResponseCounter, expected: usize) {
        tokio::select! {
            biased;
            () = responses.wait_for_count(expected) => {}
            ended = self.0.join_next() => panic!("a writer stopped early: {ended:?}"),
        }
    }

    /// Waits until all writers have stopped.
    pub async fn join(mut self) {
        let gone = async {
            while let Some(ended) = self.0.join_next().await {
                ended.unwrap();
            }
        };
        timeout(WAIT_LIMIT, gone).await.expect("the writers stop");
    }
}

/// Waits until a node accepts a token that was issued for a project created on another node.
pub async fn wait_until_known(server: &ServerProcess, token: &str) {
    poll_until("the node knows the project", async || {
        server.get(&format!("{CHECKS}?size=1"), token).await.status == 200
    })
    .await;
}
