//! Who performs a management action: an actor that is authorised for a workspace, or for the whole deployment.

use ringtrue_domain::{
    account::AccountId,
    audit::{Action, Actor, AuditEvent},
    tenancy::WorkspaceId,
};

use crate::context::Context;

/// An actor that is authorised to manage a workspace by API, console or command line, with the request id for the audit
/// log.
#[derive(Clone, Debug)]
pub struct ManagementActor {
    pub workspace: WorkspaceId,
    pub actor: Actor,
    pub request_id: Option<String>,
}

impl ManagementActor {
    /// Creates the actor for commands at the command line of the server.
    pub fn of_command_line(workspace: WorkspaceId) -> Self {
        ManagementActor { workspace, actor: Actor::Operator, request_id: None }
    }

    pub(crate) fn new_audit_event(
        &self,
        context: &Context,
        action: Action,
        target: String,
        changes: Vec<String>,
    ) -> AuditEvent {
        let event = context.new_audit_event(self.actor.clone(), action, Some(self.workspace), target);
        AuditEvent { changes, request_id: self.request_id.clone(), ..event }
    }
}

/// An actor that is authorised for the whole deployment: an administrator account (see
/// [`ConsoleUser::authorize_admin`](crate::accounts::ConsoleUser::authorize_admin)), or someone who runs commands at
/// the command line of the server.
#[derive(Clone, Debug)]
pub struct Administrator {
    actor: Actor,
    request_id: Option<String>,
}

impl Administrator {
    /// Creates the actor for commands at the command line of the server. These commands need direct access to the
    /// database, so no further authorisation is needed.
    pub fn of_command_line() -> Self {
        Administrator { actor: Actor::Operator, request_id: None }
    }

    /// Creates the actor for an administrator. The caller must have checked that the account is an administrator.
    pub(crate) fn of_account(account: AccountId, request_id: Option<String>) -> Self {
        Administrator { actor: Actor::Account(account), request_id }
    }

    pub(crate) fn new_audit_event(&self, context: &Context, action: Action, account: AccountId) -> AuditEvent {
        let request_id = self.request_id.clone();
        AuditEvent { request_id, ..context.new_account_audit_event(self.actor.clone(), action, account) }
    }

    /// Returns the actor and the request id for the audit log.
    pub(crate) fn actor_and_request_id(&self) -> (Actor, Option<String>) {
        (self.actor.clone(), self.request_id.clone())
    }
}
