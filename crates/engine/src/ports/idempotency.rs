//! Store port for the idempotency keys of requests, and the responses stored under them.

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use super::store::StoreError;

/// Reservation of an idempotency key by a request, for the time in which the request is processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// The project or workspace that the key belongs to.
    pub tenant: Uuid,
    pub key_digest: [u8; 32],
    /// Digest of method, path and body.
    pub fingerprint: [u8; 32],
    /// Identifies this reservation, so that only the request that made it can complete or release it.
    pub claim_id: Uuid,
    pub now: Timestamp,
    /// After this time, another request with the same key may take over the reservation.
    pub lease_until: Timestamp,
    /// After this time, the idempotency key can be used for a different request.
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    Claimed,
    /// The first request with this key is still running.
    InProgress,
    /// The key belongs to a request with another fingerprint.
    KeyReused,
    /// The first request with this key is complete. Contains its encrypted response.
    Completed(Vec<u8>),
}

/// The encrypted response to a request, stored in the same transaction as the request's changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentResponse {
    pub tenant: Uuid,
    pub key_digest: [u8; 32],
    pub claim_id: Uuid,
    pub sealed_response: Vec<u8>,
}

#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    async fn claim_idempotency_key(&self, request: &IdempotencyClaim) -> Result<ClaimOutcome, StoreError>;

    /// Releases the key after a request that has changed nothing, so that the request can be retried. Does nothing if
    /// another request has taken over the claim.
    async fn release_idempotency_key(&self, tenant: Uuid, key_digest: [u8; 32], claim: Uuid) -> Result<(), StoreError>;

    /// Stores the response to a request that succeeded without writing anything else.
    async fn complete_idempotency_key(&self, response: IdempotentResponse) -> Result<(), StoreError>;
}
