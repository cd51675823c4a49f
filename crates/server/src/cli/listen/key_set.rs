//! Public keys that verify callbacks.

use std::{sync::Arc, time::Duration};

use ringtrue_engine::{
    callback::signature::{JwksError, parse_jwks},
    keys::CallbackPublicKey,
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::{
    http_client::{HttpClientError, HttpResponse, send_request},
    secure_url::SecureUrl,
};
use crate::cli::{client::Upstream, error::CliError};

/// Bounds the fetches that callbacks with unknown key ids can cause.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(1);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct KeySet {
    url: SecureUrl,
    /// Client for the server of a profile, which may need extra CA certificates.
    upstream: Option<Arc<Upstream>>,
    cache: Mutex<KeyCache>,
}

#[derive(Debug, Default)]
struct KeyCache {
    keys: Vec<CallbackPublicKey>,
    /// Start of the last attempt, successful or not.
    last_attempt: Option<Instant>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum KeyFetchError {
    #[error(transparent)]
    Http(#[from] HttpClientError),
    #[error("{0}")]
    Upstream(CliError),
    #[error("unexpected status {0}")]
    Status(u16),
    #[error("the response is not UTF-8")]
    NotText,
    #[error(transparent)]
    JwksError(#[from] JwksError),
}

impl KeySet {
    pub(super) fn new(url: SecureUrl) -> Self {
        KeySet { url, upstream: None, cache: Mutex::default() }
    }

    pub(super) fn for_upstream(upstream: Arc<Upstream>) -> Result<Self, CliError> {
        Ok(KeySet { url: upstream.jwks_url()?, upstream: Some(upstream), cache: Mutex::default() })
    }

    pub(super) fn url(&self) -> &SecureUrl {
        &self.url
    }

    pub(super) async fn keys(&self) -> Vec<CallbackPublicKey> {
        self.cache.lock().await.keys.clone()
    }

    /// Fetches the keys again. Concurrent calls share one fetch; a failed fetch keeps the current keys.
    pub(super) async fn fetch(&self) -> Result<Vec<CallbackPublicKey>, KeyFetchError> {
        let requested_at = Instant::now();
        let mut cache = self.cache.lock().await;
        if cache.last_attempt.is_some_and(|at| at >= requested_at) {
            return Ok(cache.keys.clone());
        }
        if let Some(at) = cache.last_attempt {
            sleep_until(at + MIN_FETCH_INTERVAL).await;
        }
        cache.last_attempt = Some(Instant::now());
        cache.keys = self.download().await?;
        Ok(cache.keys.clone())
    }

    async fn download(&self) -> Result<Vec<CallbackPublicKey>, KeyFetchError> {
        let response = match &self.upstream {
            Some(upstream) => upstream.fetch_key_set().await.map_err(KeyFetchError::Upstream)?,
            None => self.request_keys().await?,
        };
        if response.status != 200 {
            return Err(KeyFetchError::Status(response.status));
        }
        let text = std::str::from_utf8(&response.body).map_err(|_| KeyFetchError::NotText)?;
        Ok(parse_jwks(text)?)
    }

    async fn request_keys(&self) -> Result<HttpResponse, HttpClientError> {
        let (target, host) = (self.url.request_target(), self.url.host_header());
        let agent = concat!("Ringtrue/", env!("CARGO_PKG_VERSION"));
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: {host}\r\naccept: application/json\r\nuser-agent: {agent}\r\n\
             connection: close\r\n\r\n"
        );
        send_request(&self.url, request.as_bytes(), FETCH_TIMEOUT).await
    }
}
