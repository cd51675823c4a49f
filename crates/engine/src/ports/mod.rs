//! Ports: the traits through which the engine uses its environment (clock, randomness, database, operators, HTTP).

mod clock;
mod connector_status;
mod entropy;
mod inbox;
mod ip_locator;
mod number_lookup;
mod silent_connector;
mod store;
mod transport;

pub use clock::{Clock, DatabaseClock, ManualClock, SystemClock, TimeSample};
pub use connector_status::{
    BreakerPosition, BreakerStatus, ConnectorHealth, ConnectorState, ConnectorStatus, LastError, LinkStatus,
    MessageCounts, MonitoredConnector,
};
pub use entropy::{Entropy, SystemEntropy};
pub use inbox::{Inbox, PartialSms, SmsOutcome};
pub use ip_locator::{IpLocation, IpLocator};
pub use number_lookup::{LookupError, LookupResult, LookupSource, SimSwapConnector, SimSwapRequest};
pub use silent_connector::{
    AuthorizationRedirect, AuthorizationRequest, AuthorizationResponse, SilentConnector, SilentOperation, SilentResult,
};
pub use store::{
    AcceptOutcome, AccountChangeOutcome, AccountRecord, AccountStore, AccountSummary, ActivityCount, ActivityFilter,
    ActivityPeriod, ActivityStore, AttemptLog, AttemptOutcome, AttemptSettlement, AuditFilter, AuditStore,
    BeginRedirect, CallbackRecord, CallbackState, CallbackStore, CheckHistory, CheckQuery, CheckStore, ClaimOutcome,
    CodeHash, ConcludeOutcome, ConsumedState, ControlPlaneChanges, ControlPlaneStore, ControlPlaneVersion,
    CreateCheckOutcome, CreateCredentialOutcome, CreateProjectOutcome, CredentialLimits, CredentialStore,
    DatabaseHistory, DatabaseTime, DeferredErasure, DeleteCredentialOutcome, ErasureCounts, Expectation,
    HeartbeatResult, HousekeepingStore, IdempotencyClaim, IdempotencyStore, IdempotentResponse, InvalidKeyPurpose,
    InviteOutcome, KeyId, KeyPurpose, KeyStore, LastSeenDatabase, LeasedCallback, LinkPurpose, LoginAttempt,
    LoginBlocked, LoginThrottleKey, MAX_LOGGED_ATTEMPTS, MAX_RESENDS, MarkedPending, MemberChangeOutcome, NewCallback,
    NewCheck, NewOneTimeLink, NewSession, NodeId, NodeStore, OneTimeLink, PasswordChange, PasswordHash, PrivacyStore,
    ProjectStore, RedirectSession, RedirectSessionRecord, RedirectSessionStore, Rejection, RequestLogEntry,
    RequestLogFilter, RequestLogRetention, RequestLogStore, ResendOutcome, Revocation, RevocationStore, SealedKey,
    SealedVerdict, SessionAccess, SessionOrigin, SessionRecord, SessionSummary, StatusClass, Store, StoreError,
    TenantLookup, TokenHash, TokenId, UpdateProjectOutcome, UsageDelta, UsageFilter, UsageGrouping, UsageRow,
    UsageStore, WaitingCallbacks, WorkspaceStore,
};
pub use transport::{OutboundRequest, OutboundResponse, Transport, TransportError};
