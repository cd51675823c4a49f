use ringtrue_sandbox::camara::Endpoint;
use serde_json::{Value, json};

use crate::{
    Bearer::{Client, Network},
    EVEN, ODD, SHARE, VERIFY, World,
    wire::Reply,
};

const BOTH: &str = "dpv:A number-verification:verify number-verification:device-phone-number:read";

impl World {
    async fn verify(&self, token: &str, number: &str) -> Reply {
        self.call_by(Endpoint::VerifyNumber, Some(token), &json!({ "phoneNumber": number }).to_string()).await
    }
}

#[tokio::test]
async fn the_last_two_digits_of_the_sim_decide() {
    let world = World::start().await;
    let not_applicable = (422, json!("SERVICE_NOT_APPLICABLE"));
    for (sim, verified, shown) in [
        (EVEN, (200, json!(true)), (200, json!(EVEN))),
        ("+990123456796", (200, json!(true)), (200, json!("+990123456796"))),
        (ODD, (200, json!(false)), (404, json!("IDENTIFIER_NOT_FOUND"))),
        ("+990123456797", not_applicable.clone(), not_applicable.clone()),
        ("+990123456794", not_applicable.clone(), not_applicable.clone()),
    ] {
        let told = |reply: &Reply, name: &str| {
            let body = reply.json();
            (reply.status, body.get(name).or(body.get("code")).cloned().unwrap_or(Value::Null))
        };
        let token = world.bearer(Network(sim, BOTH)).await.unwrap();
        assert_eq!(told(&world.verify(&token, sim).await, "devicePhoneNumberVerified"), verified, "{sim}");
        let reply = world.call(Endpoint::DevicePhoneNumber, Network(sim, BOTH), "").await;
        assert_eq!(told(&reply, "devicePhoneNumber"), shown, "{sim}");
    }
}

#[tokio::test]
async fn what_the_network_would_not_have_let_through_fails_by_other_ways_too() {
    let world = World::start().await;
    for (sim, expected) in [
        ("+990123456799", (500, "INTERNAL")),
        ("+990123456798", (504, "TIMEOUT")),
        ("+990123456795", (504, "TIMEOUT")),
        ("+990123456793", (500, "INTERNAL")),
    ] {
        let issued = world.bear(&json!({ "sub": format!("operatortoken:{sim}"), "scope": VERIFY })).await.json();
        let reply = world.verify(issued["access_token"].as_str().unwrap(), sim).await;
        assert_eq!(reply.error(), (expected.0, expected.1.to_owned()), "{sim}");
    }
}

#[tokio::test]
async fn a_token_is_good_for_one_call() {
    let world = World::start().await;
    let token = world.bearer(Network(EVEN, VERIFY)).await.unwrap();
    assert_eq!(world.verify(&token, EVEN).await.status, 200);
    assert_eq!(world.verify(&token, EVEN).await.error(), (401, "UNAUTHENTICATED".into()));
    let token = world.bearer(Network(EVEN, SHARE)).await.unwrap();
    assert_eq!(world.call_by(Endpoint::DevicePhoneNumber, Some(&token), "").await.status, 200);
    assert_eq!(world.call_by(Endpoint::DevicePhoneNumber, Some(&token), "").await.status, 401);
    // A call that fails is a call.
    let token = world.bearer(Network(EVEN, VERIFY)).await.unwrap();
    assert_eq!(world.verify(&token, "nobody").await.status, 400);
    assert_eq!(world.verify(&token, EVEN).await.status, 401);
}

#[tokio::test]
async fn a_token_is_good_for_five_minutes() {
    let world = World::start().await;
    let (in_time, late) = (world.bearer(Network(EVEN, VERIFY)).await, world.bearer(Network(EVEN, VERIFY)).await);
    world.advance(299);
    assert_eq!(world.verify(&in_time.unwrap(), EVEN).await.status, 200);
    world.advance(1);
    assert_eq!(world.verify(&late.unwrap(), EVEN).await.status, 401);
}

#[tokio::test]
async fn a_client_alone_has_no_device() {
    let world = World::start().await;
    let reply = world.call(Endpoint::DevicePhoneNumber, Client(BOTH), "").await;
    let expected = "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK";
    assert_eq!(reply.error(), (403, expected.to_owned()));
}
