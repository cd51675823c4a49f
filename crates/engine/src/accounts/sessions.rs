//! Console sessions: session tokens, the list of a user's sessions, CSRF tokens, and encrypted data in cookies.

use std::net::IpAddr;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::AccountId,
    audit::{Action, Actor},
};

use super::{Accounts, ConsoleUser, add_clamped};
use crate::ports::{
    accounts::{NewSession, SessionOrigin, SessionSummary},
    hashes::TokenHash,
    store::StoreError,
};

const SESSION_IDLE_TIMEOUT: SignedDuration = SignedDuration::from_hours(12);
/// A session ends this long after its beginning, even if it is in use.
pub const SESSION_MAX_AGE: SignedDuration = SignedDuration::from_hours(7 * 24);
const RANDOM_TOKEN_BYTES: usize = 32;
/// Number of base64url characters, without padding, that encode [`RANDOM_TOKEN_BYTES`].
const RANDOM_TOKEN_CHARS: usize = 43;
const CSRF_TOKEN_BYTES: usize = 32;
/// Minimum time between two updates of a session's last use and expiry, to save writes.
const SESSION_TOUCH_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// Prefix of the session tokens of users who signed in by OpenID Connect.
const IDENTITY_TOKEN_PREFIX: &str = "oidc.";
/// Lifetime of a flash message. Long enough for the redirect to the next page, even over a slow connection.
pub const FLASH_MAX_AGE: SignedDuration = SignedDuration::from_secs(60);

/// Address and user agent of the browser that signs in.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    pub address: IpAddr,
    pub user_agent: String,
}

impl ClientInfo {
    const MAX_USER_AGENT_CHARS: usize = 200;

    /// Returns what the session stores about the browser: the network of its address (/24 or /48), and the printable
    /// characters of its user agent.
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

/// A session in the list of a user's own sessions.
#[derive(Clone, Debug)]
pub struct SessionListItem {
    /// Identifies the session in the form that ends it. Not a credential.
    pub id: String,
    pub origin: SessionOrigin,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
    pub is_current: bool,
}

/// Whether the user or a script caused a request. Only requests by the user extend the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestCause {
    /// The user followed a link, submitted a form or used the address bar.
    User,
    /// An open page updates itself. This must not keep a session alive that nobody uses.
    Background,
}

/// How the user of a session signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignInMethod {
    /// By password, or by a link that was created by an administrator or at the command line of the server.
    Password,
    /// By OpenID Connect. The provider decides whether a second factor is needed.
    Identity,
}

/// The value of the session cookie. Its prefix identifies the sign-in method. A browser cannot change the prefix,
/// because the stored hash covers the whole token.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("SessionToken(…)")]
pub struct SessionToken(String);

impl SessionToken {
    pub fn parse(text: &str) -> Option<Self> {
        let random = text.strip_prefix(IDENTITY_TOKEN_PREFIX).unwrap_or(text);
        has_token_format(random).then(|| SessionToken(text.to_owned()))
    }

    fn method(&self) -> SignInMethod {
        if self.0.starts_with(IDENTITY_TOKEN_PREFIX) { SignInMethod::Identity } else { SignInMethod::Password }
    }

    /// Returns the token in plain text. It may be sent only to the browser that it belongs to.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Accounts {
    /// Lists the user's sessions, most recently used first.
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
    pub async fn end_session_of_user(&self, user: &ConsoleUser, id: &str) -> Result<bool, StoreError> {
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

    /// Ends all sessions of the user except the current one.
    pub async fn end_other_sessions(&self, user: &ConsoleUser, current: &SessionToken) -> Result<(), StoreError> {
        let account = user.account.id;
        let audit = self.context.new_account_audit_event(Actor::Account(account), Action::AccountSessionEnded, account);
        self.store.end_other_sessions(account, self.hash_session_token(current)?, &audit).await.map(drop)
    }

    /// Returns the user of a session. `None`: the session does not exist or has ended. A request that the user caused
    /// extends the session.
    pub async fn authenticate_session(
        &self,
        token: &SessionToken,
        cause: RequestCause,
    ) -> Result<Option<ConsoleUser>, StoreError> {
        let now = self.context.now();
        let hash = self.hash_session_token(token)?;
        let Some(found) = self.store.find_session(hash, now).await? else { return Ok(None) };
        // Enforces the maximum age by `created_at`, which the MAC of the row protects. The MAC does not cover
        // `expires_at`, so someone with write access to the database could have extended the session.
        if found.created_at.duration_until(now) >= SESSION_MAX_AGE {
            return Ok(None);
        }
        if cause == RequestCause::User && found.seen_at.duration_until(now) >= SESSION_TOUCH_INTERVAL {
            let expires_at = add_clamped(now, SESSION_IDLE_TIMEOUT).min(add_clamped(found.created_at, SESSION_MAX_AGE));
            self.store.extend_session(hash, now, expires_at).await?;
        }
        let needs_second_factor = self.context.settings.require_second_factor
            && token.method() == SignInMethod::Password
            && found.has_password
            && !found.has_second_factor;
        Ok(Some(ConsoleUser { account: found.account, memberships: found.memberships, needs_second_factor }))
    }

    pub async fn sign_out(&self, user: &ConsoleUser, token: &SessionToken) -> Result<(), StoreError> {
        let account = user.account.id;
        let audit = self.context.new_account_audit_event(Actor::Account(account), Action::AccountSignedOut, account);
        self.store.end_session(self.hash_session_token(token)?, &audit).await?;
        Ok(())
    }

    /// Returns the CSRF token for the forms of a browser, derived from its session cookie or, before sign-in, from its
    /// visitor cookie.
    pub fn csrf_token(&self, cookie: &str) -> Result<String, StoreError> {
        Ok(BASE64_URL_SAFE_NO_PAD.encode(self.context.derive_token(&[b"form-token", cookie.as_bytes()])?))
    }

    pub fn is_valid_csrf_token(&self, cookie: &str, given: &str) -> bool {
        let given = BASE64_URL_SAFE_NO_PAD.decode(given).ok().filter(|given| given.len() == CSRF_TOKEN_BYTES);
        given.is_some_and(|given| self.context.is_derived_token(&[b"form-token", cookie.as_bytes()], &given))
    }

    /// Generates a random bearer token in base64url.
    pub fn generate_token(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.context.entropy.bytes::<RANDOM_TOKEN_BYTES>())
    }

    /// Encrypts and authenticates data for a cookie. It can be unsealed until `lifetime` has passed, and only with the
    /// same `purpose`.
    pub fn seal_for_browser(
        &self,
        purpose: &str,
        plain: &[u8],
        lifetime: SignedDuration,
    ) -> Result<String, StoreError> {
        let expires_at = add_clamped(self.context.now(), lifetime).as_millisecond();
        let plain = [&expires_at.to_be_bytes()[..], plain].concat();
        Ok(BASE64_URL_SAFE_NO_PAD.encode(self.context.seal(format!("browser:{purpose}").as_bytes(), &plain)?))
    }

    /// Unseals data from [`seal_for_browser`](Self::seal_for_browser). `None`: altered, for another purpose, or
    /// expired.
    pub fn unseal_from_browser(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let plain = self.context.unseal(format!("browser:{purpose}").as_bytes(), &sealed)?;
        let (expires_at, plain) = plain.split_first_chunk()?;
        (self.context.now().as_millisecond() < i64::from_be_bytes(*expires_at)).then(|| plain.to_vec())
    }

    /// Seals a flash message: a message that the page after a form shows once, such as the secret of a new credential.
    /// The browser keeps the sealed message in a cookie, so that any node can show it and no node stores it. It can be
    /// unsealed only in the same session.
    pub fn seal_flash(&self, session: &SessionToken, message: &str) -> Result<String, StoreError> {
        self.seal_for_browser(&flash_purpose(session), message.as_bytes(), FLASH_MAX_AGE)
    }

    /// Unseals a flash message. `None`: the message belongs to another session, has expired or was altered.
    pub fn unseal_flash(&self, session: &SessionToken, sealed: &str) -> Option<String> {
        String::from_utf8(self.unseal_from_browser(&flash_purpose(session), sealed)?).ok()
    }

    pub(super) fn new_session(
        &self,
        account: AccountId,
        method: SignInMethod,
        client: &ClientInfo,
    ) -> Result<(SessionToken, NewSession), StoreError> {
        let prefix = match method {
            SignInMethod::Password => "",
            SignInMethod::Identity => IDENTITY_TOKEN_PREFIX,
        };
        let token = SessionToken(format!("{prefix}{}", self.generate_token()));
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

fn flash_purpose(session: &SessionToken) -> String {
    format!("flash:{}", session.reveal())
}

/// Returns whether a text has the format of [`Accounts::generate_token`], so that other texts are rejected without a
/// query.
fn has_token_format(text: &str) -> bool {
    let mut bytes = [0; RANDOM_TOKEN_BYTES];
    text.len() == RANDOM_TOKEN_CHARS && BASE64_URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) == Ok(RANDOM_TOKEN_BYTES)
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
