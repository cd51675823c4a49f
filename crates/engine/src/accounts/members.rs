//! Members of workspaces, and invitations to become one.
//!
//! Addresses are not proved: an account may have been created by anybody who had a link for its address. Therefore an
//! invitation gives nothing to an account by itself. It becomes a membership when somebody accepts it who has its link
//! and is signed in with its address; without an account, the link creates one. The answer to an invitation is the same
//! whether or not there is an account.

use jiff::SignedDuration;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Invitation, InvitationId, Membership, Role},
    audit::{Action, Actor},
    id::time_ordered,
    page::{Page, PageRequest},
    tenancy::{Workspace, WorkspaceId},
};

use super::{
    AccessLink, ClientInfo, InvalidPassword, Password, Person, SessionToken, after, links::LinkKind, passwords,
};
use crate::{
    Engine,
    management::Manager,
    ports::{Acceptance, Found, Invited, MemberChange, StoreError},
};

/// How long an invitation is pending.
const INVITED_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error("a workspace keeps at least one owner")]
    LastOwner,
    #[error("there is no such member")]
    NotAMember,
    #[error("there is no such invitation")]
    NoInvitation,
    #[error("this address is a member already; its role is changed in the list of members")]
    AlreadyMember,
    #[error("only owners of the workspace and administrators invite members")]
    NotAllowed,
    #[error("a workspace has at most {limit} members and pending invitations")]
    LimitReached { limit: u32 },
    #[error("there is no such workspace")]
    WorkspaceNotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an invitation is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum InvitationError {
    #[error("this invitation has been accepted or withdrawn, or has expired")]
    NotValid,
    #[error("this invitation is for another address than the one that you are signed in with")]
    OtherAddress,
    #[error("there is an account with this address already; sign in with its password to accept the invitation")]
    AccountExists,
    #[error(transparent)]
    Password(#[from] InvalidPassword),
    #[error("too many people sign in at the moment; try again in a moment")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<passwords::Busy> for InvitationError {
    fn from(passwords::Busy: passwords::Busy) -> Self {
        InvitationError::Busy
    }
}

/// An invitation as its link shows it.
#[derive(Clone, Debug)]
pub struct PendingInvitation {
    pub invitation: Invitation,
    pub workspace: Workspace,
}

impl Engine {
    /// Invites an address to a workspace, at the command line.
    pub async fn invite_member_as_operator(
        &self,
        workspace: WorkspaceId,
        email: &Email,
        role: Role,
    ) -> Result<AccessLink, MemberError> {
        if let Found::Nothing = self.store().find_workspace(workspace, workspace).await? {
            return Err(MemberError::WorkspaceNotFound);
        }
        self.invite_member(&Manager { workspace, actor: Actor::Operator, request_id: None }, email, role).await
    }

    /// Invites an address to the manager's workspace. An earlier invitation of the same address is void.
    pub async fn invite_member(&self, manager: &Manager, email: &Email, role: Role) -> Result<AccessLink, MemberError> {
        let now = self.clock().now();
        let invited_by = match &manager.actor {
            Actor::Account(account) => Some(*account),
            Actor::Credential(_) | Actor::Operator | Actor::System => None,
        };
        let invitation = Invitation {
            id: InvitationId(time_ordered(now, self.entropy().bytes())),
            workspace: manager.workspace,
            email: email.clone(),
            role,
            invited_by,
            created_at: now,
            expires_at: after(now, INVITED_FOR),
        };
        let audit = self.audit(manager, Action::InvitationCreated, invitation.id.to_string(), vec![]);
        let limit = self.max_members();
        match self.store().invite(&invitation, limit, &audit).await? {
            Invited::Pending => Ok(self.invitation_link(&invitation)?),
            Invited::NotAllowed => Err(MemberError::NotAllowed),
            Invited::AlreadyMember => Err(MemberError::AlreadyMember),
            Invited::LimitReached => Err(MemberError::LimitReached { limit }),
        }
    }

    /// The pending invitations of the manager's workspace, by their addresses.
    pub async fn invitations(&self, manager: &Manager, page: PageRequest) -> Result<Page<Invitation>, StoreError> {
        self.store().invitations(manager.workspace, self.clock().now(), page).await
    }

    /// The link of a pending invitation, for those who may invite.
    pub async fn link_of_invitation(
        &self,
        manager: &Manager,
        id: InvitationId,
    ) -> Result<Option<AccessLink>, StoreError> {
        let found = self.store().invitation(id, self.clock().now()).await?;
        let own = found.filter(|invitation| invitation.workspace == manager.workspace);
        own.map(|invitation| self.invitation_link(&invitation)).transpose()
    }

    pub async fn withdraw_invitation(&self, manager: &Manager, id: InvitationId) -> Result<(), MemberError> {
        let audit = self.audit(manager, Action::InvitationWithdrawn, id.to_string(), vec![]);
        let was_pending = self.store().withdraw_invitation(manager.workspace, id, &audit).await?;
        if was_pending { Ok(()) } else { Err(MemberError::NoInvitation) }
    }

    /// The invitation that a link is for.
    pub async fn look_at_invitation(&self, token: &str) -> Result<PendingInvitation, InvitationError> {
        let id = self.link_id(LinkKind::Invitation, token)?.ok_or(InvitationError::NotValid)?;
        let found = self.store().invitation(InvitationId(id), self.clock().now()).await?;
        let invitation = found.ok_or(InvitationError::NotValid)?;
        match self.store().find_workspace(invitation.workspace, invitation.workspace).await? {
            Found::Mine(workspace) => Ok(PendingInvitation { invitation, workspace }),
            Found::SomeoneElses | Found::Nothing => Err(InvitationError::NotValid),
        }
    }

    /// Accepts an invitation for somebody who has its link and is signed in with its address.
    pub async fn accept_invitation(
        &self,
        person: &Person,
        token: &str,
        request_id: Option<String>,
    ) -> Result<Workspace, InvitationError> {
        let PendingInvitation { invitation, workspace } = self.look_at_invitation(token).await?;
        if invitation.email != person.account.email {
            return Err(InvitationError::OtherAddress);
        }
        let account = person.account.id;
        let manager = Manager { workspace: workspace.id, actor: Actor::Account(account), request_id };
        let audit = self.audit(&manager, Action::MembershipGranted, account.to_string(), vec![]);
        accepted(self.store().accept_invitation(invitation.id, account, &audit).await?)?;
        Ok(workspace)
    }

    /// Accepts an invitation for somebody who has its link and no account yet: creates the account, with a password, and
    /// begins a session.
    pub async fn accept_with_new_account(
        &self,
        token: &str,
        password: &str,
        client: &ClientInfo,
        request_id: Option<String>,
    ) -> Result<(SessionToken, Workspace), InvitationError> {
        let PendingInvitation { invitation, workspace } = self.look_at_invitation(token).await?;
        let hash = self.passwords().hash(Password::chosen(password)?, self.entropy()).await?;
        let now = self.clock().now();
        let id = AccountId(time_ordered(now, self.entropy().bytes()));
        let account = Account { id, email: invitation.email, is_admin: false, created_at: now };
        let (session_token, session) = self.new_session(id, client)?;
        let actor = Actor::Account(id);
        let manager = Manager { workspace: workspace.id, actor: actor.clone(), request_id };
        let audit = [
            self.account_event(actor.clone(), Action::AccountCreated, id),
            self.account_event(actor.clone(), Action::AccountPasswordSet, id),
            self.audit(&manager, Action::MembershipGranted, id.to_string(), vec![]),
            self.account_event(actor, Action::AccountSignedIn, id),
        ];
        accepted(self.store().accept_with_new_account(invitation.id, &account, &hash, session, &audit).await?)?;
        Ok((session_token, workspace))
    }

    pub async fn set_role(&self, manager: &Manager, account: AccountId, role: Role) -> Result<(), MemberError> {
        let changes = vec!["role".to_owned()];
        let audit = self.audit(manager, Action::MembershipChanged, account.to_string(), changes);
        let membership = Membership { workspace: manager.workspace, role };
        changed(self.store().set_role(account, membership, &audit).await?)
    }

    pub async fn remove_member(&self, manager: &Manager, account: AccountId) -> Result<(), MemberError> {
        let audit = self.audit(manager, Action::MembershipWithdrawn, account.to_string(), vec![]);
        changed(self.store().withdraw(account, manager.workspace, &audit).await?)
    }

    /// The members of the manager's workspace, by their addresses.
    pub async fn members(&self, manager: &Manager, page: PageRequest) -> Result<Page<(Account, Role)>, StoreError> {
        self.store().members(manager.workspace, page).await
    }

    /// The workspaces that a person may enter: all, for whoever runs the deployment.
    pub async fn workspaces_of(&self, person: &Person, page: PageRequest) -> Result<Page<Workspace>, StoreError> {
        if person.account.is_admin {
            return self.store().all_workspaces(page).await;
        }
        let known = |membership: &Membership| self.control_plane().workspace(membership.workspace);
        let mut items: Vec<Workspace> =
            person.memberships.iter().filter_map(known).map(|workspace| (*workspace).clone()).collect();
        items.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
        let total_items = items.len() as u64;
        let before = usize::try_from(page.offset()).unwrap_or(usize::MAX);
        let items = items.into_iter().skip(before).take(page.size() as usize).collect();
        Ok(Page { items, request: page, total_items })
    }

    fn invitation_link(&self, invitation: &Invitation) -> Result<AccessLink, StoreError> {
        let token = self.link_token(LinkKind::Invitation, invitation.id.0)?;
        Ok(AccessLink {
            id: invitation.id.0,
            email: invitation.email.clone(),
            path: format!("/console/invitation?token={token}"),
            expires_at: invitation.expires_at,
        })
    }
}

fn accepted(acceptance: Acceptance) -> Result<(), InvitationError> {
    match acceptance {
        Acceptance::Accepted => Ok(()),
        Acceptance::NotValid => Err(InvitationError::NotValid),
        Acceptance::AccountExists => Err(InvitationError::AccountExists),
    }
}

fn changed(change: MemberChange) -> Result<(), MemberError> {
    match change {
        MemberChange::Done => Ok(()),
        MemberChange::NotAMember => Err(MemberError::NotAMember),
        MemberChange::LastOwner => Err(MemberError::LastOwner),
    }
}
