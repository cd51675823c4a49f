//! The SMPP connector and a message centre that is not ours: npm `smpp`, in `e2e/smpp/smsc.mjs`. `make setup` installs
//! it; without it, or without node, this fails.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{InboundSms, Sender},
    tenancy::Mode,
};
use ringtrue_engine::{
    networks::Networks,
    ports::{Disposition, Glimpse, Inbox, StoreError, SystemClock, SystemEntropy},
};
use ringtrue_operators::smpp::{Connector, Counters, Outcome, SmppConfig, Surroundings};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// Long enough for a busy machine, short enough to notice.
const PATIENCE: Duration = Duration::from_mins(1);

struct Peer {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
    told: ChildStdin,
    port: u16,
}

impl Peer {
    async fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/smpp/smsc.mjs");
        let mut command = Command::new("node");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("node is installed; see `make setup`");
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = process.stdin.take().unwrap();
        let mut peer = Self { process, said, told, port: 0 };
        peer.port = u16::try_from(peer.says().await["port"].as_u64().unwrap()).unwrap();
        peer
    }

    /// The next thing that happened there.
    async fn says(&mut self) -> Value {
        let line = timeout(PATIENCE, self.said.next_line()).await.expect("the peer goes on").unwrap();
        serde_json::from_str(&line.expect("the peer lives; its packages come by `make setup`")).unwrap()
    }

    async fn answered(&mut self, label: &str, command: &str, status: u32) {
        let expected = json!({ "answered": label, "command": command, "status": status });
        assert_eq!(self.says().await, expected);
    }

    /// Answers that come in any order.
    async fn answered_all(&mut self, mut labels: Vec<&str>) {
        while !labels.is_empty() {
            let answer = self.says().await;
            assert_eq!(answer["status"], 0, "{answer}");
            labels.retain(|label| answer["answered"] != *label);
        }
    }
}

#[derive(Default)]
struct FakeInbox {
    received: Mutex<Vec<InboundSms>>,
    glimpses: AtomicUsize,
    failures: AtomicUsize,
}

impl FakeInbox {
    fn take(&self) -> Vec<InboundSms> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }

    fn take_texts(&self) -> Vec<String> {
        self.take().into_iter().map(|sms| sms.text).collect()
    }
}

#[async_trait]
impl Inbox for FakeInbox {
    async fn receive(&self, sms: InboundSms) -> Result<Disposition, StoreError> {
        let fails = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if fails.is_ok() {
            return Err(StoreError::Unavailable("as told".to_owned()));
        }
        self.received.lock().unwrap().push(sms);
        Ok(Disposition::Concluded)
    }

    async fn glimpse(&self, _: Glimpse) -> Result<(), StoreError> {
        self.glimpses.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn start(port: u16, password: &str, inbox: &Arc<FakeInbox>, counters: &Arc<Counters>) -> Connector {
    let receiver = Msisdn::parse("+447700900999", Mode::Live).unwrap();
    let config = SmppConfig {
        system_id: "ringtrue".to_owned(),
        password: password.into(),
        country: "GB".parse().ok(),
        binds: 2,
        reconnect_min: Duration::from_millis(50),
        ..SmppConfig::new("peer", "127.0.0.1", port, vec![receiver])
    };
    let surroundings = Surroundings {
        inbox: inbox.clone(),
        networks: Arc::new(Networks::default()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::default()),
        counters: counters.clone(),
    };
    Connector::start(config, surroundings)
}

#[tokio::test]
async fn a_message_centre_that_is_not_ours() {
    let (inbox, counters) = (Arc::<FakeInbox>::default(), Arc::<Counters>::default());
    let mut peer = Peer::start().await;
    let connector = start(peer.port, "secret", &inbox, &counters);
    for _ in 0..2 {
        assert_eq!(peer.says().await, json!({ "bound": "ringtrue", "version": 0x34 }));
    }

    for label in ["gsm", "ascii", "latin1", "ucs2", "octets", "class", "payload"] {
        peer.answered(label, "deliver_sm_resp", 0).await;
    }
    peer.answered("data", "data_sm_resp", 0).await;
    for label in ["receipt", "foreign", "name", "national"] {
        peer.answered(label, "deliver_sm_resp", 0).await;
    }
    let parts = vec!["narrow 1", "narrow 2", "narrow 3", "wide 1", "wide 2", "sar 1", "sar 2"];
    peer.answered_all(parts).await;
    let received = inbox.take();
    let handset = Sender::Number(Msisdn::parse("+447700900001", Mode::Live).unwrap());
    for sms in &received {
        let expected = if sms.text == "from a name" { &Sender::Unattributed } else { &handset };
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
    assert_eq!(inbox.glimpses.load(Ordering::SeqCst), 3);
    assert_eq!(counters.get(Outcome::PartOnTrust), 0, "no part was acknowledged before its SMS");
    assert_eq!((counters.get(Outcome::NotAnSms), counters.get(Outcome::OtherReceiver)), (1, 1));

    let malformed = peer.says().await;
    assert_eq!((&malformed["answered"], &malformed["sequence"]), (&json!("malformed"), &json!(0xFFFF)));
    assert_ne!(malformed["status"], 0);
    peer.answered("unknown", "generic_nack", 3).await;
    assert_eq!(peer.says().await, json!({ "next": "the inbox fails" }));
    inbox.failures.store(2, Ordering::SeqCst);
    peer.told.write_all(b"it does\n").await.unwrap();
    for status in [0x64, 0x64, 0] {
        peer.answered("again", "deliver_sm_resp", status).await;
    }
    assert_eq!(peer.says().await, json!({ "burst": 200 }));
    let texts = inbox.take_texts();
    assert_eq!((&*texts[0], texts.len()), ("again and again", 201));

    // The links are cut without a word.
    for _ in 0..2 {
        assert_eq!(peer.says().await, json!({ "bound": "ringtrue", "version": 0x34 }));
    }
    peer.answered("rebound", "deliver_sm_resp", 0).await;
    assert_eq!(peer.says().await, json!({ "done": true }));
    assert_eq!(inbox.take_texts(), ["after the links were lost"]);
    timeout(PATIENCE, connector.shutdown()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(peer.says().await, json!({ "unbound": true }));
    }
    peer.process.kill().await.unwrap();
}

#[tokio::test]
async fn a_wrong_password() {
    let (inbox, counters) = (Arc::<FakeInbox>::default(), Arc::<Counters>::default());
    let peer = Peer::start().await;
    let connector = start(peer.port, "wrong", &inbox, &counters);
    let status = timeout(PATIENCE, connector.wait_until(|status| !status.hears)).await.unwrap();
    assert!(status.last_error.unwrap().what.contains("ESME_RINVPASWD"));
    timeout(PATIENCE, connector.shutdown()).await.unwrap();
}
