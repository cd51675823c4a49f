//! Signing callbacks, and checking such signatures.
//!
//! The scheme is draft-cavage-http-signatures with `rsa-sha256`, over the bytes that are on the wire: the path with its
//! query as the caller wrote them, and `host` with its port when that is not the default. The body is covered by its
//! `digest`.
//!
//! Everything here is pure. Keys are fetched and clocks are read by whoever calls.

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
pub use jwks::{NotAJwks, read_jwks};
pub use verify::{Rejection, Request, Verified, verify};

use crate::keys::CallbackSigner;

/// The header that names the product that a callback is about.
pub const SOURCE_HEADER: &str = "x-service-callback";
/// Which attempt this is, from 1. Not signed.
pub const ATTEMPT_HEADER: &str = "x-service-callback-attempt";

const ALGORITHM: &str = "rsa-sha256";
const COMPONENTS: &str = "(request-target) host date x-service-callback digest";

/// What a signature covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Covered<'a> {
    pub method: &'a str,
    /// Path and query, as in the request line.
    pub target: &'a str,
    pub host: &'a str,
    pub date: &'a str,
    /// The value of [`SOURCE_HEADER`].
    pub source: &'a str,
    pub digest: &'a str,
}

impl Covered<'_> {
    /// The bytes that are signed.
    pub fn signing_string(&self) -> String {
        let Covered { target, host, date, source, digest, .. } = self;
        let method = self.method.to_ascii_lowercase();
        format!(
            "(request-target): {method} {target}\nhost: {host}\ndate: {date}\n{SOURCE_HEADER}: {source}\ndigest: {digest}"
        )
    }
}

/// Masked: the target may carry a token.
impl std::fmt::Debug for Covered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Covered({} {}, {})", self.method, self.host, self.date)
    }
}

/// The value of the `Authorization` header.
pub fn sign(covered: &Covered<'_>, signer: &CallbackSigner) -> String {
    let signature = BASE64_STANDARD.encode(signer.sign(covered.signing_string().as_bytes()));
    let kid = &signer.public().kid;
    format!(r#"Signature keyId="{kid}",algorithm="{ALGORITHM}",headers="{COMPONENTS}",signature="{signature}""#)
}

/// The value of the `digest` header.
pub fn digest(body: &[u8]) -> String {
    format!("SHA-256={}", BASE64_STANDARD.encode(hash(&SHA256, body)))
}

/// The value of the `date` header: IMF-fixdate.
pub fn date(at: Timestamp) -> String {
    // Years beyond 9999 have no such form; a clock that far off signs for the epoch, and is noticed.
    rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_else(|_| EPOCH.to_owned())
}

const EPOCH: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

/// Reads a `date` header. `None`: not an IMF-fixdate.
pub fn read_date(text: &str) -> Option<Timestamp> {
    let at = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    (date(at) == text).then_some(at)
}
