//! Scenarios of CAMARA's `number-verification-phoneNumberVerify.feature`.

use ringtrue_sandbox::camara::Endpoint;
use serde_json::{Value, json};

use crate::{
    Bearer::{self, Client, Expired, Invalid, Missing, Named, Network},
    EVEN, Fixture, SHARE, VERIFY,
};

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

#[tokio::test]
async fn every_scenario() {
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
