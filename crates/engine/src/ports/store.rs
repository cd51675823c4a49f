//! What the engine asks of a database.
//!
//! Every method is one transaction: it happens whole or not at all, and has happened durably when it answers. The
//! list of methods is the list of things that can happen; there is no `update(row)`.
//!
//! A change of the control plane (workspaces, projects, credentials, keys, revocations) raises one counter, the
//! [`Version`], in its transaction, and marks what it touched with it. The counter's row is locked until the commit,
//! so versions become visible in their order and `changes_since` misses nothing.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    key_schedule::KeySchedule,
    network::NetworkId,
    page::{Page, PageRequest},
    product::Product,
    search::Filter,
    tenancy::{ClientId, Credential, CredentialOwner, Name, Project, ProjectId, RateLimits, Workspace, WorkspaceId},
};
use tokio::sync::Notify;
use uuid::Uuid;

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

#[async_trait]
pub trait WorkspaceStore: Send + Sync {
    async fn create_workspace(
        &self,
        workspace: &Workspace,
        credential: &Credential,
        audit: &[AuditEvent],
    ) -> Result<(), StoreError>;

    /// `None`: there is no such workspace, and nothing was written.
    async fn rename_workspace(
        &self,
        id: WorkspaceId,
        name: &Name,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError>;

    /// Replaces the limits. `None`: there is no such workspace, and nothing was written.
    async fn limit_workspace(
        &self,
        id: WorkspaceId,
        limits: RateLimits,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError>;

    async fn find_workspace(&self, caller: WorkspaceId, id: WorkspaceId) -> Result<Found<Workspace>, StoreError>;

    /// All of them, newest first: for whoever runs the deployment, never for a tenant.
    async fn all_workspaces(&self, page: PageRequest) -> Result<Page<Workspace>, StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectWritten {
    Done,
    /// Another project of the workspace has this name.
    NameTaken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectUpdated {
    Done,
    NameTaken,
    /// The project has been changed since it was read, or is gone.
    Stale,
}

#[async_trait]
pub trait ProjectStore: Send + Sync {
    /// Stores a project with its first credential and, for a request with an idempotency key, its answer.
    async fn create_project(
        &self,
        project: &Project,
        credential: &Credential,
        audit: &[AuditEvent],
        completion: Option<&Completion>,
    ) -> Result<ProjectWritten, StoreError>;

    async fn find_project(&self, workspace: WorkspaceId, id: ProjectId) -> Result<Found<Project>, StoreError>;

    /// Newest first.
    async fn list_projects(
        &self,
        workspace: WorkspaceId,
        page: PageRequest,
        filter: Option<&Filter>,
    ) -> Result<Page<Project>, StoreError>;

    /// Stores `project` in place of its previous revision, `project.revision.0 - 1`.
    async fn update_project(&self, project: &Project, audit: &AuditEvent) -> Result<ProjectUpdated, StoreError>;
}

/// Deleted credentials are invisible here; [`ControlPlaneStore::changes_since`] still tells of them.
#[async_trait]
pub trait CredentialStore: Send + Sync {
    async fn create_credential(
        &self,
        credential: &Credential,
        audit: &AuditEvent,
        completion: Option<&Completion>,
    ) -> Result<(), StoreError>;

    async fn find_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
    ) -> Result<Found<Credential>, StoreError>;

    /// Newest first.
    async fn list_credentials(&self, owner: CredentialOwner, page: PageRequest)
    -> Result<Page<Credential>, StoreError>;

    /// Marks it deleted, and writes the audit event, only when it is the owner's and not deleted yet.
    async fn delete_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Found<()>, StoreError>;
}

/// How often the control plane has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i64);

/// What has changed since a version, deleted credentials included.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub version: Version,
    pub workspaces: Vec<Workspace>,
    pub projects: Vec<Project>,
    pub credentials: Vec<Credential>,
    /// All keys, when any of them has changed; `None` when none has.
    pub keys: Option<Vec<SealedKey>>,
    pub revocations: Vec<Revocation>,
}

#[async_trait]
pub trait ControlPlaneStore: Send + Sync {
    /// Everything when `version` is zero. One consistent reading.
    async fn changes_since(&self, version: Version) -> Result<Changes, StoreError>;

    /// Notified when another node may have changed something. A hint: it may be late, or never come.
    fn change_hint(&self) -> Arc<Notify>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub Uuid);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPurpose {
    /// Signs access tokens (HMAC).
    Token,
    /// Signs callbacks (RSA).
    Callback,
    /// Seals what must be read again (AES-256-GCM).
    Seal,
}

impl KeyPurpose {
    pub const ALL: [KeyPurpose; 3] = [KeyPurpose::Token, KeyPurpose::Callback, KeyPurpose::Seal];

    pub fn as_str(self) -> &'static str {
        match self {
            KeyPurpose::Token => "token",
            KeyPurpose::Callback => "callback",
            KeyPurpose::Seal => "seal",
        }
    }
}

impl fmt::Display for KeyPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key's purpose: `token`, `callback` and `seal` are")]
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
    async fn all_keys(&self) -> Result<Vec<SealedKey>, StoreError>;

    /// Stores the first key of its purpose. `false`: there is one already, and nothing was written.
    async fn add_first_key(&self, key: &SealedKey, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Stores a successor and the schedules of the keys that it relieves, and deletes keys that were gone at
    /// `successor.schedule.published_at`. `false`: `newest` is no longer the newest key of this purpose, and nothing
    /// was written.
    async fn rotate_key(
        &self,
        newest: KeyId,
        successor: &SealedKey,
        relieved: &BTreeMap<KeyId, KeySchedule>,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;
}

/// Names an access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(pub Uuid);

/// A token that must not be accepted any more. Of no interest once the token has expired by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub token: TokenId,
    pub expires_at: Timestamp,
}

#[async_trait]
pub trait RevocationStore: Send + Sync {
    /// Revoking twice is revoking once.
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError>;
}

/// A request that wants to be the first with its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The project or workspace that the key belongs to.
    pub tenant: Uuid,
    pub key_digest: [u8; 32],
    /// What the request asks for: method, path and body.
    pub fingerprint: [u8; 32],
    /// Names this attempt, so that only it can complete or abandon the claim.
    pub claim: Uuid,
    pub now: Timestamp,
    /// After this instant another attempt may take over: whoever held the claim has died.
    pub lease_until: Timestamp,
    /// After this instant the key is free again.
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    Claimed,
    /// The first request with this key is still running.
    InProgress,
    /// The key stands for another request.
    Reused,
    /// The first request was answered: this is the sealed answer.
    Answered(Vec<u8>),
}

/// The answer of a request that held a claim, written in the transaction of what the request did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub tenant: Uuid,
    pub key_digest: [u8; 32],
    pub claim: Uuid,
    pub sealed_answer: Vec<u8>,
}

#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError>;

    /// Frees the key after a request that did nothing, unless someone else has taken the claim over.
    async fn abandon(&self, tenant: Uuid, key_digest: [u8; 32], claim: Uuid) -> Result<(), StoreError>;
}

/// The status that a check is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UsageStatus {
    Accepted,
    Pending,
    Completed,
    Expired,
    Error,
}

impl UsageStatus {
    pub const ALL: [UsageStatus; 5] =
        [UsageStatus::Accepted, UsageStatus::Pending, UsageStatus::Completed, UsageStatus::Expired, UsageStatus::Error];

    pub fn as_str(self) -> &'static str {
        match self {
            UsageStatus::Accepted => "ACCEPTED",
            UsageStatus::Pending => "PENDING",
            UsageStatus::Completed => "COMPLETED",
            UsageStatus::Expired => "EXPIRED",
            UsageStatus::Error => "ERROR",
        }
    }
}

/// A change of one hourly counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsageCount {
    pub project: ProjectId,
    pub product: Product,
    /// Any instant of the hour.
    pub at: Timestamp,
    pub status: UsageStatus,
    pub matched: Option<bool>,
    pub network: Option<NetworkId>,
    /// Negative when a check leaves this status.
    pub change: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGrouping {
    Hour,
    Day,
    Month,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageFilter {
    /// Whole hours count: those that begin at or after `from` and before `to`.
    pub from: Timestamp,
    pub to: Timestamp,
    pub grouping: UsageGrouping,
    pub project: Option<ProjectId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    pub period_start: Timestamp,
    pub project: ProjectId,
    pub product: Product,
    pub status: UsageStatus,
    pub matched: Option<bool>,
    pub network: Option<NetworkId>,
    pub count: i64,
}

#[async_trait]
pub trait UsageStore: Send + Sync {
    /// All of them or none.
    async fn count(&self, counts: &[UsageCount]) -> Result<(), StoreError>;

    /// In the order of period, project, product, status; counters that are zero are left out.
    async fn usage(&self, workspace: WorkspaceId, filter: UsageFilter) -> Result<Vec<UsageRow>, StoreError>;
}

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Newest first.
    async fn audit_events(&self, workspace: WorkspaceId, page: PageRequest) -> Result<Page<AuditEvent>, StoreError>;
}

/// Names a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub Uuid);

#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Says that `node` is alive `now`, forgets nodes last heard of before `dead_before`, and gives the live ones in
    /// the order of their ids.
    async fn heartbeat(&self, node: NodeId, now: Timestamp, dead_before: Timestamp) -> Result<Vec<NodeId>, StoreError>;

    async fn leave(&self, node: NodeId) -> Result<(), StoreError>;
}

#[async_trait]
pub trait Housekeeping: Send + Sync {
    /// Whether the database answers, and takes writes.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Deletes revocations of tokens that have expired and idempotency keys whose time is over, a bounded number at a
    /// time. Gives how many rows went.
    async fn forget_expired(&self, now: Timestamp) -> Result<u64, StoreError>;
}
