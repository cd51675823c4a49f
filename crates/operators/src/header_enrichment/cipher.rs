//! How numbers in headers are kept from other eyes, and from being written by others.

use std::fmt;

use aws_lc_rs::{
    aead::{self, AES_256_GCM, Aad, LessSafeKey, UnboundKey},
    cipher::{AES_128, AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey},
    hmac as signed,
    iv::FixedLength,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use zeroize::Zeroizing;

use super::Refusal;

const BLOCK: usize = 16;

/// A key that an operator and we share. Masked, and wiped when dropped.
#[derive(Clone)]
pub struct Key(Zeroizing<Vec<u8>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("a key is written in hexadecimal digits or in base64")]
    Encoding,
    #[error("this cipher has a key of {0} bytes")]
    Length(usize),
    #[error("a key for signatures has at least 8 bytes")]
    Short,
}

impl Key {
    /// Reads hexadecimal digits, or else base64.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        let octets = hex(text.as_bytes()).or_else(|| BASE64_STANDARD.decode(text).ok());
        match octets {
            Some(octets) if !octets.is_empty() => Ok(Key(Zeroizing::new(octets))),
            _ => Err(BadKey::Encoding),
        }
    }

    fn of_length(self, length: usize) -> Result<Self, BadKey> {
        if self.0.len() == length { Ok(self) } else { Err(BadKey::Length(length)) }
    }
}

impl From<Vec<u8>> for Key {
    fn from(octets: Vec<u8>) -> Self {
        Key(Zeroizing::new(octets))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// How a value is encrypted.
#[derive(Clone, Debug, Default)]
pub enum Cipher {
    /// Not at all.
    #[default]
    None,
    /// The nonce of twelve bytes, what is encrypted, and the tag.
    Aes256Gcm(Gcm),
    /// The signature, if there is one; the initialisation vector, if it is sent; and what is encrypted.
    Cbc(Cbc),
}

/// A key of the right length for AES-256-GCM.
#[derive(Clone, Debug)]
pub struct Gcm(Key);

/// AES in CBC mode. The signature is over the initialisation vector, sent or not, and what is encrypted.
#[derive(Clone, Debug)]
pub struct Cbc {
    key: Key,
    iv: Iv,
    integrity: Integrity,
}

/// Where the initialisation vector of CBC comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iv {
    /// It comes with the value.
    Sent,
    /// It was agreed on. Then the same number always looks the same.
    Fixed([u8; BLOCK]),
}

/// By what it is noticed that a value was changed.
#[derive(Clone, Debug)]
pub enum Integrity {
    HmacMd5(Key),
    HmacSha256(Key),
    /// By nothing. Whoever can write into the operator's traffic can then change numbers.
    Unprotected,
}

impl Cipher {
    pub fn aes256_gcm(key: Key) -> Result<Self, BadKey> {
        Ok(Cipher::Aes256Gcm(Gcm(key.of_length(32)?)))
    }

    /// Signature, initialisation vector and what is encrypted, as Magma's gateways write them.
    pub fn aes256_cbc_hmac_md5(key: Key, signing: Key) -> Result<Self, BadKey> {
        Cipher::cbc(key.of_length(32)?, Iv::Sent, Integrity::HmacMd5(signing))
    }

    pub fn aes256_cbc_hmac_sha256(key: Key, signing: Key) -> Result<Self, BadKey> {
        Cipher::cbc(key.of_length(32)?, Iv::Sent, Integrity::HmacSha256(signing))
    }

    pub fn aes128_cbc(key: Key, iv: Iv, integrity: Integrity) -> Result<Self, BadKey> {
        Cipher::cbc(key.of_length(16)?, iv, integrity)
    }

    fn cbc(key: Key, iv: Iv, integrity: Integrity) -> Result<Self, BadKey> {
        match &integrity {
            Integrity::HmacMd5(signing) | Integrity::HmacSha256(signing) if signing.0.len() < 8 => Err(BadKey::Short),
            _ => Ok(Cipher::Cbc(Cbc { key, iv, integrity })),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Cipher::None)
    }

    /// What was encrypted, without what fills it up to whole blocks.
    pub(super) fn open(&self, value: Vec<u8>) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        match self {
            Cipher::None => Some(Zeroizing::new(value)),
            Cipher::Aes256Gcm(gcm) => gcm.open(&value),
            Cipher::Cbc(cbc) => cbc.open(&value),
        }
        .ok_or(Refusal::Undecipherable)
    }
}

impl Gcm {
    fn open(&self, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = value.split_at_checked(aead::NONCE_LEN)?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.0.0).ok()?);
        let nonce = aead::Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let length = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

impl Cbc {
    fn open(&self, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (tag, signed) = value.split_at_checked(self.integrity.tag_length())?;
        let (iv, sealed) = match self.iv {
            Iv::Sent => signed.split_first_chunk::<BLOCK>().map(|(iv, sealed)| (*iv, sealed))?,
            Iv::Fixed(iv) => (iv, signed),
        };
        let is_whole = !sealed.is_empty() && sealed.len().is_multiple_of(BLOCK);
        if !is_whole || !self.integrity.vouches(&iv, sealed, tag) {
            return None;
        }
        let algorithm = if self.key.0.len() == 16 { &AES_128 } else { &AES_256 };
        let key = DecryptingKey::cbc(UnboundCipherKey::new(algorithm, &self.key.0).ok()?).ok()?;
        let mut open = Zeroizing::new(sealed.to_vec());
        key.decrypt(&mut open, DecryptionContext::Iv128(FixedLength::from(iv))).ok()?;
        let length = without_filling(&open)?;
        open.truncate(length);
        Some(open)
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

    fn vouches(&self, iv: &[u8], sealed: &[u8], tag: &[u8]) -> bool {
        match self {
            Integrity::HmacMd5(key) => Hmac::<Md5>::new_from_slice(&key.0)
                .is_ok_and(|mac| mac.chain_update(iv).chain_update(sealed).verify_slice(tag).is_ok()),
            Integrity::HmacSha256(key) => {
                let key = signed::Key::new(signed::HMAC_SHA256, &key.0);
                signed::verify(&key, &[iv, sealed].concat(), tag).is_ok()
            }
            Integrity::Unprotected => true,
        }
    }
}

/// Gateways fill up with spaces, with zeros, or by PKCS #7: none of these is a part of a number.
fn without_filling(text: &[u8]) -> Option<usize> {
    let last = *text.last()?;
    let filled = |filling: u8| text.iter().rev().take_while(|byte| **byte == filling).count();
    match last {
        b' ' | 0 => Some(text.len() - filled(last)),
        1..=16 if filled(last) >= usize::from(last) => Some(text.len() - usize::from(last)),
        1..=16 => None,
        _ => Some(text.len()),
    }
}

/// Of either case.
pub(super) fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    let octets = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    if rest.is_empty() { octets } else { None }
}
