use ringtrue_sandbox::camara::{Endpoint, OAuthClient, OperatorConfig};

use crate::{CLIENT, EVEN, Fixture, ODD, SIM_SWAP, VERIFY, basic, client::TestResponse};

const GRANT: &str = "urn:openid:params:grant-type:ciba";

impl Fixture {
    async fn start_request(&self, hint: &str, scope: &str) -> TestResponse {
        self.post(Endpoint::BackchannelAuthorize, &[("login_hint", hint), ("scope", scope)]).await
    }

    async fn request_id(&self, hint: &str, scope: &str) -> String {
        self.start_request(hint, scope).await.json()["auth_req_id"].as_str().unwrap().to_owned()
    }

    async fn poll(&self, id: &str) -> TestResponse {
        self.token(&[("grant_type", GRANT), ("auth_req_id", id)]).await
    }
}

fn error(code: &str) -> (u16, String) {
    (400, code.to_owned())
}

#[tokio::test]
async fn polling_succeeds_after_pending() {
    let fixture = Fixture::start().await;
    let started = fixture.start_request(&format!("tel:{ODD}"), &format!("openid {SIM_SWAP}")).await.json();
    assert_eq!((started["expires_in"].as_i64(), started["interval"].as_i64()), (Some(120), Some(5)));
    let id = started["auth_req_id"].as_str().unwrap();
    assert_eq!(fixture.poll(id).await.error(), error("authorization_pending"));
    fixture.advance(5);
    let issued = fixture.poll(id).await;
    assert_eq!(issued.status, 200);
    assert!(issued.json()["id_token"].is_string());
    let token = issued.json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(fixture.call_with_token(Endpoint::CheckSimSwap, Some(&token), "{}").await.json()["swapped"], true);
    assert_eq!(fixture.poll(id).await.error(), error("invalid_grant"));
}

#[tokio::test]
async fn fast_polling_increases_the_interval() {
    let fixture = Fixture::start().await;
    let id = fixture.request_id(EVEN, SIM_SWAP).await;
    assert_eq!(fixture.poll(&id).await.error(), error("authorization_pending"));
    fixture.advance(4);
    assert_eq!(fixture.poll(&id).await.error(), error("slow_down"));
    fixture.advance(9);
    assert_eq!(fixture.poll(&id).await.error(), error("slow_down"));
    fixture.advance(15);
    assert_eq!(fixture.poll(&id).await.status, 200);
}

#[tokio::test]
async fn request_expires_after_two_minutes() {
    let fixture = Fixture::start().await;
    let id = fixture.request_id(EVEN, SIM_SWAP).await;
    fixture.advance(120);
    assert_eq!(fixture.poll(&id).await.error(), error("expired_token"));
    fixture.advance(600);
    assert_eq!(fixture.poll(&id).await.error(), error("invalid_grant"));
}

#[tokio::test]
async fn request_belongs_to_its_client() {
    let config =
        OperatorConfig { clients: vec![OAuthClient::new("other").with_secret("other")], ..OperatorConfig::default() };
    let fixture = Fixture::with_config(config).await;
    let id = fixture.request_id(EVEN, SIM_SWAP).await;
    let headers = [("authorization", &*basic("other", "other"))];
    let parameters = [("grant_type", GRANT), ("auth_req_id", &id)];
    assert_eq!(fixture.post_with(Endpoint::Token, &headers, &parameters).await.error(), error("invalid_grant"));
    assert_eq!(fixture.token(&parameters[..1]).await.error(), error("invalid_request"));
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let fixture = Fixture::start().await;
    let number_as_token = format!("operatortoken:{EVEN}");
    for hint in ["tel:+990123456794", "tel:12", "ipport:203.0.113.1:80", &number_as_token, "unknown"] {
        assert_eq!(fixture.start_request(hint, SIM_SWAP).await.error(), error("unknown_user_id"), "{hint}");
    }
    let hint = ("login_hint", EVEN);
    for (parameters, expected) in [
        (vec![("scope", SIM_SWAP)], "invalid_request"),
        (vec![hint, ("scope", SIM_SWAP), ("id_token_hint", "x")], "invalid_request"),
        (vec![hint, ("scope", SIM_SWAP), ("login_hint_token", "x")], "invalid_request"),
        (vec![hint, ("scope", SIM_SWAP), ("request", "x")], "invalid_request"),
        (vec![hint, hint, ("scope", SIM_SWAP)], "invalid_request"),
        (vec![hint], "invalid_scope"),
        (vec![hint, ("scope", "sim-swap")], "invalid_scope"),
    ] {
        let response = fixture.post(Endpoint::BackchannelAuthorize, &parameters).await;
        assert_eq!(response.error(), error(expected), "{parameters:?}");
    }
    let headers = [("authorization", &*basic(CLIENT, "wrong"))];
    let response = fixture.post_with(Endpoint::BackchannelAuthorize, &headers, &[hint, ("scope", SIM_SWAP)]).await;
    assert_eq!(response.error(), (401, "invalid_client".into()));
}

#[tokio::test]
async fn operator_token_authenticates_and_phone_number_does_not() {
    let fixture = Fixture::start().await;
    for (hint, expected) in [(fixture.operator_token_hint(EVEN), 200), (format!("tel:{EVEN}"), 403)] {
        let id = fixture.request_id(&hint, VERIFY).await;
        fixture.poll(&id).await;
        fixture.advance(5);
        let issued = fixture.poll(&id).await.json();
        assert_eq!(issued["expires_in"], 300);
        let token = issued["access_token"].as_str();
        let body = format!(r#"{{"phoneNumber":"{EVEN}"}}"#);
        assert_eq!(fixture.call_with_token(Endpoint::VerifyNumber, token, &body).await.status, expected, "{hint}");
    }
}

#[tokio::test]
async fn operator_token_is_single_use() {
    let fixture = Fixture::start().await;
    let hint = fixture.operator_token_hint(EVEN);
    assert_eq!(fixture.start_request(&hint, VERIFY).await.status, 200);
    assert_eq!(fixture.start_request(&hint, VERIFY).await.error(), error("unknown_user_id"));
}
