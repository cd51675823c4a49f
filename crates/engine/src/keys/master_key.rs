//! The master key, which encrypts the other keys. It is not stored in the database.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use zeroize::Zeroizing;

use crate::ports::entropy::Entropy;

/// An AES-256-GCM key that seals data: encrypts and authenticates it.
#[derive(derive_more::Debug)]
#[debug("SealingKey(…)")]
pub struct SealingKey(LessSafeKey);

impl SealingKey {
    pub const LENGTH: usize = 32;

    #[expect(clippy::expect_used, reason = "the length is that of the algorithm")]
    pub fn new(bytes: &[u8; Self::LENGTH]) -> Self {
        SealingKey(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).expect("32 bytes make an AES-256 key")))
    }

    /// Encrypts data. Returns nonce, ciphertext and tag. `context` is authenticated with the data (AAD), and the same
    /// `context` is required to unseal it.
    #[expect(clippy::expect_used, reason = "sealing fails only for plaintexts of many gigabytes")]
    pub fn seal(&self, entropy: &dyn Entropy, context: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_LEN] = entropy.bytes();
        let mut sealed = Vec::with_capacity(NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(&nonce);
        let mut text = Zeroizing::new(plain.to_vec());
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context), &mut *text)
            .expect("the plaintext is short");
        sealed.extend_from_slice(&text);
        sealed
    }

    /// Decrypts sealed data. `None`: it was sealed with another key or context, or was altered.
    pub fn unseal(&self, context: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut text = Zeroizing::new(text.to_vec());
        let plain =
            self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(context), &mut text).ok()?.len();
        text.truncate(plain);
        Some(text)
    }
}

/// The key that encrypts all keys in the database. Read from the environment or a file, never from the command line.
#[derive(derive_more::Debug)]
#[debug("MasterKey(…)")]
pub struct MasterKey(SealingKey);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a master key must be 32 random bytes in base64; create one with `openssl rand -base64 32`")]
pub struct InvalidMasterKey;

impl MasterKey {
    pub fn from_base64(text: &str) -> Result<Self, InvalidMasterKey> {
        let text = text.trim();
        let bytes = BASE64_STANDARD.decode(text).or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(text));
        let bytes = Zeroizing::new(bytes.map_err(|_| InvalidMasterKey)?);
        let bytes: &[u8; SealingKey::LENGTH] = bytes.as_slice().try_into().map_err(|_| InvalidMasterKey)?;
        Ok(MasterKey(SealingKey::new(bytes)))
    }

    /// Generates a key in the format of [`MasterKey::from_base64`].
    pub fn generate(entropy: &dyn Entropy) -> Zeroizing<String> {
        let bytes = Zeroizing::new(entropy.bytes::<{ SealingKey::LENGTH }>());
        Zeroizing::new(BASE64_STANDARD.encode(bytes.as_slice()))
    }

    pub fn seal(&self, entropy: &dyn Entropy, context: &[u8], plain: &[u8]) -> Vec<u8> {
        self.0.seal(entropy, context, plain)
    }

    pub fn unseal(&self, context: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.0.unseal(context, sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::entropy::SystemEntropy;

    #[test]
    fn sealed_bytes_open_only_with_the_same_key_and_context() {
        let entropy = SystemEntropy::default();
        let ours = MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap();
        let theirs = MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap();
        let sealed = ours.seal(&entropy, b"key 1", b"secret");

        assert_eq!(ours.unseal(b"key 1", &sealed).unwrap().as_slice(), b"secret");
        assert!(ours.unseal(b"key 2", &sealed).is_none());
        assert!(theirs.unseal(b"key 1", &sealed).is_none());
        for index in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[index] ^= 1;
            assert!(ours.unseal(b"key 1", &altered).is_none(), "byte {index}");
        }
        assert!(ours.unseal(b"key 1", b"short").is_none());
    }

    #[test]
    fn master_key_with_wrong_length_is_rejected() {
        for invalid in ["", "not base64!", "c2hvcnQ="] {
            assert!(MasterKey::from_base64(invalid).is_err(), "{invalid}");
        }
    }
}
