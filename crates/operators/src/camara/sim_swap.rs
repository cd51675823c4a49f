//! CAMARA SIM Swap: asks the operator when the SIM of a number last changed.
//!
//! No device is involved. A check needs one token (for our client or for the number) and one API call. API calls are
//! idempotent, so they are retried once after a transient error.

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, header::CONTENT_TYPE};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::ErrorCode,
    phone::Msisdn,
    sim_swap::{SimHistory, SimSwapPeriod},
};
use ringtrue_engine::ports::sim_swap::{SimSwapConnector, SimSwapRequest};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    Camara, api_headers,
    config::{LoginHintFormat, SimSwapConfig, SimSwapFlow, SimSwapOperation},
    correlator_header,
    error::{CamaraConnectorError, ErrorCause, InvalidResponse},
};
use crate::{
    breaker::{BreakerState, CallOutcome},
    client::ClientError,
    oauth::{Stage, TokenCache, TokenError, TokenResponse},
};

/// Maximum of `maxAge` in the CAMARA SIM Swap API.
const MAX_AGE_HOURS: u32 = 2_400;

impl Camara {
    pub fn supports_sim_swap(&self) -> bool {
        self.config.sim_swap.is_some()
    }

    /// Tries the configured operations in order until one returns a result.
    async fn fetch_history(
        &self,
        config: &SimSwapConfig,
        request: SimSwapRequest<'_>,
    ) -> Result<SimHistory, CamaraConnectorError> {
        let (mut has_insufficient_history, mut denial) = (false, None);
        let mut operations = config.operations.iter();
        while let Some(operation) = operations.next() {
            let error = match self.fetch_by_operation(*operation, config, request).await {
                Err(error) => error,
                history => return history,
            };
            match FallbackReason::from_error(&error) {
                Some(FallbackReason::InsufficientHistory) => has_insufficient_history = true,
                Some(FallbackReason::NotPermitted) => {
                    if operations.len() > 0 {
                        let (connector, stage, cause) = (&*self.config.name, error.stage.into_str(), error.cause());
                        tracing::warn!(
                            connector,
                            stage,
                            ?cause,
                            "operator denied a SIM Swap operation; trying the next one"
                        );
                    }
                    denial = Some(error);
                }
                None => return Err(error),
            }
        }
        // If the operator permitted an operation but has too little history, the result is "no data", even if the
        // operator denied another operation.
        Err(denial
            .filter(|_| !has_insufficient_history)
            .unwrap_or(CamaraConnectorError::new(Stage::Api, ErrorCause::NoHistory)))
    }

    async fn fetch_by_operation(
        &self,
        operation: SimSwapOperation,
        config: &SimSwapConfig,
        request: SimSwapRequest<'_>,
    ) -> Result<SimHistory, CamaraConnectorError> {
        let mut may_retry = true;
        loop {
            let token = self.obtain_sim_swap_token(config, operation, request).await?;
            match self.query_history(operation, config, request, &token).await {
                // The cached token may have been revoked; retry once with a new one.
                Err(CamaraConnectorError { status: Some(401), .. }) if token.is_cached && may_retry => {
                    self.sim_swap_tokens.for_operation(operation, config).invalidate(&token.bearer);
                    may_retry = false;
                }
                outcome => return outcome,
            }
        }
    }

    async fn query_history(
        &self,
        operation: SimSwapOperation,
        config: &SimSwapConfig,
        request: SimSwapRequest<'_>,
        token: &SimSwapToken,
    ) -> Result<SimHistory, CamaraConnectorError> {
        let hours = full_hours(request.period);
        let max_age = (operation == SimSwapOperation::Check).then_some(hours);
        let response = self.send_query(operation, max_age, request, token).await?;
        let history = match operation {
            SimSwapOperation::RetrieveDate => parse_retrieve_date(&response, config.assumed_window, request.now),
            SimSwapOperation::Check => parse_check(&response, hours),
        };
        history.map_err(|cause| CamaraConnectorError::new(Stage::Api, cause))
    }

    async fn send_query(
        &self,
        operation: SimSwapOperation,
        max_age: Option<u32>,
        request: SimSwapRequest<'_>,
        token: &SimSwapToken,
    ) -> Result<Bytes, CamaraConnectorError> {
        let internal_error = || CamaraConnectorError::new(Stage::Api, ErrorCause::Internal);
        let url = self.api_urls.sim_swap(operation).ok_or_else(internal_error)?;
        let phone_number = (!token.identifies_number).then(|| request.number.as_str());
        let body = serde_json::to_vec(&SimSwapBody { phone_number, max_age }).map_err(|_| internal_error())?;
        let mut headers = api_headers(correlator_header(request.check)?, token.bearer.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self.client.send_idempotent(Stage::Api, Method::POST, url, headers, body.into()).await?;
        Ok(response.body)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SimSwapBody<'a> {
    /// Sent only if the token does not identify the number: the API rejects requests with both.
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<&'a str>,
    /// Period to check, in hours. `None`: the operation returns the date of the last change and takes no period.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<u32>,
}

/// Guard of a pending query. If the engine drops the query's future at the deadline, the guard records a timeout.
struct QueryTimeoutGuard<'a> {
    camara: &'a Camara,
    until: Instant,
    is_finished: bool,
}

impl QueryTimeoutGuard<'_> {
    fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for QueryTimeoutGuard<'_> {
    fn drop(&mut self) {
        let QueryTimeoutGuard { camara, until, is_finished } = *self;
        if is_finished {
            return;
        }
        if Instant::now() < until {
            // A cancellation before the deadline says nothing about the operator.
            camara.sim_swap_breaker.record_outcome(CallOutcome::Inconclusive, None, camara.client.clock.now());
        } else {
            let timeout = CamaraConnectorError::new(Stage::Api, ErrorCause::NoResponse(ClientError::Timeout));
            camara.record_error(&timeout, &camara.sim_swap_breaker);
        }
    }
}

/// Reason to try the next SIM Swap operation after one has failed.
enum FallbackReason {
    /// The operator's history does not cover the period, or the operator does not say how long it monitors SIM changes.
    InsufficientHistory,
    NotPermitted,
}

impl FallbackReason {
    fn from_error(error: &CamaraConnectorError) -> Option<Self> {
        match error.cause() {
            ErrorCause::NoHistory | ErrorCause::Camara("OUT_OF_RANGE") => Some(FallbackReason::InsufficientHistory),
            ErrorCause::Camara("PERMISSION_DENIED") | ErrorCause::OAuth("invalid_scope" | "insufficient_scope") => {
                Some(FallbackReason::NotPermitted)
            }
            _ => None,
        }
    }
}

/// Rounds a period up to full hours, at most to the largest `maxAge` that the API accepts.
fn full_hours(period: SimSwapPeriod) -> u32 {
    period.minutes().div_ceil(60).clamp(1, MAX_AGE_HOURS)
}

#[async_trait]
impl SimSwapConnector for Camara {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn is_reachable(&self) -> bool {
        self.sim_swap_breaker.state(self.client.clock.now()) == BreakerState::Closed
    }

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
        let config = self.config.sim_swap.as_ref().ok_or(ErrorCode::MnoNotSupported)?;
        self.sim_swap_breaker.allow_call(request.now)?;
        let pending = QueryTimeoutGuard { camara: self, until: request.deadline, is_finished: false };
        let result = self.fetch_history(config, request).await;
        pending.finish();
        let history = result.map_err(|error| match self.record_error(&error, &self.sim_swap_breaker) {
            // `NotMobileIp` concerns a device's address, and SIM Swap involves no device.
            ErrorCode::NotMobileIp => ErrorCode::MnoResponseError,
            code => code,
        })?;
        let now = self.client.clock.now();
        self.health.record_success(now);
        self.sim_swap_breaker.record_outcome(CallOutcome::Success, None, now);
        Ok(history)
    }
}

const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(10);
/// Earliest plausible date: the first SIM cards were issued in 1991.
const EARLIEST_SIM_CHANGE: Timestamp = Timestamp::constant(662_688_000, 0);
/// Longest plausible monitored period. A response with a longer one is invalid.
const MAX_MONITORED_DAYS: i64 = 40_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetrieveDateResponse {
    /// The API requires this member, but it may be null.
    #[serde(deserialize_with = "Option::deserialize")]
    latest_sim_change: Option<String>,
    monitored_period: Option<i64>,
}

#[derive(Deserialize)]
struct CheckResponse {
    swapped: bool,
}

fn parse_retrieve_date(
    body: &[u8],
    assumed_window: Option<SignedDuration>,
    now: Timestamp,
) -> Result<SimHistory, ErrorCause<'static>> {
    let invalid_response = ErrorCause::InvalidResponse;
    let response: RetrieveDateResponse =
        serde_json::from_slice(body).map_err(|_| invalid_response(InvalidResponse::Body))?;
    match (&response.latest_sim_change, response.monitored_period) {
        (Some(date), _) => {
            let at: Timestamp = date.parse().map_err(|_| invalid_response(InvalidResponse::Date))?;
            let is_plausible = at >= EARLIEST_SIM_CHANGE && at.duration_since(now) <= CLOCK_SKEW;
            if is_plausible { Ok(SimHistory::ChangedAt(at)) } else { Err(invalid_response(InvalidResponse::Date)) }
        }
        (None, Some(days)) if (1..=MAX_MONITORED_DAYS).contains(&days) => {
            Ok(SimHistory::NoChangeFor(SignedDuration::from_hours(24 * days)))
        }
        (None, Some(_)) => Err(invalid_response(InvalidResponse::Date)),
        (None, None) => assumed_window.map(SimHistory::NoChangeFor).ok_or(ErrorCause::NoHistory),
    }
}

fn parse_check(body: &[u8], hours: u32) -> Result<SimHistory, ErrorCause<'static>> {
    let response: CheckResponse =
        serde_json::from_slice(body).map_err(|_| ErrorCause::InvalidResponse(InvalidResponse::Body))?;
    let window = SignedDuration::from_hours(hours.into());
    Ok(if response.swapped { SimHistory::ChangedWithin(window) } else { SimHistory::NoChangeFor(window) })
}

/// Access token of a SIM Swap request, obtained with client credentials, CIBA or a signed assertion.
struct SimSwapToken {
    /// Value of the `Authorization` header: `Bearer …`.
    bearer: HeaderValue,
    /// Whether the token identifies the number. The request must then omit the number.
    identifies_number: bool,
    /// Whether the token is shared through the cache. The operator may have revoked such a token since it was issued.
    is_cached: bool,
}

impl SimSwapToken {
    fn for_number(tokens: TokenResponse) -> Self {
        SimSwapToken { bearer: tokens.bearer, identifies_number: true, is_cached: false }
    }
}

/// Client-credentials tokens, one per scope: an operator may refuse one scope and grant the other.
pub(super) struct SimSwapTokenCache {
    retrieve_date: TokenCache<CamaraConnectorError>,
    check: TokenCache<CamaraConnectorError>,
}

impl SimSwapTokenCache {
    pub fn new() -> Self {
        SimSwapTokenCache { retrieve_date: TokenCache::new(), check: TokenCache::new() }
    }

    fn for_operation(&self, operation: SimSwapOperation, config: &SimSwapConfig) -> &TokenCache<CamaraConnectorError> {
        match operation {
            SimSwapOperation::Check if config.check_scope != config.retrieve_date_scope => &self.check,
            SimSwapOperation::Check | SimSwapOperation::RetrieveDate => &self.retrieve_date,
        }
    }
}

impl Camara {
    async fn obtain_sim_swap_token(
        &self,
        config: &SimSwapConfig,
        operation: SimSwapOperation,
        request: SimSwapRequest<'_>,
    ) -> Result<SimSwapToken, CamaraConnectorError> {
        let scope = config.scope(operation);
        match &config.flow {
            SimSwapFlow::ClientCredentials => {
                let tokens = self.sim_swap_tokens.for_operation(operation, config);
                let bearer = match tokens.cached(request.now) {
                    Some(bearer) => bearer,
                    None => Box::pin(self.renew_token(tokens, scope)).await?,
                };
                Ok(SimSwapToken { bearer, identifies_number: false, is_cached: true })
            }
            // The token requests of this and the next flow are boxed to keep the future of this function small.
            SimSwapFlow::Ciba => {
                let endpoints = self.authorization_server.endpoints(&self.client).await?;
                let scope = self.user_scope(&[scope]);
                let hint = match self.config.login_hint {
                    LoginHintFormat::E164 => request.number.as_str().to_owned(),
                    LoginHintFormat::None | LoginHintFormat::Tel | LoginHintFormat::IpPort => tel_uri(request.number),
                };
                let tokens = Box::pin(self.request_token_by_ciba(&scope, &hint, request.deadline, &endpoints)).await;
                tokens.map(SimSwapToken::for_number)
            }
            SimSwapFlow::JwtBearer { key, audience } => {
                let endpoints = self.authorization_server.endpoints(&self.client).await?;
                let scope = self.user_scope(&[scope]);
                let subject = tel_uri(request.number);
                let tokens =
                    Box::pin(self.request_token_by_assertion(&scope, &subject, key, *audience, &endpoints)).await;
                tokens.map(SimSwapToken::for_number)
            }
        }
    }

    async fn renew_token(
        &self,
        tokens: &TokenCache<CamaraConnectorError>,
        scope: &str,
    ) -> Result<HeaderValue, CamaraConnectorError> {
        let token = tokens.get_or_fetch(&*self.client.clock, self.fetch_client_token(scope)).await;
        token.map_err(|error| match error {
            TokenError::FetchFailed(error) => error,
            TokenError::SharedFetchFailed(error) => error.without_counting(),
        })
    }

    /// Fetches a token that is valid for all numbers. It identifies no user, so the scope `openid` does not apply.
    async fn fetch_client_token(&self, scope: &str) -> Result<TokenResponse, CamaraConnectorError> {
        let endpoints = self.authorization_server.endpoints(&self.client).await?;
        let scope = self.scope_with_purpose(&[scope]);
        self.request_token(&[("grant_type", "client_credentials"), ("scope", &scope)], &endpoints).await
    }
}

fn tel_uri(number: &Msisdn) -> String {
    format!("tel:{}", number.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_is_rounded_up_to_hours() {
        for (minutes, expected) in
            [(60, 1), (61, 2), (119, 2), (120, 2), (10_080, 168), (144_000, 2_400), (144_001, 2_400), (540_000, 2_400)]
        {
            assert_eq!(full_hours(SimSwapPeriod::try_from(minutes).unwrap()), expected, "{minutes}");
        }
    }

    #[test]
    fn earliest_sim_change_is_1991() {
        assert_eq!(EARLIEST_SIM_CHANGE.to_string(), "1991-01-01T00:00:00Z");
    }
}
