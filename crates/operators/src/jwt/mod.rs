//! JSON Web Tokens (RFC 7519): signing, and verification of operators' tokens.

mod key_set;
mod signing;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

pub use key_set::{JwtError, KeySet};
pub use signing::{Algorithm, SigningKey, SigningKeyError};

pub fn encode_base64url(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
