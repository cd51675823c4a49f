//! Interoperability of the simulated CAMARA operator with npm `openid-client`, in `e2e/camara/client.mjs`. Requires
//! node and `make setup`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

use std::{path::Path, process::Stdio, time::Duration};

use ringtrue_sandbox::camara::{OAuthClient, Operator, OperatorConfig};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

const OUTPUT_TIMEOUT: Duration = Duration::from_mins(1);
const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";

struct OpenidClient {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl OpenidClient {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/camara/client.mjs");
        let mut command = Command::new("node");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("node is not installed; run `make setup`");
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, output }
    }

    async fn send(&mut self, value: &Value) {
        let mut stdin = self.process.stdin.take().unwrap();
        stdin.write_all(format!("{value}\n").as_bytes()).await.unwrap();
        // `stdin` stays open, because the client exits at the end of its input.
        self.process.stdin = Some(stdin);
    }

    /// Waits for the next line of the client's output.
    async fn receive(&mut self) -> Value {
        let line =
            timeout(OUTPUT_TIMEOUT, self.output.next_line()).await.expect("timed out waiting for the client").unwrap();
        serde_json::from_str(&line.expect("the client exited; run `make setup` to install its packages")).unwrap()
    }
}

#[tokio::test]
async fn openid_client_obtains_tokens_by_every_grant() {
    let mut peer = OpenidClient::start();
    let keys = peer.receive().await;
    let client =
        OAuthClient::new("openid-client").with_keys(&keys).unwrap().with_redirect_uri("https://client.example/back");
    let config =
        OperatorConfig { clients: vec![client], poll_interval: Duration::from_secs(1), ..OperatorConfig::default() };
    let operator = Operator::start(config).await.unwrap();
    peer.send(&json!({ "issuer": operator.issuer(), "sims": { "even": EVEN, "odd": ODD } })).await;

    let mut subjects = vec![];
    for _ in ["by parameters", "by a request object"] {
        let result = peer.receive().await;
        assert_eq!(result["verified"], json!({ "devicePhoneNumberVerified": true }));
        assert_eq!(result["claims"]["amr"], json!(["nba"]));
        subjects.push(result["claims"]["sub"].clone());
    }
    assert_eq!(subjects[0], subjects[1]);
    assert_eq!(peer.receive().await, json!({ "shared": { "devicePhoneNumber": EVEN } }));
    assert_eq!(peer.receive().await, json!({ "refused": "login_required" }));
    assert_eq!(peer.receive().await, json!({ "own": { "swapped": true } }));
    assert_eq!(peer.receive().await["polled"], json!({ "swapped": true }));
    assert!(peer.process.wait().await.unwrap().success());
}
