//! The public keys that callbacks are checked by.

use std::{sync::Arc, time::Duration};

use ringtrue_engine::{
    callback::signature::{NotAJwks, read_jwks},
    keys::PublicKey,
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::{
    endpoint::Endpoint,
    exchange::{Answer, Unanswered, exchange},
};
use crate::cli::{caller::Upstream, failure::Failure};

/// Between two fetches, however many callbacks name keys that nobody knows.
const GAP: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Keys as they were published last.
#[derive(Debug)]
pub(super) struct KeySet {
    from: Endpoint,
    /// Whose it is, and who knows how to speak to that server.
    upstream: Option<Arc<Upstream>>,
    fetched: Mutex<Fetched>,
}

#[derive(Debug, Default)]
struct Fetched {
    keys: Vec<PublicKey>,
    /// When the last attempt began, whatever came of it.
    at: Option<Instant>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Unfetched {
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    #[error("{0}")]
    Upstream(Failure),
    #[error("the answer has status {0}")]
    Status(u16),
    #[error("the answer is not UTF-8")]
    NotText,
    #[error(transparent)]
    NotAJwks(#[from] NotAJwks),
}

impl KeySet {
    pub(super) fn new(from: Endpoint) -> Self {
        KeySet { from, upstream: None, fetched: Mutex::default() }
    }

    pub(super) fn of(upstream: Arc<Upstream>) -> Result<Self, Failure> {
        Ok(KeySet { from: upstream.jwks()?, upstream: Some(upstream), fetched: Mutex::default() })
    }

    pub(super) fn from(&self) -> &Endpoint {
        &self.from
    }

    pub(super) async fn keys(&self) -> Vec<PublicKey> {
        self.fetched.lock().await.keys.clone()
    }

    /// Fetches them again. Callers who ask at the same time share one fetch; an attempt that fails keeps what is there.
    pub(super) async fn fetch(&self) -> Result<Vec<PublicKey>, Unfetched> {
        let asked_at = Instant::now();
        let mut fetched = self.fetched.lock().await;
        if fetched.at.is_some_and(|at| at >= asked_at) {
            return Ok(fetched.keys.clone());
        }
        if let Some(at) = fetched.at {
            sleep_until(at + GAP).await;
        }
        fetched.at = Some(Instant::now());
        fetched.keys = self.download().await?;
        Ok(fetched.keys.clone())
    }

    async fn download(&self) -> Result<Vec<PublicKey>, Unfetched> {
        let answer = match &self.upstream {
            Some(upstream) => upstream.key_set().await.map_err(Unfetched::Upstream)?,
            None => self.ask().await?,
        };
        if answer.status != 200 {
            return Err(Unfetched::Status(answer.status));
        }
        let text = std::str::from_utf8(&answer.body).map_err(|_| Unfetched::NotText)?;
        Ok(read_jwks(text)?)
    }

    async fn ask(&self) -> Result<Answer, Unanswered> {
        let (target, host) = (self.from.target(), self.from.host());
        let agent = concat!("Ringtrue/", env!("CARGO_PKG_VERSION"));
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: {host}\r\naccept: application/json\r\nuser-agent: {agent}\r\n\
             connection: close\r\n\r\n"
        );
        exchange(&self.from, request.as_bytes(), PATIENCE).await
    }
}
