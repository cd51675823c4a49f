//! Console accounts: sign-in, sessions and authorisation.
//!
//! A session is a random token in a cookie. The store has only the keyed hash of the token. CSRF tokens are derived
//! from the cookie and are not stored.
//!
//! Failed password attempts are counted per pair of account and client address, and per client address. Too many
//! failures in either count delay the next attempt. The store counts the attempts of all nodes.

mod administration;
mod failed_sign_ins;
mod identities;
mod links;
mod members;
mod passwords;
mod second_factor;
mod sessions;
mod totp;

use std::{net::IpAddr, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use quick_cache::sync::Cache;
use ringtrue_domain::{
    account::{Account, Email, Membership, Permission, Role},
    audit::{Action, Actor},
    tenancy::WorkspaceId,
};
use tokio_util::task::TaskTracker;

pub use administration::AccountError;
pub use failed_sign_ins::RejectedFactor;
pub use identities::{ExternalIdentity, IdentityError, IdentityPolicy, WorkspaceClaim};
pub use links::{AccessLink, LinkError};
pub use members::{InvitationError, MemberError, PendingInvitation};
use passwords::PasswordHasher;
pub use passwords::{InvalidPassword, Password, PasswordCosts};
pub use second_factor::{
    EnableSecondFactor, FirstFactorOutcome, PendingSignIn, SECOND_FACTOR_TIMEOUT, SecondFactorError, SecondFactorSetup,
};
use sessions::SignInMethod;
pub use sessions::{ClientInfo, FLASH_MAX_AGE, RequestCause, SESSION_MAX_AGE, SessionListItem, SessionToken};

use crate::{
    actor::{Administrator, ManagementActor},
    context::Context,
    ports::{
        accounts::{LoginAttempt, LoginBlocked, LoginThrottleKey, PasswordChange},
        combined::IdentityStore,
        store::StoreError,
    },
    rate_limits::ip_bucket,
};

const MAX_CACHED_DELAYS: usize = 20_000;

/// A signed-in account and its memberships in workspaces.
#[derive(Clone, Debug)]
pub struct ConsoleUser {
    pub account: Account,
    pub memberships: Vec<Membership>,
    /// The deployment requires a second factor, and the account has only a password. Until the user sets up a second
    /// factor, every other action is rejected.
    pub needs_second_factor: bool,
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
    #[error("set up a second factor first")]
    NeedsSecondFactor,
}

impl ConsoleUser {
    pub fn role_in(&self, workspace: WorkspaceId) -> Option<Role> {
        if self.account.is_admin {
            return Some(Role::Owner);
        }
        self.memberships.iter().find(|membership| membership.workspace == workspace).map(|membership| membership.role)
    }

    /// Authorises the user for an action in a workspace. Every access to a workspace from the console is decided here.
    pub fn authorize(
        &self,
        workspace: WorkspaceId,
        power: Permission,
        request_id: Option<String>,
    ) -> Result<ManagementActor, AccessDenied> {
        match self.role_in(workspace) {
            _ if self.needs_second_factor => Err(AccessDenied::NeedsSecondFactor),
            None => Err(AccessDenied::NotAMember),
            Some(role) if !role.may(power) => Err(AccessDenied::InsufficientRole { role }),
            Some(_) => Ok(ManagementActor { workspace, actor: Actor::Account(self.account.id), request_id }),
        }
    }

    /// Authorises the user for an action on the whole deployment. Every such access from the console is decided here.
    pub fn authorize_admin(&self, request_id: Option<String>) -> Result<Administrator, AccessDenied> {
        if self.needs_second_factor {
            return Err(AccessDenied::NeedsSecondFactor);
        }
        if !self.account.is_admin {
            return Err(AccessDenied::NotAdmin);
        }
        Ok(Administrator::of_account(self.account.id, request_id))
    }
}

/// The ways in which an account can sign in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignInMethods {
    /// `false`: the account signs in by OpenID Connect or by a sign-in link.
    pub has_password: bool,
    /// Issuer of the OpenID Connect identity that is linked to the account. `None`: no identity is linked.
    pub identity_issuer: Option<String>,
    /// Number of recovery codes left. `None`: the account has no second factor.
    pub unused_recovery_codes: Option<u32>,
}

#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// Also returned for an unknown or disabled account, and for an account without a password.
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

/// Manages console accounts, their sessions, their sign-in and set-password links, and the members of workspaces.
#[derive(derive_more::Debug)]
#[debug("Accounts")]
pub struct Accounts {
    context: Arc<Context>,
    store: Arc<dyn IdentityStore>,
    password_hasher: PasswordHasher,
    /// Cache of throttled accounts and addresses, with the time of the next permitted attempt. It saves a query for
    /// each throttled attempt.
    login_delays: Cache<LoginThrottleKey, Timestamp>,
    /// Tasks that write audit events about rejected sign-ins. No request waits for them.
    tasks: TaskTracker,
}

impl Accounts {
    pub(crate) fn new(context: &Arc<Context>, store: Arc<dyn IdentityStore>) -> Self {
        let tasks = TaskTracker::new();
        // `wait` returns only if the tracker is closed. A closed tracker still accepts new tasks.
        tasks.close();
        Accounts {
            context: Arc::clone(context),
            store,
            password_hasher: PasswordHasher::new(context.settings.password_costs.clone()),
            login_delays: Cache::new(MAX_CACHED_DELAYS),
            tasks,
        }
    }

    pub async fn sign_in(
        &self,
        email: &str,
        password: &str,
        client: &ClientInfo,
    ) -> Result<FirstFactorOutcome, SignInError> {
        let guess = self.count_login_attempt(email, client.address).await?;
        let Ok(password) = Password::parse_existing(password) else {
            self.record_failed_sign_in(None, RejectedFactor::Password);
            return Err(SignInError::WrongCredentials);
        };
        let record = match email.parse::<Email>() {
            Ok(email) => self.store.find_account_by_email(&email).await?,
            Err(_) => None,
        };
        let hash = record.as_ref().and_then(|record| record.password.clone());
        let is_correct = self.password_hasher.verify(password, hash.clone()).await?;
        let known_account = record.as_ref().map(|record| record.account.id);
        let record = record.filter(|record| is_correct && !record.is_disabled);
        let (Some(record), Some(hash)) = (record, hash) else {
            self.record_failed_sign_in(known_account, RejectedFactor::Password);
            return Err(SignInError::WrongCredentials);
        };
        let account = record.account.id;
        if record.second_factor.is_some() {
            return Ok(FirstFactorOutcome::SecondFactor(self.new_pending_sign_in(account, &hash)?));
        }
        let (token, session) = self.new_session(account, SignInMethod::Password, client)?;
        let audit = self.context.new_account_audit_event(Actor::Account(account), Action::AccountSignedIn, account);
        let is_begun = self.store.begin_session(session, &hash, guess, &audit).await?;
        if !is_begun {
            // The password was changed, or the account was disabled, after this request had read them.
            self.record_failed_sign_in(Some(account), RejectedFactor::Password);
            return Err(SignInError::WrongCredentials);
        }
        Ok(FirstFactorOutcome::SignedIn(token))
    }

    /// Replaces the user's password. Ends the account's other sessions and invalidates its links.
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

    /// Returns the time until which an attempt is throttled, if this node has it in its cache. `None`: the store has to
    /// decide.
    fn cached_blocked_until(&self, attempt: &LoginAttempt) -> Option<Timestamp> {
        let cached = [attempt.account, attempt.address].into_iter().filter_map(|key| self.login_delays.get(&key));
        cached.max().filter(|until| *until > attempt.at)
    }

    /// Counts a password attempt as failed before the password is verified, so that parallel attempts count too. If the
    /// password is correct, the store subtracts the attempt again. Fails if the account or the address is throttled.
    /// Throttled attempts are not counted.
    async fn count_login_attempt(&self, email: &str, address: IpAddr) -> Result<LoginAttempt, SignInError> {
        self.count_attempt(self.new_login_attempt(email, address)?).await
    }

    async fn count_attempt(&self, attempt: LoginAttempt) -> Result<LoginAttempt, SignInError> {
        let until = match self.cached_blocked_until(&attempt) {
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

    /// Builds the throttle keys of a password attempt. They do not depend on whether the account exists, so throttling
    /// does not reveal which accounts exist.
    fn new_login_attempt(&self, email: &str, address: IpAddr) -> Result<LoginAttempt, StoreError> {
        let email = email.trim().to_lowercase();
        let address = ip_bucket(address).to_string();
        Ok(LoginAttempt {
            account: LoginThrottleKey(self.context.keyed_hash(&[
                b"login-account",
                email.as_bytes(),
                address.as_bytes(),
            ])?),
            address: LoginThrottleKey(self.context.keyed_hash(&[b"login-address", address.as_bytes()])?),
            at: self.context.now(),
        })
    }
}

/// Returns the time until `until`, rounded up to whole seconds. At least one second.
fn whole_seconds_until(now: Timestamp, until: Timestamp) -> u32 {
    let millis = until.as_millisecond() - now.as_millisecond();
    u32::try_from(((millis + 999) / 1000).max(1)).unwrap_or(u32::MAX)
}

fn add_clamped(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}
