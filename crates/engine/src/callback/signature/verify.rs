//! Checking a signature, and saying what is wrong with it.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::Timestamp;

use super::{ALGORITHM, Authorization, COMPONENTS, Covered, InvalidAuthorization, SOURCE_HEADER, digest, read_date};
use crate::keys::PublicKey;

/// A request that claims to be a callback of ours, as it arrived.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    /// Path and query, as in the request line.
    pub target: &'a str,
    /// Names in any case.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

/// Whose signature it is, and when it was made. Whether that is recent enough is for the caller to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub kid: String,
    pub date: Timestamp,
    pub source: String,
}

/// Why a request is not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the header `{0}` is missing")]
    HeaderMissing(&'static str),
    #[error("the header `{0}` is there twice")]
    HeaderTwice(&'static str),
    #[error("the `Authorization` header is not one of ours: {0}")]
    Authorization(#[from] InvalidAuthorization),
    #[error("the algorithm is not `rsa-sha256`")]
    Algorithm,
    #[error("the signature does not cover `{COMPONENTS}`")]
    Components,
    #[error("the key set has no key with the id `{0}`")]
    UnknownKey(String),
    #[error("the key `{0}` in the key set is not an RSA key of at least 2048 bits")]
    UnusableKey(String),
    #[error("the `digest` header is not `SHA-256=` and 44 characters of base64")]
    DigestMalformed,
    #[error("the body is not the one that was signed: its SHA-256 is not that of the `digest` header")]
    BodyDiffers,
    #[error("the `date` header is not an IMF-fixdate")]
    DateMalformed,
    #[error("the signature does not fit the request{}", blame(*.altered))]
    Signature {
        /// The part that was changed on the way, if putting it back makes the signature fit.
        altered: Option<Part>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Method,
    Target,
    Host,
    Source,
}

fn blame(altered: Option<Part>) -> &'static str {
    match altered {
        None => "",
        Some(Part::Method) => ": the method is not the one that was signed, `POST`",
        Some(Part::Target) => ": the path or query is not the one that was signed; a proxy may rewrite it",
        Some(Part::Host) => ": the `host` is not the one that was signed; a proxy may replace it",
        Some(Part::Source) => ": the header `x-service-callback` is not the one that was signed",
    }
}

/// Checks a request against the keys that are published.
pub fn verify(request: &Request<'_>, keys: &[PublicKey]) -> Result<Verified, Rejection> {
    let covered = Covered {
        method: request.method,
        target: request.target,
        host: request.header("host")?,
        date: request.header("date")?,
        source: request.header(SOURCE_HEADER)?,
        digest: request.header("digest")?,
    };
    let authorization = Authorization::parse(request.header("authorization")?)?;
    if authorization.algorithm != ALGORITHM {
        return Err(Rejection::Algorithm);
    }
    if authorization.headers != COMPONENTS {
        return Err(Rejection::Components);
    }
    let kid = authorization.key_id.to_owned();
    let Some(public) = keys.iter().find(|key| key.kid == kid) else { return Err(Rejection::UnknownKey(kid)) };
    let Some(key) = components(public) else { return Err(Rejection::UnusableKey(kid)) };
    check_digest(covered.digest, request.body)?;

    let fits = |covered: &Covered<'_>| {
        let text = covered.signing_string();
        key.verify(&RSA_PKCS1_2048_8192_SHA256, text.as_bytes(), &authorization.signature).is_ok()
    };
    if !fits(&covered) {
        return Err(Rejection::Signature { altered: altered_part(request, &covered, fits) });
    }
    let date = read_date(covered.date).ok_or(Rejection::DateMalformed)?;
    Ok(Verified { kid, date, source: covered.source.to_owned() })
}

impl<'a> Request<'a> {
    fn header(&self, wanted: &'static str) -> Result<&'a str, Rejection> {
        let mut values = self.values(wanted);
        let value = values.next().ok_or(Rejection::HeaderMissing(wanted))?;
        if values.next().is_some() { Err(Rejection::HeaderTwice(wanted)) } else { Ok(value) }
    }

    fn values(&self, wanted: &'static str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
    }
}

fn components(public: &PublicKey) -> Option<RsaPublicKeyComponents<Vec<u8>>> {
    const SHORTEST_MODULUS: usize = 2_048 / 8;
    let n = BASE64_URL_SAFE_NO_PAD.decode(&public.n).ok()?;
    let e = BASE64_URL_SAFE_NO_PAD.decode(&public.e).ok()?;
    (n.len() >= SHORTEST_MODULUS).then_some(RsaPublicKeyComponents { n, e })
}

fn check_digest(header: &str, body: &[u8]) -> Result<(), Rejection> {
    let actual = digest(body);
    if header == actual {
        return Ok(());
    }
    let has_the_form = header.len() == actual.len()
        && header.starts_with("SHA-256=")
        && header.ends_with('=')
        && header["SHA-256=".len()..].bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    Err(if has_the_form { Rejection::BodyDiffers } else { Rejection::DigestMalformed })
}

/// Puts back, one by one, what frameworks and proxies are known to change, and sees whether the signature fits then.
fn altered_part(request: &Request<'_>, seen: &Covered<'_>, fits: impl Fn(&Covered<'_>) -> bool) -> Option<Part> {
    if fits(&Covered { method: "post", ..*seen }) {
        return Some(Part::Method);
    }
    let forwarded = request.values("x-forwarded-host").map(str::to_owned);
    let mut hosts = vec![seen.host.to_ascii_lowercase()];
    hosts.extend(seen.host.rsplit_once(':').map(|(name, _)| name.to_owned()));
    hosts.extend(forwarded);
    if hosts.iter().any(|host| fits(&Covered { host, ..*seen })) {
        return Some(Part::Host);
    }
    let (path, query) = seen.target.split_once('?').map_or((seen.target, None), |(path, query)| (path, Some(query)));
    let with_query = |path: &str| query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let mut targets = vec![path.to_owned(), format!("{path}?"), with_query(&format!("{path}/"))];
    targets.extend(path.strip_suffix('/').map(with_query));
    targets.extend(request.values("x-original-uri").map(str::to_owned));
    targets.extend(request.values("x-forwarded-uri").map(str::to_owned));
    targets.extend(request.values("x-forwarded-prefix").map(|prefix| format!("{prefix}{}", seen.target)));
    if targets.iter().any(|target| fits(&Covered { target, ..*seen })) {
        return Some(Part::Target);
    }
    let sources = ["reverse_sms", "secure_sna", "discovery"];
    sources.iter().any(|source| fits(&Covered { source, ..*seen })).then_some(Part::Source)
}

/// Masked: target and headers may carry a token.
impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({}, {} headers, {} bytes)", self.method, self.headers.len(), self.body.len())
    }
}
