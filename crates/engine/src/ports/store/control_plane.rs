//! What every node keeps in memory, and how it learns of changes: versions, keys, revocations.

use std::{fmt, str::FromStr, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    key_schedule::KeySchedule,
    tenancy::{ClientId, Credential, Project, SecretDigest, Workspace},
};
use tokio::sync::Notify;
use uuid::Uuid;

use super::StoreError;

/// How often the control plane has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i64);

/// What has changed since a version, deleted credentials included.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub version: Version,
    /// Whether this is the whole control plane, to be taken in place of whatever was known: what is not in it is not
    /// there.
    pub is_everything: bool,
    pub workspaces: Vec<Workspace>,
    pub projects: Vec<Project>,
    pub credentials: Vec<Credential>,
    /// All keys, when any of them has changed or everything is told; `None` when none has.
    pub keys: Option<Vec<SealedKey>>,
    pub revocations: Vec<Revocation>,
}

#[async_trait]
pub trait ControlPlaneStore: Send + Sync {
    /// Everything when `version` is zero, and when the database has not come as far: then it is an older one, restored
    /// from a backup for instance. One consistent reading.
    ///
    /// Left out is what nobody needs any more: revocations that are over by `now` and, where everything is told,
    /// credentials that were deleted more than a day before.
    async fn changes_since(&self, version: Version, now: Timestamp) -> Result<Changes, StoreError>;

    /// Notified when another node may have changed something. A hint: it may be late, or never come.
    fn change_hint(&self) -> Arc<Notify>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub Uuid);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPurpose {
    /// Signs access tokens (HMAC).
    Token,
    /// Signs callbacks of live checks (RSA).
    Callback,
    /// Signs callbacks of sandbox checks (RSA): receivers of live ones refuse it.
    SandboxCallback,
    /// Seals what must be read again (AES-256-GCM).
    Seal,
    /// Hashes what must be found again and never read: numbers and codes (HMAC).
    Hash,
}

impl KeyPurpose {
    pub const ALL: [KeyPurpose; 5] =
        [KeyPurpose::Token, KeyPurpose::Callback, KeyPurpose::SandboxCallback, KeyPurpose::Seal, KeyPurpose::Hash];
    /// Those that can be relieved by a successor. What one hash key has hashed, no other would find.
    pub const ROTATING: [KeyPurpose; 4] =
        [KeyPurpose::Token, KeyPurpose::Callback, KeyPurpose::SandboxCallback, KeyPurpose::Seal];

    pub fn as_str(self) -> &'static str {
        match self {
            KeyPurpose::Token => "token",
            KeyPurpose::Callback => "callback",
            KeyPurpose::SandboxCallback => "sandbox_callback",
            KeyPurpose::Seal => "seal",
            KeyPurpose::Hash => "hash",
        }
    }
}

impl fmt::Display for KeyPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key purpose; use `token`, `callback`, `sandbox_callback`, `seal` or `hash`")]
pub struct NotAKeyPurpose;

impl FromStr for KeyPurpose {
    type Err = NotAKeyPurpose;

    fn from_str(text: &str) -> Result<Self, NotAKeyPurpose> {
        KeyPurpose::ALL.into_iter().find(|purpose| purpose.as_str() == text).ok_or(NotAKeyPurpose)
    }
}

/// A key as it is stored: closed by the master key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedKey {
    pub id: KeyId,
    pub purpose: KeyPurpose,
    pub schedule: KeySchedule,
    pub sealed: Vec<u8>,
}

#[async_trait]
pub trait KeyStore: Send + Sync {
    /// In the order in which they were made.
    async fn all_keys(&self) -> Result<Vec<SealedKey>, StoreError>;

    /// Stores the first key of its purpose. `false`: there is one already, and nothing was written.
    async fn add_first_key(&self, key: &SealedKey, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Stores a successor and the keys that it relieves with their new schedules, and deletes keys that were gone at
    /// `successor.schedule.published_at`. `false`: `newest` is no longer the newest key of this purpose, and nothing
    /// was written.
    async fn rotate_key(
        &self,
        newest: KeyId,
        successor: &SealedKey,
        relieved: &[SealedKey],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Replaces what keys are sealed as, and digests of credentials, all as they were read at `read_at`. `false`: the
    /// control plane has changed since, and nothing was written.
    async fn reseal(
        &self,
        read_at: Version,
        keys: &[SealedKey],
        digests: &[(ClientId, SecretDigest)],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;
}

/// Names an access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(pub Uuid);

/// A token that must not be accepted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub token: TokenId,
    /// Until when the revocation is kept: hours after the token has expired.
    pub expires_at: Timestamp,
}

#[async_trait]
pub trait RevocationStore: Send + Sync {
    /// Revoking twice is revoking once.
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError>;
}
