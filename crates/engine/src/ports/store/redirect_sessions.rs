//! Redirect sessions: devices that are redirected to their operator and back.
//!
//! A redirect session is a row beside its check, from creation to conclusion. Each step is a conditional write: a
//! `state` is consumed once, and the operator's verdict is stored once.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckId, Sealed},
    network::NetworkId,
};

use super::StoreError;

/// A keyed hash of a secret: OAuth `state`, redemption code, session token or link token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// A check with its redirect session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSessionRecord {
    pub check: AnyCheck,
    /// `None` after the conclusion of the check.
    pub session: Option<RedirectSession>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSession {
    pub input: Sealed,
    pub verdict: Option<SealedVerdict>,
    pub wrong_codes: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedVerdict {
    pub code_hash: TokenHash,
    pub verdict: Sealed,
}

/// A device is redirected to its operator.
#[derive(Clone, Debug)]
pub struct BeginRedirect {
    pub check: CheckId,
    pub network: NetworkId,
    pub state_hash: TokenHash,
    /// Sealed data for the return of the device.
    pub pending_redirect: Sealed,
    pub at: Timestamp,
}

/// The result of a consumed `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedState {
    pub record: RedirectSessionRecord,
    pub pending_redirect: Sealed,
}

#[async_trait]
pub trait RedirectSessionStore: Send + Sync {
    /// Finds a check without a tenant: devices authenticate with the URL of the check.
    async fn redirect_session(&self, check: CheckId) -> Result<Option<RedirectSessionRecord>, StoreError>;

    /// Marks the check as pending on a network, and replaces any earlier `state`. `false`: the check is concluded or
    /// has a verdict.
    async fn begin_redirect(&self, redirect: BeginRedirect) -> Result<bool, StoreError>;

    /// Consumes a `state`. `None`: it is invalid.
    ///
    /// Not durable on return: a crash before the next step of the check may undo it.
    async fn consume_state(&self, check: CheckId, state: TokenHash) -> Result<Option<ConsumedState>, StoreError>;

    /// Stores the operator's verdict. `false`: the check is concluded or has a verdict.
    async fn store_verdict(&self, check: CheckId, verdict: SealedVerdict) -> Result<bool, StoreError>;

    /// Counts a wrong code. Returns the total, or `None` if the check is concluded.
    async fn count_wrong_code(&self, check: CheckId) -> Result<Option<u32>, StoreError>;
}
