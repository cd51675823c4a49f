//! Configuration of a CAMARA connector.
//!
//! Each setting exists because real operators differ in it. The defaults follow the CAMARA profile.

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_domain::{network::NetworkId, tenancy::Mode};
use url::Url;

use crate::{
    breaker::BreakerSettings,
    client::is_http_url,
    jwt::SigningKey,
    oauth::{Audience, ClientAuthentication, Endpoints},
    operator_token::{ConsentData, CredentialVerifier, WalletRequestSigner},
};

#[derive(Clone, Debug)]
pub struct CamaraConfig {
    /// Identifies this connector in logs, metrics and the redirect URI.
    pub name: Arc<str>,
    /// Networks that the operator serves.
    pub networks: Vec<NetworkId>,
    /// `Mode::Sandbox`: a simulated operator, whose subscribers have simulated numbers.
    pub mode: Mode,
    pub provider: Provider,
    /// Root URL of the operator's APIs.
    pub api_root: Url,
    /// Path of the Number Verification API under the API root. It contains the API version.
    pub number_verification_path: String,
    pub client_id: String,
    pub client_authentication: ClientAuthentication,
    pub request_object: RequestObjectMode,
    pub scopes: Scopes,
    pub login_hint: LoginHintFormat,
    /// Whether requests contain the SHA-256 digest of the number instead of the number.
    pub sends_hashed_number: bool,
    pub pkce: bool,
    /// URL to which the operator returns devices, as registered with the operator.
    pub redirect_uri: Url,
    /// `None`: SIM Swap is not supported.
    pub sim_swap: Option<SimSwapConfig>,
    /// `None`: the operator accepts no tokens from wallets.
    pub operator_tokens: Option<OperatorTokenConfig>,
    pub breaker: BreakerSettings,
}

impl CamaraConfig {
    /// Creates a configuration with the defaults of the CAMARA profile.
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
            request_object: RequestObjectMode::Off,
            scopes: Scopes::default(),
            login_hint: LoginHintFormat::default(),
            sends_hashed_number: false,
            pkce: true,
            redirect_uri,
            sim_swap: None,
            operator_tokens: None,
            breaker: BreakerSettings::default(),
        }
    }

    /// Returns the configuration, or the first invalid setting as an error.
    pub(super) fn validated(self) -> Result<Self, CamaraConfigError> {
        let is_plain = |url: &Url| is_http_url(url) && url.query().is_none() && url.fragment().is_none();
        if !is_plain(&self.api_root) {
            return Err(CamaraConfigError::ApiRoot);
        }
        let is_path = |path: &str| path.starts_with('/') && !path.contains(['?', '#']);
        let sim_swap_path = self.sim_swap.as_ref().map(|sim_swap| &*sim_swap.path);
        if !is_path(&self.number_verification_path) || !sim_swap_path.is_none_or(is_path) {
            return Err(CamaraConfigError::BasePath);
        }
        if self.client_id.is_empty() {
            return Err(CamaraConfigError::ClientId);
        }
        if !is_http_url(&self.redirect_uri) || self.redirect_uri.fragment().is_some() {
            return Err(CamaraConfigError::RedirectUri);
        }
        if !self.supports_number_verification() && self.sim_swap.is_none() {
            return Err(CamaraConfigError::NoScopes);
        }
        if self.supports_number_verification() && !self.pkce && !self.scopes.openid {
            return Err(CamaraConfigError::CodeNotBound);
        }
        if self.sim_swap.as_ref().is_some_and(|sim_swap| sim_swap.operations.is_empty()) {
            return Err(CamaraConfigError::NoOperations);
        }
        if self.operator_tokens.is_some() && self.scopes.verify.is_none() {
            return Err(CamaraConfigError::NoVerifyScope);
        }
        match &self.provider {
            Provider::Issuer(issuer) if !Url::parse(issuer).is_ok_and(|url| is_plain(&url)) => {
                Err(CamaraConfigError::Provider)
            }
            Provider::Discovery { url, .. } if !is_http_url(url) => Err(CamaraConfigError::Provider),
            Provider::Endpoints(endpoints) => self.validate_endpoints(endpoints).map(|()| self),
            Provider::Issuer(_) | Provider::Discovery { .. } => Ok(self),
        }
    }

    pub(super) fn supports_number_verification(&self) -> bool {
        self.scopes.verify.is_some() || self.scopes.device_phone_number.is_some()
    }

    fn uses_ciba(&self) -> bool {
        let for_sim_swap = self.sim_swap.as_ref().is_some_and(|config| matches!(config.flow, SimSwapFlow::Ciba));
        let operator_tokens = self.operator_tokens.as_ref();
        for_sim_swap || operator_tokens.is_some_and(|config| matches!(config.flow, OperatorTokenFlow::Ciba))
    }

    /// Checks that the configured endpoints are valid and suffice for the configured operations.
    fn validate_endpoints(&self, endpoints: &Endpoints) -> Result<(), CamaraConfigError> {
        let Endpoints { authorization, token, backchannel, jwks, .. } = endpoints;
        if ![authorization.as_ref(), Some(token), backchannel.as_ref(), jwks.as_ref()]
            .into_iter()
            .flatten()
            .all(is_http_url)
        {
            return Err(CamaraConfigError::Provider);
        }
        if authorization.is_none() && self.supports_number_verification() {
            return Err(CamaraConfigError::NoAuthorization);
        }
        if jwks.is_none() && self.supports_number_verification() && self.scopes.openid {
            return Err(CamaraConfigError::NoJwks);
        }
        if backchannel.is_none() && self.uses_ciba() {
            return Err(CamaraConfigError::NoBackchannel);
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CamaraConfigError {
    #[error("the API root must be an http or https URL without a query")]
    ApiRoot,
    #[error("a base path must begin with `/` and have no query")]
    BasePath,
    #[error("the client id is empty")]
    ClientId,
    #[error("enable PKCE or the scope `openid`: otherwise a code is not bound to its device")]
    CodeNotBound,
    #[error("the redirect URI must be an http or https URL")]
    RedirectUri,
    #[error("no operation is configured: set a scope or SIM Swap")]
    NoScopes,
    #[error("operator tokens require the scope for verifying a number")]
    NoVerifyScope,
    #[error("SIM Swap requires at least one operation")]
    NoOperations,
    #[error("Number Verification requires the operator's authorization endpoint")]
    NoAuthorization,
    #[error("CIBA requires the operator's backchannel authentication endpoint")]
    NoBackchannel,
    #[error("issuer, discovery document and endpoints must be http or https URLs")]
    Provider,
    #[error("the scope `openid` requires the URL of the operator's keys (JWKS), to verify ID tokens")]
    NoJwks,
}

/// Source of the authorization server's endpoints.
#[derive(Clone, Debug)]
pub enum Provider {
    /// Discovery at `{issuer}/.well-known/openid-configuration`.
    Issuer(String),
    /// Discovery at this URL. If an issuer is configured, the document must name the same one.
    Discovery { url: Url, issuer: Option<String> },
    /// Endpoints from the configuration, without discovery.
    Endpoints(Box<Endpoints>),
}

/// Whether authorization requests are sent as signed request objects (JWTs).
#[derive(Clone, Debug, Default)]
pub enum RequestObjectMode {
    #[default]
    Off,
    Signed {
        key: SigningKey,
        audience: Audience,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    pub openid: bool,
    /// Purpose of the request: a term of the Data Privacy Vocabulary such as `dpv:FraudPreventionAndDetection`.
    pub purpose: Option<String>,
    pub style: ScopeStyle,
    /// Scope for verifying a number (product Secure SNA). `None`: the product is not supported.
    pub verify: Option<String>,
    /// Scope for reading the device's number (product Discovery). `None`: the product is not supported.
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

/// How purpose and scope are combined in the parameter `scope`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScopeStyle {
    /// `dpv:purpose scope`
    #[default]
    Space,
    /// `dpv:purpose#scope`
    Hash,
}

/// Format of `login_hint` in authorization requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoginHintFormat {
    #[default]
    None,
    /// `tel:+447700900123`
    Tel,
    /// `+447700900123`
    E164,
    /// `ipport:192.0.2.1`. The port is omitted, because the device connects to the operator from another port than to
    /// us.
    IpPort,
}

#[derive(Clone, Debug)]
pub struct SimSwapConfig {
    pub flow: SimSwapFlow,
    /// Path of the SIM Swap API under the API root. It contains the API version.
    pub path: String,
    /// Operations that the operator permits us, in order of preference.
    pub operations: Vec<SimSwapOperation>,
    pub retrieve_date_scope: String,
    pub check_scope: String,
    /// If the operator reports neither a SIM change nor its monitored period, the SIM counts as unchanged for this
    /// long. `None`: such a response counts as "no data".
    pub assumed_window: Option<SignedDuration>,
}

impl SimSwapConfig {
    /// Creates a configuration with the defaults of the CAMARA profile.
    pub fn new(flow: SimSwapFlow) -> Self {
        SimSwapConfig {
            flow,
            path: "/sim-swap/v2".to_owned(),
            operations: vec![SimSwapOperation::RetrieveDate],
            retrieve_date_scope: "sim-swap:retrieve-date".to_owned(),
            check_scope: "sim-swap:check".to_owned(),
            assumed_window: None,
        }
    }

    pub(super) fn scope(&self, operation: SimSwapOperation) -> &str {
        match operation {
            SimSwapOperation::RetrieveDate => &self.retrieve_date_scope,
            SimSwapOperation::Check => &self.check_scope,
        }
    }
}

/// OAuth flow for SIM Swap tokens, as agreed with the operator. The choice depends on national law.
#[derive(Clone, Debug)]
pub enum SimSwapFlow {
    /// One cached token for all numbers; the request contains the number.
    ClientCredentials,
    /// One token per number, issued after the operator's approval (CIBA, poll mode).
    Ciba,
    /// One token per number, for a signed assertion (RFC 7523).
    JwtBearer { key: SigningKey, audience: Audience },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimSwapOperation {
    /// Returns the date of the last SIM change.
    RetrieveDate,
    /// Returns whether the SIM changed within a period.
    Check,
}

/// Settings of operator tokens from wallets: see [`operator_token`](crate::operator_token).
#[derive(Clone, Debug)]
pub struct OperatorTokenConfig {
    pub flow: OperatorTokenFlow,
    /// Our name in requests to wallets: a URL, as agreed with the operator.
    pub issuer: String,
    pub signer: WalletRequestSigner,
    pub consent: ConsentData,
    pub verifier: CredentialVerifier,
}

impl OperatorTokenConfig {
    /// Creates a configuration that accepts credentials of any issuer.
    pub fn new(
        flow: OperatorTokenFlow,
        issuer: impl Into<String>,
        signer: WalletRequestSigner,
        consent: ConsentData,
    ) -> Self {
        let verifier = CredentialVerifier::new(&consent);
        OperatorTokenConfig { flow, issuer: issuer.into(), signer, consent, verifier }
    }
}

/// OAuth flow that exchanges an operator token for an access token, as agreed with the operator.
#[derive(Clone, Debug)]
pub enum OperatorTokenFlow {
    /// By an authentication request with the token as login hint (CIBA, poll mode).
    Ciba,
    /// By a signed assertion about the token (RFC 7523).
    JwtBearer { key: SigningKey, audience: Audience },
}
