//! Signatures of callbacks: draft-cavage-http-signatures with `rsa-sha256`.
//!
//! Signed are the bytes on the wire: path and query as in the callback URL, and `host` with its port unless it is the
//! default. `digest` covers the body.
//!
//! This module is pure: keys and time are inputs.

mod authorization;
pub mod diagnosis;
mod jwks;
#[cfg(test)]
mod tests;
mod verify;

use aws_lc_rs::digest::{SHA256, digest as hash};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::{Timestamp, fmt::rfc2822};

pub use authorization::{Authorization, InvalidAuthorization};
pub use jwks::{JwksError, parse_jwks};
pub use verify::{CallbackRequest, SignatureError, VerifiedSignature, verify};

use crate::keys::CallbackSigner;

/// Header with the product of the check.
pub const SOURCE_HEADER: &str = "x-service-callback";
/// Header with the attempt number, from 1. Not signed.
pub const ATTEMPT_HEADER: &str = "x-service-callback-attempt";

const ALGORITHM: &str = "rsa-sha256";
const COMPONENTS: &str = "(request-target) host date x-service-callback digest";

/// The components that a signature covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CoveredComponents<'a> {
    pub method: &'a str,
    /// Path and query, as in the request line.
    pub target: &'a str,
    pub host: &'a str,
    pub date: &'a str,
    /// The value of [`SOURCE_HEADER`].
    pub source: &'a str,
    pub digest: &'a str,
}

impl CoveredComponents<'_> {
    pub fn signing_string(&self) -> String {
        let CoveredComponents { target, host, date, source, digest, .. } = self;
        let method = self.method.to_ascii_lowercase();
        format!(
            "(request-target): {method} {target}\nhost: {host}\ndate: {date}\n{SOURCE_HEADER}: {source}\ndigest: {digest}"
        )
    }
}

/// Masked: the target may carry a token.
impl std::fmt::Debug for CoveredComponents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Covered({} {}, {})", self.method, self.host, self.date)
    }
}

/// Returns the value of the `Authorization` header.
pub fn sign(covered: &CoveredComponents<'_>, signer: &CallbackSigner) -> String {
    let signature = BASE64_STANDARD.encode(signer.sign(covered.signing_string().as_bytes()));
    let kid = &signer.public().kid;
    format!(r#"Signature keyId="{kid}",algorithm="{ALGORITHM}",headers="{COMPONENTS}",signature="{signature}""#)
}

/// Returns the value of the `digest` header.
pub fn digest_header(body: &[u8]) -> String {
    format!("SHA-256={}", BASE64_STANDARD.encode(hash(&SHA256, body)))
}

/// Returns the value of the `date` header, an IMF-fixdate.
pub fn format_date(at: Timestamp) -> String {
    // Years beyond 9999 have no IMF-fixdate.
    rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_else(|_| EPOCH_DATE.to_owned())
}

const EPOCH_DATE: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

/// Parses a `date` header. `None`: not an IMF-fixdate.
pub fn parse_date(text: &str) -> Option<Timestamp> {
    let at = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    (format_date(at) == text).then_some(at)
}
