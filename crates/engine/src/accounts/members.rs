//! How people come in: links that are good once, and memberships of workspaces.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::{Account, AccountId, Email, Membership, Role},
    audit::{Action, Actor, AuditEvent},
    id::time_ordered,
    page::{Page, PageRequest},
    tenancy::{Workspace, WorkspaceId},
};

use super::{InvalidPassword, Password, Person, SessionToken, after, is_random_token, passwords};
use crate::{
    Engine,
    management::Manager,
    ports::{Found, LinkPurpose, LinkRecord, NewLink, StoreError, TokenHash},
};

/// How long a link to choose a password is good.
const INVITED_FOR: SignedDuration = SignedDuration::from_hours(24);
/// How long a link that signs in by itself is good.
const LET_IN_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Where somebody must go to come in. Whoever has it comes in as them.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    pub email: Email,
    /// Path and query, below the deployment's base URL.
    pub path: String,
    pub expires_at: Timestamp,
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invitation(…)")
    }
}

/// Why a link does not open anything.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("this link has been used, or its time is up")]
    NotGood,
    #[error(transparent)]
    Password(#[from] InvalidPassword),
    #[error("too many people sign in at the moment; try again in a moment")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error("a workspace keeps at least one owner")]
    LastOwner,
    #[error("there is no such member")]
    NotAMember,
    #[error("there is no such workspace")]
    WorkspaceNotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Somebody who runs the deployment, made at the command line.
    pub async fn invite_admin(&self, email: &Email) -> Result<Invitation, StoreError> {
        let account = self.admin(email).await?;
        self.link_for(&account, LinkPurpose::SetPassword).await
    }

    /// The same, without a password: for a deployment to try things out with.
    pub async fn let_admin_in(&self, email: &Email) -> Result<Invitation, StoreError> {
        let account = self.admin(email).await?;
        self.link_for(&account, LinkPurpose::SignIn).await
    }

    /// A member of a workspace, made at the command line.
    pub async fn invite_member_as_operator(
        &self,
        workspace: WorkspaceId,
        email: &Email,
        role: Role,
    ) -> Result<Invitation, MemberError> {
        if let Found::Nothing = self.store().find_workspace(workspace, workspace).await? {
            return Err(MemberError::WorkspaceNotFound);
        }
        let event =
            |action, account: AccountId| self.audit_by(Actor::Operator, action, workspace, account.to_string(), vec![]);
        let account = self.add_member(workspace, email, role, Actor::Operator, event).await?;
        Ok(self.link_for(&account, LinkPurpose::SetPassword).await?)
    }

    /// Makes somebody a member of the manager's workspace, or changes their role there. Whoever has no password yet gets
    /// a link to choose one.
    pub async fn invite_member(
        &self,
        manager: &Manager,
        email: &Email,
        role: Role,
    ) -> Result<Option<Invitation>, MemberError> {
        let known = self.store().account_by_email(email).await?;
        if let Some(known) = &known
            && role != Role::Owner
        {
            self.keep_an_owner(manager.workspace, known.account.id).await?;
        }
        let event = |action, account: AccountId| self.audit(manager, action, account.to_string(), vec![]);
        let account = self.add_member(manager.workspace, email, role, manager.actor.clone(), event).await?;
        // Somebody else's password is not to be replaced by whoever owns some workspace.
        if known.is_some_and(|known| known.password.is_some()) {
            return Ok(None);
        }
        Ok(Some(self.link_for(&account, LinkPurpose::SetPassword).await?))
    }

    pub async fn remove_member(&self, manager: &Manager, account: AccountId) -> Result<(), MemberError> {
        self.keep_an_owner(manager.workspace, account).await?;
        let audit = self.audit(manager, Action::MembershipWithdrawn, account.to_string(), vec![]);
        let was_member = self.store().withdraw(account, manager.workspace, &audit).await?;
        if was_member { Ok(()) } else { Err(MemberError::NotAMember) }
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

    /// By their addresses.
    pub async fn members(&self, manager: &Manager) -> Result<Vec<(Account, Role)>, StoreError> {
        self.store().members(manager.workspace).await
    }

    /// What a link is for, without using it up.
    pub async fn look_at_link(&self, token: &str) -> Result<LinkRecord, LinkError> {
        if !is_random_token(token) {
            return Err(LinkError::NotGood);
        }
        let found = self.store().link(self.link_hash(token)?, self.clock().now()).await?;
        found.ok_or(LinkError::NotGood)
    }

    /// Uses a link up, and begins a session. One for a password needs the password.
    pub async fn use_link(&self, token: &str, password: Option<&str>) -> Result<SessionToken, LinkError> {
        let LinkRecord { account, purpose } = self.look_at_link(token).await?;
        let actor = Actor::Account(account.id);
        let mut audit = vec![self.account_event(actor.clone(), Action::AccountSignedIn, account.id)];
        let hash = match purpose {
            LinkPurpose::SignIn => None,
            LinkPurpose::SetPassword => {
                let chosen = Password::chosen(password.unwrap_or_default())?;
                audit.insert(0, self.account_event(actor, Action::AccountPasswordSet, account.id));
                let hash = self.passwords().hash(chosen, self.entropy()).await;
                Some(hash.map_err(|passwords::Busy| LinkError::Busy)?)
            }
        };
        let (session_token, session) = self.new_session(account.id)?;
        let used = self.store().use_link(self.link_hash(token)?, hash.as_ref(), session, &audit).await?;
        if used { Ok(session_token) } else { Err(LinkError::NotGood) }
    }

    /// The account with this address; a new one, if there is none.
    async fn account(&self, email: &Email, is_admin: bool, actor: Actor) -> Result<Account, StoreError> {
        if let Some(known) = self.store().account_by_email(email).await? {
            return Ok(known.account);
        }
        let now = self.clock().now();
        let id = AccountId(time_ordered(now, self.entropy().bytes()));
        let account = Account { id, email: email.clone(), is_admin, created_at: now };
        let audit = self.account_event(actor, Action::AccountCreated, id);
        if self.store().add_account(&account, &audit).await? {
            return Ok(account);
        }
        // Someone else was first.
        let known = self.store().account_by_email(email).await?;
        known.map(|known| known.account).ok_or_else(|| StoreError::Refused("an account that comes and goes".to_owned()))
    }

    async fn admin(&self, email: &Email) -> Result<Account, StoreError> {
        let account = self.account(email, true, Actor::Operator).await?;
        if !account.is_admin {
            let audit = self.account_event(Actor::Operator, Action::AccountMadeAdmin, account.id);
            self.store().make_admin(account.id, &audit).await?;
        }
        Ok(account)
    }

    async fn add_member(
        &self,
        workspace: WorkspaceId,
        email: &Email,
        role: Role,
        actor: Actor,
        event: impl FnOnce(Action, AccountId) -> AuditEvent,
    ) -> Result<Account, StoreError> {
        let account = self.account(email, false, actor).await?;
        let audit = event(Action::MembershipGranted, account.id);
        self.store().grant(account.id, Membership { workspace, role }, &audit).await?;
        Ok(account)
    }

    /// Whether a workspace has an owner left without this account.
    async fn keep_an_owner(&self, workspace: WorkspaceId, without: AccountId) -> Result<(), MemberError> {
        let members = self.store().members(workspace).await?;
        let mut owners = members.iter().filter(|(_, role)| *role == Role::Owner).map(|(account, _)| account.id);
        let is_one = owners.clone().any(|owner| owner == without);
        if is_one && owners.all(|owner| owner == without) { Err(MemberError::LastOwner) } else { Ok(()) }
    }

    async fn link_for(&self, account: &Account, purpose: LinkPurpose) -> Result<Invitation, StoreError> {
        let token = self.random_token();
        let good_for = match purpose {
            LinkPurpose::SetPassword => INVITED_FOR,
            LinkPurpose::SignIn => LET_IN_FOR,
        };
        let expires_at = after(self.clock().now(), good_for);
        let link = NewLink { token: self.link_hash(&token)?, account: account.id, purpose, expires_at };
        self.store().add_link(link).await?;
        Ok(Invitation { email: account.email.clone(), path: format!("/console/link?token={token}"), expires_at })
    }

    fn link_hash(&self, token: &str) -> Result<TokenHash, StoreError> {
        self.hash(&[b"account-link", token.as_bytes()]).map(TokenHash)
    }
}
