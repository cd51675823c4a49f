//! Verifies that a callback was sent by Ringtrue. Copy this file into your backend.

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
/// How far the two clocks may be apart. Whoever records a callback can replay it for this long: `check_id` tells.
const MAX_SKEW: Duration = Duration::from_secs(5 * 60);
/// Keys change seldom. Without a pause, anybody could make us ask for them with every request.
const PAUSE_BETWEEN_FETCHES: Duration = Duration::from_secs(30);

/// A request as it arrived.
pub struct Request<'a> {
    pub method: &'a str,
    /// Path and query as in the request line.
    pub target: &'a str,
    pub headers: &'a [(String, String)],
    /// The bytes as they came. JSON that was parsed and written again is not the same.
    pub body: &'a [u8],
}

pub enum Unverified {
    /// The request is not to be trusted.
    Refused(&'static str),
    /// The keys cannot be had now; let it come again.
    NoKeys(String),
}

use Unverified::Refused;

type Key = RsaPublicKeyComponents<Vec<u8>>;

/// The public keys at `/.well-known/jwks.json`, fetched again when a callback names one that is not known.
pub struct KeySet {
    url: String,
    accept_sandbox: bool,
    /// By `kid`, with the `use_mode` of those that have one.
    keys: HashMap<String, (Key, Option<String>)>,
    fetched_at: Option<Instant>,
}

impl KeySet {
    /// `accept_sandbox` is for tests: sandbox checks prove nothing about a number, and anybody's sandbox project can name
    /// your URL.
    pub fn new(url: String, accept_sandbox: bool) -> Self {
        KeySet { url, accept_sandbox, keys: HashMap::new(), fetched_at: None }
    }

    fn find(&mut self, key_id: &str) -> Result<&Key, Unverified> {
        let may_fetch = self.fetched_at.is_none_or(|at| at.elapsed() > PAUSE_BETWEEN_FETCHES);
        if !self.keys.contains_key(key_id) && may_fetch {
            self.fetched_at = Some(Instant::now());
            self.fetch().map_err(|error| Unverified::NoKeys(error.to_string()))?;
        }
        let (key, use_mode) = self.keys.get(key_id).ok_or(Refused("the key is not in the key set"))?;
        match use_mode.as_deref() {
            None => Ok(key),
            Some("sandbox") if self.accept_sandbox => Ok(key),
            Some("sandbox") => Err(Refused("the key is for sandbox checks only")),
            Some(_) => Err(Refused("the key is for other checks only")),
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

/// Answers what is in the callback. A valid one can still be about somebody else's check: refuse a `check_id` that you
/// did not create.
pub fn verify(request: &Request<'_>, key_set: &mut KeySet) -> Result<Value, Unverified> {
    let (host, date) = (only(request, "host")?, only(request, "date")?);
    let (source, digest) = (only(request, "x-service-callback")?, only(request, "digest")?);
    let [key_id, algorithm, headers, signature] = read_authorization(only(request, "authorization")?)
        .ok_or(Refused("the Authorization header is not a signature of Ringtrue's"))?;
    if algorithm != "rsa-sha256" {
        return Err(Refused("another algorithm than rsa-sha256"));
    }
    if headers != COMPONENTS {
        return Err(Refused("the signature does not cover what it must"));
    }
    if digest != format!("SHA-256={}", BASE64_STANDARD.encode(hash(&SHA256, request.body))) {
        return Err(Refused("the body is not the one that was signed"));
    }
    let signed = format!(
        "(request-target): {} {}\nhost: {host}\ndate: {date}\nx-service-callback: {source}\ndigest: {digest}",
        request.method.to_ascii_lowercase(),
        request.target,
    );
    let does_not_fit = Refused("the signature does not fit the request");
    let Ok(signature) = BASE64_STANDARD.decode(signature) else { return Err(does_not_fit) };
    let key = key_set.find(key_id)?;
    if key.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature).is_err() {
        return Err(does_not_fit);
    }
    let at = httpdate::parse_http_date(date).map_err(|_| Refused("the date is none"))?;
    let now = SystemTime::now();
    let skew = now.duration_since(at).or_else(|_| at.duration_since(now)).unwrap_or(Duration::MAX);
    if skew > MAX_SKEW {
        return Err(Refused("the date is too far from now"));
    }
    serde_json::from_slice(request.body).map_err(|_| Refused("the body is not JSON"))
}

fn only<'a>(request: &Request<'a>, wanted: &str) -> Result<&'a str, Unverified> {
    let mut values = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    match (values.next(), values.next()) {
        (Some((_, value)), None) => Ok(value),
        _ => Err(Refused("a header that must be signed is missing, or there twice")),
    }
}

/// `Signature name="value",…` with each of the four parameters once.
fn read_authorization(value: &str) -> Option<[&str; 4]> {
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

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused(why) => write!(f, "refused: {why}"),
            Unverified::NoKeys(why) => write!(f, "the keys cannot be fetched: {why}"),
        }
    }
}
