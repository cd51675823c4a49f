//! Shared secrets, and helpers for signature verification.

use std::fmt;

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest, hmac};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use zeroize::Zeroizing;

/// Secret shared with a vendor. Masked, and wiped when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Box<str>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("the secret is empty")]
    Empty,
    #[error("a path secret must be 16 to 128 letters, digits, `-` and `_`")]
    Path,
    #[error("the public key must be 32 octets in base64, as shown in the vendor's portal")]
    PublicKey,
}

impl Secret {
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, SecretError> {
        let text = text.into();
        if text.is_empty() { Err(SecretError::Empty) } else { Ok(Secret(Zeroizing::new(text))) }
    }

    pub(super) fn octets(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether `tag` is the HMAC of `data` under this secret.
    pub(super) fn verify_hmac(&self, algorithm: hmac::Algorithm, data: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&hmac::Key::new(algorithm, self.octets()), data, tag).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Secret last segment of a webhook's path.
#[derive(Clone)]
pub struct PathSecret(Zeroizing<Box<str>>);

impl PathSecret {
    const LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

    pub fn new(text: impl Into<Box<str>>) -> Result<Self, SecretError> {
        let text = text.into();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let is_valid = is_plain && Self::LENGTHS.contains(&text.len());
        if is_valid { Ok(PathSecret(Zeroizing::new(text))) } else { Err(SecretError::Path) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn matches_path(&self, path: &str) -> bool {
        let last = path.rsplit('/').next().unwrap_or_default();
        constant_time_eq(last.as_bytes(), self.0.as_bytes())
    }
}

impl fmt::Debug for PathSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathSecret(…)")
    }
}

/// Constant time for equal lengths.
pub(super) fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    verify_slices_are_equal(a, b).is_ok()
}

pub(super) type Digest = [u8; 32];

/// Digest of several parts, each prefixed with its length so that different lists never collide.
pub(super) fn digest_parts(parts: &[&[u8]]) -> Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    to_array(&context.finish())
}

pub(super) fn sha256(data: &[u8]) -> Digest {
    to_array(&digest::digest(&digest::SHA256, data))
}

fn to_array(digest: &digest::Digest) -> Digest {
    let mut octets = [0; 32];
    octets.copy_from_slice(digest.as_ref());
    octets
}

pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

pub(super) fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let octets = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    if rest.is_empty() { octets } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_masks_secrets() {
        let shown = format!("{:?} {:?}", Secret::new("hunter2"), PathSecret::new("0123456789abcdef"));
        assert_eq!(shown, "Ok(Secret(…)) Ok(PathSecret(…))");
    }

    #[test]
    fn path_secret_format_is_checked() {
        for bad in ["", "short", "0123456789abcde/", "0123456789abcde%41", &"a".repeat(129)] {
            assert_eq!(PathSecret::new(bad).err(), Some(SecretError::Path), "{bad}");
        }
        let secret = PathSecret::new("0123456789abcdef").unwrap();
        for (path, matches_path) in [
            ("/southbound/sms/a/0123456789abcdef", true),
            ("0123456789abcdef", true),
            ("/southbound/sms/a/0123456789abcdeF", false),
            ("/southbound/sms/0123456789abcdef/", false),
            ("/southbound/sms/0123456789abcdef/a", false),
            ("", false),
        ] {
            assert_eq!(secret.matches_path(path), matches_path, "{path}");
        }
    }

    #[test]
    fn hex_is_decoded() {
        assert_eq!(decode_hex("00fFA5"), Some(vec![0, 255, 165]));
        assert_eq!(decode_hex(""), Some(vec![]));
        for bad in ["0", "0g", "+1", "é"] {
            assert_eq!(decode_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn digest_depends_on_part_boundaries() {
        assert_ne!(digest_parts(&[b"ab", b"c"]), digest_parts(&[b"a", b"bc"]));
        assert_ne!(digest_parts(&[b"ab"]), digest_parts(&[b"ab", b""]));
    }
}
