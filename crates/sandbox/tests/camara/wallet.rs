use std::sync::Arc;

use aws_lc_rs::{
    aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree},
    digest::{SHA256, digest},
};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, crypto, dangerous::insecure_decode, encode, jwk::Jwk};
use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair, date_time_ymd};
use ringtrue_sandbox::wallet::{CredentialRequest, Forgery, InvalidRequest, Wallet, WalletError};
use serde_json::{Value, json};
use strum::VariantNames as _;
use x509_cert::{Certificate, der::Decode};

use crate::{EVEN, Fixture, ODD, VERIFY};

const ORIGIN: &str = "https://verify.example";
const AUTHORIZATION: &str = "/data/dcql_query/credentials/0/meta/credential_authorization_jwt";

/// A request and a response of third-party software.
fn vector() -> Value {
    serde_json::from_str(include_str!("wallet_vector.json")).unwrap()
}

/// Signs requests, as a verifier of credentials does.
struct Verifier {
    key: EncodingKey,
    chain: [String; 2],
}

impl Verifier {
    /// Uses certificates that expire with this year.
    fn until(year: i32) -> Self {
        let [leaf, root] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let mut parameters = CertificateParams::default();
        parameters.not_after = date_time_ymd(year, 12, 31);
        parameters.distinguished_name.push(DnType::CommonName, "Root");
        let root = CertifiedIssuer::self_signed(parameters.clone(), root).unwrap();
        let certificate = parameters.signed_by(&leaf, &root).unwrap();
        Verifier {
            key: EncodingKey::from_ec_der(leaf.serialized_der()),
            chain: [BASE64_STANDARD.encode(certificate.der()), BASE64_STANDARD.encode(root.der())],
        }
    }

    fn new() -> Self {
        Verifier::until(2100)
    }

    fn sign_with(&self, kind: &str, claims: &Value) -> String {
        let header =
            Header { typ: Some(kind.to_owned()), x5c: Some(self.chain.to_vec()), ..Header::new(Algorithm::ES256) };
        encode(&header, claims, &self.key).unwrap()
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_with("oauth-authz-req+jwt", claims)
    }
}

/// Returns the claims of the authorization in the vector's request, with one of them replaced.
fn authorization_claims(name: &str, value: Value) -> Value {
    let mut claims: Value =
        insecure_decode(vector()["request"].pointer(AUTHORIZATION).unwrap().as_str().unwrap()).unwrap().claims;
    claims[name] = value;
    claims
}

fn with_authorization(authorization: impl Into<Value>) -> Value {
    let mut request = vector()["request"].take();
    *request.pointer_mut(AUTHORIZATION).unwrap() = authorization.into();
    request
}

struct PhoneWallet(Wallet);

impl PhoneWallet {
    fn of(fixture: &Fixture) -> Self {
        PhoneWallet(Wallet::new(Arc::clone(&fixture.operator)).unwrap())
    }

    fn read(&self, request: &Value) -> Result<CredentialRequest, InvalidRequest> {
        self.0.read_request(request["protocol"].as_str().unwrap_or_default(), &request["data"])
    }

    /// Responds to the vector's request.
    fn respond(&self, sim: &str, forgery: Option<Forgery>) -> Result<ParsedResponse, WalletError> {
        let request = self.read(&vector()["request"]).unwrap();
        let data = self.0.respond(&request, &sim.parse().unwrap(), ORIGIN, None, forgery)?;
        Ok(ParsedResponse::parse(&data))
    }
}

/// A response, decrypted. Its signatures are verified, but not its claims.
#[derive(Debug)]
struct ParsedResponse {
    issuer: Value,
    issuer_header: Header,
    binding: Value,
    is_issuer_signed: bool,
    is_binding_signed: bool,
    has_issuer_hash: bool,
    operator_token: String,
}

impl ParsedResponse {
    fn parse(data: &Value) -> Self {
        let credential = data["vp_token"]["ringtrue"][0].as_str().unwrap();
        let (issuer_jwt, binding_jwt) = credential.split_once('~').unwrap();
        let issuer = insecure_decode::<Value>(issuer_jwt).unwrap();
        let binding = insecure_decode::<Value>(binding_jwt).unwrap();
        assert_eq!(issuer.header.typ.as_deref(), Some("dc-authorization+sd-jwt"));
        assert_eq!(binding.header.typ.as_deref(), Some("kb+jwt"));
        let certificate = BASE64_STANDARD.decode(&issuer.header.x5c.as_ref().unwrap()[0]).unwrap();
        let device_key: Jwk = serde_json::from_value(issuer.claims["cnf"]["jwk"].clone()).unwrap();
        let is_signed = |token: &str, key: &DecodingKey| {
            let (message, signature) = token.rsplit_once('.').unwrap();
            crypto::verify(signature, message.as_bytes(), key, Algorithm::ES256).unwrap()
        };
        let binding = binding.claims;
        ParsedResponse {
            is_issuer_signed: is_signed(issuer_jwt, &DecodingKey::from_ec_der(&public_key(&certificate))),
            is_binding_signed: is_signed(binding_jwt, &DecodingKey::from_jwk(&device_key).unwrap()),
            has_issuer_hash: binding["sd_hash"] == hash(&format!("{issuer_jwt}~")),
            operator_token: decrypt(binding["encrypted_credential"].as_str().unwrap()),
            issuer: issuer.claims,
            issuer_header: issuer.header,
            binding,
        }
    }
}

fn public_key(der: &[u8]) -> Vec<u8> {
    let certificate = Certificate::from_der(der).unwrap();
    certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes().to_owned()
}

fn hash(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}

/// Decrypts with the vector's private key, and returns the operator token.
fn decrypt(jwe: &str) -> String {
    let parts: Vec<&str> = jwe.split('.').collect();
    let octets = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    let header: Value = serde_json::from_slice(&octets(parts[0])).unwrap();
    assert_eq!((&header["alg"], &header["enc"], &header["kid"]), (&json!("ECDH-ES"), &json!("A128GCM"), &json!("1")));
    assert_eq!(parts[1], "");
    let coordinate = |name: &str| octets(header["epk"][name].as_str().unwrap());
    let point = [vec![4], coordinate("x"), coordinate("y")].concat();
    let private_key = octets(vector()["private_key"].as_str().unwrap());
    let private_key = PrivateKey::from_private_key(&ECDH_P256, &private_key).unwrap();
    let key = agree(&private_key, UnparsedPublicKey::new(&ECDH_P256, &point), (), |secret| {
        let info = b"\x00\x00\x00\x07A128GCM\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80";
        Ok(digest(&SHA256, &[&[0, 0, 0, 1], secret, info].concat()).as_ref()[..16].to_vec())
    });
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key.unwrap()).unwrap());
    let mut content = [octets(parts[3]), octets(parts[4])].concat();
    let nonce = Nonce::try_assume_unique_for_key(&octets(parts[2])).unwrap();
    let message = key.open_in_place(nonce, Aad::from(parts[0].as_bytes()), &mut content).unwrap();
    let message: Value = serde_json::from_slice(message).unwrap();
    message["temp_token"].as_str().unwrap().to_owned()
}

#[test]
fn test_decryption_agrees_with_third_party_encryption() {
    let vector = vector();
    let credential = vector["response"]["data"]["vp_token"]["ringtrue"][0].as_str().unwrap();
    let binding = insecure_decode::<Value>(credential.split_once('~').unwrap().1).unwrap().claims;
    assert_eq!(decrypt(binding["encrypted_credential"].as_str().unwrap()), vector["operator_token"]);
}

#[tokio::test]
async fn request_of_third_party_software_is_accepted() {
    let fixture = Fixture::start().await;
    let request = PhoneWallet::of(&fixture).read(&vector()["request"]).unwrap();
    assert_eq!(request.consent.text, "Ringtrue asks your operator for the number of this phone.");
    assert_eq!(request.consent.policy_link, "https://verify.example.com/privacy");
    assert_eq!(request.hinted_number, Some("+16502154321".parse().unwrap()));
}

#[tokio::test]
async fn response_is_bound_to_request_and_origin() {
    let fixture = Fixture::start().await;
    let response = PhoneWallet::of(&fixture).respond(EVEN, None).unwrap();
    assert!(response.is_issuer_signed && response.is_binding_signed && response.has_issuer_hash, "{response:?}");
    assert_eq!(response.issuer_header.alg, Algorithm::ES256);
    assert_eq!(response.issuer["vct"], "number-verification/verify/ts43");
    assert_eq!(response.issuer["iat"], fixture.now());
    assert_eq!(response.issuer["exp"], fixture.now() + 300);
    let claims = authorization_claims("unused", Value::Null);
    let expected = json!({
        "iat": fixture.now(),
        "aud": ORIGIN,
        "nonce": claims["nonce"],
        "state": "st-1",
        "consent_data_hash": hash(claims["consent_data"].as_str().unwrap()),
        "subscription_hint": 1,
        "carrier_hint": "00101",
        "android_carrier_hint": -1,
        "sd_hash": response.binding["sd_hash"],
        "encrypted_credential": response.binding["encrypted_credential"],
    });
    assert_eq!(response.binding, expected);
}

#[tokio::test]
async fn operator_verifies_the_number_by_the_token_of_the_response() {
    let fixture = Fixture::start().await;
    let wallet = PhoneWallet::of(&fixture);
    for (sim, claimed, verified) in [(EVEN, EVEN, true), (ODD, EVEN, false), (ODD, ODD, false)] {
        let subject = format!("operatortoken:{}", wallet.respond(sim, None).unwrap().operator_token);
        let issued = fixture.jwt_bearer(&json!({ "sub": subject, "scope": VERIFY })).await.json();
        let response = fixture.verify(issued["access_token"].as_str().unwrap(), claimed).await;
        assert_eq!(response.json(), json!({ "devicePhoneNumberVerified": verified }), "{sim} {claimed}");
    }
}

#[tokio::test]
async fn forgery_changes_one_part_of_the_response() {
    let fixture = Fixture::start().await;
    let wallet = PhoneWallet::of(&fixture);
    let nonce = authorization_claims("unused", Value::Null)["nonce"].take();
    for name in Forgery::VARIANTS {
        let forgery: Forgery = name.parse().unwrap();
        let response = wallet.respond(EVEN, Some(forgery)).unwrap();
        let subject = format!("operatortoken:{}", response.operator_token);
        let issued = fixture.jwt_bearer(&json!({ "sub": subject, "scope": VERIFY })).await;
        let genuine = [
            (Forgery::IssuerSignature, response.is_issuer_signed),
            (Forgery::BindingSignature, response.is_binding_signed),
            (Forgery::Audience, response.binding["aud"] == ORIGIN),
            (Forgery::Nonce, response.binding["nonce"] == nonce),
            (Forgery::OperatorToken, issued.status == 200),
        ];
        for (part, is_genuine) in genuine {
            assert_eq!(is_genuine, part != forgery, "{part:?} {forgery:?}");
        }
        assert!(response.has_issuer_hash, "{forgery:?}");
    }
}

#[tokio::test]
async fn last_digits_decide_whether_the_wallet_responds() {
    let fixture = Fixture::start().await;
    let wallet = PhoneWallet::of(&fixture);
    for (last_digits, expected) in [
        ("99", None),
        ("98", Some(WalletError::NoAnswer)),
        ("97", Some(WalletError::NotEligible)),
        ("96", Some(WalletError::NotEligible)),
        ("95", None),
        ("94", Some(WalletError::NotEligible)),
        ("93", None),
    ] {
        let sim = format!("+9901234567{last_digits}");
        assert_eq!(wallet.respond(&sim, None).err(), expected, "{sim}");
        assert_eq!(Wallet::offers(&sim.parse().unwrap()), expected != Some(WalletError::NotEligible), "{sim}");
    }
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let fixture = Fixture::start().await;
    let wallet = PhoneWallet::of(&fixture);
    let credential = &vector()["request"]["data"]["dcql_query"]["credentials"][0];
    for (pointer, value, reported) in [
        ("/protocol", json!("openid4vp"), "/protocol"),
        ("/data", json!("x"), "/data/response_type"),
        ("/data/response_type", json!("code"), "/data/response_type"),
        ("/data/response_mode", json!("direct_post"), "/data/response_mode"),
        ("/data/nonce", json!(""), "/data/nonce"),
        ("/data/nonce", json!("another"), AUTHORIZATION),
        ("/data/dcql_query/credentials", json!([]), "/data/dcql_query/credentials"),
        ("/data/dcql_query/credentials", json!([credential, credential]), "/data/dcql_query/credentials"),
        ("/data/dcql_query/credentials/0/id", json!(7), "/data/dcql_query/credentials/0/id"),
        ("/data/dcql_query/credentials/0/format", json!("dc+sd-jwt"), "/data/dcql_query/credentials/0/format"),
        (
            "/data/dcql_query/credentials/0/meta/vct_values",
            json!(["another"]),
            "/data/dcql_query/credentials/0/meta/vct_values",
        ),
        (AUTHORIZATION, json!(null), AUTHORIZATION),
        (AUTHORIZATION, json!("no JWT"), AUTHORIZATION),
    ] {
        let mut request = vector()["request"].take();
        *request.pointer_mut(pointer).unwrap() = value.clone();
        assert_eq!(wallet.read(&request).unwrap_err().pointer, reported, "{pointer} {value}");
    }
}

#[tokio::test]
async fn invalid_authorizations_are_rejected() {
    let fixture = Fixture::start().await;
    let wallet = PhoneWallet::of(&fixture);
    let verifier = Verifier::new();
    let valid = authorization_claims("unused", Value::Null);
    assert!(wallet.read(&with_authorization(verifier.sign(&valid))).is_ok());

    let key = |name: &str, value: &str| {
        let mut key = valid["jwks"]["keys"][0].clone();
        key[name] = json!(value);
        ("jwks", json!({ "keys": [key] }))
    };
    for (name, value) in [
        ("iss", json!(null)),
        ("nonce", json!(null)),
        ("encrypted_response_enc_values_supported", json!(["A256GCM"])),
        ("jwks", json!({ "keys": [] })),
        key("crv", "P-384"),
        key("use", "sig"),
        key("alg", "ECDH-ES+A128KW"),
        key("x", "AAAA"),
        // The point is not on the curve.
        key("x", valid["jwks"]["keys"][0]["y"].as_str().unwrap()),
        ("consent_data", json!(null)),
        ("consent_data", json!("e30")),
    ] {
        let authorization = verifier.sign(&authorization_claims(name, value.clone()));
        let error = wallet.read(&with_authorization(authorization)).unwrap_err();
        assert_eq!(error.pointer, AUTHORIZATION, "{name} {value}");
        assert!(error.problem.contains(name), "{name} {value}: {error}");
    }

    let other = Verifier::new();
    let with_chain = |chain: [&String; 2]| {
        let mixed = Verifier { key: verifier.key.clone(), chain: chain.map(Clone::clone) };
        mixed.sign(&valid)
    };
    for (authorization, problem) in [
        (verifier.sign_with("JWT", &valid), "typ"),
        (Verifier::until(2026).sign(&valid), "expired"),
        (with_chain([&verifier.chain[0], &other.chain[1]]), "not signed by the root"),
        (with_chain([&verifier.chain[0], &verifier.chain[0]]), "not signed by the root"),
        (with_chain([&other.chain[0], &other.chain[1]]), "signature"),
        (encode(&Header::new(Algorithm::ES256), &valid, &verifier.key).unwrap(), "typ"),
    ] {
        let error = wallet.read(&with_authorization(authorization)).unwrap_err();
        assert!(error.problem.contains(problem), "{problem}: {error}");
    }
}
