//! The SMPP connector against an external SMSC: npm `smpp`, in `e2e/smpp/smsc.mjs`. Requires node and
//! `make setup`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{InboundSms, SmsSender},
    tenancy::Mode,
};
use ringtrue_engine::{
    lookups::networks::Networks,
    ports::{
        clock::SystemClock,
        entropy::SystemEntropy,
        node::NodeId,
        sms::{Inbox, PartialSms, SmsOutcome},
        store::StoreError,
    },
};
use ringtrue_operators::smpp::{SmppConfig, SmppConnector, SmppCounters, SmppDependencies, SmppOutcome};
use ringtrue_test_support::{leases::InMemoryLeases, reassembly::InMemoryReassembly};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use uuid::Uuid;

const TIMEOUT: Duration = Duration::from_mins(1);

struct Peer {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    port: u16,
}

impl Peer {
    async fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/smpp/smsc.mjs");
        let mut command = Command::new("node");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("node is installed; see `make setup`");
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let input = process.stdin.take().unwrap();
        let mut peer = Self { process, output, input, port: 0 };
        peer.port = u16::try_from(peer.next_event().await["port"].as_u64().unwrap()).unwrap();
        peer
    }

    /// Waits for the next event that the peer prints.
    async fn next_event(&mut self) -> Value {
        let line = timeout(TIMEOUT, self.output.next_line()).await.expect("the peer responds in time").unwrap();
        serde_json::from_str(&line.expect("the peer is running; `make setup` installs its packages")).unwrap()
    }

    async fn expect_response(&mut self, label: &str, command: &str, status: u32) {
        let expected = json!({ "answered": label, "command": command, "status": status });
        assert_eq!(self.next_event().await, expected);
    }

    /// Waits for these responses, in any order.
    async fn expect_responses(&mut self, mut labels: Vec<&str>) {
        while !labels.is_empty() {
            let answer = self.next_event().await;
            assert_eq!(answer["status"], 0, "{answer}");
            labels.retain(|label| answer["answered"] != *label);
        }
    }
}

#[derive(Default)]
struct FakeInbox {
    received: Mutex<Vec<InboundSms>>,
    partials: AtomicUsize,
    failures: AtomicUsize,
}

impl FakeInbox {
    fn take(&self) -> Vec<InboundSms> {
        std::mem::take(&mut *self.received.lock())
    }

    fn take_texts(&self) -> Vec<String> {
        self.take().into_iter().map(|sms| sms.text).collect()
    }
}

#[async_trait]
impl Inbox for FakeInbox {
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError> {
        let fails = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if fails.is_ok() {
            return Err(StoreError::Unavailable("scripted failure".to_owned()));
        }
        self.received.lock().push(sms);
        Ok(SmsOutcome::Concluded)
    }

    async fn receive_partial(&self, _: PartialSms) -> Result<(), StoreError> {
        self.partials.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn start(port: u16, password: &str, inbox: &Arc<FakeInbox>, counters: &Arc<SmppCounters>) -> SmppConnector {
    let receiver = Msisdn::parse("+447700900999", Mode::Live).unwrap();
    let config = SmppConfig {
        system_id: "ringtrue".to_owned(),
        password: password.into(),
        country: "GB".parse().ok(),
        binds: 2,
        reconnect_min: Duration::from_millis(50),
        ..SmppConfig::new("peer", "127.0.0.1", port, vec![receiver])
    };
    let dependencies = SmppDependencies {
        inbox: inbox.clone(),
        reassembly: Arc::new(InMemoryReassembly::new(Arc::new(SystemClock))),
        leases: Arc::new(InMemoryLeases::default()),
        node: NodeId(Uuid::nil()),
        networks: Arc::new(Networks::default()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::default()),
        counters: counters.clone(),
    };
    SmppConnector::start(config, dependencies)
}

#[tokio::test]
async fn external_smsc_interoperates() {
    let (inbox, counters) = (Arc::<FakeInbox>::default(), Arc::<SmppCounters>::default());
    let mut peer = Peer::start().await;
    let connector = start(peer.port, "secret", &inbox, &counters);
    for _ in 0..2 {
        assert_eq!(peer.next_event().await, json!({ "bound": "ringtrue", "version": 0x34 }));
    }

    for label in ["gsm", "ascii", "latin1", "ucs2", "octets", "class", "payload"] {
        peer.expect_response(label, "deliver_sm_resp", 0).await;
    }
    peer.expect_response("data", "data_sm_resp", 0).await;
    for label in ["receipt", "foreign", "name", "national"] {
        peer.expect_response(label, "deliver_sm_resp", 0).await;
    }
    let parts = vec!["narrow 1", "narrow 2", "narrow 3", "wide 1", "wide 2", "sar 1", "sar 2"];
    peer.expect_responses(parts).await;
    let received = inbox.take();
    let handset = SmsSender::Number(Msisdn::parse("+447700900001", Mode::Live).unwrap());
    for sms in &received {
        let expected = if sms.text == "from a name" { &SmsSender::Unattributed } else { &handset };
        assert_eq!(sms.from, *expected, "{sms:?}");
    }
    let texts: Vec<_> = received.iter().map(|sms| &*sms.text).collect();
    assert_eq!(
        texts,
        [
            "VERIFY 4F7K2Q @ {[€]} ~ \\ ^ | _$",
            "ascii @_{}",
            "latin1 café £",
            "ucs2 ✓ 😀",
            "octets é",
            "@A",
            "payload",
            "data ✓",
            "from a name",
            "national",
            "ONE TWO THREE",
            "un é deux ✓",
            "sar a sar b",
        ]
    );
    assert_eq!(inbox.partials.load(Ordering::SeqCst), 3);
    assert_eq!(counters.get(SmppOutcome::PartAcknowledged), 4, "all but the last parts of three SMS");
    assert_eq!((counters.get(SmppOutcome::NotAnSms), counters.get(SmppOutcome::OtherReceiver)), (1, 1));

    let malformed = peer.next_event().await;
    assert_eq!((&malformed["answered"], &malformed["sequence"]), (&json!("malformed"), &json!(0xFFFF)));
    assert_ne!(malformed["status"], 0);
    peer.expect_response("unknown", "generic_nack", 3).await;
    assert_eq!(peer.next_event().await, json!({ "next": "the inbox fails" }));
    inbox.failures.store(2, Ordering::SeqCst);
    peer.input.write_all(b"it does\n").await.unwrap();
    for status in [0x64, 0x64, 0] {
        peer.expect_response("again", "deliver_sm_resp", status).await;
    }
    assert_eq!(peer.next_event().await, json!({ "burst": 200 }));
    let texts = inbox.take_texts();
    assert_eq!((&*texts[0], texts.len()), ("again and again", 201));

    // The peer closes both connections without unbind, and the connector binds again.
    for _ in 0..2 {
        assert_eq!(peer.next_event().await, json!({ "bound": "ringtrue", "version": 0x34 }));
    }
    peer.expect_response("rebound", "deliver_sm_resp", 0).await;
    assert_eq!(peer.next_event().await, json!({ "done": true }));
    assert_eq!(inbox.take_texts(), ["after the links were lost"]);
    timeout(TIMEOUT, connector.shutdown()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(peer.next_event().await, json!({ "unbound": true }));
    }
    peer.process.kill().await.unwrap();
}

#[tokio::test]
async fn wrong_password_is_reported() {
    let (inbox, counters) = (Arc::<FakeInbox>::default(), Arc::<SmppCounters>::default());
    let peer = Peer::start().await;
    let connector = start(peer.port, "wrong", &inbox, &counters);
    let status = timeout(TIMEOUT, connector.wait_until(|status| !status.receivers_available)).await.unwrap();
    assert!(status.last_error.unwrap().message.contains("ESME_RINVPASWD"));
    timeout(TIMEOUT, connector.shutdown()).await.unwrap();
}
