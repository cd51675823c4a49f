//! CAMARA SIM Swap: date of the last SIM change of a number.
//!
//! No device is involved: one token (for the client or the number) and one API call. Calls are idempotent, so they are
//! retried once.

mod access;
mod ciba;
mod config;
mod history;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, header::CONTENT_TYPE};
use ringtrue_domain::{
    lifecycle::ErrorCode,
    sim_swap::{SimHistory, SimSwapPeriod},
};
use ringtrue_engine::ports::{SimSwapConnector, SimSwapRequest};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    CallOutcome, Camara, api_headers, correlator_header,
    error::{CamaraError, ErrorCause, Stage},
};
use crate::client::ClientError;
use access::SimSwapAccess;
pub(super) use access::SimSwapTokenCache;
pub use config::{SimSwapConfig, SimSwapFlow, SimSwapOperation};
use history::{parse_check, parse_retrieve_date};

/// Maximum `maxAge` of CAMARA SIM Swap.
const MAX_AGE_HOURS: u32 = 2_400;

impl Camara {
    pub fn supports_sim_swap(&self) -> bool {
        self.config.sim_swap.is_some()
    }

    /// Tries the configured operations in order.
    async fn fetch_history(
        &self,
        config: &SimSwapConfig,
        request: SimSwapRequest<'_>,
    ) -> Result<SimHistory, CamaraError> {
        let (mut has_insufficient_history, mut denial) = (false, None);
        let mut operations = config.operations.iter();
        while let Some(operation) = operations.next() {
            let error = match self.fetch_by_operation(*operation, config, request).await {
                Err(error) => error,
                history => return history,
            };
            match Limitation::from_error(&error) {
                Some(Limitation::InsufficientHistory) => has_insufficient_history = true,
                Some(Limitation::NotPermitted) => {
                    if operations.len() > 0 {
                        let (connector, stage, cause) = (&*self.config.name, error.stage.as_str(), error.cause());
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
        // If one operation was permitted, a refused one is not an error of the operator.
        Err(denial.filter(|_| !has_insufficient_history).unwrap_or(CamaraError::new(Stage::Api, ErrorCause::NoHistory)))
    }

    async fn fetch_by_operation(
        &self,
        operation: SimSwapOperation,
        config: &SimSwapConfig,
        request: SimSwapRequest<'_>,
    ) -> Result<SimHistory, CamaraError> {
        let mut may_retry = true;
        loop {
            let access = self.sim_swap_access(config, operation, request).await?;
            match self.query_history(operation, config, request, &access).await {
                // The cached token may have been revoked; retry once with a new one.
                Err(CamaraError { status: Some(401), .. }) if access.is_cached && may_retry => {
                    self.sim_swap_tokens.for_operation(operation, config).invalidate(&access.bearer);
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
        access: &SimSwapAccess,
    ) -> Result<SimHistory, CamaraError> {
        let hours = full_hours(request.period);
        let max_age = (operation == SimSwapOperation::Check).then_some(hours);
        let response = self.send_query(operation, max_age, request, access).await?;
        let history = match operation {
            SimSwapOperation::RetrieveDate => parse_retrieve_date(&response, config.assumed_window, request.now),
            SimSwapOperation::Check => parse_check(&response, hours),
        };
        history.map_err(|cause| CamaraError::new(Stage::Api, cause))
    }

    async fn send_query(
        &self,
        operation: SimSwapOperation,
        max_age: Option<u32>,
        request: SimSwapRequest<'_>,
        access: &SimSwapAccess,
    ) -> Result<Bytes, CamaraError> {
        let internal_error = || CamaraError::new(Stage::Api, ErrorCause::Internal);
        let url = self.api_urls.sim_swap(operation).ok_or_else(internal_error)?;
        let phone_number = (!access.identifies_number).then(|| request.number.as_str());
        let body = serde_json::to_vec(&SimSwapBody { phone_number, max_age }).map_err(|_| internal_error())?;
        let correlator = correlator_header(request.check)?;
        let headers = || {
            let mut headers = api_headers(correlator.clone(), access.bearer.clone());
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers
        };
        let response = self.client.send_idempotent(Stage::Api, Method::POST, url, headers, body.into()).await?;
        Ok(response.body)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SimSwapBody<'a> {
    /// Only if the token does not identify the number: sending both is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<&'a str>,
    /// In hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<u32>,
}

/// A pending query. The engine drops it at its deadline, which counts as a timeout.
struct PendingQuery<'a> {
    camara: &'a Camara,
    until: Instant,
    is_finished: bool,
}

impl PendingQuery<'_> {
    fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for PendingQuery<'_> {
    fn drop(&mut self) {
        let PendingQuery { camara, until, is_finished } = *self;
        if is_finished {
            return;
        }
        if Instant::now() < until {
            // Cancelled early: says nothing about the operator.
            camara.sim_swap_breaker.record_outcome(CallOutcome::Inconclusive, None, camara.client.clock.now());
        } else {
            let timeout = CamaraError::new(Stage::Api, ErrorCause::NoResponse(ClientError::Timeout));
            camara.record_error(&timeout, &camara.sim_swap_breaker);
        }
    }
}

/// Why another operation may succeed where one failed.
enum Limitation {
    /// The period is too long, or the monitored period is unknown.
    InsufficientHistory,
    NotPermitted,
}

impl Limitation {
    fn from_error(error: &CamaraError) -> Option<Self> {
        match error.cause() {
            ErrorCause::NoHistory | ErrorCause::Camara("OUT_OF_RANGE") => Some(Limitation::InsufficientHistory),
            ErrorCause::Camara("PERMISSION_DENIED") | ErrorCause::OAuth("invalid_scope" | "insufficient_scope") => {
                Some(Limitation::NotPermitted)
            }
            _ => None,
        }
    }
}

/// Rounds up to full hours.
fn full_hours(period: SimSwapPeriod) -> u32 {
    period.minutes().div_ceil(60).clamp(1, MAX_AGE_HOURS)
}

#[async_trait]
impl SimSwapConnector for Camara {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
        let config = self.config.sim_swap.as_ref().ok_or(ErrorCode::MnoNotSupported)?;
        self.sim_swap_breaker.allow_call(request.now)?;
        let pending = PendingQuery { camara: self, until: request.deadline, is_finished: false };
        let result = self.fetch_history(config, request).await;
        pending.finish();
        let history = result.map_err(|error| match self.record_error(&error, &self.sim_swap_breaker) {
            // There is no device whose address could be wrong.
            ErrorCode::NotMobileIp => ErrorCode::MnoResponseError,
            code => code,
        })?;
        let now = self.client.clock.now();
        self.health.record_success(now);
        self.sim_swap_breaker.record_outcome(CallOutcome::Success, None, now);
        Ok(history)
    }
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
}
