//! Who may ask this operator: clients, as they were agreed on beforehand.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde_json::Value;

use super::{
    jose::{BadKey, KeySet},
    scope::Scope,
};

/// A client. It authenticates by its secret or by a signature (`private_key_jwt`), whichever it was given.
#[derive(Clone)]
pub struct Client {
    pub(super) id: String,
    secret: Option<String>,
    pub(super) keys: KeySet,
    redirect_uris: Vec<String>,
    pub(super) scopes: Vec<Scope>,
}

impl Client {
    /// One that may ask for everything, once it has a way to authenticate.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            secret: None,
            keys: KeySet::default(),
            redirect_uris: vec![],
            scopes: Scope::ALL.to_vec(),
        }
    }

    #[must_use]
    pub fn with_secret(self, secret: impl Into<String>) -> Self {
        Self { secret: Some(secret.into()), ..self }
    }

    /// Its public keys: one JWK, or a set of them.
    pub fn with_keys(self, keys: &Value) -> Result<Self, BadKey> {
        Ok(Self { keys: KeySet::parse(keys)?, ..self })
    }

    /// One more address that devices may be sent back to. It must be named exactly like this.
    #[must_use]
    pub fn redirecting_to(mut self, uri: impl Into<String>) -> Self {
        self.redirect_uris.push(uri.into());
        self
    }

    /// It may ask for these only.
    #[must_use]
    pub fn limited_to(self, scopes: &[Scope]) -> Self {
        Self { scopes: scopes.to_vec(), ..self }
    }

    pub(super) fn may_redirect_to(&self, uri: &str) -> bool {
        self.redirect_uris.iter().any(|known| known == uri)
    }

    pub(super) fn has_secret(&self, secret: &str) -> bool {
        self.secret.as_ref().is_some_and(|own| verify_slices_are_equal(own.as_bytes(), secret.as_bytes()).is_ok())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.id).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}
