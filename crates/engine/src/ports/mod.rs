//! What the engine needs of the world outside, as traits: a clock, randomness, a store,
//! operators' messages and answers, tables of addresses, a way out.

mod addresses;
mod clock;
mod entropy;
mod inbox;
mod numbers;
mod reporting;
mod silent;
mod store;
mod transport;

pub use addresses::{AddressBook, Located};
pub use clock::{Clock, DatabaseClock, ManualClock, SystemClock, TimeSample};
pub use entropy::{Entropy, SystemEntropy};
pub use inbox::{Disposition, Glimpse, Inbox};
pub use numbers::{NumberSource, Resolved, SimSwapQuestion, SimSwapRoute, SourceFault};
pub use reporting::{Breaker, BreakerPosition, Condition, ConnectorReport, Counts, Links, Mishap, Reporting, Signs};
pub use silent::{Arrival, Departure, Journey, Question, Reply, SilentRoute};
pub use store::{
    Acceptance, AccountChange, AccountSummary, Invited, MemberChange, PasswordChange, SessionAccess, SessionOrigin,
    SessionSummary,
};
pub use store::{
    AccountRecord, AccountStore, Admitted, AttemptLog, AuditFilter, AuditStore, Awaits, CallbackRecord, CallbackState,
    CallbackStore, CameBack, Changes, CheckQuery, CheckStore, ClaimOutcome, ClaimRequest, CodeHash, Completion,
    ControlPlaneStore, CredentialDeleted, CredentialLimits, CredentialStore, CredentialWritten, DatabaseHistory,
    DatabaseTime, Decision, Erased, Found, Housekeeping, IdempotencyStore, JourneyRecord, JourneyStore, KeptRequests,
    KeyId, KeyPurpose, KeyStore, LeasedCallback, LinkPurpose, LinkRecord, NewCallback, NewCheck, NewLink, NewSession,
    NodeId, NodeStore, NotAKeyPurpose, PasswordHash, PrivacyStore, Progress, ProjectStore, ProjectUpdated,
    ProjectWritten, Recorded, Resent, Revocation, RevocationStore, SealedKey, SessionRecord, SetOut, Settlement,
    StillOpen, Store, StoreError, Then, TokenHash, TokenId, UsageCount, UsageFilter, UsageGrouping, UsageRow,
    UsageStore, Version, WorkspaceStore,
};
pub use store::{ActivityCount, ActivityFilter, ActivityPeriod, ActivityStore, MarkedPending, WaitingCallbacks};
pub use store::{Course, Guess, Guesser, MAX_ATTEMPTS_KEPT, MAX_RESENDS, Wait};
pub use store::{Heartbeat, KnownDatabase};
pub use store::{Rejection, RequestFilter, RequestRecord, RequestStore, StatusClass};
pub use transport::{Answer, Outgoing, Transport, Undelivered};
