//! Secrets that vendors and we share, and how what they sign is checked.

use std::fmt;

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest, hmac};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use zeroize::Zeroizing;

/// Something that a vendor and we know. Masked, wiped when dropped, and compared in constant time.
#[derive(Clone)]
pub struct Secret(Zeroizing<Box<str>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    #[error("a secret is not empty")]
    Empty,
    #[error("a path secret is 16 to 128 letters, digits, `-` and `_`, so that no proxy writes it in another way")]
    Path,
    #[error("the public key is 32 octets in base64, as the vendor's portal shows it")]
    PublicKey,
}

impl Secret {
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, BadSecret> {
        let text = text.into();
        if text.is_empty() { Err(BadSecret::Empty) } else { Ok(Secret(Zeroizing::new(text))) }
    }

    pub(super) fn octets(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether `tag` is what the holder of this secret makes of `data`.
    pub(super) fn signed(&self, algorithm: hmac::Algorithm, data: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&hmac::Key::new(algorithm, self.octets()), data, tag).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The last segment of a webhook's path, known to the vendor only.
#[derive(Clone)]
pub struct PathSecret(Zeroizing<Box<str>>);

impl PathSecret {
    const LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

    pub fn new(text: impl Into<Box<str>>) -> Result<Self, BadSecret> {
        let text = text.into();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let is_one = is_plain && Self::LENGTHS.contains(&text.len());
        if is_one { Ok(PathSecret(Zeroizing::new(text))) } else { Err(BadSecret::Path) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn ends(&self, path: &str) -> bool {
        let last = path.rsplit('/').next().unwrap_or_default();
        same(last.as_bytes(), self.0.as_bytes())
    }
}

impl fmt::Debug for PathSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathSecret(…)")
    }
}

/// Compares in constant time, as far as the lengths agree.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    verify_slices_are_equal(a, b).is_ok()
}

pub(super) type Digest = [u8; 32];

/// A digest of several pieces, each counted in with its length: no two lists of pieces are mistaken for each other.
pub(super) fn digest(pieces: &[&[u8]]) -> Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for piece in pieces {
        context.update(&piece.len().to_be_bytes());
        context.update(piece);
    }
    octets_of(&context.finish())
}

pub(super) fn sha256(data: &[u8]) -> Digest {
    octets_of(&digest::digest(&digest::SHA256, data))
}

fn octets_of(digest: &digest::Digest) -> Digest {
    let mut octets = [0; 32];
    octets.copy_from_slice(digest.as_ref());
    octets
}

pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

/// Of either case.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let octets = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    if rest.is_empty() { octets } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?} {:?}", Secret::new("hunter2"), PathSecret::new("0123456789abcdef"));
        assert_eq!(shown, "Ok(Secret(…)) Ok(PathSecret(…))");
    }

    #[test]
    fn a_path_secret_is_long_and_plain() {
        for bad in ["", "short", "0123456789abcde/", "0123456789abcde%41", &"a".repeat(129)] {
            assert_eq!(PathSecret::new(bad).err(), Some(BadSecret::Path), "{bad}");
        }
        let secret = PathSecret::new("0123456789abcdef").unwrap();
        for (path, ends) in [
            ("/southbound/sms/a/0123456789abcdef", true),
            ("0123456789abcdef", true),
            ("/southbound/sms/a/0123456789abcdeF", false),
            ("/southbound/sms/0123456789abcdef/", false),
            ("/southbound/sms/0123456789abcdef/a", false),
            ("", false),
        ] {
            assert_eq!(secret.ends(path), ends, "{path}");
        }
    }

    #[test]
    fn hex_is_pairs_of_digits() {
        assert_eq!(hex("00fFA5"), Some(vec![0, 255, 165]));
        assert_eq!(hex(""), Some(vec![]));
        for bad in ["0", "0g", "+1", "é"] {
            assert_eq!(hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn pieces_keep_their_borders() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(digest(&[b"ab"]), digest(&[b"ab", b""]));
    }
}
