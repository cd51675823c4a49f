//! What is to be known of an operator to ask it by CAMARA.
//!
//! The profile leaves little open; operators leave more. Each setting here is one in which a real one differs.

use std::sync::Arc;

use ringtrue_domain::{network::NetworkId, tenancy::Mode};
use url::Url;

use crate::{
    authentication::{Audience, ClientAuthentication},
    breaker::BreakerSettings,
    jwt::SigningKey,
};

#[derive(Clone, Debug)]
pub struct CamaraConfig {
    /// Tells this connector from others, in logs, in metrics and in the redirect URI.
    pub name: Arc<str>,
    /// Whose subscribers the operator knows.
    pub networks: Vec<NetworkId>,
    /// A sandbox's operator has simulated numbers.
    pub mode: Mode,
    pub provider: Provider,
    /// Where the operator's interfaces are.
    pub api_root: Url,
    /// Where under it Number Verification is, and so which version it is.
    pub number_verification_path: String,
    pub client_id: String,
    pub client_authentication: ClientAuthentication,
    pub request_object: RequestObject,
    pub scopes: Scopes,
    pub login_hint: LoginHint,
    /// Sends a digest in place of the number that is asked about.
    pub sends_hashed_number: bool,
    pub pkce: bool,
    /// Where the operator sends devices back to, as it is registered there.
    pub redirect_uri: Url,
    pub breaker: BreakerSettings,
}

impl CamaraConfig {
    /// With what the CAMARA profile asks for.
    pub fn new(
        name: impl Into<Arc<str>>,
        provider: Provider,
        api_root: Url,
        client_id: impl Into<String>,
        client_authentication: ClientAuthentication,
        redirect_uri: Url,
    ) -> Self {
        Self {
            name: name.into(),
            networks: Vec::new(),
            mode: Mode::Live,
            provider,
            api_root,
            number_verification_path: "/number-verification/v2".to_owned(),
            client_id: client_id.into(),
            client_authentication,
            request_object: RequestObject::Off,
            scopes: Scopes::default(),
            login_hint: LoginHint::default(),
            sends_hashed_number: false,
            pkce: true,
            redirect_uri,
            breaker: BreakerSettings::default(),
        }
    }

    /// Says what cannot work, before anything is asked.
    pub(super) fn checked(self) -> Result<Self, BadConfig> {
        let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let is_plain = |url: &Url| is_web(url) && url.query().is_none() && url.fragment().is_none();
        if !is_plain(&self.api_root) {
            return Err(BadConfig::ApiRoot);
        }
        if !self.number_verification_path.starts_with('/') || self.number_verification_path.contains(['?', '#']) {
            return Err(BadConfig::BasePath);
        }
        if self.client_id.is_empty() {
            return Err(BadConfig::ClientId);
        }
        if !is_web(&self.redirect_uri) || self.redirect_uri.fragment().is_some() {
            return Err(BadConfig::RedirectUri);
        }
        if self.scopes.verify.is_none() && self.scopes.device_phone_number.is_none() {
            return Err(BadConfig::NoScopes);
        }
        let has_endpoints = match &self.provider {
            Provider::Issuer(issuer) => Url::parse(issuer).is_ok_and(|url| is_plain(&url)),
            Provider::Discovery { url, .. } => is_web(url),
            Provider::Endpoints(endpoints) => {
                let Endpoints { authorization, token, keys, .. } = &**endpoints;
                is_web(authorization) && is_web(token) && keys.as_ref().is_none_or(is_web)
            }
        };
        if !has_endpoints {
            return Err(BadConfig::Provider);
        }
        match &self.provider {
            Provider::Endpoints(endpoints) if endpoints.keys.is_none() && self.scopes.openid => Err(BadConfig::NoKeys),
            _ => Ok(self),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    #[error("the API root is an http or https URL without a query")]
    ApiRoot,
    #[error("a base path begins with `/` and has no query")]
    BasePath,
    #[error("the client id is empty")]
    ClientId,
    #[error("the redirect URI is an http or https URL")]
    RedirectUri,
    #[error("an operator that allows no operation is of no use: it needs a scope")]
    NoScopes,
    #[error("the issuer, the discovery document and the endpoints are http or https URLs")]
    Provider,
    #[error("with the scope `openid` comes an ID token, which is checked by the operator's keys: name their URL")]
    NoKeys,
}

/// How the operator's authorisation server is found.
#[derive(Clone, Debug)]
pub enum Provider {
    /// Described at `{issuer}/.well-known/openid-configuration`.
    Issuer(String),
    /// Described here.
    Discovery { url: Url, issuer: Option<String> },
    /// Not described by itself.
    Endpoints(Box<Endpoints>),
}

/// An authorisation server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    pub issuer: String,
    pub authorization: Url,
    pub token: Url,
    /// The keys that it signs ID tokens with.
    pub keys: Option<Url>,
    /// It says in every answer that brings a device back who it is (RFC 9207).
    pub names_itself: bool,
}

/// Whether the parameters that a device carries to the operator are signed.
#[derive(Clone, Debug, Default)]
pub enum RequestObject {
    #[default]
    Off,
    Signed {
        key: SigningKey,
        audience: Audience,
    },
}

/// What we ask to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    pub openid: bool,
    /// Why we ask: a term of the Data Privacy Vocabulary, such as `dpv:FraudPreventionAndDetection`.
    pub purpose: Option<String>,
    pub style: ScopeStyle,
    /// For Secure SNA. `None`: the operator does not allow it.
    pub verify: Option<String>,
    /// For Discovery. `None`: the operator does not allow it.
    pub device_phone_number: Option<String>,
}

impl Default for Scopes {
    fn default() -> Self {
        Self {
            openid: true,
            purpose: Some("dpv:FraudPreventionAndDetection".to_owned()),
            style: ScopeStyle::default(),
            verify: Some("number-verification:verify".to_owned()),
            device_phone_number: Some("number-verification:device-phone-number:read".to_owned()),
        }
    }
}

/// How purpose and scope are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScopeStyle {
    /// `dpv:purpose scope`
    #[default]
    Space,
    /// `dpv:purpose#scope`
    Hash,
}

/// What the operator is told of the device that comes to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoginHint {
    #[default]
    None,
    /// `tel:+447700900123`
    Tel,
    /// `+447700900123`
    E164,
    /// `ipport:192.0.2.1`. The port that the device has towards us is not the one that it has towards the operator.
    IpPort,
}
