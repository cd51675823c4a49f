//! Fetches public keys, verifies callback signatures, and explains why a signature is invalid.

use std::time::Duration;

use http::{HeaderMap, Method};
use jiff::Timestamp;
use ringtrue_callback_signature::{
    CallbackPublicKey, CallbackRequest, JwksError, VerifiedSignature,
    diagnosis::{self, ComparedLine, Diagnosis, DiagnosisContext, diagnose},
    parse_jwks,
};
use ringtrue_domain::tenancy::Mode;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use crate::{
    argument_values::SecureUrl,
    http::{HttpClient, HttpError},
};

/// Minimum interval between two key fetches, because callbacks with unknown key ids cause fetches.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(1);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The public keys of the server that sends the callbacks.
#[derive(Debug)]
pub(super) struct KeySet {
    url: SecureUrl,
    http: HttpClient,
    cache: Mutex<KeyCache>,
}

#[derive(Debug, Default)]
struct KeyCache {
    keys: Vec<CallbackPublicKey>,
    /// When the last fetch began, successful or not.
    last_attempt: Option<Instant>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum KeyFetchError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("unexpected status {0}")]
    Status(u16),
    #[error("the response is not UTF-8")]
    NotText,
    #[error(transparent)]
    Jwks(#[from] JwksError),
}

impl KeySet {
    pub(super) fn new(url: SecureUrl, http: HttpClient) -> Self {
        KeySet { url, http, cache: Mutex::default() }
    }

    pub(super) fn url(&self) -> &SecureUrl {
        &self.url
    }

    pub(super) async fn keys(&self) -> Vec<CallbackPublicKey> {
        self.cache.lock().await.keys.clone()
    }

    /// Fetches the keys again. Concurrent calls share one fetch. If the fetch fails, the cached keys are kept.
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
        let response =
            self.http.request(Method::GET, self.url.as_url(), HeaderMap::new(), vec![], FETCH_TIMEOUT).await?;
        if response.status != 200 {
            return Err(KeyFetchError::Status(response.status));
        }
        let text = std::str::from_utf8(&response.body).map_err(|_| KeyFetchError::NotText)?;
        Ok(parse_jwks(text)?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerificationError {
    /// Machine-readable name of the part that is invalid.
    pub part: &'static str,
    /// Explanation for people.
    pub reason: String,
    /// Signing string of the request as it arrived, to compare with the sender's. `None` if it does not help.
    pub expected_text: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct VerificationContext<'a> {
    pub keys: &'a [CallbackPublicKey],
    pub keys_url: &'a SecureUrl,
    pub now: Timestamp,
    /// `Sandbox` accepts callbacks for both live and sandbox checks.
    pub mode: Mode,
    /// Port on which the receiver listens. `None`: callbacks arrive over a connection to the server.
    pub port: Option<u16>,
}

pub(super) fn verify_callback(
    request: &CallbackRequest<'_>,
    context: &VerificationContext<'_>,
) -> Result<VerifiedSignature, VerificationError> {
    let VerificationContext { keys, now, mode, port, .. } = *context;
    let names = ["127.0.0.1", "localhost", "[::1]"];
    let hosts: Vec<_> = port.into_iter().flat_map(|port| names.map(|name| format!("{name}:{port}"))).collect();
    let evidence = DiagnosisContext { keys, retired: &[], mode, now, hosts: &hosts, targets: &[], sent: None };
    let Diagnosis { verdict, lines } = diagnose(request, &evidence);
    verdict.map_err(|flaw| {
        use diagnosis::FailureCause::{
            HostChanged, MethodChanged, ProductChanged, SandboxKey, TargetChanged, Unexplained, UnknownKey, UnusableKey,
        };
        let reason = match &flaw {
            UnknownKey(_) => format!("{flaw}: {}", describe_known_keys(context)),
            SandboxKey(_) => format!("{flaw}. For a sandbox project, use `--accept-sandbox`"),
            UnusableKey(_) => format!("{flaw}: the key set is {}", context.keys_url),
            other => other.to_string(),
        };
        let shows_signing_string = matches!(
            flaw,
            HostChanged { .. } | MethodChanged(_) | ProductChanged { .. } | TargetChanged { .. } | Unexplained
        );
        VerificationError {
            part: flaw.part(),
            reason,
            expected_text: shows_signing_string.then(|| signing_string(&lines)).flatten(),
        }
    })
}

/// Builds the signing string from the compared lines. Omits the last line, which describes the body digest and is not
/// part of the signing string.
fn signing_string(lines: &[ComparedLine]) -> Option<String> {
    let (_, covered) = lines.split_last()?;
    let line = |line: &ComparedLine| Some(format!("{}: {}", line.name, line.received.as_ref()?));
    Some(covered.iter().map(line).collect::<Option<Vec<_>>>()?.join("\n"))
}

fn describe_known_keys(context: &VerificationContext<'_>) -> String {
    let url = context.keys_url;
    if context.keys.is_empty() {
        return format!("no keys available from {url}; is the server running?");
    }
    let ids: Vec<&str> = context.keys.iter().map(|key| key.kid.as_str()).collect();
    format!("{url} has {}; did another server send this?", ids.join(", "))
}

pub(super) fn find_header<'a>(request: &CallbackRequest<'a>, wanted_name: &str) -> Option<&'a str> {
    let mut headers = request.headers.iter();
    headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted_name)).map(|(_, value)| value.as_str())
}
