//! Checking a signature, and saying what is wrong with it.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::Timestamp;
use ringtrue_domain::tenancy::Mode;

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

/// The key and the date of a valid signature. The caller decides whether it accepts the key's mode and the date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub kid: String,
    pub mode: Mode,
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
    /// Why not, a [diagnosis](super::diagnosis) may tell.
    #[error("the signature does not fit the request")]
    Signature,
}

/// Checks a request against the keys that are published.
pub fn verify(request: &Request<'_>, keys: &[PublicKey]) -> Result<Verified, Rejection> {
    let covered = request.covered()?;
    let authorization = Authorization::parse(request.header("authorization")?)?;
    if authorization.algorithm != ALGORITHM {
        return Err(Rejection::Algorithm);
    }
    if authorization.headers != COMPONENTS {
        return Err(Rejection::Components);
    }
    let kid = authorization.key_id.to_owned();
    let Some(public) = keys.iter().find(|key| key.kid == kid) else { return Err(Rejection::UnknownKey(kid)) };
    if components(public).is_none() {
        return Err(Rejection::UnusableKey(kid));
    }
    check_digest(covered.digest, request.body)?;
    if !fits(public, &covered, &authorization.signature) {
        return Err(Rejection::Signature);
    }
    let date = read_date(covered.date).ok_or(Rejection::DateMalformed)?;
    Ok(Verified { kid, mode: public.mode, date, source: covered.source.to_owned() })
}

/// Whether a signature of this key covers this.
pub(super) fn fits(public: &PublicKey, covered: &Covered<'_>, signature: &[u8]) -> bool {
    let text = covered.signing_string();
    components(public).is_some_and(|key| key.verify(&RSA_PKCS1_2048_8192_SHA256, text.as_bytes(), signature).is_ok())
}

/// How long the signatures of a key are, in bytes.
pub(super) fn length(public: &PublicKey) -> Option<usize> {
    components(public).map(|key| key.n.len())
}

impl<'a> Request<'a> {
    /// What a signature of this request would have to cover.
    pub(super) fn covered(&self) -> Result<Covered<'a>, Rejection> {
        Ok(Covered {
            method: self.method,
            target: self.target,
            host: self.header("host")?,
            date: self.header("date")?,
            source: self.header(SOURCE_HEADER)?,
            digest: self.header("digest")?,
        })
    }

    /// The headers, with another value of this one.
    pub(super) fn with_header(&self, wanted: &str, value: &str) -> Vec<(String, String)> {
        let mut headers = self.headers.to_vec();
        for (_, old) in headers.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)) {
            value.clone_into(old);
        }
        headers
    }

    fn header(&self, wanted: &'static str) -> Result<&'a str, Rejection> {
        let mut values = self.values(wanted);
        let value = values.next().ok_or(Rejection::HeaderMissing(wanted))?;
        if values.next().is_some() { Err(Rejection::HeaderTwice(wanted)) } else { Ok(value) }
    }

    pub(super) fn values(&self, wanted: &'static str) -> impl Iterator<Item = &'a str> + use<'a> {
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

/// Masked: target and headers may carry a token.
impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({}, {} headers, {} bytes)", self.method, self.headers.len(), self.body.len())
    }
}
