//! Idempotency keys: claimed by a lease, completed with what the request did.

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use super::StoreError;

/// A request that wants to be the first with its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The project or workspace that the key belongs to.
    pub tenant: Uuid,
    pub key_digest: [u8; 32],
    /// What the request asks for: method, path and body.
    pub fingerprint: [u8; 32],
    /// Names this attempt, so that only it can complete or abandon the claim.
    pub claim: Uuid,
    pub now: Timestamp,
    /// After this instant another attempt may take over: whoever held the claim has died.
    pub lease_until: Timestamp,
    /// After this instant the key is free again.
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    Claimed,
    /// The first request with this key is still running.
    InProgress,
    /// The key stands for another request.
    Reused,
    /// The first request was answered: this is the sealed answer.
    Answered(Vec<u8>),
}

/// The answer of a request that held a claim, written in the transaction of what the request did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub tenant: Uuid,
    pub key_digest: [u8; 32],
    pub claim: Uuid,
    pub sealed_answer: Vec<u8>,
}

#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError>;

    /// Frees the key after a request that did nothing, unless someone else has taken the claim over.
    async fn abandon(&self, tenant: Uuid, key_digest: [u8; 32], claim: Uuid) -> Result<(), StoreError>;
}
