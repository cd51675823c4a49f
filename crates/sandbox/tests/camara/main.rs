//! Tests of the simulated CAMARA operator over loopback sockets, with test clients that sign with `jsonwebtoken`, and of
//! the simulated wallet, whose operator tokens it accepts.
//!
//! Each test has its own operator and advances its clock.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod authorization;
mod backchannel;
mod check_sim_swap;
mod client;
mod client_authentication;
mod codes;
mod faults;
mod number_verification;
mod protocol;
mod request_objects;
mod retrieve_sim_swap_date;
mod wallet;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use client::{Signer, TestResponse};
use jiff::Timestamp;
use ringtrue_sandbox::camara::{Clock, Endpoint, OAuthClient, Operator, OperatorConfig};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

const START: i64 = 1_800_000_000;
/// Number of a SIM that the network recognises, and that was never swapped.
const EVEN: &str = "+990123456700";
/// Number of a SIM that the network recognises as another one, and that was swapped 20 hours ago.
const ODD: &str = "+990123456701";
const CLIENT: &str = "client";
const SECRET: &str = "a secret & more";
const REDIRECT_URI: &str = "https://client.example/back?from=operator";
const VERIFIER: &str = "a-code-verifier-of-at-least-forty-three-characters";
/// PKCE challenge of `VERIFIER`, made by `printf … | openssl sha256 -binary | basenc --base64url`.
const CHALLENGE: &str = "bLRYBPalK1NsU4_TD3JrHRmfVjgoduNjiXgeScRbcr8";
const VERIFY: &str = "openid dpv:FraudPreventionAndDetection number-verification:verify";
const SHARE: &str = "openid dpv:FraudPreventionAndDetection number-verification:device-phone-number:read";
const SIM_SWAP: &str = "dpv:FraudPreventionAndDetection sim-swap";
const CORRELATOR: &str = "b4333c46-49c0-4f62-80d7-f0ef930f1c46";

/// Access token of an API request.
#[derive(Clone, Copy, Debug)]
enum Bearer {
    Missing,
    Invalid,
    Expired(&'static str),
    /// Token for a SIM that the network recognised: number and scope.
    Network(&'static str, &'static str),
    /// Token for a number that the client named: number and scope.
    Named(&'static str, &'static str),
    /// Token by client credentials: scope.
    Client(&'static str),
}

struct Fixture {
    operator: Arc<Operator>,
    clock: Arc<AtomicI64>,
    signer: Signer,
}

impl Fixture {
    async fn start() -> Self {
        Self::with_config(OperatorConfig::default()).await
    }

    /// Starts an operator with this configuration, to which it adds the test's client and the test clock.
    async fn with_config(mut config: OperatorConfig) -> Self {
        let signer = Signer::es256();
        let clock = Arc::new(AtomicI64::new(START));
        let test_clock = Arc::clone(&clock);
        config.clock = Clock::new(move || Timestamp::from_second(test_clock.load(Ordering::Relaxed)).unwrap());
        let client = OAuthClient::new(CLIENT).with_secret(SECRET).with_keys(&signer.jwk).unwrap();
        config.clients.push(client.with_redirect_uri(REDIRECT_URI));
        Self { operator: Arc::new(Operator::start(config).await.unwrap()), clock, signer }
    }

    /// Returns a `login_hint` or `sub` with an operator token for the SIM of a number.
    fn operator_token_hint(&self, number: &str) -> String {
        format!("operatortoken:{}", self.operator.issue_operator_token(&number.parse().unwrap()).unwrap())
    }

    fn now(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds, Ordering::Relaxed);
    }

    async fn get(&self, target: &str) -> TestResponse {
        client::send_request(self.operator.address(), "GET", target, &[], "").await.unwrap()
    }

    /// Opens the authorization endpoint as a device.
    async fn authorize(&self, parameters: &[(&str, &str)]) -> TestResponse {
        let query = form(parameters);
        self.get(&format!("/authorize?{query}")).await
    }

    /// Returns the parameters of the redirect that the device gets.
    async fn redirect_parameters(&self, parameters: &[(&str, &str)]) -> HashMap<String, String> {
        self.authorize(parameters).await.redirect_parameters()
    }

    async fn code(&self, sim: &str, scope: &str) -> String {
        self.redirect_parameters(&authorization_parameters(sim, scope)).await.remove("code").unwrap()
    }

    /// Sends a form, authenticated with the client secret.
    async fn post(&self, endpoint: Endpoint, parameters: &[(&str, &str)]) -> TestResponse {
        self.post_with(endpoint, &[("authorization", &basic(CLIENT, SECRET))], parameters).await
    }

    async fn post_with(
        &self,
        endpoint: Endpoint,
        headers: &[(&str, &str)],
        parameters: &[(&str, &str)],
    ) -> TestResponse {
        let headers: Vec<_> =
            headers.iter().copied().chain([("content-type", "application/x-www-form-urlencoded")]).collect();
        client::send_request(self.operator.address(), "POST", endpoint.path(), &headers, &form(parameters))
            .await
            .unwrap()
    }

    async fn token(&self, parameters: &[(&str, &str)]) -> TestResponse {
        self.post(Endpoint::Token, parameters).await
    }

    async fn redeem(&self, code: &str) -> TestResponse {
        self.token(&token_parameters(code)).await
    }

    async fn access_token(&self, bearer: Bearer) -> Option<String> {
        let issued = match bearer {
            Bearer::Missing => return None,
            Bearer::Invalid => return Some("invalid".to_owned()),
            Bearer::Expired(scope) => self.redeem(&self.code(EVEN, scope).await).await,
            Bearer::Network(sim, scope) => self.redeem(&self.code(sim, scope).await).await,
            Bearer::Named(number, scope) => {
                self.jwt_bearer(&json!({ "sub": format!("tel:{number}"), "scope": scope })).await
            }
            Bearer::Client(scope) => self.token(&[("grant_type", "client_credentials"), ("scope", scope)]).await,
        };
        if matches!(bearer, Bearer::Expired(_)) {
            self.advance(issued.json()["expires_in"].as_i64().unwrap());
        }
        Some(issued.json()["access_token"].as_str().unwrap().to_owned())
    }

    /// Requests a token by JWT bearer, with these claims in addition to the common ones.
    async fn jwt_bearer(&self, claims: &Value) -> TestResponse {
        let assertion = self.signer.sign(&self.claims(Endpoint::Token, claims));
        let parameters =
            [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", assertion.as_str())];
        self.post_with(Endpoint::Token, &[], &parameters).await
    }

    /// Returns the common claims of assertions. `more` overrides them, and null removes a claim.
    fn claims(&self, endpoint: Endpoint, more: &Value) -> Value {
        let now = self.now();
        let mut claims = json!({
            "iss": CLIENT,
            "aud": self.operator.url(endpoint),
            "iat": now,
            "exp": now + 300,
            "jti": client::fresh_jti(),
        });
        let claims = claims.as_object_mut().unwrap();
        claims.extend(more.as_object().unwrap().clone());
        claims.retain(|_, value| !value.is_null());
        Value::Object(claims.clone())
    }

    /// Calls an API with this kind of access token.
    async fn call(&self, endpoint: Endpoint, bearer: Bearer, body: &str) -> TestResponse {
        self.call_with_token(endpoint, self.access_token(bearer).await.as_deref(), body).await
    }

    async fn call_with_token(&self, endpoint: Endpoint, token: Option<&str>, body: &str) -> TestResponse {
        let method = if endpoint == Endpoint::DevicePhoneNumber { "GET" } else { "POST" };
        let authorization = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("content-type", "application/json"), ("x-correlator", CORRELATOR)];
        headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
        client::send_request(self.operator.address(), method, endpoint.path(), &headers, body).await.unwrap()
    }
}

/// Returns the parameters of an authorization request.
fn authorization_parameters<'a>(sim: &'a str, scope: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", REDIRECT_URI),
        ("scope", scope),
        ("state", "the state"),
        ("nonce", "the nonce"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("login_hint", sim),
    ]
}

fn token_parameters(code: &str) -> Vec<(&str, &str)> {
    vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", REDIRECT_URI),
        ("code_verifier", VERIFIER),
    ]
}

/// Replaces a parameter. An empty value removes it.
fn with_parameter<'a>(
    mut parameters: Vec<(&'a str, &'a str)>,
    name: &'a str,
    value: &'a str,
) -> Vec<(&'a str, &'a str)> {
    parameters.retain(|(found, _)| *found != name);
    parameters.extend((!value.is_empty()).then_some((name, value)));
    parameters
}

fn without<'a>(mut parameters: Vec<(&'a str, &'a str)>, names: &[&str]) -> Vec<(&'a str, &'a str)> {
    parameters.retain(|(name, _)| !names.contains(name));
    parameters
}

fn form(parameters: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish()
}

fn basic(id: &str, secret: &str) -> String {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret))))
}

impl TestResponse {
    fn redirect_parameters(&self) -> HashMap<String, String> {
        assert_eq!(self.status, 302, "{self:?}");
        let location = Url::parse(self.header("location").unwrap()).unwrap();
        assert!(location.as_str().starts_with(REDIRECT_URI), "{location}");
        location.query_pairs().into_owned().collect()
    }

    /// Checks the common properties of CAMARA API responses.
    fn assert_camara_conventions(&self, scenario: &str) {
        assert_eq!(self.header("content-type"), Some("application/json"), "{scenario}");
        assert_eq!(self.header("x-correlator"), Some(CORRELATOR), "{scenario}");
        if self.status == 200 {
            return;
        }
        let error = self.json();
        assert_eq!(error["status"], self.status, "{scenario}");
        assert!(error["code"].is_string(), "{scenario}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(' ')), "{scenario}");
        assert_eq!(error.as_object().unwrap().len(), 3, "{scenario}");
    }
}
