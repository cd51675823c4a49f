//! A phone's wallet, written independently of the verifier: own signatures, own encryption.

use aws_lc_rs::{
    aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    agreement::{self, ECDH_P256, PrivateKey, UnparsedPublicKey},
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use ringtrue_engine::ports::operator_tokens::DigitalCredential;
use serde_json::{Value, json};

pub const TEMPORARY_TOKEN: &str = "temporary-token-of-the-sim";
pub const ORIGIN: &str = "https://verify.example.com";

pub fn base64url(octets: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(octets)
}

pub fn sha256(text: &str) -> String {
    base64url(digest(&SHA256, text.as_bytes()))
}

pub fn decode(part: &str) -> Value {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// Returns header and payload of a JWT.
pub fn decode_jwt(token: &str) -> (Value, Value) {
    let parts: Vec<_> = token.split('.').collect();
    (decode(parts[0]), decode(parts[1]))
}

pub fn new_key() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()
}

pub fn jwk(point: &[u8]) -> Value {
    json!({ "kty": "EC", "crv": "P-256", "x": base64url(&point[1..33]), "y": base64url(&point[33..]) })
}

fn sign(header: &Value, payload: &Value, key: &EcdsaKeyPair) -> String {
    let signed = format!("{}.{}", base64url(header.to_string()), base64url(payload.to_string()));
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", base64url(signature))
}

/// Public key without a certificate, as Android's wallet sends it.
pub fn bare_key(key: &EcdsaKeyPair) -> String {
    /// `SubjectPublicKeyInfo` up to the point.
    const PREFIX: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=";
    let prefix = BASE64_STANDARD.decode(PREFIX).unwrap();
    BASE64_STANDARD.encode([&prefix, key.public_key().as_ref()].concat())
}

/// An answer before it is sealed. Tests change its parts.
pub struct Draft {
    pub protocol: &'static str,
    pub id: &'static str,
    pub issuer_header: Value,
    pub issuer_claims: Value,
    pub issuer: EcdsaKeyPair,
    pub binding_header: Value,
    /// Without `sd_hash` and `encrypted_credential`, the wallet adds the right ones.
    pub binding_claims: Value,
    pub phone: EcdsaKeyPair,
    /// Without `epk`, the wallet adds the one with which it encrypts.
    pub jwe_header: Value,
    pub jwe_party_names: [&'static [u8]; 2],
    pub jwe_key: Vec<u8>,
    pub plaintext: Vec<u8>,
    /// Changes the parts of the JWE after encryption.
    pub change_jwe: fn(&mut [String; 5]),
    /// Changes the credential after everything is signed.
    pub change_credential: fn(String) -> String,
    /// Changes `vp_token`.
    pub change_answer: fn(&mut Value),
}

impl Draft {
    /// Drafts the answer to a request.
    pub fn new(request: &DigitalCredential, now: i64) -> Self {
        let credential = &request.data["dcql_query"]["credentials"][0];
        let (_, authorization) = decode_jwt(credential["meta"]["credential_authorization_jwt"].as_str().unwrap());
        let (issuer, phone) = (new_key(), new_key());
        let encryption = &authorization["jwks"]["keys"][0];
        let point = ["x", "y"].map(|name| BASE64_URL_SAFE_NO_PAD.decode(encryption[name].as_str().unwrap()).unwrap());
        Draft {
            protocol: "openid4vp-v1-unsigned",
            id: "ringtrue",
            issuer_header: json!({ "alg": "ES256", "typ": "dc-authorization+sd-jwt", "x5c": [bare_key(&issuer)] }),
            issuer_claims: json!({
                "iss": "Telephony",
                "vct": credential["meta"]["vct_values"][0],
                "cnf": { "jwk": jwk(phone.public_key().as_ref()) },
                "iat": now,
                "exp": now + 300,
            }),
            issuer,
            binding_header: json!({ "alg": "ES256", "typ": "kb+jwt" }),
            binding_claims: json!({
                "iat": now,
                "aud": ORIGIN,
                "nonce": request.data["nonce"],
                "consent_data_hash": sha256(authorization["consent_data"].as_str().unwrap()),
                "subscription_hint": 1,
                "carrier_hint": "23420",
                "android_carrier_hint": 3,
            }),
            phone,
            jwe_header: json!({ "alg": "ECDH-ES", "enc": "A128GCM", "kid": encryption["kid"] }),
            jwe_party_names: [b"", b""],
            jwe_key: [&[4][..], &point[0], &point[1]].concat(),
            plaintext: json!({ "temp_token": TEMPORARY_TOKEN }).to_string().into_bytes(),
            change_jwe: |_| {},
            change_credential: |credential| credential,
            change_answer: |_| {},
        }
    }

    pub fn seal(mut self) -> DigitalCredential {
        let issuer_jwt = sign(&self.issuer_header, &self.issuer_claims, &self.issuer);
        let encrypted = self.encrypt();
        let claims = self.binding_claims.as_object_mut().unwrap();
        claims.entry("encrypted_credential").or_insert(json!(encrypted));
        claims.entry("sd_hash").or_insert(json!(sha256(&format!("{issuer_jwt}~"))));
        let binding_jwt = sign(&self.binding_header, &self.binding_claims, &self.phone);
        let credential = (self.change_credential)(format!("{issuer_jwt}~{binding_jwt}"));
        let mut answer = json!({ self.id: [credential] });
        (self.change_answer)(&mut answer);
        DigitalCredential { protocol: self.protocol.to_owned(), data: json!({ "vp_token": answer }) }
    }

    fn encrypt(&mut self) -> String {
        let ephemeral = PrivateKey::generate(&ECDH_P256).unwrap();
        let point = ephemeral.compute_public_key().unwrap();
        let header = self.jwe_header.as_object_mut().unwrap();
        header.entry("epk").or_insert(jwk(point.as_ref()));
        let header = base64url(self.jwe_header.to_string());
        let [apu, apv] = self.jwe_party_names;
        let peer = UnparsedPublicKey::new(&ECDH_P256, &self.jwe_key);
        let key = agreement::agree(&ephemeral, peer, (), |secret| {
            let name = |octets: &[u8]| [&u32::try_from(octets.len()).unwrap().to_be_bytes(), octets].concat();
            let input =
                [&[0, 0, 0, 1][..], secret, &name(b"A128GCM"), &name(apu), &name(apv), &[0, 0, 0, 128]].concat();
            Ok(digest(&SHA256, &input).as_ref()[..16].to_vec())
        });
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key.unwrap()).unwrap());
        let (nonce, mut sealed) = ([7; 12], self.plaintext.clone());
        let aad = Aad::from(header.as_bytes());
        let tag = key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).unwrap();
        let mut parts = [header.clone(), String::new(), base64url(nonce), base64url(&sealed), base64url(tag)];
        (self.change_jwe)(&mut parts);
        parts.join(".")
    }
}
