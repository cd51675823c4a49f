//! The service with a live project, one network and the connector `kannel`, as one process.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use ringtrue_engine::{keys::MasterKey, ports::entropy::SystemEntropy};
use ringtrue_test_support::{
    http_client::{self, Request, token_request},
    poll_until,
    server_process::ServerProcess,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::gateway::Ports;

/// Number to which users send their SMS.
pub const RECEIVER: &str = "+447700900001";
/// URL in the Kannel example of the manual (docs/connectors.md).
pub const PUBLIC_URL: &str = "http://10.0.0.5:8081/southbound/sms/kannel";
pub const PATH_SECRET: &str = "jgk9TQ2HcV0-1bXn_e7Lw4Rz";

const CHECKS: &str = "/v1/number-verification/reverse-sms-checks";

pub struct Deployment {
    folder: TempDir,
    master: String,
    /// Id and credential of the workspace, as the command line printed them.
    workspace: Value,
}

/// Token of a live project that may use the network.
pub struct Project {
    token: String,
}

pub struct Check {
    pub id: String,
    pub body: String,
}

impl Deployment {
    pub fn new(store: &str, ports: &Ports) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let secret = folder.path().join("kannel.path");
        fs::write(&secret, PATH_SECRET).unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let settings = format!(
            r#"
            store.url = "{store}"
            http.listen = "127.0.0.1:0"
            metrics.listen = "127.0.0.1:0"

            [ingress]
            listen = "127.0.0.1:{ingress}"

            [networks.23410]
            name = "O2"
            country = "GB"
            prefixes = ["+447700"]
            receivers = ["{RECEIVER}"]

            [connectors.kannel]
            kind = "sms_http"
            driver = "kannel"
            public_url = "{PUBLIC_URL}"
            path_secret_file = "{secret}"
            country = "GB"
            receivers = ["{RECEIVER}"]
            "#,
            ingress = ports.ingress,
            secret = secret.display(),
        );
        fs::write(folder.path().join("ringtrue.toml"), settings).unwrap();
        let master = MasterKey::generate(&SystemEntropy::default()).to_string();
        let mut deployment = Deployment { folder, master, workspace: Value::Null };
        let output = deployment.command().args(["--output", "json", "workspace", "create", "Acme"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        deployment.workspace = serde_json::from_slice(&output.stdout).unwrap();
        deployment
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrue"));
        command.current_dir(self.folder.path()).env("RINGTRUE_MASTER_KEY", &self.master).stdin(Stdio::null());
        command
    }

    pub fn serve(&self) -> Node {
        Node(ServerProcess::start(self.command().arg("serve")).expect("the service is ready"))
    }

    /// Creates a live project with the Management API.
    pub async fn project(&self, node: &Node) -> Project {
        let workspace_id = self.workspace["workspace_id"].as_str().unwrap();
        let manager = node.token(&self.workspace, "management").await;
        let projects = format!("/v1/management/workspaces/{workspace_id}/projects");
        let request = Request::post(&projects).bearer(&manager).json(&json!({"name": "Shop", "mode": "live"}));
        let project = node.0.send(request).await.assert(201).json();
        let path = format!("{projects}/{}/allowed-networks", project["project_id"].as_str().unwrap());
        let allowed = json!({"networks": [{"network_id": "23410", "products": ["reverse_sms"]}]});
        node.0.send(Request::put(&path).bearer(&manager).json(&allowed)).await.assert(200);
        Project { token: node.token(&project["credentials"][0], "reverse_sms").await }
    }
}

pub struct Node(ServerProcess);

impl Node {
    async fn token(&self, credential: &Value, scope: &str) -> String {
        let [id, secret] = ["client_id", "client_secret"].map(|name| credential[name].as_str().unwrap());
        self.0.send(token_request(id, secret, scope)).await.access_token()
    }

    pub async fn create(&self, project: &Project, number: &str) -> Check {
        let request = Request::post(CHECKS).bearer(&project.token).json(&json!({"phone_number": number}));
        let created = self.0.send(request).await.assert(201).json();
        assert_eq!(created["receiver_phone_number"], RECEIVER);
        let text = |name: &str| created[name].as_str().unwrap().to_owned();
        Check { id: text("check_id"), body: text("expected_sms_body") }
    }

    /// Waits until the check is completed with a match.
    pub async fn completed(&self, project: &Project, id: &str) {
        let request = Request::get(&format!("{CHECKS}/{id}")).bearer(&project.token);
        poll_until("the check is completed", async || {
            // Requests may fail while the database recovers.
            let check = self.0.send(request.clone()).await;
            check.status == 200 && check.json()["status"] == "COMPLETED"
        })
        .await;
        assert_eq!(self.0.send(request).await.json()["match"], true);
    }

    /// Returns the number of Kannel's requests with this outcome, from the metrics.
    pub async fn inbound(&self, outcome: &str) -> u64 {
        let metrics =
            http_client::send(self.0.ready["metrics"].as_str().unwrap().parse().unwrap(), &Request::get("/metrics"))
                .await
                .assert(200)
                .text();
        let series = format!("inbound_sms_total{{connector=\"kannel\",outcome=\"{outcome}\"}} ");
        let line = metrics.lines().find(|line| line.contains(&series)).unwrap_or_else(|| panic!("no {series}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Drops the process, which kills it with SIGKILL.
    pub fn kill(self) {
        drop(self);
    }
}
