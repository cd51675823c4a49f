//! People at the console: signing in and out, sessions, and who may do what where.
//!
//! A session is a token that only its browser has; the store knows its hash. What protects forms is derived from the
//! token, so there is nothing else to keep.

mod delays;
mod members;
mod passwords;

use std::{fmt, net::IpAddr};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::{Account, AccountId, Email, Membership, Power, Role},
    audit::{Action, Actor, AuditEvent},
    id::time_ordered,
    tenancy::WorkspaceId,
};

pub use delays::SignInDelays;
pub use members::{Invitation, LinkError, MemberError};
pub use passwords::{InvalidPassword, Password, Passwords};

use crate::{
    Engine,
    management::Manager,
    ports::{NewSession, StoreError, TokenHash},
};

/// A session that nobody uses ends.
const IDLE: SignedDuration = SignedDuration::from_hours(12);
/// And so does one that somebody uses all the time.
const LONGEST: SignedDuration = SignedDuration::from_hours(7 * 24);
const RANDOM_TOKEN_BYTES: usize = 32;
/// In base64url, without padding.
const RANDOM_TOKEN_CHARS: usize = 43;
/// How often it is written down that a session is in use.
const NOTED_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// Somebody who has signed in.
#[derive(Clone, Debug)]
pub struct Person {
    pub account: Account,
    pub memberships: Vec<Membership>,
}

/// A person may not do what they want to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It is told neither whether there is such a workspace.
    #[error("you are no member of this workspace")]
    NotAMember,
    #[error("your role in this workspace is `{role}`, which may not do this")]
    RoleTooSmall { role: Role },
    #[error("only those who run this deployment may do this")]
    NotAnAdmin,
}

impl Person {
    pub fn role_in(&self, workspace: WorkspaceId) -> Option<Role> {
        if self.account.is_admin {
            return Some(Role::Owner);
        }
        self.memberships.iter().find(|membership| membership.workspace == workspace).map(|membership| membership.role)
    }

    /// Lets a person into a workspace, to do something there. The one place where that is decided.
    pub fn enter(&self, workspace: WorkspaceId, power: Power, request_id: Option<String>) -> Result<Manager, Denied> {
        match self.role_in(workspace) {
            None => Err(Denied::NotAMember),
            Some(role) if !role.may(power) => Err(Denied::RoleTooSmall { role }),
            Some(_) => Ok(Manager { workspace, actor: Actor::Account(self.account.id), request_id }),
        }
    }

    /// Lets a person at what concerns the whole deployment. The one place where that is decided.
    pub fn administer(&self, request_id: Option<String>) -> Result<Administrator, Denied> {
        let actor = Actor::Account(self.account.id);
        if self.account.is_admin { Ok(Administrator { actor, request_id }) } else { Err(Denied::NotAnAdmin) }
    }
}

/// Somebody who runs the deployment, about to do something that concerns all of it. Only [`Person::administer`] makes
/// one.
#[derive(Clone, Debug)]
pub struct Administrator {
    actor: Actor,
    request_id: Option<String>,
}

impl Administrator {
    /// Who is named in the audit log, and by which request.
    pub(crate) fn named(&self) -> (Actor, Option<String>) {
        (self.actor.clone(), self.request_id.clone())
    }
}

/// What a browser keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionToken(String);

impl SessionToken {
    /// A token as a browser gave it, if it can be one.
    pub fn parse(text: &str) -> Option<Self> {
        is_random_token(text).then(|| SessionToken(text.to_owned()))
    }

    /// For its browser only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionToken(…)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The same for an unknown account, one without a password, and a wrong password.
    #[error("address or password is wrong")]
    Wrong,
    #[error("there were too many wrong attempts; try again in {seconds} s")]
    Wait { seconds: u32 },
    #[error("too many people sign in at the moment; try again in a moment")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<passwords::Busy> for SignInError {
    fn from(passwords::Busy: passwords::Busy) -> Self {
        SignInError::Busy
    }
}

impl Engine {
    /// Begins a session for whoever knows the password.
    pub async fn sign_in(&self, email: &str, password: &str, address: IpAddr) -> Result<SessionToken, SignInError> {
        let guess = self.begin_guess(email, address).await?;
        let password = Password::given(password).map_err(|_| SignInError::Wrong)?;
        let record = match email.parse::<Email>() {
            Ok(email) => self.store().account_by_email(&email).await?,
            Err(_) => None,
        };
        let (account, hash) = record.map(|record| (record.account, record.password)).unzip();
        let is_right = self.passwords().is_right(password, hash.flatten()).await?;
        let account = account.filter(|_| is_right).ok_or(SignInError::Wrong)?;
        let (token, session) = self.new_session(account.id)?;
        let audit = self.account_event(Actor::Account(account.id), Action::AccountSignedIn, account.id);
        self.store().begin_session(session, guess, &audit).await?;
        Ok(token)
    }

    /// Who has this session. A session in use is kept.
    pub async fn session(&self, token: &SessionToken) -> Result<Option<Person>, StoreError> {
        let now = self.clock().now();
        let hash = self.session_hash(token)?;
        let Some(found) = self.store().session(hash, now).await? else { return Ok(None) };
        if found.seen_at.duration_until(now) >= NOTED_EVERY {
            let expires_at = after(now, IDLE).min(after(found.created_at, LONGEST));
            self.store().keep_session(hash, now, expires_at).await?;
        }
        Ok(Some(Person { account: found.account, memberships: found.memberships }))
    }

    /// Who has this session, without taking that for a use of it: for what goes on by itself.
    pub async fn whose_session(&self, token: &SessionToken) -> Result<Option<Person>, StoreError> {
        let found = self.store().session(self.session_hash(token)?, self.clock().now()).await?;
        Ok(found.map(|found| Person { account: found.account, memberships: found.memberships }))
    }

    pub async fn sign_out(&self, person: &Person, token: &SessionToken) -> Result<(), StoreError> {
        let account = person.account.id;
        let audit = self.account_event(Actor::Account(account), Action::AccountSignedOut, account);
        self.store().end_session(self.session_hash(token)?, &audit).await?;
        Ok(())
    }

    /// What a form of this browser must carry: bound to its cookie, and known to its pages only.
    pub fn form_token(&self, cookie: &str) -> Result<String, StoreError> {
        Ok(BASE64_URL_SAFE_NO_PAD.encode(self.hash(&[b"form-token", cookie.as_bytes()])?))
    }

    pub fn is_form_token(&self, cookie: &str, given: &str) -> Result<bool, StoreError> {
        let right = self.form_token(cookie)?;
        Ok(verify_slices_are_equal(right.as_bytes(), given.as_bytes()).is_ok())
    }

    /// Something that nobody can guess.
    pub fn random_token(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.entropy().bytes::<RANDOM_TOKEN_BYTES>())
    }

    fn new_session(&self, account: AccountId) -> Result<(SessionToken, NewSession), StoreError> {
        let token = SessionToken(self.random_token());
        let now = self.clock().now();
        let session = NewSession {
            token: self.session_hash(&token)?,
            account,
            created_at: now,
            expires_at: after(now, IDLE.min(LONGEST)),
        };
        Ok((token, session))
    }

    fn session_hash(&self, token: &SessionToken) -> Result<TokenHash, StoreError> {
        self.hash(&[b"session", token.0.as_bytes()]).map(TokenHash)
    }

    /// What concerns an account concerns the whole deployment.
    fn account_event(&self, actor: Actor, action: Action, account: AccountId) -> AuditEvent {
        let at = self.clock().now();
        AuditEvent {
            id: time_ordered(at, self.entropy().bytes()),
            workspace: None,
            at,
            actor,
            action,
            target: account.to_string(),
            changes: vec![],
            request_id: None,
        }
    }
}

/// Whether a text has the form of [`Engine::random_token`]. What has not is never looked up.
fn is_random_token(text: &str) -> bool {
    let mut bytes = [0; RANDOM_TOKEN_BYTES];
    text.len() == RANDOM_TOKEN_CHARS && BASE64_URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) == Ok(RANDOM_TOKEN_BYTES)
}

fn after(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}
