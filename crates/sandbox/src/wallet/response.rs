//! Responses of wallets: an issuer JWT and a binding JWT, in the format of SD-JWT without disclosures.

use aws_lc_rs::{
    digest::{SHA256, digest},
    error::Unspecified,
};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Forgery, request::CredentialRequest};
use crate::camara::random_token;

const ISSUER_TYPE: &str = "dc-authorization+sd-jwt";
const BINDING_TYPE: &str = "kb+jwt";
/// Lifetime of credentials, in seconds.
const CREDENTIAL_LIFETIME: i64 = 300;
/// Android's id of carriers that it does not know.
const ANDROID_UNKNOWN_CARRIER: i32 = -1;
/// Number of the SIM slot.
const SUBSCRIPTION: u32 = 1;
/// Origin of forged responses.
const OTHER_ORIGIN: &str = "https://other.example";

/// ES256 key.
#[derive(derive_more::Debug)]
#[debug("SigningKey")]
struct SigningKey {
    key: EncodingKey,
    pair: KeyPair,
}

impl SigningKey {
    fn generate() -> Result<Self, Unspecified> {
        let pair = KeyPair::generate().map_err(|_| Unspecified)?;
        Ok(SigningKey { key: EncodingKey::from_ec_der(pair.serialized_der()), pair })
    }

    fn public_jwk(&self) -> Result<Value, Unspecified> {
        let jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).map_err(|_| Unspecified)?;
        serde_json::to_value(&jwk.algorithm).map_err(|_| Unspecified)
    }

    fn sign(&self, header: Header, claims: &impl Serialize) -> Result<String, Unspecified> {
        encode(&Header { alg: Algorithm::ES256, ..header }, claims, &self.key).map_err(|_| Unspecified)
    }
}

/// Issuer of all credentials, with a self-signed certificate.
#[derive(Debug)]
pub(super) struct Issuer {
    key: SigningKey,
    certificate: String,
}

impl Issuer {
    pub(super) fn generate() -> Result<Self, Unspecified> {
        let key = SigningKey::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "Simulated issuer of credentials");
        let certificate = parameters.self_signed(&key.pair).map_err(|_| Unspecified)?;
        Ok(Issuer { key, certificate: BASE64_STANDARD.encode(certificate.der()) })
    }
}

/// Content of a response.
pub(super) struct Response<'a> {
    pub request: &'a CredentialRequest,
    pub operator_token: &'a str,
    pub origin: &'a str,
    /// MCC and MNC of the SIM's network.
    pub carrier: &'a str,
    pub forgery: Option<Forgery>,
    pub now: i64,
}

impl Response<'_> {
    /// Builds the `data` of the response.
    pub(super) fn build(&self, issuer: &Issuer, issuer_name: &str) -> Result<Value, Unspecified> {
        let device_key = SigningKey::generate()?;
        let other_key = SigningKey::generate()?;
        let forged = |forgery, genuine, other| if self.forgery == Some(forgery) { other } else { genuine };

        let issuer_header = Header {
            typ: Some(ISSUER_TYPE.to_owned()),
            x5c: Some(vec![issuer.certificate.clone()]),
            ..Header::new(Algorithm::ES256)
        };
        let issuer_claims = json!({
            "iss": issuer_name,
            "vct": self.request.credential_type,
            "cnf": { "jwk": device_key.public_jwk()? },
            "iat": self.now,
            "exp": self.now + CREDENTIAL_LIFETIME,
        });
        let issuer_key = forged(Forgery::IssuerSignature, &issuer.key, &other_key);
        let issuer_jwt = format!("{}~", issuer_key.sign(issuer_header, &issuer_claims)?);

        let binding_header = Header { typ: Some(BINDING_TYPE.to_owned()), ..Header::new(Algorithm::ES256) };
        let binding_claims = self.binding_claims(&issuer_jwt)?;
        let binding_key = forged(Forgery::BindingSignature, &device_key, &other_key);
        let binding_jwt = binding_key.sign(binding_header, &binding_claims)?;
        Ok(json!({ "vp_token": { self.request.id.as_str(): [issuer_jwt + &binding_jwt] } }))
    }

    fn binding_claims(&self, issuer_jwt: &str) -> Result<Value, Unspecified> {
        let random = random_token()?;
        let forged = |forgery, genuine, other| if self.forgery == Some(forgery) { other } else { genuine };
        let message = json!({ "temp_token": forged(Forgery::OperatorToken, self.operator_token, &random) });
        let mut claims = json!({
            "iat": self.now,
            "aud": forged(Forgery::Audience, self.origin, OTHER_ORIGIN),
            "nonce": forged(Forgery::Nonce, &self.request.nonce, &random),
            "sd_hash": hash(issuer_jwt),
            "consent_data_hash": hash(&self.request.consent_data),
            "encrypted_credential": self.request.encryption_key.encrypt(message.to_string().as_bytes())?,
            "subscription_hint": SUBSCRIPTION,
            "carrier_hint": self.carrier,
            "android_carrier_hint": ANDROID_UNKNOWN_CARRIER,
        });
        if let Some(state) = &self.request.state {
            claims["state"] = json!(state);
        }
        Ok(claims)
    }
}

fn hash(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}
