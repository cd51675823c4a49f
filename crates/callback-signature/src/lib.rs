//! Signs and verifies callbacks, by draft-cavage-http-signatures with `rsa-sha256`.
//!
//! The signature covers the bytes that are sent: path and query as in the callback URL, and `host` with its port unless
//! it is the default port. It covers the body through the `digest` header.
//!
//! This crate is pure: keys and time are inputs. The engine uses it to sign. `ringtrue listen`, which does not contain
//! the engine, uses it to verify.

pub mod diagnosis;
mod verify;

use std::sync::Arc;

use aws_lc_rs::{
    digest::{SHA256, digest},
    encoding::{AsDer, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::{KeyPair as RsaKeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_SHA256},
};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{Timestamp, fmt::rfc2822};
use ringtrue_domain::tenancy::Mode;
use serde::Deserialize;
use zeroize::Zeroizing;

pub use verify::{Authorization, CallbackRequest, InvalidAuthorization, SignatureError, VerifiedSignature, verify};

/// Header that names the product of the check.
pub const PRODUCT_HEADER: &str = "x-service-callback";
/// Header with the attempt number, from 1. The signature does not cover it.
pub const ATTEMPT_HEADER: &str = "x-service-callback-attempt";

const ALGORITHM: &str = "rsa-sha256";
const COMPONENTS: &str = "(request-target) host date x-service-callback digest";

/// The components of a request that a signature covers. Debug output hides the target, which may contain a token.
#[derive(Clone, Copy, PartialEq, Eq, derive_more::Debug)]
#[debug("CoveredComponents({method} {host}, {date})")]
pub struct CoveredComponents<'a> {
    pub method: &'a str,
    /// Path and query, as in the request line.
    pub target: &'a str,
    pub host: &'a str,
    pub date: &'a str,
    /// The value of [`PRODUCT_HEADER`].
    pub product: &'a str,
    pub digest: &'a str,
}

/// A public key for verifying callbacks, as published in the JWKS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackPublicKey {
    /// Key id: the RFC 7638 thumbprint.
    pub kid: String,
    /// Mode of the checks whose callbacks the key signs.
    pub mode: Mode,
    /// RSA modulus (`n`) and exponent (`e`), in base64url.
    pub n: String,
    pub e: String,
}

/// Signs callbacks with RSA PKCS#1 v1.5 and SHA-256. Cheap to clone.
///
/// A signature takes about 0.4 ms, so sign on a blocking thread.
#[derive(Clone, derive_more::Debug)]
#[debug("CallbackSigner({})", _0.public.kid)]
pub struct CallbackSigner(Arc<CallbackKeyPair>);

struct CallbackKeyPair {
    pair: RsaKeyPair,
    public: CallbackPublicKey,
}

#[derive(Debug, thiserror::Error)]
#[error("invalid JSON Web Key Set: {0}")]
pub struct JwksError(#[from] serde_json::Error);

impl CoveredComponents<'_> {
    pub fn signing_string(&self) -> String {
        let CoveredComponents { target, host, date, product, digest, .. } = self;
        let method = self.method.to_ascii_lowercase();
        format!(
            "(request-target): {method} {target}\nhost: {host}\ndate: {date}\n{PRODUCT_HEADER}: {product}\n\
             digest: {digest}"
        )
    }
}

/// Signs the components. Returns the value of the `Authorization` header.
pub fn authorization_header(covered: &CoveredComponents<'_>, signer: &CallbackSigner) -> String {
    let signature = BASE64_STANDARD.encode(signer.sign(covered.signing_string().as_bytes()));
    let kid = &signer.public().kid;
    format!(r#"Signature keyId="{kid}",algorithm="{ALGORITHM}",headers="{COMPONENTS}",signature="{signature}""#)
}

/// Returns the value of the `digest` header.
pub fn digest_header(body: &[u8]) -> String {
    format!("SHA-256={}", BASE64_STANDARD.encode(digest(&SHA256, body)))
}

/// Returns the value of the `date` header, in the IMF-fixdate format.
pub fn format_date(at: Timestamp) -> String {
    // Times after the year 9999 have no IMF-fixdate.
    rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_else(|_| EPOCH_DATE.to_owned())
}

const EPOCH_DATE: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

/// Parses a `date` header. `None`: the text is not an IMF-fixdate.
pub fn parse_date(text: &str) -> Option<Timestamp> {
    let at = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    (format_date(at) == text).then_some(at)
}

impl CallbackSigner {
    /// Loads the key that signs callbacks of checks in this mode. `None`: `der` is not an RSA key in PKCS#8.
    pub fn from_pkcs8(mode: Mode, der: &[u8]) -> Option<Self> {
        let pair = RsaKeyPair::from_pkcs8(der).ok()?;
        let public = build_public_key(&pair, mode);
        Some(CallbackSigner(Arc::new(CallbackKeyPair { pair, public })))
    }

    /// Generates an RSA key in PKCS#8.
    ///
    /// # Panics
    /// If the system has no randomness.
    #[expect(clippy::expect_used, reason = "generation fails only without randomness: the process must stop")]
    pub fn generate_pkcs8() -> Zeroizing<Vec<u8>> {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("RSA key generation succeeds");
        let der: Pkcs8V1Der<'_> = pair.as_der().expect("an RSA key has a PKCS#8 form");
        Zeroizing::new(der.as_ref().to_vec())
    }

    pub fn public(&self) -> &CallbackPublicKey {
        &self.0.public
    }

    /// # Panics
    /// If memory allocation fails.
    #[expect(clippy::expect_used, reason = "signing with a parsed key fails only without memory")]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.0.pair.public_modulus_len()];
        self.0
            .pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
            .expect("RSA signing succeeds");
        signature
    }
}

fn build_public_key(pair: &RsaKeyPair, mode: Mode) -> CallbackPublicKey {
    let public = pair.public_key();
    let n = BASE64_URL_SAFE_NO_PAD.encode(public.modulus().big_endian_without_leading_zero());
    let e = BASE64_URL_SAFE_NO_PAD.encode(public.exponent().big_endian_without_leading_zero());
    // RFC 7638 hashes the required members in lexicographic order, without white space.
    let canonical = format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#);
    let kid = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()));
    CallbackPublicKey { kid, mode, n, e }
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    kty: String,
    kid: Option<String>,
    use_mode: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

/// Parses a published JSON Web Key Set, and returns its RSA keys. Skips other key types (RFC 7517), and keys with an
/// unknown `use_mode`. A key without `use_mode` signs live callbacks.
pub fn parse_jwks(json: &str) -> Result<Vec<CallbackPublicKey>, JwksError> {
    let set: KeySet = serde_json::from_str(json)?;
    let rsa = set.keys.into_iter().filter(|key| key.kty == "RSA");
    let public = |key: Key| {
        let mode = key.use_mode.map_or(Ok(Mode::Live), |mode| mode.parse()).ok()?;
        Some(CallbackPublicKey { kid: key.kid?, mode, n: key.n?, e: key.e? })
    };
    Ok(rsa.filter_map(public).collect())
}
