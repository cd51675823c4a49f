//! Parts of concatenated SMS, which may arrive at different nodes.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::lifecycle::Sealed;
use uuid::Uuid;

use super::StoreError;

/// Keyed hash of connector, sender, receiver, reference with its width, and number of parts: equal for all parts of an SMS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmsKey(pub [u8; 32]);

/// A received part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSmsPart {
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
    async fn add_sms_part(&self, part: &NewSmsPart) -> Result<AddPartOutcome, StoreError>;

    /// Deletes the contents of a processed SMS. Resent parts of it are recognised until it expires.
    async fn mark_sms_processed(&self, key: SmsKey, sms: Uuid, now: Timestamp) -> Result<(), StoreError>;

    /// Deletes a batch of expired SMS of a connector. Returns the number of those with missing parts.
    async fn delete_expired_sms(&self, connector: &str, now: Timestamp) -> Result<u64, StoreError>;
}
