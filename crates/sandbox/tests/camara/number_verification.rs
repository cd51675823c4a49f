use ringtrue_sandbox::camara::Endpoint;
use serde_json::{Value, json};

use crate::{
    Bearer::{self, Client, Expired, Invalid, Missing, Named, Network},
    EVEN, Fixture, ODD, SHARE, VERIFY,
    client::TestResponse,
};

const BOTH: &str = "dpv:A number-verification:verify number-verification:device-phone-number:read";

impl Fixture {
    async fn verify(&self, token: &str, number: &str) -> TestResponse {
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
            fixture.jwt_bearer(&json!({ "sub": format!("operatortoken:{sim}"), "scope": VERIFY })).await.json();
        let response = fixture.verify(issued["access_token"].as_str().unwrap(), sim).await;
        assert_eq!(response.error(), (expected.0, expected.1.to_owned()), "{sim}");
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
/// By `printf +990123456700 | sha256sum`.
const HASH: &str = "e25e038e9f15e4fd6ef1829cda084f7b420f29e1d587d37492a471f652ab694b";
/// By `printf +990123456702 | sha256sum`.
const ANOTHER_HASH: &str = "2e462d154a15df89e4b955a306e3ebe42b1bed4c81fe6295d3157bdd0c64654d";

enum Expected {
    Verified(bool),
    Error(u16, &'static str),
}

/// Scenarios of CAMARA's `number-verification-phoneNumberVerify.feature`.
#[tokio::test]
async fn every_verify_scenario() {
    use Expected::{Error, Verified};
    let body = |value: Value| value.to_string();
    let valid = || body(json!({ "phoneNumber": EVEN }));
    let unauthenticated = || Error(401, "UNAUTHENTICATED");
    let invalid = || Error(400, "INVALID_ARGUMENT");
    let scenarios: [(&str, Bearer, String, Expected); 15] = [
        ("phone_number_verify_01_generic_success_scenario", Network(EVEN, VERIFY), valid(), Verified(true)),
        ("phone_number_verify.02_validate_phone_number_success_true", Network(EVEN, VERIFY), valid(), Verified(true)),
        (
            "phone_number_verify.03_validate_phone_number_success_false",
            Network(EVEN, VERIFY),
            body(json!({ "phoneNumber": ANOTHER })),
            Verified(false),
        ),
        (
            "phone_number_verify.04_validate_hashed_phone_number_success_true",
            Network(EVEN, VERIFY),
            body(json!({ "hashedPhoneNumber": HASH })),
            Verified(true),
        ),
        (
            "phone_number_verify.05_validate_hashed_phone_number_success_false",
            Network(EVEN, VERIFY),
            body(json!({ "hashedPhoneNumber": ANOTHER_HASH })),
            Verified(false),
        ),
        ("phone_number_verify_400.1_no_request_body", Network(EVEN, VERIFY), String::new(), invalid()),
        ("phone_number_verify_400.2_empty_request_body", Network(EVEN, VERIFY), body(json!({})), invalid()),
        (
            "phone_number_verify_400.3_invalid_request_non_existing_property",
            Network(EVEN, VERIFY),
            body(json!({ "additional_property": "foo_value" })),
            invalid(),
        ),
        (
            "phone_number_verify_400.4_both_phone_number_and_hashed_in_request",
            Network(EVEN, VERIFY),
            body(json!({ "phoneNumber": EVEN, "hashedPhoneNumber": HASH })),
            invalid(),
        ),
        ("phone_number_verify_401.1_no_authorization_header", Missing, valid(), unauthenticated()),
        ("phone_number_verify_401.2_expired_access_token", Expired(VERIFY), valid(), unauthenticated()),
        ("phone_number_verify_401.3_invalid_access_token", Invalid, valid(), unauthenticated()),
        (
            "phoneNumberVerify_403.1_invalid_token_permissions",
            Network(EVEN, SHARE),
            valid(),
            Error(403, "PERMISSION_DENIED"),
        ),
        (
            "phoneNumberVerify_403.2_not_authenticated_using_network_or_sim_based_authentication",
            Named(EVEN, VERIFY),
            valid(),
            Error(403, "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK"),
        ),
        (
            "phone_number_verify_C02.01_phone_number_not_schema_compliant",
            Client(TWO_LEGGED),
            body(json!({ "phoneNumber": "990123456700" })),
            invalid(),
        ),
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

/// Scenarios of CAMARA's `number-verification-phoneNumberShare.feature`.
#[tokio::test]
async fn every_share_scenario() {
    const NOT_BY_NETWORK: &str = "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK";
    let scenarios: [(&str, Bearer, u16, &str); 7] = [
        ("phone_number_share_01_generic_success_scenario", Network(EVEN, SHARE), 200, ""),
        ("phone_number_share_02_success_scenario", Network(EVEN, SHARE), 200, ""),
        ("phone_number_verify_401.1_no_authorization_header", Missing, 401, "UNAUTHENTICATED"),
        ("phone_number_verify_401.2_expired_access_token", Expired(SHARE), 401, "UNAUTHENTICATED"),
        ("phone_number_verify_401.3_invalid_access_token", Invalid, 401, "UNAUTHENTICATED"),
        ("phoneNumberShare_403.1_invalid_token_permissions", Network(EVEN, VERIFY), 403, "PERMISSION_DENIED"),
        (
            "phoneNumberShare_403.2_not_authenticated_using_network_or_sim_based_authentication",
            Named(EVEN, SHARE),
            403,
            NOT_BY_NETWORK,
        ),
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
