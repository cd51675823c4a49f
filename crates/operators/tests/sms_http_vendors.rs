//! Requests signed or verified by the vendors' own libraries, written by `e2e/webhooks/sign.mjs`.
//!
//! Requires node and `make setup`.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

use std::{collections::BTreeMap, path::Path, process::Command, sync::Arc};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use ringtrue_domain::{phone::Msisdn, reverse_sms::InboundSms, tenancy::Mode};
use ringtrue_engine::ports::{
    clock::ManualClock,
    sms::{Inbox, PartialSms, SmsOutcome},
    store::StoreError,
};
use ringtrue_operators::sms_http::{
    MessageBird, Plivo, PlivoSignature, Secret, Sinch, Telnyx, TelnyxKey, Twilio, Webhook, WebhookConfig,
    WebhookDriver, WebhookRequest,
};
use ringtrue_test_support::reassembly::InMemoryReassembly;
use serde::Deserialize;

#[derive(Deserialize)]
struct SignedRequest {
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
struct RecordingInbox(Mutex<Vec<String>>);

#[async_trait]
impl Inbox for RecordingInbox {
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError> {
        self.0.lock().push(sms.text);
        Ok(SmsOutcome::Unmatched)
    }

    async fn receive_partial(&self, _: PartialSms) -> Result<(), StoreError> {
        Ok(())
    }
}

fn signed_requests() -> Vec<SignedRequest> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/webhooks/sign.mjs");
    let output = Command::new("node").arg(script).output();
    let output = output.unwrap_or_else(|error| panic!("node does not run; `make setup` installs it: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "sign.mjs failed; `make setup` installs its dependencies: {stderr}");
    let written = String::from_utf8(output.stdout).unwrap();
    written.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn driver(request: &SignedRequest, key: &str) -> WebhookDriver {
    let secret = || Secret::new(key).unwrap();
    match &*request.vendor {
        "twilio" => WebhookDriver::Twilio(Twilio { auth_token: Some(secret()) }),
        "sinch" => WebhookDriver::Sinch(Sinch { secret: Some(secret()) }),
        "plivo 2" => WebhookDriver::Plivo(Plivo { signature: Some(PlivoSignature::V2(secret())) }),
        "plivo 3" => WebhookDriver::Plivo(Plivo { signature: Some(PlivoSignature::V3(secret())) }),
        "messagebird" => WebhookDriver::MessageBird(MessageBird { secret: Some(secret()) }),
        "telnyx" => WebhookDriver::Telnyx(Telnyx { public_key: Some(TelnyxKey::from_base64(key).unwrap()) }),
        other => panic!("no driver for {other}"),
    }
}

/// Passes a request to a webhook. Returns the response status, and the texts that reach the inbox.
async fn deliver(request: &SignedRequest, key: &str) -> (StatusCode, Vec<String>) {
    let config = WebhookConfig {
        name: "door".into(),
        driver: driver(request, key),
        public_url: "https://nv.example.com/sms/door".parse().unwrap(),
        path_secret: None,
        allowed_addresses: vec!["192.0.2.0/24".parse().unwrap()],
        max_skew: WebhookConfig::DEFAULT_MAX_SKEW,
        country: None,
        receivers: vec![Msisdn::parse("+447700900999", Mode::Live).unwrap()],
    };
    let inbox = Arc::<RecordingInbox>::default();
    let clock = Arc::new(ManualClock::at(Timestamp::from_second(request.at).unwrap()));
    let reassembly = Arc::new(InMemoryReassembly::new(clock.clone()));
    let webhook = Webhook::new(config, inbox.clone(), reassembly, clock).unwrap();
    let headers: HeaderMap = request
        .headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect();
    let incoming = WebhookRequest {
        method: &request.method.parse().unwrap(),
        path_and_query: &request.path,
        headers: &headers,
        body: request.body.as_bytes(),
        peer: "192.0.2.7".parse().unwrap(),
    };
    let reply = webhook.handle(incoming).await;
    let texts = inbox.0.lock().clone();
    (reply.status, texts)
}

#[tokio::test]
async fn vendor_library_signatures_are_accepted_only_with_the_right_key() {
    let requests = signed_requests();
    let mut seen = BTreeMap::<&str, usize>::new();
    for request in &requests {
        let (status, texts) = deliver(request, &request.key).await;
        assert_eq!(
            (status, &texts),
            (StatusCode::OK, &vec![request.text.clone()]),
            "{} {}",
            request.vendor,
            request.path
        );

        let other = if request.vendor == "telnyx" { "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=" } else { "another" };
        let (status, texts) = deliver(request, other).await;
        assert_eq!((status, texts.len()), (StatusCode::FORBIDDEN, 0), "{} {}", request.vendor, request.path);
        *seen.entry(&request.vendor).or_default() += 1;
    }
    let expected = [("messagebird", 24), ("plivo 2", 4), ("plivo 3", 8), ("sinch", 4), ("telnyx", 4), ("twilio", 24)];
    assert_eq!(seen, BTreeMap::from(expected));
}
