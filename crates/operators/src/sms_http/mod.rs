//! SMS from operators and aggregators by webhook.
//!
//! The HTTP server hands a request to [`Webhook::handle`] and writes the [`Reply`] out. In between: is the caller
//! somebody who may call (address, path secret, signature, clock, nonce), what does the request say (one driver per
//! vendor), and is the message new; then the inbox has it, and only then the vendor is acknowledged, in its own words.
//!
//! - Not authentic: 403, and nothing is stored.
//! - Unreadable: 400; Kannel and Jasmin are acknowledged all the same, because they would bring it again unchanged.
//! - The inbox failed: 503. Nothing of the request is remembered, so that it is welcome when it comes again.
//! - A message that was acknowledged before, and one to a number that is not ours: acknowledged, without effect.
//!
//! A vendor that did not hear our acknowledgement sends the very same request again. Nobody can tell that from a
//! replay, and neither has an effect: both are acknowledged. Refused as a replay is a nonce that comes with another
//! request, which is what a replay is good for where the signature does not cover the message.
//!
//! What is remembered is bounded, and of this node only: the inbox itself does nothing twice, so forgetting costs a
//! query.
//!
//! Parts of longer messages: see [`parts`].
//!
//! Deliberately absent: an HTTP server, and sending.

mod bird;
mod config;
mod generic;
mod infobip;
mod jasmin;
mod kannel;
mod memory;
mod messagebird;
mod parts;
mod plivo;
mod request;
mod secret;
mod sinch;
mod tally;
mod telnyx;
mod twilio;
mod vendor;
mod vonage;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::StatusCode;
use jiff::Timestamp;
use ringtrue_domain::{
    phone::{Address, Msisdn},
    reverse_sms::{InboundSms, Origin, Sender},
    tenancy::Mode,
};
use ringtrue_engine::ports::{
    Clock, Condition, ConnectorReport, Counts, Disposition, Glimpse, Inbox, Reporting, Signs,
};
use url::Url;

pub use self::{
    bird::Bird,
    config::{ConfigError, Driver, SoundConfig, WebhookConfig},
    generic::{FieldMap, Generic, GenericSignature, TagEncoding},
    infobip::Infobip,
    jasmin::Jasmin,
    kannel::Kannel,
    messagebird::MessageBird,
    plivo::{Plivo, PlivoSignature},
    request::{Incoming, Reply},
    secret::{BadSecret, PathSecret, Secret},
    sinch::Sinch,
    tally::{Outcome, Tally},
    telnyx::{Telnyx, TelnyxKey},
    twilio::Twilio,
    vonage::{SigMethod, Vonage, VonageSignature},
};
use self::{
    memory::Memory,
    parts::{Parts, Progress},
    request::{MAX_BODY, Request},
    secret::{Digest, digest},
    vendor::{Message, Text},
};

use crate::vital_signs::VitalSigns;

/// Vendors send again for a day at most.
const REMEMBERED_FOR: Duration = Duration::from_hours(25);
const REMEMBERED: usize = 65_536;
/// How far the clock of a vendor whose signatures expire may be behind ours.
const EXPIRY_TOLERANCE: Duration = Duration::from_secs(5);

/// One vendor's door.
pub struct Webhook {
    config: WebhookConfig,
    /// What the vendor was told to call.
    url: Url,
    inbox: Arc<dyn Inbox>,
    clock: Arc<dyn Clock>,
    tally: Tally,
    /// The messages that were acknowledged.
    done: Mutex<Memory<()>>,
    /// The nonces of acknowledged requests, and which requests those were.
    nonces: Mutex<Memory<Digest>>,
    parts: Mutex<Parts>,
    signs: VitalSigns,
}

/// What an authentic request brought.
struct Delivery {
    messages: Vec<Message>,
    nonce: Option<Digest>,
    request: Digest,
}

impl Webhook {
    /// Refuses a configuration that would let anyone in.
    pub fn new(config: WebhookConfig, inbox: Arc<dyn Inbox>, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        Ok(Webhook::of_sound(config.sound()?, inbox, clock))
    }

    pub fn of_sound(SoundConfig(config): SoundConfig, inbox: Arc<dyn Inbox>, clock: Arc<dyn Clock>) -> Self {
        Webhook {
            url: config.signed_url(),
            config,
            inbox,
            clock,
            tally: Tally::default(),
            done: Mutex::new(Memory::new(REMEMBERED_FOR, REMEMBERED)),
            nonces: Mutex::new(Memory::new(REMEMBERED_FOR, REMEMBERED)),
            parts: Mutex::new(Parts::new()),
            signs: VitalSigns::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Our numbers at this vendor.
    pub fn receivers(&self) -> &[Msisdn] {
        &self.config.receivers
    }

    /// What came in so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Deals with a request. Once this answers with the vendor's acknowledgement, the effect is durable.
    pub async fn handle(&self, incoming: Incoming<'_>) -> Reply {
        let now = self.clock.now();
        let delivery = match self.admit(&incoming, now) {
            Ok(delivery) => delivery,
            Err(outcome) => return self.answer(outcome),
        };
        if delivery.messages.is_empty() {
            return self.answer(Outcome::Ignored);
        }
        for message in &delivery.messages {
            let outcome = self.take(message, now).await;
            let reply = self.answer(outcome);
            if reply.status == StatusCode::SERVICE_UNAVAILABLE {
                return reply;
            }
        }
        if let Some(nonce) = delivery.nonce {
            held(&self.nonces).keep(nonce, delivery.request, now);
        }
        self.config.driver.vendor().acknowledgement()
    }

    /// What the request says, if it may say anything.
    fn admit(&self, incoming: &Incoming<'_>, now: Timestamp) -> Result<Delivery, Outcome> {
        let Incoming { method, path_and_query, headers, body, peer } = *incoming;
        let (path, query) = path_and_query.split_once('?').map_or((path_and_query, None), |(a, b)| (a, Some(b)));
        let WebhookConfig { allowed, path_secret, driver, max_skew, .. } = &self.config;

        let address_is_known = allowed.is_empty() || allowed.iter().any(|range| range.contains(&peer.to_canonical()));
        let path_is_known = path_secret.as_ref().is_none_or(|secret| secret.ends(path));
        if !address_is_known || !path_is_known {
            return Err(Outcome::Stranger);
        }
        let vendor = driver.vendor();
        if !vendor.methods().contains(method) || body.len().max(path_and_query.len()) > MAX_BODY {
            return Err(Outcome::Unreadable);
        }
        let request = Request { method, url: &self.url, query, headers, body };
        let proof = vendor.authenticate(&request).map_err(|_| Outcome::Forged)?;
        if proof.signed_at.is_some_and(|signed_at| now.duration_since(signed_at).unsigned_abs() > *max_skew) {
            return Err(Outcome::Stale);
        }
        if proof.expires_at.is_some_and(|expires_at| expires_at + EXPIRY_TOLERANCE <= now) {
            return Err(Outcome::Stale);
        }
        let request_key = digest(&[method.as_str().as_bytes(), path_and_query.as_bytes(), body]);
        match proof.nonce.and_then(|nonce| held(&self.nonces).recall(&nonce, now)) {
            Some(known) if known == request_key => return Err(Outcome::Duplicate),
            Some(_) => return Err(Outcome::Replayed),
            None => {}
        }
        let messages = vendor.read(&request).map_err(|_| Outcome::Unreadable)?;
        Ok(Delivery { messages, nonce: proof.nonce, request: request_key })
    }

    async fn take(&self, message: &Message, now: Timestamp) -> Outcome {
        let Some(to) = self.number(message, &message.to).filter(|to| self.config.receivers.contains(to)) else {
            return Outcome::UnknownReceiver;
        };
        let from = self.number(message, &message.from).map_or(Sender::Unattributed, Sender::Number);
        let key = message.key();
        if key.is_some_and(|key| held(&self.done).recall(&key, now).is_some()) {
            return Outcome::Duplicate;
        }
        let (text, keys) = match &message.text {
            Text::Whole(text) => (text.clone(), key.into_iter().collect()),
            Text::Part(part) => {
                let key = message.part_key(part);
                let progress = held(&self.parts).add(&message.from, &message.to, part, key, now);
                match progress {
                    Progress::Complete { text, keys } => (text, keys),
                    Progress::Held { first } => return self.wait(from, to, first, now).await,
                    Progress::Abandoned => return Outcome::PartAbandoned,
                    Progress::Refused => return Outcome::PartRefused,
                }
            }
        };
        let (origin, connector) = (Origin::Operator, Arc::clone(&self.config.name));
        let sms = InboundSms { origin, connector, from, to, text, received_at: now };
        match self.inbox.receive(sms).await {
            Err(_) => return Outcome::StoreDown,
            Ok(Disposition::Concluded) => self.signs.concluded(now, self.clock.now()),
            Ok(_) => {}
        }
        let mut done = held(&self.done);
        for key in keys {
            done.keep(key, (), now);
        }
        Outcome::Accepted
    }

    /// Shows that something is coming. It is only a hint, and the part will come again: a failure costs nothing.
    async fn wait(&self, from: Sender, to: Msisdn, first: bool, now: Timestamp) -> Outcome {
        if first {
            let (origin, connector) = (Origin::Operator, Arc::clone(&self.config.name));
            let glimpse = Glimpse { origin, connector, from, to, seen_at: now };
            let _ = self.inbox.glimpse(glimpse).await;
        }
        Outcome::PartHeld
    }

    fn number(&self, message: &Message, text: &str) -> Option<Msisdn> {
        Address { text, kind: message.kind, country: self.config.country }.number()
    }

    /// Counts an outcome and says what the vendor hears if there is nothing else in its request.
    fn answer(&self, outcome: Outcome) -> Reply {
        self.tally.add(outcome);
        match outcome.complaint() {
            None => self.signs.heard(self.clock.now()),
            Some(what) => self.signs.failed(what, self.clock.now()),
        }
        tracing::debug!(webhook.name = %self.config.name, webhook.outcome = outcome.as_str(), "a webhook was called");
        let vendor = self.config.driver.vendor();
        match outcome {
            Outcome::Accepted
            | Outcome::Duplicate
            | Outcome::UnknownReceiver
            | Outcome::Ignored
            | Outcome::PartAbandoned => vendor.acknowledgement(),
            Outcome::PartHeld | Outcome::PartRefused => Reply::empty(StatusCode::SERVICE_UNAVAILABLE),
            Outcome::StoreDown => {
                tracing::warn!(webhook.name = %self.config.name, "an SMS could not be stored; the vendor must resend it");
                Reply::empty(StatusCode::SERVICE_UNAVAILABLE)
            }
            Outcome::Stranger | Outcome::Forged | Outcome::Stale | Outcome::Replayed => {
                Reply::empty(StatusCode::FORBIDDEN)
            }
            Outcome::Unreadable => vendor.dismissal(),
        }
    }
}

impl Reporting for Webhook {
    fn report(&self) -> ConnectorReport {
        let signs = self.signs.read();
        let sum = |is_counted: fn(&Outcome) -> bool| {
            Outcome::ALL.into_iter().filter(is_counted).map(|outcome| self.tally.get(outcome)).sum()
        };
        ConnectorReport {
            name: Arc::clone(&self.config.name),
            kind: "SMS by webhook",
            mode: Mode::Live,
            condition: condition(&signs),
            networks: vec![],
            receivers: self.config.receivers.clone(),
            links: None,
            breakers: vec![],
            counts: Some(Counts {
                taken: sum(|outcome| outcome.complaint().is_none()),
                refused: sum(|outcome| outcome.complaint().is_some()),
            }),
            signs,
        }
    }
}

/// Of the last call: nobody can tell whether a vendor will call again.
fn condition(Signs { heard_at, mishap, .. }: &Signs) -> Condition {
    match (heard_at, mishap) {
        (None, None) => Condition::Waiting,
        (heard_at, Some(mishap)) if heard_at.is_none_or(|heard_at| heard_at < mishap.at) => Condition::Impaired,
        _ => Condition::Up,
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("config", &self.config).field("tally", &self.tally).finish_non_exhaustive()
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
