use ringtrue_sandbox::camara::{Endpoint, OAuthClient, OperatorConfig};
use serde_json::json;

use crate::{Fixture, REDIRECT_URI, VERIFY, authorization_parameters, with_parameter};

#[tokio::test]
async fn discovery_document_is_complete() {
    let fixture = Fixture::start().await;
    let issuer = fixture.operator.issuer().to_owned();
    assert_eq!(issuer, format!("http://{}", fixture.operator.address()));
    let response = fixture.get("/.well-known/openid-configuration").await;
    assert_eq!(response.header("content-type"), Some("application/json"));
    let metadata = response.json();
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
        assert_eq!(metadata[name], expected, "{name}");
    }
    let grants = metadata["grant_types_supported"].as_array().unwrap();
    assert_eq!(grants.len(), 4);
}

#[tokio::test]
async fn jwks_has_no_private_key() {
    let fixture = Fixture::start().await;
    let keys = fixture.get("/jwks").await.json();
    let key = keys["keys"][0].as_object().unwrap();
    assert_eq!((&key["kty"], &key["crv"], &key["alg"]), (&json!("EC"), &json!("P-256"), &json!("ES256")));
    assert!(!key.contains_key("d"));
}

#[tokio::test]
async fn issuer_and_authorization_endpoint_are_configurable() {
    let config = OperatorConfig {
        issuer: Some("https://operator.example/oidc".into()),
        authorization_endpoint: Some("https://devices.example/authorize".into()),
        clients: vec![OAuthClient::new("other").with_redirect_uri(REDIRECT_URI)],
        ..OperatorConfig::default()
    };
    let fixture = Fixture::with_config(config).await;
    assert_eq!(fixture.operator.url(Endpoint::Token), "https://operator.example/oidc/token");
    let metadata = fixture.get("/.well-known/openid-configuration").await.json();
    assert_eq!(metadata["authorization_endpoint"], "https://devices.example/authorize");
    assert_eq!(metadata["jwks_uri"], "https://operator.example/oidc/jwks");
    let redirect = fixture
        .redirect_parameters(&with_parameter(authorization_parameters("tel:+99012340", VERIFY), "client_id", "other"))
        .await;
    assert_eq!(redirect["iss"], "https://operator.example/oidc");
}
