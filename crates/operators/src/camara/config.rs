//! What is to be known of an operator to ask it by CAMARA.
//!
//! The profile leaves little open; operators leave more. Each setting here is one in which a real one differs.

use std::sync::Arc;

use ringtrue_domain::{network::NetworkId, tenancy::Mode};
use url::Url;

use super::sim_swap::{SimSwapConfig, SimSwapFlow};
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
    /// How the operator is asked about SIM cards. `None`: it is not.
    pub sim_swap: Option<SimSwapConfig>,
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
            sim_swap: None,
            breaker: BreakerSettings::default(),
        }
    }

    /// Says what cannot work, before anything is asked.
    pub(super) fn checked(self) -> Result<Self, BadConfig> {
        let is_plain = |url: &Url| is_web(url) && url.query().is_none() && url.fragment().is_none();
        if !is_plain(&self.api_root) {
            return Err(BadConfig::ApiRoot);
        }
        let is_path = |path: &str| path.starts_with('/') && !path.contains(['?', '#']);
        let sim_swap_path = self.sim_swap.as_ref().map(|sim_swap| &*sim_swap.path);
        if !is_path(&self.number_verification_path) || !sim_swap_path.is_none_or(is_path) {
            return Err(BadConfig::BasePath);
        }
        if self.client_id.is_empty() {
            return Err(BadConfig::ClientId);
        }
        if !is_web(&self.redirect_uri) || self.redirect_uri.fragment().is_some() {
            return Err(BadConfig::RedirectUri);
        }
        if !self.sends_devices() && self.sim_swap.is_none() {
            return Err(BadConfig::NoScopes);
        }
        if self.sends_devices() && !self.pkce && !self.scopes.openid {
            return Err(BadConfig::NothingTies);
        }
        if self.sim_swap.as_ref().is_some_and(|sim_swap| sim_swap.operations.is_empty()) {
            return Err(BadConfig::NoOperations);
        }
        match &self.provider {
            Provider::Issuer(issuer) if !Url::parse(issuer).is_ok_and(|url| is_plain(&url)) => Err(BadConfig::Provider),
            Provider::Discovery { url, .. } if !is_web(url) => Err(BadConfig::Provider),
            Provider::Endpoints(endpoints) => self.suits(endpoints).map(|()| self),
            Provider::Issuer(_) | Provider::Discovery { .. } => Ok(self),
        }
    }

    /// Whether devices are sent to the operator: there is something that they may ask.
    pub(super) fn sends_devices(&self) -> bool {
        self.scopes.verify.is_some() || self.scopes.device_phone_number.is_some()
    }

    /// Whether endpoints that do not describe themselves are enough for what is to be asked.
    fn suits(&self, endpoints: &Endpoints) -> Result<(), BadConfig> {
        let Endpoints { authorization, token, backchannel, keys, .. } = endpoints;
        if ![authorization.as_ref(), Some(token), backchannel.as_ref(), keys.as_ref()].into_iter().flatten().all(is_web)
        {
            return Err(BadConfig::Provider);
        }
        if authorization.is_none() && self.sends_devices() {
            return Err(BadConfig::NoAuthorization);
        }
        if keys.is_none() && self.sends_devices() && self.scopes.openid {
            return Err(BadConfig::NoKeys);
        }
        let flow = self.sim_swap.as_ref().map(|sim_swap| &sim_swap.flow);
        if backchannel.is_none() && matches!(flow, Some(SimSwapFlow::Ciba)) {
            return Err(BadConfig::NoBackchannel);
        }
        Ok(())
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    #[error("the API root is an http or https URL without a query")]
    ApiRoot,
    #[error("a base path begins with `/` and has no query")]
    BasePath,
    #[error("the client id is empty")]
    ClientId,
    #[error("a code must be tied to its device: by PKCE, or by an ID token")]
    NothingTies,
    #[error("the redirect URI is an http or https URL")]
    RedirectUri,
    #[error("an operator that allows no operation is of no use: it needs a scope, or SIM Swap")]
    NoScopes,
    #[error("an operator that is asked about SIM cards needs an operation to be asked by")]
    NoOperations,
    #[error("devices are sent to the operator: name its authorization endpoint")]
    NoAuthorization,
    #[error("CIBA needs the operator's backchannel authentication endpoint")]
    NoBackchannel,
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
    /// Where devices are sent, if any are.
    pub authorization: Option<Url>,
    pub token: Url,
    /// Where tokens are asked for without a device (CIBA).
    pub backchannel: Option<Url>,
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
