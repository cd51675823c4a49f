//! Tokens that identify one subscriber without a redirect: by a JWT bearer assertion, or by CIBA in poll mode. SIM Swap
//! and operator tokens use them.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};
use url::form_urlencoded::Serializer;

use super::{
    Camara,
    error::{CamaraConnectorError, ErrorCause, InvalidResponse},
};
use crate::{
    jwt::SigningKey,
    oauth::{ASSERTION_LIFETIME_SECS, Audience, Endpoints, Stage, TokenResponse, deserialize_seconds, parse_tokens},
};

const JWT_BEARER_GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const FORM_CONTENT_TYPE: &str = "application/x-www-form-urlencoded";

impl Camara {
    /// Requests a token with a JWT bearer assertion (RFC 7523), which also authenticates the client. `subject` names the
    /// subscriber, such as `tel:+447700900123`.
    pub(super) async fn request_token_by_assertion(
        &self,
        scope: &str,
        subject: &str,
        key: &SigningKey,
        audience: Audience,
        endpoints: &Endpoints,
    ) -> Result<TokenResponse, CamaraConnectorError> {
        let now = self.now();
        let claims = json!({
            "iss": self.config.client_id,
            "sub": subject,
            "aud": match audience {
                Audience::Endpoint => endpoints.token.as_str(),
                Audience::Issuer => &endpoints.issuer,
            },
            "iat": now,
            "exp": now + ASSERTION_LIFETIME_SECS,
            "jti": self.random_jti(),
            "scope": scope,
        });
        let assertion =
            key.sign("JWT", &claims).ok_or(CamaraConnectorError::new(Stage::Token, ErrorCause::Internal))?;
        let fields = [("grant_type", JWT_BEARER_GRANT_TYPE), ("assertion", &*assertion)];
        let form = Serializer::new(String::new()).extend_pairs(fields).finish();
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(FORM_CONTENT_TYPE))]);
        let response =
            self.client.send_once(Stage::Token, Method::POST, &endpoints.token, headers, form.into_bytes()).await?;
        Ok(parse_tokens(&response.body)?)
    }
}

const CIBA_GRANT_TYPE: &str = "urn:openid:params:grant-type:ciba";
/// Polling interval if the operator sends none.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Lower bound for the polling interval that the operator sends.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Added to the polling interval after each `slow_down`.
const SLOW_DOWN_INCREMENT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct BackchannelResponse {
    auth_req_id: String,
    #[serde(default, deserialize_with = "deserialize_seconds")]
    interval: Option<i64>,
}

impl Camara {
    /// Requests a token by CIBA, and polls until the operator has decided, or until the deadline. `login_hint` names the
    /// subscriber.
    pub(super) async fn request_token_by_ciba(
        &self,
        scope: &str,
        login_hint: &str,
        deadline: Instant,
        endpoints: &Endpoints,
    ) -> Result<TokenResponse, CamaraConnectorError> {
        let started = self.start_ciba(scope, login_hint, endpoints).await?;
        let mut poll_interval = PollInterval::new(started.interval);
        loop {
            let fields = [("grant_type", CIBA_GRANT_TYPE), ("auth_req_id", &*started.auth_req_id)];
            match self.request_token(&fields, endpoints).await {
                Ok(tokens) => return Ok(tokens),
                Err(error) => {
                    let remaining = deadline.saturating_duration_since(Instant::now());
                    let delay = poll_interval.next_delay(error.cause(), remaining).ok_or(error)?;
                    sleep(delay).await;
                }
            }
        }
    }

    async fn start_ciba(
        &self,
        scope: &str,
        login_hint: &str,
        endpoints: &Endpoints,
    ) -> Result<BackchannelResponse, CamaraConnectorError> {
        let stage = Stage::Backchannel;
        let url = endpoints
            .backchannel
            .as_ref()
            .ok_or(CamaraConnectorError::invalid_response(stage, InvalidResponse::NoBackchannel))?;
        let fields = [("scope", scope), ("login_hint", login_hint)];
        let (headers, form) = self.authenticated_form(stage, url, endpoints, &fields)?;
        let response = self.client.send_once(stage, Method::POST, url, headers, form).await?;
        let started: BackchannelResponse = serde_json::from_slice(&response.body)
            .map_err(|_| CamaraConnectorError::invalid_response(stage, InvalidResponse::Body))?;
        if started.auth_req_id.is_empty() {
            Err(CamaraConnectorError::invalid_response(stage, InvalidResponse::Body))
        } else {
            Ok(started)
        }
    }
}

/// Interval between the token requests of CIBA's poll mode.
struct PollInterval {
    interval: Duration,
}

impl PollInterval {
    fn new(seconds: Option<i64>) -> Self {
        let requested = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        PollInterval { interval: requested.unwrap_or(DEFAULT_POLL_INTERVAL).max(MIN_POLL_INTERVAL) }
    }

    /// Returns the delay before the next poll. `None`: the response is final, or no time is left for another poll.
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
        // The operator's interval, errors received, seconds left, and the expected delay after the last error in
        // milliseconds.
        for (interval, causes, remaining, expected) in [
            (None, &[PENDING][..], 60, Some(5_000)),
            (Some(2), &[PENDING], 60, Some(2_000)),
            (Some(2), &[PENDING, PENDING], 60, Some(2_000)),
            (Some(0), &[PENDING], 60, Some(200)),
            (Some(-1), &[PENDING], 60, Some(5_000)),
            (Some(2), &[SLOW_DOWN], 60, Some(7_000)),
            (Some(2), &[SLOW_DOWN, PENDING], 60, Some(7_000)),
            (Some(2), &[SLOW_DOWN, SLOW_DOWN], 60, Some(12_000)),
            (None, &[SLOW_DOWN], 14, Some(10_000)),
            (None, &[SLOW_DOWN, SLOW_DOWN], 14, None),
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
