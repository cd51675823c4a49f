//! Store port for the deployment's keys, which are stored encrypted with the master key.

use std::sync::Arc;

use async_trait::async_trait;
use ringtrue_domain::{audit::AuditEvent, key_schedule::KeySchedule, parse_error::default_error};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use super::{
    row_mac::RowSigner,
    store::{AlteredRow, ControlPlaneVersion, StoreError},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub Uuid);

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidKeyPurpose, parse_err_fn = default_error)]
pub enum KeyPurpose {
    /// Signs access tokens (HMAC).
    Token,
    /// Signs callbacks of live checks (RSA).
    Callback,
    /// Signs callbacks of sandbox checks (RSA). Verifiers of live callbacks reject its signatures.
    SandboxCallback,
    /// Signs ID tokens (RSA).
    IdToken,
    /// Signs ID tokens of clients that ask for ES256 (P-256).
    IdTokenEc,
    /// Encrypts stored data (AES-256-GCM).
    Seal,
    /// Derives short-lived tokens that are not stored: page and device links, completion codes and form tokens (HMAC).
    Link,
    /// Hashes numbers and codes for lookups, and signs rows that grant rights (HMAC).
    Hash,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown key purpose; use `token`, `callback`, `sandbox_callback`, `id_token`, `id_token_ec`, `seal`, `link` or `hash`"
)]
pub struct InvalidKeyPurpose;

impl KeyPurpose {
    /// The purposes whose keys can be rotated. The hash key cannot rotate, because lookups with a new key would not
    /// find existing hashes.
    pub const ROTATABLE: [KeyPurpose; 7] = [
        KeyPurpose::Token,
        KeyPurpose::Callback,
        KeyPurpose::SandboxCallback,
        KeyPurpose::IdToken,
        KeyPurpose::IdTokenEc,
        KeyPurpose::Seal,
        KeyPurpose::Link,
    ];
}

/// A stored key, encrypted with the master key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedKey {
    pub id: KeyId,
    pub purpose: KeyPurpose,
    pub schedule: KeySchedule,
    pub sealed: Vec<u8>,
}

#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Sets the signer that signs and verifies rows from now on. Until a signer is set, rows that grant rights can be
    /// neither written nor read.
    fn set_row_signer(&self, signer: Arc<dyn RowSigner>);

    /// Lists rows that were written or altered outside Ringtrue, by table, at most `limit` of each table.
    async fn find_altered_rows(&self, limit: usize) -> Result<Vec<AlteredRow>, StoreError>;

    /// Replaces the hash key and everything that depends on it. Signs the rows that are valid under the current key
    /// with the new one, unlinks OpenID identities from accounts, and deletes sessions, links, login throttles,
    /// idempotency keys and SMS parts.
    async fn reset_hash_key(
        &self,
        key: &SealedKey,
        signer: Arc<dyn RowSigner>,
        audit: &AuditEvent,
    ) -> Result<HashKeyReset, StoreError>;

    /// Lists keys in order of creation.
    async fn list_keys(&self) -> Result<Vec<SealedKey>, StoreError>;

    /// Stores the first key of its purpose. `false`: a key of this purpose exists, and nothing was written.
    async fn add_first_key(&self, key: &SealedKey, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Stores a successor key and the new schedules of the keys that it retires. Deletes the keys whose schedule has
    /// ended at `successor.schedule.published_at`. `false`: `newest` is no longer the newest key of this purpose, and
    /// nothing was written.
    async fn rotate_key(
        &self,
        newest: KeyId,
        successor: &SealedKey,
        retired: &[SealedKey],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Replaces the encrypted form of keys that were read at control-plane version `read_at`. `false`: the control
    /// plane has changed since, and nothing was written.
    async fn reseal_keys(
        &self,
        read_at: ControlPlaneVersion,
        keys: &[SealedKey],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;
}

/// What replacing the hash key has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashKeyReset {
    /// Number of accounts, memberships, invitations and credentials that were signed with the new key.
    pub signed_rows: u64,
    /// Number of deleted sessions.
    pub sessions: u64,
    pub unlinked_identities: u64,
}
