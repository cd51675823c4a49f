//! CAMARA's Number Verification and SIM Swap as their clients use them.

mod apis;
mod grants;
mod network_authentication;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
};

use jiff::SignedDuration;
use ringtrue_engine::ports::clock::Clock as _;
use serde_json::{Map, Value, json};
use url::{Url, form_urlencoded};

use crate::{
    client::{self, HttpResponse, Request},
    client_key::{ASSERTION_TYPE, ClientKey},
    on_both_stores,
    world::{TestProject, World, send_to},
};

/// Simulated numbers whose SIM was not changed, and was changed a day ago.
const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";
const CALLBACK: &str = "https://app.example/callback";
/// The example of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const FRAUD: &str = "dpv:FraudPreventionAndDetection";
const VERIFY: &str = "/number-verification/v2/verify";
const DEVICE_NUMBER: &str = "/number-verification/v2/device-phone-number";
const CHECK: &str = "/sim-swap/v2/check";
const RETRIEVE: &str = "/sim-swap/v2/retrieve-date";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const CIBA: &str = "urn:openid:params:grant-type:ciba";

/// A workspace's projects have distinct names.
static CLIENTS: AtomicU32 = AtomicU32::new(0);

/// A project that uses CAMARA's APIs, with its key.
struct ApiClient<'a> {
    world: &'a World,
    project: TestProject,
    key: ClientKey,
}

impl<'a> ApiClient<'a> {
    async fn new(world: &'a World) -> Self {
        Self::configured(world, json!({})).await
    }

    /// Creates a project with additional or other members.
    async fn configured(world: &'a World, changes: Value) -> Self {
        let key = ClientKey::generate();
        let mut body = json!({
            "configuration": {
                "sign_in": {
                    "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "private_key_jwt", "jwks": key.jwks(),
                },
                "camara": {"purposes": [FRAUD, "dpv:IdentityVerification"]},
            },
        });
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let name = format!("App {}", CLIENTS.fetch_add(1, Ordering::Relaxed));
        ApiClient { world, project: world.project(&name, body).await, key }
    }

    fn id(&self) -> &str {
        &self.project.client_id
    }

    fn now(&self) -> i64 {
        self.world.clock.now().as_second()
    }

    /// Signs claims, besides or instead of those that every token of the client has.
    fn sign(&self, changes: &Value) -> String {
        static TOKENS: AtomicU32 = AtomicU32::new(0);
        let now = self.now();
        let mut claims = json!({
            "iss": self.id(), "aud": format!("{}/oauth2/token", self.world.node.base_url), "iat": now, "exp": now + 300,
            "jti": format!("j{}", TOKENS.fetch_add(1, Ordering::Relaxed)),
        });
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        self.key.sign(&claims)
    }

    /// Authenticates a token request by an assertion.
    fn authenticated(&self, path: &str, fields: &[(&str, &str)]) -> Request {
        let assertion = self.sign(&json!({"sub": self.id()}));
        let all: Vec<_> = fields.iter().copied().chain([ASSERTION_TYPE, ("client_assertion", &assertion)]).collect();
        Request::post(path).form(&all)
    }

    async fn client_credentials(&self, scope: &str) -> HttpResponse {
        let fields = [("grant_type", "client_credentials"), ("scope", scope)];
        self.world.send(self.authenticated("/oauth2/token", &fields)).await
    }

    /// Gets a token for a user by an assertion with these claims.
    async fn bearer_grant(&self, changes: &Value) -> HttpResponse {
        let assertion = self.sign(changes);
        let fields = [("grant_type", JWT_BEARER), ("assertion", &*assertion)];
        self.world.send(Request::post("/oauth2/token").form(&fields)).await
    }

    async fn user_token(&self, number: &str, scope: &str) -> String {
        let claims = json!({"sub": format!("tel:{number}"), "scope": format!("{scope} {FRAUD}")});
        self.bearer_grant(&claims).await.access_token()
    }

    fn authorization(&self, scope: &str, changes: &[(&str, &str)]) -> Request {
        let scope = format!("{scope} {FRAUD}");
        let usual = [
            ("response_type", "code"),
            ("client_id", self.id()),
            ("redirect_uri", CALLBACK),
            ("scope", &*scope),
            ("state", "s"),
            ("nonce", "n"),
            ("prompt", "none"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ];
        let kept = usual.iter().filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        let all = kept.chain(changes).filter(|(_, value)| !value.is_empty());
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(all).finish();
        Request::get(&format!("/oauth2/authorize?{query}"))
    }

    /// Follows the redirects of an authorization request with a simulated SIM, without cookies, as an app does. Returns
    /// the parameters with which the client gets the browser back.
    async fn authorize(&self, sim: &str, scope: &str, changes: &[(&str, &str)]) -> Map<String, Value> {
        let with_sim: Vec<_> = changes.iter().copied().chain([("sim", sim)]).collect();
        self.follow(self.world.node.address, self.authorization(scope, &with_sim)).await
    }

    async fn follow(&self, address: SocketAddr, mut request: Request) -> Map<String, Value> {
        for _ in 0..10 {
            let response = client::send(address, &request).await;
            assert!([302, 303].contains(&response.status), "{}: {}", response.status, response.text());
            let location = response.header("location").unwrap();
            if location.starts_with(CALLBACK) {
                let url = Url::parse(location).unwrap();
                return url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect();
            }
            request = Request::get(&location.replace(&self.world.node.base_url, ""));
        }
        panic!("the browser did not return");
    }

    async fn code(&self, sim: &str, scope: &str) -> String {
        let result = self.authorize(sim, scope, &[]).await;
        result.get("code").and_then(Value::as_str).unwrap_or_else(|| panic!("no code: {result:?}")).to_owned()
    }

    async fn redeem(&self, code: &str) -> HttpResponse {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        self.world.send(self.authenticated("/oauth2/token", &fields)).await
    }

    /// Gets a token by network authentication.
    async fn network_token(&self, sim: &str, scope: &str) -> String {
        self.redeem(&self.code(sim, scope).await).await.access_token()
    }

    async fn post(&self, path: &str, token: &str, body: &Value) -> HttpResponse {
        self.world.send(Request::post(path).bearer(token).json(body)).await
    }

    async fn device_number(&self, token: &str) -> HttpResponse {
        self.world.send(Request::get(DEVICE_NUMBER).bearer(token)).await
    }

    /// Counts the completed checks of a product.
    async fn completed(&self, product: &str, path: &str) -> u64 {
        let token = self.world.token(self.id(), &self.project.client_secret, product).await;
        let list = Request::get(&format!("{path}?search=status==COMPLETED")).bearer(&token);
        self.world.send(list).await.assert(200).json()["page"]["total_elements"].as_u64().unwrap()
    }
}

/// Asserts that a response is an error of CAMARA's APIs.
fn assert_error(response: &HttpResponse, status: u16, code: &str) {
    let body = response.json();
    assert_eq!((response.status, &body["code"], &body["status"]), (status, &json!(code), &json!(status)), "{body}");
    let message = body["message"].as_str().unwrap();
    assert!(message.starts_with(|first: char| !first.is_lowercase()) && message.ends_with('.'), "{message}");
}
