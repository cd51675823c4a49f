//! Cache of tokens whose signature was verified, so that repeated requests skip the HMAC and the JSON parsing.
//!
//! The cache holds a digest of each signature instead of the signature, so its contents cannot be used as tokens.
//! Expiry, revocation and the state of the credential are not cached, but checked at every request.

use std::sync::Arc;

use aws_lc_rs::digest;
use quick_cache::sync::Cache;
use ringtrue_domain::{product::Scope, tenancy::ClientId};

use crate::ports::tokens::TokenId;

const CACHE_CAPACITY: usize = 10_000;
/// Length of an HMAC-SHA-256 signature in base64url.
const SIGNATURE_LENGTH: usize = 43;

/// The signed content of a verified token.
#[derive(derive_more::Debug)]
pub(super) struct VerifiedToken {
    /// Encoded header and claims. They are useless without the signature, but hidden in debug output because they name
    /// a client.
    #[debug(skip)]
    signed: Box<str>,
    #[debug(skip)]
    header_length: usize,
    #[debug(skip)]
    pub client_id: ClientId,
    /// Unix time in seconds.
    pub expires_at: i64,
    pub id: TokenId,
    pub scope: Scope,
}

/// The encoded parts of a JWT.
#[derive(Clone, Copy)]
pub(super) struct JwtParts<'a> {
    /// Header, dot and claims.
    pub signed: &'a str,
    pub header: &'a str,
    pub claims: &'a str,
    pub signature: &'a str,
}

impl<'a> JwtParts<'a> {
    pub(super) fn split(token: &'a str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        Some(JwtParts { signed, header, claims, signature })
    }
}

impl VerifiedToken {
    pub(super) fn new(parts: JwtParts<'_>, client_id: ClientId, expires_at: i64, id: TokenId, scope: Scope) -> Self {
        VerifiedToken {
            signed: parts.signed.into(),
            header_length: parts.header.len(),
            client_id,
            expires_at,
            id,
            scope,
        }
    }

    /// Returns the encoded header, which identifies the signing key.
    pub(super) fn header(&self) -> &str {
        &self.signed[..self.header_length]
    }
}

/// Verified tokens by the digest of their signature.
#[derive(Debug)]
pub(super) struct VerifiedTokenCache(Cache<[u8; 32], Arc<VerifiedToken>>);

impl Default for VerifiedTokenCache {
    fn default() -> Self {
        VerifiedTokenCache(Cache::new(CACHE_CAPACITY))
    }
}

impl VerifiedTokenCache {
    pub(super) fn find(&self, token: &[u8]) -> Option<Arc<VerifiedToken>> {
        let (signed, signature) = token.split_at_checked(token.len().checked_sub(SIGNATURE_LENGTH)?)?;
        let found = self.0.get(&hash_signature(signature))?;
        // A cached signature with other content is a forgery.
        (signed.strip_suffix(b".") == Some(found.signed.as_bytes())).then_some(found)
    }

    pub(super) fn insert(&self, parts: JwtParts<'_>, token: VerifiedToken) -> Arc<VerifiedToken> {
        let token = Arc::new(token);
        self.0.insert(hash_signature(parts.signature.as_bytes()), Arc::clone(&token));
        token
    }
}

fn hash_signature(signature: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, signature).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::product::Product;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn token_is_found_only_if_all_bytes_are_equal() {
        let signature = "s".repeat(SIGNATURE_LENGTH);
        let token = format!("header.claims.{signature}");
        let tokens = VerifiedTokenCache::default();
        assert!(tokens.find(token.as_bytes()).is_none(), "not inserted yet");

        let client_id = "prj_one".parse().unwrap();
        let scope = Scope::Product(Product::ReverseSms);
        let parts = JwtParts::split(&token).unwrap();
        tokens.insert(parts, VerifiedToken::new(parts, client_id, 7, TokenId(Uuid::from_u128(1)), scope));
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
