//! What the engine asks of a database.
//!
//! Every method is one transaction: it happens whole or not at all, and has happened durably when it answers. The
//! list of methods is the list of things that can happen; there is no `update(row)`.
//!
//! A change of the control plane (workspaces, projects, credentials, keys, revocations) raises one counter, the
//! [`Version`], in its transaction, and marks what it touched with it. The counter's row is locked until the commit,
//! so versions become visible in their order and `changes_since` misses nothing.

mod accounts;
mod activity;
mod callbacks;
mod checks;
mod control_plane;
mod idempotency;
mod journeys;
mod operation;
mod privacy;
mod requests;
mod tenants;
mod usage;

use std::time::Duration;

pub use accounts::{
    Acceptance, AccountChange, AccountRecord, AccountStore, AccountSummary, Guess, Guesser, Invited, LinkPurpose,
    LinkRecord, MemberChange, NewLink, NewSession, PasswordChange, PasswordHash, SessionAccess, SessionOrigin,
    SessionRecord, SessionSummary, Wait,
};
pub use activity::{ActivityCount, ActivityFilter, ActivityPeriod, ActivityStore, WaitingCallbacks};
pub use callbacks::{
    AttemptLog, CallbackRecord, CallbackState, CallbackStore, LeasedCallback, MAX_ATTEMPTS_KEPT, MAX_RESENDS, Resent,
    Settlement, Then,
};
pub use checks::{
    Admitted, Awaits, CheckQuery, CheckStore, CodeHash, Course, MarkedPending, NewCallback, NewCheck, Recorded,
};
pub use control_plane::{
    Changes, ControlPlaneStore, KeyId, KeyPurpose, KeyStore, NotAKeyPurpose, Revocation, RevocationStore, SealedKey,
    TokenId, Version,
};
pub use idempotency::{ClaimOutcome, ClaimRequest, Completion, IdempotencyStore};
pub use journeys::{CameBack, Decision, JourneyRecord, JourneyStore, Progress, SetOut, TokenHash};
pub use operation::{
    AuditFilter, AuditStore, DatabaseHistory, DatabaseTime, Heartbeat, Housekeeping, KnownDatabase, NodeId, NodeStore,
};
pub use privacy::{Erased, PrivacyStore, StillOpen};
pub use requests::{KeptRequests, Rejection, RequestFilter, RequestRecord, RequestStore, StatusClass};
pub use tenants::{
    CredentialDeleted, CredentialLimits, CredentialStore, CredentialWritten, ProjectStore, ProjectUpdated,
    ProjectWritten, WorkspaceStore,
};
pub use usage::{UsageCount, UsageFilter, UsageGrouping, UsageRow, UsageStore};

/// Everything a deployment stores.
pub trait Store:
    WorkspaceStore
    + ProjectStore
    + CredentialStore
    + ControlPlaneStore
    + KeyStore
    + RevocationStore
    + IdempotencyStore
    + UsageStore
    + AuditStore
    + NodeStore
    + Housekeeping
    + CheckStore
    + JourneyStore
    + CallbackStore
    + PrivacyStore
    + AccountStore
    + ActivityStore
    + RequestStore
{
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be asked at the moment. Nothing is known of the outcome; asking again later may help.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The database refused for a reason that asking again will not mend.
    #[error("the database refused: {0}")]
    Refused(String),
    /// A list or search was stopped because it ran longer than it may.
    #[error("the query ran longer than {} ms and was stopped", .0.as_millis())]
    DeadlineExceeded(Duration),
    /// The workspace has as many searches running on this node as it may.
    #[error("too many searches of this workspace are running; wait for one to end")]
    TooManySearches,
    /// A row says something that cannot be.
    #[error("{table}: row {row}: {problem}")]
    Inconsistent { table: &'static str, row: String, problem: String },
}

/// What was found under an id, as one tenant sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    Mine(T),
    SomeoneElses,
    Nothing,
}

impl<T> Found<T> {
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::Mine(thing) => Found::Mine(of(thing)),
            Found::SomeoneElses => Found::SomeoneElses,
            Found::Nothing => Found::Nothing,
        }
    }
}
