use ringtrue_sandbox::camara::Endpoint;
use serde_json::{Value, json};

use crate::{
    Bearer::{Client, Network},
    EVEN, Fixture, ODD, SHARE, VERIFY,
    http_client::TestResponse,
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
