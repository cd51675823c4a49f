//! Decrypts the values that operators' gateways add to requests, and verifies their integrity.

use aws_lc_rs::{
    aead::{self, AES_256_GCM, Aad, LessSafeKey, UnboundKey},
    cipher::{AES_128, AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey},
    hmac as aws_hmac,
    iv::FixedLength,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use zeroize::Zeroizing;

use super::EnrichmentError;

const BLOCK_BYTES: usize = 16;

/// Key shared with an operator. Masked in `Debug` output, and wiped from memory when dropped.
#[derive(Clone, derive_more::Debug)]
#[debug("CipherKey(…)")]
pub struct CipherKey(Zeroizing<Vec<u8>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherKeyError {
    #[error("the key must be hexadecimal or base64")]
    Encoding,
    #[error("this cipher requires a key of {0} bytes")]
    Length(usize),
    #[error("a signing key must have at least 8 bytes")]
    SigningKeyTooShort,
}

impl CipherKey {
    /// Parses hexadecimal digits, or else base64.
    pub fn parse(text: &str) -> Result<Self, CipherKeyError> {
        let octets = hex::decode(text).ok().or_else(|| BASE64_STANDARD.decode(text).ok());
        match octets {
            Some(octets) if !octets.is_empty() => Ok(CipherKey(Zeroizing::new(octets))),
            _ => Err(CipherKeyError::Encoding),
        }
    }

    fn require_length(self, length: usize) -> Result<Self, CipherKeyError> {
        if self.0.len() == length { Ok(self) } else { Err(CipherKeyError::Length(length)) }
    }
}

impl From<Vec<u8>> for CipherKey {
    fn from(octets: Vec<u8>) -> Self {
        CipherKey(Zeroizing::new(octets))
    }
}

#[derive(Clone, Debug, Default)]
pub enum Cipher {
    #[default]
    None,
    /// The value consists of a 12-byte nonce, the ciphertext and the tag.
    Aes256Gcm(GcmKey),
    /// The value consists of the signature (if any), the initialisation vector (if sent) and the ciphertext.
    Cbc(CbcParameters),
}

/// A key of the right length for AES-256-GCM.
#[derive(Clone, Debug)]
pub struct GcmKey(CipherKey);

/// Settings for AES-CBC. The signature covers the initialisation vector, even if the value omits it, and the
/// ciphertext.
#[derive(Clone, Debug)]
pub struct CbcParameters {
    key: CipherKey,
    iv: IvSource,
    integrity: Integrity,
}

/// Where the initialisation vector for CBC comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IvSource {
    /// The gateway sends a vector as part of each value.
    Sent,
    /// One vector for all values, agreed with the operator. Equal numbers then have equal ciphertexts.
    Fixed([u8; BLOCK_BYTES]),
}

/// Protection against modified values.
#[derive(Clone, Debug)]
pub enum Integrity {
    HmacMd5(CipherKey),
    HmacSha256(CipherKey),
    /// No protection: anyone who can modify the operator's traffic can change numbers.
    Unprotected,
}

impl Cipher {
    pub fn aes256_gcm(key: CipherKey) -> Result<Self, CipherKeyError> {
        Ok(Cipher::Aes256Gcm(GcmKey(key.require_length(32)?)))
    }

    /// Creates the cipher that the gateways of the Magma mobile core use.
    pub fn aes256_cbc_hmac_md5(key: CipherKey, signing: CipherKey) -> Result<Self, CipherKeyError> {
        Cipher::cbc(key.require_length(32)?, IvSource::Sent, Integrity::HmacMd5(signing))
    }

    pub fn aes256_cbc_hmac_sha256(key: CipherKey, signing: CipherKey) -> Result<Self, CipherKeyError> {
        Cipher::cbc(key.require_length(32)?, IvSource::Sent, Integrity::HmacSha256(signing))
    }

    pub fn aes128_cbc(key: CipherKey, iv: IvSource, integrity: Integrity) -> Result<Self, CipherKeyError> {
        Cipher::cbc(key.require_length(16)?, iv, integrity)
    }

    fn cbc(key: CipherKey, iv: IvSource, integrity: Integrity) -> Result<Self, CipherKeyError> {
        match &integrity {
            Integrity::HmacMd5(signing) | Integrity::HmacSha256(signing) if signing.0.len() < 8 => {
                Err(CipherKeyError::SigningKeyTooShort)
            }
            _ => Ok(Cipher::Cbc(CbcParameters { key, iv, integrity })),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Cipher::None)
    }

    /// Returns the plaintext without padding.
    pub(super) fn decrypt(&self, value: Vec<u8>) -> Result<Zeroizing<Vec<u8>>, EnrichmentError> {
        match self {
            Cipher::None => Some(Zeroizing::new(value)),
            Cipher::Aes256Gcm(gcm) => gcm.decrypt(&value),
            Cipher::Cbc(cbc) => cbc.decrypt(&value),
        }
        .ok_or(EnrichmentError::Undecipherable)
    }
}

impl GcmKey {
    fn decrypt(&self, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, ciphertext) = value.split_at_checked(aead::NONCE_LEN)?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.0.0).ok()?);
        let nonce = aead::Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut ciphertext = Zeroizing::new(ciphertext.to_vec());
        let length = key.open_in_place(nonce, Aad::empty(), &mut ciphertext).ok()?.len();
        ciphertext.truncate(length);
        Some(ciphertext)
    }
}

impl CbcParameters {
    fn decrypt(&self, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (tag, signed) = value.split_at_checked(self.integrity.tag_length())?;
        let (iv, ciphertext) = match self.iv {
            IvSource::Sent => signed.split_first_chunk::<BLOCK_BYTES>().map(|(iv, ciphertext)| (*iv, ciphertext))?,
            IvSource::Fixed(iv) => (iv, signed),
        };
        let is_block_aligned = !ciphertext.is_empty() && ciphertext.len().is_multiple_of(BLOCK_BYTES);
        if !is_block_aligned || !self.integrity.verify_tag(&iv, ciphertext, tag) {
            return None;
        }
        let algorithm = if self.key.0.len() == 16 { &AES_128 } else { &AES_256 };
        let key = DecryptingKey::cbc(UnboundCipherKey::new(algorithm, &self.key.0).ok()?).ok()?;
        let mut plaintext = Zeroizing::new(ciphertext.to_vec());
        key.decrypt(&mut plaintext, DecryptionContext::Iv128(FixedLength::from(iv))).ok()?;
        let length = unpadded_length(&plaintext)?;
        plaintext.truncate(length);
        Some(plaintext)
    }
}

impl Integrity {
    fn tag_length(&self) -> usize {
        match self {
            Integrity::HmacMd5(_) => 16,
            Integrity::HmacSha256(_) => 32,
            Integrity::Unprotected => 0,
        }
    }

    fn verify_tag(&self, iv: &[u8], ciphertext: &[u8], tag: &[u8]) -> bool {
        match self {
            Integrity::HmacMd5(key) => Hmac::<Md5>::new_from_slice(&key.0)
                .is_ok_and(|mac| mac.chain_update(iv).chain_update(ciphertext).verify_slice(tag).is_ok()),
            Integrity::HmacSha256(key) => {
                let key = aws_hmac::Key::new(aws_hmac::HMAC_SHA256, &key.0);
                aws_hmac::verify(&key, &[iv, ciphertext].concat(), tag).is_ok()
            }
            Integrity::Unprotected => true,
        }
    }
}

/// Returns the length of the text without padding. Gateways pad with spaces, zero bytes or PKCS #7, and none of these
/// bytes occurs in a number. `None`: the text is empty or its padding is invalid.
fn unpadded_length(text: &[u8]) -> Option<usize> {
    let last = *text.last()?;
    let count_trailing = |padding: u8| text.iter().rev().take_while(|byte| **byte == padding).count();
    match last {
        b' ' | 0 => Some(text.len() - count_trailing(last)),
        1..=16 if count_trailing(last) >= usize::from(last) => Some(text.len() - usize::from(last)),
        1..=16 => None,
        _ => Some(text.len()),
    }
}
