//! Operator tokens: requests to wallets, verification of their answers, and the exchange with the operator.

use std::{
    env, fs,
    io::{Write as _, stderr},
};

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use jiff::Timestamp;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, product::Product};
use ringtrue_engine::ports::{
    clock::Clock,
    operator_tokens::{CredentialKey, CredentialRequest, CredentialResponse, DigitalCredential, OperatorTokenVerifier},
    silent::SilentConnector,
};
use ringtrue_operators::camara::{
    Algorithm, Audience, BreakerState, CamaraConfig, ConsentData, CredentialVerifier, LoginHintFormat,
    OperatorTokenConfig, OperatorTokenFlow, WalletRequestSigner, WalletRequestSignerError,
};
use serde_json::{Value, json};
use url::Url;

use super::{
    fake_operator::{
        BACKCHANNEL, FakeOperator, ScriptedResponse, ScriptedResponse::Json, TOKEN, VERIFY, token_response,
    },
    fixture::{Fixture, check, number},
    keys::Key,
    wallet::{Draft, ORIGIN, TEMPORARY_TOKEN, bare_key, base64url, decode, decode_jwt, new_key, sha256},
};

const NONCE: &str = "nonce-of-the-request_0123456789";
const APP: &str = "android:apk-key-hash:rX6oPq0";
const ISSUER: &str = "https://ringtrue.example";

fn credential_key() -> CredentialKey {
    CredentialKey::new([9; 32])
}

/// Why an answer led to no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerError {
    Invalid(&'static str),
    /// The SIM belongs to a network of another connector.
    OtherNetwork,
    Operator(ErrorCode),
}

/// A certificate with its key.
struct Certified {
    certificate: Certificate,
    params: CertificateParams,
    key: KeyPair,
}

impl Certified {
    fn new(name: &str, is_ca: bool, valid: [i32; 2], issuer: Option<&Certified>) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = if is_ca { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::NoCa };
        [params.not_before, params.not_after] = valid.map(|year| date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().unwrap();
        let certificate = match issuer {
            None => params.self_signed(&key).unwrap(),
            Some(issuer) => params.signed_by(&key, &Issuer::from_params(&issuer.params, &issuer.key)).unwrap(),
        };
        Certified { certificate, params, key }
    }

    fn root() -> Self {
        Certified::new("root", true, [2026, 2046], None)
    }

    fn x5c(&self) -> String {
        BASE64_STANDARD.encode(self.certificate.der())
    }
}

fn signer() -> WalletRequestSigner {
    let root = Certified::root();
    let leaf = Certified::new("ringtrue.example", false, [2026, 2036], Some(&root));
    let pem = leaf.certificate.pem() + &root.certificate.pem();
    WalletRequestSigner::from_pem(pem.as_bytes(), leaf.key.serialize_pem().as_bytes()).unwrap()
}

fn config(flow: OperatorTokenFlow) -> OperatorTokenConfig {
    let policy = Url::parse("https://ringtrue.example/privacy").unwrap();
    OperatorTokenConfig::new(flow, ISSUER, signer(), ConsentData::new("May we ask?", &policy, "Privacy"))
}

fn use_tokens(flow: OperatorTokenFlow) -> impl FnOnce(&mut CamaraConfig, &FakeOperator) {
    |camara, _| {
        camara.networks = vec!["23420".parse().unwrap()];
        camara.operator_tokens = Some(config(flow));
    }
}

fn jwt_bearer(key: &Key, audience: Audience) -> OperatorTokenFlow {
    OperatorTokenFlow::JwtBearer { key: key.signing(), audience }
}

impl Fixture {
    pub async fn with_tokens() -> Self {
        Fixture::with(use_tokens(jwt_bearer(&Key::new(Algorithm::ES256, "ours"), Audience::Endpoint))).await
    }

    fn verifier(&self) -> &dyn OperatorTokenVerifier {
        self.camara.operator_token_verifier().unwrap()
    }

    fn request(&self) -> DigitalCredential {
        self.request_with_hint(Some(&number()))
    }

    fn request_with_hint(&self, number_hint: Option<&Msisdn>) -> DigitalCredential {
        let (key, now) = (credential_key(), self.clock.now());
        let request = CredentialRequest { check: check(), number_hint, nonce: NONCE, key: &key, now };
        self.verifier().credential_request(request).unwrap()
    }

    pub fn draft(&self) -> Draft {
        Draft::new(&self.request(), self.clock.now().as_second())
    }

    pub async fn answer(&self, draft: Draft) -> Result<bool, AnswerError> {
        self.answer_credential(&draft.seal()).await
    }

    async fn answer_credential(&self, credential: &DigitalCredential) -> Result<bool, AnswerError> {
        let (key, origins, now) = (credential_key(), [ORIGIN, APP], self.clock.now());
        let (check, key, origins) = (check(), &key, &origins[..]);
        let response = CredentialResponse { check, nonce: NONCE, key, origins, credential, now };
        let token = self.verifier().verify_credential(&response).map_err(AnswerError::Invalid)?;
        if token.carrier.is_some_and(|carrier| self.verifier().network_of_carrier(&carrier).is_none()) {
            return Err(AnswerError::OtherNetwork);
        }
        let matched = self.verifier().verify_number_with_token(check, &number(), &token.temporary_token).await;
        matched.map_err(AnswerError::Operator)
    }
}

#[tokio::test]
async fn request_is_signed_for_the_wallet() {
    let root = Certified::root();
    let leaf = Certified::new("ringtrue.example", false, [2026, 2036], Some(&root));
    let pem = leaf.certificate.pem() + &root.certificate.pem();
    let signer = WalletRequestSigner::from_pem(pem.as_bytes(), leaf.key.serialize_pem().as_bytes()).unwrap();
    let fixture = Fixture::with(|camara, operator| {
        use_tokens(OperatorTokenFlow::Ciba)(camara, operator);
        camara.operator_tokens.as_mut().unwrap().signer = signer;
    })
    .await;
    let DigitalCredential { protocol, mut data } = fixture.request();
    assert_eq!(protocol, "openid4vp-v1-unsigned");
    let authorization = data["dcql_query"]["credentials"][0]["meta"]["credential_authorization_jwt"].take();
    let authorization = authorization.as_str().unwrap();
    assert_eq!(
        data,
        json!({
            "response_type": "vp_token",
            "response_mode": "dc_api",
            "nonce": NONCE,
            "dcql_query": { "credentials": [{
                "id": "ringtrue",
                "format": "dc-authorization+sd-jwt",
                "meta": {
                    "vct_values": ["number-verification/verify/ts43"],
                    "credential_authorization_jwt": null,
                },
                "claims": [{ "path": ["phone_number_hint"], "values": ["+447700900123"] }],
            }] },
        })
    );
    let (header, claims) = decode_jwt(authorization);
    let x5c = [&leaf, &root].map(Certified::x5c);
    assert_eq!(header, json!({ "alg": "ES256", "typ": "oauth-authz-req+jwt", "x5c": x5c }));
    let (signed, signature) = authorization.rsplit_once('.').unwrap();
    let signing_key = jsonwebtoken::DecodingKey::from_ec_der(leaf.key.public_key_raw());
    let signature = jsonwebtoken::crypto::verify(signature, signed.as_bytes(), &signing_key, Algorithm::ES256);
    assert_eq!(signature, Ok(true));
    let keys = claims["jwks"]["keys"].as_array().unwrap();
    let [key] = &keys[..] else { panic!("{keys:?}") };
    // The public key of the private key 0x0909….
    let public_key = json!({
        "kty": "EC",
        "crv": "P-256",
        "kid": "1",
        "use": "enc",
        "alg": "ECDH-ES",
        "x": key["x"],
        "y": key["y"],
    });
    let consent = json!({ "consent_text": "May we ask?", "policy_link": "https://ringtrue.example/privacy", "policy_text": "Privacy" });
    assert_eq!(decode(claims["consent_data"].as_str().unwrap()), consent);
    assert_eq!(
        claims,
        json!({
            "iss": ISSUER,
            "nonce": NONCE,
            "jwks": { "keys": [public_key] },
            "encrypted_response_enc_values_supported": ["A128GCM"],
            "consent_data": claims["consent_data"],
        })
    );
    assert!(fixture.operator.requests().is_empty());
}

#[tokio::test]
async fn request_for_a_browser_does_not_contain_the_number() {
    let fixture = Fixture::with_tokens().await;
    let DigitalCredential { data, .. } = fixture.request_with_hint(None);
    let credential = &data["dcql_query"]["credentials"][0];
    assert!(credential.get("claims").is_none(), "{credential}");
    let (_, claims) = decode_jwt(credential["meta"]["credential_authorization_jwt"].as_str().unwrap());
    assert!(!format!("{data}{claims}").contains("7700900123"), "{claims}");
}

#[tokio::test]
async fn connector_without_settings_has_no_operator_tokens() {
    let fixture = Fixture::start().await;
    assert!(fixture.camara.operator_token_verifier().is_none());
    assert!(Fixture::with_tokens().await.camara.supports(Product::SecureSna));
}

/// A change to a valid answer, and the reason for which it is rejected.
type Case = (&'static str, fn(&mut Draft));

const MALFORMED: &str = "the credential is malformed";
const NOT_ONE: &str = "the answer does not contain exactly the requested credential";
const FORMAT: &str = "the credential has an unsupported format or signature";
const ISSUER_SIGNATURE: &str = "the issuer's signature is invalid";
const PHONE_SIGNATURE: &str = "the phone's signature is invalid";
const PHONE_KEY: &str = "the phone's key is not a key on P-256";
const JWE_MALFORMED: &str = "the encrypted token is malformed";
const JWE_ALGORITHM: &str = "the token is not encrypted with ECDH-ES and A128GCM";
const EPHEMERAL_KEY: &str = "the ephemeral key is not a key on P-256";
const NOT_DECRYPTED: &str = "the token cannot be decrypted";
const NO_TOKEN: &str = "the credential contains no temporary token";

const INVALID_ANSWERS: &[Case] = &[
    ("the protocol is not the requested one", |draft| draft.protocol = "openid4vp"),
    ("the protocol is not the requested one", |draft| draft.protocol = "org-iso-mdoc"),
    (MALFORMED, |draft| draft.change_answer = |answer| *answer = json!("ringtrue")),
    (NOT_ONE, |draft| draft.id = "other"),
    (NOT_ONE, |draft| draft.change_answer = |answer| *answer = json!({})),
    (NOT_ONE, |draft| draft.change_answer = |answer| answer["other"] = answer["ringtrue"].clone()),
    (NOT_ONE, |draft| draft.change_answer = |answer| answer["ringtrue"] = json!([])),
    (NOT_ONE, |draft| draft.change_answer = |answer| answer["ringtrue"] = answer["ringtrue"][0].clone()),
    (NOT_ONE, |draft| draft.change_answer = |answer| answer["ringtrue"] = json!([{}])),
    (NOT_ONE, |draft| {
        draft.change_answer = |answer| {
            let credential = answer["ringtrue"][0].clone();
            answer["ringtrue"] = json!([credential, credential]);
        };
    }),
    ("the credential is too long", |draft| draft.issuer_claims["more"] = json!("x".repeat(40_000))),
    (MALFORMED, |draft| draft.change_credential = |_| String::new()),
    (MALFORMED, |draft| draft.change_credential = |_| "~".to_owned()),
    (MALFORMED, |draft| draft.change_credential = |credential| credential.replace('~', "")),
    (MALFORMED, |draft| draft.change_credential = |credential| format!("{credential}=")),
    (MALFORMED, |draft| draft.change_credential = |credential| credential.split('~').next().unwrap().to_owned() + "~"),
    (MALFORMED, |draft| draft.change_credential = |credential| credential.replacen('.', " .", 1)),
    // A disclosure.
    (MALFORMED, |draft| draft.change_credential = |credential| credential.replace('~', "~WyJhIl0~")),
    // The issuer's JWT.
    (FORMAT, |draft| draft.issuer_header["alg"] = json!("none")),
    (FORMAT, |draft| draft.issuer_header["alg"] = json!("HS256")),
    (FORMAT, |draft| draft.issuer_header["typ"] = json!("JWT")),
    (FORMAT, |draft| draft.issuer_header["crit"] = json!(["x"])),
    (MALFORMED, |draft| draft.issuer_header = json!([])),
    (MALFORMED, |draft| draft.issuer_header["x5c"] = json!("x")),
    ("the issuer's certificate is malformed", |draft| draft.issuer_header["x5c"] = json!([])),
    ("the issuer's certificate is malformed", |draft| draft.issuer_header["x5c"] = json!(["-_"])),
    ("the issuer's chain of certificates is too long", |draft| {
        draft.issuer_header["x5c"] = json!(["", "", "", "", "", ""]);
    }),
    (ISSUER_SIGNATURE, |draft| draft.issuer_header["x5c"] = json!([""])),
    (ISSUER_SIGNATURE, |draft| draft.issuer = new_key()),
    (ISSUER_SIGNATURE, |draft| draft.issuer_header["x5c"] = json!([bare_key(&draft.phone)])),
    (ISSUER_SIGNATURE, |draft| {
        draft.change_credential = |credential| {
            let (header, rest) = credential.split_once('.').unwrap();
            let (_, rest) = rest.split_once('.').unwrap();
            format!("{header}.e30.{rest}")
        };
    }),
    (MALFORMED, |draft| draft.issuer_claims = json!({})),
    (MALFORMED, |draft| draft.issuer_claims["exp"] = json!("1794873600")),
    (MALFORMED, |draft| draft.issuer_claims["vct"] = json!(1)),
    (MALFORMED, |draft| draft.issuer_claims["cnf"] = json!({ "kid": "x" })),
    (PHONE_KEY, |draft| draft.issuer_claims["cnf"]["jwk"]["crv"] = json!("P-384")),
    (PHONE_KEY, |draft| draft.issuer_claims["cnf"]["jwk"]["kty"] = json!("OKP")),
    (PHONE_KEY, |draft| draft.issuer_claims["cnf"]["jwk"]["x"] = json!("AA")),
    // The binding JWT.
    (FORMAT, |draft| draft.binding_header["typ"] = json!("dc-authorization+sd-jwt")),
    (FORMAT, |draft| draft.binding_header["alg"] = json!("ES384")),
    (PHONE_SIGNATURE, |draft| draft.phone = new_key()),
    (PHONE_SIGNATURE, |draft| draft.issuer_claims["cnf"]["jwk"]["y"] = draft.issuer_claims["cnf"]["jwk"]["x"].clone()),
    ("the credential has another type", |draft| {
        draft.issuer_claims["vct"] = json!("number-verification/device-phone-number/ts43");
    }),
    ("the credential has expired", |draft| {
        draft.issuer_claims["exp"] = json!(draft.issuer_claims["iat"].as_i64().unwrap() - 60);
    }),
    ("the credential has expired", |draft| draft.issuer_claims["exp"] = json!(i64::MIN)),
    ("the credential was requested at another origin", |draft| {
        draft.binding_claims["aud"] = json!("https://evil.example");
    }),
    ("the credential was requested at another origin", |draft| {
        draft.binding_claims["aud"] = json!(format!("{ORIGIN}/"));
    }),
    ("the credential was requested with another nonce", |draft| {
        draft.binding_claims["nonce"] = json!("x".repeat(NONCE.len()));
    }),
    ("the credential was requested with another nonce", |draft| draft.binding_claims["nonce"] = json!("")),
    (MALFORMED, |draft| draft.binding_claims["nonce"] = json!(null)),
    (MALFORMED, |draft| draft.binding_claims["aud"] = json!([ORIGIN])),
    (MALFORMED, |draft| draft.binding_claims["carrier_hint"] = json!(23_420)),
    (MALFORMED, |draft| drop(draft.binding_claims.as_object_mut().unwrap().remove("consent_data_hash"))),
    ("the phone has signed for another credential", |draft| draft.binding_claims["sd_hash"] = json!(sha256("~"))),
    ("the user has seen another consent text", |draft| draft.binding_claims["consent_data_hash"] = json!(sha256(""))),
    // The encrypted token.
    (JWE_MALFORMED, |draft| draft.binding_claims["encrypted_credential"] = json!("")),
    (JWE_MALFORMED, |draft| draft.binding_claims["encrypted_credential"] = json!("a.b.c.d.e.f")),
    (JWE_MALFORMED, |draft| draft.change_jwe = |parts| parts[0] = String::from("e30")),
    (JWE_MALFORMED, |draft| draft.change_jwe = |parts| parts[1] = String::from("AA")),
    (JWE_MALFORMED, |draft| draft.change_jwe = |parts| parts[2].truncate(15)),
    (JWE_MALFORMED, |draft| draft.change_jwe = |parts| parts[3] = String::from("+")),
    (JWE_MALFORMED, |draft| draft.change_jwe = |parts| parts[4].truncate(20)),
    (JWE_MALFORMED, |draft| draft.change_jwe = |parts| parts[4].clear()),
    (JWE_MALFORMED, |draft| draft.jwe_header["apu"] = json!("+")),
    (JWE_ALGORITHM, |draft| draft.jwe_header["alg"] = json!("ECDH-ES+A128KW")),
    (JWE_ALGORITHM, |draft| draft.jwe_header["alg"] = json!("dir")),
    (JWE_ALGORITHM, |draft| draft.jwe_header["enc"] = json!("A256GCM")),
    (JWE_ALGORITHM, |draft| draft.jwe_header["zip"] = json!("DEF")),
    (JWE_ALGORITHM, |draft| draft.jwe_header["crit"] = json!(["exp"])),
    (EPHEMERAL_KEY, |draft| draft.jwe_header["epk"] = json!(null)),
    (EPHEMERAL_KEY, |draft| draft.jwe_header["epk"] = json!({ "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA" })),
    (EPHEMERAL_KEY, |draft| {
        let zero = base64url([0; 32]);
        draft.jwe_header["epk"] = json!({ "kty": "EC", "crv": "P-256", "x": zero, "y": zero });
    }),
    (NOT_DECRYPTED, |draft| draft.jwe_header["epk"] = draft.issuer_claims["cnf"]["jwk"].clone()),
    (NOT_DECRYPTED, |draft| draft.jwe_key = new_point()),
    (NOT_DECRYPTED, |draft| draft.jwe_party_names = [b"Alice", b""]),
    (NOT_DECRYPTED, |draft| draft.change_jwe = |parts| parts[2] = base64url([8; 12])),
    (NOT_DECRYPTED, |draft| draft.change_jwe = |parts| parts[3].clear()),
    (NOT_DECRYPTED, |draft| draft.change_jwe = |parts| parts[4] = base64url([0; 16])),
    (NO_TOKEN, |draft| draft.plaintext.clear()),
    (NO_TOKEN, |draft| draft.plaintext = b"{}".to_vec()),
    (NO_TOKEN, |draft| draft.plaintext = br#"{"temp_token":""}"#.to_vec()),
    (NO_TOKEN, |draft| draft.plaintext = br#"{"temp_token":1}"#.to_vec()),
    (NO_TOKEN, |draft| draft.plaintext = br#"{"temp_token":"a\nb"}"#.to_vec()),
    (NO_TOKEN, |draft| draft.plaintext = format!(r#"{{"temp_token":"{}"}}"#, "x".repeat(4_097)).into_bytes()),
];

fn new_point() -> Vec<u8> {
    use aws_lc_rs::signature::KeyPair as _;
    new_key().public_key().as_ref().to_vec()
}

#[tokio::test]
async fn invalid_answers_are_rejected_before_the_operator_is_asked() {
    let fixture = Fixture::with_tokens().await;
    for (position, (reason, change)) in INVALID_ANSWERS.iter().enumerate() {
        let mut draft = fixture.draft();
        change(&mut draft);
        assert_eq!(fixture.answer(draft).await, Err(AnswerError::Invalid(reason)), "case {position}");
    }
    for data in [json!(null), json!([]), json!("x"), json!({ "vp_token": null }), json!({ "vp_token": ["x~y"] })] {
        let credential = DigitalCredential { protocol: "openid4vp-v1-unsigned".to_owned(), data };
        let rejected = fixture.answer_credential(&credential).await;
        assert_eq!(rejected, Err(AnswerError::Invalid(MALFORMED)), "{}", credential.data);
    }
    for carrier in ["310250", "23421", "", "Three"] {
        let mut draft = fixture.draft();
        draft.binding_claims["carrier_hint"] = json!(carrier);
        assert_eq!(fixture.answer(draft).await, Err(AnswerError::OtherNetwork), "{carrier}");
    }
    assert!(fixture.operator.requests().is_empty());
    assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed);
    assert_eq!(fixture.answer(fixture.draft()).await, Ok(true));
}

#[tokio::test]
async fn wallets_may_differ() {
    let accepted: &[fn(&mut Draft)] = &[
        |_| {},
        |draft| draft.binding_claims["aud"] = json!(APP),
        |draft| drop(draft.binding_claims.as_object_mut().unwrap().remove("carrier_hint")),
        // Some sources write every mobile network code with three digits.
        |draft| draft.binding_claims["carrier_hint"] = json!("234020"),
        |draft| draft.issuer_claims["exp"] = json!(draft.issuer_claims["iat"].as_i64().unwrap() - 59),
        |draft| draft.issuer_claims["exp"] = json!(i64::MAX),
        |draft| {
            draft.jwe_party_names = [b"Alice", b"Bob"];
            (draft.jwe_header["apu"], draft.jwe_header["apv"]) = (json!("QWxpY2U"), json!("Qm9i"));
        },
        |draft| draft.plaintext = br#"{"expires":1,"temp_token":"temporary-token-of-the-sim"}"#.to_vec(),
        |draft| draft.issuer_header["kid"] = json!("1"),
        |draft| draft.binding_claims["state"] = json!({ "a": [1] }),
    ];
    let fixture = Fixture::with_tokens().await;
    for (position, change) in accepted.iter().enumerate() {
        let mut draft = fixture.draft();
        change(&mut draft);
        assert_eq!(fixture.answer(draft).await, Ok(true), "case {position}");
    }
}

#[tokio::test]
async fn stated_nonce_is_read_without_verification() {
    let fixture = Fixture::with_tokens().await;
    let stated = |credential: &DigitalCredential| fixture.verifier().stated_nonce(credential);
    let mut draft = fixture.draft();
    draft.phone = new_key();
    draft.issuer_claims = json!(null);
    assert_eq!(stated(&draft.seal()).as_deref(), Some(NONCE));
    let changes: &[fn(&mut Draft)] = &[
        |draft| draft.protocol = "openid4vp",
        |draft| draft.id = "other",
        |draft| draft.binding_claims["nonce"] = json!(1),
        |draft| draft.change_credential = |credential| credential.replace('~', ""),
        |draft| draft.issuer_claims["more"] = json!("x".repeat(40_000)),
    ];
    for (position, change) in changes.iter().enumerate() {
        let mut draft = fixture.draft();
        change(&mut draft);
        assert_eq!(stated(&draft.seal()), None, "case {position}");
    }
}

#[tokio::test]
async fn issuer_certificate_must_lead_to_a_configured_one() {
    let (root, other) = (Certified::root(), Certified::root());
    let intermediate = Certified::new("intermediate", true, [2026, 2036], Some(&root));
    let direct = Certified::new("Telephony", false, [2026, 2036], Some(&root));
    let indirect = Certified::new("Telephony", false, [2026, 2036], Some(&intermediate));
    let expired = Certified::new("Telephony", false, [2020, 2025], Some(&root));
    let foreign = Certified::new("Telephony", false, [2026, 2036], Some(&other));
    let fixture = Fixture::with(|camara, operator| {
        use_tokens(OperatorTokenFlow::Ciba)(camara, operator);
        let tokens = camara.operator_tokens.as_mut().unwrap();
        let pem = root.certificate.pem();
        tokens.verifier = tokens.verifier.clone().with_issuer_certificates(pem.as_bytes()).unwrap();
    })
    .await;
    let untrusted = Err(AnswerError::Invalid("the issuer's certificate is not trusted"));
    for (chain, expected) in [
        (vec![&direct], Ok(true)),
        (vec![&direct, &root], Ok(true)),
        (vec![&indirect, &intermediate], Ok(true)),
        (vec![&indirect], untrusted),
        (vec![&expired], untrusted),
        (vec![&foreign], untrusted),
        (vec![&foreign, &root], untrusted),
        (vec![&foreign, &other], untrusted),
    ] {
        let mut draft = fixture.draft();
        draft.issuer_header["x5c"] = chain.iter().map(|certificate| certificate.x5c()).collect();
        draft.issuer = ecdsa_key(&chain[0].key);
        assert_eq!(fixture.answer(draft).await, expected);
    }
    assert_eq!(fixture.answer(fixture.draft()).await, untrusted, "a key without a certificate");
    let verifier = CredentialVerifier::new(&ConsentData::new("", &Url::parse("https://a.example").unwrap(), ""));
    for pem in ["", "secret", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert!(verifier.clone().with_issuer_certificates(pem.as_bytes()).is_err(), "{pem}");
    }
}

fn ecdsa_key(key: &KeyPair) -> aws_lc_rs::signature::EcdsaKeyPair {
    let algorithm = &aws_lc_rs::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    aws_lc_rs::signature::EcdsaKeyPair::from_pkcs8(algorithm, &key.serialize_der()).unwrap()
}

#[test]
fn certificates_of_requests_are_checked() {
    let (root, other) = (Certified::root(), Certified::root());
    let leaf = Certified::new("ringtrue.example", false, [2026, 2036], Some(&root));
    let expired = Certified::new("ringtrue.example", false, [2020, 2021], Some(&root));
    let [leaf_pem, root_pem, other_pem] = [&leaf, &root, &other].map(|certified| certified.certificate.pem());
    let key = leaf.key.serialize_pem();
    let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap().serialize_pem();
    let malformed = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (pem, key, expected) in [
        (format!("{leaf_pem}{root_pem}"), &key, None),
        (format!("# ours\n{leaf_pem}\n# root\n{root_pem}"), &key, None),
        (leaf_pem.clone(), &key, Some(WalletRequestSignerError::NotTwoCertificates)),
        (format!("{leaf_pem}{root_pem}{root_pem}"), &key, Some(WalletRequestSignerError::NotTwoCertificates)),
        (String::new(), &key, Some(WalletRequestSignerError::NotTwoCertificates)),
        (format!("{leaf_pem}{malformed}"), &key, Some(WalletRequestSignerError::MalformedCertificate)),
        (format!("{malformed}{root_pem}"), &key, Some(WalletRequestSignerError::MalformedCertificate)),
        (format!("{leaf_pem}{other_pem}"), &key, Some(WalletRequestSignerError::NotSignedByRoot)),
        (format!("{leaf_pem}{leaf_pem}"), &key, Some(WalletRequestSignerError::NotSignedByRoot)),
        (format!("{root_pem}{leaf_pem}"), &key, Some(WalletRequestSignerError::NotSignedByRoot)),
        (format!("{leaf_pem}{root_pem}"), &root.key.serialize_pem(), Some(WalletRequestSignerError::KeyMismatch)),
        (format!("{leaf_pem}{root_pem}"), &p384, Some(WalletRequestSignerError::InvalidKey)),
        (format!("{leaf_pem}{root_pem}"), &"secret".to_owned(), Some(WalletRequestSignerError::InvalidKey)),
    ] {
        let made = WalletRequestSigner::from_pem(pem.as_bytes(), key.as_bytes());
        assert_eq!(made.err(), expected, "{pem}");
    }
    let pem = format!("{}{root_pem}", expired.certificate.pem());
    let signer = WalletRequestSigner::from_pem(pem.as_bytes(), expired.key.serialize_pem().as_bytes()).unwrap();
    let sha256 = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, root.certificate.der());
    assert_eq!(signer.root_sha256(), sha256.as_ref());
    assert_eq!(signer.certificates(), &[expired.certificate.der().clone(), root.certificate.der().clone()]);
}

#[tokio::test]
async fn token_is_exchanged_by_an_assertion() {
    for (audience, verified) in [(Audience::Endpoint, true), (Audience::Issuer, false)] {
        let key = Key::new(Algorithm::ES256, "ours");
        let fixture = Fixture::with(use_tokens(jwt_bearer(&key, audience))).await;
        fixture.operator.respond(VERIFY, Json(200, json!({ "devicePhoneNumberVerified": verified })));
        assert_eq!(fixture.answer(fixture.draft()).await, Ok(verified));
        let [request] = &fixture.operator.requests_to(TOKEN)[..] else { panic!("one token request") };
        let form = request.form();
        assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
        let audience = match audience {
            Audience::Endpoint => format!("{}{TOKEN}", fixture.operator.issuer()),
            Audience::Issuer => fixture.operator.issuer(),
        };
        let mut claims = key.verify(&form["assertion"], &audience).claims;
        assert!(claims["jti"].take().as_str().is_some_and(|id| id.len() == 22));
        let now = fixture.clock.now().as_second();
        let expected = json!({
            "iss": "client id:1",
            "sub": format!("operatortoken:{TEMPORARY_TOKEN}"),
            "aud": audience,
            "scope": "openid dpv:FraudPreventionAndDetection number-verification:verify",
            "iat": now,
            "exp": now + 300,
            "jti": null,
        });
        assert_eq!(claims, expected);
        let [request] = &fixture.operator.requests_to(VERIFY)[..] else { panic!("one API request") };
        assert_eq!(request.header("authorization"), "Bearer token-of-the-device");
        assert_eq!(request.header("x-correlator"), check().to_string());
        assert_eq!(request.json(), json!({ "phoneNumber": "+447700900123" }));
    }
}

#[tokio::test]
async fn token_is_exchanged_by_ciba() {
    let fixture = Fixture::with(|camara, operator| {
        use_tokens(OperatorTokenFlow::Ciba)(camara, operator);
        camara.login_hint = LoginHintFormat::E164;
        camara.sends_hashed_number = true;
    })
    .await;
    let pending = Json(400, json!({ "error": "authorization_pending" }));
    fixture.operator.respond(BACKCHANNEL, Json(200, json!({ "auth_req_id": "request-of-ours", "interval": 0 })));
    fixture.operator.respond_in_order(TOKEN, vec![pending, Json(200, token_response())]);
    assert_eq!(fixture.answer(fixture.draft()).await, Ok(true));
    let [request] = &fixture.operator.requests_to(BACKCHANNEL)[..] else { panic!("one request") };
    let form = request.form();
    assert_eq!(form["login_hint"], format!("operatortoken:{TEMPORARY_TOKEN}"));
    assert_eq!(form["scope"], "openid dpv:FraudPreventionAndDetection number-verification:verify");
    assert_eq!((&*form["client_id"], &*form["client_secret"]), ("client id:1", "secret of ours"));
    let polls = fixture.operator.requests_to(TOKEN);
    assert_eq!(polls.len(), 2);
    assert_eq!(polls[1].form()["grant_type"], "urn:openid:params:grant-type:ciba");
    assert!(fixture.operator.requests_to(VERIFY)[0].json()["hashedPhoneNumber"].is_string());
}

/// An operator that never decides must not hold the check: the poll interval exceeds the connector's time limit.
#[tokio::test]
async fn undecided_ciba_request_is_a_timeout() {
    let fixture = Fixture::with(use_tokens(OperatorTokenFlow::Ciba)).await;
    fixture.operator.respond(BACKCHANNEL, Json(200, json!({ "auth_req_id": "request-of-ours", "interval": 30 })));
    fixture.operator.respond(TOKEN, Json(400, json!({ "error": "authorization_pending" })));
    let timeout = Err(AnswerError::Operator(ErrorCode::MnoTimeout));
    assert_eq!(fixture.answer(fixture.draft()).await, timeout);
    assert_eq!(fixture.operator.requests_to(TOKEN).len(), 1);
}

#[tokio::test]
async fn operator_errors_are_mapped_and_never_retried() {
    let refusal = |status, error: &str| Json(status, json!({ "error": error, "code": error }));
    let cases: &[(&'static str, ScriptedResponse, ErrorCode)] = &[
        (TOKEN, refusal(400, "invalid_grant"), ErrorCode::MnoResponseError),
        (TOKEN, refusal(400, "unknown_user_id"), ErrorCode::MnoUserNotFound),
        (TOKEN, refusal(503, "temporarily_unavailable"), ErrorCode::MnoTimeout),
        (TOKEN, ScriptedResponse::HangUp, ErrorCode::MnoServerError),
        (TOKEN, Json(200, json!({})), ErrorCode::MnoResponseError),
        (VERIFY, refusal(404, "IDENTIFIER_NOT_FOUND"), ErrorCode::MnoUserNotFound),
        (VERIFY, refusal(401, "UNAUTHENTICATED"), ErrorCode::MnoResponseError),
        (VERIFY, refusal(502, "BAD_GATEWAY"), ErrorCode::MnoServerError),
        (VERIFY, ScriptedResponse::HangUp, ErrorCode::MnoServerError),
        (VERIFY, Json(200, json!({ "devicePhoneNumberVerified": "true" })), ErrorCode::MnoResponseError),
    ];
    for (path, response, expected) in cases {
        let fixture = Fixture::with_tokens().await;
        fixture.operator.respond(path, response.clone());
        let answer = fixture.answer(fixture.draft()).await;
        assert_eq!(answer, Err(AnswerError::Operator(*expected)), "{path} {response:?}");
        assert_eq!(fixture.operator.requests_to(path).len(), 1, "{path} {response:?}");
    }
}

#[tokio::test]
async fn wallets_are_not_asked_while_the_operator_fails() {
    let fixture = Fixture::with_tokens().await;
    // A forged credential can contain any token, so rejected tokens do not count.
    fixture.operator.respond(TOKEN, Json(400, json!({ "error": "invalid_request" })));
    for _ in 0..10 {
        assert!(fixture.answer(fixture.draft()).await.is_err());
    }
    assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed);
    let draft = fixture.draft();
    fixture.operator.respond(TOKEN, Json(401, json!({ "error": "invalid_client" })));
    let rejected = AnswerError::Operator(ErrorCode::MnoServerError);
    assert_eq!(fixture.answer(fixture.draft()).await, Err(rejected));
    assert!(matches!(fixture.camara.breaker_state(), BreakerState::Open { .. }));
    assert!(!fixture.verifier().is_available());
    let requests = fixture.operator.requests_to(TOKEN).len();
    assert_eq!(fixture.answer(draft).await, Err(rejected));
    assert_eq!(fixture.operator.requests_to(TOKEN).len(), requests);
    // A request to a wallet is no probe of the operator; the answer is.
    fixture.advance(30);
    assert!(fixture.verifier().is_available());
    fixture.operator.respond(TOKEN, Json(200, token_response()));
    let (_, draft) = (fixture.draft(), fixture.draft());
    assert_eq!(fixture.answer(draft).await, Ok(true));
    assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed);
}

/// Answers from another implementation, with the key, nonce, origin, consent data and time of their request.
#[test]
#[expect(clippy::disallowed_methods, reason = "optional test data")]
fn external_vectors_are_judged() {
    let Some(path) = env::var_os("OPERATOR_TOKEN_VECTORS") else {
        writeln!(stderr(), "skipped: OPERATOR_TOKEN_VECTORS does not name a file with test vectors").unwrap();
        return;
    };
    let vectors: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let request = &vectors["aggregator"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let consent = decode(&text(&request["consent_data"]));
    let policy = Url::parse(&text(&consent["policy_link"])).unwrap();
    let consent = ConsentData::new(&text(&consent["consent_text"]), &policy, &text(&consent["policy_text"]));
    let key = BASE64_URL_SAFE_NO_PAD.decode(text(&request["ephemeral_private_jwk"]["d"])).unwrap();
    let verify = |vector: &Value| {
        let protocol = text(&vector["response"]["protocol"]);
        let credential = DigitalCredential { protocol, data: vector["response"]["data"].clone() };
        CredentialVerifier::new(&consent).verify(&CredentialResponse {
            check: check(),
            nonce: &text(&request["nonce"]),
            key: &CredentialKey::new(key.clone().try_into().unwrap()),
            origins: &[&text(&request["expected_origin"])],
            credential: &credential,
            now: Timestamp::from_second(vectors["now"].as_i64().unwrap()).unwrap(),
        })
    };
    for vector in vectors["valid"].as_array().unwrap() {
        let token = verify(vector).unwrap();
        assert_eq!(token.temporary_token.as_str(), text(&vector["expect"]["temp_token"]), "{}", vector["name"]);
        assert_eq!(token.carrier, Some(text(&vector["expect"]["carrier_hint"])), "{}", vector["name"]);
    }
    for vector in vectors["invalid"].as_array().unwrap() {
        assert!(verify(vector).is_err(), "{}", vector["name"]);
    }
}
