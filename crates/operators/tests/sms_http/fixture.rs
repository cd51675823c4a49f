//! A webhook with a recording inbox, and editable requests.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{InboundSms, SmsSender},
    tenancy::Mode,
};
use ringtrue_engine::ports::{
    clock::{Clock, ManualClock},
    connectors::{ConnectorStatus, MonitoredConnector as _},
    sms::{Inbox, PartialSms, SmsOutcome},
    store::StoreError,
};
use ringtrue_operators::sms_http::{
    PathSecret, Webhook, WebhookConfig, WebhookDriver, WebhookOutcome, WebhookRequest, WebhookResponse,
};
use ringtrue_test_support::reassembly::InMemoryReassembly;

pub const NOON: i64 = 1_794_700_000;
pub const PHONE: &str = "447700900001";
pub const RECEIVER: &str = "447700900999";
pub const URL: &str = "https://nv.example.com/southbound/sms/door";
pub const PATH: &str = "/southbound/sms/door";
pub const PATH_SECRET: &str = "Zm9vYmFyYmF6cXV4";

#[derive(Default)]
pub struct RecordingInbox {
    pub received: Mutex<Vec<InboundSms>>,
    pub partials: Mutex<Vec<PartialSms>>,
    pub is_down: AtomicBool,
}

#[async_trait]
impl Inbox for RecordingInbox {
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("down".to_owned()));
        }
        self.received.lock().push(sms);
        Ok(SmsOutcome::Unmatched)
    }

    async fn receive_partial(&self, partial: PartialSms) -> Result<(), StoreError> {
        self.partials.lock().push(partial);
        Ok(())
    }
}

/// A webhook with its inbox, the parts stored by all nodes, and its clock.
pub struct WebhookFixture {
    pub webhook: Webhook,
    pub inbox: Arc<RecordingInbox>,
    pub reassembly: Arc<InMemoryReassembly>,
    pub clock: Arc<ManualClock>,
}

impl WebhookFixture {
    pub fn new(config: WebhookConfig) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_second(NOON).unwrap()));
        let reassembly = Arc::new(InMemoryReassembly::new(clock.clone()));
        Self::on_deployment(config, reassembly, clock)
    }

    /// Creates the same webhook on another node, or after a restart.
    pub fn another_node(&self, config: WebhookConfig) -> Self {
        Self::on_deployment(config, self.reassembly.clone(), self.clock.clone())
    }

    fn on_deployment(config: WebhookConfig, reassembly: Arc<InMemoryReassembly>, clock: Arc<ManualClock>) -> Self {
        let inbox = Arc::<RecordingInbox>::default();
        let webhook = Webhook::new(config, inbox.clone(), reassembly.clone(), clock.clone()).unwrap();
        WebhookFixture { webhook, inbox, reassembly, clock }
    }

    pub async fn send(&self, request: &TestRequest) -> WebhookResponse {
        let headers: HeaderMap = request
            .headers
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
            })
            .collect();
        let TestRequest { method, path_and_query, body, peer, .. } = request;
        self.webhook.handle(WebhookRequest { method, path_and_query, headers: &headers, body, peer: *peer }).await
    }

    pub fn advance(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub fn now(&self) -> i64 {
        self.clock.now().as_second()
    }

    pub fn set_store_down(&self, is_down: bool) {
        self.inbox.is_down.store(is_down, Ordering::SeqCst);
    }

    pub fn texts(&self) -> Vec<String> {
        self.inbox.received.lock().iter().map(|sms| sms.text.clone()).collect()
    }

    pub fn senders(&self) -> Vec<SmsSender> {
        self.inbox.received.lock().iter().map(|sms| sms.from.clone()).collect()
    }

    pub fn count(&self, outcome: WebhookOutcome) -> u64 {
        self.webhook.counters().get(outcome)
    }

    pub fn report(&self) -> ConnectorStatus {
        self.webhook.connector_status()
    }
}

#[derive(Clone, Debug)]
pub struct TestRequest {
    pub method: Method,
    pub path_and_query: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub peer: IpAddr,
}

impl TestRequest {
    pub fn post(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        TestRequest { method: Method::POST, path_and_query: PATH.to_owned(), headers, body: body.into(), peer: peer() }
    }

    pub fn form(fields: &[(&str, &str)]) -> Self {
        Self::post("application/x-www-form-urlencoded", form_encode(fields))
    }

    pub fn json(json: &serde_json::Value) -> Self {
        Self::post("application/json", json.to_string())
    }

    pub fn get(fields: &[(&str, &str)]) -> Self {
        let path_and_query = format!("{PATH}?{}", form_encode(fields));
        TestRequest { method: Method::GET, path_and_query, headers: vec![], body: vec![], peer: peer() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Appends the path secret to the path.
    pub fn with_path_secret(mut self) -> Self {
        self.path_and_query = self.path_and_query.replacen(PATH, &format!("{PATH}/{PATH_SECRET}"), 1);
        self
    }
}

fn peer() -> IpAddr {
    "192.0.2.7".parse().unwrap()
}

pub fn form_encode(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

#[derive(Clone, Copy)]
pub struct TestSms<'a> {
    pub id: &'a str,
    pub from: &'a str,
    pub to: &'a str,
    pub text: &'a str,
    /// Signing time, in Unix seconds.
    pub at: i64,
}

impl TestSms<'_> {
    pub const DEFAULT: TestSms<'static> =
        TestSms { id: "0001-abcd", from: PHONE, to: RECEIVER, text: "VERIFY 4F7K2Q9X0Z", at: NOON };
}

pub fn number(digits: &str) -> Msisdn {
    Msisdn::parse(&format!("+{digits}"), Mode::Live).unwrap()
}

/// Creates a configuration without path secret and address ranges.
pub fn unrestricted(driver: WebhookDriver) -> WebhookConfig {
    WebhookConfig {
        name: "door".into(),
        driver,
        public_url: URL.parse().unwrap(),
        path_secret: None,
        allowed_addresses: vec![],
        max_skew: WebhookConfig::DEFAULT_MAX_SKEW,
        country: None,
        receivers: vec![number(RECEIVER)],
    }
}

pub fn restricted(driver: WebhookDriver) -> WebhookConfig {
    WebhookConfig { path_secret: Some(PathSecret::new(PATH_SECRET).unwrap()), ..unrestricted(driver) }
}
