//! Store port for revoked access tokens.

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use super::store::StoreError;

/// Identifier of an access token (`jti`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(pub Uuid);

/// Revocation of an access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub token: TokenId,
    /// When the revocation is deleted: some hours after the token has expired, to tolerate clock skew.
    pub expires_at: Timestamp,
}

#[async_trait]
pub trait RevocationStore: Send + Sync {
    /// Revokes a token. Idempotent.
    async fn revoke_token(&self, revocation: Revocation) -> Result<(), StoreError>;
}
