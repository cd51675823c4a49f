//! Tokens by CIBA (client-initiated backchannel authentication) in poll mode.

use std::time::Duration;

use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::SimSwapRequest;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    camara::{
        Camara,
        config::{Endpoints, LoginHint},
        error::{CamaraError, ErrorCause, InvalidResponse, Stage},
        token::TokenResponse,
    },
    token_cache::parse_seconds,
};

const CIBA_GRANT_TYPE: &str = "urn:openid:params:grant-type:ciba";
/// Used if the operator sends no interval.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Lower bound for the operator's interval.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Added to the interval after `slow_down`.
const SLOW_DOWN_INCREMENT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct BackchannelResponse {
    auth_req_id: String,
    interval: Option<Value>,
}

impl Camara {
    pub(super) async fn token_by_ciba(
        &self,
        scope: &str,
        request: SimSwapRequest<'_>,
        endpoints: &Endpoints,
    ) -> Result<TokenResponse, CamaraError> {
        let started = self.start_ciba(scope, request.number, endpoints).await?;
        let mut poll_interval = PollInterval::new(parse_seconds(started.interval.as_ref()));
        loop {
            let fields = [("grant_type", CIBA_GRANT_TYPE), ("auth_req_id", &*started.auth_req_id)];
            match self.request_token(&fields, endpoints).await {
                Ok(tokens) => return Ok(tokens),
                Err(error) => {
                    let remaining = request.deadline.saturating_duration_since(Instant::now());
                    let delay = poll_interval.next_delay(error.cause(), remaining).ok_or(error)?;
                    sleep(delay).await;
                }
            }
        }
    }

    async fn start_ciba(
        &self,
        scope: &str,
        number: &Msisdn,
        endpoints: &Endpoints,
    ) -> Result<BackchannelResponse, CamaraError> {
        let stage = Stage::Backchannel;
        let url = endpoints
            .backchannel
            .as_ref()
            .ok_or(CamaraError::invalid_response(stage, InvalidResponse::NoBackchannel))?;
        let hint = match self.config.login_hint {
            LoginHint::E164 => number.as_str().to_owned(),
            LoginHint::None | LoginHint::Tel | LoginHint::IpPort => format!("tel:{}", number.as_str()),
        };
        let fields = [("scope", scope), ("login_hint", &hint)];
        let (headers, form) = self.authenticated_form(stage, url, endpoints, &fields)?;
        let response = self.client.post(stage, url, headers, form).await?;
        let started: BackchannelResponse = serde_json::from_slice(&response.body)
            .map_err(|_| CamaraError::invalid_response(stage, InvalidResponse::Body))?;
        if started.auth_req_id.is_empty() {
            Err(CamaraError::invalid_response(stage, InvalidResponse::Body))
        } else {
            Ok(started)
        }
    }
}

/// Polling interval.
struct PollInterval {
    interval: Duration,
}

impl PollInterval {
    fn new(seconds: Option<i64>) -> Self {
        let requested = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        PollInterval { interval: requested.unwrap_or(DEFAULT_POLL_INTERVAL).max(MIN_POLL_INTERVAL) }
    }

    /// Delay before the next poll. `None`: a final response, or no time left.
    fn next_delay(&mut self, cause: ErrorCause<'_>, remaining: Duration) -> Option<Duration> {
        match cause {
            ErrorCause::OAuth("authorization_pending") => {}
            ErrorCause::OAuth("slow_down") => self.interval = self.interval.saturating_add(SLOW_DOWN_INCREMENT),
            _ => return None,
        }
        (self.interval < remaining).then_some(self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PENDING: ErrorCause<'_> = ErrorCause::OAuth("authorization_pending");
    const SLOW_DOWN: ErrorCause<'_> = ErrorCause::OAuth("slow_down");

    #[test]
    fn poll_interval_follows_the_operator() {
        // Interval, errors received, seconds left, and the expected delay after the last error.
        for (interval, causes, remaining, expected) in [
            (None, &[PENDING][..], 60, Some(5_000)),
            (Some(2), &[PENDING], 60, Some(2_000)),
            (Some(2), &[PENDING, PENDING], 60, Some(2_000)),
            (Some(0), &[PENDING], 60, Some(200)),
            (Some(-1), &[PENDING], 60, Some(5_000)),
            (Some(2), &[SLOW_DOWN], 60, Some(7_000)),
            (Some(2), &[SLOW_DOWN, PENDING], 60, Some(7_000)),
            (Some(2), &[SLOW_DOWN, SLOW_DOWN], 60, Some(12_000)),
            (None, &[PENDING], 5, None),
            (Some(2), &[SLOW_DOWN], 7, None),
            (Some(i64::MAX), &[SLOW_DOWN], 60, None),
            (Some(1), &[ErrorCause::OAuth("expired_token")], 60, None),
            (Some(1), &[ErrorCause::OAuth("access_denied")], 60, None),
            (Some(1), &[ErrorCause::Status(503)], 60, None),
        ] {
            let mut poll_interval = PollInterval::new(interval);
            let mut delay = None;
            for cause in causes {
                delay = poll_interval.next_delay(*cause, Duration::from_secs(remaining));
            }
            assert_eq!(delay, expected.map(Duration::from_millis), "{interval:?} {causes:?} {remaining}");
        }
    }
}
