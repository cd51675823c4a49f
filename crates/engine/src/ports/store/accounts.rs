//! People who sign in to the console: accounts, memberships, sessions and one-time links.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Invitation, InvitationId, Membership, Role},
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};

use super::{StoreError, TokenHash};

/// A password as it is kept: salted, hashed, with the cost that it was hashed at.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// An account that somebody wants to sign in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRecord {
    pub account: Account,
    /// `None` until one is set.
    pub password: Option<PasswordHash>,
    pub is_disabled: bool,
}

/// A row of the list of accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSummary {
    pub account: Account,
    pub is_disabled: bool,
    pub has_password: bool,
    /// The last sign-in. `None`: nobody has signed in yet.
    pub signed_in_at: Option<Timestamp>,
    pub workspaces: u64,
}

/// Where a session was begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOrigin {
    /// The network of the browser's address, such as `203.0.113.0/24`.
    pub network: String,
    pub user_agent: String,
}

/// Who guesses at passwords, known by a keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guesser(pub [u8; 32]);

/// A guess at a password, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The account, from this network address.
    pub account: Guesser,
    /// The network address, whatever the account.
    pub address: Guesser,
    pub at: Timestamp,
}

/// Whose guesses are not looked at for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub who: Guesser,
    pub until: Timestamp,
}

/// A session that is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    pub token: TokenHash,
    pub account: AccountId,
    pub origin: SessionOrigin,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A session that is good, with who has it and where they belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    pub account: Account,
    pub memberships: Vec<Membership>,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
}

/// A session as its account's owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    pub token: TokenHash,
    pub origin: SessionOrigin,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
}

/// What a valid session may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAccess {
    pub token: TokenHash,
    pub is_admin: bool,
    /// Those of the workspaces in question that its account is a member of.
    pub workspaces: Vec<WorkspaceId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPurpose {
    /// Whoever has it chooses a password, and is signed in.
    SetPassword,
    /// Whoever has it is signed in.
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

/// A link that is good once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLink {
    pub token: TokenHash,
    pub account: AccountId,
    pub purpose: LinkPurpose,
    pub expires_at: Timestamp,
}

/// A link that is still good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRecord {
    pub account: Account,
    pub purpose: LinkPurpose,
    pub expires_at: Timestamp,
}

/// A new password in place of the current one.
#[derive(Clone, Debug)]
pub struct PasswordChange {
    pub account: AccountId,
    /// The hash that the given current password was compared with.
    pub current: PasswordHash,
    pub new: PasswordHash,
    /// The session that stays; every other one ends.
    pub session: TokenHash,
    pub guess: Guess,
}

/// The outcome of an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invited {
    /// It is pending, in place of any earlier one for the same address and workspace.
    Pending,
    AlreadyMember,
    /// The inviting account is no longer an owner of the workspace or an administrator.
    NotAllowed,
    /// The workspace has as many members and pending invitations as it may.
    LimitReached,
}

/// The outcome of accepting an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    Accepted,
    /// The invitation has expired, was withdrawn or accepted, or is for another address.
    NotValid,
    /// There is an account with this address, which must sign in.
    AccountExists,
}

/// The outcome of a change of a member's role, or of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    Done,
    NotAMember,
    /// The workspace would have no owner who can sign in.
    LastOwner,
}

/// The outcome of a change of an account by an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountChange {
    Done,
    /// The account is in that state already, or does not exist.
    Unchanged,
    /// The deployment would have no administrator.
    LastAdministrator,
}

#[async_trait]
pub trait AccountStore: Send + Sync {
    /// `false`: there is an account with this address, and nothing was written.
    async fn add_account(&self, account: &Account, audit: &AuditEvent) -> Result<bool, StoreError>;

    async fn account(&self, id: AccountId) -> Result<Option<AccountRecord>, StoreError>;

    async fn account_by_email(&self, email: &Email) -> Result<Option<AccountRecord>, StoreError>;

    /// All accounts, by their addresses.
    async fn accounts(&self, page: PageRequest) -> Result<Page<AccountSummary>, StoreError>;

    /// The addresses of these accounts. Those that are none are left out.
    async fn emails(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, Email)>, StoreError>;

    /// Makes an account an administrator, and removes its password, sessions and links: the address may be unproved.
    /// `false`: it is one already, or does not exist, and nothing was written.
    async fn make_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Makes an administrator an account like any other, and voids its invitations to workspaces that it does not own.
    async fn remove_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChange, StoreError>;

    /// Disables an account at the time of the event, ends its sessions and links, and voids its invitations of others.
    async fn disable_account(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChange, StoreError>;

    async fn enable_account(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChange, StoreError>;

    /// Stores an invitation, unless the workspace has `limit` members and invitations that are pending at its creation.
    async fn invite(&self, invitation: &Invitation, limit: u32, audit: &AuditEvent) -> Result<Invited, StoreError>;

    /// An invitation that is pending at `now`.
    async fn invitation(&self, id: InvitationId, now: Timestamp) -> Result<Option<Invitation>, StoreError>;

    /// The invitations of a workspace that are pending at `now`, by their addresses.
    async fn invitations(
        &self,
        workspace: WorkspaceId,
        now: Timestamp,
        page: PageRequest,
    ) -> Result<Page<Invitation>, StoreError>;

    /// `false`: the workspace has no such invitation, and nothing was written.
    async fn withdraw_invitation(
        &self,
        workspace: WorkspaceId,
        id: InvitationId,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Makes an account a member by an invitation for its address that is pending at the time of the event.
    async fn accept_invitation(
        &self,
        id: InvitationId,
        account: AccountId,
        audit: &AuditEvent,
    ) -> Result<Acceptance, StoreError>;

    /// Creates an account for the address of an invitation, makes it a member and begins a session.
    async fn accept_with_new_account(
        &self,
        id: InvitationId,
        account: &Account,
        password: &PasswordHash,
        session: NewSession,
        audit: &[AuditEvent],
    ) -> Result<Acceptance, StoreError>;

    /// Changes the role of a member. The invitations by somebody who is no owner any more are void.
    async fn set_role(
        &self,
        account: AccountId,
        membership: Membership,
        audit: &AuditEvent,
    ) -> Result<MemberChange, StoreError>;

    /// Removes a member, whose invitations to the workspace are void.
    async fn withdraw(
        &self,
        account: AccountId,
        workspace: WorkspaceId,
        audit: &AuditEvent,
    ) -> Result<MemberChange, StoreError>;

    /// The members of a workspace by their addresses.
    async fn members(&self, workspace: WorkspaceId, page: PageRequest) -> Result<Page<(Account, Role)>, StoreError>;

    /// Stores a link, and voids earlier ones of the same account. `false`: the account is disabled or does not exist,
    /// and nothing was written.
    async fn add_link(&self, link: NewLink, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// A link that is good at `now`, without using it up.
    async fn link(&self, token: TokenHash, now: Timestamp) -> Result<Option<LinkRecord>, StoreError>;

    /// Uses a link up, and begins a session. A new password ends every other session and link of its account. `false`:
    /// the link is not good, and nothing was written.
    async fn use_link(
        &self,
        token: TokenHash,
        password: Option<&PasswordHash>,
        session: NewSession,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError>;

    /// Counts a guess as a wrong one, by the rules of [`guessing`](ringtrue_domain::guessing), whichever node it was made
    /// at. `Some`: who has to wait for the longest, and nothing was counted.
    async fn count_guess(&self, guess: Guess) -> Result<Option<Wait>, StoreError>;

    /// Begins a session of somebody whose guess was right, and takes the guess back. `false`: the account has been
    /// disabled, or has another password than the one that was compared, and nothing was written.
    async fn begin_session(
        &self,
        session: NewSession,
        password: &PasswordHash,
        guess: Guess,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Replaces a password, and ends every other session and every link of its account. `false`: the current password is
    /// another one by now, and nothing was written.
    async fn change_password(&self, change: PasswordChange, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// A session that is good at `now`.
    async fn session(&self, token: TokenHash, now: Timestamp) -> Result<Option<SessionRecord>, StoreError>;

    /// The sessions of an account that are good at `now`, the last used first.
    async fn sessions(&self, account: AccountId, now: Timestamp) -> Result<Vec<SessionSummary>, StoreError>;

    /// Those of the sessions that are good at `now`, with those of the workspaces that each may see.
    async fn session_access(
        &self,
        tokens: &[TokenHash],
        workspaces: &[WorkspaceId],
        now: Timestamp,
    ) -> Result<Vec<SessionAccess>, StoreError>;

    /// Says that a session is in use, and until when it is good.
    async fn keep_session(&self, token: TokenHash, seen_at: Timestamp, expires_at: Timestamp)
    -> Result<(), StoreError>;

    /// `false`: there was none, and nothing was written.
    async fn end_session(&self, token: TokenHash, audit: &AuditEvent) -> Result<bool, StoreError>;
}
