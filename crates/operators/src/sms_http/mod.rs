//! Receives SMS through webhooks that operators and aggregators call.
//!
//! The HTTP server passes a request to [`Webhook::handle`] and sends the [`WebhookResponse`]. The webhook verifies the
//! sender (address, path secret, signature, timestamp, nonce), parses the messages with the vendor's driver, drops
//! duplicates, and passes new messages to the engine's inbox. Only then is the request acknowledged, in the vendor's
//! format.
//!
//! - Not authentic: 403.
//! - Malformed: 400. Kannel and Jasmin get an acknowledgement, because they would resend the request unchanged.
//! - The inbox failed: 503. Nothing is cached, so that the resent request is accepted.
//! - Duplicates, and messages to other numbers: acknowledged, without effect.
//!
//! A vendor that missed our acknowledgement resends the same request. The service cannot distinguish this from a replay
//! by an attacker. Both are acknowledged, because a repeated request has no effect. A different request with the same
//! nonce is rejected: an attacker could send one if the signature does not cover the message.
//!
//! The caches of messages and nonces are bounded, and each node has its own. The inbox detects duplicates too, so a
//! message that is missing in the cache costs only a database query.
//!
//! A part of a concatenated message is acknowledged when it is stored, and its message is processed when the last part
//! has arrived, at any node.
//!
//! Deliberately absent: an HTTP server, and sending SMS.

mod config;
mod form_vendors;
mod gateways;
mod json_vendors;
mod replay_cache;
mod vendor;

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use jiff::Timestamp;
use parking_lot::Mutex;
use ringtrue_domain::{
    phone::{Msisdn, SmsAddress},
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::Mode,
};
use ringtrue_engine::ports::{
    clock::Clock,
    connectors::{ConnectorHealth, ConnectorState, ConnectorStatus, MessageCounts, MonitoredConnector},
    sms::{CompleteSms, Inbox, PartOutcome, PartialSms, Reassembly, SmsOutcome, SmsPart},
};
use ringtrue_smpp::{reassembly::decode_parts, text::DefaultAlphabet};
use strum::{IntoStaticStr, VariantArray};
use url::Url;

pub use self::{
    config::{
        PathSecret, Secret, SecretError, ValidatedWebhookConfig, WebhookConfig, WebhookConfigError, WebhookDriver,
    },
    form_vendors::{Plivo, PlivoSignature, SigMethod, Twilio, Vonage, VonageCredential},
    gateways::{FieldMap, Generic, GenericSignature, Jasmin, Kannel, TagEncoding},
    json_vendors::{Bird, Infobip, MessageBird, Sinch, Telnyx, TelnyxKey},
    vendor::{WebhookRequest, WebhookResponse},
};
use self::{
    replay_cache::ReplayCache,
    vendor::{Digest, MAX_BODY_BYTES, MessagePart, MessageText, VendorMessage, VendorRequest, digest_parts},
};
use crate::{
    breaker::HealthRecorder,
    sms_parts::{decode_sms, encode_part, is_part},
};

/// How long messages and nonces are remembered. Vendors resend for at most a day.
const REPLAY_CACHE_TTL: Duration = Duration::from_hours(25);
const REPLAY_CACHE_ENTRIES: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// Time for all parts of a message to arrive: the longest lifetime that a Reverse SMS check can have.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_mins(15);
/// Clock skew allowed for signatures with an expiry time.
const EXPIRY_TOLERANCE: Duration = Duration::from_secs(5);

/// Webhook of one vendor.
#[derive(derive_more::Debug)]
#[debug("Webhook({config:?}, {counters:?})")]
pub struct Webhook {
    config: WebhookConfig,
    /// The URL registered with the vendor.
    url: Url,
    inbox: Arc<dyn Inbox>,
    reassembly: Arc<dyn Reassembly>,
    clock: Arc<dyn Clock>,
    counters: WebhookCounters,
    /// Keys of acknowledged messages, to recognise messages that the vendor resends.
    processed: Mutex<ReplayCache<()>>,
    /// Nonces of acknowledged requests, with the digests of those requests.
    nonces: Mutex<ReplayCache<Digest>>,
    health: HealthRecorder,
}

/// A verified and parsed request.
struct VerifiedRequest {
    messages: Vec<VendorMessage>,
    nonce: Option<Digest>,
    request: Digest,
}

impl Webhook {
    /// Creates a webhook. Rejects configurations that would accept requests from anyone, or could not accept any
    /// request.
    pub fn new(
        config: WebhookConfig,
        inbox: Arc<dyn Inbox>,
        reassembly: Arc<dyn Reassembly>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, WebhookConfigError> {
        Ok(Webhook::from_validated(config.validate()?, inbox, reassembly, clock))
    }

    pub fn from_validated(
        ValidatedWebhookConfig(config): ValidatedWebhookConfig,
        inbox: Arc<dyn Inbox>,
        reassembly: Arc<dyn Reassembly>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Webhook {
            url: config.registered_url(),
            config,
            inbox,
            reassembly,
            clock,
            counters: WebhookCounters::default(),
            processed: Mutex::new(ReplayCache::new(REPLAY_CACHE_TTL, REPLAY_CACHE_ENTRIES)),
            nonces: Mutex::new(ReplayCache::new(REPLAY_CACHE_TTL, REPLAY_CACHE_ENTRIES)),
            health: HealthRecorder::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Our numbers at this vendor.
    pub fn receivers(&self) -> &[Msisdn] {
        &self.config.receivers
    }

    pub fn counters(&self) -> &WebhookCounters {
        &self.counters
    }

    /// Processes a request. When this returns the vendor's acknowledgement, the effect is durable.
    pub async fn handle(&self, incoming: WebhookRequest<'_>) -> WebhookResponse {
        let now = self.clock.now();
        let verified = match self.verify_request(&incoming, now) {
            Ok(verified) => verified,
            Err(outcome) => return self.respond(outcome),
        };
        if verified.messages.is_empty() {
            return self.respond(WebhookOutcome::Ignored);
        }
        for message in &verified.messages {
            let outcome = self.process_message(message, now).await;
            let response = self.respond(outcome);
            if response.status == StatusCode::SERVICE_UNAVAILABLE {
                return response;
            }
        }
        if let Some(nonce) = verified.nonce {
            self.nonces.lock().insert(nonce, verified.request, now);
        }
        self.config.driver.vendor().acknowledgement()
    }

    fn verify_request(&self, incoming: &WebhookRequest<'_>, now: Timestamp) -> Result<VerifiedRequest, WebhookOutcome> {
        let WebhookRequest { method, path_and_query, headers, body, peer } = *incoming;
        let (path, query) = path_and_query.split_once('?').map_or((path_and_query, None), |(a, b)| (a, Some(b)));
        let WebhookConfig { allowed_addresses, path_secret, driver, max_skew, .. } = &self.config;

        let address_is_allowed =
            allowed_addresses.is_empty() || allowed_addresses.iter().any(|range| range.contains(&peer.to_canonical()));
        let path_matches = path_secret.as_ref().is_none_or(|secret| secret.matches_path(path));
        if !address_is_allowed || !path_matches {
            return Err(WebhookOutcome::UntrustedSource);
        }
        let vendor = driver.vendor();
        if !vendor.methods().contains(method) || body.len().max(path_and_query.len()) > MAX_BODY_BYTES {
            return Err(WebhookOutcome::Malformed);
        }
        let request = VendorRequest { method, url: &self.url, query, headers, body };
        let signature = vendor.verify_signature(&request).map_err(|_| WebhookOutcome::InvalidSignature)?;
        if signature.signed_at.is_some_and(|signed_at| now.duration_since(signed_at).unsigned_abs() > *max_skew) {
            return Err(WebhookOutcome::Stale);
        }
        if signature.expires_at.is_some_and(|expires_at| expires_at + EXPIRY_TOLERANCE <= now) {
            return Err(WebhookOutcome::Stale);
        }
        let request_key = digest_parts(&[method.as_str().as_bytes(), path_and_query.as_bytes(), body]);
        match signature.nonce.and_then(|nonce| self.nonces.lock().get(&nonce, now)) {
            Some(known) if known == request_key => return Err(WebhookOutcome::Duplicate),
            Some(_) => return Err(WebhookOutcome::Replayed),
            None => {}
        }
        let messages = vendor.parse_messages(&request).map_err(|_| WebhookOutcome::Malformed)?;
        Ok(VerifiedRequest { messages, nonce: signature.nonce, request: request_key })
    }

    async fn process_message(&self, message: &VendorMessage, now: Timestamp) -> WebhookOutcome {
        let Some(to) = self.parse_number(message, &message.to).filter(|to| self.config.receivers.contains(to)) else {
            return WebhookOutcome::UnknownReceiver;
        };
        let from = self.parse_number(message, &message.from).map_or(SmsSender::Unattributed, SmsSender::Number);
        let key = message.deduplication_key();
        if key.is_some_and(|key| self.processed.lock().get(&key, now).is_some()) {
            return WebhookOutcome::Duplicate;
        }
        let outcome = match &message.text {
            MessageText::Complete(text) => self.deliver_to_inbox(from, to, text.clone(), now).await,
            MessageText::Part(MessagePart { segment, data_coding, octets }) if !is_part(*segment, octets) => {
                let text = decode_parts([(*data_coding, octets.as_slice())], DefaultAlphabet::default());
                self.deliver_to_inbox(from, to, text, now).await
            }
            MessageText::Part(part) => self.process_part(message, part, from, to, now).await,
        };
        if let (WebhookOutcome::Accepted | WebhookOutcome::Duplicate | WebhookOutcome::PartHeld, Some(key)) =
            (outcome, key)
        {
            self.processed.lock().insert(key, (), now);
        }
        outcome
    }

    async fn deliver_to_inbox(&self, from: SmsSender, to: Msisdn, text: String, now: Timestamp) -> WebhookOutcome {
        let (environment, connector) = (SmsEnvironment::Operator, Arc::clone(&self.config.name));
        let sms = InboundSms { environment, connector, from, to, text, received_at: now };
        match self.inbox.receive(sms).await {
            Err(_) => return WebhookOutcome::StoreUnavailable,
            Ok(SmsOutcome::Concluded) => self.health.record_conclusion_lag(now, self.clock.now()),
            Ok(_) => {}
        }
        WebhookOutcome::Accepted
    }

    async fn process_part(
        &self,
        message: &VendorMessage,
        MessagePart { segment, data_coding, octets }: &MessagePart,
        from: SmsSender,
        to: Msisdn,
        now: Timestamp,
    ) -> WebhookOutcome {
        let part = SmsPart {
            environment: SmsEnvironment::Operator,
            connector: Arc::clone(&self.config.name),
            from: message.from.clone(),
            to: message.to.clone(),
            reference: segment.reference.to_octets(),
            total: segment.total,
            sequence: segment.sequence,
            content: encode_part(*data_coding, octets),
            lifetime: REASSEMBLY_TIMEOUT,
        };
        match self.reassembly.add_part(part).await {
            Ok(PartOutcome::Complete(sms)) => self.deliver_complete(&sms, from, to, now).await,
            Ok(PartOutcome::Stored { first }) => {
                if first {
                    // `receive_partial` only changes the status of checks to pending, so its errors are ignored.
                    let (environment, connector) = (SmsEnvironment::Operator, Arc::clone(&self.config.name));
                    let partial = PartialSms { environment, connector, from, to, received_at: now };
                    let _ = self.inbox.receive_partial(partial).await;
                }
                WebhookOutcome::PartHeld
            }
            Ok(PartOutcome::AlreadyProcessed) => WebhookOutcome::Duplicate,
            Ok(PartOutcome::LimitReached) => WebhookOutcome::PartRejected,
            Err(_) => WebhookOutcome::StoreUnavailable,
        }
    }

    async fn deliver_complete(&self, sms: &CompleteSms, from: SmsSender, to: Msisdn, now: Timestamp) -> WebhookOutcome {
        let outcome = self.deliver_to_inbox(from, to, decode_sms(sms, DefaultAlphabet::default()), now).await;
        if outcome == WebhookOutcome::Accepted
            && let Err(error) = self.reassembly.mark_processed(sms).await
        {
            tracing::debug!(webhook.name = %self.config.name, %error, "failed to mark a concatenated SMS as processed");
        }
        outcome
    }

    fn parse_number(&self, message: &VendorMessage, text: &str) -> Option<Msisdn> {
        SmsAddress { text, kind: message.address_kind, country: self.config.country }.to_msisdn()
    }

    /// Counts the outcome of a request or of one of its messages, and returns the HTTP response for this outcome.
    fn respond(&self, outcome: WebhookOutcome) -> WebhookResponse {
        self.counters.increment(outcome);
        match outcome.error_message() {
            None => self.health.record_success(self.clock.now()),
            Some(what) => self.health.record_error(what, self.clock.now()),
        }
        let (name, label) = (&self.config.name, outcome.into_str());
        tracing::debug!(webhook.name = %name, webhook.outcome = label, "webhook request processed");
        let vendor = self.config.driver.vendor();
        match outcome {
            WebhookOutcome::Accepted
            | WebhookOutcome::Duplicate
            | WebhookOutcome::UnknownReceiver
            | WebhookOutcome::Ignored
            | WebhookOutcome::PartHeld => vendor.acknowledgement(),
            WebhookOutcome::PartRejected => WebhookResponse::empty(StatusCode::SERVICE_UNAVAILABLE),
            WebhookOutcome::StoreUnavailable => {
                tracing::warn!(webhook.name = %self.config.name, "failed to store SMS; the vendor must resend it");
                WebhookResponse::empty(StatusCode::SERVICE_UNAVAILABLE)
            }
            WebhookOutcome::UntrustedSource
            | WebhookOutcome::InvalidSignature
            | WebhookOutcome::Stale
            | WebhookOutcome::Replayed => WebhookResponse::empty(StatusCode::FORBIDDEN),
            WebhookOutcome::Malformed => vendor.malformed_response(),
        }
    }
}

impl MonitoredConnector for Webhook {
    fn connector_status(&self) -> ConnectorStatus {
        let health = self.health.snapshot();
        let sum = |is_counted: fn(&&WebhookOutcome) -> bool| {
            WebhookOutcome::VARIANTS.iter().filter(is_counted).map(|outcome| self.counters.get(*outcome)).sum()
        };
        ConnectorStatus {
            name: Arc::clone(&self.config.name),
            kind: "SMS by webhook",
            mode: Mode::Live,
            state: connector_state(&health),
            networks: vec![],
            receivers: self.config.receivers.clone(),
            link_summary: None,
            breakers: vec![],
            counts: Some(MessageCounts {
                accepted: sum(|outcome| outcome.error_message().is_none()),
                rejected: sum(|outcome| outcome.error_message().is_some()),
            }),
            health,
        }
    }
}

/// Derives the state from the last request, because there is no way to probe a vendor.
fn connector_state(ConnectorHealth { last_success_at, last_error, .. }: &ConnectorHealth) -> ConnectorState {
    match (last_success_at, last_error) {
        (None, None) => ConnectorState::Idle,
        (last_success_at, Some(last_error))
            if last_success_at.is_none_or(|last_success_at| last_success_at < last_error.at) =>
        {
            ConnectorState::Degraded
        }
        _ => ConnectorState::Up,
    }
}

/// Outcome of a webhook request or of one of its messages. The name is the value of a label in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum WebhookOutcome {
    /// The inbox stored the message.
    Accepted,
    /// The message was processed before.
    Duplicate,
    /// The destination is not one of our numbers.
    UnknownReceiver,
    /// Not an SMS, such as a delivery report.
    Ignored,
    /// A part was stored; others are missing.
    PartHeld,
    /// No capacity for another part.
    #[strum(serialize = "part_refused")]
    PartRejected,
    /// Wrong source address or path secret.
    #[strum(serialize = "stranger")]
    UntrustedSource,
    #[strum(serialize = "forged")]
    InvalidSignature,
    /// The signature has expired, is too old, or is dated in the future.
    Stale,
    /// A different request has used the nonce.
    Replayed,
    /// Not in the vendor's documented format.
    #[strum(serialize = "unreadable")]
    Malformed,
    /// The inbox failed to store the message.
    #[strum(serialize = "store_down")]
    StoreUnavailable,
}

impl WebhookOutcome {
    /// Error text for the console. `None`: not an error.
    pub fn error_message(self) -> Option<&'static str> {
        match self {
            WebhookOutcome::Accepted
            | WebhookOutcome::Duplicate
            | WebhookOutcome::UnknownReceiver
            | WebhookOutcome::Ignored
            | WebhookOutcome::PartHeld => None,
            WebhookOutcome::PartRejected => Some("no capacity for another part of a concatenated message"),
            WebhookOutcome::UntrustedSource => Some("request from an unknown address or with a wrong path secret"),
            WebhookOutcome::InvalidSignature => Some("invalid signature"),
            WebhookOutcome::Stale => Some("signature timestamp out of range"),
            WebhookOutcome::Replayed => Some("nonce reused by a different request"),
            WebhookOutcome::Malformed => Some("malformed request"),
            WebhookOutcome::StoreUnavailable => Some("failed to store a message; the vendor must resend it"),
        }
    }
}

#[derive(Debug, Default)]
pub struct WebhookCounters([AtomicU64; WebhookOutcome::VARIANTS.len()]);

impl WebhookCounters {
    fn increment(&self, outcome: WebhookOutcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All counts, with the labels of their outcomes.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        WebhookOutcome::VARIANTS.iter().map(|outcome| (outcome.into_str(), self.get(*outcome)))
    }

    pub fn get(&self, outcome: WebhookOutcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_counter() {
        let counters = WebhookCounters::default();
        for (index, outcome) in WebhookOutcome::VARIANTS.iter().copied().enumerate() {
            assert_eq!(outcome as usize, index);
            counters.increment(outcome);
        }
        assert!(counters.counts().all(|(_, count)| count == 1));
    }
}
