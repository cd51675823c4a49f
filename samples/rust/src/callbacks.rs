//! Verifies callbacks of Ringtrue. Copy this file into your backend.

use std::{
    collections::HashMap,
    fmt,
    time::{Duration, Instant, SystemTime},
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use ring::{
    digest::{SHA256, digest as hash},
    signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents},
};
use serde_json::Value;

const COMPONENTS: &str = "(request-target) host date x-service-callback digest";
/// Maximum clock skew. A recorded callback can be replayed for this long; detect replays by the id.
const MAX_SKEW: Duration = Duration::from_secs(5 * 60);
/// Keys change rarely. Without an interval, any request with an unknown key id would cause a fetch.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(30);

/// A request as received.
pub struct Request<'a> {
    pub method: &'a str,
    /// Unmodified path and query of the request line.
    pub target: &'a str,
    pub headers: &'a [(String, String)],
    /// The raw bytes as received. Parsed and re-encoded JSON does not verify.
    pub body: &'a [u8],
}

pub enum VerifyError {
    Invalid(&'static str),
    /// The keys cannot be fetched; respond with 503, so that the callback is retried.
    KeysUnavailable(String),
}

use VerifyError::Invalid;

type Key = RsaPublicKeyComponents<Vec<u8>>;

/// The public keys at `/.well-known/jwks.json`, fetched again when a callback has an unknown key id.
pub struct KeySet {
    url: String,
    accept_sandbox: bool,
    /// Keys and their `use_mode`, by `kid`.
    keys: HashMap<String, (Key, Option<String>)>,
    fetched_at: Option<Instant>,
}

impl KeySet {
    /// `accept_sandbox` is for tests only: sandbox checks do not verify a number, and any sandbox project can use your
    /// URL.
    pub fn new(url: String, accept_sandbox: bool) -> Self {
        KeySet { url, accept_sandbox, keys: HashMap::new(), fetched_at: None }
    }

    fn find(&mut self, key_id: &str) -> Result<&Key, VerifyError> {
        let may_fetch = self.fetched_at.is_none_or(|at| at.elapsed() > MIN_FETCH_INTERVAL);
        if !self.keys.contains_key(key_id) && may_fetch {
            self.fetched_at = Some(Instant::now());
            self.fetch().map_err(|error| VerifyError::KeysUnavailable(error.to_string()))?;
        }
        let (key, use_mode) = self.keys.get(key_id).ok_or(Invalid("unknown key id"))?;
        match use_mode.as_deref() {
            None => Ok(key),
            Some("sandbox") if self.accept_sandbox => Ok(key),
            Some("sandbox") => Err(Invalid("the key is for sandbox checks only")),
            Some(_) => Err(Invalid("the key is for other checks only")),
        }
    }

    fn fetch(&mut self) -> Result<(), ureq::Error> {
        let set: Value = ureq::get(&self.url).call()?.body_mut().read_json()?;
        let keys = set["keys"].as_array().into_iter().flatten().filter(|jwk| jwk["kty"] == "RSA");
        let member = |jwk: &Value, name: &str| BASE64_URL_SAFE_NO_PAD.decode(jwk[name].as_str()?).ok();
        self.keys = keys
            .filter_map(|jwk| {
                let key = Key { n: member(jwk, "n")?, e: member(jwk, "e")? };
                let use_mode = jwk.get("use_mode").map(|mode| mode.as_str().unwrap_or_default().to_owned());
                Some((jwk["kid"].as_str()?.to_owned(), (key, use_mode)))
            })
            .collect();
        Ok(())
    }
}

/// Returns the verified callback. It can belong to a check of another client: reject a `check_id` that you did not
/// create.
///
/// `own_host` is the host of your callback URL, from your configuration. A callback for another receiver has a valid
/// signature, too, and could be replayed to you with its `Host` header.
pub fn verify(request: &Request<'_>, own_host: &str, key_set: &mut KeySet) -> Result<Value, VerifyError> {
    let (host, date) = (single_header(request, "host")?, single_header(request, "date")?);
    if !host.eq_ignore_ascii_case(own_host) {
        return Err(Invalid("the callback is for another host"));
    }
    let (source, digest) = (single_header(request, "x-service-callback")?, single_header(request, "digest")?);
    let [key_id, algorithm, headers, signature] = parse_authorization(single_header(request, "authorization")?)
        .ok_or(Invalid("malformed Authorization header"))?;
    if algorithm != "rsa-sha256" {
        return Err(Invalid("unsupported algorithm; expected rsa-sha256"));
    }
    if headers != COMPONENTS {
        return Err(Invalid("the signature does not cover the required headers"));
    }
    if digest != format!("SHA-256={}", BASE64_STANDARD.encode(hash(&SHA256, request.body))) {
        return Err(Invalid("digest mismatch: the body differs from the signed one"));
    }
    let signed = format!(
        "(request-target): {} {}\nhost: {host}\ndate: {date}\nx-service-callback: {source}\ndigest: {digest}",
        request.method.to_ascii_lowercase(),
        request.target,
    );
    let invalid_signature = Invalid("invalid signature");
    let Ok(signature) = BASE64_STANDARD.decode(signature) else { return Err(invalid_signature) };
    let key = key_set.find(key_id)?;
    if key.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature).is_err() {
        return Err(invalid_signature);
    }
    let at = httpdate::parse_http_date(date).map_err(|_| Invalid("invalid date"))?;
    let now = SystemTime::now();
    let skew = now.duration_since(at).or_else(|_| at.duration_since(now)).unwrap_or(Duration::MAX);
    if skew > MAX_SKEW {
        return Err(Invalid("the date differs too much from the current time"));
    }
    serde_json::from_slice(request.body).map_err(|_| Invalid("invalid JSON body"))
}

fn single_header<'a>(request: &Request<'a>, wanted: &str) -> Result<&'a str, VerifyError> {
    let mut values = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    match (values.next(), values.next()) {
        (Some((_, value)), None) => Ok(value),
        _ => Err(Invalid("a signed header is missing or repeated")),
    }
}

/// Parses `Signature name="value",…`, with each of the four parameters exactly once.
fn parse_authorization(value: &str) -> Option<[&str; 4]> {
    let mut found = [None; 4];
    for parameter in value.strip_prefix("Signature ")?.split(',') {
        let (name, value) = parameter.split_once("=\"")?;
        let at = ["keyId", "algorithm", "headers", "signature"].iter().position(|known| *known == name)?;
        let value = value.strip_suffix('"')?;
        if value.contains(['"', '\\']) || found[at].replace(value).is_some() {
            return None;
        }
    }
    let [Some(key_id), Some(algorithm), Some(headers), Some(signature)] = found else { return None };
    Some([key_id, algorithm, headers, signature])
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid(reason) => write!(f, "rejected: {reason}"),
            VerifyError::KeysUnavailable(error) => write!(f, "failed to fetch keys: {error}"),
        }
    }
}
