//! Requests that the vendors' own libraries signed or took for valid.
//!
//! `e2e/webhooks/sign.mjs` writes them. Without node or its packages this fails; `make setup` installs them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, StatusCode};
use jiff::Timestamp;
use ringtrue_domain::{phone::Msisdn, reverse_sms::InboundSms, tenancy::Mode};
use ringtrue_engine::ports::{Disposition, Glimpse, Inbox, ManualClock, StoreError};
use ringtrue_operators::sms_http::{
    Driver, Incoming, MessageBird, Plivo, PlivoSignature, Secret, Sinch, Telnyx, TelnyxKey, Twilio, Webhook,
    WebhookConfig,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    vendor: String,
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: String,
    text: String,
    key: String,
    at: i64,
}

#[derive(Default)]
struct Notebook(Mutex<Vec<String>>);

#[async_trait]
impl Inbox for Notebook {
    async fn receive(&self, sms: InboundSms) -> Result<Disposition, StoreError> {
        self.0.lock().unwrap().push(sms.text);
        Ok(Disposition::Unmatched)
    }

    async fn glimpse(&self, _: Glimpse) -> Result<(), StoreError> {
        Ok(())
    }
}

fn lines() -> Vec<Line> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/webhooks/sign.mjs");
    let output = Command::new("node").arg(script).output();
    let output = output.unwrap_or_else(|error| panic!("node does not run; `make setup` installs it: {error}"));
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "sign.mjs failed; `make setup` installs what it needs: {complaints}");
    let written = String::from_utf8(output.stdout).unwrap();
    written.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn driver(line: &Line, key: &str) -> Driver {
    let secret = || Secret::new(key).unwrap();
    match &*line.vendor {
        "twilio" => Driver::Twilio(Twilio { auth_token: Some(secret()) }),
        "sinch" => Driver::Sinch(Sinch { secret: Some(secret()) }),
        "plivo 2" => Driver::Plivo(Plivo { signature: Some(PlivoSignature::V2(secret())) }),
        "plivo 3" => Driver::Plivo(Plivo { signature: Some(PlivoSignature::V3(secret())) }),
        "messagebird" => Driver::MessageBird(MessageBird { secret: Some(secret()) }),
        "telnyx" => Driver::Telnyx(Telnyx { public_key: Some(TelnyxKey::from_base64(key).unwrap()) }),
        other => panic!("no driver for {other}"),
    }
}

/// What the inbox gets of a line, and what the vendor hears.
async fn deliver(line: &Line, key: &str) -> (StatusCode, Vec<String>) {
    let config = WebhookConfig {
        name: "door".into(),
        driver: driver(line, key),
        public_url: "https://nv.example.com/sms/door".parse().unwrap(),
        path_secret: None,
        allowed: vec!["192.0.2.0/24".parse().unwrap()],
        max_skew: WebhookConfig::MAX_SKEW,
        country: None,
        receivers: vec![Msisdn::parse("+447700900999", Mode::Live).unwrap()],
    };
    let inbox = Arc::<Notebook>::default();
    let clock = ManualClock::at(Timestamp::from_second(line.at).unwrap());
    let webhook = Webhook::new(config, inbox.clone(), Arc::new(clock)).unwrap();
    let headers: HeaderMap = line
        .headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect();
    let incoming = Incoming {
        method: &line.method.parse().unwrap(),
        path_and_query: &line.path,
        headers: &headers,
        body: line.body.as_bytes(),
        peer: "192.0.2.7".parse().unwrap(),
    };
    let reply = webhook.handle(incoming).await;
    let texts = inbox.0.lock().unwrap().clone();
    (reply.status, texts)
}

#[tokio::test]
async fn what_vendors_sign_is_authentic_with_their_key_and_no_other() {
    let lines = lines();
    let mut seen = BTreeMap::<&str, usize>::new();
    for line in &lines {
        let (status, texts) = deliver(line, &line.key).await;
        assert_eq!((status, &texts), (StatusCode::OK, &vec![line.text.clone()]), "{} {}", line.vendor, line.path);

        let other = if line.vendor == "telnyx" { "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=" } else { "another" };
        let (status, texts) = deliver(line, other).await;
        assert_eq!((status, texts.len()), (StatusCode::FORBIDDEN, 0), "{} {}", line.vendor, line.path);
        *seen.entry(&line.vendor).or_default() += 1;
    }
    let expected = [("messagebird", 24), ("plivo 2", 4), ("plivo 3", 8), ("sinch", 4), ("telnyx", 4), ("twilio", 24)];
    assert_eq!(seen, BTreeMap::from(expected));
}
