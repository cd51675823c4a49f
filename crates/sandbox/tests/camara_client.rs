//! The operator's CAMARA side and a client that is not ours: npm `openid-client`, in `e2e/camara/client.mjs`. `make
//! setup` installs it; without it, or without node, this fails.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{path::Path, process::Stdio, time::Duration};

use ringtrue_sandbox::camara::{Client, Operator, OperatorConfig};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// Long enough for a busy machine, short enough to notice.
const PATIENCE: Duration = Duration::from_mins(1);
const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";

struct Peer {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/camara/client.mjs");
        let mut command = Command::new("node");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("node is installed; see `make setup`");
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, said }
    }

    async fn is_told(&mut self, what: &Value) {
        let mut told = self.process.stdin.take().unwrap();
        told.write_all(format!("{what}\n").as_bytes()).await.unwrap();
        // It is left open: a client that cannot listen any more would end.
        self.process.stdin = Some(told);
    }

    /// The next thing that happened there.
    async fn says(&mut self) -> Value {
        let line = timeout(PATIENCE, self.said.next_line()).await.expect("the peer goes on").unwrap();
        serde_json::from_str(&line.expect("the peer lives; its packages come by `make setup`")).unwrap()
    }
}

#[tokio::test]
async fn a_client_that_is_not_ours_goes_every_way_to_a_token() {
    let mut peer = Peer::start();
    let keys = peer.says().await;
    let client = Client::new("openid-client").with_keys(&keys).unwrap().redirecting_to("https://client.example/back");
    let config =
        OperatorConfig { clients: vec![client], poll_interval: Duration::from_secs(1), ..OperatorConfig::default() };
    let operator = Operator::start(config).await.unwrap();
    peer.is_told(&json!({ "issuer": operator.issuer(), "sims": { "even": EVEN, "odd": ODD } })).await;

    let mut subjects = vec![];
    for _ in ["by parameters", "by a request object"] {
        let said = peer.says().await;
        assert_eq!(said["verified"], json!({ "devicePhoneNumberVerified": true }));
        assert_eq!(said["claims"]["amr"], json!(["nba"]));
        subjects.push(said["claims"]["sub"].clone());
    }
    assert_eq!(subjects[0], subjects[1]);
    assert_eq!(peer.says().await, json!({ "shared": { "devicePhoneNumber": EVEN } }));
    assert_eq!(peer.says().await, json!({ "refused": "login_required" }));
    assert_eq!(peer.says().await, json!({ "own": { "swapped": true } }));
    assert_eq!(peer.says().await["polled"], json!({ "swapped": true }));
    assert!(peer.process.wait().await.unwrap().success());
}
