//! Sources that look up the network of a number. Each queries one provider with that provider's protocol.
//!
//! The engine decides the order of sources and the lifetime of results. Sources log their errors, without the number,
//! and stop querying a failing provider for a while ([`SourceBreaker`]). HTTP sources share a [`LookupClient`].

pub mod enum_dns;
pub mod http_hlr;
pub mod telco_finder;

use std::{collections::BTreeSet, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::ErrorCode, network::NetworkId};
use ringtrue_engine::ports::{
    clock::Clock,
    lookups::{LookupError, LookupResult},
};
use serde_json::Value;
use url::Url;

pub use ringtrue_engine::jwt::Algorithm;

pub use crate::{
    breaker::BreakerSettings,
    jwt::{SigningKey, SigningKeyError},
    oauth::{Audience, ClientAuthentication, ClientSecret},
};
use crate::{
    breaker::{Breaker, CallOutcome},
    client::{Client, ClientError, ClientResponse, accepting_json},
    oauth::parse_retry_after,
};
pub use enum_dns::{EnumConfig, EnumDns};
pub use http_hlr::{HlrConfig, HttpHlr};
pub use telco_finder::{TelcoFinder, TelcoFinderConfig};

/// The configured networks, to which MCC and MNC from lookup sources are resolved.
///
/// An MCC has three digits. An MNC has two or three, and `02` differs from `002`. Lookup sources confuse the two forms:
/// host names always use three digits, and some programs drop a leading zero. If the given form is unknown and the
/// other form is known, the known form is used. An MNC of one digit is invalid: it could stand for two codes.
#[derive(Clone, Debug, Default)]
pub struct KnownNetworks(Arc<BTreeSet<NetworkId>>);

impl FromIterator<NetworkId> for KnownNetworks {
    fn from_iter<I: IntoIterator<Item = NetworkId>>(ids: I) -> Self {
        KnownNetworks(Arc::new(ids.into_iter().collect()))
    }
}

impl KnownNetworks {
    /// Returns the network with this MCC and MNC. `None`: they are invalid.
    pub fn network_id_from_mcc_mnc(&self, mcc: &str, mnc: &str) -> Option<NetworkId> {
        let (mcc, mnc) = (mcc.trim(), mnc.trim());
        let are_digits = mcc.bytes().chain(mnc.bytes()).all(|byte| byte.is_ascii_digit());
        if is_zero_plmn(mcc) || !are_digits || mcc.len() != 3 || !(2..=3).contains(&mnc.len()) {
            return None;
        }
        let given: NetworkId = format!("{mcc}{mnc}").parse().ok()?;
        if self.0.contains(&given) {
            return Some(given);
        }
        let alternative = match mnc.len() {
            3 => mnc.strip_prefix('0').map(str::to_owned),
            _ => Some(format!("0{mnc}")),
        };
        let alternative = alternative.and_then(|mnc| format!("{mcc}{mnc}").parse().ok());
        Some(alternative.filter(|alternative| self.0.contains(alternative)).unwrap_or(given))
    }

    pub fn contains(&self, id: &NetworkId) -> bool {
        self.0.contains(id)
    }

    /// Returns the network whose MCC and MNC are given in one string. `None`: they are invalid.
    pub fn network_id_from_plmn(&self, plmn: &str) -> Option<NetworkId> {
        let (mcc, mnc) = plmn.trim().split_at_checked(3)?;
        self.network_id_from_mcc_mnc(mcc, mnc)
    }
}

/// Whether the MCC is zero, which some sources send for "no network".
fn is_zero_plmn(plmn: &str) -> bool {
    plmn.trim().bytes().take(3).all(|digit| digit == b'0')
}

/// Error of a failed lookup, with its effect on the circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SourceError {
    kind: LookupError,
    /// How the circuit breaker counts the error.
    outcome: CallOutcome,
    /// HTTP status, if there was a response.
    status: Option<u16>,
    /// Pause that the source requests with `Retry-After`.
    retry_after: Option<SignedDuration>,
}

impl SourceError {
    fn new(kind: LookupError, outcome: CallOutcome) -> Self {
        SourceError { kind, outcome, status: None, retry_after: None }
    }

    /// Returns the error for another caller that waited for the same request. The breaker does not count it again.
    fn without_counting(self) -> Self {
        SourceError { outcome: CallOutcome::Inconclusive, retry_after: None, ..self }
    }

    /// Creates the error of a lookup that got a response.
    fn from_response(kind: LookupError) -> Self {
        // A refusal may concern only this number, so the breaker does not count it as a failure. An invalid response
        // concerns all numbers.
        let outcome =
            if kind == LookupError::InvalidResponse { CallOutcome::Failure } else { CallOutcome::Inconclusive };
        SourceError::new(kind, outcome)
    }
}

/// Circuit breaker and error logging around the lookups of a source.
#[derive(derive_more::Debug)]
#[debug("SourceBreaker({name})")]
struct SourceBreaker {
    name: Arc<str>,
    breaker: Breaker,
    clock: Arc<dyn Clock>,
}

impl SourceBreaker {
    fn new(name: Arc<str>, settings: BreakerSettings, clock: Arc<dyn Clock>) -> Self {
        SourceBreaker { name, breaker: Breaker::new(settings), clock }
    }

    /// Runs the lookup, unless the breaker is open.
    async fn run(
        &self,
        lookup: impl Future<Output = Result<LookupResult, SourceError>> + Send,
    ) -> Result<LookupResult, LookupError> {
        self.breaker.allow_call(self.clock.now()).map_err(|code| match code {
            ErrorCode::MnoTimeout => LookupError::Timeout,
            _ => LookupError::Refused,
        })?;
        let mut pending = LookupTimeoutGuard { source: self, is_finished: false };
        let result = lookup.await;
        pending.is_finished = true;
        let (outcome, retry_after) = match &result {
            Ok(_) => (CallOutcome::Success, None),
            Err(error) => (error.outcome, error.retry_after),
        };
        self.breaker.record_outcome(outcome, retry_after, self.clock.now());
        result.map_err(|error| self.log_error(error))
    }

    fn log_error(&self, SourceError { kind: error, outcome, status, .. }: SourceError) -> LookupError {
        let source = &*self.name;
        if outcome == CallOutcome::Rejected {
            tracing::error!(source, status, %error, "lookup source rejected our credentials or configuration");
        } else {
            tracing::warn!(source, status, %error, "number lookup failed");
        }
        error
    }
}

/// Guard of a pending lookup. If the engine drops the lookup at its deadline, the breaker counts a timeout.
struct LookupTimeoutGuard<'a> {
    source: &'a SourceBreaker,
    is_finished: bool,
}

impl Drop for LookupTimeoutGuard<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.source.breaker.record_outcome(CallOutcome::Timeout, None, self.source.clock.now());
        }
    }
}

/// HTTP request to a lookup provider. No `Debug`: it contains a number and credentials.
#[derive(Clone)]
struct LookupRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl LookupRequest {
    fn get(url: Url) -> Self {
        LookupRequest { method: Method::GET, url, headers: HeaderMap::new(), body: Vec::new() }
    }

    fn post_json(url: Url, body: &Value) -> Self {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
        LookupRequest { method: Method::POST, url, headers, body: body.to_string().into_bytes() }
    }
}

struct LookupResponse {
    status: u16,
    json: Value,
}

/// HTTP client for lookup sources; converts failures to [`SourceError`].
struct LookupClient {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
}

impl LookupClient {
    /// Sends a request, with one retry after a transient error, because lookups are idempotent. Accepts status 200 and
    /// `accepted_statuses`.
    async fn send(&self, request: LookupRequest, accepted_statuses: &[u16]) -> Result<LookupResponse, SourceError> {
        let LookupRequest { method, url, headers, body } = request;
        let response = self.client.request_idempotent(method, &url, accepting_json(headers), body.into()).await;
        self.parse_response(response, accepted_statuses)
    }

    /// Sends a request that must not be repeated.
    async fn send_once(
        &self,
        request: LookupRequest,
        accepted_statuses: &[u16],
    ) -> Result<LookupResponse, SourceError> {
        let LookupRequest { method, url, headers, body } = request;
        let response = self.client.request(method, &url, accepting_json(headers), body).await;
        self.parse_response(response, accepted_statuses)
    }

    fn parse_response(
        &self,
        response: Result<ClientResponse, ClientError>,
        accepted_statuses: &[u16],
    ) -> Result<LookupResponse, SourceError> {
        let response = response.map_err(transport_error)?;
        if response.status != 200 && !accepted_statuses.contains(&response.status) {
            return Err(self.status_error(&response));
        }
        // Responses with an accepted status other than 200 may have no JSON body.
        let json = serde_json::from_slice(&response.body);
        let json =
            if response.status == 200 { json.map_err(|_| invalid_response())? } else { json.unwrap_or_default() };
        Ok(LookupResponse { status: response.status, json })
    }

    fn status_error(&self, response: &ClientResponse) -> SourceError {
        let (kind, outcome) = match response.status {
            401 | 402 | 403 | 407 => (LookupError::Refused, CallOutcome::Rejected),
            429 => (LookupError::Refused, CallOutcome::Throttled),
            408 | 504 => (LookupError::Timeout, CallOutcome::Timeout),
            500.. => (LookupError::Refused, CallOutcome::Failure),
            400.. => (LookupError::Refused, CallOutcome::Inconclusive),
            _ => (LookupError::InvalidResponse, CallOutcome::Failure),
        };
        let pause = parse_retry_after(&response.headers, self.clock.now());
        SourceError { status: Some(response.status), retry_after: pause, ..SourceError::new(kind, outcome) }
    }
}

fn transport_error(error: ClientError) -> SourceError {
    let (kind, outcome) = match error {
        ClientError::Timeout | ClientError::ConnectTimeout => (LookupError::Timeout, CallOutcome::Timeout),
        ClientError::Unresolved | ClientError::Refused | ClientError::Tls(_) | ClientError::Lost => {
            (LookupError::Unreachable, CallOutcome::Failure)
        }
        ClientError::TooLarge | ClientError::Protocol => (LookupError::InvalidResponse, CallOutcome::Failure),
        ClientError::InvalidUrl => (LookupError::Unreachable, CallOutcome::Rejected),
    };
    SourceError::new(kind, outcome)
}

fn invalid_response() -> SourceError {
    SourceError::from_response(LookupError::InvalidResponse)
}

/// Returns the text of a JSON scalar. `None`: a blank string, null, an array or an object.
fn scalar_text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(fact) => Some(fact.to_string()),
        _ => None,
    }
}

fn join_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnc_of_two_or_three_digits_resolves() {
        let known: KnownNetworks =
            ["26202", "310012", "310260", "23410"].into_iter().map(|id| id.parse().unwrap()).collect();
        for (mcc, mnc, id) in [
            ("262", "02", Some("26202")),
            ("262", "002", Some("26202")),
            ("262", "2", None),
            ("999", "9", None),
            ("310", "012", Some("310012")),
            ("310", "12", Some("310012")),
            ("310", "260", Some("310260")),
            ("234", "010", Some("23410")),
            (" 234 ", " 10", Some("23410")),
            // Networks that are not configured are returned as given.
            ("262", "07", Some("26207")),
            ("262", "007", Some("262007")),
            ("302", "720", Some("302720")),
            ("26", "202", None),
            ("2620", "2", None),
            ("262", "", None),
            ("262", "0002", None),
            ("262", "0x", None),
            ("262", "+1", None),
            ("", "02", None),
            ("000", "00", None),
            ("000", "10", None),
            ("２６２", "02", None),
        ] {
            assert_eq!(known.network_id_from_mcc_mnc(mcc, mnc).as_ref().map(NetworkId::as_str), id, "{mcc} {mnc}");
        }
        for (plmn, id) in [
            ("26202", Some("26202")),
            ("262002", Some("26202")),
            ("2622", None),
            ("310260", Some("310260")),
            ("262", None),
            ("26", None),
            ("é2602", None),
            ("2620002", None),
        ] {
            assert_eq!(known.network_id_from_plmn(plmn).as_ref().map(NetworkId::as_str), id, "{plmn}");
        }
    }
}
