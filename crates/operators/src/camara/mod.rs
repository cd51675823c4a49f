//! CAMARA client: Number Verification and SIM Swap.
//!
//! Number Verification: we redirect the device to the operator's authorization server. The server identifies the device
//! by its mobile network and returns it to us with a code (OpenID Connect without user interaction). We exchange the
//! code for a token. The token allows one API call: verify a number (product Secure SNA) or return the device's number
//! (product Discovery).
//!
//! [`ERROR_TABLE`] maps operator errors to check results. A [`Breaker`] stops calls to a failing operator. Only devices
//! follow redirects; our HTTP client does not. Tokens for a device or a number are not stored. For SIM Swap see
//! [`sim_swap`].
//!
//! Number Verification also works over Wi-Fi, by a token from the phone's wallet: see [`operator_tokens`].
//!
//! Deliberately absent: encrypted ID tokens, DPoP, and entitlement servers (TS.43) without CAMARA APIs.

mod authorization;
mod config;
mod error;
mod number_verification;
mod operator_tokens;
mod sim_swap;
mod subscriber_tokens;
mod tokens;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
};
use ringtrue_engine::{
    jwt::KeySet,
    ports::{
        clock::Clock,
        connectors::{
            BreakerPosition, BreakerStatus, ConnectorHealth, ConnectorState, ConnectorStatus, MonitoredConnector,
        },
        entropy::Entropy,
    },
};
use url::Url;

use crate::{
    breaker::{Breaker, HealthRecorder},
    client::Client,
    oauth::{self, CachedDocument, EndpointClient},
};
pub use ringtrue_engine::jwt::{Algorithm, SIGNING_ALGORITHMS};

pub use crate::{
    breaker::{BreakerSettings, BreakerState, CallOutcome},
    jwt::{SigningKey, SigningKeyError},
    oauth::{Audience, ClientAuthentication, ClientSecret, Endpoints, Stage},
    operator_token::{ConsentData, CredentialVerifier, WalletRequestSigner, WalletRequestSignerError},
};
use authorization::AuthorizationServer;
pub use config::{
    CamaraConfig, CamaraConfigError, LoginHintFormat, OperatorTokenConfig, OperatorTokenFlow, Provider,
    RequestObjectMode, ScopeStyle, Scopes, SimSwapConfig, SimSwapFlow, SimSwapOperation,
};
use error::CamaraConnectorError;
pub use error::{ERROR_TABLE, ErrorCause, ErrorMapping, InvalidResponse};
use sim_swap::SimSwapTokenCache;

/// Values of the metrics label `of`, which tells the breakers of a connector apart.
const NUMBER_VERIFICATION_BREAKER_LABEL: &str = "devices";
const SIM_SWAP_BREAKER_LABEL: &str = "SIM cards";

const X_CORRELATOR: HeaderName = HeaderName::from_static("x-correlator");

/// CAMARA connector to one operator. `Debug` shows only the name, because the settings contain secrets.
#[derive(derive_more::Debug)]
#[debug("Camara({})", config.name)]
pub struct Camara {
    config: CamaraConfig,
    api_urls: ApiUrls,
    client: EndpointClient,
    entropy: Arc<dyn Entropy>,
    authorization_server: AuthorizationServer,
    jwks: CachedDocument<KeySet>,
    /// Client-credentials tokens for SIM Swap.
    sim_swap_tokens: SimSwapTokenCache,
    number_verification_breaker: Breaker,
    /// Separate from the breaker for Number Verification, because the APIs may fail independently.
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
            jwks: CachedDocument::new(Stage::Keys, |json| KeySet::parse(json).ok_or(oauth::InvalidResponse::Body)),
            sim_swap_tokens: SimSwapTokenCache::new(),
            number_verification_breaker: Breaker::new(config.breaker),
            sim_swap_breaker: Breaker::new(config.breaker),
            health: HealthRecorder::default(),
            client: EndpointClient { connector: config.name.clone(), client, clock },
            entropy,
            config,
        })
    }

    /// Networks that the operator serves.
    pub fn networks(&self) -> &[NetworkId] {
        &self.config.networks
    }

    /// Returns the state of the circuit breaker for Number Verification.
    pub fn breaker_state(&self) -> BreakerState {
        self.number_verification_breaker.state(self.client.clock.now())
    }

    /// Returns the state of the circuit breaker for SIM Swap.
    pub fn sim_swap_breaker_state(&self) -> BreakerState {
        self.sim_swap_breaker.state(self.client.clock.now())
    }

    pub fn supports_number_verification(&self) -> bool {
        self.config.supports_number_verification()
    }

    /// Logs an error, and records it in the health status and the breaker.
    fn record_error(&self, error: &CamaraConnectorError, breaker: &Breaker) -> ErrorCode {
        let (connector, stage, code) = (&*self.config.name, error.stage.into_str(), error.code().into_str());
        let (cause, status) = (error.cause(), error.status);
        if error.is_misconfiguration() {
            tracing::error!(connector, stage, ?cause, status, code, "operator rejected our client configuration");
        } else if error.is_subscriber_error() {
            tracing::debug!(connector, stage, ?cause, status, code, "operator could not identify the subscriber");
        } else {
            tracing::warn!(connector, stage, ?cause, status, code, "operator request failed");
        }
        let now = self.client.clock.now();
        // An error about a subscriber is a regular response of a working operator.
        if error.is_subscriber_error() {
            self.health.record_success(now);
        } else {
            self.health.record_error(error.to_string(), now);
        }
        breaker.record_outcome(error.call_outcome(), error.retry_after, now);
        error.code()
    }

    /// Returns the current time in Unix seconds, as token claims use it.
    fn now(&self) -> i64 {
        self.client.clock.now().as_second()
    }

    fn random_jti(&self) -> String {
        oauth::random_jti(&*self.entropy)
    }
}

/// Builds the value of `X-Correlator`, which identifies the check in the operator's logs.
fn correlator_header(check: CheckId) -> Result<HeaderValue, CamaraConnectorError> {
    HeaderValue::try_from(check.to_string()).map_err(|_| CamaraConnectorError::new(Stage::Api, ErrorCause::Internal))
}

fn api_headers(correlator: HeaderValue, bearer: HeaderValue) -> HeaderMap {
    // Leaves capacity for the headers that callers and the HTTP client add.
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(X_CORRELATOR, correlator);
    headers
}

struct ApiUrls {
    verify: Url,
    device_phone_number: Url,
    sim_swap_retrieve_date: Option<Url>,
    sim_swap_check: Option<Url>,
}

impl ApiUrls {
    /// Returns `None` if a configured path yields no valid URL.
    fn new(config: &CamaraConfig) -> Option<Self> {
        let url = |path: &str, operation: &str| {
            let (root, path) = (config.api_root.as_str().trim_end_matches('/'), path.trim_end_matches('/'));
            Url::parse(&format!("{root}{path}/{operation}")).ok()
        };
        let sim_swap = |operation: &str| config.sim_swap.as_ref().and_then(|sim_swap| url(&sim_swap.path, operation));
        Some(ApiUrls {
            verify: url(&config.number_verification_path, "verify")?,
            device_phone_number: url(&config.number_verification_path, "device-phone-number")?,
            sim_swap_retrieve_date: sim_swap("retrieve-date"),
            sim_swap_check: sim_swap("check"),
        })
    }

    /// Returns `None` if SIM Swap is not configured.
    fn sim_swap(&self, operation: SimSwapOperation) -> Option<&Url> {
        match operation {
            SimSwapOperation::RetrieveDate => self.sim_swap_retrieve_date.as_ref(),
            SimSwapOperation::Check => self.sim_swap_check.as_ref(),
        }
    }
}

impl MonitoredConnector for Camara {
    fn connector_status(&self) -> ConnectorStatus {
        let now = self.client.clock.now();
        let number_verification = self
            .supports_number_verification()
            .then(|| breaker_status(NUMBER_VERIFICATION_BREAKER_LABEL, &self.number_verification_breaker, now));
        let sim_swap =
            self.supports_sim_swap().then(|| breaker_status(SIM_SWAP_BREAKER_LABEL, &self.sim_swap_breaker, now));
        let breakers: Vec<BreakerStatus> = number_verification.into_iter().chain(sim_swap).collect();
        let health = self.health.snapshot();
        let count = |predicate: fn(&BreakerPosition) -> bool| {
            breakers.iter().filter(|breaker| predicate(&breaker.position)).count()
        };
        let state = match count(|position| *position == BreakerPosition::Closed) {
            closed if closed == breakers.len() && health == ConnectorHealth::default() => ConnectorState::Idle,
            closed if closed == breakers.len() => ConnectorState::Up,
            0 if count(|position| matches!(position, BreakerPosition::HalfOpen)) == 0 => ConnectorState::Down,
            _ => ConnectorState::Degraded,
        };
        ConnectorStatus {
            name: Arc::clone(&self.config.name),
            kind: "CAMARA",
            mode: self.config.mode,
            state,
            networks: self.config.networks.clone(),
            receivers: vec![],
            link_summary: None,
            breakers,
            counts: None,
            health,
        }
    }
}

fn breaker_status(operation: &'static str, breaker: &Breaker, now: Timestamp) -> BreakerStatus {
    let position = match breaker.state(now) {
        BreakerState::Closed => BreakerPosition::Closed,
        BreakerState::Open { until, .. } => BreakerPosition::Open { until },
        BreakerState::HalfOpen => BreakerPosition::HalfOpen,
    };
    BreakerStatus { operation, position, calls: breaker.call_counts() }
}
