use ringtrue_sandbox::camara::{Client, Endpoint, OperatorConfig};

use crate::{CLIENT, EVEN, ODD, SIM_SWAP, VERIFY, World, basic, wire::Reply};

const GRANT: &str = "urn:openid:params:grant-type:ciba";

impl World {
    async fn begin(&self, hint: &str, scope: &str) -> Reply {
        self.post(Endpoint::BackchannelAuthorize, &[("login_hint", hint), ("scope", scope)]).await
    }

    async fn request_id(&self, hint: &str, scope: &str) -> String {
        self.begin(hint, scope).await.json()["auth_req_id"].as_str().unwrap().to_owned()
    }

    async fn poll(&self, id: &str) -> Reply {
        self.token(&[("grant_type", GRANT), ("auth_req_id", id)]).await
    }
}

fn refused(code: &str) -> (u16, String) {
    (400, code.to_owned())
}

#[tokio::test]
async fn a_client_asks_until_it_is_decided() {
    let world = World::start().await;
    let begun = world.begin(&format!("tel:{ODD}"), &format!("openid {SIM_SWAP}")).await.json();
    assert_eq!((begun["expires_in"].as_i64(), begun["interval"].as_i64()), (Some(120), Some(5)));
    let id = begun["auth_req_id"].as_str().unwrap();
    assert_eq!(world.poll(id).await.error(), refused("authorization_pending"));
    world.advance(5);
    let issued = world.poll(id).await;
    assert_eq!(issued.status, 200);
    assert!(issued.json()["id_token"].is_string());
    let token = issued.json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(world.call_by(Endpoint::CheckSimSwap, Some(&token), "{}").await.json()["swapped"], true);
    assert_eq!(world.poll(id).await.error(), refused("invalid_grant"));
}

#[tokio::test]
async fn who_asks_too_often_has_to_wait_longer() {
    let world = World::start().await;
    let id = world.request_id(EVEN, SIM_SWAP).await;
    assert_eq!(world.poll(&id).await.error(), refused("authorization_pending"));
    world.advance(4);
    assert_eq!(world.poll(&id).await.error(), refused("slow_down"));
    world.advance(9);
    assert_eq!(world.poll(&id).await.error(), refused("slow_down"));
    world.advance(15);
    assert_eq!(world.poll(&id).await.status, 200);
}

#[tokio::test]
async fn a_request_ends_after_two_minutes() {
    let world = World::start().await;
    let id = world.request_id(EVEN, SIM_SWAP).await;
    world.advance(120);
    assert_eq!(world.poll(&id).await.error(), refused("expired_token"));
    world.advance(600);
    assert_eq!(world.poll(&id).await.error(), refused("invalid_grant"));
}

#[tokio::test]
async fn a_request_is_its_clients_own() {
    let config =
        OperatorConfig { clients: vec![Client::new("other").with_secret("other")], ..OperatorConfig::default() };
    let world = World::with(config).await;
    let id = world.request_id(EVEN, SIM_SWAP).await;
    let headers = [("authorization", &*basic("other", "other"))];
    let parameters = [("grant_type", GRANT), ("auth_req_id", &id)];
    assert_eq!(world.post_with(Endpoint::Token, &headers, &parameters).await.error(), refused("invalid_grant"));
    assert_eq!(world.token(&parameters[..1]).await.error(), refused("invalid_request"));
}

#[tokio::test]
async fn only_a_known_user_can_be_asked_for() {
    let world = World::start().await;
    for hint in ["tel:+990123456794", "tel:12", "ipport:203.0.113.1:80", "operatortoken:nonsense", "nobody"] {
        assert_eq!(world.begin(hint, SIM_SWAP).await.error(), refused("unknown_user_id"), "{hint}");
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
        let reply = world.post(Endpoint::BackchannelAuthorize, &parameters).await;
        assert_eq!(reply.error(), refused(expected), "{parameters:?}");
    }
    let headers = [("authorization", &*basic(CLIENT, "wrong"))];
    let reply = world.post_with(Endpoint::BackchannelAuthorize, &headers, &[hint, ("scope", SIM_SWAP)]).await;
    assert_eq!(reply.error(), (401, "invalid_client".into()));
}

#[tokio::test]
async fn a_token_of_the_sim_proves_the_device_and_a_name_does_not() {
    let world = World::start().await;
    for (hint, expected) in [(format!("operatortoken:{EVEN}"), 200), (format!("tel:{EVEN}"), 403)] {
        let id = world.request_id(&hint, VERIFY).await;
        world.poll(&id).await;
        world.advance(5);
        let issued = world.poll(&id).await.json();
        assert_eq!(issued["expires_in"], 300);
        let token = issued["access_token"].as_str();
        let body = format!(r#"{{"phoneNumber":"{EVEN}"}}"#);
        assert_eq!(world.call_by(Endpoint::VerifyNumber, token, &body).await.status, expected, "{hint}");
    }
}
