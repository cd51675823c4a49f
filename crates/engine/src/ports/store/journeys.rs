//! Devices on their way to the operator and back.
//!
//! A journey is a row beside its check, from creation to the end. Each step is a conditional write that says whether it
//! was the one: a ticket is used once, and what an operator said is written once.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckId, Sealed},
    network::NetworkId,
};

use super::StoreError;

/// A keyed hash of something that a device brings back: a ticket, or the code at the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// A check, and how far its device has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JourneyRecord {
    pub check: AnyCheck,
    /// `None` once the check has ended.
    pub progress: Option<Progress>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub brief: Sealed,
    /// What the operator said, and the code that reveals it.
    pub decision: Option<Decision>,
    pub wrong_codes: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub code: TokenHash,
    pub proof: Sealed,
}

/// A device is sent to its operator.
#[derive(Clone, Debug)]
pub struct SetOut {
    pub check: CheckId,
    pub network: NetworkId,
    pub ticket: TokenHash,
    /// What must be known when it is back.
    pub leg: Sealed,
    pub at: Timestamp,
}

/// A device is back from its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CameBack {
    pub record: JourneyRecord,
    /// What was to be known when it is back.
    pub leg: Sealed,
}

#[async_trait]
pub trait JourneyStore: Send + Sync {
    /// Whoever asks: a device has no access token, it has the check's URL.
    async fn journey(&self, check: CheckId) -> Result<Option<JourneyRecord>, StoreError>;

    /// The check becomes pending, of this network. A device that sets out again has a new ticket; the old one is void.
    /// `false`: the check has ended, or its operator has spoken.
    async fn set_out(&self, step: SetOut) -> Result<bool, StoreError>;

    /// Uses the ticket up, and gives the leg that it is of. `None`: it was no good.
    ///
    /// Nothing is promised to anybody by this: it may be undone if the machine fails before the next step of the check.
    async fn come_back(&self, check: CheckId, ticket: TokenHash) -> Result<Option<CameBack>, StoreError>;

    /// Keeps what the operator said. `false`: the check has ended, or another answer was there before.
    async fn decide(&self, check: CheckId, decision: Decision) -> Result<bool, StoreError>;

    /// Counts a wrong code, and gives how many there were. `None`: the check has ended.
    async fn count_wrong_code(&self, check: CheckId) -> Result<Option<u32>, StoreError>;
}
