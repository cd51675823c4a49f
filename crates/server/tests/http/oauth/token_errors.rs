//! Rejected token requests get errors in the format that OAuth clients parse.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::json;

use crate::{
    client::{self, HttpResponse, Request, token_request},
    on_both_stores,
    world::{World, assert_contract},
};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
const GOOD: &str = "grant_type=client_credentials&scope=management";

#[tokio::test]
async fn invalid_forms_are_rejected() {
    let world = World::sqlite().await;
    let (id, secret) = (world.acme.client_id.as_str(), world.acme.client_secret.as_str());
    for (form, code) in [
        ("", "invalid_request"),
        ("scope=management", "invalid_request"),
        ("grant_type=&scope=management", "invalid_request"),
        ("grant_type=client_credentials&grant_type=client_credentials&scope=management", "invalid_request"),
        ("grant_type=client_credentials&scope=management&scope=management", "invalid_request"),
        ("grant_type=client_credentials&scope=management&x=1&x=2", "invalid_request"),
        ("grant_type=client_credentials&scope=management&client_secret=x", "invalid_request"),
        (&format!("{GOOD}&client_id={id}&client_secret={secret}"), "invalid_request"),
        (&format!("{GOOD}&client_id=somebody-else"), "invalid_request"),
        ("grant_type=client_credentials&scope=\u{fffd}", "invalid_scope"),
        ("grant_type=authorization_code&code=x&scope=management", "unauthorized_client"),
        ("grant_type=refresh_token&refresh_token=x", "unsupported_grant_type"),
        ("grant_type=password&username=a&password=b&scope=management", "unsupported_grant_type"),
        ("grant_type=CLIENT_CREDENTIALS&scope=management", "unsupported_grant_type"),
        ("grant_type=client_credentials", "invalid_request"),
        ("grant_type=client_credentials&scope=", "invalid_request"),
        ("grant_type=client_credentials&scope=+", "invalid_scope"),
        ("grant_type=client_credentials&scope=everything", "invalid_scope"),
        ("grant_type=client_credentials&scope=MANAGEMENT", "invalid_scope"),
        ("grant_type=client_credentials&scope=management+management", "invalid_scope"),
        ("grant_type=client_credentials&scope=reverse_sms+sim_swap", "invalid_scope"),
        ("grant_type=client_credentials&scope=management%2Csim_swap", "invalid_scope"),
        ("grant_type=client_credentials&scope=management%00", "invalid_scope"),
        ("grant_type=client_credentials&scope=sim_swap", "invalid_scope"),
    ] {
        let request = Request::post("/oauth2/token").basic(id, secret).body(FORM, form);
        let response = world.send(request).await;
        assert_eq!((response.status, response.code().as_str()), (400, code), "{form}");
        reads_as_oauth(&response, code);
    }
    let not_utf8 = Request::post("/oauth2/token").basic(id, secret);
    world.send(not_utf8.body(FORM, b"grant_type=\xff")).await.assert_problem(400, "invalid_request");
}

#[tokio::test]
async fn non_form_bodies_are_rejected() {
    let world = World::sqlite().await;
    let body = json!({"grant_type": "client_credentials", "scope": "management"}).to_string();
    let authorised = || Request::post("/oauth2/token").basic(&world.acme.client_id, &world.acme.client_secret);
    for request in [
        authorised().body("application/json", &body),
        authorised().body("text/plain", GOOD),
        authorised().body("multipart/form-data; boundary=x", "--x--"),
        authorised().body("", GOOD),
        authorised().body(FORM, GOOD).header("Content-Type", FORM),
        authorised().body(FORM, GOOD).header("Content-Encoding", "gzip"),
        authorised(),
    ] {
        let response = world.send(request.clone()).await;
        assert_eq!((response.status, response.code().as_str()), (400, "invalid_request"), "{request:?}");
        reads_as_oauth(&response, "invalid_request");
    }
}

#[tokio::test]
async fn malformed_credentials_are_rejected() {
    let world = World::sqlite().await;
    let (id, secret) = (&world.acme.client_id, &world.acme.client_secret);
    let encoded = |bytes: &[u8]| format!("Basic {}", BASE64_STANDARD.encode(bytes)).into_bytes();
    for (case, value) in [
        ("nothing after the scheme", b"Basic".to_vec()),
        ("not base64", b"Basic !!!".to_vec()),
        ("half base64", b"Basic YTp".to_vec()),
        ("two values", [encoded(b"a:b"), b" x".to_vec()].concat()),
        ("no colon", encoded(id.as_bytes())),
        ("nothing", encoded(b"")),
        ("only a colon", encoded(b":")),
        ("no id", encoded(format!(":{secret}").as_bytes())),
        ("no secret", encoded(format!("{id}:").as_bytes())),
        ("not UTF-8", encoded(b"\xff\xfe:\xff")),
        ("a header that is not ASCII", b"Basic \xff\xff".to_vec()),
        ("NUL", encoded(b"a\0b:c")),
        ("broken percent encoding", encoded(b"%zz:%")),
        ("percent-encoded bytes that are not UTF-8", encoded(b"%ff:%fe")),
        ("another scheme", format!("Bearer {}", BASE64_STANDARD.encode(format!("{id}:{secret}"))).into_bytes()),
        ("Digest", b"Digest username=\"x\"".to_vec()),
        ("64 KiB", encoded(&b"a".repeat(48 * 1024))),
        ("64 KiB with a colon", encoded(&b"a:".repeat(24 * 1024))),
        ("an id of 24 KiB", encoded(format!("{}:{secret}", id.repeat(1000)).as_bytes())),
    ] {
        for endpoint in ["/oauth2/token", "/oauth2/revoke"] {
            let request = Request::post(endpoint).header("Authorization", &value).body(FORM, format!("{GOOD}&token=x"));
            let response = world.send(request).await;
            assert_eq!((response.status, response.code().as_str()), (401, "invalid_client"), "{case} at {endpoint}");
            reads_as_oauth(&response, "invalid_client");
        }
    }
}

#[tokio::test]
async fn misplaced_credentials_are_rejected() {
    let world = World::sqlite().await;
    let (id, secret) = (&world.acme.client_id, &world.acme.client_secret);
    let in_query = format!("/oauth2/token?client_id={id}&client_secret={secret}");
    let all_in_query = format!("{in_query}&{GOOD}");

    let nowhere = world.send(Request::post("/oauth2/token").body(FORM, GOOD)).await;
    reads_as_oauth(&nowhere.assert_problem(401, "invalid_client"), "invalid_client");
    for half in [format!("client_id={id}"), format!("client_secret={secret}"), format!("client_id={id}&client_secret=")]
    {
        let response = world.send(Request::post("/oauth2/token").body(FORM, format!("{GOOD}&{half}"))).await;
        reads_as_oauth(&response.assert_problem(401, "invalid_client"), "invalid_client");
    }
    world.send(Request::post(&in_query).body(FORM, GOOD)).await.assert_problem(401, "invalid_client");
    world.send(Request::post(&all_in_query).body(FORM, "")).await.assert_problem(400, "invalid_request");
    world.send(Request::get(&all_in_query)).await.assert_problem(405, "method_not_allowed");

    let twice = Request::post("/oauth2/token").basic(id, secret).body(FORM, GOOD);
    let twice = twice.basic(id, secret);
    world.send(twice).await.assert_problem(400, "invalid_request");
}

#[tokio::test]
async fn token_endpoint_accepts_post_only() {
    let world = World::sqlite().await;
    for endpoint in ["/oauth2/token", "/oauth2/revoke"] {
        let response = world.send(Request::get(endpoint)).await.assert_problem(405, "method_not_allowed");
        assert_eq!(response.header("allow"), Some("POST"));
        reads_as_oauth(&response, "method_not_allowed");
    }
}

/// Responses do not reveal whether a client exists.
async fn unknown_client_and_wrong_secret_are_indistinguishable(world: World) {
    let project = world.project("Shop", json!({})).await;
    let unknown = format!("prj_{}", "x".repeat(project.client_id.len() - 4));
    let path = format!("{}/credentials/{}", project.path, project.client_id);
    let request_token = async |id: &str, secret: &str| {
        let mut response = world.token_request(id, secret, "sim_swap").await.assert_problem(401, "invalid_client");
        response.headers.retain(|(name, _)| !["x-request-id", "date"].contains(&name.to_ascii_lowercase().as_str()));
        (response.headers.clone(), response.text())
    };

    let wrong = request_token(&project.client_id, "wrong").await;
    assert_eq!(request_token(&unknown, "wrong").await, wrong);
    assert_eq!(request_token(&unknown, &project.client_secret).await, wrong);
    assert_eq!(request_token(&project.client_id, &world.acme.client_secret).await, wrong);
    assert_eq!(request_token(&project.client_id, &project.client_secret.to_uppercase()).await, wrong);
    assert_eq!(request_token(&project.client_id.to_uppercase(), &project.client_secret).await, wrong);

    world.manage(Request::delete(&path)).await.assert(204);
    assert_eq!(request_token(&project.client_id, "wrong").await, wrong, "a deleted client is indistinguishable too");
}

async fn revoked_or_disabled_client_is_reported(world: World) {
    let (deleted, disabled) = (world.project("One", json!({})).await, world.project("Two", json!({})).await);
    let credential = format!("{}/credentials/{}", deleted.path, deleted.client_id);
    world.manage(Request::delete(&credential)).await.assert(204);
    world.manage(Request::patch(&disabled.path).json(&json!({"disabled": true}))).await.assert(200);

    for project in [&deleted, &disabled] {
        let response = world.token_request(&project.client_id, &project.client_secret, "sim_swap").await;
        reads_as_oauth(&response.assert_problem(401, "unauthorized"), "invalid_client");
    }
    world.manage(Request::patch(&disabled.path).json(&json!({"disabled": false}))).await.assert(200);
    world.token_request(&disabled.client_id, &disabled.client_secret, "sim_swap").await.assert(200);
}

async fn scopes_of_the_other_credential_kind_are_rejected(world: World) {
    let project = world.project("Shop", json!({})).await;
    let management = world.token_request(&project.client_id, &project.client_secret, "management").await;
    management.assert_problem(400, "invalid_scope");
    for product in ["reverse_sms", "secure_sna", "discovery", "sim_swap", "eligibility", "verification"] {
        let response = world.token_request(&world.acme.client_id, &world.acme.client_secret, product).await;
        response.assert_problem(400, "invalid_scope");
    }
}

#[tokio::test]
async fn accept_header_selects_the_error_content_type() {
    let world = World::sqlite().await;
    for (accept, expected) in [
        (Some("application/json"), JSON),
        (Some("Application/JSON"), JSON),
        (Some("application/json;q=0.5"), JSON),
        (Some("text/html, application/json;q=0.9, */*;q=0.8"), JSON),
        (Some("application/json, text/plain, */*"), JSON),
        (Some("application/problem+json"), PROBLEM),
        (Some("application/json, application/problem+json"), PROBLEM),
        (Some("application/problem+json;q=0.1, application/json"), PROBLEM),
        (Some("*/*"), PROBLEM),
        (Some("application/*"), PROBLEM),
        (Some("text/html"), PROBLEM),
        (Some("application/jsonp"), PROBLEM),
        (Some(""), PROBLEM),
        (Some("\u{fffd}"), PROBLEM),
        (None, PROBLEM),
    ] {
        for endpoint in ["/oauth2/token", "/oauth2/revoke"] {
            // A new client each time, as failed logins are throttled.
            let unknown_client = format!("unknown-{}-{}", accept.map_or(0, str::len), endpoint.len());
            let wrong = token_request(&unknown_client, "nothing", "management");
            for request in [Request { target: endpoint.to_owned(), ..wrong }, Request::post(endpoint).body(FORM, "")] {
                let request = accept.into_iter().fold(request, |request, accept| request.header("Accept", accept));
                let response = world.send(request).await;
                assert!([400, 401].contains(&response.status));
                assert_eq!(response.header("content-type"), Some(expected), "{accept:?}");
            }
        }
    }
    let several = Request::post("/oauth2/token").body(FORM, "").header("Accept", "text/html").header("Accept", JSON);
    assert_eq!(world.send(several).await.header("content-type"), Some(JSON), "several Accept headers form one list");
    let success =
        token_request(&world.acme.client_id, &world.acme.client_secret, "management").header("Accept", PROBLEM);
    assert_eq!(world.send(success).await.assert(200).header("content-type"), Some(JSON));
}

/// Covers requests that the middleware rejects before they reach the endpoint.
#[tokio::test]
async fn middleware_errors_have_the_oauth_format() {
    let world = World::sqlite().await;
    let impatient = World::configured(|config| config.http.request_timeout = Duration::from_millis(100)).await;
    let filler = "x".repeat(9 * 1024);
    for endpoint in ["/oauth2/token", "/oauth2/revoke"] {
        let waiting = Request::post(endpoint).header("Content-Type", FORM).header("Content-Length", "100");
        for (World { node, .. }, request, status, code) in [
            (&world, Request::post(endpoint).header("Host", "us.api.example.com"), 421, "wrong_region"),
            (&world, Request::post(&format!("{endpoint}?{filler}")), 414, "uri_too_long"),
            (&world, Request::post(endpoint).header("X-Filler", &filler), 431, "request_header_fields_too_large"),
            (&impatient, waiting, 503, "service_unavailable"),
        ] {
            for (accept, expected) in [(JSON, JSON), ("*/*", PROBLEM)] {
                let request = request.clone().header("Accept", accept);
                let response = client::send_raw(node.address, &request.bytes(node.address)).await;
                let response = assert_contract(&request, client::parse(&response, false)).assert_problem(status, code);
                assert_eq!(response.header("content-type"), Some(expected), "{code}");
                reads_as_oauth(&response, code);
            }
        }
    }
    // Other paths do not use the OAuth format.
    let response = world.send(Request::get("/livez").header("Host", "us.api.example.com").header("Accept", JSON)).await;
    assert_eq!((response.header("content-type"), response.json().get("error")), (Some(PROBLEM), None));
}

on_both_stores!(
    unknown_client_and_wrong_secret_are_indistinguishable,
    revoked_or_disabled_client_is_reported,
    scopes_of_the_other_credential_kind_are_rejected,
);

/// Asserts our error format and that of RFC 6749.
#[track_caller]
fn reads_as_oauth(response: &HttpResponse, error: &str) {
    let body = response.json();
    assert_eq!(body["error"], error);
    assert_eq!(body["error_description"], body["detail"]);
    assert_eq!(body["status"], response.status);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let challenge = response.header("www-authenticate");
    assert_eq!(response.status == 401, challenge.is_some_and(|challenge| challenge.starts_with("Basic realm=\"")));
}
