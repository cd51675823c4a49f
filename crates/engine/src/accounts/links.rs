//! Single-use links to set a password, or to sign in without one. Invitation links have tokens of the same format.
//!
//! The token in a link consists of an id and a MAC of this id, made with the link key. So a forged token is rejected
//! without a query, and the token can be computed again from the id, to show the link once more.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::{Account, Email},
    audit::{Action, Actor},
};
use uuid::Uuid;

use super::{
    AccountError, Accounts, ClientInfo, FirstFactorOutcome, InvalidPassword, Password, SignInMethod, add_clamped,
    passwords,
};
use crate::actor::Administrator;
use crate::ports::{
    accounts::{LinkPurpose, NewOneTimeLink, OneTimeLink},
    hashes::TokenHash,
    store::StoreError,
};

const SET_PASSWORD_LINK_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
const SIGN_IN_LINK_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Length of a token: a 16-byte id and a 16-byte MAC.
const LINK_TOKEN_BYTES: usize = 32;

/// The kind of link that a token is for. A token of one kind is not valid in a link of another kind.
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

/// A link to give to the holder of an email address. It contains a bearer token.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("AccessLink(…)")]
pub struct AccessLink {
    /// Identifies the link. The id alone does not give access, because the token also contains a MAC.
    pub id: Uuid,
    pub email: Email,
    /// Path and query of the link, relative to the deployment's base URL.
    pub path: String,
    pub expires_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("this link has been used or has expired")]
    Invalid,
    #[error(transparent)]
    Password(#[from] InvalidPassword),
    #[error("too many sign-ins at the moment; try again shortly")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<passwords::PasswordQueueFull> for LinkError {
    fn from(passwords::PasswordQueueFull: passwords::PasswordQueueFull) -> Self {
        LinkError::Busy
    }
}

impl Accounts {
    /// Returns the account and purpose of a valid link, without using it up.
    pub async fn find_link(&self, token: &str) -> Result<OneTimeLink, LinkError> {
        let id = self.verify_link_token(LinkKind::Account, token).ok_or(LinkError::Invalid)?;
        let found = self.store.find_link(self.hash_link_id(id)?, self.context.now()).await?;
        found.ok_or(LinkError::Invalid)
    }

    /// Uses up a link, and signs in. A set-password link requires a `password` and sets it. If the account has a second
    /// factor, a set-password link does not sign in: the user still has to enter a code.
    pub async fn use_link(
        &self,
        token: &str,
        password: Option<&str>,
        client: &ClientInfo,
    ) -> Result<FirstFactorOutcome, LinkError> {
        let id = self.verify_link_token(LinkKind::Account, token).ok_or(LinkError::Invalid)?;
        let OneTimeLink { account, purpose, .. } = self.find_link(token).await?;
        let new_event = |action| self.context.new_account_audit_event(Actor::Account(account.id), action, account.id);
        let mut audit = vec![new_event(Action::AccountSignedIn)];
        let link = self.hash_link_id(id)?;
        let hash = match purpose {
            LinkPurpose::SignIn => None,
            LinkPurpose::SetPassword => {
                let chosen = Password::parse_new(password.unwrap_or_default())?;
                let password_set = new_event(Action::AccountPasswordSet);
                let hash = self.password_hasher.hash(chosen, &*self.context.entropy).await?;
                let record = self.store.find_account(account.id).await?;
                if record.is_some_and(|record| record.second_factor.is_some()) {
                    let redeemed =
                        self.store.redeem_link_without_session(link, account.id, &hash, &password_set).await?;
                    let pending = self.new_pending_sign_in(account.id, &hash)?;
                    return if redeemed {
                        Ok(FirstFactorOutcome::SecondFactor(pending))
                    } else {
                        Err(LinkError::Invalid)
                    };
                }
                audit.insert(0, password_set);
                Some(hash)
            }
        };
        let (session_token, session) = self.new_session(account.id, SignInMethod::Password, client)?;
        let used = self.store.redeem_link(link, hash.as_ref(), session, &audit).await?;
        if used { Ok(FirstFactorOutcome::SignedIn(session_token)) } else { Err(LinkError::Invalid) }
    }

    /// Rebuilds an account's link from the id of the link. `None`: the link was used or has expired.
    pub async fn find_account_link(&self, _: &Administrator, link_id: Uuid) -> Result<Option<AccessLink>, StoreError> {
        let token = self.build_link_token(LinkKind::Account, link_id)?;
        let found = self.store.find_link(self.hash_link_id(link_id)?, self.context.now()).await?;
        Ok(found.map(|OneTimeLink { account, expires_at, .. }| {
            build_account_link(link_id, account.email, &token, expires_at)
        }))
    }

    /// Creates a link for an account, and invalidates the account's earlier links.
    pub(super) async fn create_account_link(
        &self,
        administrator: &Administrator,
        account: &Account,
        purpose: LinkPurpose,
    ) -> Result<AccessLink, AccountError> {
        let now = self.context.now();
        let id = self.context.new_uuid(now);
        let token = self.build_link_token(LinkKind::Account, id)?;
        let expires_at = add_clamped(
            now,
            match purpose {
                LinkPurpose::SetPassword => SET_PASSWORD_LINK_LIFETIME,
                LinkPurpose::SignIn => SIGN_IN_LINK_LIFETIME,
            },
        );
        let link = NewOneTimeLink { token: self.hash_link_id(id)?, account: account.id, purpose, expires_at };
        let audit = administrator.new_audit_event(&self.context, Action::AccountLinkCreated, account.id);
        if !self.store.add_link(link, &audit).await? {
            return Err(AccountError::Disabled);
        }
        Ok(build_account_link(id, account.email.clone(), &token, expires_at))
    }

    pub(super) fn build_link_token(&self, kind: LinkKind, id: Uuid) -> Result<String, StoreError> {
        let hash = self.context.derive_token(&[kind.context(), id.as_bytes()])?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([id.as_bytes(), &hash[..16]].concat()))
    }

    /// Returns the id in a token, or `None` if its MAC does not match.
    pub(super) fn verify_link_token(&self, kind: LinkKind, token: &str) -> Option<Uuid> {
        let bytes: [u8; LINK_TOKEN_BYTES] = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?.try_into().ok()?;
        let (id, mac) = bytes.split_first_chunk::<16>()?;
        self.context.is_derived_token(&[kind.context(), id], mac).then(|| Uuid::from_bytes(*id))
    }

    /// Returns the hash under which a link is stored. It is a hash of the id, not of the token, so that the link stays
    /// valid when the link key is rotated.
    fn hash_link_id(&self, id: Uuid) -> Result<TokenHash, StoreError> {
        self.context.keyed_hash(&[b"account-link", id.as_bytes()]).map(TokenHash)
    }
}

fn build_account_link(id: Uuid, email: Email, token: &str, expires_at: Timestamp) -> AccessLink {
    AccessLink { id, email, path: format!("/console/link?token={token}"), expires_at }
}
