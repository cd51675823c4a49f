//! Ports for inbound SMS. The parts of a concatenated SMS may arrive at different nodes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::Sealed,
    phone::Msisdn,
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
};
use strum::IntoStaticStr;
use uuid::Uuid;

use super::store::StoreError;

/// The outcome of processing a received SMS. All outcomes are final, so the operator need not resend the SMS. Metrics
/// use the variant names as labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SmsOutcome {
    /// The SMS concluded a check.
    Concluded,
    /// The check was already concluded or past its deadline.
    TooLate,
    /// A check became `PENDING`: the sender matches, but the code is missing or invalid.
    Pending,
    /// No open check expects the SMS.
    Unmatched,
    /// The SMS has no valid code, and its sender does not identify a subscriber.
    Unusable,
}

/// The first received part of a concatenated SMS of which other parts are still missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSms {
    pub environment: SmsEnvironment,
    /// Name of the connector that received the part.
    pub connector: Arc<str>,
    pub from: SmsSender,
    pub to: Msisdn,
    pub received_at: Timestamp,
}

#[async_trait]
/// Processes received SMS. Implemented by the engine, called by connectors.
pub trait Inbox: Send + Sync {
    /// Processes an SMS. `Ok`: its effect is durable, and the connector acknowledges it to the operator. `Err`: the
    /// connector requests redelivery.
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError>;

    /// Marks the checks that expect an SMS from this sender as pending, before all parts of the SMS have arrived.
    async fn receive_partial(&self, partial: PartialSms) -> Result<(), StoreError>;
}

/// A part of a concatenated SMS.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("SmsPart({connector}, {sequence} of {total})")]
pub struct SmsPart {
    pub environment: SmsEnvironment,
    /// Name of the connector that received the part. All parts of an SMS arrive over one connector, but on any node.
    pub connector: Arc<str>,
    /// Sender and receiver address as received. All parts of an SMS have the same addresses.
    pub from: String,
    pub to: String,
    /// Concatenation reference: one or two octets. References of different lengths are different, even if their values
    /// are equal.
    pub reference: Vec<u8>,
    /// Number of parts of the SMS, at least 2.
    pub total: u8,
    /// Position of this part in the SMS, from 1 to `total`.
    pub sequence: u8,
    /// Content of the part, in a format that only the connector reads.
    pub content: Vec<u8>,
    /// Time within which all parts must arrive.
    pub lifetime: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartOutcome {
    /// The part is durable, so the connector acknowledges it. `first`: no other part of its SMS was received before.
    Stored { first: bool },
    /// All parts have arrived. The connector passes the SMS to the inbox, and acknowledges the part once the inbox has
    /// processed the SMS. Otherwise the operator resends the part, which completes the SMS again.
    Complete(CompleteSms),
    /// The SMS was processed before, so the connector acknowledges the part.
    AlreadyProcessed,
    /// Too many SMS are incomplete, so the connector requests redelivery.
    LimitReached,
}

/// A concatenated SMS with all its parts.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("CompleteSms({sms})")]
pub struct CompleteSms {
    pub key: ConcatenatedSmsKey,
    pub sms: Uuid,
    /// Contents of the parts, in order.
    pub contents: Vec<Vec<u8>>,
}

/// Joins the parts of concatenated SMS. Nodes share the stored parts, because the parts of an SMS may arrive at
/// different nodes.
#[async_trait]
pub trait Reassembly: Send + Sync {
    async fn add_part(&self, part: SmsPart) -> Result<PartOutcome, StoreError>;

    /// Records that the inbox has processed an SMS. If this is not recorded, a resent part causes the SMS to be
    /// processed again, without effect.
    async fn mark_processed(&self, sms: &CompleteSms) -> Result<(), StoreError>;

    /// Discards the expired SMS of a connector. Returns how many of them had missing parts.
    async fn discard_expired(&self, connector: &str) -> Result<u64, StoreError>;
}

/// Identifies a concatenated SMS: keyed hash of the connector, sender, receiver, reference with its length, and number
/// of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConcatenatedSmsKey(pub [u8; 32]);

/// A received part of a concatenated SMS, to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSmsPart {
    pub key: ConcatenatedSmsKey,
    /// New id of the SMS. Used only if this is the first received part.
    pub sms: Uuid,
    pub connector: Arc<str>,
    /// Keyed hash of the sender.
    pub sender: [u8; 32],
    pub total_parts: u8,
    /// Position of this part in the SMS, from 1.
    pub sequence: u8,
    /// Keyed hash of the content, to recognise a resent part.
    pub content_hash: [u8; 32],
    pub content: Sealed,
    pub now: Timestamp,
    /// When the SMS expires. Used only if this is the first received part.
    pub expires_at: Timestamp,
    pub limits: SmsPartLimits,
}

/// Maximum numbers of SMS that are stored but not processed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmsPartLimits {
    pub per_sender: u32,
    pub per_connector: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddPartOutcome {
    /// Other parts are missing. `first`: no other part of this SMS was received before.
    Stored {
        first: bool,
    },
    /// All parts are stored, and the SMS is not processed yet. If the last parts arrive concurrently, only one of them
    /// gets this outcome. A part that the operator resends later gets it too.
    Complete {
        sms: Uuid,
        contents: Vec<Sealed>,
    },
    /// The part belongs to an SMS that was processed before.
    AlreadyProcessed,
    LimitReached,
}

#[async_trait]
pub trait SmsPartStore: Send + Sync {
    /// Stores a part.
    ///
    /// A part belongs to a newer SMS with a reused reference if it differs from the stored part at the same position,
    /// or if the stored SMS has expired. The newer SMS then replaces the stored one.
    async fn add_sms_part(&self, part: &ReceivedSmsPart) -> Result<AddPartOutcome, StoreError>;

    /// Deletes the contents of a processed SMS. Resent parts are still recognised until the SMS expires.
    async fn mark_sms_processed(&self, key: ConcatenatedSmsKey, sms: Uuid, now: Timestamp) -> Result<(), StoreError>;

    /// Deletes a batch of a connector's expired SMS. Returns how many of them had missing parts.
    async fn delete_expired_sms(&self, connector: &str, now: Timestamp) -> Result<u64, StoreError>;
}
