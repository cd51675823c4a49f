//! Console accounts, memberships, sessions and one-time links.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Invitation, InvitationId, Membership, Role},
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};

use super::{StoreError, TokenHash};

/// A salted password hash with its cost parameters.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("PasswordHash(…)")]
pub struct PasswordHash(pub String);

/// An account with its login data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRecord {
    pub account: Account,
    /// `None` until a password is set.
    pub password: Option<PasswordHash>,
    pub is_disabled: bool,
}

/// A row of the list of accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSummary {
    pub account: Account,
    pub is_disabled: bool,
    pub has_password: bool,
    /// Last sign-in.
    pub signed_in_at: Option<Timestamp>,
    pub workspaces: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOrigin {
    /// IP network of the browser, such as `203.0.113.0/24`.
    pub network: String,
    pub user_agent: String,
}

/// Keyed hash of an account and address, or of an address, whose logins are throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoginThrottleKey(pub [u8; 32]);

/// A login attempt, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginAttempt {
    /// Key of account and network address.
    pub account: LoginThrottleKey,
    /// Key of the network address alone.
    pub address: LoginThrottleKey,
    pub at: Timestamp,
}

/// The delay before the next login attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginBlocked {
    pub key: LoginThrottleKey,
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    pub token: TokenHash,
    pub account: AccountId,
    pub origin: SessionOrigin,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A valid session with its account and memberships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    pub account: Account,
    pub memberships: Vec<Membership>,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
}

/// A session in the list of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    pub token: TokenHash,
    pub origin: SessionOrigin,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
}

/// The access rights of a valid session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAccess {
    pub token: TokenHash,
    pub is_admin: bool,
    /// The requested workspaces that the account is a member of.
    pub workspaces: Vec<WorkspaceId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPurpose {
    /// Sets a password, and signs in.
    SetPassword,
    /// Signs in.
    SignIn,
}

impl LinkPurpose {
    pub const ALL: [LinkPurpose; 2] = [LinkPurpose::SetPassword, LinkPurpose::SignIn];

    pub fn as_str(self) -> &'static str {
        match self {
            LinkPurpose::SetPassword => "set_password",
            LinkPurpose::SignIn => "sign_in",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOneTimeLink {
    pub token: TokenHash,
    pub account: AccountId,
    pub purpose: LinkPurpose,
    pub expires_at: Timestamp,
}

/// A valid, unused link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTimeLink {
    pub account: Account,
    pub purpose: LinkPurpose,
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct PasswordChange {
    pub account: AccountId,
    /// The hash that the current password was verified with.
    pub current: PasswordHash,
    pub new: PasswordHash,
    /// The session to keep; all others end.
    pub session: TokenHash,
    pub attempt: LoginAttempt,
}

/// The outcome of an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InviteOutcome {
    /// The invitation replaces any pending one for the same address and workspace.
    Pending,
    AlreadyMember,
    /// The inviter is neither an owner of the workspace nor an administrator.
    NotAllowed,
    /// The workspace has reached its maximum number of members and pending invitations.
    LimitReached,
}

/// The outcome of accepting an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptOutcome {
    Accepted,
    /// The invitation is expired, withdrawn, already accepted or for another address.
    NotValid,
    /// An account with this address exists and must sign in.
    AccountExists,
}

/// The outcome of a role change or removal of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChangeOutcome {
    Changed,
    NotAMember,
    /// The workspace would have no owner who can sign in.
    LastOwner,
}

/// The outcome of a change of an account by an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountChangeOutcome {
    Changed,
    /// The account is in that state already, or does not exist.
    Unchanged,
    /// The deployment would have no administrator.
    LastAdministrator,
}

#[async_trait]
pub trait AccountStore: Send + Sync {
    /// `false`: an account with this address exists, and nothing was written.
    async fn add_account(&self, account: &Account, audit: &AuditEvent) -> Result<bool, StoreError>;

    async fn find_account(&self, id: AccountId) -> Result<Option<AccountRecord>, StoreError>;

    async fn find_account_by_email(&self, email: &Email) -> Result<Option<AccountRecord>, StoreError>;

    /// Lists all accounts by address.
    async fn list_accounts(&self, page: PageRequest) -> Result<Page<AccountSummary>, StoreError>;

    /// Unknown accounts are omitted.
    async fn emails_of_accounts(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, Email)>, StoreError>;

    /// Makes an account an administrator, and removes its password, sessions and links, because its address may be
    /// unverified. `false`: it is an administrator or does not exist, and nothing was written.
    async fn make_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Removes the administrator role, and voids the account's invitations to workspaces that it does not own.
    async fn remove_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError>;

    /// Disables an account at the time of the audit event, ends its sessions and links, and voids its invitations.
    async fn disable_account(&self, account: AccountId, audit: &AuditEvent)
    -> Result<AccountChangeOutcome, StoreError>;

    async fn enable_account(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError>;
}

/// Invitations to workspaces, and members.
#[async_trait]
pub trait MemberStore: Send + Sync {
    /// Stores an invitation, unless the workspace already has `limit` members and pending invitations.
    async fn create_invitation(
        &self,
        invitation: &Invitation,
        limit: u32,
        audit: &AuditEvent,
    ) -> Result<InviteOutcome, StoreError>;

    /// Finds an invitation that is pending at `now`.
    async fn find_invitation(&self, id: InvitationId, now: Timestamp) -> Result<Option<Invitation>, StoreError>;

    /// Lists the invitations of a workspace that are pending at `now`, by address.
    async fn list_invitations(
        &self,
        workspace: WorkspaceId,
        now: Timestamp,
        page: PageRequest,
    ) -> Result<Page<Invitation>, StoreError>;

    /// `false`: the invitation does not exist in the workspace, and nothing was written.
    async fn withdraw_invitation(
        &self,
        workspace: WorkspaceId,
        id: InvitationId,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Accepts an invitation that is pending at the time of the audit event and addressed to the account.
    async fn accept_invitation(
        &self,
        id: InvitationId,
        account: AccountId,
        audit: &AuditEvent,
    ) -> Result<AcceptOutcome, StoreError>;

    /// Creates an account for the address of an invitation, adds it as a member and begins a session.
    async fn accept_with_new_account(
        &self,
        id: InvitationId,
        account: &Account,
        password: &PasswordHash,
        session: NewSession,
        audit: &[AuditEvent],
    ) -> Result<AcceptOutcome, StoreError>;

    /// Changes the role of a member. Voids the invitations of a former owner.
    async fn change_member_role(
        &self,
        account: AccountId,
        membership: Membership,
        audit: &AuditEvent,
    ) -> Result<MemberChangeOutcome, StoreError>;

    /// Removes a member, and voids the member's invitations to the workspace.
    async fn remove_member(
        &self,
        account: AccountId,
        workspace: WorkspaceId,
        audit: &AuditEvent,
    ) -> Result<MemberChangeOutcome, StoreError>;

    /// Lists the members of a workspace by address.
    async fn list_members(
        &self,
        workspace: WorkspaceId,
        page: PageRequest,
    ) -> Result<Page<(Account, Role)>, StoreError>;
}

/// Sign-in: one-time links, throttling of logins, sessions.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Stores a link, and voids earlier links of the account. `false`: the account is disabled or does not exist, and
    /// nothing was written.
    async fn add_link(&self, link: NewOneTimeLink, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Finds a link that is valid at `now`, without redeeming it.
    async fn find_link(&self, token: TokenHash, now: Timestamp) -> Result<Option<OneTimeLink>, StoreError>;

    /// Redeems a link, and begins a session. A new password ends all other sessions and links of the account. `false`:
    /// the link is invalid, and nothing was written.
    async fn redeem_link(
        &self,
        token: TokenHash,
        password: Option<&PasswordHash>,
        session: NewSession,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError>;

    /// Counts an attempt as failed before the password is verified, by the rules of
    /// [`login_throttle`](ringtrue_domain::login_throttle). Returns `Some` with the longest delay if the login is
    /// throttled; the attempt is then not counted.
    async fn count_login_attempt(&self, attempt: LoginAttempt) -> Result<Option<LoginBlocked>, StoreError>;

    /// Begins a session after a successful login, and undoes the count of the attempt. `false`: the account was
    /// disabled or its password changed meanwhile, and nothing was written.
    async fn begin_session(
        &self,
        session: NewSession,
        password: &PasswordHash,
        attempt: LoginAttempt,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Replaces a password, and ends all other sessions and links of the account. `false`: the password changed
    /// meanwhile, and nothing was written.
    async fn change_password(&self, change: PasswordChange, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Finds a session that is valid at `now`.
    async fn find_session(&self, token: TokenHash, now: Timestamp) -> Result<Option<SessionRecord>, StoreError>;

    /// Lists the sessions of an account that are valid at `now`, last used first.
    async fn list_sessions(&self, account: AccountId, now: Timestamp) -> Result<Vec<SessionSummary>, StoreError>;

    /// The sessions that are valid at `now`, each with the workspaces that it may access.
    async fn session_access(
        &self,
        tokens: &[TokenHash],
        workspaces: &[WorkspaceId],
        now: Timestamp,
    ) -> Result<Vec<SessionAccess>, StoreError>;

    /// Records the use of a session, and extends it.
    async fn extend_session(
        &self,
        token: TokenHash,
        seen_at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(), StoreError>;

    /// `false`: the session does not exist, and nothing was written.
    async fn end_session(&self, token: TokenHash, audit: &AuditEvent) -> Result<bool, StoreError>;
}
