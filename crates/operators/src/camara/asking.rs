//! How the operator's endpoints are asked, and their documents kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, AGE, CACHE_CONTROL, EXPIRES, RETRY_AFTER},
};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use ringtrue_engine::ports::Clock;
use serde::Deserialize;
use url::Url;

use super::faults::{Fault, Nonsense, Stage, Symptom};
use crate::client::{Answer, Client, ClientError};

/// Statuses of gateways before a server that is not there for a moment.
const PASSING: [u16; 3] = [502, 503, 504];
/// How long a document is good that does not say so, and the bounds of what it may say.
const USUALLY_GOOD_FOR: SignedDuration = SignedDuration::from_hours(1);
const GOOD_FOR_AT_LEAST: SignedDuration = SignedDuration::from_secs(10);
const GOOD_FOR_AT_MOST: SignedDuration = SignedDuration::from_hours(24);
/// How long a document that could not be had is not asked for again.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

pub struct Asking {
    /// Whose questions they are, in logs.
    pub connector: Arc<str>,
    pub client: Arc<Client>,
    pub clock: Arc<dyn Clock>,
}

/// What an answer that is not a success may say of itself.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default, deserialize_with = "text_or_nothing")]
    error: Option<String>,
    #[serde(default, deserialize_with = "text_or_nothing")]
    code: Option<String>,
}

/// Some servers put other things there.
fn text_or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_str().map(str::to_owned))
}

impl Asking {
    pub async fn get(&self, stage: Stage, url: &Url) -> Result<Answer, Fault> {
        self.read(stage, Method::GET, url, HeaderMap::new, Bytes::new()).await
    }

    /// A request that changes nothing, whatever its method: made once more where that may help.
    pub async fn read(
        &self,
        stage: Stage,
        method: Method,
        url: &Url,
        headers: impl Fn() -> HeaderMap,
        body: Bytes,
    ) -> Result<Answer, Fault> {
        let mut is_first = true;
        loop {
            let answer = self.once(method.clone(), url, headers(), body.clone()).await;
            let may_pass = match &answer {
                Err(error) => error.may_pass(),
                Ok(answer) => PASSING.contains(&answer.status),
            };
            if !(may_pass && is_first) {
                return self.success(stage, answer);
            }
            is_first = false;
        }
    }

    /// A request that is made once, though it changes nothing.
    pub async fn get_once(&self, stage: Stage, url: &Url, headers: HeaderMap) -> Result<Answer, Fault> {
        let answer = self.once(Method::GET, url, headers, Bytes::new()).await;
        self.success(stage, answer)
    }

    /// A request that is made once.
    pub async fn post(&self, stage: Stage, url: &Url, headers: HeaderMap, body: Vec<u8>) -> Result<Answer, Fault> {
        let answer = self.once(Method::POST, url, headers, body.into()).await;
        self.success(stage, answer)
    }

    async fn once(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, ClientError> {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        self.client.request(method, url, headers, body).await
    }

    fn success(&self, stage: Stage, answer: Result<Answer, ClientError>) -> Result<Answer, Fault> {
        let answer = answer.map_err(|error| Fault::new(stage, Symptom::NoAnswer(error)))?;
        if answer.status == 200 {
            return Ok(answer);
        }
        let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
        let mut fault = Fault::of_answer(stage, answer.status, refusal.error.as_deref(), refusal.code.as_deref());
        fault.retry_after = retry_after(&answer.headers, self.clock.now());
        Err(fault)
    }
}

type Parse<T> = Box<dyn Fn(&[u8]) -> Result<T, Nonsense> + Send + Sync>;

/// A document of the operator's, kept for as long as it says. An old copy is better than none, and nobody asks for it
/// while somebody else does.
pub struct Document<T> {
    stage: Stage,
    parse: Parse<T>,
    kept: Mutex<Option<Kept<T>>>,
    asking: tokio::sync::Mutex<()>,
}

struct Kept<T> {
    url: Url,
    outcome: Result<Arc<T>, Fault>,
    until: Timestamp,
    /// It was asked for anew in vain, and is not asked for again until then.
    is_all_there_is: bool,
}

enum Found<T> {
    Fresh(Result<Arc<T>, Fault>),
    Old(Arc<T>),
    Nothing,
}

impl<T> Document<T> {
    pub fn new(stage: Stage, parse: impl Fn(&[u8]) -> Result<T, Nonsense> + Send + Sync + 'static) -> Self {
        Document { stage, parse: Box::new(parse), kept: Mutex::new(None), asking: tokio::sync::Mutex::new(()) }
    }

    pub async fn get(&self, asking: &Asking, url: &Url) -> Result<Arc<T>, Fault> {
        match self.look(url, asking.clock.now()) {
            Found::Fresh(outcome) => outcome,
            Found::Old(copy) => match self.asking.try_lock() {
                Ok(_turn) => self.ask(asking, url, Some(copy)).await,
                Err(_) => Ok(copy),
            },
            Found::Nothing => {
                let _turn = self.asking.lock().await;
                match self.look(url, asking.clock.now()) {
                    Found::Fresh(outcome) => outcome,
                    Found::Old(copy) => Ok(copy),
                    Found::Nothing => self.ask(asking, url, None).await,
                }
            }
        }
    }

    /// Another copy than this one, which lacks something.
    pub async fn newer(&self, asking: &Asking, url: &Url, than: &Arc<T>) -> Result<Arc<T>, Fault> {
        let _turn = self.asking.lock().await;
        let is_all_there_is = self.kept().as_ref().is_some_and(|kept| kept.is_all_there_is);
        match self.look(url, asking.clock.now()) {
            Found::Fresh(Ok(copy)) if is_all_there_is || !Arc::ptr_eq(&copy, than) => Ok(copy),
            _ => self.ask(asking, url, Some(Arc::clone(than))).await,
        }
    }

    fn look(&self, url: &Url, now: Timestamp) -> Found<T> {
        match &*self.kept() {
            Some(kept) if kept.url != *url => Found::Nothing,
            Some(Kept { outcome, until, .. }) if now < *until => Found::Fresh(outcome.clone()),
            Some(Kept { outcome: Ok(copy), .. }) => Found::Old(Arc::clone(copy)),
            _ => Found::Nothing,
        }
    }

    async fn ask(&self, asking: &Asking, url: &Url, old: Option<Arc<T>>) -> Result<Arc<T>, Fault> {
        // Seldom, and large: who finds a copy need not carry the room for asking along.
        let answer = Box::pin(asking.get(self.stage, url)).await;
        let now = asking.clock.now();
        let parsed = answer.and_then(|answer| {
            let value = (self.parse)(&answer.body).map_err(|what| Fault::nonsense(self.stage, what))?;
            Ok((Arc::new(value), good_for(&answer.headers, now)))
        });
        let is_all_there_is = parsed.is_err();
        let (outcome, kept, good_for) = match (parsed, old) {
            (Ok((value, good_for)), _) => (Ok(Arc::clone(&value)), Ok(value), good_for),
            (Err(fault), Some(old)) => {
                let (connector, stage, symptom) = (&*asking.connector, fault.stage.as_str(), fault.symptom());
                tracing::warn!(connector, stage, ?symptom, "an old copy of an operator's document is used");
                (Ok(Arc::clone(&old)), Ok(old), PAUSE)
            }
            (Err(fault), None) => (Err(fault), Err(fault.again()), PAUSE),
        };
        let until = now.checked_add(good_for).unwrap_or(Timestamp::MAX);
        *self.kept() = Some(Kept { url: url.clone(), outcome: kept, until, is_all_there_is });
        outcome
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long an answer may be kept, by its headers.
fn good_for(headers: &HeaderMap, now: Timestamp) -> SignedDuration {
    let text = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()).map(str::to_ascii_lowercase);
    let control = text(headers.get(CACHE_CONTROL)).unwrap_or_default();
    let mut directives = control.split(',').map(str::trim);
    let said = if directives.clone().any(|directive| matches!(directive, "no-store" | "no-cache")) {
        Some(SignedDuration::ZERO)
    } else if let Some(seconds) = directives.find_map(|directive| directive.strip_prefix("max-age=")) {
        let age = text(headers.get(AGE)).and_then(|age| age.parse().ok()).unwrap_or(0);
        let seconds: Option<i64> = seconds.trim_matches('"').parse().ok();
        seconds.map(|seconds| SignedDuration::from_secs(seconds.saturating_sub(age)))
    } else {
        date(headers.get(EXPIRES)).map(|until| until.duration_since(now))
    };
    said.unwrap_or(USUALLY_GOOD_FOR).clamp(GOOD_FOR_AT_LEAST, GOOD_FOR_AT_MOST)
}

/// In seconds, or as a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<SignedDuration> {
    let value = headers.get(RETRY_AFTER)?;
    let seconds = value.to_str().ok()?.trim().parse::<u32>().ok();
    let in_seconds = seconds.map(|seconds| SignedDuration::from_secs(i64::from(seconds)));
    in_seconds.or_else(|| date(Some(value)).map(|at| at.duration_since(now).max(SignedDuration::ZERO)))
}

fn date(value: Option<&HeaderValue>) -> Option<Timestamp> {
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
    fn a_document_says_how_long_it_is_good() {
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
            assert_eq!(good_for(&headers(lines), now), SignedDuration::from_secs(seconds), "{lines:?}");
        }
    }

    #[test]
    fn an_operator_says_when_to_come_back() {
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
            assert_eq!(retry_after(&headers(&[("retry-after", value)]), now), expected, "{value}");
        }
    }
}
