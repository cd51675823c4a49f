//! Encrypts operator tokens for the requesting party: compact JWE (RFC 7516) with ECDH-ES direct key agreement on P-256
//! (RFC 7518, 4.6) and A128GCM.

use aws_lc_rs::{
    aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    agreement::{ECDH_P256, EphemeralPrivateKey, ParsedPublicKey, UnparsedPublicKey, agree_ephemeral},
    digest::{Context, SHA256},
    error::Unspecified,
    rand::{self, SystemRandom},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Value, json};

/// The only content encryption that the wallet supports.
pub(super) const CONTENT_ENCRYPTION: &str = "A128GCM";
const CONTENT_KEY_BYTES: usize = 16;
const COORDINATE_BYTES: usize = 32;
/// First octet of an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// Public key of the requesting party.
#[derive(derive_more::Debug)]
#[debug("EncryptionKey({id:?})")]
pub(super) struct EncryptionKey {
    id: Option<String>,
    point: Vec<u8>,
}

impl EncryptionKey {
    /// Parses a JWK. Returns `None` unless it is a P-256 key for ECDH-ES.
    pub(super) fn parse(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk[name].as_str();
        let is_supported = [("kty", "EC"), ("crv", "P-256"), ("use", "enc"), ("alg", "ECDH-ES")]
            .into_iter()
            .all(|(name, expected)| text(name) == Some(expected));
        let coordinate = |name| {
            let octets = BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok()?;
            (octets.len() == COORDINATE_BYTES).then_some(octets)
        };
        let point = [vec![UNCOMPRESSED], coordinate("x")?, coordinate("y")?].concat();
        // Fails if the point is not on the curve.
        ParsedPublicKey::try_from(UnparsedPublicKey::new(&ECDH_P256, &point)).ok()?;
        is_supported.then(|| EncryptionKey { id: text("kid").map(str::to_owned), point })
    }

    /// Encrypts a message as compact JWE.
    pub(super) fn encrypt(&self, message: &[u8]) -> Result<String, Unspecified> {
        let ephemeral_key = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new())?;
        let ephemeral_point = ephemeral_key.compute_public_key()?;
        let (x, y) = ephemeral_point.as_ref()[1..].split_at(COORDINATE_BYTES);
        let encode = |octets: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(octets);
        let mut header = json!({
            "alg": "ECDH-ES",
            "enc": CONTENT_ENCRYPTION,
            "epk": { "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) },
        });
        if let Some(id) = &self.id {
            header["kid"] = json!(id);
        }
        let header = encode(header.to_string().as_bytes());
        let peer = UnparsedPublicKey::new(&ECDH_P256, &self.point);
        let content_key = agree_ephemeral(ephemeral_key, peer, Unspecified, |secret| Ok(derive_content_key(secret)))?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let mut ciphertext = message.to_vec();
        let tag = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &content_key)?).seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(header.as_bytes()),
            &mut ciphertext,
        )?;
        // The encrypted key is empty, because the agreed key encrypts the content directly.
        Ok(format!("{header}..{}.{}.{}", encode(&nonce), encode(&ciphertext), encode(tag.as_ref())))
    }
}

/// Derives the content key from the shared secret by Concat KDF, whose one round suffices. Both parties' infos are
/// empty.
fn derive_content_key(secret: &[u8]) -> [u8; CONTENT_KEY_BYTES] {
    let mut hash = Context::new(&SHA256);
    hash.update(&1_u32.to_be_bytes());
    hash.update(secret);
    for info in [CONTENT_ENCRYPTION, "", ""] {
        hash.update(&u32::try_from(info.len()).unwrap_or_default().to_be_bytes());
        hash.update(info.as_bytes());
    }
    // Length of the key in bits.
    hash.update(&128_u32.to_be_bytes());
    let mut key = [0; CONTENT_KEY_BYTES];
    key.copy_from_slice(&hash.finish().as_ref()[..CONTENT_KEY_BYTES]);
    key
}
