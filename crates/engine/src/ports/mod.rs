//! What the engine needs of the world outside, as traits: a clock, randomness, a store,
//! operators' messages, a way out.

mod clock;
mod entropy;
mod inbox;
mod store;
mod transport;

pub use clock::{Clock, ManualClock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
pub use inbox::{Disposition, Glimpse, Inbox};
pub use store::{
    Admitted, AttemptLog, AuditStore, CallbackRecord, CallbackState, CallbackStore, Changes, CheckStore, ClaimOutcome,
    ClaimRequest, CodeHash, Completion, ControlPlaneStore, CredentialStore, Erased, Found, Housekeeping,
    IdempotencyStore, KeyId, KeyPurpose, KeyStore, LeasedCallback, NewCallback, NewReverseSms, NodeId, NodeStore,
    NotAKeyPurpose, PrivacyStore, ProjectStore, ProjectUpdated, ProjectWritten, Recorded, Revocation, RevocationStore,
    SealedKey, Settlement, Store, StoreError, Then, TokenId, UsageCount, UsageFilter, UsageGrouping, UsageRow,
    UsageStore, Version, WorkspaceStore,
};
pub use transport::{Answer, Outgoing, Transport, Undelivered};
