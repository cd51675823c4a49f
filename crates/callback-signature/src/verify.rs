//! Verifies signatures, and parses the `Authorization` header that contains them.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::Timestamp;
use ringtrue_domain::tenancy::Mode;

use super::{ALGORITHM, COMPONENTS, CallbackPublicKey, CoveredComponents, PRODUCT_HEADER, digest_header, parse_date};

/// A received callback request. Debug output hides target and headers, which may contain a token.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("CallbackRequest({method}, {} headers, {} bytes)", headers.len(), body.len())]
pub struct CallbackRequest<'a> {
    pub method: &'a str,
    /// Path and query, as in the request line.
    pub target: &'a str,
    /// Header names and values. The names are case-insensitive.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

/// A valid signature. The receiver must still check the key's mode and the date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSignature {
    pub kid: String,
    pub mode: Mode,
    pub date: Timestamp,
    pub product: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the header `{0}` is missing")]
    MissingHeader(&'static str),
    #[error("the header `{0}` occurs more than once")]
    DuplicateHeader(&'static str),
    #[error("invalid `Authorization` header: {0}")]
    InvalidAuthorization(#[from] InvalidAuthorization),
    #[error("unsupported algorithm: expected `rsa-sha256`")]
    UnsupportedAlgorithm,
    #[error("the signature must cover `{COMPONENTS}`")]
    UnexpectedComponents,
    #[error("the key set has no key with the id `{0}`")]
    UnknownKey(String),
    #[error("the key `{0}` in the key set is not an RSA key of at least 2048 bits")]
    UnusableKey(String),
    #[error("invalid `digest` header: expected `SHA-256=` and 44 base64 characters")]
    DigestMalformed,
    #[error("the body does not match the `digest` header")]
    BodyDiffers,
    #[error("invalid `date` header: expected an IMF-fixdate")]
    DateMalformed,
    /// The signature is invalid. [`diagnosis`](super::diagnosis) may explain why.
    #[error("invalid signature")]
    InvalidSignature,
}

/// Parsed parameters of the `Authorization` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization<'a> {
    pub key_id: &'a str,
    pub algorithm: &'a str,
    pub headers: &'a str,
    pub signature: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAuthorization {
    #[error("the scheme is not `Signature`")]
    Scheme,
    #[error("expected `name=\"value\"` parameters separated by commas without spaces")]
    Malformed,
    #[error("unknown parameter `{0}`")]
    UnknownParameter(String),
    #[error("duplicate parameter `{0}`")]
    DuplicateParameter(&'static str),
    #[error("missing parameter `{0}`")]
    MissingParameter(&'static str),
    #[error("the signature is not valid base64")]
    SignatureNotBase64,
}

const PARAMETERS: [&str; 4] = ["keyId", "algorithm", "headers", "signature"];

/// Verifies the signature of a request with the published keys.
pub fn verify(request: &CallbackRequest<'_>, keys: &[CallbackPublicKey]) -> Result<VerifiedSignature, SignatureError> {
    let covered = request.covered()?;
    let authorization = Authorization::parse(request.header("authorization")?)?;
    if authorization.algorithm != ALGORITHM {
        return Err(SignatureError::UnsupportedAlgorithm);
    }
    if authorization.headers != COMPONENTS {
        return Err(SignatureError::UnexpectedComponents);
    }
    let kid = authorization.key_id.to_owned();
    let Some(public) = keys.iter().find(|key| key.kid == kid) else { return Err(SignatureError::UnknownKey(kid)) };
    if rsa_components(public).is_none() {
        return Err(SignatureError::UnusableKey(kid));
    }
    check_digest(covered.digest, request.body)?;
    if !is_valid_signature(public, &covered, &authorization.signature) {
        return Err(SignatureError::InvalidSignature);
    }
    let date = parse_date(covered.date).ok_or(SignatureError::DateMalformed)?;
    Ok(VerifiedSignature { kid, mode: public.mode, date, product: covered.product.to_owned() })
}

pub(super) fn is_valid_signature(
    public: &CallbackPublicKey,
    covered: &CoveredComponents<'_>,
    signature: &[u8],
) -> bool {
    let text = covered.signing_string();
    rsa_components(public)
        .is_some_and(|key| key.verify(&RSA_PKCS1_2048_8192_SHA256, text.as_bytes(), signature).is_ok())
}

/// Returns the length of a key's signatures in bytes. `None`: the key is unusable.
pub(super) fn signature_length(public: &CallbackPublicKey) -> Option<usize> {
    rsa_components(public).map(|key| key.n.len())
}

impl<'a> CallbackRequest<'a> {
    /// Returns the components that the signature must cover.
    pub(super) fn covered(&self) -> Result<CoveredComponents<'a>, SignatureError> {
        Ok(CoveredComponents {
            method: self.method,
            target: self.target,
            host: self.header("host")?,
            date: self.header("date")?,
            product: self.header(PRODUCT_HEADER)?,
            digest: self.header("digest")?,
        })
    }

    /// Returns a copy of the headers in which the value of one header is replaced.
    pub(super) fn headers_with(&self, name: &str, value: &str) -> Vec<(String, String)> {
        let mut headers = self.headers.to_vec();
        for (_, old) in headers.iter_mut().filter(|(other, _)| other.eq_ignore_ascii_case(name)) {
            value.clone_into(old);
        }
        headers
    }

    fn header(&self, name: &'static str) -> Result<&'a str, SignatureError> {
        let mut values = self.values(name);
        let value = values.next().ok_or(SignatureError::MissingHeader(name))?;
        if values.next().is_some() { Err(SignatureError::DuplicateHeader(name)) } else { Ok(value) }
    }

    pub(super) fn values(&self, name: &'static str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.headers.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl<'a> Authorization<'a> {
    /// Parses the header strictly: accepts only the form that Ringtrue sends, but with parameters in any order.
    pub fn parse(value: &'a str) -> Result<Self, InvalidAuthorization> {
        let mut rest = value.strip_prefix("Signature ").ok_or(InvalidAuthorization::Scheme)?;
        let mut found: [Option<&'a str>; PARAMETERS.len()] = [None; PARAMETERS.len()];
        loop {
            let (name, after) = rest.split_once("=\"").ok_or(InvalidAuthorization::Malformed)?;
            let (value, after) = after.split_once('"').ok_or(InvalidAuthorization::Malformed)?;
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) || value.contains('\\') {
                return Err(InvalidAuthorization::Malformed);
            }
            let slot = PARAMETERS
                .iter()
                .position(|known| *known == name)
                .ok_or_else(|| InvalidAuthorization::UnknownParameter(name.to_owned()))?;
            if found[slot].replace(value).is_some() {
                return Err(InvalidAuthorization::DuplicateParameter(PARAMETERS[slot]));
            }
            if after.is_empty() {
                break;
            }
            rest = after.strip_prefix(',').ok_or(InvalidAuthorization::Malformed)?;
        }
        let take = |slot: usize| found[slot].ok_or(InvalidAuthorization::MissingParameter(PARAMETERS[slot]));
        let (key_id, algorithm, headers) = (take(0)?, take(1)?, take(2)?);
        let signature = BASE64_STANDARD.decode(take(3)?).map_err(|_| InvalidAuthorization::SignatureNotBase64)?;
        Ok(Authorization { key_id, algorithm, headers, signature })
    }
}

fn rsa_components(public: &CallbackPublicKey) -> Option<RsaPublicKeyComponents<Vec<u8>>> {
    const MIN_MODULUS_BYTES: usize = 2_048 / 8;
    let n = BASE64_URL_SAFE_NO_PAD.decode(&public.n).ok()?;
    let e = BASE64_URL_SAFE_NO_PAD.decode(&public.e).ok()?;
    (n.len() >= MIN_MODULUS_BYTES).then_some(RsaPublicKeyComponents { n, e })
}

fn check_digest(header: &str, body: &[u8]) -> Result<(), SignatureError> {
    let actual = digest_header(body);
    if header == actual {
        return Ok(());
    }
    let is_well_formed = header.len() == actual.len()
        && header.starts_with("SHA-256=")
        && header.ends_with('=')
        && header["SHA-256=".len()..].bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    Err(if is_well_formed { SignatureError::BodyDiffers } else { SignatureError::DigestMalformed })
}
