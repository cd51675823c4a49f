//! Events of the audit log.

use jiff::Timestamp;
use strum::{EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use crate::{
    account::AccountId,
    parse_error::default_error,
    tenancy::{ClientId, WorkspaceId},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// An API client.
    Credential(ClientId),
    /// A console user.
    Account(AccountId),
    /// An administrator who runs a command on the server's command line.
    Operator,
    /// The service itself, for example when it creates its first keys.
    System,
}

/// An action that the audit log records. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, parse_err_ty = InvalidAction, parse_err_fn = default_error)]
pub enum Action {
    #[strum(serialize = "workspace.created")]
    WorkspaceCreated,
    #[strum(serialize = "workspace.updated")]
    WorkspaceUpdated,
    #[strum(serialize = "project.created")]
    ProjectCreated,
    #[strum(serialize = "project.updated")]
    ProjectUpdated,
    #[strum(serialize = "project.allowed_networks_replaced")]
    AllowedNetworksReplaced,
    #[strum(serialize = "credential.created")]
    CredentialCreated,
    #[strum(serialize = "credential.deleted")]
    CredentialDeleted,
    #[strum(serialize = "key.created")]
    KeyCreated,
    #[strum(serialize = "key.rotated")]
    KeyRotated,
    #[strum(serialize = "key.resealed")]
    KeysResealed,
    #[strum(serialize = "number.erased")]
    NumberErased,
    #[strum(serialize = "number.searched")]
    NumberSearched,
    #[strum(serialize = "sign_in.tested")]
    SignInTested,
    #[strum(serialize = "account.created")]
    AccountCreated,
    #[strum(serialize = "account.made_admin")]
    AccountMadeAdmin,
    #[strum(serialize = "account.signed_in")]
    AccountSignedIn,
    #[strum(serialize = "account.sign_in_failed")]
    AccountSignInFailed,
    #[strum(serialize = "account.signed_out")]
    AccountSignedOut,
    #[strum(serialize = "account.password_set")]
    AccountPasswordSet,
    #[strum(serialize = "account.admin_removed")]
    AccountAdminRemoved,
    #[strum(serialize = "account.disabled")]
    AccountDisabled,
    #[strum(serialize = "account.enabled")]
    AccountEnabled,
    #[strum(serialize = "account.reset")]
    AccountReset,
    #[strum(serialize = "account.link_created")]
    AccountLinkCreated,
    #[strum(serialize = "account.session_ended")]
    AccountSessionEnded,
    #[strum(serialize = "account.identity_linked")]
    AccountIdentityLinked,
    #[strum(serialize = "account.identity_unlinked")]
    AccountIdentityUnlinked,
    #[strum(serialize = "account.second_factor_enabled")]
    AccountSecondFactorEnabled,
    #[strum(serialize = "account.second_factor_disabled")]
    AccountSecondFactorDisabled,
    #[strum(serialize = "account.recovery_code_used")]
    AccountRecoveryCodeUsed,
    #[strum(serialize = "invitation.created")]
    InvitationCreated,
    #[strum(serialize = "invitation.withdrawn")]
    InvitationWithdrawn,
    #[strum(serialize = "membership.granted")]
    MembershipGranted,
    #[strum(serialize = "membership.changed")]
    MembershipChanged,
    #[strum(serialize = "membership.withdrawn")]
    MembershipWithdrawn,
    #[strum(serialize = "callback.resent")]
    CallbackResent,
    #[strum(serialize = "database.restored")]
    DatabaseRestored,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown action")]
pub struct InvalidAction;

impl Action {
    /// Returns the type of the action's target. The types are part of the API.
    pub fn target_type(self) -> &'static str {
        match self {
            Action::WorkspaceCreated | Action::WorkspaceUpdated => "workspace",
            Action::ProjectCreated
            | Action::ProjectUpdated
            | Action::AllowedNetworksReplaced
            | Action::NumberSearched
            | Action::SignInTested => "project",
            Action::CredentialCreated | Action::CredentialDeleted => "credential",
            Action::KeyCreated | Action::KeyRotated | Action::KeysResealed => "key",
            Action::NumberErased => "number",
            Action::AccountCreated
            | Action::AccountMadeAdmin
            | Action::AccountSignedIn
            | Action::AccountSignInFailed
            | Action::AccountSignedOut
            | Action::AccountPasswordSet
            | Action::AccountAdminRemoved
            | Action::AccountDisabled
            | Action::AccountEnabled
            | Action::AccountReset
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

/// An entry of the audit log. If it records a change, it is written in the same transaction as the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    pub id: Uuid,
    /// `None`: the event concerns the whole deployment.
    pub workspace: Option<WorkspaceId>,
    pub at: Timestamp,
    pub actor: Actor,
    pub action: Action,
    pub target: String,
    /// Names of the changed fields, never their values, which may contain secrets. For an erased number: how many of
    /// its checks are still open, and their latest deadline. For a searched number: its last digits. For a tested
    /// sign-in: the client. For a failed
    /// sign-in: what was rejected.
    pub changes: Vec<String>,
    pub request_id: Option<String>,
}
