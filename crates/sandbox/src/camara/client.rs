//! OAuth clients that are registered with the simulated operator, and their scopes.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};

use super::{
    jose::{ClientKeys, InvalidJwk},
    message::{OAuthError, OAuthErrorCode},
};

/// A registered client. Authenticates by secret or by `private_key_jwt`.
#[derive(Clone, derive_more::Debug)]
#[debug("OAuthClient({id}, {scopes:?})")]
pub struct OAuthClient {
    pub(super) id: String,
    secret: Option<String>,
    pub(super) keys: ClientKeys,
    redirect_uris: Vec<String>,
    pub(super) scopes: Vec<Scope>,
}

impl OAuthClient {
    /// Creates a client with all scopes and without credentials.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            secret: None,
            keys: ClientKeys::default(),
            redirect_uris: vec![],
            scopes: Scope::VARIANTS.to_vec(),
        }
    }

    #[must_use]
    pub fn with_secret(self, secret: impl Into<String>) -> Self {
        Self { secret: Some(secret.into()), ..self }
    }

    /// Sets the public keys: a JWK or a JWK set.
    pub fn with_keys(self, keys: &Value) -> Result<Self, InvalidJwk> {
        Ok(Self { keys: ClientKeys::parse(keys)?, ..self })
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

/// An API scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub enum Scope {
    #[strum(serialize = "number-verification:verify")]
    VerifyNumber,
    #[strum(serialize = "number-verification:device-phone-number:read")]
    ReadDeviceNumber,
    /// Covers both operations of SIM Swap.
    #[strum(serialize = "sim-swap")]
    SimSwap,
    #[strum(serialize = "sim-swap:check")]
    CheckSimSwap,
    #[strum(serialize = "sim-swap:retrieve-date")]
    RetrieveSimSwapDate,
}

impl Scope {
    /// Whether this is a scope of Number Verification. Tokens with such a scope are single-use.
    fn is_number_verification(self) -> bool {
        matches!(self, Self::VerifyNumber | Self::ReadDeviceNumber)
    }
}

/// A validated `scope` parameter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Scopes {
    /// Text of the parameter, echoed in the token response.
    written: String,
    openid: bool,
    apis: Vec<Scope>,
}

impl Scopes {
    /// Parses `openid dpv:Purpose scope scope`, and the variant `dpv:Purpose#scope` that some operators use.
    pub(super) fn parse(written: Option<&str>, allowed: &[Scope]) -> Result<Self, OAuthError> {
        let written = written.ok_or(invalid_scope("scope is missing"))?;
        let mut openid = false;
        let mut apis = vec![];
        let mut purpose = None;
        for word in written.split(' ').filter(|word| !word.is_empty()) {
            let mut name = Some(word);
            if let Some(rest) = word.strip_prefix("dpv:") {
                let (value, scope) = rest.split_once('#').map_or((rest, None), |(value, scope)| (value, Some(scope)));
                if value.is_empty() || purpose.is_some_and(|known| known != value) {
                    return Err(invalid_scope("exactly one purpose (dpv:) is required"));
                }
                purpose = Some(value);
                name = scope;
            }
            match name {
                None => {}
                Some("openid") => openid = true,
                Some(name) => match allowed.iter().find(|scope| scope.into_str() == name) {
                    Some(scope) if apis.contains(scope) => {}
                    Some(scope) => apis.push(*scope),
                    None => return Err(invalid_scope("unknown scope, or not allowed for this client")),
                },
            }
        }
        if purpose.is_none() {
            return Err(invalid_scope("exactly one purpose (dpv:) is required"));
        }
        Ok(Self { written: written.to_owned(), openid, apis })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.written
    }

    pub(super) fn includes_openid(&self) -> bool {
        self.openid
    }

    pub(super) fn includes_any(&self, scopes: &[Scope]) -> bool {
        self.apis.iter().any(|scope| scopes.contains(scope))
    }

    pub(super) fn is_only(&self, scope: Scope) -> bool {
        self.apis == [scope]
    }

    pub(super) fn requires_single_use_token(&self) -> bool {
        self.apis.iter().any(|scope| scope.is_number_verification())
    }
}

fn invalid_scope(description: &'static str) -> OAuthError {
    OAuthErrorCode::InvalidScope.with_description(description)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[Scope] = &[Scope::VerifyNumber, Scope::SimSwap];

    #[test]
    fn both_scope_styles_are_parsed() {
        for (written, openid, apis) in [
            ("openid dpv:FraudPreventionAndDetection number-verification:verify", true, vec![Scope::VerifyNumber]),
            ("dpv:FraudPreventionAndDetection#number-verification:verify", false, vec![Scope::VerifyNumber]),
            ("dpv:A#sim-swap dpv:A#number-verification:verify", false, vec![Scope::SimSwap, Scope::VerifyNumber]),
            ("dpv:A sim-swap  sim-swap", false, vec![Scope::SimSwap]),
            ("openid dpv:A", true, vec![]),
        ] {
            let expected = Scopes { written: written.into(), openid, apis };
            assert_eq!(Scopes::parse(Some(written), ALLOWED).unwrap(), expected, "{written}");
        }
    }
}
