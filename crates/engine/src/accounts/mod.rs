//! People at the console: signing in and out, sessions, and who may do what where.
//!
//! A session is a token that only its browser has; the store knows its hash. What protects forms is derived from the
//! token, so there is nothing else to keep.

mod administration;
mod delays;
mod links;
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

pub use administration::AccountError;
pub use delays::SignInDelays;
pub use links::{AccessLink, LinkError};
pub use members::{InvitationError, MemberError, PendingInvitation};
pub use passwords::{InvalidPassword, Password, Passwords};

use crate::{
    Engine,
    management::Manager,
    ports::{NewSession, PasswordChange, SessionOrigin, SessionSummary, StoreError, TokenHash},
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

/// Somebody who runs the deployment, about to do something that concerns all of it: an account, by
/// [`Person::administer`], or the operator at the command line.
#[derive(Clone, Debug)]
pub struct Administrator {
    actor: Actor,
    request_id: Option<String>,
}

impl Administrator {
    /// Whoever can open the database at the command line.
    pub fn operator() -> Self {
        Administrator { actor: Actor::Operator, request_id: None }
    }

    /// Who is named in the audit log, and by which request.
    pub(crate) fn named(&self) -> (Actor, Option<String>) {
        (self.actor.clone(), self.request_id.clone())
    }
}

/// The browser that somebody signs in with.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    pub address: IpAddr,
    pub user_agent: String,
}

impl ClientInfo {
    const MAX_USER_AGENT: usize = 200;

    /// What is stored of it: the network of the address, and the printable part of the user agent.
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
        let user_agent = self.user_agent.chars().filter(is_printable).take(Self::MAX_USER_AGENT).collect();
        SessionOrigin { network, user_agent }
    }
}

/// A session of an account, as the account's owner sees it.
#[derive(Clone, Debug)]
pub struct OwnSession {
    /// Names the session in forms. It signs nobody in.
    pub id: String,
    pub origin: SessionOrigin,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
    pub is_current: bool,
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

/// Why a password is not changed.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    #[error("the current password is wrong")]
    Wrong,
    #[error("there were too many wrong attempts; try again in {seconds} s")]
    Wait { seconds: u32 },
    #[error("too many people sign in at the moment; try again in a moment")]
    Busy,
    #[error(transparent)]
    Invalid(#[from] InvalidPassword),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SignInError> for PasswordError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::Wrong => PasswordError::Wrong,
            SignInError::Wait { seconds } => PasswordError::Wait { seconds },
            SignInError::Busy => PasswordError::Busy,
            SignInError::Store(error) => PasswordError::Store(error),
        }
    }
}

impl From<passwords::Busy> for PasswordError {
    fn from(passwords::Busy: passwords::Busy) -> Self {
        PasswordError::Busy
    }
}

impl Engine {
    /// Begins a session for whoever knows the password.
    pub async fn sign_in(&self, email: &str, password: &str, client: &ClientInfo) -> Result<SessionToken, SignInError> {
        let guess = self.begin_guess(email, client.address).await?;
        let password = Password::given(password).map_err(|_| SignInError::Wrong)?;
        let record = match email.parse::<Email>() {
            Ok(email) => self.store().account_by_email(&email).await?,
            Err(_) => None,
        };
        let hash = record.as_ref().and_then(|record| record.password.clone());
        let is_right = self.passwords().is_right(password, hash.clone()).await?;
        let record = record.filter(|record| is_right && !record.is_disabled);
        let (Some(record), Some(hash)) = (record, hash) else { return Err(SignInError::Wrong) };
        let account = record.account.id;
        let (token, session) = self.new_session(account, client)?;
        let audit = self.account_event(Actor::Account(account), Action::AccountSignedIn, account);
        let has_begun = self.store().begin_session(session, &hash, guess, &audit).await?;
        if has_begun { Ok(token) } else { Err(SignInError::Wrong) }
    }

    /// Replaces a person's own password. Every other session of theirs ends, and every link.
    pub async fn change_password(
        &self,
        person: &Person,
        session: &SessionToken,
        (current, new): (&str, &str),
        address: IpAddr,
    ) -> Result<(), PasswordError> {
        let new = Password::chosen(new)?;
        let guess = self.begin_guess(person.account.email.as_str(), address).await?;
        let given = Password::given(current).map_err(|_| PasswordError::Wrong)?;
        let account = person.account.id;
        let hash = self.store().account(account).await?.and_then(|record| record.password);
        let is_right = self.passwords().is_right(given, hash.clone()).await?;
        let current = hash.filter(|_| is_right).ok_or(PasswordError::Wrong)?;
        let new = self.passwords().hash(new, self.entropy()).await?;
        let audit = self.account_event(Actor::Account(account), Action::AccountPasswordSet, account);
        let change = PasswordChange { account, current, new, session: self.session_hash(session)?, guess };
        let is_changed = self.store().change_password(change, &audit).await?;
        if is_changed { Ok(()) } else { Err(PasswordError::Wrong) }
    }

    /// Whether a person has a password: an account that signs in by links alone has none.
    pub async fn has_password(&self, person: &Person) -> Result<bool, StoreError> {
        Ok(self.store().account(person.account.id).await?.is_some_and(|record| record.password.is_some()))
    }

    /// A person's own sessions, the last used first.
    pub async fn sessions(&self, person: &Person, current: &SessionToken) -> Result<Vec<OwnSession>, StoreError> {
        let current = self.session_hash(current)?;
        let found = self.store().sessions(person.account.id, self.clock().now()).await?;
        let own = |session: SessionSummary| {
            Ok(OwnSession {
                id: self.session_id(session.token)?,
                is_current: session.token == current,
                origin: session.origin,
                created_at: session.created_at,
                seen_at: session.seen_at,
            })
        };
        found.into_iter().map(own).collect()
    }

    /// Ends one of the person's own sessions. Returns `false` if the id is unknown.
    pub async fn end_own_session(&self, person: &Person, id: &str) -> Result<bool, StoreError> {
        let account = person.account.id;
        for session in self.store().sessions(account, self.clock().now()).await? {
            if self.session_id(session.token)? == id {
                let audit = self.account_event(Actor::Account(account), Action::AccountSessionEnded, account);
                return self.store().end_session(session.token, &audit).await;
            }
        }
        Ok(false)
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

    fn new_session(&self, account: AccountId, client: &ClientInfo) -> Result<(SessionToken, NewSession), StoreError> {
        let token = SessionToken(self.random_token());
        let now = self.clock().now();
        let session = NewSession {
            token: self.session_hash(&token)?,
            account,
            origin: client.origin(),
            created_at: now,
            expires_at: after(now, IDLE.min(LONGEST)),
        };
        Ok((token, session))
    }

    pub(crate) fn session_hash(&self, token: &SessionToken) -> Result<TokenHash, StoreError> {
        self.hash(&[b"session", token.0.as_bytes()]).map(TokenHash)
    }

    fn session_id(&self, token: TokenHash) -> Result<String, StoreError> {
        let hash = self.hash(&[b"session-id", &token.0])?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(&hash[..16]))
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
