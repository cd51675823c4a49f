//! Revocation of access tokens.

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
    /// End of retention, hours after the expiry of the token.
    pub expires_at: Timestamp,
}

#[async_trait]
pub trait RevocationStore: Send + Sync {
    /// Idempotent.
    async fn revoke_token(&self, revocation: Revocation) -> Result<(), StoreError>;
}
