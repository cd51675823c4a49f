//! Cache for a client-credentials access token (RFC 6749), renewed shortly before it expires.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::Clock;
use serde_json::Value;

/// Lifetime of a token without `expires_in`.
const DEFAULT_LIFETIME_SECS: i64 = 300;
/// A token is renewed when a fifth of its lifetime is left, or a minute: it must outlive the request that carries it.
const RENEWAL_DIVISOR: i64 = 5;
const MAX_RENEWAL_MARGIN_SECS: i64 = 60;
/// Upper bound for `expires_in`.
const MAX_LIFETIME_SECS: i64 = 24 * 3_600;

pub(crate) struct FetchedToken {
    /// Value of the `Authorization` header: `Bearer …`.
    pub token: HeaderValue,
    /// In seconds.
    pub expires_in: Option<i64>,
}

pub(crate) enum TokenError<E> {
    FetchFailed(E),
    /// A concurrent fetch failed; that task has reported the error already.
    SharedFetchFailed(E),
}

/// Only one task fetches at a time. Tasks that waited for a failed fetch share its error instead of retrying one after
/// the other, each with its own timeout.
pub(crate) struct TokenCache<E> {
    state: Mutex<State<E>>,
    fetch_lock: tokio::sync::Mutex<()>,
}

struct State<E> {
    cached: Option<CachedToken>,
    /// Number of finished fetches.
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
        self.state().valid_token(now).ok()
    }

    /// Returns the cached token, or runs `fetch`.
    pub async fn get_or_fetch(
        &self,
        clock: &dyn Clock,
        fetch: impl Future<Output = Result<FetchedToken, E>> + Send,
    ) -> Result<HeaderValue, TokenError<E>> {
        let fetches_before = match self.state().valid_token(clock.now()) {
            Ok(token) => return Ok(token),
            Err(fetches) => fetches,
        };
        let _guard = self.fetch_lock.lock().await;
        if let Some(outcome) = self.state().result_since(fetches_before, clock.now()) {
            return outcome;
        }
        let requested_at = clock.now();
        let outcome = fetch.await;
        let mut state = self.state();
        state.fetches += 1;
        match outcome {
            Ok(FetchedToken { token, expires_in }) => {
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

    /// Removes a token that the server rejected, unless it was replaced meanwhile.
    pub fn invalidate(&self, rejected: &HeaderValue) {
        let mut state = self.state();
        if state.cached.as_ref().is_some_and(|cached| cached.token == *rejected) {
            state.cached = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Clone> State<E> {
    /// Result of a fetch that finished after `fetches_before` was read.
    fn result_since(&self, fetches_before: u64, now: Timestamp) -> Option<Result<HeaderValue, TokenError<E>>> {
        match (self.valid_token(now), &self.last_error) {
            (Ok(token), _) => Some(Ok(token)),
            (Err(fetches), Some(error)) if fetches > fetches_before => {
                Some(Err(TokenError::SharedFetchFailed(error.clone())))
            }
            _ => None,
        }
    }

    /// The valid token, or the number of fetches so far.
    fn valid_token(&self, now: Timestamp) -> Result<HeaderValue, u64> {
        self.cached
            .as_ref()
            .filter(|cached| now < cached.renew_at)
            .map(|cached| cached.token.clone())
            .ok_or(self.fetches)
    }
}

/// Parses `expires_in`: a number, which some servers send as a string.
pub(crate) fn parse_seconds(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn renewal_time(now: Timestamp, expires_in: i64) -> Timestamp {
    let expires_in = expires_in.clamp(0, MAX_LIFETIME_SECS);
    let cached_for = expires_in - (expires_in / RENEWAL_DIVISOR).min(MAX_RENEWAL_MARGIN_SECS);
    now.checked_add(SignedDuration::from_secs(cached_for)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use ringtrue_engine::ports::ManualClock;
    use serde_json::json;

    use super::*;

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
    fn expires_in_is_parsed() {
        for (value, expected) in [
            (json!(60), Some(60)),
            (json!("60"), Some(60)),
            (json!(-1), Some(-1)),
            (json!(null), None),
            (json!("soon"), None),
            (json!([60]), None),
        ] {
            assert_eq!(parse_seconds(Some(&value)), expected, "{value}");
        }
        assert_eq!(parse_seconds(None), None);
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
            Ok(FetchedToken { token: HeaderValue::from_static("Bearer t"), expires_in: Some(100) })
        };
        let (one, other) = tokio::join!(cache.get_or_fetch(&clock, fetch()), cache.get_or_fetch(&clock, fetch()));
        assert!(matches!(one, Err(TokenError::FetchFailed("no"))));
        assert!(matches!(other, Err(TokenError::SharedFetchFailed("no"))));
        // Later calls fetch again, and only once.
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
