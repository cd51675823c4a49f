//! Codes and tokens that hold what they stand for, sealed: every operator that has the key can open them, so a flow may
//! begin at one and end at another. Nothing has to be remembered of those that were never used.

use std::fmt;

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    error::Unspecified,
    rand,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde::{Serialize, de::DeserializeOwned};

/// What is sealed. One kind cannot be passed for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    AccessToken,
}

impl Kind {
    fn associated_data(self) -> Aad<&'static [u8]> {
        Aad::from(match self {
            Kind::Code => b"authorization code",
            Kind::AccessToken => b"access token".as_slice(),
        })
    }
}

pub(super) struct Sealer(LessSafeKey);

impl Sealer {
    pub(super) fn new(key: &[u8; 32]) -> Result<Self, Unspecified> {
        UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map(Sealer)
    }

    /// Two of the same content are different.
    pub(super) fn seal(&self, kind: Kind, content: &impl Serialize) -> Result<String, Unspecified> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let mut octets = serde_json::to_vec(content).map_err(|_| Unspecified)?;
        self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), kind.associated_data(), &mut octets)?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &octets].concat()))
    }

    pub(super) fn open<T: DeserializeOwned>(&self, kind: Kind, sealed: &str) -> Option<T> {
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
    fn only_the_same_key_and_kind_open() {
        let [ours, same, other] = [[1; 32], [1; 32], [2; 32]].map(|key| Sealer::new(&key).unwrap());
        let sealed = ours.seal(Kind::Code, &"content").unwrap();
        assert_eq!(same.open::<String>(Kind::Code, &sealed).as_deref(), Some("content"));
        assert_ne!(ours.seal(Kind::Code, &"content").unwrap(), sealed);
        assert_eq!(same.open::<String>(Kind::AccessToken, &sealed), None);
        assert_eq!(other.open::<String>(Kind::Code, &sealed), None);
        for bad in ["", "AAAA", "?", &sealed[1..]] {
            assert_eq!(ours.open::<String>(Kind::Code, bad), None, "{bad}");
        }
    }
}
