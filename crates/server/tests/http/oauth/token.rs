//! Token requests.

use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, Engine as _};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::{Request, basic_auth},
    on_both_stores,
    world::World,
};

const PRODUCTS: [&str; 6] = ["reverse_sms", "secure_sna", "discovery", "sim_swap", "eligibility", "verification"];

async fn client_gets_a_token_for_its_scope(world: World) {
    let response =
        world.token_request(&world.acme.client_id, &world.acme.client_secret, "management").await.assert(200);
    let body = response.json();
    assert_eq!(body["token_type"], "bearer");
    assert_eq!(body["expires_in"], 3600);
    assert_eq!(body["scope"], "management");
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("pragma"), Some("no-cache"));
    assert!(world.accepts_token(body["access_token"].as_str().unwrap()).await);
}

async fn project_gets_a_token_for_each_product(world: World) {
    let project = world.project("Shop", json!({})).await;
    for product in PRODUCTS {
        let response = world.token_request(&project.client_id, &project.client_secret, product).await.assert(200);
        assert_eq!(response.json()["scope"], product);
    }
    let few = world.project("Few", json!({"products": ["sim_swap", "reverse_sms"]})).await;
    for product in PRODUCTS {
        let enabled = ["sim_swap", "reverse_sms"].contains(&product);
        let response = world.token_request(&few.client_id, &few.client_secret, product).await;
        if enabled {
            response.assert(200)
        } else {
            response.assert_problem(400, "invalid_scope")
        };
    }
}

async fn credential_gets_tokens_of_its_scopes_only(world: World) {
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/credentials", project.path);
    let body = json!({"scopes": ["eligibility", "sim_swap"]});
    let credential = world.manage(Request::post(&path).json(&body)).await.assert(201).json();
    let (id, secret) = (text(&credential["client_id"]), text(&credential["client_secret"]));
    for product in PRODUCTS {
        let granted = ["sim_swap", "eligibility"].contains(&product);
        let response = world.token_request(id, secret, product).await;
        if granted {
            response.assert(200)
        } else {
            response.assert_problem(400, "invalid_scope")
        };
    }
}

#[tokio::test]
async fn credentials_may_be_percent_encoded_or_raw() {
    let world = World::sqlite().await;
    let (id, secret) = (&world.acme.client_id, &world.acme.client_secret);
    let every = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    let some = |text: &str| text.replace('_', "%5f").replace('-', "%2D");
    let pair = format!("{id}:{secret}");
    for value in [
        basic_auth(id, secret),
        basic_auth(&every(id), &every(secret)),
        basic_auth(&some(id), &some(secret)),
        basic_auth(id, &every(secret)),
        basic_auth(id, secret).replace("Basic", "basic"),
        basic_auth(id, secret).replace("Basic", "BASIC"),
        basic_auth(id, secret).replace("Basic ", "Basic   "),
        format!("Basic {}", BASE64_STANDARD.encode(&pair)),
        format!("Basic {}", BASE64_STANDARD_NO_PAD.encode(&pair)),
    ] {
        let response = world.send(token_request_without_credentials(&world).header("Authorization", &value)).await;
        assert_eq!(response.status, 200, "{value}");
    }
}

/// The authentication method `client_secret_post` of OpenID Connect: credentials in the form instead of a header.
async fn credentials_may_be_sent_in_the_form(world: World) {
    let project = world.project("Shop", json!({})).await;
    let (id, secret) = (project.client_id.as_str(), project.client_secret.as_str());
    let send_form = async |endpoint: &str, id: &str, secret: &str, more: &[(&str, &str)]| {
        let fields = [&[("client_id", id), ("client_secret", secret)], more].concat();
        world.send(Request::post(endpoint).form(&fields)).await
    };
    let token = async |id: &str, secret: &str, scope: &str| {
        send_form("/oauth2/token", id, secret, &[("grant_type", "client_credentials"), ("scope", scope)]).await
    };
    let granted = token(id, secret, "sim_swap").await.assert(200).json();
    let access_token = text(&granted["access_token"]);
    assert!(world.accepts_token(access_token).await);
    token(id, secret, "management").await.assert_problem(400, "invalid_scope");

    let wrong = token(id, "wrong", "sim_swap").await.assert_problem(401, "invalid_client");
    let unknown = token("prj_unknown", "wrong", "sim_swap").await.assert_problem(401, "invalid_client");
    assert_eq!(wrong.text(), unknown.text());
    assert!(wrong.header("www-authenticate").unwrap().starts_with("Basic "));
    send_form("/oauth2/revoke", id, "wrong", &[("token", access_token)]).await.assert_problem(401, "invalid_client");
    assert!(world.accepts_token(access_token).await);
    send_form("/oauth2/revoke", id, secret, &[("token", access_token)]).await.assert(200);
    assert!(!world.accepts_token(access_token).await);

    let both = [("client_secret", secret), ("grant_type", "client_credentials"), ("scope", "sim_swap")];
    let both = Request::post("/oauth2/token").basic(id, secret).form(&both);
    world.send(both).await.assert_problem(400, "invalid_request");

    // Failed logins at the token and the revocation endpoint count together. Each endpoint has already had one.
    for guess in 2..12 {
        let response = token(id, "wrong", "sim_swap").await;
        assert_eq!(response.status, if guess < 10 { 401 } else { 429 });
    }
    world.token_request(id, "wrong", "sim_swap").await.assert_problem(429, "too_many_requests");
    token(id, secret, "sim_swap").await.assert(200);
}

#[tokio::test]
async fn unknown_and_empty_parameters_are_ignored() {
    let world = World::sqlite().await;
    let (id, secret) = (&world.acme.client_id, &world.acme.client_secret);
    for form in [
        "grant_type=client_credentials&scope=management&audience=elsewhere",
        "grant_type=client_credentials&scope=management&client_secret=",
        "scope=management&grant_type=client_credentials",
        "grant_type=client%5Fcredentials&scope=%6danagement",
        "grant_type=client_credentials&scope=management&",
    ] {
        for content_type in ["application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded; charset=UTF-8"] {
            let request = Request::post("/oauth2/token").basic(id, secret);
            world.send(request.body(content_type, form)).await.assert(200);
        }
    }
    let named = format!("grant_type=client_credentials&scope=management&client_id={id}");
    let request = Request::post("/oauth2/token").basic(id, secret);
    world.send(request.body("application/x-www-form-urlencoded", named)).await.assert(200);
}

#[tokio::test]
async fn token_expires_after_an_hour() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    world.advance(SignedDuration::from_secs(3599));
    assert!(world.accepts_token(&token).await);
    world.advance(SignedDuration::from_secs(1));
    assert!(!world.accepts_token(&token).await);
    assert!(world.accepts_token(&world.management_token().await).await, "the credential is still valid");
}

async fn token_expires_with_its_credential(world: World) {
    let path = format!("{}/credentials", world.acme.path());
    let body = json!({"expires_at": "2026-01-01T00:10:00Z"});
    let credential = world.manage(Request::post(&path).json(&body)).await.assert(201).json();
    let (id, secret) = (text(&credential["client_id"]), text(&credential["client_secret"]));
    let response = world.token_request(id, secret, "management").await.assert(200).json();
    assert_eq!(response["expires_in"], 600);

    world.advance(SignedDuration::from_millis(600_000 - 1));
    assert!(world.accepts_token(text(&response["access_token"])).await);
    world.advance(SignedDuration::from_millis(1));
    assert!(!world.accepts_token(text(&response["access_token"])).await);
    world.token_request(id, secret, "management").await.assert_problem(401, "unauthorized");
}

/// Both secrets are valid while they overlap.
async fn old_and_new_secrets_work_during_rotation(world: World) {
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/credentials", project.path);
    let make = async |body: Value| world.manage(Request::post(&path).json(&body)).await.assert(201).json();
    let old = make(json!({"expires_at": "2026-01-01T01:00:00.000Z"})).await;
    let new = make(json!({})).await;
    let request_token = async |credential: &Value| {
        world.token_request(text(&credential["client_id"]), text(&credential["client_secret"]), "sim_swap").await
    };

    assert_eq!((request_token(&old).await.status, request_token(&new).await.status), (200, 200));
    world.advance(SignedDuration::from_secs(3600 - 1));
    assert_eq!((request_token(&old).await.status, request_token(&new).await.status), (200, 200));
    world.advance(SignedDuration::from_secs(1));
    request_token(&old).await.assert_problem(401, "unauthorized");
    request_token(&new).await.assert(200);
}

/// Ids and secrets are safe in headers, forms, URLs and shells.
async fn client_ids_and_secrets_need_no_escaping(world: World) {
    let project = world.project("Shop", json!({})).await;
    for text in [&world.acme.client_id, &world.acme.client_secret, &project.client_id, &project.client_secret] {
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{text}");
    }
    let secret = project.client_secret.rsplit('_').next().unwrap();
    assert!(project.client_secret.len() >= 43, "256 bits need 43 characters of base64: {secret}");
    assert_ne!(project.client_secret, world.acme.client_secret);
}

on_both_stores!(
    credentials_may_be_sent_in_the_form,
    client_gets_a_token_for_its_scope,
    project_gets_a_token_for_each_product,
    credential_gets_tokens_of_its_scopes_only,
    token_expires_with_its_credential,
    old_and_new_secrets_work_during_rotation,
    client_ids_and_secrets_need_no_escaping,
);

fn token_request_without_credentials(_: &World) -> Request {
    Request::post("/oauth2/token").form(&[("grant_type", "client_credentials"), ("scope", "management")])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
