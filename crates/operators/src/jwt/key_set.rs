//! The keys of an operator (RFC 7517), and what they say of a token.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Algorithm, octets};

/// A key that is not for signatures, or not of a kind that we know, is no member.
#[derive(Clone, Debug)]
pub struct KeySet(Vec<PublicKey>);

#[derive(Clone, Debug)]
struct PublicKey {
    id: Option<String>,
    /// The one algorithm that it is for, where it says so.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(ParsedPublicKey),
    Ed25519(ParsedPublicKey),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATrueToken {
    #[error("the token is not signed JSON")]
    Shape,
    #[error("the token is signed in a way that is not believed")]
    Algorithm,
    #[error("the token is signed by a key that is not known")]
    UnknownKey,
    #[error("the signature is wrong")]
    Signature,
}

#[derive(Deserialize)]
struct WrittenSet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct WrittenKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl KeySet {
    pub fn parse(json: &[u8]) -> Option<Self> {
        let written: WrittenSet = serde_json::from_slice(json).ok()?;
        // One key that is written badly says nothing of the others.
        let keys = written.keys.into_iter().filter_map(|key| serde_json::from_value::<WrittenKey>(key).ok());
        Some(KeySet(keys.filter_map(PublicKey::read).collect()))
    }

    /// The claims of a token that one of these keys signed.
    pub fn verify(&self, token: &str) -> Result<Map<String, Value>, NotATrueToken> {
        let (message, signature) = token.rsplit_once('.').ok_or(NotATrueToken::Shape)?;
        let (header, claims) = message.split_once('.').ok_or(NotATrueToken::Shape)?;
        let header: Header = json(header)?;
        let algorithm = Algorithm::named(&header.alg).ok_or(NotATrueToken::Algorithm)?;
        if header.crit.is_some() {
            return Err(NotATrueToken::Algorithm);
        }
        let signature = octets(signature).ok_or(NotATrueToken::Shape)?;
        let mut suitable = self.0.iter().filter(|key| key.suits(algorithm, header.kid.as_deref())).peekable();
        if suitable.peek().is_none() {
            return Err(NotATrueToken::UnknownKey);
        }
        if suitable.any(|key| key.signed(algorithm, message.as_bytes(), &signature)) {
            json(claims)
        } else {
            Err(NotATrueToken::Signature)
        }
    }
}

fn json<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, NotATrueToken> {
    let octets = octets(part).ok_or(NotATrueToken::Shape)?;
    serde_json::from_slice(&octets).map_err(|_| NotATrueToken::Shape)
}

impl PublicKey {
    fn read(written: WrittenKey) -> Option<Self> {
        if written.r#use.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let part = |text: Option<String>| text.as_deref().and_then(octets);
        let material = match (&*written.kty, written.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: part(written.n)?, e: part(written.e)? },
            ("EC", Some("P-256")) => {
                // A point that is not compressed begins with a four.
                let point = [&[4][..], &part(written.x)?, &part(written.y)?].concat();
                Material::P256(ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).ok()?)
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(ParsedPublicKey::new(&ED25519, part(written.x)?).ok()?),
            _ => return None,
        };
        Some(PublicKey { id: written.kid, algorithm: written.alg, material })
    }

    /// Whether it is the key that a token names. One that names none may be signed by any.
    fn suits(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let is_of_the_kind = match algorithm {
            Algorithm::Es256 => matches!(self.material, Material::P256(_)),
            Algorithm::Rs256 | Algorithm::Ps256 => matches!(self.material, Material::Rsa { .. }),
            Algorithm::EdDsa => matches!(self.material, Material::Ed25519(_)),
        };
        let is_meant = id.is_none_or(|id| self.id.as_deref() == Some(id));
        is_of_the_kind && is_meant && self.algorithm.as_deref().is_none_or(|own| own == algorithm.as_str())
    }

    fn signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let outcome = match &self.material {
            Material::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                if algorithm == Algorithm::Ps256 {
                    key.verify(&RSA_PSS_2048_8192_SHA256, message, signature)
                } else {
                    key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                }
            }
            Material::P256(key) | Material::Ed25519(key) => key.verify_sig(message, signature),
        };
        outcome.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE_KEY: &[u8] =
        br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    proptest! {
        #[test]
        fn nothing_that_anybody_writes_is_believed(
            set in ".{0,200}",
            token in ".{0,200}",
            claims in "[A-Za-z0-9_-]{0,50}",
            signature in "[A-Za-z0-9_.-]{0,100}",
        ) {
            let _ = KeySet::parse(set.as_bytes());
            let keys = KeySet::parse(ONE_KEY).unwrap();
            prop_assert_eq!(keys.0.len(), 1);
            // The header says EdDSA.
            let signed = format!("eyJhbGciOiJFZERTQSJ9.{claims}.{signature}");
            for token in [token, signed] {
                prop_assert!(keys.verify(&token).is_err());
            }
        }
    }
}
