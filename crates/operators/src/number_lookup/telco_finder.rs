//! Looks up the network of a number with GSMA Open Gateway's Telco Finder or Network Id API.
//!
//! Telco Finder returns an operator id, which a table maps to a network. A shallow search uses Telco Finder's own data.
//! A deep search, which asks other operators, is slower and more expensive. By default it runs only if the shallow
//! search finds nothing.
//!
//! Responses may contain API URLs of the operator. They are ignored: all endpoints are configured.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use http::{HeaderValue, Method, header::AUTHORIZATION};
use jiff::Timestamp;
use ringtrue_domain::{network::NetworkId, phone::Msisdn};
use ringtrue_engine::ports::{
    clock::Clock,
    entropy::Entropy,
    lookups::{LookupError, LookupResult, LookupSource},
};
use serde_json::{Value, json};
use url::{Url, form_urlencoded::Serializer};

use super::{
    KnownNetworks, LookupClient, LookupRequest, LookupResponse, SourceBreaker, SourceError, invalid_response,
    is_zero_plmn, join_path, scalar_text,
};
use crate::{
    breaker::{BreakerSettings, CallOutcome},
    client::{Client, is_http_url},
    oauth::{AuthenticationContext, ClientAuthentication, TokenCache, TokenError, TokenResponse, TokenResponseBody},
};

/// HTTP statuses of responses for numbers without a known operator.
const UNKNOWN_NUMBER_STATUSES: [u16; 2] = [404, 422];

#[derive(Clone, Debug)]
pub struct TelcoFinderConfig {
    /// Identifies this source in logs.
    pub name: Arc<str>,
    /// Root URL of the APIs.
    pub root: Url,
    pub operation: TelcoFinderOperation,
    pub token_endpoint: Url,
    /// Issuer of the tokens. It is the audience of client assertions that are configured with
    /// [`Audience::Issuer`](super::Audience).
    pub issuer: String,
    pub client_id: String,
    pub client_authentication: ClientAuthentication,
    pub scope: Option<String>,
    pub known_networks: KnownNetworks,
    pub breaker: BreakerSettings,
}

impl TelcoFinderConfig {
    pub fn new(
        name: impl Into<Arc<str>>,
        root: Url,
        operation: TelcoFinderOperation,
        token_endpoint: Url,
        client_id: impl Into<String>,
        client_authentication: ClientAuthentication,
    ) -> Self {
        TelcoFinderConfig {
            name: name.into(),
            root,
            operation,
            issuer: token_endpoint.origin().ascii_serialization(),
            token_endpoint,
            client_id: client_id.into(),
            client_authentication,
            scope: Some("telcofinder".to_owned()),
            known_networks: KnownNetworks::default(),
            breaker: BreakerSettings::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub enum TelcoFinderOperation {
    /// `POST /telco-finder/v1/search`; `operators` maps the operator ids in the responses to networks.
    Search { operators: BTreeMap<String, NetworkId>, depth: SearchDepth },
    /// `POST /network-id/v0/resolve-network-id`.
    NetworkId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchDepth {
    /// Searches Telco Finder's own data only.
    Shallow,
    /// Searches Telco Finder's own data first, then asks other operators.
    #[default]
    ShallowThenDeep,
    /// Always asks other operators.
    Deep,
}

impl SearchDepth {
    fn modes(self) -> &'static [&'static str] {
        match self {
            SearchDepth::Shallow => &["SHALLOW"],
            SearchDepth::ShallowThenDeep => &["SHALLOW", "DEEP"],
            SearchDepth::Deep => &["DEEP"],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TelcoFinderConfigError {
    #[error("the root and the token endpoint must be http or https URLs")]
    Url,
    #[error("the client id is empty")]
    ClientId,
    #[error("no operator is mapped to a network, so no result could be used")]
    NoOperators,
}

/// Lookup source that queries Open Gateway's Telco Finder or Network Id API.
#[derive(derive_more::Debug)]
#[debug("TelcoFinder({})", config.name)]
pub struct TelcoFinder {
    config: TelcoFinderConfig,
    client: LookupClient,
    entropy: Arc<dyn Entropy>,
    tokens: TokenCache<SourceError>,
    breaker: SourceBreaker,
}

impl TelcoFinder {
    pub fn new(
        config: TelcoFinderConfig,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, TelcoFinderConfigError> {
        if !is_http_url(&config.root) || !is_http_url(&config.token_endpoint) {
            return Err(TelcoFinderConfigError::Url);
        }
        if config.client_id.is_empty() {
            return Err(TelcoFinderConfigError::ClientId);
        }
        if matches!(&config.operation, TelcoFinderOperation::Search { operators, .. } if operators.is_empty()) {
            return Err(TelcoFinderConfigError::NoOperators);
        }
        let breaker = SourceBreaker::new(Arc::clone(&config.name), config.breaker, Arc::clone(&clock));
        Ok(TelcoFinder { config, client: LookupClient { client, clock }, entropy, tokens: TokenCache::new(), breaker })
    }

    async fn look_up(&self, number: &Msisdn) -> Result<LookupResult, SourceError> {
        match &self.config.operation {
            TelcoFinderOperation::Search { operators, depth } => {
                for mode in depth.modes() {
                    if let Some(operator) = self.search(number, mode).await? {
                        return Ok(self.map_operator(&operator, operators));
                    }
                }
                Ok(LookupResult::NoData)
            }
            TelcoFinderOperation::NetworkId => self.resolve_network_id(number).await,
        }
    }

    /// Returns the operator id of a number. `None`: no operator was found at this depth.
    async fn search(&self, number: &Msisdn, mode: &str) -> Result<Option<String>, SourceError> {
        let body = json!({ "target": { "phoneNumber": number.as_str() }, "portabilitySearchMode": mode });
        let response = self.send_authorized("/telco-finder/v1/search", &body).await?;
        if response.status != 200 {
            return Ok(None);
        }
        // Unknown numbers get 404 or 422, so a 200 without an operator is malformed.
        scalar_text(response.json.get("operatorId")).map(Some).ok_or_else(invalid_response)
    }

    fn map_operator(&self, operator: &str, operators: &BTreeMap<String, NetworkId>) -> LookupResult {
        let network = operators.get(operator).cloned();
        if network.is_none() {
            // The operator id is external text and is not logged.
            tracing::info!(
                source = &*self.config.name,
                "Telco Finder returned an operator without a configured network"
            );
        }
        network.map_or(LookupResult::OtherNetwork, LookupResult::Network)
    }

    async fn resolve_network_id(&self, number: &Msisdn) -> Result<LookupResult, SourceError> {
        let body = json!({ "phoneNumber": number.as_str() });
        let response = self.send_authorized("/network-id/v0/resolve-network-id", &body).await?;
        if response.status != 200 {
            return Ok(LookupResult::NoData);
        }
        let plmn = scalar_text(response.json.get("networkId")).ok_or_else(invalid_response)?;
        if is_zero_plmn(&plmn) {
            return Ok(LookupResult::NoData);
        }
        self.config.known_networks.network_id_from_plmn(&plmn).map(LookupResult::Network).ok_or_else(invalid_response)
    }

    async fn access_token(&self) -> Result<HeaderValue, SourceError> {
        let token = self.tokens.get_or_fetch(&*self.client.clock, self.fetch_token()).await;
        token.map_err(|error| match error {
            TokenError::FetchFailed(error) => error,
            TokenError::SharedFetchFailed(error) => error.without_counting(),
        })
    }

    /// Sends a request with the cached access token. After a 401 it fetches a new token and retries once, because the
    /// cached one may have been revoked.
    async fn send_authorized(&self, path: &str, body: &Value) -> Result<LookupResponse, SourceError> {
        let token = self.access_token().await?;
        let mut request = LookupRequest::post_json(join_path(&self.config.root, path), body);
        request.headers.insert(AUTHORIZATION, token.clone());
        match self.client.send(request.clone(), &UNKNOWN_NUMBER_STATUSES).await {
            Err(SourceError { status: Some(401), .. }) => {
                self.tokens.invalidate(&token);
                let fresh = self.access_token().await?;
                request.headers.insert(AUTHORIZATION, fresh);
                self.client.send(request, &UNKNOWN_NUMBER_STATUSES).await
            }
            outcome => outcome,
        }
    }

    async fn fetch_token(&self) -> Result<TokenResponse, SourceError> {
        let request = self.token_request(self.client.clock.now()).ok_or_else(authentication_error)?;
        // Assertions are single-use, so there is no retry.
        let response = self.client.send_once(request, &[400]).await?;
        if response.status == 400 {
            return Err(SourceError { status: Some(400), ..authentication_error() });
        }
        let body: TokenResponseBody = serde_json::from_value(response.json).map_err(|_| invalid_response())?;
        Some(body)
            .filter(TokenResponseBody::is_bearer)
            .and_then(TokenResponseBody::into_tokens)
            .ok_or_else(invalid_response)
    }

    /// Builds the request for an access token. `None`: signing failed.
    fn token_request(&self, now: Timestamp) -> Option<LookupRequest> {
        let config = &self.config;
        let context = AuthenticationContext {
            client_id: &config.client_id,
            issuer: &config.issuer,
            endpoint: config.token_endpoint.as_str(),
            now,
        };
        let credentials = config.client_authentication.credentials(context, &*self.entropy)?;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(scope) = &config.scope {
            form.append_pair("scope", scope);
        }
        let (headers, body) = credentials.into_form_request(form);
        Some(LookupRequest { method: Method::POST, url: config.token_endpoint.clone(), headers, body })
    }
}

/// Creates the error for a failed signature, or for a server that issued no token.
fn authentication_error() -> SourceError {
    SourceError::new(LookupError::Refused, CallOutcome::Rejected)
}

#[async_trait]
impl LookupSource for TelcoFinder {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError> {
        self.breaker.run(self.look_up(number)).await
    }
}
