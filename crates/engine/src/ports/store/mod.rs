//! Store ports: what the engine requires of a database.
//!
//! Every method is one transaction, and its effect is durable when the method returns. Methods are domain operations;
//! there is no generic `update(row)`.
//!
//! Every change of the control plane (workspaces, projects, credentials, keys, revocations) increments the
//! [`ControlPlaneVersion`] in its transaction and marks the changed rows with it. The version row stays locked until
//! the commit, so versions become visible in order and `changes_since` misses nothing.

mod accounts;
mod activity;
mod callbacks;
mod checks;
mod control_plane;
mod deployment;
mod leases;
mod request_log;
mod sandbox;
mod sms_parts;
mod tenants;
mod verifications;

use std::time::Duration;

pub use accounts::*;
pub use activity::*;
pub use callbacks::*;
pub use checks::*;
pub use control_plane::*;
pub use deployment::*;
pub use leases::*;
pub use request_log::*;
pub use sandbox::*;
pub use sms_parts::*;
pub use tenants::*;
pub use verifications::*;

/// What the management service uses. Accounts give the audit log the names of actors.
pub trait ManagementStore:
    WorkspaceStore + ProjectStore + CredentialStore + UsageStore + AuditStore + KeyStore + AccountStore
{
}

impl<S: WorkspaceStore + ProjectStore + CredentialStore + UsageStore + AuditStore + KeyStore + AccountStore>
    ManagementStore for S
{
}

/// What the accounts service uses.
pub trait IdentityStore: AccountStore + AuditStore + MemberStore + SessionStore + WorkspaceStore {}

impl<S: AccountStore + AuditStore + MemberStore + SessionStore + WorkspaceStore> IdentityStore for S {}

/// What the token service uses.
pub trait TokenStore: RevocationStore + CredentialStore {}

impl<S: RevocationStore + CredentialStore> TokenStore for S {}

/// What a node uses for its heartbeat and for periodic work.
pub trait MaintenanceStore: NodeStore + HousekeepingStore + PrivacyStore + CallbackStore + KeyStore {}

impl<S: NodeStore + HousekeepingStore + PrivacyStore + CallbackStore + KeyStore> MaintenanceStore for S {}

/// All stores of a deployment.
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
    + HousekeepingStore
    + CheckStore
    + RedirectSessionStore
    + VerificationStore
    + CallbackStore
    + PrivacyStore
    + AccountStore
    + MemberStore
    + SessionStore
    + ActivityStore
    + RequestLogStore
    + LeaseStore
    + SmsPartStore
    + SandboxStore
    + ManagementStore
    + IdentityStore
    + TokenStore
    + MaintenanceStore
{
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The outcome is unknown. A retry may succeed.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A retry fails the same way.
    #[error("the database rejected the statement: {0}")]
    Refused(String),
    #[error("the query was cancelled after {} ms", .0.as_millis())]
    DeadlineExceeded(Duration),
    /// The workspace has reached its limit of concurrent searches or lists on this node.
    #[error("too many concurrent searches or lists in this workspace; retry when one has finished")]
    TooManySearches,
    /// A stored row cannot be decoded.
    #[error("{table}: row {row}: {problem}")]
    CorruptRow { table: &'static str, row: String, problem: String },
    /// The MAC of a stored row is wrong: it grants nothing and cannot be changed.
    #[error("{}: row {} was written or altered outside Ringtrue", .0.table, .0.row)]
    Altered(super::AlteredRow),
}

/// The result of a lookup by id on behalf of one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantLookup<T> {
    Found(T),
    /// The id exists and belongs to another tenant.
    OtherTenant,
    NotFound,
}

impl<T> TenantLookup<T> {
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> TenantLookup<U> {
        match self {
            TenantLookup::Found(thing) => TenantLookup::Found(of(thing)),
            TenantLookup::OtherTenant => TenantLookup::OtherTenant,
            TenantLookup::NotFound => TenantLookup::NotFound,
        }
    }

    pub fn found_or<E>(self, other_tenant: E, not_found: E) -> Result<T, E> {
        match self {
            TenantLookup::Found(thing) => Ok(thing),
            TenantLookup::OtherTenant => Err(other_tenant),
            TenantLookup::NotFound => Err(not_found),
        }
    }
}
