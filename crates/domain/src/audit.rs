//! Audit events.

use jiff::Timestamp;
use uuid::Uuid;

use crate::{
    account::AccountId,
    tenancy::{ClientId, WorkspaceId},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// An API client.
    Credential(ClientId),
    /// A console user.
    Account(AccountId),
    /// The command line of the deployment.
    Operator,
    /// The service itself, for example when it creates its first keys.
    System,
}

/// The audited action. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    WorkspaceCreated,
    WorkspaceUpdated,
    ProjectCreated,
    ProjectUpdated,
    AllowedNetworksReplaced,
    CredentialCreated,
    CredentialDeleted,
    KeyCreated,
    KeyRotated,
    KeysResealed,
    NumberErased,
    AccountCreated,
    AccountMadeAdmin,
    AccountSignedIn,
    AccountSignedOut,
    AccountPasswordSet,
    AccountAdminRemoved,
    AccountDisabled,
    AccountEnabled,
    AccountLinkCreated,
    AccountSessionEnded,
    AccountIdentityLinked,
    AccountIdentityUnlinked,
    AccountSecondFactorEnabled,
    AccountSecondFactorDisabled,
    AccountRecoveryCodeUsed,
    InvitationCreated,
    InvitationWithdrawn,
    MembershipGranted,
    MembershipChanged,
    MembershipWithdrawn,
    CallbackResent,
    DatabaseRestored,
}

impl Action {
    pub const ALL: [Action; 33] = [
        Action::WorkspaceCreated,
        Action::WorkspaceUpdated,
        Action::ProjectCreated,
        Action::ProjectUpdated,
        Action::AllowedNetworksReplaced,
        Action::CredentialCreated,
        Action::CredentialDeleted,
        Action::KeyCreated,
        Action::KeyRotated,
        Action::KeysResealed,
        Action::NumberErased,
        Action::AccountCreated,
        Action::AccountMadeAdmin,
        Action::AccountSignedIn,
        Action::AccountSignedOut,
        Action::AccountPasswordSet,
        Action::AccountAdminRemoved,
        Action::AccountDisabled,
        Action::AccountEnabled,
        Action::AccountLinkCreated,
        Action::AccountSessionEnded,
        Action::AccountIdentityLinked,
        Action::AccountIdentityUnlinked,
        Action::AccountSecondFactorEnabled,
        Action::AccountSecondFactorDisabled,
        Action::AccountRecoveryCodeUsed,
        Action::InvitationCreated,
        Action::InvitationWithdrawn,
        Action::MembershipGranted,
        Action::MembershipChanged,
        Action::MembershipWithdrawn,
        Action::CallbackResent,
        Action::DatabaseRestored,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Action::WorkspaceCreated => "workspace.created",
            Action::WorkspaceUpdated => "workspace.updated",
            Action::ProjectCreated => "project.created",
            Action::ProjectUpdated => "project.updated",
            Action::AllowedNetworksReplaced => "project.allowed_networks_replaced",
            Action::CredentialCreated => "credential.created",
            Action::CredentialDeleted => "credential.deleted",
            Action::KeyCreated => "key.created",
            Action::KeyRotated => "key.rotated",
            Action::KeysResealed => "key.resealed",
            Action::NumberErased => "number.erased",
            Action::AccountCreated => "account.created",
            Action::AccountMadeAdmin => "account.made_admin",
            Action::AccountSignedIn => "account.signed_in",
            Action::AccountSignedOut => "account.signed_out",
            Action::AccountPasswordSet => "account.password_set",
            Action::AccountAdminRemoved => "account.admin_removed",
            Action::AccountDisabled => "account.disabled",
            Action::AccountEnabled => "account.enabled",
            Action::AccountLinkCreated => "account.link_created",
            Action::AccountSessionEnded => "account.session_ended",
            Action::AccountIdentityLinked => "account.identity_linked",
            Action::AccountIdentityUnlinked => "account.identity_unlinked",
            Action::AccountSecondFactorEnabled => "account.second_factor_enabled",
            Action::AccountSecondFactorDisabled => "account.second_factor_disabled",
            Action::AccountRecoveryCodeUsed => "account.recovery_code_used",
            Action::InvitationCreated => "invitation.created",
            Action::InvitationWithdrawn => "invitation.withdrawn",
            Action::MembershipGranted => "membership.granted",
            Action::MembershipChanged => "membership.changed",
            Action::MembershipWithdrawn => "membership.withdrawn",
            Action::CallbackResent => "callback.resent",
            Action::DatabaseRestored => "database.restored",
        }
    }

    /// Type of the target. Part of the API.
    pub fn target_type(self) -> &'static str {
        match self {
            Action::WorkspaceCreated | Action::WorkspaceUpdated => "workspace",
            Action::ProjectCreated | Action::ProjectUpdated | Action::AllowedNetworksReplaced => "project",
            Action::CredentialCreated | Action::CredentialDeleted => "credential",
            Action::KeyCreated | Action::KeyRotated | Action::KeysResealed => "key",
            Action::NumberErased => "number",
            Action::AccountCreated
            | Action::AccountMadeAdmin
            | Action::AccountSignedIn
            | Action::AccountSignedOut
            | Action::AccountPasswordSet
            | Action::AccountAdminRemoved
            | Action::AccountDisabled
            | Action::AccountEnabled
            | Action::AccountLinkCreated
            | Action::AccountSessionEnded
            | Action::AccountIdentityLinked
            | Action::AccountIdentityUnlinked
            | Action::AccountSecondFactorEnabled
            | Action::AccountSecondFactorDisabled
            | Action::AccountRecoveryCodeUsed
            | Action::MembershipGranted
            | Action::MembershipChanged
            | Action::MembershipWithdrawn => "account",
            Action::InvitationCreated | Action::InvitationWithdrawn => "invitation",
            Action::CallbackResent => "check",
            Action::DatabaseRestored => "database",
        }
    }
}

/// An entry of the audit log, written in the transaction of its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    pub id: Uuid,
    /// `None` for changes of the deployment.
    pub workspace: Option<WorkspaceId>,
    pub at: Timestamp,
    pub actor: Actor,
    pub action: Action,
    pub target: String,
    /// Names of the changed fields, never their values, which may contain secrets. For an erased number: the count and
    /// latest deadline of its open checks.
    pub changes: Vec<String>,
    pub request_id: Option<String>,
}
