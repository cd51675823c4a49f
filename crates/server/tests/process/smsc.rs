//! Settings for a simulated SMSC of an operator, and the SMS that it delivers.

use std::io::Write;

use ringtrue_sandbox::smsc::{Smsc, SmscConfig};
use ringtrue_test_support::{
    http_client::{self, Request},
    poll_until,
    server_process::ServerProcess,
};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::deployment::CHECKS;

const RECEIVER: &str = "+447700900001";

pub async fn start(config: SmscConfig) -> Smsc {
    Smsc::start(config).await.expect("a loopback address")
}

/// Settings of a node, as environment variables.
pub struct Settings {
    pub variables: Vec<(String, String)>,
    _file: NamedTempFile,
}

/// Settings of a network whose SMS arrive at the connector `o2`, and of a metrics listener. `members` are additional
/// settings of the connector.
pub fn settings(smsc: &Smsc, members: &str) -> Settings {
    let mut file = NamedTempFile::new().expect("a file");
    let port = smsc.address().port();
    let text = format!(
        r#"
        [networks.23410]
        name = "O2"
        country = "GB"
        prefixes = ["+447700"]
        receivers = ["{RECEIVER}"]

        [connectors.o2]
        kind = "smpp"
        host = "127.0.0.1"
        port = {port}
        system_id = "sandbox"
        password_env = "SMSC_PASSWORD"
        country = "GB"
        receivers = ["{RECEIVER}"]
        reconnect_min = "100ms"
        {members}
        "#
    );
    file.write_all(text.as_bytes()).expect("a written file");
    let variables = [
        ("RINGTRUE_CONFIG", file.path().to_str().expect("a path")),
        ("RINGTRUE_METRICS__LISTEN", "127.0.0.1:0"),
        ("SMSC_PASSWORD", "sandbox"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Settings { variables, _file: file }
}

/// A check and the SMS that concludes it.
pub struct PendingCheck {
    path: String,
    pub from: String,
    pub to: String,
    pub text: String,
}

impl PendingCheck {
    pub async fn create(server: &ServerProcess, token: &str, number: &str) -> Self {
        let create = Request::post(CHECKS).bearer(token).json(&json!({"phone_number": number}));
        let created = server.send(create).await.assert(201).json();
        let text = |name: &str| created[name].as_str().unwrap().to_owned();
        PendingCheck {
            path: format!("{CHECKS}/{}", text("check_id")),
            from: number.to_owned(),
            to: text("receiver_phone_number"),
            text: text("expected_sms_body"),
        }
    }

    pub async fn read(&self, server: &ServerProcess, token: &str) -> Value {
        server.get(&self.path, token).await.assert(200).json()
    }

    pub async fn assert_matched(&self, server: &ServerProcess, token: &str) {
        let check = self.read(server, token).await;
        assert_eq!((&check["status"], &check["match"]), (&json!("COMPLETED"), &json!(true)), "{check}");
    }
}

/// Reads a metric from a node. `name` includes the labels.
pub async fn metric(server: &ServerProcess, name: &str) -> Option<f64> {
    let address = server.ready["metrics"].as_str().expect("a metrics listener").parse().unwrap();
    let text = http_client::send(address, &Request::get("/metrics")).await.assert(200).text();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

pub async fn wait_for_metric(server: &ServerProcess, name: &str, value: f64) {
    poll_until(name, async || metric(server, name).await == Some(value)).await;
}
