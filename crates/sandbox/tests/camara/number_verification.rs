use ringtrue_sandbox::camara::Endpoint;
use serde_json::{Value, json};

use crate::{
    Bearer::{Client, Expired, Invalid, Missing, Named, Network},
    EVEN, Fixture, ODD, SHARE, VERIFY,
    client::TestResponse,
};

const BOTH: &str = "dpv:A number-verification:verify number-verification:device-phone-number:read";

impl Fixture {
    pub async fn verify(&self, token: &str, number: &str) -> TestResponse {
        self.call_with_token(Endpoint::VerifyNumber, Some(token), &json!({ "phoneNumber": number }).to_string()).await
    }
}

#[tokio::test]
async fn last_two_digits_select_the_outcome() {
    let fixture = Fixture::start().await;
    let not_applicable = (422, json!("SERVICE_NOT_APPLICABLE"));
    for (sim, verified, shown) in [
        (EVEN, (200, json!(true)), (200, json!(EVEN))),
        ("+990123456796", (200, json!(true)), (200, json!("+990123456796"))),
        (ODD, (200, json!(false)), (404, json!("IDENTIFIER_NOT_FOUND"))),
        ("+990123456797", not_applicable.clone(), not_applicable.clone()),
        ("+990123456794", not_applicable.clone(), not_applicable.clone()),
    ] {
        let outcome = |response: &TestResponse, name: &str| {
            let body = response.json();
            (response.status, body.get(name).or(body.get("code")).cloned().unwrap_or(Value::Null))
        };
        let token = fixture.access_token(Network(sim, BOTH)).await.unwrap();
        assert_eq!(outcome(&fixture.verify(&token, sim).await, "devicePhoneNumberVerified"), verified, "{sim}");
        let response = fixture.call(Endpoint::DevicePhoneNumber, Network(sim, BOTH), "").await;
        assert_eq!(outcome(&response, "devicePhoneNumber"), shown, "{sim}");
    }
}

#[tokio::test]
async fn unrecognised_sims_fail_with_operator_tokens() {
    let fixture = Fixture::start().await;
    for (sim, expected) in [
        ("+990123456799", (500, "INTERNAL")),
        ("+990123456798", (504, "TIMEOUT")),
        ("+990123456795", (504, "TIMEOUT")),
        ("+990123456793", (500, "INTERNAL")),
    ] {
        let issued =
            fixture.jwt_bearer(&json!({ "sub": fixture.operator_token_hint(sim), "scope": VERIFY })).await.json();
        let response = fixture.verify(issued["access_token"].as_str().unwrap(), sim).await;
        assert_eq!(response.error(), (expected.0, expected.1.to_owned()), "{sim}");
    }
}

#[tokio::test]
async fn operator_token_verifies_the_number_of_its_sim() {
    let fixture = Fixture::start().await;
    for (sim, claimed, verified) in [(EVEN, EVEN, true), (EVEN, ODD, false), (ODD, ODD, false)] {
        let issued = fixture.jwt_bearer(&json!({ "sub": fixture.operator_token_hint(sim), "scope": VERIFY })).await;
        let response = fixture.verify(issued.json()["access_token"].as_str().unwrap(), claimed).await;
        assert_eq!(response.json(), json!({ "devicePhoneNumberVerified": verified }), "{sim} {claimed}");
    }
}

#[tokio::test]
async fn token_is_single_use() {
    let fixture = Fixture::start().await;
    let token = fixture.access_token(Network(EVEN, VERIFY)).await.unwrap();
    assert_eq!(fixture.verify(&token, EVEN).await.status, 200);
    assert_eq!(fixture.verify(&token, EVEN).await.error(), (401, "UNAUTHENTICATED".into()));
    let token = fixture.access_token(Network(EVEN, SHARE)).await.unwrap();
    assert_eq!(fixture.call_with_token(Endpoint::DevicePhoneNumber, Some(&token), "").await.status, 200);
    assert_eq!(fixture.call_with_token(Endpoint::DevicePhoneNumber, Some(&token), "").await.status, 401);
    // A failed call consumes the token.
    let token = fixture.access_token(Network(EVEN, VERIFY)).await.unwrap();
    assert_eq!(fixture.verify(&token, "unknown").await.status, 400);
    assert_eq!(fixture.verify(&token, EVEN).await.status, 401);
}

#[tokio::test]
async fn token_expires_after_five_minutes() {
    let fixture = Fixture::start().await;
    let (in_time, late) =
        (fixture.access_token(Network(EVEN, VERIFY)).await, fixture.access_token(Network(EVEN, VERIFY)).await);
    fixture.advance(299);
    assert_eq!(fixture.verify(&in_time.unwrap(), EVEN).await.status, 200);
    fixture.advance(1);
    assert_eq!(fixture.verify(&late.unwrap(), EVEN).await.status, 401);
}

#[tokio::test]
async fn client_credentials_have_no_device() {
    let fixture = Fixture::start().await;
    let response = fixture.call(Endpoint::DevicePhoneNumber, Client(BOTH), "").await;
    let expected = "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK";
    assert_eq!(response.error(), (403, expected.to_owned()));
}

const TWO_LEGGED: &str = "dpv:FraudPreventionAndDetection number-verification:verify";
const ANOTHER: &str = "+990123456702";
/// SHA-256 of `EVEN`, made by `printf +990123456700 | sha256sum`.
const HASH: &str = "e25e038e9f15e4fd6ef1829cda084f7b420f29e1d587d37492a471f652ab694b";
/// SHA-256 of `ANOTHER`, made by `printf +990123456702 | sha256sum`.
const ANOTHER_HASH: &str = "2e462d154a15df89e4b955a306e3ebe42b1bed4c81fe6295d3157bdd0c64654d";

#[derive(Clone, Copy)]
enum Expected {
    Verified(bool),
    Error(u16, &'static str),
}

/// Scenarios of CAMARA's `number-verification-phoneNumberVerify.feature`, by the ends of their names.
#[tokio::test]
async fn every_verify_scenario() {
    use Expected::{Error, Verified};
    let number = |number: &str| json!({ "phoneNumber": number }).to_string();
    let hash = |hash: &str| json!({ "hashedPhoneNumber": hash }).to_string();
    let valid = || number(EVEN);
    let (unauthenticated, invalid) = (Error(401, "UNAUTHENTICATED"), Error(400, "INVALID_ARGUMENT"));
    let not_by_network = Error(403, "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK");
    let device = Network(EVEN, VERIFY);
    let scenarios = [
        ("01_generic_success_scenario", device, valid(), Verified(true)),
        ("02_validate_phone_number_success_true", device, valid(), Verified(true)),
        ("03_validate_phone_number_success_false", device, number(ANOTHER), Verified(false)),
        ("04_validate_hashed_phone_number_success_true", device, hash(HASH), Verified(true)),
        ("05_validate_hashed_phone_number_success_false", device, hash(ANOTHER_HASH), Verified(false)),
        ("400.1_no_request_body", device, String::new(), invalid),
        ("400.2_empty_request_body", device, "{}".to_owned(), invalid),
        ("400.3_non_existing_property", device, r#"{"additional_property":"foo_value"}"#.to_owned(), invalid),
        ("400.4_both", device, json!({ "phoneNumber": EVEN, "hashedPhoneNumber": HASH }).to_string(), invalid),
        ("401.1_no_authorization_header", Missing, valid(), unauthenticated),
        ("401.2_expired_access_token", Expired(VERIFY), valid(), unauthenticated),
        ("401.3_invalid_access_token", Invalid, valid(), unauthenticated),
        ("403.1_invalid_token_permissions", Network(EVEN, SHARE), valid(), Error(403, "PERMISSION_DENIED")),
        ("403.2_not_authenticated_using_network", Named(EVEN, VERIFY), valid(), not_by_network),
        ("C02.01_not_schema_compliant", Client(TWO_LEGGED), number("990123456700"), invalid),
    ];
    let fixture = Fixture::start().await;
    for (scenario, bearer, body, expected) in scenarios {
        let response = fixture.call(Endpoint::VerifyNumber, bearer, &body).await;
        response.assert_camara_conventions(scenario);
        match expected {
            Verified(verified) => {
                assert_eq!(response.json(), json!({ "devicePhoneNumberVerified": verified }), "{scenario}");
            }
            Error(status, code) => assert_eq!(response.error(), (status, code.to_owned()), "{scenario}"),
        }
    }
}

#[tokio::test]
async fn invalid_bodies_are_rejected() {
    let fixture = Fixture::start().await;
    for body in [
        json!({ "phoneNumber": EVEN, "more": 1 }),
        json!({ "phoneNumber": 990_123_456_700_u64 }),
        json!({ "phoneNumber": null }),
        json!({ "phoneNumber": {} }),
        json!({ "phoneNumber": "+0990" }),
        json!({ "phoneNumber": "tel:+990123456700" }),
        json!({ "hashedPhoneNumber": &HASH[1..] }),
        json!({ "hashedPhoneNumber": HASH.replace('a', "g") }),
        json!({ "hashedPhoneNumber": 1 }),
        json!([EVEN]),
        json!(EVEN),
    ] {
        let response = fixture.call(Endpoint::VerifyNumber, Network(EVEN, VERIFY), &body.to_string()).await;
        assert_eq!(response.error(), (400, "INVALID_ARGUMENT".into()), "{body}");
    }
    let response = fixture.call(Endpoint::VerifyNumber, Network(EVEN, VERIFY), "{").await;
    assert_eq!(response.error(), (400, "INVALID_ARGUMENT".into()));
}

#[tokio::test]
async fn uppercase_hash_is_accepted() {
    let fixture = Fixture::start().await;
    let body = json!({ "hashedPhoneNumber": HASH.to_uppercase() }).to_string();
    let response = fixture.call(Endpoint::VerifyNumber, Network(EVEN, VERIFY), &body).await;
    assert_eq!(response.json(), json!({ "devicePhoneNumberVerified": true }));
}

/// Scenarios of CAMARA's `number-verification-phoneNumberShare.feature`, by the ends of their names.
#[tokio::test]
async fn every_share_scenario() {
    const NOT_BY_NETWORK: &str = "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK";
    let scenarios = [
        ("01_generic_success_scenario", Network(EVEN, SHARE), 200, ""),
        ("02_success_scenario", Network(EVEN, SHARE), 200, ""),
        ("401.1_no_authorization_header", Missing, 401, "UNAUTHENTICATED"),
        ("401.2_expired_access_token", Expired(SHARE), 401, "UNAUTHENTICATED"),
        ("401.3_invalid_access_token", Invalid, 401, "UNAUTHENTICATED"),
        ("403.1_invalid_token_permissions", Network(EVEN, VERIFY), 403, "PERMISSION_DENIED"),
        ("403.2_not_authenticated_using_network", Named(EVEN, SHARE), 403, NOT_BY_NETWORK),
    ];
    let fixture = Fixture::start().await;
    for (scenario, bearer, status, code) in scenarios {
        let response = fixture.call(Endpoint::DevicePhoneNumber, bearer, "").await;
        response.assert_camara_conventions(scenario);
        if status == 200 {
            assert_eq!(response.json(), json!({ "devicePhoneNumber": EVEN }), "{scenario}");
        } else {
            assert_eq!(response.error(), (status, code.to_owned()), "{scenario}");
        }
    }
}
