//! Signed JSON (RFC 7519), as far as operators need it: what we sign, and how what they sign is checked.

mod key_set;
mod signing;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

pub use key_set::{KeySet, NotATrueToken};
pub use signing::{Algorithm, BadKey, SigningKey};

pub fn base64url(octets: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(octets)
}

fn octets(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
