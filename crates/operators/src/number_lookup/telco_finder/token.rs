//! The token that we show (client credentials, RFC 6749), kept until shortly before its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::Entropy;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::{TelcoFinderConfig, unauthenticated};
use crate::{
    authentication::{Introduction, bearer},
    number_lookup::{
        asking::{Asking, Request, nonsense, text},
        guard::Fault,
    },
};

/// How long a token is good that does not say so.
const USUALLY_GOOD_FOR: i64 = 300;
/// A token is renewed when a fifth of its time is left, or a minute: it must outlive the question that it goes with.
const FIFTH: i64 = 5;
const MINUTE: i64 = 60;
/// No token is believed to be good for longer.
const LONGEST: i64 = 24 * 3_600;

/// Nobody asks for a token while somebody else does.
pub struct TokenKeeper {
    entropy: Arc<dyn Entropy>,
    kept: Mutex<Option<Kept>>,
    asking: tokio::sync::Mutex<()>,
}

struct Kept {
    /// `Bearer …`, as it is sent.
    token: HeaderValue,
    until: Timestamp,
}

impl TokenKeeper {
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        TokenKeeper { entropy, kept: Mutex::new(None), asking: tokio::sync::Mutex::new(()) }
    }

    pub async fn token(&self, config: &TelcoFinderConfig, asking: &Asking) -> Result<HeaderValue, Fault> {
        if let Some(token) = self.good(asking.clock.now()) {
            return Ok(token);
        }
        let _turn = self.asking.lock().await;
        if let Some(token) = self.good(asking.clock.now()) {
            return Ok(token);
        }
        let kept = self.ask(config, asking).await?;
        let token = kept.token.clone();
        *self.kept() = Some(kept);
        Ok(token)
    }

    /// One that was not taken. Somebody else may have a newer one by now.
    pub fn forget(&self, refused: &HeaderValue) {
        let mut kept = self.kept();
        if kept.as_ref().is_some_and(|kept| kept.token == *refused) {
            *kept = None;
        }
    }

    fn good(&self, now: Timestamp) -> Option<HeaderValue> {
        self.kept().as_ref().filter(|kept| now < kept.until).map(|kept| kept.token.clone())
    }

    async fn ask(&self, config: &TelcoFinderConfig, asking: &Asking) -> Result<Kept, Fault> {
        let now = asking.clock.now();
        let request = self.request(config, now).ok_or_else(unauthenticated)?;
        // An assertion may be shown once: nothing is sent again.
        let told = asking.put_once(request, &[400]).await?;
        if told.status == 400 {
            return Err(Fault { status: Some(400), ..unauthenticated() });
        }
        let said = |name: &str| told.json.get(name).and_then(Value::as_str);
        let is_bearer = said("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
        let token = said("access_token").and_then(bearer).filter(|_| is_bearer).ok_or_else(nonsense)?;
        let seconds = text(told.json.get("expires_in")).and_then(|seconds| seconds.parse().ok());
        Ok(Kept { token, until: renewed_at(now, seconds.unwrap_or(USUALLY_GOOD_FOR)) })
    }

    /// `None`: it cannot be signed.
    fn request(&self, config: &TelcoFinderConfig, now: Timestamp) -> Option<Request> {
        let introduction = Introduction {
            client_id: &config.client_id,
            issuer: &config.issuer,
            endpoint: config.token_endpoint.as_str(),
            now,
        };
        let credentials = config.client_authentication.credentials(introduction, &*self.entropy)?;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(scope) = &config.scope {
            form.append_pair("scope", scope);
        }
        let (headers, body) = credentials.complete(form);
        Some(Request { method: Method::POST, url: config.token_endpoint.clone(), headers, body })
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn renewed_at(now: Timestamp, good_for: i64) -> Timestamp {
    let good_for = good_for.clamp(0, LONGEST);
    let kept_for = good_for - (good_for / FIFTH).min(MINUTE);
    now.checked_add(SignedDuration::from_secs(kept_for)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_its_end() {
        let now = Timestamp::UNIX_EPOCH;
        for (good_for, kept_for) in
            [(3_600, 3_540), (300, 240), (100, 80), (10, 8), (0, 0), (-5, 0), (i64::MAX, 86_340), (i64::MIN, 0)]
        {
            assert_eq!(renewed_at(now, good_for).as_second(), kept_for, "{good_for}");
        }
    }
}
