//! Single-use links: to set a password, or to sign in without one.
//!
//! A link's token is an id and a keyed hash of that id. A forged token is rejected without a query, and a page can show
//! the link again from the id alone.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::{Account, Email},
    audit::{Action, Actor},
    id::time_ordered,
};
use uuid::Uuid;

use super::{AccountError, Administrator, ClientInfo, InvalidPassword, Password, SessionToken, after, passwords};
use crate::{
    Engine,
    ports::{LinkPurpose, LinkRecord, NewLink, StoreError, TokenHash},
};

/// Lifetime of a set-password link.
const SET_PASSWORD_FOR: SignedDuration = SignedDuration::from_hours(24);
/// Lifetime of a sign-in link.
const SIGN_IN_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Tokens of one kind are not valid as another.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinkKind {
    Account,
    Invitation,
}

impl LinkKind {
    fn context(self) -> &'static [u8] {
        match self {
            LinkKind::Account => b"account-link-token",
            LinkKind::Invitation => b"invitation-token",
        }
    }
}

/// A link to hand over. It is a bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessLink {
    /// Identifies the link; useless without the keyed hash.
    pub id: Uuid,
    pub email: Email,
    /// Path and query, below the deployment's base URL.
    pub path: String,
    pub expires_at: Timestamp,
}

impl fmt::Debug for AccessLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessLink(…)")
    }
}

/// Why a link is refused.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("this link has been used, or its time is up")]
    NotGood,
    #[error(transparent)]
    Password(#[from] InvalidPassword),
    #[error("too many people sign in at the moment; try again in a moment")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<passwords::Busy> for LinkError {
    fn from(passwords::Busy: passwords::Busy) -> Self {
        LinkError::Busy
    }
}

impl Engine {
    /// What a link is for, without using it up.
    pub async fn look_at_link(&self, token: &str) -> Result<LinkRecord, LinkError> {
        self.link_id(LinkKind::Account, token)?.ok_or(LinkError::NotGood)?;
        let found = self.store().link(self.link_hash(token)?, self.clock().now()).await?;
        found.ok_or(LinkError::NotGood)
    }

    /// Uses a link up, and begins a session. One for a password needs the password.
    pub async fn use_link(
        &self,
        token: &str,
        password: Option<&str>,
        client: &ClientInfo,
    ) -> Result<SessionToken, LinkError> {
        let LinkRecord { account, purpose, .. } = self.look_at_link(token).await?;
        let actor = Actor::Account(account.id);
        let mut audit = vec![self.account_event(actor.clone(), Action::AccountSignedIn, account.id)];
        let hash = match purpose {
            LinkPurpose::SignIn => None,
            LinkPurpose::SetPassword => {
                let chosen = Password::chosen(password.unwrap_or_default())?;
                audit.insert(0, self.account_event(actor, Action::AccountPasswordSet, account.id));
                Some(self.passwords().hash(chosen, self.entropy()).await?)
            }
        };
        let (session_token, session) = self.new_session(account.id, client)?;
        let used = self.store().use_link(self.link_hash(token)?, hash.as_ref(), session, &audit).await?;
        if used { Ok(session_token) } else { Err(LinkError::NotGood) }
    }

    /// A link that an administrator has made, while it is good.
    pub async fn account_link(&self, _: &Administrator, id: Uuid) -> Result<Option<AccessLink>, StoreError> {
        let token = self.link_token(LinkKind::Account, id)?;
        let found = self.store().link(self.link_hash(&token)?, self.clock().now()).await?;
        Ok(found.map(|LinkRecord { account, expires_at, .. }| access_link(id, account.email, &token, expires_at)))
    }

    /// Makes a link for an account. Earlier ones are void.
    pub(super) async fn new_account_link(
        &self,
        administrator: &Administrator,
        account: &Account,
        purpose: LinkPurpose,
    ) -> Result<AccessLink, AccountError> {
        let now = self.clock().now();
        let id = time_ordered(now, self.entropy().bytes());
        let token = self.link_token(LinkKind::Account, id)?;
        let expires_at = after(
            now,
            match purpose {
                LinkPurpose::SetPassword => SET_PASSWORD_FOR,
                LinkPurpose::SignIn => SIGN_IN_FOR,
            },
        );
        let link = NewLink { token: self.link_hash(&token)?, account: account.id, purpose, expires_at };
        let audit = self.administrators_event(administrator, Action::AccountLinkCreated, account.id);
        if !self.store().add_link(link, &audit).await? {
            return Err(AccountError::Disabled);
        }
        Ok(access_link(id, account.email.clone(), &token, expires_at))
    }

    pub(super) fn link_token(&self, kind: LinkKind, id: Uuid) -> Result<String, StoreError> {
        let hash = self.hash(&[kind.context(), id.as_bytes()])?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([id.as_bytes(), &hash[..16]].concat()))
    }

    /// The id in a token. `None`: the token was not made here.
    pub(super) fn link_id(&self, kind: LinkKind, token: &str) -> Result<Option<Uuid>, StoreError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
        let Some(id) = bytes.and_then(|bytes| Uuid::from_slice(bytes.get(..16)?).ok()) else { return Ok(None) };
        let right = self.link_token(kind, id)?;
        Ok(verify_slices_are_equal(right.as_bytes(), token.as_bytes()).is_ok().then_some(id))
    }

    fn link_hash(&self, token: &str) -> Result<TokenHash, StoreError> {
        self.hash(&[b"account-link", token.as_bytes()]).map(TokenHash)
    }
}

fn access_link(id: Uuid, email: Email, token: &str, expires_at: Timestamp) -> AccessLink {
    AccessLink { id, email, path: format!("/console/link?token={token}"), expires_at }
}
