//! HTTP client for the endpoints of an authorization server, and cache for its documents.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{AGE, CACHE_CONTROL, EXPIRES, RETRY_AFTER},
};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use parking_lot::Mutex;
use ringtrue_engine::ports::clock::Clock;
use serde::Deserialize;
use url::Url;

use super::error::{InvalidResponse, OAuthCause, OAuthError, Rejection, Stage, find_error_name};
use crate::client::{Client, ClientError, ClientResponse, accepting_json};

/// Cache lifetime of documents without caching headers, and the limits for lifetimes in these headers.
const DEFAULT_TTL: SignedDuration = SignedDuration::from_hours(1);
const MIN_TTL: SignedDuration = SignedDuration::from_secs(10);
const MAX_TTL: SignedDuration = SignedDuration::from_hours(24);
/// Time after a failed fetch in which no new fetch begins.
const RETRY_PAUSE: SignedDuration = SignedDuration::from_secs(1);

pub struct EndpointClient {
    /// Connector name for logs.
    pub connector: Arc<str>,
    pub client: Arc<Client>,
    pub clock: Arc<dyn Clock>,
}

/// Body of an error response (OAuth or CAMARA).
#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(default, deserialize_with = "string_or_none")]
    error: Option<String>,
    #[serde(default, deserialize_with = "string_or_none")]
    code: Option<String>,
}

/// Deserialises a string. `None`: a value of another type, which some servers send.
fn string_or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_str().map(str::to_owned))
}

impl EndpointClient {
    pub async fn get(&self, stage: Stage, url: &Url) -> Result<ClientResponse, OAuthError> {
        self.send_idempotent(stage, Method::GET, url, HeaderMap::new(), Bytes::new()).await
    }

    /// Sends an idempotent request, with one retry after a transient error.
    pub async fn send_idempotent(
        &self,
        stage: Stage,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<ClientResponse, OAuthError> {
        let response = self.client.request_idempotent(method, url, accepting_json(headers), body).await;
        self.check_status(stage, response)
    }

    /// Sends a request without retry.
    pub async fn send_once(
        &self,
        stage: Stage,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<ClientResponse, OAuthError> {
        let response = self.client.request(method, url, accepting_json(headers), body).await;
        self.check_status(stage, response)
    }

    fn check_status(
        &self,
        stage: Stage,
        response: Result<ClientResponse, ClientError>,
    ) -> Result<ClientResponse, OAuthError> {
        let response = response.map_err(|error| OAuthError::new(stage, OAuthCause::NoResponse(error)))?;
        if response.status == 200 {
            return Ok(response);
        }
        let body: ErrorBody = serde_json::from_slice(&response.body).unwrap_or_default();
        Err(OAuthError::new(
            stage,
            OAuthCause::Rejected(Rejection {
                status: response.status,
                error: body.error.as_deref().and_then(find_error_name),
                code: body.code,
                retry_after: parse_retry_after(&response.headers, self.clock.now()),
            }),
        ))
    }
}

type Parse<T> = Box<dyn Fn(&[u8]) -> Result<T, InvalidResponse> + Send + Sync>;

/// A cached document of the server, such as its metadata or keys. If a refresh fails, the stale copy stays in use. Only
/// one task fetches at a time.
pub struct CachedDocument<T> {
    stage: Stage,
    parse: Parse<T>,
    entry: Mutex<Option<CacheEntry<T>>>,
    fetch_lock: tokio::sync::Mutex<()>,
}

struct CacheEntry<T> {
    url: Url,
    result: Result<Arc<T>, OAuthError>,
    expires_at: Timestamp,
    /// Whether the last refresh failed. If so, no new attempt begins before `expires_at`.
    refresh_failed: bool,
}

enum CacheLookup<T> {
    Fresh(Result<Arc<T>, OAuthError>),
    Stale(Arc<T>),
    Missing,
}

impl<T> CachedDocument<T> {
    pub fn new(stage: Stage, parse: impl Fn(&[u8]) -> Result<T, InvalidResponse> + Send + Sync + 'static) -> Self {
        CachedDocument {
            stage,
            parse: Box::new(parse),
            entry: Mutex::new(None),
            fetch_lock: tokio::sync::Mutex::new(()),
        }
    }

    pub async fn get(&self, client: &EndpointClient, url: &Url) -> Result<Arc<T>, OAuthError> {
        match self.lookup(url, client.clock.now()) {
            CacheLookup::Fresh(result) => result,
            CacheLookup::Stale(cached) => match self.fetch_lock.try_lock() {
                Ok(_guard) => self.fetch(client, url, Some(cached)).await,
                Err(_) => Ok(cached),
            },
            CacheLookup::Missing => {
                let _guard = self.fetch_lock.lock().await;
                match self.lookup(url, client.clock.now()) {
                    CacheLookup::Fresh(result) => result,
                    CacheLookup::Stale(cached) => Ok(cached),
                    CacheLookup::Missing => self.fetch(client, url, None).await,
                }
            }
        }
    }

    /// Replaces the copy `current`, for example because a token names an unknown key. Returns the cached copy without a
    /// fetch if another task has replaced `current`, or if a refresh has just failed.
    pub async fn refresh(&self, client: &EndpointClient, url: &Url, current: &Arc<T>) -> Result<Arc<T>, OAuthError> {
        let _guard = self.fetch_lock.lock().await;
        let refresh_failed = self.entry.lock().as_ref().is_some_and(|entry| entry.refresh_failed);
        match self.lookup(url, client.clock.now()) {
            CacheLookup::Fresh(Ok(cached)) if refresh_failed || !Arc::ptr_eq(&cached, current) => Ok(cached),
            _ => self.fetch(client, url, Some(Arc::clone(current))).await,
        }
    }

    fn lookup(&self, url: &Url, now: Timestamp) -> CacheLookup<T> {
        match &*self.entry.lock() {
            Some(entry) if entry.url != *url => CacheLookup::Missing,
            Some(CacheEntry { result, expires_at, .. }) if now < *expires_at => CacheLookup::Fresh(result.clone()),
            Some(CacheEntry { result: Ok(cached), .. }) => CacheLookup::Stale(Arc::clone(cached)),
            _ => CacheLookup::Missing,
        }
    }

    async fn fetch(&self, client: &EndpointClient, url: &Url, stale: Option<Arc<T>>) -> Result<Arc<T>, OAuthError> {
        // Boxed to keep the future small: fetching is rare.
        let response = Box::pin(client.get(self.stage, url)).await;
        let now = client.clock.now();
        let parsed = response.and_then(|response| {
            let value =
                (self.parse)(&response.body).map_err(|reason| OAuthError::invalid_response(self.stage, reason))?;
            Ok((Arc::new(value), parse_ttl(&response.headers, now)))
        });
        let refresh_failed = parsed.is_err();
        let (result, entry, ttl) = match (parsed, stale) {
            (Ok((value, ttl)), _) => (Ok(Arc::clone(&value)), Ok(value), ttl),
            (Err(error), Some(stale)) => {
                let (connector, stage, cause) = (&*client.connector, error.stage.into_str(), error.cause);
                tracing::warn!(
                    connector,
                    stage,
                    ?cause,
                    "failed to refresh an operator document; using the cached copy"
                );
                (Ok(Arc::clone(&stale)), Ok(stale), RETRY_PAUSE)
            }
            (Err(error), None) => {
                let shared = error.to_shared();
                (Err(error), Err(shared), RETRY_PAUSE)
            }
        };
        let expires_at = now.checked_add(ttl).unwrap_or(Timestamp::MAX);
        *self.entry.lock() = Some(CacheEntry { url: url.clone(), result: entry, expires_at, refresh_failed });
        result
    }
}

/// Returns the cache lifetime that the response headers set, within the limits.
fn parse_ttl(headers: &HeaderMap, now: Timestamp) -> SignedDuration {
    let text = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()).map(str::to_ascii_lowercase);
    let control = text(headers.get(CACHE_CONTROL)).unwrap_or_default();
    let mut directives = control.split(',').map(str::trim);
    let requested = if directives.clone().any(|directive| matches!(directive, "no-store" | "no-cache")) {
        Some(SignedDuration::ZERO)
    } else if let Some(seconds) = directives.find_map(|directive| directive.strip_prefix("max-age=")) {
        let age = text(headers.get(AGE)).and_then(|age| age.parse().ok()).unwrap_or(0);
        let seconds: Option<i64> = seconds.trim_matches('"').parse().ok();
        seconds.map(|seconds| SignedDuration::from_secs(seconds.saturating_sub(age)))
    } else {
        parse_http_date(headers.get(EXPIRES)).map(|expiry| expiry.duration_since(now))
    };
    requested.unwrap_or(DEFAULT_TTL).clamp(MIN_TTL, MAX_TTL)
}

/// Parses `Retry-After`: seconds or a date.
pub(crate) fn parse_retry_after(headers: &HeaderMap, now: Timestamp) -> Option<SignedDuration> {
    let value = headers.get(RETRY_AFTER)?;
    let seconds = value.to_str().ok()?.trim().parse::<u32>().ok();
    let in_seconds = seconds.map(|seconds| SignedDuration::from_secs(i64::from(seconds)));
    in_seconds.or_else(|| parse_http_date(Some(value)).map(|at| at.duration_since(now).max(SignedDuration::ZERO)))
}

fn parse_http_date(value: Option<&HeaderValue>) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(value?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let parsed = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(parsed).collect()
    }

    #[test]
    fn cache_lifetime_follows_headers() {
        let now = "2026-11-15T09:00:00Z".parse().unwrap();
        for (lines, seconds) in [
            (&[][..], 3_600),
            (&[("cache-control", "public, max-age=600")], 600),
            (&[("cache-control", "Max-Age=600"), ("age", "100")], 500),
            (&[("cache-control", "max-age=\"60\"")], 60),
            (&[("cache-control", "max-age=0")], 10),
            (&[("cache-control", "max-age=-5")], 10),
            (&[("cache-control", "no-store, max-age=600")], 10),
            (&[("cache-control", "no-cache")], 10),
            (&[("cache-control", "max-age=99999999999")], 86_400),
            (&[("cache-control", "max-age=99999999999999999999")], 3_600),
            (&[("cache-control", "public")], 3_600),
            (&[("expires", "Sun, 15 Nov 2026 09:10:00 GMT")], 600),
            (&[("expires", "Sun, 15 Nov 2026 08:10:00 GMT")], 10),
            (&[("expires", "0")], 3_600),
            (&[("cache-control", "max-age=60"), ("expires", "Sun, 15 Nov 2026 09:10:00 GMT")], 60),
        ] {
            assert_eq!(parse_ttl(&headers(lines), now), SignedDuration::from_secs(seconds), "{lines:?}");
        }
    }

    #[test]
    fn retry_after_is_parsed() {
        let now = "2026-11-15T09:00:00Z".parse().unwrap();
        for (value, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 15 Nov 2026 09:02:00 GMT", Some(120)),
            ("Sun, 15 Nov 2026 08:02:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            let expected = seconds.map(SignedDuration::from_secs);
            assert_eq!(parse_retry_after(&headers(&[("retry-after", value)]), now), expected, "{value}");
        }
    }
}
