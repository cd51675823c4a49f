use ringtrue_sandbox::camara::{Client, Endpoint, OperatorConfig};
use serde_json::json;

use crate::{REDIRECT_URI, VERIFY, World, asking, but};

#[tokio::test]
async fn the_provider_says_what_it_can_do() {
    let world = World::start().await;
    let issuer = world.operator.issuer().to_owned();
    assert_eq!(issuer, format!("http://{}", world.operator.address()));
    let reply = world.get("/.well-known/openid-configuration").await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let said = reply.json();
    for (name, expected) in [
        ("issuer", json!(issuer)),
        ("authorization_endpoint", json!(format!("{issuer}/authorize"))),
        ("token_endpoint", json!(format!("{issuer}/token"))),
        ("backchannel_authentication_endpoint", json!(format!("{issuer}/bc-authorize"))),
        ("jwks_uri", json!(format!("{issuer}/jwks"))),
        ("response_types_supported", json!(["code"])),
        ("subject_types_supported", json!(["pairwise"])),
        ("id_token_signing_alg_values_supported", json!(["ES256"])),
        ("code_challenge_methods_supported", json!(["S256"])),
        ("request_parameter_supported", json!(true)),
        ("request_uri_parameter_supported", json!(false)),
        ("authorization_response_iss_parameter_supported", json!(true)),
        ("backchannel_token_delivery_modes_supported", json!(["poll"])),
        (
            "token_endpoint_auth_methods_supported",
            json!(["private_key_jwt", "client_secret_basic", "client_secret_post"]),
        ),
    ] {
        assert_eq!(said[name], expected, "{name}");
    }
    let grants = said["grant_types_supported"].as_array().unwrap();
    assert_eq!(grants.len(), 4);
}

#[tokio::test]
async fn the_keys_are_public_halves_only() {
    let world = World::start().await;
    let keys = world.get("/jwks").await.json();
    let key = keys["keys"][0].as_object().unwrap();
    assert_eq!((&key["kty"], &key["crv"], &key["alg"]), (&json!("EC"), &json!("P-256"), &json!("ES256")));
    assert!(!key.contains_key("d"));
}

#[tokio::test]
async fn an_operator_can_have_another_name_and_another_door_for_devices() {
    let config = OperatorConfig {
        issuer: Some("https://operator.example/oidc".into()),
        authorization_endpoint: Some("https://devices.example/authorize".into()),
        clients: vec![Client::new("other").redirecting_to(REDIRECT_URI)],
        ..OperatorConfig::default()
    };
    let world = World::with(config).await;
    assert_eq!(world.operator.url(Endpoint::Token), "https://operator.example/oidc/token");
    let said = world.get("/.well-known/openid-configuration").await.json();
    assert_eq!(said["authorization_endpoint"], "https://devices.example/authorize");
    assert_eq!(said["jwks_uri"], "https://operator.example/oidc/jwks");
    let back = world.sent_back(&but(asking("tel:+99012340", VERIFY), "client_id", "other")).await;
    assert_eq!(back["iss"], "https://operator.example/oidc");
}
