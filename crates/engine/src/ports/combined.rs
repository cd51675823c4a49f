//! Combines store ports into one trait for each service, and one for the whole deployment.

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
    sign_in::SignInStore,
    silent::RedirectSessionStore,
    sms::SmsPartStore,
    tenants::{CredentialStore, ProjectStore, WorkspaceStore},
    tokens::RevocationStore,
    verifications::VerificationStore,
};

/// The store ports of the management service. It uses accounts to show the names of actors in the audit log.
pub trait ManagementStore:
    WorkspaceStore + ProjectStore + CredentialStore + UsageStore + ActivityStore + AuditStore + KeyStore + AccountStore
{
}

impl<
    S: WorkspaceStore + ProjectStore + CredentialStore + UsageStore + ActivityStore + AuditStore + KeyStore + AccountStore,
> ManagementStore for S
{
}

/// The store ports of the accounts service.
pub trait IdentityStore: AccountStore + AuditStore + MemberStore + SessionStore + WorkspaceStore {}

impl<S: AccountStore + AuditStore + MemberStore + SessionStore + WorkspaceStore> IdentityStore for S {}

/// The store ports of the token service.
pub trait TokenStore: RevocationStore + CredentialStore {}

impl<S: RevocationStore + CredentialStore> TokenStore for S {}

/// The store ports that a node uses for its heartbeat and for periodic work.
pub trait MaintenanceStore: NodeStore + HousekeepingStore + PrivacyStore + CallbackStore + KeyStore {}

impl<S: NodeStore + HousekeepingStore + PrivacyStore + CallbackStore + KeyStore> MaintenanceStore for S {}

/// All store ports of a deployment.
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
    + SignInStore
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
