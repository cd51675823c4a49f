//! Answers of phones' wallets.

use std::sync::LazyLock;

use aws_lc_rs::{
    agreement::{ECDH_P256, PrivateKey},
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use jiff::Timestamp;
use ringtrue_domain::lifecycle::CheckId;
use ringtrue_engine::ports::operator_tokens::{CredentialKey, CredentialResponse, DigitalCredential};
use ringtrue_operators::operator_token::{ConsentData, CredentialVerifier};
use serde_json::{Value, json};

use crate::{Target, input_reader::InputReader};

/// `CredentialVerifier`: no panics, and an answer is accepted only for its own request.
pub const OPERATOR_TOKEN: Target = Target { name: "operator_token", run, seeds, short_run_inputs: 3_000 };

/// An answer of a simulated wallet that was made with another library, and the request's nonce and key.
const CREDENTIAL: &str = "eyJhbGciOiJFUzI1NiIsInR5cCI6ImRjLWF1dGhvcml6YXRpb24rc2Qtand0IiwieDVjIjpbIk1Ga3dFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRStSYTdGZ0xVeUhOUkJmZ2FZZ2VpNHZ1Q0FpenB1UXRIVjM4ejRMeTV4Szl6N2llRlNvTU1SaVl2cHR6b1doWEp0NTZlRzZVQWY2dHFxUmJsRCtWc3lBPT0iXX0.eyJpc3MiOiJUZWxlcGhvbnkiLCJ2Y3QiOiJudW1iZXItdmVyaWZpY2F0aW9uL3ZlcmlmeS90czQzIiwiY25mIjp7Imp3ayI6eyJrdHkiOiJFQyIsIngiOiJ4VXpneHlUYlVCR2ZteWJ4WUZocVR2VDIyUFY4dU9PYXBrbnV2M0hKUURNIiwieSI6IkNuc0tHdVdNT2F5Y2ZWU0FnTTR5cTZNTGxMeG1OdEJ2dC1nc2F0aXc0ZWMiLCJjcnYiOiJQLTI1NiJ9fSwiaWF0IjoxNzk0ODczNjAwLCJleHAiOjE3OTQ4NzM5MDB9.ucIDMyqXYPMts4yjOTTPwC6Xy0FDaCGzjPPyKrIkB2yyl4I042sKSEMruqCxlhk4OR5I9B4bNYyKFqUsZVPtdg~eyJhbGciOiJFUzI1NiIsInR5cCI6ImtiK2p3dCJ9.eyJpYXQiOjE3OTQ4NzM2MDAsImF1ZCI6Imh0dHBzOi8vdmVyaWZ5LmV4YW1wbGUuY29tIiwibm9uY2UiOiJEeUNjTng3R2lDM1VrWURLckhNTC1md3FWbF81bEI5aGRkOUFIUm9Ub1hJIiwiZW5jcnlwdGVkX2NyZWRlbnRpYWwiOiJleUpoYkdjaU9pSkZRMFJJTFVWVElpd2laVzVqSWpvaVFURXlPRWREVFNJc0ltdHBaQ0k2SWpFaUxDSmxjR3NpT25zaWVDSTZJakp1ZVhBeU5HMVFVR3BLZG5VMFh6bDJYelZ2V2w5eVUzSldOWEIzWTBoeGMycDRNR1ZrUVd0Rloxa2lMQ0pqY25ZaU9pSlFMVEkxTmlJc0ltdDBlU0k2SWtWRElpd2llU0k2SW1sS2NVWk5lVjl3ZUVzNWNVUTVjbWg0VUVwR1lsOTZkME5JVVhoaVMyNTJkamxYTFhkQ05GTjRRa1VpZlgwLi5odmNWU0syVzFxVzV0b092LmIzLUZPenVBQTRsbnZTdDNZOFg5LUhodW5NQTlpY2NSczMwSW9BYWRndXcuZnIzZ0JyR3NGbm9Kc1B4SVRLd0JKZyIsImNvbnNlbnRfZGF0YV9oYXNoIjoibkZMTW1IQjE0LTJkcHNsN1F5NnpLeHh0bHJJdUVWaTRhTTBpOUpTTDBBNCIsInN0YXRlIjoic3QtMSIsInNkX2hhc2giOiJRR2h5Zm90NjFGZ1BrS1hDNnlGUV94N1hxalVZbGs2aGhQSWNvMktLZ29nIiwic3Vic2NyaXB0aW9uX2hpbnQiOjEsImNhcnJpZXJfaGludCI6IjMxMDI1MCIsImFuZHJvaWRfY2Fycmllcl9oaW50IjozfQ.fj4IS4950cX5EZpcjrV6gECPjZ4AYEHf_MuF7EXOC8sFc8p7CaXuZm1gRO6K3yy5dgK8WTNWjbdwkIgV17qb7g";
const NONCE: &str = "DyCcNx7GiC3UkYDKrHML-fwqVl_5lB9hdd9AHRoToXI";
const PRIVATE_KEY: &str = "oAQnmqCRKo7RYWvpMWxrZ82_QCxqsrBCUhpVzg4uKbQ";
/// The encrypted token of that answer.
const ENCRYPTED_TOKEN: &str = "eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTEyOEdDTSIsImtpZCI6IjEiLCJlcGsiOnsieCI6IjJueXAyNG1QUGpKdnU0Xzl2XzVvWl9yU3JWNXB3Y0hxc2p4MGVkQWtFZ1kiLCJjcnYiOiJQLTI1NiIsImt0eSI6IkVDIiwieSI6ImlKcUZNeV9weEs5cUQ5cmh4UEpGYl96d0NIUXhiS252djlXLXdCNFN4QkUifX0..hvcVSK2W1qW5toOv.b3-FOzuAA4lnvSt3Y8X9-HhunMA9iccRs30IoAadguw.fr3gBrGsFnoJsPxITKwBJg";
const NOW: i64 = 1_794_873_600;
const ORIGIN: &str = "https://verify.example.com";
/// Stands for the digest of the issuer's JWT, which is known only after signing.
const DIGEST_PLACEHOLDER: &str = "SD_HASH";

/// Signs as the issuer and as the phone, so that inputs reach the code behind the signatures.
static SIGNER: LazyLock<EcdsaKeyPair> = LazyLock::new(|| {
    let key = PrivateKey::from_private_key(&ECDH_P256, &[1; 32]).unwrap();
    let point = key.compute_public_key().unwrap();
    EcdsaKeyPair::from_private_key_and_public_key(&ECDSA_P256_SHA256_FIXED_SIGNING, &[1; 32], point.as_ref()).unwrap()
});

static VERIFIER: LazyLock<CredentialVerifier> = LazyLock::new(|| {
    let text = "Ringtrue asks your operator for the number of this phone.";
    let policy = "https://verify.example.com/privacy".parse().unwrap();
    CredentialVerifier::new(&ConsentData::new(text, &policy, "Privacy"))
});

fn base64url(octets: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(octets)
}

/// The first octet selects the rest: a credential, the data of an answer, or the lines of an unsigned credential.
fn seeds() -> Vec<Vec<u8>> {
    let answer = answer(CREDENTIAL).to_string();
    let lines = unsigned_credential().join("\n");
    let short = lines.replace("\"exp\"", "\"x5c\":[],\"exp\"");
    [(0, CREDENTIAL), (1, &answer), (2, &lines), (2, &short), (0, "e30.e30.e30~e30.e30.e30"), (1, "{}")]
        .map(|(kind, rest)| [&[kind], rest.as_bytes()].concat())
        .to_vec()
}

/// Header and claims of the issuer, and of the phone.
fn unsigned_credential() -> [String; 4] {
    let point = SIGNER.public_key().as_ref();
    let prefix = BASE64_STANDARD.decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=").unwrap();
    let bare_key = BASE64_STANDARD.encode([&prefix, point].concat());
    let jwk = json!({ "kty": "EC", "crv": "P-256", "x": base64url(&point[1..33]), "y": base64url(&point[33..]) });
    let consent_data_hash = "nFLMmHB14-2dpsl7Qy6zKxxtlrIuEVi4aM0i9JSL0A4";
    [
        json!({ "alg": "ES256", "typ": "dc-authorization+sd-jwt", "x5c": [bare_key] }),
        json!({ "vct": "number-verification/verify/ts43", "cnf": { "jwk": jwk }, "exp": NOW + 300 }),
        json!({ "alg": "ES256", "typ": "kb+jwt" }),
        json!({
            "aud": ORIGIN,
            "nonce": NONCE,
            "sd_hash": DIGEST_PLACEHOLDER,
            "consent_data_hash": consent_data_hash,
            "encrypted_credential": ENCRYPTED_TOKEN,
            "carrier_hint": "310250",
        }),
    ]
    .map(|part| part.to_string())
}

fn sign(header: &str, claims: &str) -> String {
    let signed = format!("{}.{}", base64url(header), base64url(claims));
    let signature = SIGNER.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", base64url(signature))
}

/// Signs the lines of [`unsigned_credential`].
fn sign_credential([issuer_header, issuer_claims, header, claims]: [&str; 4]) -> String {
    let issuer = sign(issuer_header, issuer_claims);
    let sd_hash = base64url(digest(&SHA256, format!("{issuer}~").as_bytes()));
    format!("{issuer}~{}", sign(header, &claims.replace(DIGEST_PLACEHOLDER, &sd_hash)))
}

fn answer(credential: &str) -> Value {
    json!({ "vp_token": { "ringtrue": [credential] } })
}

fn run(data: &[u8]) {
    let mut input = InputReader::new(data);
    let kind = input.octet() % 3;
    let text = String::from_utf8_lossy(input.rest());
    let data = match kind {
        0 => answer(&text),
        1 => match serde_json::from_str(&text) {
            Ok(data) => data,
            Err(_) => return,
        },
        _ => {
            let mut lines = text.split('\n');
            let mut next = || lines.next().unwrap_or_default();
            answer(&sign_credential([next(), next(), next(), next()]))
        }
    };
    check(&DigitalCredential { protocol: "openid4vp-v1-unsigned".to_owned(), data });
}

/// Returns whether the answer is valid.
fn check(credential: &DigitalCredential) -> bool {
    let key: [u8; 32] = BASE64_URL_SAFE_NO_PAD.decode(PRIVATE_KEY).unwrap().try_into().unwrap();
    let verify = |nonce: &str, origin: &str, key: [u8; 32], second: i64| {
        VERIFIER.verify(&CredentialResponse {
            check: "0199d2c4-7a5e-7c3a-9d2f-1b2c3d4e5f60".parse::<CheckId>().unwrap(),
            nonce,
            key: &CredentialKey::new(key),
            origins: &[origin],
            credential,
            now: Timestamp::from_second(second).unwrap(),
        })
    };
    let Ok(token) = verify(NONCE, ORIGIN, key, NOW) else { return false };
    assert_eq!(token.temporary_token.as_str(), "TEMP-TOKEN-0001", "only this token is encrypted with the key");
    assert_eq!(CredentialVerifier::stated_nonce(credential).as_deref(), Some(NONCE));
    assert!(verify("other", ORIGIN, key, NOW).is_err(), "accepted for another nonce");
    assert!(verify(NONCE, "https://other.example", key, NOW).is_err(), "accepted at another origin");
    assert!(verify(NONCE, ORIGIN, [2; 32], NOW).is_err(), "decrypted with another key");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_valid() {
        let is_valid = |credential: &str| {
            check(&DigitalCredential { protocol: "openid4vp-v1-unsigned".to_owned(), data: answer(credential) })
        };
        assert!(is_valid(CREDENTIAL));
        assert!(is_valid(&sign_credential(unsigned_credential().each_ref().map(String::as_str))));
        assert!(!is_valid(&CREDENTIAL.replace('~', "")));
    }
}
