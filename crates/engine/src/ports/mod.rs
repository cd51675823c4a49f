//! What the engine needs of the world outside, as traits: a clock, randomness, a store.

mod clock;
mod entropy;
mod store;

pub use clock::{Clock, ManualClock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
pub use store::{
    AuditStore, Changes, ClaimOutcome, ClaimRequest, Completion, ControlPlaneStore, CredentialStore, Found,
    Housekeeping, IdempotencyStore, KeyId, KeyPurpose, KeyStore, NodeId, NodeStore, NotAKeyPurpose, ProjectStore,
    ProjectUpdated, ProjectWritten, Revocation, RevocationStore, SealedKey, Store, StoreError, TokenId, UsageCount,
    UsageFilter, UsageGrouping, UsageRow, UsageStatus, UsageStore, Version, WorkspaceStore,
};
