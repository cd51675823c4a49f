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

crate::named_enum! {
    /// The audited action. The names are part of the API.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        WorkspaceCreated = "workspace.created",
        WorkspaceUpdated = "workspace.updated",
        ProjectCreated = "project.created",
        ProjectUpdated = "project.updated",
        AllowedNetworksReplaced = "project.allowed_networks_replaced",
        CredentialCreated = "credential.created",
        CredentialDeleted = "credential.deleted",
        KeyCreated = "key.created",
        KeyRotated = "key.rotated",
        KeysResealed = "key.resealed",
        NumberErased = "number.erased",
        AccountCreated = "account.created",
        AccountMadeAdmin = "account.made_admin",
        AccountSignedIn = "account.signed_in",
        AccountSignedOut = "account.signed_out",
        AccountPasswordSet = "account.password_set",
        AccountAdminRemoved = "account.admin_removed",
        AccountDisabled = "account.disabled",
        AccountEnabled = "account.enabled",
        AccountLinkCreated = "account.link_created",
        AccountSessionEnded = "account.session_ended",
        AccountIdentityLinked = "account.identity_linked",
        AccountIdentityUnlinked = "account.identity_unlinked",
        AccountSecondFactorEnabled = "account.second_factor_enabled",
        AccountSecondFactorDisabled = "account.second_factor_disabled",
        AccountRecoveryCodeUsed = "account.recovery_code_used",
        InvitationCreated = "invitation.created",
        InvitationWithdrawn = "invitation.withdrawn",
        MembershipGranted = "membership.granted",
        MembershipChanged = "membership.changed",
        MembershipWithdrawn = "membership.withdrawn",
        CallbackResent = "callback.resent",
        DatabaseRestored = "database.restored",
    }

    #[error("unknown action")]
    pub struct InvalidAction;
}

impl Action {
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
