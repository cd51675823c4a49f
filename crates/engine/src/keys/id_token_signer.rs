//! Keys that sign ID tokens (OpenID Connect Core, section 2).

use aws_lc_rs::{
    digest,
    encoding::{AsDer as _, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::{KeySize, PublicKeyComponents},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_domain::sign_in::IdTokenAlgorithm;
use serde_json::{Value, json};
use zeroize::Zeroizing;

/// Value of the member `use_mode` in the published key. Verifiers of callbacks skip keys with a `use_mode` that they do
/// not know, so no signature by these keys is accepted for a callback. OpenID clients ignore unknown members.
const USE_MODE: &str = "id_token";

/// A key pair that signs ID tokens.
#[derive(derive_more::Debug)]
#[debug("IdTokenSigner({algorithm})")]
pub struct IdTokenSigner {
    algorithm: IdTokenAlgorithm,
    /// The encoded JWT header.
    header: String,
    pair: SigningPair,
    jwk: Value,
}

enum SigningPair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

impl IdTokenSigner {
    /// Generates a key in PKCS#8.
    ///
    /// # Panics
    /// If the system has no randomness.
    #[expect(clippy::expect_used, reason = "generation fails only without randomness: the process must stop")]
    pub fn generate_pkcs8(algorithm: IdTokenAlgorithm) -> Zeroizing<Vec<u8>> {
        match algorithm {
            IdTokenAlgorithm::Rs256 => {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("RSA key generation succeeds");
                let der: Pkcs8V1Der<'_> = pair.as_der().expect("an RSA key has a PKCS#8 form");
                Zeroizing::new(der.as_ref().to_vec())
            }
            IdTokenAlgorithm::Es256 => {
                let generated = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
                Zeroizing::new(generated.expect("EC key generation succeeds").as_ref().to_vec())
            }
        }
    }

    /// Loads a key. `None`: `der` is not a key of this algorithm in PKCS#8.
    pub fn from_pkcs8(algorithm: IdTokenAlgorithm, der: &[u8]) -> Option<Self> {
        let (pair, canonical, mut jwk) = match algorithm {
            IdTokenAlgorithm::Rs256 => {
                let pair = RsaKeyPair::from_pkcs8(der).ok()?;
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                let (n, e) = (BASE64_URL_SAFE_NO_PAD.encode(n), BASE64_URL_SAFE_NO_PAD.encode(e));
                // RFC 7638 hashes the required members in lexicographic order, without white space.
                let canonical = format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#);
                (SigningPair::Rsa(pair), canonical, json!({"kty": "RSA", "n": n, "e": e}))
            }
            IdTokenAlgorithm::Es256 => {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?;
                // An uncompressed point: 4, and two coordinates of 32 bytes.
                let (x, y) = pair.public_key().as_ref().get(1..65)?.split_at(32);
                let (x, y) = (BASE64_URL_SAFE_NO_PAD.encode(x), BASE64_URL_SAFE_NO_PAD.encode(y));
                let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
                (SigningPair::Ec(pair), canonical, json!({"kty": "EC", "crv": "P-256", "x": x, "y": y}))
            }
        };
        let kid = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, canonical.as_bytes()));
        jwk["kid"] = kid.as_str().into();
        jwk["use"] = "sig".into();
        jwk["alg"] = algorithm.as_str().into();
        jwk["use_mode"] = USE_MODE.into();
        let header = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{algorithm}","typ":"JWT","kid":"{kid}"}}"#));
        Some(IdTokenSigner { algorithm, header, pair, jwk })
    }

    pub fn algorithm(&self) -> IdTokenAlgorithm {
        self.algorithm
    }

    /// The public key, as published.
    pub fn jwk(&self) -> &Value {
        &self.jwk
    }

    /// Signs the claims, and returns the token.
    ///
    /// # Panics
    /// If memory allocation fails.
    #[expect(clippy::expect_used, reason = "signing with a parsed key fails only without memory or randomness")]
    pub fn sign(&self, claims: &Value) -> String {
        let mut token = format!("{}.{}", self.header, BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = match &self.pair {
            SigningPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), token.as_bytes(), &mut signature)
                    .expect("RSA signing succeeds");
                signature
            }
            SigningPair::Ec(pair) => {
                let signature = pair.sign(&SystemRandom::new(), token.as_bytes()).expect("EC signing succeeds");
                signature.as_ref().to_vec()
            }
        };
        token.push('.');
        BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;
    use crate::jwt::KeySet;

    #[test]
    fn tokens_are_accepted_by_another_library() {
        for &algorithm in IdTokenAlgorithm::VARIANTS {
            let signer = IdTokenSigner::from_pkcs8(algorithm, &IdTokenSigner::generate_pkcs8(algorithm)).unwrap();
            let token = signer.sign(&json!({"sub": "s"}));
            let keys = KeySet::parse(json!({"keys": [signer.jwk()]}).to_string().as_bytes()).unwrap();
            assert_eq!(keys.verify(&token).unwrap()["sub"], "s", "{algorithm}");
            let other = IdTokenSigner::from_pkcs8(algorithm, &IdTokenSigner::generate_pkcs8(algorithm)).unwrap();
            assert!(keys.verify(&other.sign(&json!({"sub": "s"}))).is_err(), "{algorithm}");
        }
    }

    #[test]
    fn callback_verifiers_ignore_the_keys() {
        let signer = IdTokenAlgorithm::Rs256;
        let signer = IdTokenSigner::from_pkcs8(signer, &IdTokenSigner::generate_pkcs8(signer)).unwrap();
        let document = json!({"keys": [signer.jwk()]}).to_string();
        assert!(ringtrue_callback_signature::parse_jwks(&document).unwrap().is_empty());
    }
}
