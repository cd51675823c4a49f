//! Keys of the deployment, sealed by the master key.

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
    /// Signs callbacks of sandbox checks (RSA). Verifiers of live callbacks reject it.
    SandboxCallback,
    /// Encrypts stored data (AES-256-GCM).
    Seal,
    /// Derives short-lived tokens that are not stored: page and device links, completion codes, form tokens (HMAC).
    Link,
    /// Hashes numbers and codes for lookups, and authenticates rows (HMAC).
    Hash,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown key purpose; use `token`, `callback`, `sandbox_callback`, `seal`, `link` or `hash`")]
pub struct InvalidKeyPurpose;

impl KeyPurpose {
    /// The hash key cannot rotate: a new key would not find existing hashes.
    pub const ROTATING: [KeyPurpose; 5] =
        [KeyPurpose::Token, KeyPurpose::Callback, KeyPurpose::SandboxCallback, KeyPurpose::Seal, KeyPurpose::Link];
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
    /// From now on this signer signs and verifies rows. Without one, rows that grant rights can be neither written nor
    /// read.
    fn set_row_signer(&self, signer: Arc<dyn RowSigner>);

    /// Rows that were written or altered outside Ringtrue, by table. At most `limit` of each table.
    async fn find_altered_rows(&self, limit: usize) -> Result<Vec<AlteredRow>, StoreError>;

    /// Replaces the hash key, and what depends on it: signs the rows that are valid under the current key with the new
    /// one, unlinks identities, and deletes sessions, links, login throttles, idempotency keys and parts of SMS.
    async fn reset_hash_key(
        &self,
        key: &SealedKey,
        signer: Arc<dyn RowSigner>,
        audit: &AuditEvent,
    ) -> Result<HashKeyReset, StoreError>;

    /// Lists keys in order of creation.
    async fn list_keys(&self) -> Result<Vec<SealedKey>, StoreError>;

    /// Stores the first key of its purpose. `false`: a key exists, and nothing was written.
    async fn add_first_key(&self, key: &SealedKey, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Stores a successor and the new schedules of the keys that it retires, and deletes keys that are gone at
    /// `successor.schedule.published_at`. `false`: `newest` is no longer the newest key of this purpose, and nothing
    /// was written.
    async fn rotate_key(
        &self,
        newest: KeyId,
        successor: &SealedKey,
        retired: &[SealedKey],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Replaces the sealed form of keys, as read at version `read_at`. `false`: the control plane has changed since, and
    /// nothing was written.
    async fn reseal_keys(
        &self,
        read_at: ControlPlaneVersion,
        keys: &[SealedKey],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;
}

/// What a new hash key has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashKeyReset {
    /// Accounts, memberships, invitations and credentials that the new key has signed.
    pub signed_rows: u64,
    pub sessions: u64,
    pub unlinked_identities: u64,
}
