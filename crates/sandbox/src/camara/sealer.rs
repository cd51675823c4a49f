//! Sealed, self-contained codes and tokens. Every operator with the same key can open them, so that a flow may cross
//! operators. Unused ones need no storage.

use std::fmt;

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    error::Unspecified,
    rand,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde::{Serialize, de::DeserializeOwned};

/// Kind of sealed content, bound as associated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealedKind {
    Code,
    AccessToken,
}

impl SealedKind {
    fn associated_data(self) -> Aad<&'static [u8]> {
        Aad::from(match self {
            SealedKind::Code => b"authorization code",
            SealedKind::AccessToken => b"access token".as_slice(),
        })
    }
}

pub(super) struct Sealer(LessSafeKey);

impl Sealer {
    pub(super) fn new(key: &[u8; 32]) -> Result<Self, Unspecified> {
        UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map(Sealer)
    }

    /// Uses a random nonce, so that equal contents differ.
    pub(super) fn seal(&self, kind: SealedKind, content: &impl Serialize) -> Result<String, Unspecified> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let mut octets = serde_json::to_vec(content).map_err(|_| Unspecified)?;
        self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), kind.associated_data(), &mut octets)?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &octets].concat()))
    }

    pub(super) fn open<T: DeserializeOwned>(&self, kind: SealedKind, sealed: &str) -> Option<T> {
        let mut octets = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, octets) = octets.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let content = self.0.open_in_place(nonce, kind.associated_data(), octets).ok()?;
        serde_json::from_slice(content).ok()
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_with_the_same_key_and_kind() {
        let [ours, same, other] = [[1; 32], [1; 32], [2; 32]].map(|key| Sealer::new(&key).unwrap());
        let sealed = ours.seal(SealedKind::Code, &"content").unwrap();
        assert_eq!(same.open::<String>(SealedKind::Code, &sealed).as_deref(), Some("content"));
        assert_ne!(ours.seal(SealedKind::Code, &"content").unwrap(), sealed);
        assert_eq!(same.open::<String>(SealedKind::AccessToken, &sealed), None);
        assert_eq!(other.open::<String>(SealedKind::Code, &sealed), None);
        for invalid in ["", "AAAA", "?", &sealed[1..]] {
            assert_eq!(ours.open::<String>(SealedKind::Code, invalid), None, "{invalid}");
        }
    }
}
