//! Combinations of store ports: what a service uses, and all stores of a deployment.

use super::{
    accounts::{AccountStore, MemberStore, SessionStore},
    activity::{ActivityStore, UsageStore},
    audit::AuditStore,
    callbacks::CallbackStore,
    checks::CheckStore,
    control_plane::ControlPlaneStore,
    idempotency::IdempotencyStore,
    keys::KeyStore,
    leases::LeaseStore,
    node::{HousekeepingStore, NodeStore},
    privacy::PrivacyStore,
    request_log::RequestLogStore,
    sandbox::SandboxStore,
    silent::RedirectSessionStore,
    sms::SmsPartStore,
    tenants::{CredentialStore, ProjectStore, WorkspaceStore},
    tokens::RevocationStore,
    verifications::VerificationStore,
};

/// What the management service uses. Accounts give the audit log the names of actors.
pub trait ManagementStore:
    WorkspaceStore + ProjectStore + CredentialStore + UsageStore + ActivityStore + AuditStore + KeyStore + AccountStore
{
}

impl<
    S: WorkspaceStore + ProjectStore + CredentialStore + UsageStore + ActivityStore + AuditStore + KeyStore + AccountStore,
> ManagementStore for S
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
