//! Verifies the JWTs that clients sign, and signs the operator's ID tokens.

use aws_lc_rs::{
    error::Unspecified,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, TokenData, crypto,
    dangerous::insecure_decode,
    encode,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse, ThumbprintHash},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// Signature algorithms accepted in client assertions and request objects.
pub(super) const CLIENT_SIGNING_ALGORITHMS: [Algorithm; 4] =
    [Algorithm::ES256, Algorithm::RS256, Algorithm::PS256, Algorithm::EdDSA];

/// Length of an uncompressed point on P-256: `0x04` and both coordinates.
const P256_POINT_OCTETS: usize = 65;

pub(super) type Claims = Map<String, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("unsupported key; use a JWK of type EC on P-256, RSA of at least 2048 bits, or OKP on Ed25519")]
pub struct InvalidJwk;

/// Public keys of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientKeys(Vec<Jwk>);

impl ClientKeys {
    /// Parses a JWK or a JWK set. Skips encryption keys.
    pub(super) fn parse(json: &Value) -> Result<Self, InvalidJwk> {
        let keys = match json.get("keys") {
            Some(keys) => keys.as_array().ok_or(InvalidJwk)?.as_slice(),
            None => std::slice::from_ref(json),
        };
        let for_signing = keys.iter().filter(|key| key.get("use").is_none_or(|purpose| purpose == "sig"));
        let parse = |key: &Value| serde_json::from_value(key.clone()).ok().filter(is_supported).ok_or(InvalidJwk);
        Ok(Self(for_signing.map(parse).collect::<Result<_, _>>()?))
    }
}

fn is_supported(jwk: &Jwk) -> bool {
    let Ok(key) = DecodingKey::from_jwk(jwk) else { return false };
    match &jwk.algorithm {
        AlgorithmParameters::EllipticCurve(parameters) => {
            parameters.curve == EllipticCurve::P256
                && key.try_get_as_bytes().is_ok_and(|point| point.len() == P256_POINT_OCTETS)
        }
        AlgorithmParameters::OctetKeyPair(parameters) => parameters.curve == EllipticCurve::Ed25519,
        AlgorithmParameters::RSA(_) => true,
        _ => false,
    }
}

/// A parsed JWT whose signature is not verified yet. `Debug` hides the claims, which may contain a phone number.
#[derive(derive_more::Debug)]
#[debug("Jws({:?})", header.alg)]
pub(super) struct Jws<'a> {
    compact: &'a str,
    header: Header,
    claims: Claims,
}

impl<'a> Jws<'a> {
    pub(super) fn parse(compact: &'a str) -> Option<Self> {
        let TokenData { header, claims } = insecure_decode(compact).ok()?;
        // A token with critical extensions (`crit`) is rejected, because none is supported.
        header.crit.is_none().then_some(Self { compact, header, claims })
    }

    /// Returns `iss`, which is not verified yet.
    pub(super) fn claimed_issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// Returns the claims, if one of the keys verifies the signature.
    pub(super) fn verify_with(self, keys: &ClientKeys) -> Option<Claims> {
        keys.0.iter().any(|key| self.is_signed_by(key)).then_some(self.claims)
    }

    fn is_signed_by(&self, key: &Jwk) -> bool {
        let Header { alg, kid, .. } = &self.header;
        let may_match = CLIENT_SIGNING_ALGORITHMS.contains(alg)
            && (kid.is_none() || key.common.key_id.is_none() || key.common.key_id == *kid)
            && key.common.key_algorithm.is_none_or(|only| only == KeyAlgorithm::from(*alg));
        let (Some((message, signature)), Ok(key), true) =
            (self.compact.rsplit_once('.'), DecodingKey::from_jwk(key), may_match)
        else {
            return false;
        };
        crypto::verify(signature, message.as_bytes(), &key, *alg).unwrap_or(false)
    }
}

/// ES256 key for ID tokens. The operator generates its key at start.
#[derive(derive_more::Debug)]
#[debug("SigningKey({:?})", header.kid)]
pub(super) struct SigningKey {
    key: EncodingKey,
    header: Header,
    jwk: Jwk,
}

impl SigningKey {
    pub(super) fn generate() -> Result<Self, Unspecified> {
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())?;
        let key = EncodingKey::from_ec_der(pair.as_ref());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).map_err(|_| Unspecified)?;
        let kid = jwk.thumbprint(ThumbprintHash::SHA256).map_err(|_| Unspecified)?;
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        jwk.common.key_id = Some(kid.clone());
        Ok(Self { key, header: Header { kid: Some(kid), ..Header::new(Algorithm::ES256) }, jwk })
    }

    /// Takes the `kid` of another key. Clients then verify this key's signatures with the other key, and reject them.
    pub(super) fn with_kid_of(self, other: &Self) -> Self {
        Self { header: other.header.clone(), ..self }
    }

    /// Returns the public key as a JWK set.
    pub(super) fn jwks(&self) -> Value {
        json!({ "keys": [self.jwk] })
    }

    pub(super) fn sign(&self, claims: &impl Serialize) -> Result<String, Unspecified> {
        encode(&self.header, claims, &self.key).map_err(|_| Unspecified)
    }
}
