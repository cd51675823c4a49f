//! An inbox that writes down what it gets, and requests that can be bent.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{InboundSms, Sender},
    tenancy::Mode,
};
use ringtrue_engine::ports::{
    Clock, ConnectorReport, Disposition, Glimpse, Inbox, ManualClock, Reporting as _, StoreError,
};
use ringtrue_operators::sms_http::{Driver, Incoming, Outcome, PathSecret, Reply, Webhook, WebhookConfig};

pub const NOON: i64 = 1_794_700_000;
pub const PHONE: &str = "447700900001";
pub const RECEIVER: &str = "447700900999";
pub const URL: &str = "https://nv.example.com/southbound/sms/door";
pub const PATH: &str = "/southbound/sms/door";
pub const PATH_SECRET: &str = "Zm9vYmFyYmF6cXV4";

#[derive(Default)]
pub struct Notebook {
    pub received: Mutex<Vec<InboundSms>>,
    pub glimpsed: Mutex<Vec<Glimpse>>,
    pub is_down: AtomicBool,
}

#[async_trait]
impl Inbox for Notebook {
    async fn receive(&self, sms: InboundSms) -> Result<Disposition, StoreError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("down".to_owned()));
        }
        self.received.lock().unwrap().push(sms);
        Ok(Disposition::Unmatched)
    }

    async fn glimpse(&self, glimpse: Glimpse) -> Result<(), StoreError> {
        self.glimpsed.lock().unwrap().push(glimpse);
        Ok(())
    }
}

/// A webhook with its inbox and its clock.
pub struct Door {
    pub webhook: Webhook,
    pub inbox: Arc<Notebook>,
    pub clock: Arc<ManualClock>,
}

impl Door {
    pub fn new(config: WebhookConfig) -> Self {
        let inbox = Arc::<Notebook>::default();
        let clock = Arc::new(ManualClock::at(Timestamp::from_second(NOON).unwrap()));
        let webhook = Webhook::new(config, inbox.clone(), clock.clone()).unwrap();
        Door { webhook, inbox, clock }
    }

    pub async fn call(&self, call: &Call) -> Reply {
        let headers: HeaderMap = call
            .headers
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
            })
            .collect();
        let Call { method, path_and_query, body, peer, .. } = call;
        self.webhook.handle(Incoming { method, path_and_query, headers: &headers, body, peer: *peer }).await
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub fn now(&self) -> i64 {
        self.clock.now().as_second()
    }

    pub fn break_store(&self, is_down: bool) {
        self.inbox.is_down.store(is_down, Ordering::SeqCst);
    }

    pub fn texts(&self) -> Vec<String> {
        self.inbox.received.lock().unwrap().iter().map(|sms| sms.text.clone()).collect()
    }

    pub fn senders(&self) -> Vec<Sender> {
        self.inbox.received.lock().unwrap().iter().map(|sms| sms.from.clone()).collect()
    }

    pub fn count(&self, outcome: Outcome) -> u64 {
        self.webhook.tally().get(outcome)
    }

    pub fn report(&self) -> ConnectorReport {
        self.webhook.report()
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    pub path_and_query: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub peer: IpAddr,
}

impl Call {
    pub fn post(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Call { method: Method::POST, path_and_query: PATH.to_owned(), headers, body: body.into(), peer: peer() }
    }

    pub fn form(fields: &[(&str, &str)]) -> Self {
        Self::post("application/x-www-form-urlencoded", encoded(fields))
    }

    pub fn json(json: &serde_json::Value) -> Self {
        Self::post("application/json", json.to_string())
    }

    pub fn get(fields: &[(&str, &str)]) -> Self {
        let path_and_query = format!("{PATH}?{}", encoded(fields));
        Call { method: Method::GET, path_and_query, headers: vec![], body: vec![], peer: peer() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Under the path that ends in the secret.
    pub fn with_path_secret(mut self) -> Self {
        self.path_and_query = self.path_and_query.replacen(PATH, &format!("{PATH}/{PATH_SECRET}"), 1);
        self
    }
}

fn peer() -> IpAddr {
    "192.0.2.7".parse().unwrap()
}

pub fn encoded(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// What somebody sends.
#[derive(Clone, Copy)]
pub struct Letter<'a> {
    pub id: &'a str,
    pub from: &'a str,
    pub to: &'a str,
    pub text: &'a str,
    /// When the vendor signs it.
    pub at: i64,
}

impl Letter<'_> {
    pub const PLAIN: Letter<'static> =
        Letter { id: "0001-abcd", from: PHONE, to: RECEIVER, text: "VERIFY 4F7K2Q9X0Z", at: NOON };
}

pub fn number(digits: &str) -> Msisdn {
    Msisdn::parse(&format!("+{digits}"), Mode::Live).unwrap()
}

/// Without a path secret and without address ranges.
pub fn open(driver: Driver) -> WebhookConfig {
    WebhookConfig {
        name: "door".into(),
        driver,
        public_url: URL.parse().unwrap(),
        path_secret: None,
        allowed: vec![],
        max_skew: WebhookConfig::MAX_SKEW,
        country: None,
        receivers: vec![number(RECEIVER)],
    }
}

pub fn fenced(driver: Driver) -> WebhookConfig {
    WebhookConfig { path_secret: Some(PathSecret::new(PATH_SECRET).unwrap()), ..open(driver) }
}
