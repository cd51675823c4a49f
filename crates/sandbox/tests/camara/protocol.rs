use ringtrue_sandbox::camara::{Endpoint, OAuthClient, OperatorConfig};
use serde_json::json;
use strum::VariantArray as _;

use crate::{Bearer, EVEN, Fixture, REDIRECT_URI, SIM_SWAP, VERIFY, authorization_parameters, client, with_parameter};

const APIS: [Endpoint; 4] =
    [Endpoint::VerifyNumber, Endpoint::DevicePhoneNumber, Endpoint::CheckSimSwap, Endpoint::RetrieveSimSwapDate];

#[tokio::test]
async fn valid_correlator_is_echoed() {
    let fixture = Fixture::start().await;
    let longest = "x".repeat(256);
    let too_long = "x".repeat(257);
    for endpoint in APIS {
        let method = if endpoint == Endpoint::DevicePhoneNumber { "GET" } else { "POST" };
        let send = async |correlator: Option<&str>| {
            let headers: Vec<_> = correlator.map(|value| ("x-correlator", value)).into_iter().collect();
            client::send_request(fixture.operator.address(), method, endpoint.path(), &headers, "").await.unwrap()
        };
        for valid in ["b4333c46-49c0-4f62-80d7-f0ef930f1c46", "aZ09-_:;./<>{}", &longest] {
            let response = send(Some(valid)).await;
            assert_eq!((response.status, response.header("x-correlator")), (401, Some(valid)));
        }
        for invalid in ["with space", "quoted\"", "a,b", "#", &too_long] {
            let response = send(Some(invalid)).await;
            assert_eq!(response.error(), (400, "INVALID_ARGUMENT".into()), "{invalid}");
            assert_eq!(response.header("x-correlator"), None);
        }
        for none in [None, Some("")] {
            assert_eq!((send(none).await.status, send(none).await.header("x-correlator")), (401, None));
        }
    }
}

#[tokio::test]
async fn wrong_content_type_is_rejected() {
    let fixture = Fixture::start().await;
    for (content_type, expected) in [
        (Some("application/json; charset=utf-8"), 200),
        (Some("Application/JSON"), 200),
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (None, 415),
    ] {
        let token = format!("Bearer {}", fixture.access_token(Bearer::Network(EVEN, VERIFY)).await.unwrap());
        let mut headers = vec![("authorization", &*token)];
        headers.extend(content_type.map(|value| ("content-type", value)));
        let body = format!(r#"{{"phoneNumber":"{EVEN}"}}"#);
        let path = Endpoint::VerifyNumber.path();
        let response = client::send_request(fixture.operator.address(), "POST", path, &headers, &body).await.unwrap();
        assert_eq!(response.status, expected, "{content_type:?}");
        if expected == 415 {
            assert_eq!(response.error().1, "UNSUPPORTED_MEDIA_TYPE");
        }
    }
    let headers = [("content-type", "application/json")];
    let response = client::send_request(fixture.operator.address(), "POST", "/token", &headers, "{}").await.unwrap();
    assert_eq!(response.error(), (400, "invalid_request".into()));
}

#[tokio::test]
async fn unknown_methods_and_paths_are_rejected() {
    let fixture = Fixture::start().await;
    let address = fixture.operator.address();
    for endpoint in Endpoint::VARIANTS.iter().copied() {
        let response = client::send_request(address, "PUT", endpoint.path(), &[], "").await.unwrap();
        assert_eq!(response.status, 405, "{endpoint:?}");
        assert!(["GET", "POST"].contains(&response.header("allow").unwrap()), "{endpoint:?}");
        if APIS.contains(&endpoint) {
            assert_eq!(response.error().1, "METHOD_NOT_ALLOWED");
        }
    }
    for (path, is_api) in [("/", false), ("/userinfo", false), ("/sim-swap/v2/retrieve-age-band", true)] {
        let response = fixture.get(path).await;
        assert_eq!(response.status, 404, "{path}");
        if is_api {
            assert_eq!(response.error().1, "NOT_FOUND");
        }
    }
}

#[tokio::test]
async fn token_is_read_from_the_header_only() {
    let fixture = Fixture::start().await;
    let token = fixture.access_token(Bearer::Network(EVEN, SIM_SWAP)).await.unwrap();
    let path = format!("{}?access_token={token}", Endpoint::CheckSimSwap.path());
    let response = client::send_request(fixture.operator.address(), "POST", &path, &[], "{}").await.unwrap();
    assert_eq!(response.error(), (401, "UNAUTHENTICATED".into()));
    assert!(response.header("www-authenticate").unwrap().starts_with("Bearer"));
    for scheme in ["bearer", "BEARER"] {
        let authorization = format!("{scheme} {token}");
        let headers = [("authorization", &*authorization), ("content-type", "application/json")];
        let path = Endpoint::CheckSimSwap.path();
        let response = client::send_request(fixture.operator.address(), "POST", path, &headers, "{}").await.unwrap();
        assert_eq!(response.status, 200, "{scheme}");
    }
}

#[tokio::test]
async fn debug_hides_secrets() {
    let fixture = Fixture::start().await;
    let code = fixture.code(EVEN, VERIFY).await;
    let token = fixture.redeem(&code).await.json()["access_token"].as_str().unwrap().to_owned();
    let shown = format!("{:?} {:?}", fixture.operator, fixture.operator.recorded_requests());
    for secret in [EVEN, &EVEN[1..], &code, &token, crate::SECRET] {
        assert!(!shown.contains(secret), "{secret}");
    }
}

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
