//! Decryption of the operator's token: JSON Web Encryption (RFC 7516) with ECDH-ES in direct key agreement mode and
//! A128GCM.

use aws_lc_rs::{
    aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree},
    digest::{Context, SHA256},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ringtrue_engine::ports::operator_tokens::CredentialKey;
use serde::{Deserialize, de::IgnoredAny};
use zeroize::Zeroizing;

use super::public_key::EcJwk;

const ALGORITHM: &str = "ECDH-ES";
pub(super) const ENCRYPTION: &str = "A128GCM";
const KEY_BYTES: usize = 16;
const KEY_BITS: u32 = 128;
const TAG_BYTES: usize = 16;

#[derive(Deserialize)]
struct JweHeader {
    alg: String,
    enc: String,
    epk: Option<EcJwk>,
    apu: Option<String>,
    apv: Option<String>,
    zip: Option<IgnoredAny>,
    crit: Option<IgnoredAny>,
}

/// Decrypts a JWE in compact serialisation. The error is the reason, without text from the JWE.
pub(super) fn decrypt(jwe: &str, key: &CredentialKey) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    const MALFORMED: &str = "the encrypted token is malformed";
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| MALFORMED);
    let parts: Vec<&str> = jwe.splitn(6, '.').collect();
    let [protected, encrypted_key, nonce, ciphertext, tag] = parts[..] else { return Err(MALFORMED) };
    let header: JweHeader = serde_json::from_slice(&decode(protected)?).map_err(|_| MALFORMED)?;
    if (&*header.alg, &*header.enc) != (ALGORITHM, ENCRYPTION) || header.zip.is_some() || header.crit.is_some() {
        return Err("the token is not encrypted with ECDH-ES and A128GCM");
    }
    // In direct key agreement mode, there is no encrypted key.
    if !encrypted_key.is_empty() {
        return Err(MALFORMED);
    }
    let public_key = header.epk.as_ref().and_then(EcJwk::point).ok_or("the ephemeral key is not a key on P-256")?;
    let party = |name: &Option<String>| name.as_deref().map_or_else(|| Ok(vec![]), decode);
    let (apu, apv) = (party(&header.apu)?, party(&header.apv)?);
    let nonce: [u8; NONCE_LEN] = decode(nonce)?.try_into().map_err(|_| MALFORMED)?;
    let (mut sealed, tag) = (Zeroizing::new(decode(ciphertext)?), decode(tag)?);
    if tag.len() != TAG_BYTES {
        return Err(MALFORMED);
    }
    sealed.extend(tag);
    let content_key = agree_key(key, &public_key, &apu, &apv)?;
    let content_key = UnboundKey::new(&AES_128_GCM, &*content_key).map(LessSafeKey::new);
    let opened = content_key.and_then(|content_key| {
        let (nonce, protected) = (Nonce::assume_unique_for_key(nonce), Aad::from(protected.as_bytes()));
        content_key.open_in_place(nonce, protected, &mut sealed).map(|plaintext| plaintext.len())
    });
    let length = opened.map_err(|_| "the token cannot be decrypted")?;
    sealed.truncate(length);
    Ok(sealed)
}

/// Derives the content encryption key from both keys (RFC 7518, 4.6).
fn agree_key(
    key: &CredentialKey,
    public_key: &[u8],
    apu: &[u8],
    apv: &[u8],
) -> Result<Zeroizing<[u8; KEY_BYTES]>, &'static str> {
    const FAILED: &str = "the ephemeral key is not a key on P-256";
    let private_key = PrivateKey::from_private_key(&ECDH_P256, &**key).map_err(|_| FAILED)?;
    agree(&private_key, UnparsedPublicKey::new(&ECDH_P256, public_key), FAILED, |secret| {
        // One round of the Concat KDF suffices, because its digest is longer than the key.
        let mut context = Context::new(&SHA256);
        context.update(&1_u32.to_be_bytes());
        context.update(secret);
        for part in [ENCRYPTION.as_bytes(), apu, apv] {
            let length = u32::try_from(part.len()).map_err(|_| FAILED)?;
            context.update(&length.to_be_bytes());
            context.update(part);
        }
        context.update(&KEY_BITS.to_be_bytes());
        let mut derived = Zeroizing::new([0; KEY_BYTES]);
        derived.copy_from_slice(&context.finish().as_ref()[..KEY_BYTES]);
        Ok(derived)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// RFC 7518, appendix C: Alice's ephemeral key, and Bob's private key.
    #[test]
    fn derived_key_matches_rfc_7518() {
        let alice = EcJwk::deserialize(&serde_json::json!({
            "kty": "EC",
            "crv": "P-256",
            "x": "gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0",
            "y": "SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps",
        }));
        let bob = CredentialKey::new(bytes("VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw").try_into().unwrap());
        let derived = agree_key(&bob, &alice.unwrap().point().unwrap(), b"Alice", b"Bob").unwrap();
        assert_eq!(BASE64_URL_SAFE_NO_PAD.encode(*derived), "VqqN6vgjbSBcIijNcacQGg");
    }
}
