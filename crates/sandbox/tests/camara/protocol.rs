use ringtrue_sandbox::camara::Endpoint;

use crate::{Bearer, EVEN, Fixture, SIM_SWAP, VERIFY, http_client};

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
            http_client::send_request(fixture.operator.address(), method, endpoint.path(), &headers, "").await.unwrap()
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
        let response =
            http_client::send_request(fixture.operator.address(), "POST", path, &headers, &body).await.unwrap();
        assert_eq!(response.status, expected, "{content_type:?}");
        if expected == 415 {
            assert_eq!(response.error().1, "UNSUPPORTED_MEDIA_TYPE");
        }
    }
    let headers = [("content-type", "application/json")];
    let response =
        http_client::send_request(fixture.operator.address(), "POST", "/token", &headers, "{}").await.unwrap();
    assert_eq!(response.error(), (400, "invalid_request".into()));
}

#[tokio::test]
async fn unknown_methods_and_paths_are_rejected() {
    let fixture = Fixture::start().await;
    let address = fixture.operator.address();
    for endpoint in Endpoint::ALL {
        let response = http_client::send_request(address, "PUT", endpoint.path(), &[], "").await.unwrap();
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
    let response = http_client::send_request(fixture.operator.address(), "POST", &path, &[], "{}").await.unwrap();
    assert_eq!(response.error(), (401, "UNAUTHENTICATED".into()));
    assert!(response.header("www-authenticate").unwrap().starts_with("Bearer"));
    for scheme in ["bearer", "BEARER"] {
        let authorization = format!("{scheme} {token}");
        let headers = [("authorization", &*authorization), ("content-type", "application/json")];
        let path = Endpoint::CheckSimSwap.path();
        let response =
            http_client::send_request(fixture.operator.address(), "POST", path, &headers, "{}").await.unwrap();
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
