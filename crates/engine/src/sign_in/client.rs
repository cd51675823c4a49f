//! Clients that prove their identity by keys: client assertions (`private_key_jwt`, RFC 7523) and signed authorization
//! requests (RFC 9101).

use std::{collections::HashMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_domain::{
    camara::CamaraScopes,
    sign_in::{ClientAuthentication, Parameters, SignInSettings},
    tenancy::Credential,
    web_url::CallbackUrl,
};
use serde_json::{Map, Value};
use tokio::sync::Mutex as AsyncMutex;

use super::{Client, SignIns};
use crate::{
    jwt::{JwtError, KeySet},
    ports::{hashes::TokenHash, store::StoreError, transport::Transport},
    rate_limits::RateLimitState,
};

/// How far in the future an assertion may expire.
const MAX_ASSERTION_LIFETIME: i64 = 300;
const MAX_ASSERTION_SECONDS: f64 = 300.0;
/// How far in the future a request object may expire.
const MAX_REQUEST_LIFETIME: i64 = 3_600;
/// Tolerance for clients whose clock is not exact, in seconds.
const CLOCK_SKEW: i64 = 30;
const MAX_JTI_BYTES: usize = 256;
/// How long a fetched key set is used before it is fetched again.
const KEY_SET_AGE: SignedDuration = SignedDuration::from_mins(10);
/// Minimum time between two requests for the same key set, so that tokens with unknown keys cause few requests.
const MIN_FETCH_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
const MAX_CACHED_KEY_SETS: usize = 1_000;

/// Key sets that clients publish at a `jwks_uri`.
#[derive(derive_more::Debug)]
#[debug("ClientKeySets")]
pub struct ClientKeySets {
    transport: Arc<dyn Transport>,
    cached: Mutex<HashMap<String, Arc<AsyncMutex<Option<CachedKeySet>>>>>,
}

struct CachedKeySet {
    /// `None`: the last request failed.
    keys: Option<Arc<KeySet>>,
    fetched_at: Timestamp,
}

impl ClientKeySets {
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        ClientKeySets { transport, cached: Mutex::default() }
    }

    /// Returns the keys at a URL. With `is_stale`, they do not contain the key of a token, so they are fetched again
    /// unless they are very recent. `None`: the keys cannot be fetched. Concurrent calls wait for one request.
    async fn get(&self, url: &CallbackUrl, now: Timestamp, is_stale: bool) -> Option<Arc<KeySet>> {
        let entry = {
            let mut cached = self.cached.lock();
            if cached.len() >= MAX_CACHED_KEY_SETS && !cached.contains_key(url.as_str()) {
                cached.clear();
            }
            Arc::clone(cached.entry(url.as_str().to_owned()).or_default())
        };
        let mut entry = entry.lock().await;
        if let Some(CachedKeySet { keys, fetched_at }) = &*entry {
            let max_age = if is_stale || keys.is_none() { MIN_FETCH_INTERVAL } else { KEY_SET_AGE };
            if now.duration_since(*fetched_at) < max_age {
                return keys.clone();
            }
        }
        let response = self.transport.get(url).await.ok().filter(|response| response.status == 200);
        let keys = response.and_then(|response| KeySet::parse(&response.body)).filter(KeySet::is_usable);
        // Keys that cannot be fetched at the moment are still the client's keys.
        let keys = keys.map(Arc::new).or_else(|| entry.take().and_then(|cached| cached.keys));
        *entry = Some(CachedKeySet { keys: keys.clone(), fetched_at: now });
        keys
    }

    /// Returns the claims of a token that a key of the client has signed.
    pub(super) async fn verify(
        &self,
        settings: &SignInSettings,
        token: &str,
        now: Timestamp,
    ) -> Result<Map<String, Value>, AssertionError> {
        let invalid = |error: JwtError| AssertionError::Invalid(error.to_string());
        if let Some(jwks) = &settings.jwks {
            let keys = KeySet::parse(jwks.as_str().as_bytes()).ok_or(AssertionError::NoKeys)?;
            return keys.verify(token).map_err(invalid);
        }
        let url = settings.jwks_uri.as_ref().ok_or(AssertionError::NoKeys)?;
        let keys = self.get(url, now, false).await.ok_or(AssertionError::KeysUnavailable)?;
        match keys.verify(token) {
            Err(JwtError::UnknownKey) => {}
            verified => return verified.map_err(invalid),
        }
        let keys = self.get(url, now, true).await.ok_or(AssertionError::KeysUnavailable)?;
        keys.verify(token).map_err(invalid)
    }
}

/// Checks a key set that a project registers. The error says what is wrong.
pub fn check_client_keys(text: &str) -> Result<(), &'static str> {
    let document: Value = serde_json::from_str(text).map_err(|_| "the key set is not valid JSON")?;
    let keys = document.get("keys").and_then(Value::as_array).ok_or("the key set has no array `keys`")?;
    let is_private = |key: &Value| ["d", "k", "p", "q"].iter().any(|member| key.get(member).is_some());
    if keys.iter().any(is_private) {
        return Err("the key set contains a private or secret key; register the public keys only");
    }
    match KeySet::parse(text.as_bytes()) {
        Some(keys) if keys.is_usable() => Ok(()),
        _ => Err("the key set contains no RSA, P-256 or Ed25519 key"),
    }
}

/// Why a signed token of a client is rejected.
#[derive(Debug, thiserror::Error)]
pub enum AssertionError {
    #[error("the client has no keys: set `configuration.sign_in.jwks` or `jwks_uri`")]
    NoKeys,
    #[error("the client's keys at `jwks_uri` cannot be fetched")]
    KeysUnavailable,
    #[error("{0}")]
    Invalid(String),
    /// There is no such client, or it authenticates in another way.
    #[error("unknown client, or it does not authenticate by `private_key_jwt`")]
    UnknownClient,
    #[error("the `jti` was used before")]
    Replayed,
    #[error("rate limit of {} token requests per second exceeded", .0.limit)]
    RateLimited(RateLimitState),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignIns {
    /// Authenticates a client by a client assertion. `audiences` are the accepted values of `aud`: the issuer and the
    /// endpoint.
    pub async fn authenticate_by_assertion(
        &self,
        client_id: Option<&str>,
        assertion: &str,
        audiences: &[&str],
    ) -> Result<Arc<Credential>, AssertionError> {
        let now = self.context.now();
        let issuer = unverified_issuer(assertion).ok_or_else(|| invalid("malformed client assertion"))?;
        if client_id.is_some_and(|given| given != issuer) {
            return Err(invalid("`client_id` is not the `iss` of the client assertion"));
        }
        let client = self.find_client(&issuer, now).ok_or(AssertionError::UnknownClient)?;
        let settings = &client.project.configuration.sign_in;
        if !settings.accepts_authentication(ClientAuthentication::PrivateKeyJwt) {
            return Err(AssertionError::UnknownClient);
        }
        let claims = self.key_sets.verify(settings, assertion, now).await?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(&issuer) || text("sub") != Some(&issuer) {
            return Err(invalid("`iss` and `sub` of the client assertion must be the client id"));
        }
        check_audience(&claims, audiences)?;
        self.use_assertion(&claims, &issuer, now).await?;
        Ok(client.credential)
    }

    /// Verifies a JWT that a client presents as a grant for a user (RFC 7523, section 2.1). It also authenticates the
    /// client (CAMARA Security and Interoperability Profile, JWT Bearer Flow). Returns its claims.
    pub(crate) async fn verify_grant_assertion(
        &self,
        assertion: &str,
        now: Timestamp,
    ) -> Result<(Client, Map<String, Value>), AssertionError> {
        let issuer = unverified_issuer(assertion).ok_or_else(|| invalid("malformed assertion"))?;
        let client = self.find_client(&issuer, now).ok_or(AssertionError::UnknownClient)?;
        let settings = &client.project.configuration.sign_in;
        if !settings.accepts_authentication(ClientAuthentication::PrivateKeyJwt) {
            return Err(AssertionError::UnknownClient);
        }
        let claims = self.key_sets.verify(settings, assertion, now).await?;
        if claims.get("iss").and_then(Value::as_str) != Some(&issuer) {
            return Err(invalid("`iss` of the assertion must be the client id"));
        }
        require_claims(&claims, &["sub", "iat", "scope"])?;
        check_audience(&claims, &[&format!("{}/oauth2/token", self.context.settings.base_url)])?;
        let (id, workspace) = (&client.credential.client_id, client.project.workspace);
        let own = self.context.control_plane.rate_limit_overrides(workspace);
        let limit = self.rate_limiter.limit_client(id, workspace, &own, now);
        if !limit.admitted {
            return Err(AssertionError::RateLimited(limit));
        }
        self.use_assertion(&claims, &issuer, now).await?;
        Ok((client, claims))
    }

    /// Checks the times of an assertion, and records its use.
    async fn use_assertion(
        &self,
        claims: &Map<String, Value>,
        issuer: &str,
        now: Timestamp,
    ) -> Result<(), AssertionError> {
        let expires_at = check_times(claims, now, MAX_ASSERTION_LIFETIME)?;
        check_issued_at(claims)?;
        let jti = read_jti(claims)?;
        let hash = self.context.keyed_hash(&[b"client-assertion", issuer.as_bytes(), jti.as_bytes()])?;
        let kept_until = Timestamp::from_second(expires_at + CLOCK_SKEW).unwrap_or(Timestamp::MAX);
        let is_first_use = self.store.record_assertion(TokenHash(hash), kept_until).await?;
        if is_first_use { Ok(()) } else { Err(AssertionError::Replayed) }
    }

    /// Verifies a signed request, and returns its parameters. Its audience is the issuer, or one of the endpoints with
    /// these paths.
    pub(crate) async fn read_request_object(
        &self,
        client: &Client,
        token: &str,
        endpoints: &[&str],
        now: Timestamp,
    ) -> Result<Parameters, AssertionError> {
        let claims = self.key_sets.verify(&client.project.configuration.sign_in, token, now).await?;
        let client_id = client.credential.client_id.as_str();
        let is_own = |name: &str| claims.get(name).is_none_or(|value| value.as_str() == Some(client_id));
        if !is_own("iss") || !is_own("client_id") {
            return Err(invalid("`iss` and `client_id` of the request object must be the client id"));
        }
        let issuer = &self.context.settings.base_url;
        let endpoints: Vec<_> = endpoints.iter().map(|path| format!("{issuer}{path}")).collect();
        let audiences: Vec<_> = [issuer.as_str()].into_iter().chain(endpoints.iter().map(String::as_str)).collect();
        check_audience(&claims, &audiences)?;
        let scope = claims.get("scope").and_then(Value::as_str).unwrap_or_default();
        if self.context.settings.camara_enabled && CamaraScopes::are_requested(scope) {
            require_claims(&claims, &["iss", "iat"])?;
            read_jti(&claims)?;
            if claims.contains_key("sub") {
                // It could be used as a client assertion.
                return Err(invalid("the request object must not contain `sub`"));
            }
            check_times(&claims, now, MAX_ASSERTION_LIFETIME)?;
            check_issued_at(&claims)?;
        } else {
            check_times(&claims, now, MAX_REQUEST_LIFETIME)?;
        }
        let pairs = claims.into_iter().filter_map(|(name, value)| match value {
            // Claims of the token itself are not parameters.
            _ if ["iss", "aud", "exp", "iat", "nbf", "jti", "sub"].contains(&name.as_str()) => None,
            // A request object must not contain another one (RFC 9101, section 4).
            _ if ["request", "request_uri"].contains(&name.as_str()) => None,
            Value::String(text) => Some((name, text)),
            Value::Number(number) => Some((name, number.to_string())),
            _ => None,
        });
        Ok(Parameters::new(pairs))
    }
}

fn invalid(problem: &str) -> AssertionError {
    AssertionError::Invalid(problem.to_owned())
}

/// Reads the issuer of a token whose signature is not verified yet, to find the client whose keys verify it.
fn unverified_issuer(token: &str) -> Option<String> {
    use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims.get("iss")?.as_str().map(str::to_owned)
}

fn check_audience(claims: &Map<String, Value>, accepted: &[&str]) -> Result<(), AssertionError> {
    let is_accepted = |value: &Value| value.as_str().is_some_and(|audience| accepted.contains(&audience));
    let is_right = match claims.get("aud") {
        Some(Value::Array(audiences)) => audiences.iter().any(is_accepted),
        Some(audience) => is_accepted(audience),
        None => false,
    };
    if is_right { Ok(()) } else { Err(AssertionError::Invalid(format!("`aud` must be {}", accepted.join(" or ")))) }
}

fn read_jti(claims: &Map<String, Value>) -> Result<&str, AssertionError> {
    let jti = claims.get("jti").and_then(Value::as_str);
    let jti = jti.filter(|jti| !jti.is_empty() && jti.len() <= MAX_JTI_BYTES);
    jti.ok_or_else(|| invalid("the token needs a `jti` of 1 to 256 bytes"))
}

fn require_claims(claims: &Map<String, Value>, names: &[&str]) -> Result<(), AssertionError> {
    match names.iter().find(|name| !claims.contains_key(**name)) {
        Some(missing) => Err(AssertionError::Invalid(format!("the token needs `{missing}`"))),
        None => Ok(()),
    }
}

/// Checks that a token with `iat` expires soon after it was issued (CAMARA Security and Interoperability Profile).
fn check_issued_at(claims: &Map<String, Value>) -> Result<(), AssertionError> {
    let seconds = |name: &str| claims.get(name).and_then(Value::as_f64);
    match (seconds("iat"), seconds("exp")) {
        (Some(issued_at), Some(expires_at)) if expires_at - issued_at > MAX_ASSERTION_SECONDS => {
            let problem = format!("`exp` must be at most {MAX_ASSERTION_LIFETIME} seconds after `iat`");
            Err(AssertionError::Invalid(problem))
        }
        _ => Ok(()),
    }
}

/// Checks the times of a token, and returns when it expires, in seconds since 1970.
fn check_times(claims: &Map<String, Value>, now: Timestamp, max_lifetime: i64) -> Result<i64, AssertionError> {
    let now = now.as_second();
    #[expect(clippy::cast_possible_truncation, reason = "fractions of seconds do not matter, and the cast saturates")]
    let seconds = |name: &str| claims.get(name).map(|value| value.as_f64().map(|seconds| seconds as i64));
    let expires_at = seconds("exp").flatten().ok_or_else(|| invalid("the token needs `exp`"))?;
    if expires_at.saturating_add(CLOCK_SKEW) <= now {
        return Err(invalid("the token has expired"));
    }
    if expires_at > now + max_lifetime + CLOCK_SKEW {
        return Err(AssertionError::Invalid(format!("the token must expire within {max_lifetime} seconds")));
    }
    for name in ["nbf", "iat"] {
        match seconds(name) {
            None => {}
            Some(Some(at)) if at <= now + CLOCK_SKEW => {}
            Some(_) => return Err(AssertionError::Invalid(format!("`{name}` is in the future"))),
        }
    }
    Ok(expires_at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_bounded() {
        let now = Timestamp::from_second(1_000).unwrap();
        for (claims, is_valid) in [
            (json!({"exp": 1_300}), true),
            (json!({"exp": 1_330}), true),
            (json!({"exp": 1_331}), false),
            (json!({"exp": 971}), true),
            (json!({"exp": 970}), false),
            (json!({"exp": 1_100.5, "iat": 1_000, "nbf": 1_030}), true),
            (json!({"exp": 1_100, "iat": 1_031}), false),
            (json!({"exp": 1_100, "nbf": 1_031}), false),
            (json!({"exp": 1_100, "iat": "x"}), false),
            (json!({"exp": 1e300}), false),
            (json!({"exp": "1100"}), false),
            (json!({}), false),
        ] {
            assert_eq!(check_times(claims.as_object().unwrap(), now, 300).is_ok(), is_valid, "{claims}");
        }
    }

    #[test]
    fn audience_must_be_ours() {
        for (claims, is_valid) in [
            (json!({"aud": "https://op.example"}), true),
            (json!({"aud": ["x", "https://op.example/token"]}), true),
            (json!({"aud": "https://op.example/"}), false),
            (json!({"aud": []}), false),
            (json!({}), false),
        ] {
            let accepted = ["https://op.example", "https://op.example/token"];
            assert_eq!(check_audience(claims.as_object().unwrap(), &accepted).is_ok(), is_valid, "{claims}");
        }
    }

    #[test]
    fn registered_keys_are_public_and_usable() {
        let key = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        assert_eq!(check_client_keys(&json!({"keys": [key]}).to_string()), Ok(()));
        let mut private = key.clone();
        private["d"] = "x".into();
        for invalid in [json!({"keys": [private]}), json!({"keys": []}), json!({"keys": [{"kty": "XXX"}]}), json!({})] {
            assert!(check_client_keys(&invalid.to_string()).is_err(), "{invalid}");
        }
        assert!(check_client_keys("{").is_err());
    }
}
