//! Console accounts, memberships, sessions and one-time links.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Invitation, InvitationId, Membership, Role},
    audit::AuditEvent,
    page::{Page, PageRequest},
    parse_error::default_error,
    tenancy::WorkspaceId,
};
use strum::{EnumString, IntoStaticStr};

use super::{hashes::TokenHash, keys::KeyId, store::StoreError};

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
    /// Whether a claim, and nothing else, made the account an administrator.
    pub admin_by_claim: bool,
    pub identity: Option<LinkedIdentity>,
    pub second_factor: Option<SecondFactor>,
}

/// An identity of an OpenID provider that signs in to an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedIdentity {
    /// Keyed hash of issuer and subject.
    pub hash: TokenHash,
    pub issuer: String,
}

/// The seed of the TOTP secret and the recovery codes, sealed for its account.
#[derive(Clone, Copy, PartialEq, Eq, derive_more::Debug)]
#[debug("SealedSeed(…)")]
pub struct SealedSeed(pub [u8; Self::LENGTH]);

impl SealedSeed {
    /// The id of the seal key, the nonce, 32 random bytes and the tag.
    pub const LENGTH: usize = 16 + 12 + 32 + 16;
}

/// The second factor of an account, and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondFactor {
    pub seed: SealedSeed,
    /// The last time step whose code was accepted.
    pub last_step: i64,
    /// Bit set.
    pub used_recovery_codes: i64,
}

/// A verified code of a second factor. The store accepts each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondFactorProof {
    Totp { step: i64 },
    RecoveryCode { index: u32 },
}

/// The use of a second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondFactorUse {
    pub account: AccountId,
    /// The seed that the code was verified with.
    pub seed: SealedSeed,
    pub proof: SecondFactorProof,
}

/// A second factor to add to an account, or to replace its current one with.
#[derive(Clone, Debug)]
pub struct NewSecondFactor {
    pub account: AccountId,
    pub seed: SealedSeed,
    /// Time step of the code that confirmed it.
    pub step: i64,
    /// The hash that the password was verified with.
    pub password: PasswordHash,
    /// A code of the second factor to replace. `None`: the account has none.
    pub replaces: Option<SecondFactorUse>,
    /// The session to keep; all others end, as they began without this second factor.
    pub session: TokenHash,
    pub attempts: Vec<LoginAttempt>,
}

/// Access rights of an account, with their sources, and its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountAccess {
    pub account: Account,
    pub is_disabled: bool,
    pub admin_by_claim: bool,
    pub identity: Option<LinkedIdentity>,
    /// Sorted by workspace.
    pub memberships: Vec<MembershipGrants>,
}

/// Roles in a workspace by source. The higher one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipGrants {
    pub workspace: WorkspaceId,
    /// By invitation, or by another user.
    pub manual: Option<Role>,
    /// By a claim of the last sign-in.
    pub claimed: Option<Role>,
}

impl MembershipGrants {
    /// `None`: not a member.
    pub fn role(&self) -> Option<Role> {
        self.manual.max(self.claimed)
    }
}

/// A sign-in by OpenID Connect.
#[derive(Clone, Debug)]
pub struct IdentitySignIn {
    /// As read before. `None`: the account is created.
    pub before: Option<AccountAccess>,
    pub after: AccountAccess,
    pub session: NewSession,
}

/// A row of the list of accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent columns of a list")]
pub struct AccountSummary {
    pub account: Account,
    pub is_disabled: bool,
    pub has_password: bool,
    /// Whether an identity of an OpenID provider is linked.
    pub has_identity: bool,
    pub has_second_factor: bool,
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
    pub has_password: bool,
    pub has_second_factor: bool,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidLinkPurpose, parse_err_fn = default_error)]
pub enum LinkPurpose {
    /// Sets a password, and signs in.
    SetPassword,
    /// Signs in.
    SignIn,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown purpose of a link")]
pub struct InvalidLinkPurpose;

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

    /// Makes an account an administrator, and removes its password, second factor, sessions and links, because its
    /// address may be unverified. `false`: it is an administrator not only by claim, or does not exist, and nothing was
    /// written.
    async fn make_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Removes the administrator role, and voids the account's invitations to workspaces that it does not own.
    async fn remove_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError>;

    /// Disables an account at the time of the audit event, ends its sessions and links, and voids its invitations.
    async fn disable_account(&self, account: AccountId, audit: &AuditEvent)
    -> Result<AccountChangeOutcome, StoreError>;

    async fn enable_account(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError>;

    async fn find_access(&self, account: AccountId) -> Result<Option<AccountAccess>, StoreError>;

    /// The account that is linked to an identity, otherwise the one with the email address.
    async fn find_access_by_identity(
        &self,
        identity: TokenHash,
        email: Option<&Email>,
    ) -> Result<Option<AccountAccess>, StoreError>;

    /// Replaces identity and access rights, creates the account if needed, and begins a session. An account that was
    /// not linked before loses its password, second factor, sessions and links, because their holder may be another
    /// person. `false`: the account has changed or exists meanwhile, or the identity belongs to another account, and
    /// nothing was written.
    async fn sign_in_with_identity(&self, sign_in: IdentitySignIn, audit: &[AuditEvent]) -> Result<bool, StoreError>;

    /// Replaces identity and access rights, and ends all sessions and links. `false`: the account has changed meanwhile,
    /// and nothing was written.
    async fn unlink_identity(
        &self,
        before: &AccountAccess,
        after: &AccountAccess,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError>;

    /// Adds or replaces a second factor, ends the account's other sessions, and undoes the count of the attempts.
    /// `false`: the password or the second factor changed, or the code was used already, and nothing was written.
    async fn enable_second_factor(&self, factor: NewSecondFactor, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Removes a second factor with one of its codes, and undoes the count of the attempt. `false`: the code was used
    /// already, or the second factor changed, and nothing was written.
    async fn disable_second_factor(
        &self,
        used: SecondFactorUse,
        attempt: LoginAttempt,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Removes the second factor without asking for a code. Returns `false` if the account has none.
    async fn remove_second_factor(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Seeds that another seal key than this one has sealed. At most `limit`.
    async fn list_seeds_of_other_keys(
        &self,
        active: KeyId,
        limit: u32,
    ) -> Result<Vec<(AccountId, SealedSeed)>, StoreError>;

    /// Replaces a seed by the same one under another seal key. `false`: the second factor has changed.
    async fn reseal_second_factor(
        &self,
        account: AccountId,
        old: SealedSeed,
        new: SealedSeed,
    ) -> Result<bool, StoreError>;

    /// Takes everything from an account whose row was altered outside Ringtrue: rights, password, second factor,
    /// identity, memberships, sessions and links. `None`: no account has this address. `false`: its row is unaltered,
    /// and nothing was written.
    async fn reset_altered_account(
        &self,
        email: &Email,
        audit: &AuditEvent,
    ) -> Result<Option<(AccountId, bool)>, StoreError>;
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

    /// Creates an account for the address of an invitation that is pending at the account's creation. Writes nothing if
    /// the address has an account; the result does not reveal it. `false`: the invitation is not valid.
    async fn create_invited_account(
        &self,
        id: InvitationId,
        account: &Account,
        password: &PasswordHash,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError>;

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

    /// Redeems a link of an account with a second factor: sets the password and ends all sessions and links, but begins
    /// no session. `false`: the link is invalid, and nothing was written.
    async fn redeem_link_without_session(
        &self,
        token: TokenHash,
        account: AccountId,
        password: &PasswordHash,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Counts an attempt as failed before the password is verified, by the rules of
    /// [`login_throttle`](ringtrue_domain::login_throttle). Returns `Some` with the longest delay if the login is
    /// throttled; the attempt is then not counted.
    async fn count_login_attempt(&self, attempt: LoginAttempt) -> Result<Option<LoginBlocked>, StoreError>;

    /// Begins a session after a successful login, and undoes the count of the attempt. `false`: the account was
    /// disabled, its password changed, or it has a second factor, and nothing was written.
    async fn begin_session(
        &self,
        session: NewSession,
        password: &PasswordHash,
        attempt: LoginAttempt,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Begins a session after a password and a second factor, and undoes the counts of both attempts. `false`: the
    /// account was disabled, its password or second factor changed, or the code was used already, and nothing was
    /// written.
    async fn begin_session_with_second_factor(
        &self,
        session: NewSession,
        password: &PasswordHash,
        used: SecondFactorUse,
        attempts: [LoginAttempt; 2],
        audit: &[AuditEvent],
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

    /// Ends all sessions of an account but one. `false`: there is no other, and nothing was written.
    async fn end_other_sessions(
        &self,
        account: AccountId,
        current: TokenHash,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// `false`: the session does not exist, and nothing was written.
    async fn end_session(&self, token: TokenHash, audit: &AuditEvent) -> Result<bool, StoreError>;
}
