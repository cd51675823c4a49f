//! Tokens that were found to be ours a moment ago, so that they are not taken apart again at every call.
//!
//! What is kept here is no token: of its signature there is only a digest. And what may change from one call to the
//! next is not kept at all, such as whether the token has been revoked, has expired, or is of a credential that still
//! lives.

use std::{fmt, sync::Arc};

use aws_lc_rs::digest;
use quick_cache::sync::Cache;
use ringtrue_domain::{product::Scope, tenancy::ClientId};

use crate::ports::TokenId;

/// More than these may be in use: they are taken apart at each call.
const REMEMBERED: usize = 10_000;
/// An HMAC with SHA-256 in base64url.
const SIGNATURE_LENGTH: usize = 43;

/// What a token says that this deployment made.
pub(crate) struct Verified {
    /// The header and the claims as they were signed, which are no secret.
    signed: Box<str>,
    header_length: usize,
    pub client_id: ClientId,
    /// In seconds since 1970.
    pub expires_at: i64,
    pub id: TokenId,
    pub scope: Scope,
}

/// A token in its three parts, none of them decoded.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// The header, a dot and the claims.
    pub signed: &'a str,
    pub header: &'a str,
    pub claims: &'a str,
    pub signature: &'a str,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(token: &'a str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        Some(Parts { signed, header, claims, signature })
    }
}

impl Verified {
    pub(crate) fn new(parts: Parts<'_>, client_id: ClientId, expires_at: i64, id: TokenId, scope: Scope) -> Self {
        Verified { signed: parts.signed.into(), header_length: parts.header.len(), client_id, expires_at, id, scope }
    }

    /// The first part of the token, which names its key.
    pub(crate) fn header(&self) -> &str {
        &self.signed[..self.header_length]
    }
}

/// The claims name a caller, and nobody needs them in a log.
impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified").field("id", &self.id).field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// By the digests of their signatures.
#[derive(Debug)]
pub(crate) struct VerifiedTokens(Cache<[u8; 32], Arc<Verified>>);

impl Default for VerifiedTokens {
    fn default() -> Self {
        VerifiedTokens(Cache::new(REMEMBERED))
    }
}

impl VerifiedTokens {
    pub(crate) fn find(&self, token: &[u8]) -> Option<Arc<Verified>> {
        let (signed, signature) = token.split_at_checked(token.len().checked_sub(SIGNATURE_LENGTH)?)?;
        let found = self.0.get(&fingerprint(signature))?;
        // Every byte of it: a good signature under other claims is a forgery.
        (signed.strip_suffix(b".") == Some(found.signed.as_bytes())).then_some(found)
    }

    pub(crate) fn remember(&self, parts: Parts<'_>, token: Verified) -> Arc<Verified> {
        let token = Arc::new(token);
        self.0.insert(fingerprint(parts.signature.as_bytes()), Arc::clone(&token));
        token
    }
}

fn fingerprint(signature: &[u8]) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, signature).as_ref());
    fingerprint
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::product::Product;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_token_is_found_by_all_of_its_bytes() {
        let signature = "s".repeat(SIGNATURE_LENGTH);
        let token = format!("header.claims.{signature}");
        let tokens = VerifiedTokens::default();
        assert!(tokens.find(token.as_bytes()).is_none(), "nobody has seen it");

        let client_id = "prj_one".parse().unwrap();
        let scope = Scope::Product(Product::ReverseSms);
        let parts = Parts::of(&token).unwrap();
        tokens.remember(parts, Verified::new(parts, client_id, 7, TokenId(Uuid::from_u128(1)), scope));
        assert_eq!(tokens.find(token.as_bytes()).unwrap().header(), "header");
        for other in [
            format!("header.claimz.{signature}"),
            format!("header.claims:{signature}"),
            format!("header.claims.{}", "t".repeat(SIGNATURE_LENGTH)),
            format!("header.claims.{signature}="),
            format!("header.claims..{signature}"),
            format!("é{signature}"),
            signature.clone(),
            String::new(),
        ] {
            assert!(tokens.find(other.as_bytes()).is_none(), "{other}");
        }
    }
}
