//! Signing in with a phone number: Ringtrue as an OpenID provider for the projects of its customers.
//!
//! A sign-in is a stored authorization request. The user proves a number by a verification, with its hosted page, or by
//! Discovery; then the client gets an authorization code and redeems it for tokens. [`authorize`] takes requests,
//! [`network`] is authorization without the user, [`page`] is the user's part, [`tokens`] is the client's part, and
//! [`client`] authenticates clients by their keys.
//!
//! Only the browser that sent the authorization request can finish a sign-in: it has a [`BrowserKey`] in a cookie.
//! Somebody who opens the link of another user's sign-in therefore neither gets that user's code nor gives them theirs.

mod authorize;
mod client;
mod network;
mod page;
mod sealed;
mod tokens;

use std::sync::Arc;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::CheckStatus,
    phone::Msisdn,
    product::{Product, Scope},
    sign_in::{RequestedScopes, SignInId, SignInProof},
    tenancy::{Credential, Project, ProjectId},
};
use uuid::Uuid;

pub use authorize::{
    AuthorizeError, AuthorizeOutcome, AuthorizeRequest, BrowserVisit, PendingSignInPage, PushError, PushedRequest,
};
pub use client::{AssertionError, ClientKeySets, check_client_keys};
pub(crate) use network::require_permitted_scopes;
pub use page::{EnteredNumber, FinishOutcome, NumberError, SignInState, SignInView};
pub use tokens::{IssuedTokens, RedeemCodeError, RedeemCodeRequest, UserInfo, UserInfoError};

use crate::{
    context::Context,
    lookups::operator_access::Operators,
    ports::{
        activity::UsageDelta,
        hashes::TokenHash,
        sign_in::{EndedSignIn, SignInEnd, SignInSession, SignInStore},
        store::StoreError,
    },
    rate_limits::RateLimiter,
    signing_pool::SigningPool,
    silent::{BrowserKey, SilentFlow},
    tokens::Tokens,
    verifications::Verifications,
};

/// How long a user has to finish a sign-in. Longer than a verification lasts by default, so that a user can correct the
/// number.
pub const SIGN_IN_TTL: SignedDuration = SignedDuration::from_mins(15);
/// Lifetime of an authorization code.
const CODE_TTL: SignedDuration = SignedDuration::from_secs(60);
/// Lifetime of an access token for userinfo.
const ACCESS_TOKEN_TTL: SignedDuration = SignedDuration::from_mins(5);
/// Lifetime of a pushed authorization request.
const PUSHED_TTL: SignedDuration = SignedDuration::from_secs(90);
const ID_BYTES: usize = 16;
const MAC_BYTES: usize = 16;

/// Service for sign-ins.
#[derive(derive_more::Debug)]
#[debug("SignIns")]
pub struct SignIns {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn SignInStore>,
    pub(crate) verifications: Arc<Verifications>,
    pub(crate) silent: Arc<SilentFlow>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) operators: Arc<Operators>,
    pub(crate) rate_limiter: Arc<RateLimiter>,
    pub(crate) signing_pool: SigningPool,
    pub(crate) key_sets: ClientKeySets,
}

/// A project as an OpenID client.
pub(crate) struct Client {
    pub credential: Arc<Credential>,
    pub project: Arc<Project>,
}

impl SignIns {
    /// Finds the client with this id. `None`: there is no such client, or its credential or project is not active.
    pub(crate) fn find_client(&self, client_id: &str, now: Timestamp) -> Option<Client> {
        let credential = self.context.control_plane.credential(client_id)?;
        let project = self.context.control_plane.project(credential.owner.project()?)?;
        (credential.is_active(now) && !project.disabled).then_some(Client { credential, project })
    }

    /// Returns the token in the URL of a sign-in's page. It is derived from the id with the link key, so it need not be
    /// stored.
    fn page_token(&self, id: SignInId) -> Result<String, StoreError> {
        let mac = self.context.derive_token(&[b"sign-in-page", id.0.as_bytes()])?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([id.0.as_bytes().as_slice(), &mac[..MAC_BYTES]].concat()))
    }

    /// Returns the id of the sign-in that a page token belongs to. `None`: the token is malformed, or its MAC is wrong.
    pub fn sign_in_of_token(&self, token: &str) -> Option<SignInId> {
        self.read_derived(b"sign-in-page", token, MAC_BYTES)
    }

    /// Returns the authorization code of a sign-in. It is derived from the id, so that a browser that reloads the
    /// return page gets the same code again.
    fn authorization_code(&self, id: SignInId) -> Result<String, StoreError> {
        let mac = self.context.derive_token(&[b"sign-in-code", id.0.as_bytes()])?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([id.0.as_bytes().as_slice(), &mac].concat()))
    }

    fn sign_in_of_code(&self, code: &str) -> Option<SignInId> {
        self.read_derived(b"sign-in-code", code, 32)
    }

    fn read_derived(&self, purpose: &[u8], text: &str, mac_bytes: usize) -> Option<SignInId> {
        let is_complete = |bytes: &Vec<u8>| bytes.len() == ID_BYTES + mac_bytes;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok().filter(is_complete)?;
        let (id, mac) = bytes.split_at(ID_BYTES);
        let is_right = self.context.is_derived_token(&[purpose, id], mac);
        Uuid::from_slice(id).ok().filter(|_| is_right).map(SignInId)
    }

    /// Generates the key of the browser that sent the authorization request. It is stored in a cookie.
    fn new_browser_key(&self, id: SignInId) -> Result<BrowserKey, StoreError> {
        let random: [u8; BrowserKey::BYTES / 2] = self.context.entropy.bytes();
        let mac = self.context.derive_token(&[b"sign-in-browser", id.0.as_bytes(), &random])?;
        Ok(BrowserKey::from_bytes(&[&random[..], &mac[..BrowserKey::BYTES / 2]].concat()))
    }

    /// Finds the key of the browser that sent the authorization request among the keys in a browser's cookies.
    fn own_key<'k>(&self, id: SignInId, keys: &'k [BrowserKey]) -> Option<&'k BrowserKey> {
        keys.iter().find(|key| {
            key.bytes().is_some_and(|bytes| {
                let (random, mac) = bytes.split_at(BrowserKey::BYTES / 2);
                self.context.is_derived_token(&[b"sign-in-browser", id.0.as_bytes(), random], mac)
            })
        })
    }

    /// Returns the pairwise subject of a number in a project (OpenID Connect Core, section 8.1).
    pub(crate) fn subject(&self, project: ProjectId, number: &Msisdn) -> Result<String, StoreError> {
        let parts = [b"sign-in-subject".as_slice(), project.0.as_bytes(), number.as_str().as_bytes()];
        Ok(BASE64_URL_SAFE_NO_PAD.encode(self.context.keyed_hash(&parts)?))
    }

    /// The hash includes the mode: a session of a simulated number must not sign in to the live project.
    fn session_hash(&self, project: &Project, token: &str) -> Result<TokenHash, StoreError> {
        let mode = project.mode.into_str().as_bytes();
        let parts = [b"sign-in-session".as_slice(), project.id.0.as_bytes(), mode, token.as_bytes()];
        self.context.keyed_hash(&parts).map(TokenHash)
    }
}

/// Returns the end of a sign-in as the store takes it. A request for a token of CAMARA's APIs is not counted, because its
/// checks are.
fn new_ended_sign_in(
    project: ProjectId,
    id: SignInId,
    scopes: &RequestedScopes,
    end: SignInEnd,
    session: Option<SignInSession>,
    at: Timestamp,
) -> EndedSignIn {
    let (status, matched) = match &end {
        SignInEnd::Proven { .. } => (CheckStatus::Completed, Some(true)),
        SignInEnd::Failed { .. } => (CheckStatus::Error, None),
    };
    let product = Product::SignIn;
    let usage = UsageDelta { project, product, at, status, matched, network: None, via: None, delta: 1 };
    EndedSignIn { id, end, session, usage: scopes.sign_in_scopes().is_some().then_some(usage) }
}

/// Whether a credential's project may sign users in with it.
fn may_sign_in(Client { credential, project }: &Client) -> bool {
    let product = Product::SignIn;
    project.products.contains(&product) && credential.scopes.contains(&Scope::Product(product))
}

/// Whether a proof is recent enough for a request with `max_age`.
fn is_recent(proof: &SignInProof, max_age: Option<u32>, now: Timestamp) -> bool {
    max_age.is_none_or(|seconds| now.duration_since(proof.at) <= SignedDuration::from_secs(seconds.into()))
}
