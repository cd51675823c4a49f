//! CAMARA client: Number Verification and SIM Swap.
//!
//! Number Verification: the device is redirected to the operator's authorization server, which identifies it by its
//! network, and returns with a code (OpenID Connect without user interaction). The code is exchanged for a token, and
//! the token allows one API call: verify a number (Secure SNA) or return the device's number (Discovery).
//!
//! [`ERROR_TABLE`] maps operator errors to check results. A [`Breaker`] stops calls to a failing operator. Redirects
//! are followed by devices only. Tokens of devices or numbers are not stored. For SIM Swap see [`sim_swap`].
//!
//! Deliberately absent: encrypted ID tokens, DPoP, and SIM-based tokens (TS.43), which need no redirect.

mod api_urls;
mod authorization;
mod authorization_server;
mod config;
mod connector_status;
mod error;
mod id_token;
mod number_verification;
mod operator_client;
mod pkce;
mod sim_swap;
mod token;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
    product::Product,
};
use ringtrue_engine::ports::{
    AuthorizationRedirect, AuthorizationRequest, AuthorizationResponse, Clock, Entropy, SilentConnector,
    SilentOperation, SilentResult,
};

use crate::{authentication, breaker::Breaker, client::Client, health::HealthRecorder, jwt::KeySet};
pub use crate::{
    authentication::{Audience, ClientAuthentication, ClientSecret},
    breaker::{BreakerSettings, BreakerState, CallOutcome},
    jwt::{Algorithm, SigningKey, SigningKeyError},
};
use api_urls::ApiUrls;
use authorization_server::AuthorizationServer;
pub use config::{CamaraConfig, CamaraConfigError, Endpoints, LoginHint, Provider, RequestObject, ScopeStyle, Scopes};
use error::CamaraError;
pub use error::{ERROR_TABLE, ErrorCause, ErrorMapping, InvalidResponse, Stage};
pub(crate) use operator_client::parse_retry_after;
use operator_client::{CachedDocument, OperatorClient};
use pkce::PkceState;
use sim_swap::SimSwapTokenCache;
pub use sim_swap::{SimSwapConfig, SimSwapFlow, SimSwapOperation};

const X_CORRELATOR: HeaderName = HeaderName::from_static("x-correlator");
/// Maximum length of an authorization code.
const MAX_CODE_BYTES: usize = 4 * 1_024;

/// CAMARA connector to one operator.
pub struct Camara {
    config: CamaraConfig,
    api_urls: ApiUrls,
    client: OperatorClient,
    entropy: Arc<dyn Entropy>,
    authorization_server: AuthorizationServer,
    jwks: CachedDocument<KeySet>,
    /// Client-credentials tokens for SIM Swap.
    sim_swap_tokens: SimSwapTokenCache,
    breaker: Breaker,
    /// Separate, since the APIs may fail independently.
    sim_swap_breaker: Breaker,
    health: HealthRecorder,
}

impl Camara {
    pub fn new(
        config: CamaraConfig,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, CamaraConfigError> {
        let config = config.validated()?;
        Ok(Camara {
            api_urls: ApiUrls::new(&config).ok_or(CamaraConfigError::BasePath)?,
            authorization_server: AuthorizationServer::new(&config.provider).ok_or(CamaraConfigError::Provider)?,
            jwks: CachedDocument::new(Stage::Keys, |json| KeySet::parse(json).ok_or(InvalidResponse::Body)),
            sim_swap_tokens: SimSwapTokenCache::new(),
            breaker: Breaker::new(config.breaker),
            sim_swap_breaker: Breaker::new(config.breaker),
            health: HealthRecorder::default(),
            client: OperatorClient { connector: config.name.clone(), client, clock },
            entropy,
            config,
        })
    }

    /// Networks that the operator serves.
    pub fn networks(&self) -> &[NetworkId] {
        &self.config.networks
    }

    /// Breaker of Number Verification.
    pub fn breaker_state(&self) -> BreakerState {
        self.breaker.state(self.client.clock.now())
    }

    /// Breaker of SIM Swap.
    pub fn sim_swap_breaker_state(&self) -> BreakerState {
        self.sim_swap_breaker.state(self.client.clock.now())
    }

    pub fn supports_number_verification(&self) -> bool {
        self.config.supports_number_verification()
    }

    fn scope_for(&self, product: Product) -> Option<&str> {
        match product {
            Product::SecureSna => self.config.scopes.verify.as_deref(),
            Product::Discovery => self.config.scopes.device_phone_number.as_deref(),
            Product::ReverseSms | Product::SimSwap | Product::Eligibility => None,
        }
    }

    async fn build_redirect(
        &self,
        request: &AuthorizationRequest<'_>,
        scope: &str,
    ) -> Result<AuthorizationRedirect, CamaraError> {
        let endpoints = self.authorization_server.endpoints(&self.client).await?;
        let pkce = PkceState::new(&*self.entropy);
        let location = self.authorization_url(request, &pkce, &endpoints, scope);
        let location = location.ok_or(CamaraError::new(Stage::Redirect, ErrorCause::Internal))?;
        Ok(AuthorizationRedirect { location, connector_data: pkce.to_octets() })
    }

    async fn fetch_result(&self, response: &AuthorizationResponse<'_>) -> Result<SilentResult, CamaraError> {
        let pkce = PkceState::from_octets(response.connector_data)
            .ok_or(CamaraError::new(Stage::Redirect, ErrorCause::Internal))?;
        let endpoints = self.authorization_server.endpoints(&self.client).await?;
        let code = authorization_code(response.query, &endpoints)?;
        let tokens = self.redeem_code(code, &pkce, &endpoints).await?;
        match &tokens.id_token {
            Some(token) => self.verify_id_token(token, &pkce, &endpoints).await?,
            // Without PKCE, only the ID token binds the code to this device.
            None if self.config.scopes.openid && !self.config.pkce => {
                return Err(CamaraError::invalid_response(Stage::IdToken, InvalidResponse::IdToken));
            }
            None => {}
        }
        self.query_number(response.operation, response.check, tokens).await
    }

    /// Logs an error, and records it in the health status and the breaker.
    fn record_error(&self, error: &CamaraError, breaker: &Breaker) -> ErrorCode {
        let (connector, stage, code) = (&*self.config.name, error.stage.as_str(), error.code().as_str());
        let (cause, status) = (error.cause(), error.status);
        if error.is_misconfiguration() {
            tracing::error!(connector, stage, ?cause, status, code, "operator rejected our client configuration");
        } else if error.is_subscriber_error() {
            tracing::debug!(connector, stage, ?cause, status, code, "operator could not identify the subscriber");
        } else {
            tracing::warn!(connector, stage, ?cause, status, code, "operator request failed");
        }
        let now = self.client.clock.now();
        // Errors about a subscriber are regular responses.
        if error.is_subscriber_error() {
            self.health.record_success(now);
        } else {
            self.health.record_error(error.to_string(), now);
        }
        breaker.record_outcome(error.call_outcome(), error.retry_after, now);
        error.code()
    }

    /// Unix seconds, as in token claims.
    fn now(&self) -> i64 {
        self.client.clock.now().as_second()
    }

    fn random_jti(&self) -> String {
        authentication::random_jti(&*self.entropy)
    }
}

#[async_trait]
impl SilentConnector for Camara {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn supports(&self, product: Product) -> bool {
        self.scope_for(product).is_some()
    }

    async fn begin_authorization(&self, request: AuthorizationRequest<'_>) -> Result<AuthorizationRedirect, ErrorCode> {
        let product = match request.operation {
            SilentOperation::VerifyNumber(_) => Product::SecureSna,
            SilentOperation::DiscoverNumber => Product::Discovery,
        };
        let scope = self.scope_for(product).ok_or(ErrorCode::MnoNotSupported)?;
        self.breaker.allow_call(self.client.clock.now())?;
        self.build_redirect(&request, scope).await.map_err(|error| self.record_error(&error, &self.breaker))
    }

    async fn complete_authorization(&self, response: AuthorizationResponse<'_>) -> Result<SilentResult, ErrorCode> {
        let is_signed = matches!(self.config.request_object, RequestObject::Signed { .. });
        let record = |error: CamaraError| self.record_error(&error.excluding_device_errors(is_signed), &self.breaker);
        let result = self.fetch_result(&response).await.map_err(record)?;
        let now = self.client.clock.now();
        self.health.record_success(now);
        self.breaker.record_outcome(CallOutcome::Success, None, now);
        Ok(result)
    }
}

/// Identifies the check in the operator's logs.
fn correlator_header(check: CheckId) -> Result<HeaderValue, CamaraError> {
    HeaderValue::try_from(check.to_string()).map_err(|_| CamaraError::new(Stage::Api, ErrorCause::Internal))
}

/// Headers of a CAMARA API request.
fn api_headers(correlator: HeaderValue, bearer: HeaderValue) -> HeaderMap {
    // Capacity for headers added later.
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(X_CORRELATOR, correlator);
    headers
}

/// Validates the authorization response and returns the code.
fn authorization_code<'a>(query: &'a [(String, String)], endpoints: &Endpoints) -> Result<&'a str, CamaraError> {
    let invalid_response = |reason| CamaraError::invalid_response(Stage::Redirect, reason);
    let single_value = |parameter: &str| {
        let mut found = query.iter().filter(|(name, _)| name == parameter).map(|(_, value)| value.as_str());
        let first = found.next();
        if found.next().is_some() { Err(invalid_response(InvalidResponse::RepeatedParameter)) } else { Ok(first) }
    };
    // Also for error responses: they must come from this server.
    match single_value("iss")? {
        Some(issuer) if issuer != endpoints.issuer => {
            return Err(invalid_response(InvalidResponse::ResponseIssuerMismatch));
        }
        None if endpoints.supports_iss_parameter => {
            return Err(invalid_response(InvalidResponse::ResponseIssuerMismatch));
        }
        _ => {}
    }
    if let Some(error) = single_value("error")? {
        return Err(CamaraError::from_redirect(error));
    }
    let is_valid_code = |code: &&str| {
        (1..=MAX_CODE_BYTES).contains(&code.len()) && code.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    single_value("code")?.filter(is_valid_code).ok_or(invalid_response(InvalidResponse::NoCode))
}

/// Masks the settings.
impl fmt::Debug for Camara {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Camara").field("name", &self.config.name).finish_non_exhaustive()
    }
}
