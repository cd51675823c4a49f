//! Operator tokens (GSMA TS.43) from phones' wallets, as a verifier of OpenID for Verifiable Presentations.
//!
//! A wallet hands out a credential on request. It is an SD-JWT of two parts: the issuer's JWT, and the phone's binding
//! JWT, which contains the operator's temporary token, encrypted for us. The wallet only orders its choices by the
//! number in the request, so the credential proves nothing about that number: the operator has to be asked with the
//! token.
//!
//! [`WalletRequestSigner`] signs requests, and [`CredentialVerifier`] verifies answers. Formats: `OpenID4VP` 1.0 with the
//! Digital Credentials API, and CAMARA's guide "Operator Token Acquisition" (Number Verification).

mod encrypted_token;
mod public_key;
mod request;
mod request_signer;
mod verification;

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

pub use request::ConsentData;
pub(crate) use request::build_request;
pub use request_signer::{WalletRequestSigner, WalletRequestSignerError};
pub use verification::{CredentialVerifier, InvalidIssuerCertificates};

/// Protocol of requests and answers: `OpenID4VP` 1.0, with an unsigned request. The signed part is within the request.
const PROTOCOL: &str = "openid4vp-v1-unsigned";
/// Format of the credential.
const CREDENTIAL_FORMAT: &str = "dc-authorization+sd-jwt";
/// Type of the credential: permits to verify a number.
const CREDENTIAL_TYPE: &str = "number-verification/verify/ts43";
/// Identifies the credential within a request and its answer.
const CREDENTIAL_ID: &str = "ringtrue";

/// Returns the SHA-256 digest in the encoding of the hash claims.
fn sha256_base64url(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}
