//! Registered OAuth clients.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde_json::Value;

use super::{
    jose::{InvalidJwk, JwkSet},
    scope::Scope,
};

/// A registered client. Authenticates by secret or by `private_key_jwt`.
#[derive(Clone)]
pub struct OAuthClient {
    pub(super) id: String,
    secret: Option<String>,
    pub(super) keys: JwkSet,
    redirect_uris: Vec<String>,
    pub(super) scopes: Vec<Scope>,
}

impl OAuthClient {
    /// A client with all scopes and without credentials.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            secret: None,
            keys: JwkSet::default(),
            redirect_uris: vec![],
            scopes: Scope::ALL.to_vec(),
        }
    }

    #[must_use]
    pub fn with_secret(self, secret: impl Into<String>) -> Self {
        Self { secret: Some(secret.into()), ..self }
    }

    /// Public keys: a JWK or a JWK set.
    pub fn with_keys(self, keys: &Value) -> Result<Self, InvalidJwk> {
        Ok(Self { keys: JwkSet::parse(keys)?, ..self })
    }

    /// Adds a `redirect_uri`, which is compared exactly.
    #[must_use]
    pub fn with_redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.redirect_uris.push(uri.into());
        self
    }

    #[must_use]
    pub fn with_scopes(self, scopes: &[Scope]) -> Self {
        Self { scopes: scopes.to_vec(), ..self }
    }

    pub(super) fn allows_redirect_uri(&self, uri: &str) -> bool {
        self.redirect_uris.iter().any(|known| known == uri)
    }

    pub(super) fn has_secret(&self, secret: &str) -> bool {
        self.secret.as_ref().is_some_and(|own| verify_slices_are_equal(own.as_bytes(), secret.as_bytes()).is_ok())
    }
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClient").field("id", &self.id).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}
