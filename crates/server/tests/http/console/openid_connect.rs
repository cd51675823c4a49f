//! Tests sign-in by OpenID Connect at a scripted provider.

use std::collections::{BTreeMap, HashMap};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::SignedDuration;
use rcgen::KeyPair;
use ringtrue_domain::account::Role;
use ringtrue_engine::{
    accounts::{IdentityPolicy, WorkspaceClaim},
    actor::Administrator,
    ports::clock::Clock,
};
use ringtrue_operators::camara::{Algorithm, SigningKey};
use ringtrue_server::config::OpenIdConnectSection;
use ringtrue_test_support::http_server::{ScriptedResponse, ScriptedServer};
use serde_json::{Value, json};
use url::Url;

use super::{
    browser::{Browser, PASSWORD, location},
    pages::assert_well_formed,
};
use crate::{client::HttpResponse, database::Database, on_both_databases, world::World};

on_both_databases!(
    identity_signs_in_to_the_account_with_its_verified_address,
    roles_follow_claims,
    administrators_unlink_identities,
    provider_decides_on_second_factors,
    address_and_its_confirmation_come_from_one_document,
    rejected_identities_are_audited,
);

const DISCOVERY: &str = "/.well-known/openid-configuration";
const START: &str = "/console/openid-connect";
const CALLBACK: &str = "/console/openid-connect/callback";
const ACCOUNTS: &str = "/console/deployment/accounts";

struct Provider {
    server: ScriptedServer,
    key: KeyPair,
}

impl Provider {
    async fn start() -> Self {
        let provider = Provider { server: ScriptedServer::start().await, key: KeyPair::generate().unwrap() };
        let text = |octets: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(octets);
        let point = provider.key.public_key_raw();
        let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "k", "x": text(&point[1..33]), "y": text(&point[33..]) });
        provider.respond(DISCOVERY, 200, provider.metadata());
        provider.respond("/keys", 200, json!({ "keys": [jwk] }));
        provider
    }

    fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }

    fn metadata(&self) -> Value {
        let issuer = self.issuer();
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "userinfo_endpoint": format!("{issuer}/userinfo"),
        })
    }

    fn respond(&self, path: &'static str, status: u16, body: Value) {
        self.server.respond(path, [ScriptedResponse::Json(status, body)]);
    }

    fn sign(&self, claims: &Value) -> String {
        let key = SigningKey::from_pem(self.key.serialize_pem().as_bytes(), Algorithm::ES256, "k").unwrap();
        key.sign("JWT", claims).unwrap()
    }

    fn section(&self) -> OpenIdConnectSection {
        OpenIdConnectSection {
            issuer: self.issuer(),
            client_id: "console".to_owned(),
            client_secret: Some("s3cret".into()),
            scopes: vec!["email".to_owned(), "groups".to_owned()],
            provider_name: "Example".to_owned(),
            ca_file: None,
            roles_claim: "groups".to_owned(),
            policy: IdentityPolicy::default(),
        }
    }

    async fn world(&self, database: Database, policy: IdentityPolicy) -> World {
        let section = OpenIdConnectSection { policy, ..self.section() };
        World::with(database, |config| config.openid_connect = Some(Box::new(section))).await
    }

    /// Starts a sign-in, and returns the parameters of the authorization request.
    async fn begin(&self, browser: &mut Browser, next: &str) -> HashMap<String, String> {
        let start = browser.get(&format!("{START}?next={}", next.replace('?', "%3F"))).await;
        let url = Url::parse(location(&start)).unwrap();
        assert_eq!(url.as_str().split('?').next().unwrap(), format!("{}/authorize", self.issuer()));
        url.query_pairs().into_owned().collect()
    }

    /// Returns the claims of a valid ID token, with additional ones.
    fn claims(&self, world: &World, request: &HashMap<String, String>, mut more: Value) -> Value {
        let now = world.clock.now().as_second();
        let mut claims = json!({
            "iss": self.issuer(), "aud": "console", "iat": now, "exp": now + 300, "nonce": request["nonce"],
        });
        claims.as_object_mut().unwrap().append(more.as_object_mut().unwrap());
        claims
    }

    fn issue(&self, id_token: &str) {
        let body = json!({ "access_token": "a", "token_type": "Bearer", "id_token": id_token });
        self.respond("/token", 200, body);
    }

    /// Signs in with these claims in the ID token. Returns the response to the request with which the browser returns
    /// from the provider.
    async fn sign_in(&self, world: &World, browser: &mut Browser, next: &str, claims: Value) -> HttpResponse {
        let request = self.begin(browser, next).await;
        self.issue(&self.sign(&self.claims(world, &request, claims)));
        browser.get(&format!("{CALLBACK}?code=c&state={}", request["state"])).await
    }
}

fn jane(subject: &str) -> Value {
    json!({ "sub": subject, "email": "Jane@example.com", "email_verified": true, "groups": [] })
}

fn has_session(browser: &Browser) -> bool {
    browser.cookies.contains_key("ringtrue-session")
}

async fn identity_signs_in_to_the_account_with_its_verified_address(database: Database) {
    let provider = Provider::start().await;
    let world = provider.world(database, IdentityPolicy::default()).await;
    let mut with_password = Browser::member_with_email(&world, &world.acme, "jane@example.com", Role::Developer).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let mut browser = Browser::new(&world);
    let page = browser.get(&format!("/console/sign-in?next={workspace}")).await.assert(200);
    assert_well_formed("/console/sign-in", &page);
    assert!(page.text().contains("Sign in with Example") && page.text().contains(START), "{}", page.text());

    for unverified in [json!(false), json!(null), json!("yes"), json!(1)] {
        let claims = json!({ "sub": "1", "email": "jane@example.com", "email_verified": unverified, "groups": [] });
        let refused = provider.sign_in(&world, &mut browser, "/console", claims).await.assert(403);
        assert_well_formed(CALLBACK, &refused);
        assert!(refused.text().contains("has not confirmed your email address"), "{}", refused.text());
        assert!(!has_session(&browser));
    }
    with_password.get(&workspace).await.assert(200);

    let request = provider.begin(&mut browser, &workspace).await;
    assert_eq!(request["redirect_uri"], format!("{}{CALLBACK}", world.node.base_url));
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "console"),
        ("scope", "openid email groups"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(request[name], value);
    }
    provider.issue(&provider.sign(&provider.claims(&world, &request, jane("1"))));
    let callback = format!("{CALLBACK}?code=c%20d&state={}", request["state"]);
    assert_eq!(location(&browser.get(&callback).await), workspace);
    let token_request = provider.server.requests_to("/token").pop().unwrap();
    let basic = base64::prelude::BASE64_STANDARD.encode("console:s3cret");
    assert_eq!(token_request.header("authorization"), format!("Basic {basic}"));
    let form = token_request.form();
    assert_eq!((form["code"].as_str(), form["grant_type"].as_str()), ("c d", "authorization_code"));
    assert_eq!(form["code_verifier"].len(), 43);
    browser.get(&workspace).await.assert(200);
    let account = browser.get("/console/account").await.assert(200);
    assert!(account.text().contains(&format!("linked to <span class=\"long\">{}</span>", provider.issuer())));
    // Somebody else may have created the account with this address and know its password, so the first sign-in by
    // OpenID Connect removes the password and ends the sessions.
    assert!(account.text().contains("This account has no password"));
    assert_eq!(location(&with_password.get(&workspace).await).split('?').next(), Some("/console/sign-in"));
    let fields = [("email", "jane@example.com"), ("password", PASSWORD)];
    let mut other = Browser::new(&world);
    other.submit("/console/sign-in", "/console/sign-in", &fields).await.assert(401);

    // The subject identifies the account from now on, not the address.
    let renamed = json!({ "sub": "1", "email": "other@example.com", "email_verified": false, "groups": [] });
    assert_eq!(location(&provider.sign_in(&world, &mut other, "/console", renamed).await), "/console");
    assert!(other.get("/console/account").await.assert(200).text().contains("jane@example.com"));
    let mut stranger = Browser::new(&world);
    let refused = provider.sign_in(&world, &mut stranger, "/console", jane("2")).await.assert(403).text();
    assert!(refused.contains("linked to another identity"), "{refused}");
    assert!(!has_session(&stranger));
    let unknown = json!({ "sub": "3", "email": "new@example.com", "email_verified": true, "groups": [] });
    let refused = provider.sign_in(&world, &mut stranger, "/console", unknown).await.assert(403).text();
    assert!(refused.contains("You have no account"), "{refused}");

    let mut admin = Browser::admin(&world).await;
    let log = admin.get("/console/deployment/audit?action=account.identity_linked").await.assert(200).text();
    assert_eq!(log.split("<tbody>").nth(1).unwrap().matches("account.identity_linked").count(), 1, "{log}");
}

async fn roles_follow_claims(database: Database) {
    let provider = Provider::start().await;
    let world = provider.world(database, IdentityPolicy::default()).await;
    let other = world.another_tenant().await;
    let claim = |value: &str, workspace: &str, role| WorkspaceClaim {
        value: value.to_owned(),
        workspace: workspace.parse().unwrap(),
        role,
    };
    let policy = IdentityPolicy {
        create_accounts: true,
        administrators: vec!["admins".to_owned()],
        workspaces: vec![
            claim("team", &world.acme.workspace_id, Role::Developer),
            claim("leads", &world.acme.workspace_id, Role::Owner),
            claim("team", "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b", Role::Owner),
        ],
    };
    let section = OpenIdConnectSection { policy, ..provider.section() };
    let node = world.node_with(|config| config.openid_connect = Some(Box::new(section))).await;
    let mut browser = Browser { address: node.address, cookies: BTreeMap::new() };
    let [acme, others] = [&world.acme, &other].map(|tenant| format!("/console/workspaces/{}", tenant.workspace_id));
    let sign_in = async |browser: &mut Browser, groups: Value| {
        let claims = json!({ "sub": "1", "email": "jane@example.com", "email_verified": true, "groups": groups });
        assert_eq!(location(&provider.sign_in(&world, browser, "/console", claims).await), "/console");
    };
    let statuses = async |browser: &mut Browser| {
        let mut statuses = vec![];
        for path in [&acme, &format!("{acme}/credentials"), &others, ACCOUNTS] {
            statuses.push(browser.get(path).await.status);
        }
        statuses
    };
    for (groups, expected) in [
        (json!([]), [403, 403, 403, 403]),
        (json!("team"), [200, 403, 403, 403]),
        (json!(["team", "leads", 7]), [200, 200, 403, 403]),
        (json!(["admins"]), [200, 200, 200, 200]),
        (json!(["other"]), [403, 403, 403, 403]),
    ] {
        sign_in(&mut browser, groups.clone()).await;
        assert_eq!(statuses(&mut browser).await, expected, "{groups}");
    }
    // Roles granted by an invitation stay, whatever groups the provider reports.
    let (workspace, email) = (other.workspace_id.parse().unwrap(), "jane@example.com".parse().unwrap());
    let invited = world.node.engine.accounts.invite_member_as_operator(workspace, &email, Role::Viewer).await;
    let link = invited.unwrap().path;
    let token = link.split_once("token=").unwrap().1;
    browser.submit(&link, "/console/invitation/accept", &[("token", token)]).await.assert(303);
    for groups in [json!(["team"]), json!([])] {
        sign_in(&mut browser, groups).await;
        browser.get(&others).await.assert(200);
    }
    browser.get(&acme).await.assert(403);
}

async fn administrators_unlink_identities(database: Database) {
    let provider = Provider::start().await;
    let policy = IdentityPolicy { create_accounts: true, ..IdentityPolicy::default() };
    let world = provider.world(database, policy).await;
    let mut browser = Browser::new(&world);
    assert_eq!(location(&provider.sign_in(&world, &mut browser, "/console", jane("1")).await), "/console");
    let (accounts, operator) = (&world.node.engine.accounts, Administrator::of_command_line());
    let account = accounts.account_id_by_email(&operator, &"jane@example.com".parse().unwrap()).await.unwrap();
    let mut admin = Browser::admin(&world).await;
    let page = admin.get(ACCOUNTS).await.assert(200).text();
    let unlink = format!("{ACCOUNTS}/{account}/unlink");
    assert!(page.contains(&unlink), "{page}");
    admin.submit(ACCOUNTS, &unlink, &[]).await.assert(303);
    assert!(location(&browser.get("/console/account").await).starts_with("/console/sign-in"));
    assert!(!admin.get(ACCOUNTS).await.text().contains(&unlink));
    // The unlinked account can be linked to another subject with the same address, for example after a change of the
    // provider.
    assert_eq!(location(&provider.sign_in(&world, &mut browser, "/console", jane("2")).await), "/console");
    provider.sign_in(&world, &mut Browser::new(&world), "/console", jane("1")).await.assert(403);
    // A disabled account cannot sign in.
    accounts.disable_account(&operator, account).await.unwrap();
    provider.sign_in(&world, &mut Browser::new(&world), "/console", jane("2")).await.assert(403);
}

#[tokio::test]
async fn responses_count_only_once_and_in_their_browser() {
    let provider = Provider::start().await;
    let policy = IdentityPolicy { create_accounts: true, ..IdentityPolicy::default() };
    let world = provider.world(Database::sqlite().await, policy).await;
    let mut browser = Browser::new(&world);
    let request = provider.begin(&mut browser, "/console").await;
    provider.issue(&provider.sign(&provider.claims(&world, &request, jane("1"))));
    let (state, valid) = (&request["state"], format!("{CALLBACK}?code=c&state={}", request["state"]));
    for query in ["", "?code=c", "?code=c&state=", "?code=c&state=x", &format!("?code=c&state={state}&state={state}")] {
        browser.get(&format!("{CALLBACK}{query}")).await.assert(400);
    }
    let mut stranger = Browser::new(&world);
    stranger.get(&valid).await.assert(400);
    provider.begin(&mut stranger, "/console").await;
    stranger.get(&valid).await.assert(400);
    assert_eq!(provider.server.requests_to("/token").len(), 0);
    assert_eq!(location(&browser.get(&valid).await), "/console");
    assert!(has_session(&browser));
    browser.get(&valid).await.assert(400);

    // The user returns after the sign-in has expired.
    let request = provider.begin(&mut stranger, "/console").await;
    world.advance(SignedDuration::from_mins(15));
    provider.issue(&provider.sign(&provider.claims(&world, &request, jane("1"))));
    stranger.get(&format!("{CALLBACK}?code=c&state={}", request["state"])).await.assert(400);
    // The user denies the request at the provider.
    let request = provider.begin(&mut stranger, "/console").await;
    let denied = stranger.get(&format!("{CALLBACK}?error=access_denied&state={}", request["state"])).await.assert(403);
    assert!(denied.text().contains("cancelled or denied"), "{}", denied.text());
    assert!(!has_session(&stranger));
}

#[tokio::test]
async fn invalid_id_tokens_are_rejected() {
    let provider = Provider::start().await;
    let policy = IdentityPolicy { create_accounts: true, ..IdentityPolicy::default() };
    let world = provider.world(Database::sqlite().await, policy).await;
    let mut browser = Browser::new(&world);
    let now = world.clock.now().as_second();
    for (claim, value) in [
        ("iss", json!("https://other.example")),
        ("aud", json!("others")),
        ("aud", json!(["console", "others"])),
        ("azp", json!("others")),
        ("exp", json!(now - 61)),
        ("iat", json!(now + 3_600)),
        ("nonce", json!("other")),
        ("nonce", json!(null)),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", json!("x".repeat(256))),
    ] {
        let mut claims = jane("1");
        claims[claim] = value.clone();
        let response = provider.sign_in(&world, &mut browser, "/console", claims).await;
        assert_eq!(response.status, 502, "{claim}: {value}");
        assert_well_formed(CALLBACK, &response);
    }
    // Invalid ID tokens: unsigned, signed with a shared secret, signed with another key, and missing.
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let other = Provider::start().await;
    for kind in ["none", "HS256", "other key", "no token"] {
        let request = provider.begin(&mut browser, "/console").await;
        let claims = provider.claims(&world, &request, jane("1"));
        match kind {
            "other key" => provider.issue(&other.sign(&claims)),
            "no token" => provider.respond("/token", 200, json!({ "access_token": "a", "token_type": "Bearer" })),
            algorithm => {
                let unsigned = format!("{}.{}", encode(&json!({ "alg": algorithm, "kid": "k" })), encode(&claims));
                let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, b"s3cret");
                let signature = aws_lc_rs::hmac::sign(&key, unsigned.as_bytes());
                let signature = if algorithm == "none" { &[][..] } else { signature.as_ref() };
                provider.issue(&format!("{unsigned}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)));
            }
        }
        let response = browser.get(&format!("{CALLBACK}?code=c&state={}", request["state"])).await;
        assert_eq!(response.status, 502, "{kind}");
    }
    assert!(!has_session(&browser));
    // The same sign-in succeeds with a valid token.
    assert_eq!(location(&provider.sign_in(&world, &mut browser, "/console", jane("1")).await), "/console");
}

#[tokio::test]
async fn missing_claims_come_from_userinfo() {
    let provider = Provider::start().await;
    let policy = IdentityPolicy { create_accounts: true, ..IdentityPolicy::default() };
    let world = provider.world(Database::sqlite().await, policy).await;
    let mut browser = Browser::new(&world);
    let sub = || json!({ "sub": "1" });
    provider.respond("/userinfo", 200, jane("2"));
    provider.sign_in(&world, &mut browser, "/console", sub()).await.assert(502);
    provider.respond("/userinfo", 500, json!({}));
    provider.sign_in(&world, &mut browser, "/console", sub()).await.assert(502);
    provider.respond("/userinfo", 200, jane("1"));
    assert_eq!(location(&provider.sign_in(&world, &mut browser, "/console", sub()).await), "/console");
    let asked = provider.server.requests_to("/userinfo");
    assert_eq!(asked.last().unwrap().header("authorization"), "Bearer a");
    // Userinfo is not requested if the ID token is complete.
    provider.sign_in(&world, &mut browser, "/console", jane("1")).await.assert(303);
    assert_eq!(provider.server.requests_to("/userinfo").len(), asked.len());
}

/// An address is not confirmed if `email` is in the ID token and `email_verified` in the userinfo response, or vice
/// versa.
async fn address_and_its_confirmation_come_from_one_document(database: Database) {
    let provider = Provider::start().await;
    let policy = IdentityPolicy { administrators: vec!["admins".to_owned()], ..IdentityPolicy::default() };
    let world = provider.world(database, policy).await;
    Browser::admin(&world).await;
    let address = json!({ "email": "root@example.com" });
    let confirmed = json!({ "email_verified": true });
    let both = json!({ "email": "root@example.com", "email_verified": true });
    let other = json!({ "email": "eve@example.com", "email_verified": true });
    let unconfirmed = json!({ "email": "root@example.com", "email_verified": false });
    let merge = |claims: &Value| {
        let mut merged = json!({ "sub": "1", "groups": [] });
        merged.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        merged
    };
    for (id_token, userinfo, signs_in) in [
        (&confirmed, &address, false),
        (&address, &confirmed, false),
        (&unconfirmed, &confirmed, false),
        (&unconfirmed, &both, false),
        (&address, &other, false),
        (&address, &both, true),
        (&confirmed, &both, true),
    ] {
        let mut browser = Browser::new(&world);
        provider.respond("/userinfo", 200, merge(userinfo));
        let response = provider.sign_in(&world, &mut browser, "/console", merge(id_token)).await;
        assert_eq!(response.status, if signs_in { 303 } else { 403 }, "{id_token} {userinfo}: {}", response.text());
        assert_eq!(has_session(&browser), signs_in, "{id_token} {userinfo}");
    }

    // Roles come from the ID token if it has the roles claim, even if only the userinfo response has the required
    // value.
    let policy = IdentityPolicy {
        create_accounts: true,
        administrators: vec!["admins".to_owned()],
        ..IdentityPolicy::default()
    };
    let section = OpenIdConnectSection { policy, ..provider.section() };
    let node = world.node_with(|config| config.openid_connect = Some(Box::new(section))).await;
    for (id_token, userinfo, is_admin) in [
        (json!([]), json!(["admins"]), false),
        (json!(["admins"]), json!([]), true),
        (json!(null), json!(["admins"]), false),
    ] {
        let mut browser = Browser { address: node.address, cookies: BTreeMap::new() };
        let with_groups = |groups: &Value| json!({ "sub": "2", "groups": groups, "email": "joe@example.com" });
        provider.respond("/userinfo", 200, with_groups(&userinfo));
        let mut claims = with_groups(&id_token);
        claims["email_verified"] = json!(true);
        assert_eq!(location(&provider.sign_in(&world, &mut browser, "/console", claims).await), "/console");
        assert_eq!(browser.get(ACCOUNTS).await.status, if is_admin { 200 } else { 403 }, "{id_token} {userinfo}");
    }
}

async fn rejected_identities_are_audited(database: Database) {
    let provider = Provider::start().await;
    let world = provider.world(database, IdentityPolicy::default()).await;
    let mut admin = Browser::admin(&world).await;
    Browser::member_with_email(&world, &world.acme, "jane@example.com", Role::Developer).await;
    provider.sign_in(&world, &mut Browser::new(&world), "/console", jane("1")).await.assert(303);
    let ghost = json!({ "sub": "8", "email": "ghost@example.com", "email_verified": true, "groups": [] });
    let unconfirmed = json!({ "sub": "8", "email": "jane@example.com", "email_verified": false, "groups": [] });
    let log = async |admin: &mut Browser| {
        world.node.engine.accounts.wait_until_idle().await;
        let text = admin.get("/console/deployment/audit?action=account.sign_in_failed").await.assert(200).text();
        let body = text.split("<tbody>").nth(1).unwrap_or_default().to_owned();
        assert!(body.contains("openid_connect"), "{text}");
        (body.matches("account.sign_in_failed").count(), body.contains("jane@example.com"), body.contains("ghost"))
    };
    for (claims, expected) in
        [(ghost, (1, false, false)), (unconfirmed, (2, false, false)), (jane("2"), (3, true, false))]
    {
        provider.sign_in(&world, &mut Browser::new(&world), "/console", claims).await.assert(403);
        assert_eq!(log(&mut admin).await, expected);
    }
    let mut invalid = jane("1");
    invalid["aud"] = json!("others");
    provider.sign_in(&world, &mut Browser::new(&world), "/console", invalid).await.assert(502);
    assert_eq!(log(&mut admin).await, (4, true, false));
}

#[tokio::test]
async fn invitation_creates_an_account_for_its_address() {
    let provider = Provider::start().await;
    let world = provider.world(Database::sqlite().await, IdentityPolicy::default()).await;
    let workspace = world.acme.workspace_id.parse().unwrap();
    let email = "jane@example.com".parse().unwrap();
    let invited = world.node.engine.accounts.invite_member_as_operator(workspace, &email, Role::Developer).await;
    let link = invited.unwrap().path;
    let mut eve = Browser::new(&world);
    let claims = json!({ "sub": "9", "email": "eve@example.com", "email_verified": true, "groups": [] });
    provider.sign_in(&world, &mut eve, &link, claims).await.assert(403);
    let claims = json!({ "sub": "9", "email": "jane@example.com", "email_verified": false, "groups": [] });
    provider.sign_in(&world, &mut eve, &link, claims).await.assert(403);

    let mut browser = Browser::new(&world);
    assert_eq!(location(&provider.sign_in(&world, &mut browser, &link, jane("1")).await), link);
    let token = link.split_once("token=").unwrap().1;
    let accepted = browser.submit(&link, "/console/invitation/accept", &[("token", token)]).await;
    assert_eq!(location(&accepted), format!("/console/workspaces/{}", world.acme.workspace_id));
}

#[tokio::test]
async fn browser_is_never_sent_elsewhere_after_sign_in() {
    let provider = Provider::start().await;
    let policy = IdentityPolicy { create_accounts: true, ..IdentityPolicy::default() };
    let world = provider.world(Database::sqlite().await, policy).await;
    for next in
        ["https://evil.example/", "//evil.example", "/console//evil.example", "/docs", &"/console/x".repeat(200)]
    {
        let mut browser = Browser::new(&world);
        assert_eq!(location(&provider.sign_in(&world, &mut browser, next, jane("1")).await), "/console", "{next}");
    }
}

#[tokio::test]
async fn provider_that_fails_leaves_passwords_usable() {
    let provider = Provider::start().await;
    let world = provider.world(Database::sqlite().await, IdentityPolicy::default()).await;
    let mut browser = Browser::new(&world);
    for (status, metadata) in [
        (500, json!({})),
        (200, json!({ "issuer": provider.issuer() })),
        (200, json!({ "issuer": "https://other.example" })),
    ] {
        provider.respond(DISCOVERY, status, metadata);
        let failed = browser.get(START).await.assert(502);
        assert_well_formed(START, &failed);
        // The failed discovery is cached for a second.
        world.advance(SignedDuration::from_secs(2));
    }
    Browser::admin(&world).await.get("/console").await.assert(200);
    provider.respond(DISCOVERY, 200, provider.metadata());
    provider.begin(&mut browser, "/console").await;
}

#[tokio::test]
async fn pages_do_not_exist_without_a_provider() {
    let world = World::sqlite().await;
    let mut browser = Browser::new(&world);
    for path in [START, CALLBACK] {
        browser.get(path).await.assert(404);
    }
    assert!(!browser.get("/console/sign-in").await.assert(200).text().contains("openid-connect"));
}

async fn provider_decides_on_second_factors(database: Database) {
    let provider = Provider::start().await;
    let section = provider.section();
    let world = World::with(database, |config| {
        config.openid_connect = Some(Box::new(section));
        config.require_second_factor = true;
    })
    .await;
    Browser::member_with_email(&world, &world.acme, "jane@example.com", Role::Developer).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let mut browser = Browser::new(&world);
    assert_eq!(location(&provider.sign_in(&world, &mut browser, &workspace, jane("1")).await), workspace);
    browser.get(&workspace).await.assert(200);

    // The account also gets a password. Sign-in by password requires a second factor, sign-in by OpenID Connect does
    // not.
    let (accounts, operator) = (&world.node.engine.accounts, Administrator::of_command_line());
    let account = accounts.account_id_by_email(&operator, &"jane@example.com".parse().unwrap()).await.unwrap();
    let link = accounts.create_password_reset_link(&operator, account).await.unwrap().path;
    let mut with_password = Browser::with_link(&world, &link).await;
    let setup = "/console/account/second-factor";
    assert_eq!(location(&with_password.get(&workspace).await).split('?').next(), Some(setup));
    let mut browser = Browser::new(&world);
    assert_eq!(location(&provider.sign_in(&world, &mut browser, &workspace, jane("1")).await), workspace);
    browser.get(&workspace).await.assert(200);

    // The sign-in method is part of the session token, so users cannot change it by editing the cookie.
    let token = with_password.cookies["ringtrue-session"].clone();
    with_password.cookies.insert("ringtrue-session".to_owned(), format!("oidc.{token}"));
    assert_eq!(location(&with_password.get(&workspace).await).split('?').next(), Some("/console/sign-in"));
}
