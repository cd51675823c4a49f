//! People who sign in to the console: accounts, memberships, sessions and one-time links.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Membership, Role},
    audit::AuditEvent,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSession {
    pub token: TokenHash,
    pub account: AccountId,
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
}

#[async_trait]
pub trait AccountStore: Send + Sync {
    /// `false`: there is an account with this address, and nothing was written.
    async fn add_account(&self, account: &Account, audit: &AuditEvent) -> Result<bool, StoreError>;

    async fn account_by_email(&self, email: &Email) -> Result<Option<AccountRecord>, StoreError>;

    /// The addresses of these accounts. Those that are none are left out.
    async fn emails(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, Email)>, StoreError>;

    /// `false`: it was one already, or is none, and nothing was written.
    async fn make_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Gives an account this role, in place of any that it has in the workspace. `false`: it has it already, and nothing
    /// was written.
    async fn grant(&self, account: AccountId, membership: Membership, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// `false`: it was no member, and nothing was written.
    async fn withdraw(
        &self,
        account: AccountId,
        workspace: WorkspaceId,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// The members of a workspace by their addresses.
    async fn members(&self, workspace: WorkspaceId) -> Result<Vec<(Account, Role)>, StoreError>;

    async fn add_link(&self, link: NewLink) -> Result<(), StoreError>;

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

    /// Begins a session of somebody whose guess was right, and takes the guess back.
    async fn begin_session(&self, session: NewSession, guess: Guess, audit: &AuditEvent) -> Result<(), StoreError>;

    /// A session that is good at `now`.
    async fn session(&self, token: TokenHash, now: Timestamp) -> Result<Option<SessionRecord>, StoreError>;

    /// Says that a session is in use, and until when it is good.
    async fn keep_session(&self, token: TokenHash, seen_at: Timestamp, expires_at: Timestamp)
    -> Result<(), StoreError>;

    /// `false`: there was none, and nothing was written.
    async fn end_session(&self, token: TokenHash, audit: &AuditEvent) -> Result<bool, StoreError>;
}
