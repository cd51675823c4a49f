use ringtrue_sandbox::camara::Endpoint;

use crate::{Bearer, EVEN, SIM_SWAP, VERIFY, World, wire};

const APIS: [Endpoint; 4] =
    [Endpoint::VerifyNumber, Endpoint::DevicePhoneNumber, Endpoint::CheckSimSwap, Endpoint::RetrieveSimSwapDate];

#[tokio::test]
async fn a_correlator_comes_back_if_it_is_a_good_one() {
    let world = World::start().await;
    let longest = "x".repeat(256);
    let too_long = "x".repeat(257);
    for endpoint in APIS {
        let method = if endpoint == Endpoint::DevicePhoneNumber { "GET" } else { "POST" };
        let ask = async |correlator: Option<&str>| {
            let headers: Vec<_> = correlator.map(|value| ("x-correlator", value)).into_iter().collect();
            wire::exchange(world.operator.address(), method, endpoint.path(), &headers, "").await.unwrap()
        };
        for good in ["b4333c46-49c0-4f62-80d7-f0ef930f1c46", "aZ09-_:;./<>{}", &longest] {
            let reply = ask(Some(good)).await;
            assert_eq!((reply.status, reply.header("x-correlator")), (401, Some(good)));
        }
        for bad in ["with space", "quoted\"", "a,b", "#", &too_long] {
            let reply = ask(Some(bad)).await;
            assert_eq!(reply.error(), (400, "INVALID_ARGUMENT".into()), "{bad}");
            assert_eq!(reply.header("x-correlator"), None);
        }
        for none in [None, Some("")] {
            assert_eq!((ask(none).await.status, ask(none).await.header("x-correlator")), (401, None));
        }
    }
}

#[tokio::test]
async fn a_body_of_another_kind_is_refused() {
    let world = World::start().await;
    for (content_type, expected) in [
        (Some("application/json; charset=utf-8"), 200),
        (Some("Application/JSON"), 200),
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (None, 415),
    ] {
        let token = format!("Bearer {}", world.bearer(Bearer::Network(EVEN, VERIFY)).await.unwrap());
        let mut headers = vec![("authorization", &*token)];
        headers.extend(content_type.map(|value| ("content-type", value)));
        let body = format!(r#"{{"phoneNumber":"{EVEN}"}}"#);
        let path = Endpoint::VerifyNumber.path();
        let reply = wire::exchange(world.operator.address(), "POST", path, &headers, &body).await.unwrap();
        assert_eq!(reply.status, expected, "{content_type:?}");
        if expected == 415 {
            assert_eq!(reply.error().1, "UNSUPPORTED_MEDIA_TYPE");
        }
    }
    let headers = [("content-type", "application/json")];
    let reply = wire::exchange(world.operator.address(), "POST", "/token", &headers, "{}").await.unwrap();
    assert_eq!(reply.error(), (400, "invalid_request".into()));
}

#[tokio::test]
async fn other_methods_and_other_places_are_refused() {
    let world = World::start().await;
    let address = world.operator.address();
    for endpoint in Endpoint::ALL {
        let reply = wire::exchange(address, "PUT", endpoint.path(), &[], "").await.unwrap();
        assert_eq!(reply.status, 405, "{endpoint:?}");
        assert!(["GET", "POST"].contains(&reply.header("allow").unwrap()), "{endpoint:?}");
        if APIS.contains(&endpoint) {
            assert_eq!(reply.error().1, "METHOD_NOT_ALLOWED");
        }
    }
    for (path, is_api) in [("/", false), ("/userinfo", false), ("/sim-swap/v2/retrieve-age-band", true)] {
        let reply = world.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        if is_api {
            assert_eq!(reply.error().1, "NOT_FOUND");
        }
    }
}

#[tokio::test]
async fn a_token_is_taken_from_the_header_only() {
    let world = World::start().await;
    let token = world.bearer(Bearer::Network(EVEN, SIM_SWAP)).await.unwrap();
    let path = format!("{}?access_token={token}", Endpoint::CheckSimSwap.path());
    let reply = wire::exchange(world.operator.address(), "POST", &path, &[], "{}").await.unwrap();
    assert_eq!(reply.error(), (401, "UNAUTHENTICATED".into()));
    assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"));
    for scheme in ["bearer", "BEARER"] {
        let authorization = format!("{scheme} {token}");
        let headers = [("authorization", &*authorization), ("content-type", "application/json")];
        let path = Endpoint::CheckSimSwap.path();
        let reply = wire::exchange(world.operator.address(), "POST", path, &headers, "{}").await.unwrap();
        assert_eq!(reply.status, 200, "{scheme}");
    }
}

#[tokio::test]
async fn nothing_of_a_request_is_shown_by_debug() {
    let world = World::start().await;
    let code = world.code(EVEN, VERIFY).await;
    let token = world.redeem(&code).await.json()["access_token"].as_str().unwrap().to_owned();
    let shown = format!("{:?} {:?}", world.operator, world.operator.exchanges());
    for secret in [EVEN, &EVEN[1..], &code, &token, crate::SECRET] {
        assert!(!shown.contains(secret), "{secret}");
    }
}
