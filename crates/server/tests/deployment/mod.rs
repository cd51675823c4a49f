//! A deployment of the real binary for tests that kill, stop or load it.

#[path = "../http/client.rs"]
pub mod client;
#[path = "../http/database.rs"]
pub mod database;
pub mod load;
pub mod receiver;

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ringtrue_engine::{keys::MasterKey, ports::SystemEntropy};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use client::{HttpResponse, Request};

/// Path of Reverse SMS checks.
pub const CHECKS: &str = "/v1/number-verification/reverse-sms-checks";

const BINARY: &str = env!("CARGO_BIN_EXE_ringtrue");

/// A database with a workspace, and the settings of its processes.
#[derive(Clone)]
pub struct Deployment {
    store: String,
    master: String,
    workspace_id: String,
    basic: String,
}

impl Deployment {
    pub fn new(store: &str) -> Self {
        let master = MasterKey::generate(&SystemEntropy::default()).to_string();
        let mut deployment =
            Deployment { store: store.to_owned(), master, workspace_id: String::new(), basic: String::new() };
        let output = deployment.command().args(["--output", "json", "workspace", "create", "Acme"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let workspace: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = |name: &str| workspace[name].as_str().unwrap_or_else(|| panic!("{name}: {workspace}")).to_owned();
        deployment.workspace_id = text("workspace_id");
        deployment.basic = BASE64_STANDARD.encode(format!("{}:{}", text("client_id"), text("client_secret")));
        deployment
    }

    fn command(&self) -> Command {
        self.set_up(Command::new(BINARY))
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

    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// With additional settings as environment variables.
    pub fn serve_with(&self, settings: &[(&str, &str)]) -> Server {
        Server::start(self.command().arg("serve").envs(settings.iter().copied())).expect("the service gets ready")
    }

    /// A process with a fault injected by `strace` into one kind of system call, counted per thread. Returns `None` if
    /// it died before it was ready.
    pub fn serve_with_fault(&self, call: &str, fault: &str) -> Option<Server> {
        let mut strace = self.set_up(Command::new("strace"));
        // Detached, so that the child is the service itself.
        strace.args(["-D", "-f", "--quiet=all", "--output=/dev/null"]);
        strace.arg(format!("--trace={call}")).arg(format!("--inject={call}:{fault}"));
        Server::start(strace.args([BINARY, "serve"]))
    }

    pub fn path(&self) -> String {
        format!("/v1/management/workspaces/{}", self.workspace_id)
    }

    pub fn token_request(&self) -> Request {
        Request::new("POST", "/oauth2/token")
            .header("Authorization", format!("Basic {}", self.basic))
            .form(&[("grant_type", "client_credentials"), ("scope", "management")])
    }

    pub fn revoke_request(&self, token: &str) -> Request {
        Request::new("POST", "/oauth2/revoke")
            .header("Authorization", format!("Basic {}", self.basic))
            .form(&[("token", token)])
    }

    /// A token of a new project with these Reverse SMS settings.
    pub async fn product_token(&self, server: &Server, settings: Value) -> String {
        let manager = self.manager(server.address).await;
        let project = json!({"name": "Shop", "configuration": {"reverse_sms": settings}});
        let create = Request::post(&format!("{}/projects", self.path())).bearer(&manager).json(&project);
        let credential = server.send(create).await.assert(201).json()["credentials"][0].clone();
        let text = |name: &str| credential[name].as_str().unwrap().to_owned();
        let basic = BASE64_STANDARD.encode(format!("{}:{}", text("client_id"), text("client_secret")));
        let request = Request::post("/oauth2/token")
            .header("Authorization", format!("Basic {basic}"))
            .form(&[("grant_type", "client_credentials"), ("scope", "reverse_sms")]);
        server.send(request).await.assert(200).json()["access_token"].as_str().unwrap().to_owned()
    }

    pub async fn manager(&self, address: SocketAddr) -> String {
        let response = client::send(address, &self.token_request()).await;
        response.json()["access_token"].as_str().unwrap().to_owned()
    }
}

pub struct Server {
    pub address: SocketAddr,
    child: Child,
}

impl Server {
    fn start(command: &mut Command) -> Option<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts: run `make setup`");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut documents = lines.by_ref().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let Some(ready) = documents.find(|line| line["message"] == "ready") else {
            child.wait().unwrap();
            return None;
        };
        let address = ready["address"].as_str().unwrap().parse().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Some(Server { address, child })
    }

    pub async fn get(&self, path: &str, token: &str) -> HttpResponse {
        self.send(Request::new("GET", path).bearer(token)).await
    }

    pub async fn send(&self, request: Request) -> HttpResponse {
        client::send(self.address, &request).await
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(status.success(), "{status}");
    }

    /// Waits for the exit.
    pub async fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < client::WAIT_LIMIT, "the process does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a check is concluded.
pub fn is_ended(check: &Value) -> bool {
    !["ACCEPTED", "PENDING"].contains(&check["status"].as_str().unwrap())
}

/// Returns `None` if the service is gone and the result is unknown.
pub async fn try_send(address: SocketAddr, request: &Request) -> Option<HttpResponse> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(&request.bytes(address)).await.ok()?;
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).await.ok()?;
    client::try_parse(&bytes)
}
