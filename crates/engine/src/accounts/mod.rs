//! Console accounts: sign-in, sessions and authorisation.
//!
//! A session is a random token in a cookie; the store has only its keyed hash. CSRF tokens are derived from the cookie
//! and not stored.
//!
//! Password attempts are throttled by account and by client address. The store counts the attempts of all nodes.

mod administration;
mod identities;
mod links;
mod members;
mod passwords;
mod second_factor;
mod totp;

use std::{net::IpAddr, sync::Arc};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use quick_cache::sync::Cache;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Membership, Permission, Role},
    audit::{Action, Actor, AuditEvent},
    tenancy::WorkspaceId,
};

pub use administration::AccountError;
pub use identities::{ExternalIdentity, IdentityError, IdentityPolicy, WorkspaceClaim};
pub use links::{AccessLink, LinkError};
pub use members::{InvitationError, MemberError, PendingInvitation};
use passwords::PasswordHasher;
pub use passwords::{InvalidPassword, Password};
pub use second_factor::{PendingSignIn, SECOND_FACTOR_TIMEOUT, SecondFactorError, SecondFactorSetup, SignInStep};

use crate::{
    context::Context,
    management::ManagementActor,
    ports::{
        LoginAttempt, LoginBlocked, LoginThrottleKey, NewSession, PasswordChange, SessionOrigin, SessionSummary, Store,
        StoreError, TokenHash,
    },
    rate_limit::ip_bucket,
};

const SESSION_IDLE_TIMEOUT: SignedDuration = SignedDuration::from_hours(12);
/// A session ends after this time, even if it is used.
pub const SESSION_MAX_AGE: SignedDuration = SignedDuration::from_hours(7 * 24);
const RANDOM_TOKEN_BYTES: usize = 32;
/// Length in base64url without padding.
const RANDOM_TOKEN_CHARS: usize = 43;
/// Minimum time between two writes of a session's last use.
const SESSION_TOUCH_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

const MAX_CACHED_DELAYS: usize = 20_000;

/// Enough for the redirect, even over a slow connection.
pub const FLASH_MAX_AGE: SignedDuration = SignedDuration::from_secs(60);

/// A signed-in account and its memberships.
#[derive(Clone, Debug)]
pub struct ConsoleUser {
    pub account: Account,
    pub memberships: Vec<Membership>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessDenied {
    /// Also returned for a workspace that does not exist.
    #[error("you are not a member of this workspace")]
    NotAMember,
    #[error("your role in this workspace, `{role}`, does not permit this action")]
    InsufficientRole { role: Role },
    #[error("only administrators of this deployment can do this")]
    NotAdmin,
}

impl ConsoleUser {
    pub fn role_in(&self, workspace: WorkspaceId) -> Option<Role> {
        if self.account.is_admin {
            return Some(Role::Owner);
        }
        self.memberships.iter().find(|membership| membership.workspace == workspace).map(|membership| membership.role)
    }

    /// Authorises a use case in a workspace. All console access to workspaces is decided here.
    pub fn authorize(
        &self,
        workspace: WorkspaceId,
        power: Permission,
        request_id: Option<String>,
    ) -> Result<ManagementActor, AccessDenied> {
        match self.role_in(workspace) {
            None => Err(AccessDenied::NotAMember),
            Some(role) if !role.may(power) => Err(AccessDenied::InsufficientRole { role }),
            Some(_) => Ok(ManagementActor { workspace, actor: Actor::Account(self.account.id), request_id }),
        }
    }

    /// Authorises a use case of the whole deployment. All console access to the deployment is decided here.
    pub fn authorize_admin(&self, request_id: Option<String>) -> Result<Administrator, AccessDenied> {
        let actor = Actor::Account(self.account.id);
        if self.account.is_admin { Ok(Administrator { actor, request_id }) } else { Err(AccessDenied::NotAdmin) }
    }
}

/// An actor authorised for the whole deployment: an administrator account ([`ConsoleUser::authorize_admin`]), or the
/// operator at the command line.
#[derive(Clone, Debug)]
pub struct Administrator {
    actor: Actor,
    request_id: Option<String>,
}

impl Administrator {
    /// The operator at the command line, who has access to the database.
    pub fn operator() -> Self {
        Administrator { actor: Actor::Operator, request_id: None }
    }

    pub(crate) fn new_audit_event(&self, context: &Context, action: Action, account: AccountId) -> AuditEvent {
        let request_id = self.request_id.clone();
        AuditEvent { request_id, ..context.new_account_audit_event(self.actor.clone(), action, account) }
    }

    /// Actor and request id for the audit log.
    pub(crate) fn actor_and_request_id(&self) -> (Actor, Option<String>) {
        (self.actor.clone(), self.request_id.clone())
    }
}

/// The browser that signs in.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    pub address: IpAddr,
    pub user_agent: String,
}

impl ClientInfo {
    const MAX_USER_AGENT_CHARS: usize = 200;

    /// The part that is stored: the network of the address, and the printable characters of the user agent.
    fn origin(&self) -> SessionOrigin {
        let network = match self.address.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                format!("{a}.{b}.{c}.0/24")
            }
            IpAddr::V6(address) => {
                let [a, b, c, ..] = address.segments();
                format!("{}/48", std::net::Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
            }
        };
        let is_printable = |symbol: &char| symbol.is_ascii_graphic() || *symbol == ' ';
        let user_agent = self.user_agent.chars().filter(is_printable).take(Self::MAX_USER_AGENT_CHARS).collect();
        SessionOrigin { network, user_agent }
    }
}

/// How a user signs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignInMethods {
    /// An account that signs in by link has no password.
    pub has_password: bool,
    /// Issuer of the linked identity.
    pub identity_issuer: Option<String>,
    /// `None`: no second factor.
    pub unused_recovery_codes: Option<u32>,
}

/// A session in the list that its account's owner sees.
#[derive(Clone, Debug)]
pub struct SessionListItem {
    /// Identifies the session in forms. It is not a credential.
    pub id: String,
    pub origin: SessionOrigin,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
    pub is_current: bool,
}

/// The session cookie's value.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("SessionToken(…)")]
pub struct SessionToken(String);

impl SessionToken {
    pub fn parse(text: &str) -> Option<Self> {
        has_token_format(text).then(|| SessionToken(text.to_owned()))
    }

    /// Exposes the token, to be sent to its browser only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// Also returned for an unknown account and one without a password.
    #[error("wrong email address or password")]
    WrongCredentials,
    #[error("too many failed attempts; try again in {seconds} s")]
    Throttled { seconds: u32 },
    #[error("too many sign-ins at the moment; try again shortly")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<passwords::PasswordQueueFull> for SignInError {
    fn from(passwords::PasswordQueueFull: passwords::PasswordQueueFull) -> Self {
        SignInError::Busy
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    #[error("the current password is wrong")]
    WrongPassword,
    #[error("too many failed attempts; try again in {seconds} s")]
    Throttled { seconds: u32 },
    #[error("too many sign-ins at the moment; try again shortly")]
    Busy,
    #[error(transparent)]
    Invalid(#[from] InvalidPassword),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SignInError> for PasswordError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::WrongCredentials => PasswordError::WrongPassword,
            SignInError::Throttled { seconds } => PasswordError::Throttled { seconds },
            SignInError::Busy => PasswordError::Busy,
            SignInError::Store(error) => PasswordError::Store(error),
        }
    }
}

impl From<passwords::PasswordQueueFull> for PasswordError {
    fn from(passwords::PasswordQueueFull: passwords::PasswordQueueFull) -> Self {
        PasswordError::Busy
    }
}

/// Manages console accounts, their sessions and links, and the members of workspaces.
#[derive(derive_more::Debug)]
#[debug("Accounts")]
pub struct Accounts {
    context: Arc<Context>,
    store: Arc<dyn Store>,
    password_hasher: PasswordHasher,
    /// Active delays of throttled logins. A throttled attempt then needs no query.
    login_delays: Cache<LoginThrottleKey, Timestamp>,
}

impl Accounts {
    pub(crate) fn new(context: &Arc<Context>, store: Arc<dyn Store>) -> Self {
        Accounts {
            context: Arc::clone(context),
            store,
            password_hasher: PasswordHasher::default(),
            login_delays: Cache::new(MAX_CACHED_DELAYS),
        }
    }

    pub async fn sign_in(&self, email: &str, password: &str, client: &ClientInfo) -> Result<SignInStep, SignInError> {
        let guess = self.count_login_attempt(email, client.address).await?;
        let password = Password::parse_existing(password).map_err(|_| SignInError::WrongCredentials)?;
        let record = match email.parse::<Email>() {
            Ok(email) => self.store.find_account_by_email(&email).await?,
            Err(_) => None,
        };
        let hash = record.as_ref().and_then(|record| record.password.clone());
        let is_correct = self.password_hasher.verify(password, hash.clone()).await?;
        let record = record.filter(|record| is_correct && !record.is_disabled);
        let (Some(record), Some(hash)) = (record, hash) else { return Err(SignInError::WrongCredentials) };
        let account = record.account.id;
        if record.second_factor.is_some() {
            return Ok(SignInStep::SecondFactor(self.new_pending_sign_in(account, &hash)?));
        }
        let (token, session) = self.new_session(account, client)?;
        let audit = self.context.new_account_audit_event(Actor::Account(account), Action::AccountSignedIn, account);
        let is_begun = self.store.begin_session(session, &hash, guess, &audit).await?;
        if is_begun { Ok(SignInStep::SignedIn(token)) } else { Err(SignInError::WrongCredentials) }
    }

    /// Replaces the user's password and ends the account's other sessions and its links.
    pub async fn change_password(
        &self,
        user: &ConsoleUser,
        session: &SessionToken,
        (current, new): (&str, &str),
        address: IpAddr,
    ) -> Result<(), PasswordError> {
        let new = Password::parse_new(new)?;
        let guess = self.count_login_attempt(user.account.email.as_str(), address).await?;
        let entered = Password::parse_existing(current).map_err(|_| PasswordError::WrongPassword)?;
        let account = user.account.id;
        let hash = self.store.find_account(account).await?.and_then(|record| record.password);
        let is_correct = self.password_hasher.verify(entered, hash.clone()).await?;
        let current = hash.filter(|_| is_correct).ok_or(PasswordError::WrongPassword)?;
        let new = self.password_hasher.hash(new, &*self.context.entropy).await?;
        let audit = self.context.new_account_audit_event(Actor::Account(account), Action::AccountPasswordSet, account);
        let change =
            PasswordChange { account, current, new, session: self.hash_session_token(session)?, attempt: guess };
        let is_changed = self.store.change_password(change, &audit).await?;
        if is_changed { Ok(()) } else { Err(PasswordError::WrongPassword) }
    }

    pub async fn sign_in_methods(&self, user: &ConsoleUser) -> Result<SignInMethods, StoreError> {
        let record = self.store.find_account(user.account.id).await?;
        Ok(record.map_or_else(SignInMethods::default, |record| SignInMethods {
            has_password: record.password.is_some(),
            identity_issuer: record.identity.map(|identity| identity.issuer),
            unused_recovery_codes: record.second_factor.as_ref().map(second_factor::count_unused_recovery_codes),
        }))
    }

    /// The user's sessions, most recently used first.
    pub async fn list_sessions(
        &self,
        user: &ConsoleUser,
        current: &SessionToken,
    ) -> Result<Vec<SessionListItem>, StoreError> {
        let current = self.hash_session_token(current)?;
        let found = self.store.list_sessions(user.account.id, self.context.now()).await?;
        let item = |session: SessionSummary| {
            Ok(SessionListItem {
                id: self.public_session_id(session.token)?,
                is_current: session.token == current,
                origin: session.origin,
                created_at: session.created_at,
                seen_at: session.seen_at,
            })
        };
        found.into_iter().map(item).collect()
    }

    /// Ends one of the user's sessions. Returns `false` if the id is unknown.
    pub async fn end_own_session(&self, user: &ConsoleUser, id: &str) -> Result<bool, StoreError> {
        let account = user.account.id;
        for session in self.store.list_sessions(account, self.context.now()).await? {
            if self.public_session_id(session.token)? == id {
                let audit =
                    self.context.new_account_audit_event(Actor::Account(account), Action::AccountSessionEnded, account);
                return self.store.end_session(session.token, &audit).await;
            }
        }
        Ok(false)
    }

    /// Ends the user's sessions other than the current one.
    pub async fn end_other_sessions(&self, user: &ConsoleUser, current: &SessionToken) -> Result<(), StoreError> {
        let account = user.account.id;
        let audit = self.context.new_account_audit_event(Actor::Account(account), Action::AccountSessionEnded, account);
        self.store.end_other_sessions(account, self.hash_session_token(current)?, &audit).await.map(drop)
    }

    /// Returns the user of a valid session, and extends the session.
    pub async fn authenticate_session(&self, token: &SessionToken) -> Result<Option<ConsoleUser>, StoreError> {
        let now = self.context.now();
        let hash = self.hash_session_token(token)?;
        let Some(found) = self.store.find_session(hash, now).await? else { return Ok(None) };
        if found.seen_at.duration_until(now) >= SESSION_TOUCH_INTERVAL {
            let expires_at = add_clamped(now, SESSION_IDLE_TIMEOUT).min(add_clamped(found.created_at, SESSION_MAX_AGE));
            self.store.extend_session(hash, now, expires_at).await?;
        }
        Ok(Some(ConsoleUser { account: found.account, memberships: found.memberships }))
    }

    pub async fn sign_out(&self, user: &ConsoleUser, token: &SessionToken) -> Result<(), StoreError> {
        let account = user.account.id;
        let audit = self.context.new_account_audit_event(Actor::Account(account), Action::AccountSignedOut, account);
        self.store.end_session(self.hash_session_token(token)?, &audit).await?;
        Ok(())
    }

    /// CSRF token for the forms of a browser, derived from its cookie.
    pub fn csrf_token(&self, cookie: &str) -> Result<String, StoreError> {
        Ok(BASE64_URL_SAFE_NO_PAD.encode(self.context.keyed_hash(&[b"form-token", cookie.as_bytes()])?))
    }

    pub fn is_valid_csrf_token(&self, cookie: &str, given: &str) -> Result<bool, StoreError> {
        let expected = self.csrf_token(cookie)?;
        Ok(verify_slices_are_equal(expected.as_bytes(), given.as_bytes()).is_ok())
    }

    /// A random bearer token in base64url.
    pub fn generate_token(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.context.entropy.bytes::<RANDOM_TOKEN_BYTES>())
    }

    /// Seals data for a cookie. It can be opened until its lifetime ends, for the same purpose only.
    pub fn seal_for_browser(
        &self,
        purpose: &str,
        plain: &[u8],
        lifetime: SignedDuration,
    ) -> Result<String, StoreError> {
        self.seal_with_lifetime(&format!("browser:{purpose}"), plain, lifetime)
    }

    /// Opens data of [`seal_for_browser`](Self::seal_for_browser). `None`: forged or expired.
    pub fn unseal_from_browser(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        self.unseal_unexpired(&format!("browser:{purpose}"), sealed)
    }

    /// Seals a message from a form to the page that follows it, such as the secret of a new credential. The browser
    /// carries it in a cookie that only this session can open, so that any node can show it and nothing is stored.
    pub fn seal_flash(&self, session: &SessionToken, message: &str) -> Result<String, StoreError> {
        self.seal_with_lifetime(&flash_context(session), message.as_bytes(), FLASH_MAX_AGE)
    }

    /// `None`: the message belongs to another session, has expired or was altered.
    pub fn unseal_flash(&self, session: &SessionToken, sealed: &str) -> Option<String> {
        String::from_utf8(self.unseal_unexpired(&flash_context(session), sealed)?).ok()
    }

    fn seal_with_lifetime(&self, context: &str, plain: &[u8], lifetime: SignedDuration) -> Result<String, StoreError> {
        let expires_at = add_clamped(self.context.now(), lifetime).as_millisecond();
        let plain = [&expires_at.to_be_bytes()[..], plain].concat();
        Ok(BASE64_URL_SAFE_NO_PAD.encode(self.context.seal(context.as_bytes(), &plain)?))
    }

    fn unseal_unexpired(&self, context: &str, sealed: &str) -> Option<Vec<u8>> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let plain = self.context.unseal(context.as_bytes(), &sealed)?;
        let (expires_at, plain) = plain.split_first_chunk()?;
        (self.context.now().as_millisecond() < i64::from_be_bytes(*expires_at)).then(|| plain.to_vec())
    }

    /// The end of the delay that applies to an attempt, as far as this node has cached it.
    fn cached_login_delay(&self, attempt: &LoginAttempt) -> Option<Timestamp> {
        let cached = [attempt.account, attempt.address].into_iter().filter_map(|key| self.login_delays.get(&key));
        cached.max().filter(|until| *until > attempt.at)
    }

    /// Counts a password attempt as failed before the password is verified, so that parallel attempts count too.
    /// Throttled attempts are not counted.
    async fn count_login_attempt(&self, email: &str, address: IpAddr) -> Result<LoginAttempt, SignInError> {
        self.count_attempt(self.new_login_attempt(email, address)?).await
    }

    async fn count_attempt(&self, attempt: LoginAttempt) -> Result<LoginAttempt, SignInError> {
        let until = match self.cached_login_delay(&attempt) {
            Some(until) => Some(until),
            None => self.store.count_login_attempt(attempt).await?.map(|LoginBlocked { key: who, until }| {
                self.login_delays.insert(who, until);
                until
            }),
        };
        until.map_or(Ok(attempt), |until| {
            Err(SignInError::Throttled { seconds: whole_seconds_until(attempt.at, until) })
        })
    }

    /// The keys do not depend on whether the account exists.
    fn new_login_attempt(&self, email: &str, address: IpAddr) -> Result<LoginAttempt, StoreError> {
        let email = email.trim().to_lowercase();
        let address = ip_bucket(address).to_string();
        Ok(LoginAttempt {
            account: LoginThrottleKey(self.context.keyed_hash(&[
                b"guess-account",
                email.as_bytes(),
                address.as_bytes(),
            ])?),
            address: LoginThrottleKey(self.context.keyed_hash(&[b"guess-address", address.as_bytes()])?),
            at: self.context.now(),
        })
    }

    fn new_session(&self, account: AccountId, client: &ClientInfo) -> Result<(SessionToken, NewSession), StoreError> {
        let token = SessionToken(self.generate_token());
        let now = self.context.now();
        let session = NewSession {
            token: self.hash_session_token(&token)?,
            account,
            origin: client.origin(),
            created_at: now,
            expires_at: add_clamped(now, SESSION_IDLE_TIMEOUT.min(SESSION_MAX_AGE)),
        };
        Ok((token, session))
    }

    pub(crate) fn hash_session_token(&self, token: &SessionToken) -> Result<TokenHash, StoreError> {
        self.context.keyed_hash(&[b"session", token.0.as_bytes()]).map(TokenHash)
    }

    fn public_session_id(&self, token: TokenHash) -> Result<String, StoreError> {
        let hash = self.context.keyed_hash(&[b"session-id", &token.0])?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(&hash[..16]))
    }
}

/// Whether a text has the format of [`Accounts::generate_token`]. Other texts are rejected without a query.
fn has_token_format(text: &str) -> bool {
    let mut bytes = [0; RANDOM_TOKEN_BYTES];
    text.len() == RANDOM_TOKEN_CHARS && BASE64_URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) == Ok(RANDOM_TOKEN_BYTES)
}

/// Rounded up to whole seconds, at least one.
fn whole_seconds_until(now: Timestamp, until: Timestamp) -> u32 {
    let millis = until.as_millisecond() - now.as_millisecond();
    u32::try_from(((millis + 999) / 1000).max(1)).unwrap_or(u32::MAX)
}

fn flash_context(session: &SessionToken) -> String {
    format!("flash:{}", session.reveal())
}

fn add_clamped(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_origins_are_coarse_and_printable() {
        for (address, network) in [
            ("203.0.113.77", "203.0.113.0/24"),
            ("::ffff:203.0.113.77", "203.0.113.0/24"),
            ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ] {
            let user_agent = format!("Browser/1\r\n\u{202e}\u{7f}{}", "x".repeat(300));
            let origin = ClientInfo { address: address.parse().unwrap(), user_agent }.origin();
            assert_eq!(origin.network, network);
            assert!(origin.user_agent.starts_with("Browser/1xxx") && origin.user_agent.len() == 200);
        }
    }
}
