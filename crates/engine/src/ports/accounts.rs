//! Store ports for console accounts, workspace members, sessions and one-time links.

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

/// A salted password hash, encoded with its cost parameters.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("PasswordHash(…)")]
pub struct PasswordHash(pub String);

/// An account with everything that sign-in needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRecord {
    pub account: Account,
    /// `None` until a password is set.
    pub password: Option<PasswordHash>,
    pub is_disabled: bool,
    /// Whether the account is an administrator only because its OpenID provider says so in a claim.
    pub admin_by_claim: bool,
    pub identity: Option<LinkedIdentity>,
    pub second_factor: Option<SecondFactor>,
}

/// An identity at an OpenID provider, with which its user can sign in to the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedIdentity {
    /// Keyed hash of issuer and subject.
    pub hash: TokenHash,
    pub issuer: String,
}

/// Random seed from which an account's TOTP secret and recovery codes are derived. Encrypted, and bound to the account.
#[derive(Clone, Copy, PartialEq, Eq, derive_more::Debug)]
#[debug("SealedSeed(…)")]
pub struct SealedSeed(pub [u8; Self::LENGTH]);

impl SealedSeed {
    /// Length in bytes: the id of the key that encrypts the seed, the nonce, the seed and the authentication tag.
    pub const LENGTH: usize = 16 + 12 + 32 + 16;
}

/// An account's second factor, with the codes that were already used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondFactor {
    pub seed: SealedSeed,
    /// Time step of the last accepted TOTP code. Codes of this step and earlier ones are rejected.
    pub last_step: i64,
    /// Bit set: bit `n` is set once the recovery code with index `n` is used.
    pub used_recovery_codes: i64,
}

/// A second-factor code that the engine has verified. The store accepts each code only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondFactorProof {
    Totp { step: i64 },
    RecoveryCode { index: u32 },
}

/// A verified second-factor code, for the store to mark as used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondFactorUse {
    pub account: AccountId,
    /// The seed that the code was verified with. If the account has another seed by now, the code is rejected.
    pub seed: SealedSeed,
    pub proof: SecondFactorProof,
}

/// A second factor to add to an account, or to replace its current one with.
#[derive(Clone, Debug)]
pub struct NewSecondFactor {
    pub account: AccountId,
    pub seed: SealedSeed,
    /// Time step of the TOTP code with which the user confirmed the new second factor.
    pub step: i64,
    /// The hash that the password was verified with. If the password has changed since, nothing is written.
    pub password: PasswordHash,
    /// A verified code of the second factor being replaced. `None`: the account has no second factor yet.
    pub replaces: Option<SecondFactorUse>,
    /// The session to keep. All other sessions end, because they began without this second factor.
    pub session: TokenHash,
    /// The user's attempts to enter the password and, if a second factor is replaced, one of its codes. They were
    /// counted as failed before they were verified, and stop counting when the new second factor is stored.
    pub attempts: Vec<LoginAttempt>,
}

/// An account's access rights, with the source of each right, and its linked identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountAccess {
    pub account: Account,
    pub is_disabled: bool,
    pub admin_by_claim: bool,
    pub identity: Option<LinkedIdentity>,
    /// Sorted by workspace.
    pub memberships: Vec<MembershipGrants>,
}

/// An account's roles in a workspace, by source. The higher role applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipGrants {
    pub workspace: WorkspaceId,
    /// Granted by an invitation or by another user.
    pub manual: Option<Role>,
    /// Granted by a claim of the OpenID provider at the last sign-in.
    pub claimed: Option<Role>,
}

impl MembershipGrants {
    /// The role that applies. `None`: the account is not a member.
    pub fn role(&self) -> Option<Role> {
        self.manual.max(self.claimed)
    }
}

/// A sign-in with OpenID Connect: the account's access rights before and after it, and the new session.
#[derive(Clone, Debug)]
pub struct OpenIdSignIn {
    /// The account as it was read when the sign-in began. `None`: the sign-in creates the account.
    pub before: Option<AccountAccess>,
    pub after: AccountAccess,
    pub session: NewSession,
}

/// An account in the list of all accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent columns of a list")]
pub struct AccountSummary {
    pub account: Account,
    pub is_disabled: bool,
    pub has_password: bool,
    /// Whether an identity of an OpenID provider is linked.
    pub has_identity: bool,
    pub has_second_factor: bool,
    pub signed_in_at: Option<Timestamp>,
    pub workspaces: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOrigin {
    /// IP network of the browser, such as `203.0.113.0/24`.
    pub network: String,
    pub user_agent: String,
}

/// Keyed hash under which failed logins are counted: of an account with a network address, or of a network address
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoginThrottleKey(pub [u8; 32]);

/// A login attempt, counted under two throttle keys. It counts as failed until the password or code is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginAttempt {
    /// Key of the account together with the network address.
    pub account: LoginThrottleKey,
    /// Throttle key of the network address, whatever the account.
    pub address: LoginThrottleKey,
    pub at: Timestamp,
}

/// A throttled login: the key that is throttled, and when the next attempt is allowed.
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

/// A session in an account's list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    pub token: TokenHash,
    pub origin: SessionOrigin,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
}

/// The current access rights of a valid session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAccess {
    pub token: TokenHash,
    pub is_admin: bool,
    /// The workspaces, among those in the request, of which the account is a member.
    pub workspaces: Vec<WorkspaceId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidLinkPurpose, parse_err_fn = default_error)]
pub enum LinkPurpose {
    /// Lets the user set a password, and signs in.
    SetPassword,
    /// Signs in without a password.
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

/// A one-time link that is unexpired and unused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTimeLink {
    pub account: Account,
    pub purpose: LinkPurpose,
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct PasswordChange {
    pub account: AccountId,
    /// The hash that the current password was verified with. If it has changed since, nothing is written.
    pub current: PasswordHash,
    pub new: PasswordHash,
    /// The session to keep. All other sessions of the account end.
    pub session: TokenHash,
    /// The attempt that was counted as failed before the password was verified.
    pub attempt: LoginAttempt,
}

/// The outcome of an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InviteOutcome {
    /// The invitation is stored. It replaces any pending one for the same address and workspace.
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
    /// Refused, because the workspace would be left without an owner who can sign in.
    LastOwner,
}

/// The outcome of a change of an account by an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountChangeOutcome {
    Changed,
    /// The account is already in the requested state, or does not exist.
    Unchanged,
    /// Refused, because the deployment would be left without an administrator.
    LastAdministrator,
}

#[async_trait]
pub trait AccountStore: Send + Sync {
    /// Creates an account. `false`: an account with this address exists, and nothing was written.
    async fn add_account(&self, account: &Account, audit: &AuditEvent) -> Result<bool, StoreError>;

    async fn find_account(&self, id: AccountId) -> Result<Option<AccountRecord>, StoreError>;

    async fn find_account_by_email(&self, email: &Email) -> Result<Option<AccountRecord>, StoreError>;

    /// Lists all accounts by address.
    async fn list_accounts(&self, page: PageRequest) -> Result<Page<AccountSummary>, StoreError>;

    /// Returns the email addresses of accounts. Omits unknown accounts.
    async fn emails_of_accounts(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, Email)>, StoreError>;

    /// Makes an account an administrator. Removes its password, second factor, sessions and links, because its address
    /// may be unverified. `false`: the account does not exist, or is already an administrator by other means than a
    /// claim of its OpenID provider, and nothing was written.
    async fn make_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Removes the administrator role. Voids the invitations that the account has sent for workspaces that it does not
    /// own.
    async fn remove_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError>;

    /// Disables an account at the time of the audit event. Ends its sessions and links, and voids the invitations that
    /// it has sent.
    async fn disable_account(&self, account: AccountId, audit: &AuditEvent)
    -> Result<AccountChangeOutcome, StoreError>;

    async fn enable_account(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError>;

    async fn find_access(&self, account: AccountId) -> Result<Option<AccountAccess>, StoreError>;

    /// Finds the account that is linked to an identity. If no account is linked to it, finds the account with the email
    /// address.
    async fn find_access_by_identity(
        &self,
        identity: TokenHash,
        email: Option<&Email>,
    ) -> Result<Option<AccountAccess>, StoreError>;

    /// Replaces the account's identity and access rights, creates the account if needed, and begins a session. An
    /// account that was not linked before loses its password, second factor, sessions and links, because another person
    /// may hold them. `false`: the account was changed or created meanwhile, or the identity is linked to another
    /// account, and nothing was written.
    async fn sign_in_with_identity(&self, sign_in: OpenIdSignIn, audit: &[AuditEvent]) -> Result<bool, StoreError>;

    /// Replaces the account's identity and access rights, and ends all its sessions and links. `false`: the account has
    /// changed since it was read, and nothing was written.
    async fn unlink_identity(
        &self,
        before: &AccountAccess,
        after: &AccountAccess,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError>;

    /// Adds or replaces a second factor, ends the account's other sessions, and no longer counts the attempts as
    /// failed. `false`: the password or the second factor has changed, or the code was already used, and nothing was
    /// written.
    async fn enable_second_factor(&self, factor: NewSecondFactor, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Removes a second factor, authorised by one of its codes, and no longer counts the attempt as failed. `false`:
    /// the code was already used, or the second factor has changed, and nothing was written.
    async fn disable_second_factor(
        &self,
        used: SecondFactorUse,
        attempt: LoginAttempt,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Removes the second factor without a code. `false`: the account has none.
    async fn remove_second_factor(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Lists at most `limit` second-factor seeds that are encrypted with a key other than `active`.
    async fn list_seeds_of_other_keys(
        &self,
        active: KeyId,
        limit: u32,
    ) -> Result<Vec<(AccountId, SealedSeed)>, StoreError>;

    /// Replaces an encrypted seed with the same seed, encrypted with another key. `false`: the second factor has
    /// changed, and nothing was written.
    async fn reseal_second_factor(
        &self,
        account: AccountId,
        old: SealedSeed,
        new: SealedSeed,
    ) -> Result<bool, StoreError>;

    /// Resets an account whose row was altered outside Ringtrue: removes its rights, password, second factor, identity,
    /// memberships, sessions and links. `None`: no account has this address. `false`: the row is unaltered, and nothing
    /// was written.
    async fn reset_altered_account(
        &self,
        email: &Email,
        audit: &AuditEvent,
    ) -> Result<Option<(AccountId, bool)>, StoreError>;
}

/// Members of workspaces, and invitations to join a workspace.
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

    /// Creates an account for the address of an invitation that is pending when the account is created. If the address
    /// already has an account, writes nothing but returns `true`, so that the result does not reveal that the account
    /// exists. `false`: the invitation is not valid.
    async fn create_invited_account(
        &self,
        id: InvitationId,
        account: &Account,
        password: &PasswordHash,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError>;

    /// Changes a member's role. If the member was an owner, voids the invitations that they have sent.
    async fn change_member_role(
        &self,
        account: AccountId,
        membership: Membership,
        audit: &AuditEvent,
    ) -> Result<MemberChangeOutcome, StoreError>;

    /// Removes a member, and voids the invitations to the workspace that they have sent.
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

/// Everything that signs users in: one-time links, login throttling and sessions.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Stores a one-time link, and voids the account's earlier links. `false`: the account is disabled or does not
    /// exist, and nothing was written.
    async fn add_link(&self, link: NewOneTimeLink, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Finds a link that is valid at `now`, without redeeming it.
    async fn find_link(&self, token: TokenHash, now: Timestamp) -> Result<Option<OneTimeLink>, StoreError>;

    /// Redeems a link, and begins a session. If `password` is given, sets it, and ends all other sessions and links of
    /// the account. `false`: the link is invalid, and nothing was written.
    async fn redeem_link(
        &self,
        token: TokenHash,
        password: Option<&PasswordHash>,
        session: NewSession,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError>;

    /// Redeems a set-password link of an account with a second factor. Sets the password and ends all sessions and
    /// links, but begins no session, because the user must still enter a code. `false`: the link is invalid, and
    /// nothing was written.
    async fn redeem_link_without_session(
        &self,
        token: TokenHash,
        account: AccountId,
        password: &PasswordHash,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Counts a login attempt as failed, before the password is verified. Uses the rules of
    /// [`login_throttle`](ringtrue_domain::login_throttle). If the login is throttled, does not count the attempt, and
    /// returns the key with the longest delay.
    async fn count_login_attempt(&self, attempt: LoginAttempt) -> Result<Option<LoginBlocked>, StoreError>;

    /// Begins a session after a successful login, and no longer counts the attempt as failed. `false`: the account is
    /// disabled, its password has changed, or it has a second factor, and nothing was written.
    async fn begin_session(
        &self,
        session: NewSession,
        password: &PasswordHash,
        attempt: LoginAttempt,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Begins a session after a password and a second-factor code, and no longer counts the two attempts as failed.
    /// `false`: the account is disabled, its password or second factor has changed, or the code was already used, and
    /// nothing was written.
    async fn begin_session_with_second_factor(
        &self,
        session: NewSession,
        password: &PasswordHash,
        used: SecondFactorUse,
        attempts: [LoginAttempt; 2],
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError>;

    /// Replaces a password, ends all other sessions and links of the account, and no longer counts the attempt as
    /// failed. `false`: the account is disabled, or its password has changed since it was verified, and nothing was
    /// written.
    async fn change_password(&self, change: PasswordChange, audit: &AuditEvent) -> Result<bool, StoreError>;

    /// Finds a session that is valid at `now`.
    async fn find_session(&self, token: TokenHash, now: Timestamp) -> Result<Option<SessionRecord>, StoreError>;

    /// Lists the sessions of an account that are valid at `now`, last used first.
    async fn list_sessions(&self, account: AccountId, now: Timestamp) -> Result<Vec<SessionSummary>, StoreError>;

    /// Returns the sessions, among `tokens`, that are valid at `now`. Each has those of `workspaces` that it may
    /// access.
    async fn session_access(
        &self,
        tokens: &[TokenHash],
        workspaces: &[WorkspaceId],
        now: Timestamp,
    ) -> Result<Vec<SessionAccess>, StoreError>;

    /// Records when a session was last used, and sets its new expiry.
    async fn extend_session(
        &self,
        token: TokenHash,
        seen_at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Ends all sessions of an account except `current`. `false`: there is no other session, and nothing was written.
    async fn end_other_sessions(
        &self,
        account: AccountId,
        current: TokenHash,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError>;

    /// Ends a session. `false`: it does not exist, and nothing was written.
    async fn end_session(&self, token: TokenHash, audit: &AuditEvent) -> Result<bool, StoreError>;
}
