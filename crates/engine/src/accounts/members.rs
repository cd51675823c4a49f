//! Manages the members of workspaces, and invitations to become a member.
//!
//! Email addresses are not verified: anybody who has an invitation link for an address can create the account with this
//! address. Therefore an invitation grants nothing by itself. It becomes a membership when a user signs in to the
//! account with the invited address and accepts the invitation with the link. If there is no such account, the link can
//! create it. Neither an invitation nor its link reveals whether the account exists.

use jiff::SignedDuration;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Invitation, InvitationId, Membership, Role},
    audit::{Action, Actor, AuditEvent},
    page::{Page, PageRequest},
    tenancy::{Workspace, WorkspaceId},
};

use super::{AccessLink, Accounts, ConsoleUser, InvalidPassword, Password, add_clamped, links::LinkKind, passwords};
use crate::{
    actor::ManagementActor,
    ports::{
        accounts::{AcceptOutcome, InviteOutcome, MemberChangeOutcome},
        store::{StoreError, TenantLookup},
    },
};

const INVITATION_LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error("the last owner of a workspace cannot be removed or lose the role")]
    LastOwner,
    #[error("member not found")]
    NotAMember,
    #[error("invitation not found")]
    InvitationNotFound,
    #[error("this address is already a member; change its role in the list of members")]
    AlreadyMember,
    #[error("only workspace owners and administrators can invite members")]
    NotAllowed,
    #[error("the workspace has reached its limit of {limit} members and pending invitations")]
    LimitReached { limit: u32 },
    #[error("workspace not found")]
    WorkspaceNotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum InvitationError {
    #[error("this invitation has been accepted or withdrawn, or has expired")]
    NotValid,
    #[error("this invitation is for a different address than your account's")]
    OtherAddress,
    #[error(transparent)]
    Password(#[from] InvalidPassword),
    #[error("too many sign-ins at the moment; try again shortly")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<passwords::PasswordQueueFull> for InvitationError {
    fn from(passwords::PasswordQueueFull: passwords::PasswordQueueFull) -> Self {
        InvitationError::Busy
    }
}

/// A valid invitation, and the workspace that it is for.
#[derive(Clone, Debug)]
pub struct PendingInvitation {
    pub invitation: Invitation,
    pub workspace: Workspace,
}

impl Accounts {
    /// Like [`invite_member`](Self::invite_member), for invitations from the command line of the server. Fails if the
    /// workspace does not exist.
    pub async fn invite_member_as_operator(
        &self,
        workspace: WorkspaceId,
        email: &Email,
        role: Role,
    ) -> Result<AccessLink, MemberError> {
        if let TenantLookup::NotFound = self.store.find_workspace(workspace, workspace).await? {
            return Err(MemberError::WorkspaceNotFound);
        }
        self.invite_member(&ManagementActor::of_command_line(workspace), email, role).await
    }

    /// Invites an email address to the manager's workspace. Replaces an earlier invitation of the same address.
    pub async fn invite_member(
        &self,
        manager: &ManagementActor,
        email: &Email,
        role: Role,
    ) -> Result<AccessLink, MemberError> {
        let now = self.context.now();
        let invited_by = match &manager.actor {
            Actor::Account(account) => Some(*account),
            Actor::Credential(_) | Actor::Operator | Actor::System => None,
        };
        let invitation = Invitation {
            id: InvitationId(self.context.new_uuid(now)),
            workspace: manager.workspace,
            email: email.clone(),
            role,
            invited_by,
            created_at: now,
            expires_at: add_clamped(now, INVITATION_LIFETIME),
        };
        let audit =
            manager.new_audit_event(&self.context, Action::InvitationCreated, invitation.id.to_string(), vec![]);
        let limit = self.context.settings.max_members;
        match self.store.create_invitation(&invitation, limit, &audit).await? {
            InviteOutcome::Pending => Ok(self.build_invitation_link(&invitation)?),
            InviteOutcome::NotAllowed => Err(MemberError::NotAllowed),
            InviteOutcome::AlreadyMember => Err(MemberError::AlreadyMember),
            InviteOutcome::LimitReached => Err(MemberError::LimitReached { limit }),
        }
    }

    /// Lists the pending invitations to the manager's workspace, sorted by email address.
    pub async fn list_invitations(
        &self,
        manager: &ManagementActor,
        page: PageRequest,
    ) -> Result<Page<Invitation>, StoreError> {
        self.store.list_invitations(manager.workspace, self.context.now(), page).await
    }

    /// Returns the link of a pending invitation. `None`: there is no such invitation to the manager's workspace.
    pub async fn find_invitation_link(
        &self,
        manager: &ManagementActor,
        id: InvitationId,
    ) -> Result<Option<AccessLink>, StoreError> {
        let found = self.store.find_invitation(id, self.context.now()).await?;
        let own = found.filter(|invitation| invitation.workspace == manager.workspace);
        own.map(|invitation| self.build_invitation_link(&invitation)).transpose()
    }

    pub async fn withdraw_invitation(&self, manager: &ManagementActor, id: InvitationId) -> Result<(), MemberError> {
        let audit = manager.new_audit_event(&self.context, Action::InvitationWithdrawn, id.to_string(), vec![]);
        let was_pending = self.store.withdraw_invitation(manager.workspace, id, &audit).await?;
        if was_pending { Ok(()) } else { Err(MemberError::InvitationNotFound) }
    }

    pub async fn find_invitation(&self, token: &str) -> Result<PendingInvitation, InvitationError> {
        let id = self.verify_link_token(LinkKind::Invitation, token).ok_or(InvitationError::NotValid)?;
        let found = self.store.find_invitation(InvitationId(id), self.context.now()).await?;
        let invitation = found.ok_or(InvitationError::NotValid)?;
        match self.store.find_workspace(invitation.workspace, invitation.workspace).await? {
            TenantLookup::Found(workspace) => Ok(PendingInvitation { invitation, workspace }),
            TenantLookup::OtherTenant | TenantLookup::NotFound => Err(InvitationError::NotValid),
        }
    }

    /// Accepts an invitation for a signed-in user. Fails unless the user's email address is the invited one.
    pub async fn accept_invitation(
        &self,
        user: &ConsoleUser,
        token: &str,
        request_id: Option<String>,
    ) -> Result<Workspace, InvitationError> {
        let PendingInvitation { invitation, workspace } = self.find_invitation(token).await?;
        if invitation.email != user.account.email {
            return Err(InvitationError::OtherAddress);
        }
        let account = user.account.id;
        let manager = ManagementActor { workspace: workspace.id, actor: Actor::Account(account), request_id };
        let audit = manager.new_audit_event(&self.context, Action::MembershipGranted, account.to_string(), vec![]);
        acceptance_result(self.store.accept_invitation(invitation.id, account, &audit).await?)?;
        Ok(workspace)
    }

    /// Creates an account with the invited address and this password, unless the address already has an account. Both
    /// cases have the same result and take the same time, because the inviter has the link too and must not learn
    /// whether the account exists. The invitation stays pending until the account accepts it.
    pub async fn create_invited_account(
        &self,
        token: &str,
        password: &str,
        request_id: Option<String>,
    ) -> Result<(), InvitationError> {
        let PendingInvitation { invitation, .. } = self.find_invitation(token).await?;
        let hash = self.password_hasher.hash(Password::parse_new(password)?, &*self.context.entropy).await?;
        let now = self.context.now();
        let id = AccountId(self.context.new_uuid(now));
        let account = Account { id, email: invitation.email, is_admin: false, created_at: now };
        let audit = [Action::AccountCreated, Action::AccountPasswordSet].map(|action| AuditEvent {
            request_id: request_id.clone(),
            ..self.context.new_account_audit_event(Actor::Account(id), action, id)
        });
        let is_valid = self.store.create_invited_account(invitation.id, &account, &hash, &audit).await?;
        if is_valid { Ok(()) } else { Err(InvitationError::NotValid) }
    }

    pub async fn set_role(&self, manager: &ManagementActor, account: AccountId, role: Role) -> Result<(), MemberError> {
        let changes = vec!["role".to_owned()];
        let audit = manager.new_audit_event(&self.context, Action::MembershipChanged, account.to_string(), changes);
        let membership = Membership { workspace: manager.workspace, role };
        member_change_result(self.store.change_member_role(account, membership, &audit).await?)
    }

    pub async fn remove_member(&self, manager: &ManagementActor, account: AccountId) -> Result<(), MemberError> {
        let audit = manager.new_audit_event(&self.context, Action::MembershipWithdrawn, account.to_string(), vec![]);
        member_change_result(self.store.remove_member(account, manager.workspace, &audit).await?)
    }

    /// Lists the members of the manager's workspace, sorted by email address.
    pub async fn list_members(
        &self,
        manager: &ManagementActor,
        page: PageRequest,
    ) -> Result<Page<(Account, Role)>, StoreError> {
        self.store.list_members(manager.workspace, page).await
    }

    /// Lists the workspaces that a user may access. An administrator may access all of them.
    pub async fn list_user_workspaces(
        &self,
        user: &ConsoleUser,
        page: PageRequest,
    ) -> Result<Page<Workspace>, StoreError> {
        if user.account.is_admin {
            return self.store.list_all_workspaces(page).await;
        }
        let known = |membership: &Membership| self.context.control_plane.workspace(membership.workspace);
        let mut items: Vec<Workspace> =
            user.memberships.iter().filter_map(known).map(|workspace| (*workspace).clone()).collect();
        items.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        let total_items = items.len() as u64;
        let skipped = usize::try_from(page.offset()).unwrap_or(usize::MAX);
        let items = items.into_iter().skip(skipped).take(page.size() as usize).collect();
        Ok(Page { items, request: page, total_items })
    }

    fn build_invitation_link(&self, invitation: &Invitation) -> Result<AccessLink, StoreError> {
        let token = self.build_link_token(LinkKind::Invitation, invitation.id.0)?;
        Ok(AccessLink {
            id: invitation.id.0,
            email: invitation.email.clone(),
            path: format!("/console/invitation?token={token}"),
            expires_at: invitation.expires_at,
        })
    }
}

fn acceptance_result(acceptance: AcceptOutcome) -> Result<(), InvitationError> {
    match acceptance {
        AcceptOutcome::Accepted => Ok(()),
        AcceptOutcome::NotValid => Err(InvitationError::NotValid),
    }
}

fn member_change_result(change: MemberChangeOutcome) -> Result<(), MemberError> {
    match change {
        MemberChangeOutcome::Changed => Ok(()),
        MemberChangeOutcome::NotAMember => Err(MemberError::NotAMember),
        MemberChangeOutcome::LastOwner => Err(MemberError::LastOwner),
    }
}
