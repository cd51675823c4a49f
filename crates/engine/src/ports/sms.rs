//! Inbound SMS, and the parts of concatenated ones, which may arrive at different nodes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::Sealed,
    phone::Msisdn,
    reverse_sms::{InboundSms, SmsOrigin, SmsSender},
};
use strum::IntoStaticStr;
use uuid::Uuid;

use super::store::StoreError;

/// The outcome of a received SMS. All outcomes are final: the operator need not send the SMS again. Metrics are
/// labelled with the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SmsOutcome {
    /// The SMS concluded a check.
    Concluded,
    /// The check was already concluded or past its deadline.
    TooLate,
    /// A check became `PENDING`: the sender matches, the code is missing or invalid.
    Pending,
    /// No open check expects the SMS.
    Unmatched,
    /// No valid code, and a sender that is not attributable to a subscriber.
    Unusable,
}

/// The first part of a concatenated SMS whose other parts are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSms {
    pub origin: SmsOrigin,
    /// Name of the connector that received it.
    pub connector: Arc<str>,
    pub from: SmsSender,
    pub to: Msisdn,
    pub received_at: Timestamp,
}

#[async_trait]
pub trait Inbox: Send + Sync {
    /// Processes an SMS. `Ok`: its effect is durable, and the connector acknowledges it to the operator. `Err`: the
    /// connector requests redelivery.
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError>;

    /// Marks matching checks as pending before the SMS is complete.
    async fn receive_partial(&self, partial: PartialSms) -> Result<(), StoreError>;
}

/// A part of a concatenated SMS.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("SmsPart({connector}, {sequence} of {total})")]
pub struct SmsPart {
    pub origin: SmsOrigin,
    /// Name of the connector that received it. Parts of one SMS arrive over one connector, on any node.
    pub connector: Arc<str>,
    /// Addresses as received; the same in all parts.
    pub from: String,
    pub to: String,
    /// Octets of the reference: one or two. References of different widths differ, whatever their value.
    pub reference: Vec<u8>,
    /// At least 2.
    pub total: u8,
    /// From 1 to `total`.
    pub sequence: u8,
    /// In a format of the connector.
    pub content: Vec<u8>,
    /// Time in which all parts have to arrive.
    pub lifetime: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartOutcome {
    /// The part is durable: the connector acknowledges it. `first`: it is the first part of its SMS.
    Stored { first: bool },
    /// The connector passes the SMS to the inbox, and acknowledges the part if the inbox has processed it. Otherwise the
    /// operator resends the part, which completes the SMS again.
    Complete(CompleteSms),
    /// The SMS was processed before: the connector acknowledges the part.
    AlreadyProcessed,
    /// Too many SMS are incomplete. The connector requests redelivery.
    LimitReached,
}

/// A concatenated SMS with all its parts.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("CompleteSms({sms})")]
pub struct CompleteSms {
    pub key: SmsKey,
    pub sms: Uuid,
    /// Contents of the parts, in order.
    pub contents: Vec<Vec<u8>>,
}

/// Joins the parts of concatenated SMS. Nodes share the parts, which may arrive at several of them.
#[async_trait]
pub trait Reassembly: Send + Sync {
    async fn add_part(&self, part: SmsPart) -> Result<PartOutcome, StoreError>;

    /// Records that the inbox has processed an SMS. Without it, a resent part is processed again, to no effect.
    async fn mark_processed(&self, sms: &CompleteSms) -> Result<(), StoreError>;

    /// Discards the expired SMS of a connector. Returns the number of those with missing parts.
    async fn discard_expired(&self, connector: &str) -> Result<u64, StoreError>;
}

/// Keyed hash of connector, sender, receiver, reference with its width, and number of parts: equal for all parts of an SMS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmsKey(pub [u8; 32]);

/// A received part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSmsPart {
    pub key: SmsKey,
    /// Identifies the SMS if this is its first part.
    pub sms: Uuid,
    pub connector: Arc<str>,
    /// Keyed hash of the sender.
    pub sender: [u8; 32],
    pub total_parts: u8,
    /// From 1.
    pub sequence: u8,
    /// Keyed hash of the content, which recognises a resent part.
    pub content_hash: [u8; 32],
    pub content: Sealed,
    pub now: Timestamp,
    /// Expiry of the SMS if this is its first part.
    pub expires_at: Timestamp,
    pub limits: SmsPartLimits,
}

/// Limits on SMS that are not processed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmsPartLimits {
    pub per_sender: u32,
    pub per_connector: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddPartOutcome {
    /// Other parts are missing. `first`: this is the first part of its SMS.
    Stored {
        first: bool,
    },
    /// All parts are stored, and the SMS is not processed yet. Concurrent parts complete an SMS once; a part that is
    /// resent completes it again.
    Complete {
        sms: Uuid,
        contents: Vec<Sealed>,
    },
    /// A part of an SMS that was processed before.
    AlreadyProcessed,
    LimitReached,
}

#[async_trait]
pub trait SmsPartStore: Send + Sync {
    /// Stores a part.
    ///
    /// A part that differs from the stored part with the same number belongs to a newer SMS with a reused reference; it
    /// replaces the older SMS. So does a part of an expired SMS.
    async fn add_sms_part(&self, part: &ReceivedSmsPart) -> Result<AddPartOutcome, StoreError>;

    /// Deletes the contents of a processed SMS. Resent parts of it are recognised until it expires.
    async fn mark_sms_processed(&self, key: SmsKey, sms: Uuid, now: Timestamp) -> Result<(), StoreError>;

    /// Deletes a batch of expired SMS of a connector. Returns the number of those with missing parts.
    async fn delete_expired_sms(&self, connector: &str, now: Timestamp) -> Result<u64, StoreError>;
}
