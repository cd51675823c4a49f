//! Token responses, and a cache for client-credentials tokens (RFC 6749).

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_engine::ports::clock::Clock;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{
    client_authentication::bearer_header,
    error::{InvalidResponse, OAuthError, Stage},
};

/// Lifetime of a token without `expires_in`.
const DEFAULT_LIFETIME_SECS: i64 = 300;
/// A token is renewed when a fifth of its lifetime is left, but at most one minute before it expires. The margin
/// prevents it from expiring while a request is in transit.
const RENEWAL_DIVISOR: i64 = 5;
const MAX_RENEWAL_MARGIN_SECS: i64 = 60;
/// Upper bound for `expires_in`.
const MAX_LIFETIME_SECS: i64 = 24 * 3_600;

/// Tokens issued by an authorization server.
pub(crate) struct TokenResponse {
    /// Value of the `Authorization` header: `Bearer …`.
    pub bearer: HeaderValue,
    pub id_token: Option<String>,
    /// Lifetime in seconds.
    pub expires_in: Option<i64>,
}

#[derive(Deserialize)]
pub(crate) struct TokenResponseBody {
    access_token: String,
    token_type: String,
    id_token: Option<String>,
    #[serde(default, deserialize_with = "deserialize_seconds")]
    expires_in: Option<i64>,
}

impl TokenResponseBody {
    pub fn is_bearer(&self) -> bool {
        self.token_type.eq_ignore_ascii_case("bearer")
    }

    /// Returns `None` if the access token is not valid in a header.
    pub fn into_tokens(self) -> Option<TokenResponse> {
        let TokenResponseBody { access_token, id_token, expires_in, .. } = self;
        Some(TokenResponse { bearer: bearer_header(&access_token)?, id_token, expires_in })
    }
}

/// Parses a token response, which must contain a bearer token.
pub(crate) fn parse_tokens(json: &[u8]) -> Result<TokenResponse, OAuthError> {
    let invalid_response = |reason| OAuthError::invalid_response(Stage::Token, reason);
    let body: TokenResponseBody = serde_json::from_slice(json).map_err(|_| invalid_response(InvalidResponse::Body))?;
    if !body.is_bearer() {
        return Err(invalid_response(InvalidResponse::TokenType));
    }
    body.into_tokens().ok_or(invalid_response(InvalidResponse::Body))
}

/// Deserialises a number of seconds, which some servers send as a string. Other values become `None`.
pub(crate) fn deserialize_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    })
}

pub(crate) enum TokenError<E> {
    FetchFailed(E),
    /// A fetch by another task failed. That task has already reported the error, so it must not be counted again.
    SharedFetchFailed(E),
}

/// Cache for a client-credentials token, renewed shortly before it expires.
///
/// Only one task fetches at a time. Tasks that waited for a failed fetch share its error instead of retrying one after
/// the other, each with its own timeout.
pub(crate) struct TokenCache<E> {
    state: Mutex<State<E>>,
    fetch_lock: tokio::sync::Mutex<()>,
}

struct State<E> {
    cached: Option<CachedToken>,
    /// Number of finished fetches. A waiting task compares it with the earlier number to detect that another task has
    /// fetched.
    fetches: u64,
    /// Error of the last fetch, if it failed.
    last_error: Option<E>,
}

struct CachedToken {
    token: HeaderValue,
    renew_at: Timestamp,
}

impl<E: Clone> TokenCache<E> {
    pub fn new() -> Self {
        let state = State { cached: None, fetches: 0, last_error: None };
        TokenCache { state: Mutex::new(state), fetch_lock: tokio::sync::Mutex::new(()) }
    }

    pub fn cached(&self, now: Timestamp) -> Option<HeaderValue> {
        self.state.lock().valid_token(now).ok()
    }

    /// Returns the cached token, or runs `fetch`.
    pub async fn get_or_fetch(
        &self,
        clock: &dyn Clock,
        fetch: impl Future<Output = Result<TokenResponse, E>> + Send,
    ) -> Result<HeaderValue, TokenError<E>> {
        let fetches_before = match self.state.lock().valid_token(clock.now()) {
            Ok(token) => return Ok(token),
            Err(fetches) => fetches,
        };
        let _guard = self.fetch_lock.lock().await;
        if let Some(outcome) = self.state.lock().result_since(fetches_before, clock.now()) {
            return outcome;
        }
        let requested_at = clock.now();
        let outcome = fetch.await;
        let mut state = self.state.lock();
        state.fetches += 1;
        match outcome {
            Ok(TokenResponse { bearer: token, expires_in, .. }) => {
                let renew_at = renewal_time(requested_at, expires_in.unwrap_or(DEFAULT_LIFETIME_SECS));
                state.last_error = None;
                state.cached = Some(CachedToken { token: token.clone(), renew_at });
                Ok(token)
            }
            Err(error) => {
                state.last_error = Some(error.clone());
                Err(TokenError::FetchFailed(error))
            }
        }
    }

    /// Removes a token that the server rejected, unless the cache already holds another one.
    pub fn invalidate(&self, rejected: &HeaderValue) {
        let mut state = self.state.lock();
        if state.cached.as_ref().is_some_and(|cached| cached.token == *rejected) {
            state.cached = None;
        }
    }
}

impl<E: Clone> State<E> {
    /// Returns the valid token, or the error of a fetch that finished after `fetches_before` was read. `None`: the
    /// caller has to fetch.
    fn result_since(&self, fetches_before: u64, now: Timestamp) -> Option<Result<HeaderValue, TokenError<E>>> {
        match (self.valid_token(now), &self.last_error) {
            (Ok(token), _) => Some(Ok(token)),
            (Err(fetches), Some(error)) if fetches > fetches_before => {
                Some(Err(TokenError::SharedFetchFailed(error.clone())))
            }
            _ => None,
        }
    }

    /// Returns the token if it is still valid, otherwise the number of finished fetches.
    fn valid_token(&self, now: Timestamp) -> Result<HeaderValue, u64> {
        self.cached
            .as_ref()
            .filter(|cached| now < cached.renew_at)
            .map(|cached| cached.token.clone())
            .ok_or(self.fetches)
    }
}

fn renewal_time(now: Timestamp, expires_in: i64) -> Timestamp {
    let expires_in = expires_in.clamp(0, MAX_LIFETIME_SECS);
    let cached_for = expires_in - (expires_in / RENEWAL_DIVISOR).min(MAX_RENEWAL_MARGIN_SECS);
    now.checked_add(SignedDuration::from_secs(cached_for)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringtrue_engine::ports::clock::ManualClock;
    use serde_json::json;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn token_is_renewed_before_it_expires() {
        let now = Timestamp::UNIX_EPOCH;
        for (expires_in, cached_for) in
            [(3_600, 3_540), (300, 240), (100, 80), (10, 8), (0, 0), (-5, 0), (i64::MAX, 86_340), (i64::MIN, 0)]
        {
            assert_eq!(renewal_time(now, expires_in).as_second(), cached_for, "{expires_in}");
        }
    }

    #[test]
    fn seconds_may_be_a_string() {
        for (value, expected) in [
            (json!(60), Some(60)),
            (json!("60"), Some(60)),
            (json!(-1), Some(-1)),
            (json!(null), None),
            (json!("soon"), None),
            (json!([60]), None),
        ] {
            assert_eq!(deserialize_seconds(&value).unwrap(), expected, "{value}");
        }
    }

    #[tokio::test]
    async fn tasks_waiting_for_a_failed_fetch_share_its_error() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let cache: TokenCache<&str> = TokenCache::new();
        let fetched = AtomicU32::new(0);
        let fetch = || async {
            let attempt = fetched.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            if attempt == 0 {
                return Err("no");
            }
            let bearer = HeaderValue::from_static("Bearer t");
            Ok(TokenResponse { bearer, id_token: None, expires_in: Some(100) })
        };
        let (one, other) = tokio::join!(cache.get_or_fetch(&clock, fetch()), cache.get_or_fetch(&clock, fetch()));
        assert!(matches!(one, Err(TokenError::FetchFailed("no"))));
        assert!(matches!(other, Err(TokenError::SharedFetchFailed("no"))));
        // The error is not cached. Two concurrent calls fetch again, but only once.
        let (one, other) = tokio::join!(cache.get_or_fetch(&clock, fetch()), cache.get_or_fetch(&clock, fetch()));
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(fetched.load(Ordering::Relaxed), 2);
        clock.advance(SignedDuration::from_secs(80));
        assert!(cache.get_or_fetch(&clock, fetch()).await.is_ok());
        assert_eq!(fetched.load(Ordering::Relaxed), 3, "the first token is due for renewal");
        cache.invalidate(&HeaderValue::from_static("Bearer other"));
        assert!(cache.get_or_fetch(&clock, fetch()).await.is_ok());
        cache.invalidate(&HeaderValue::from_static("Bearer t"));
        assert!(cache.get_or_fetch(&clock, fetch()).await.is_ok());
        assert_eq!(fetched.load(Ordering::Relaxed), 4);
    }
}
