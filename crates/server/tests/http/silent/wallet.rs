//! The simulated wallet: `POST /v1/sandbox/digital-credentials`, and what the sandbox connector makes of its responses.

use std::{net::SocketAddr, sync::Arc};

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    tenancy::Mode,
};
use ringtrue_engine::{
    lookups::operator_access::OperatorAccess as _,
    ports::{
        operator_tokens::{CredentialKey, CredentialRequest, CredentialResponse, DigitalCredential},
        silent::SilentConnector,
    },
};
use ringtrue_server::wiring::RunningNode;
use serde_json::{Value, json};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::{
    client::{HttpResponse, Request},
    products::reverse_sms::{EVEN, ODD},
    world::{World, send_to},
};

const PATH: &str = "/v1/sandbox/digital-credentials";
const ORIGIN: &str = "https://shop.example";
const NONCE: &str = "a-nonce-that-nobody-guesses";
const CHECK: CheckId = CheckId(Uuid::from_u128(7));

/// Why a response led to no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    Invalid,
    Operator(ErrorCode),
}

/// The sandbox connector of a node, with the key of one request.
pub struct Verifier {
    connector: Arc<dyn SilentConnector>,
    key: CredentialKey,
    now: Timestamp,
}

impl Verifier {
    pub fn of(node: &RunningNode) -> Self {
        let connector = node.sandbox_access.silent_connector("sandbox").unwrap();
        Verifier { connector, key: Zeroizing::new([7; 32]), now: node.engine.clock().now() }
    }

    /// Returns a request for a wallet, as JSON.
    pub fn request(&self, number: &str) -> Value {
        self.request_with_hint(Some(&Msisdn::parse(number, Mode::Sandbox).unwrap()))
    }

    /// Returns a request of the hosted page, as JSON.
    pub fn request_without_hint(&self) -> Value {
        self.request_with_hint(None)
    }

    fn request_with_hint(&self, number_hint: Option<&Msisdn>) -> Value {
        let request = CredentialRequest { check: CHECK, number_hint, nonce: NONCE, key: &self.key, now: self.now };
        let DigitalCredential { protocol, data } =
            self.connector.operator_token_verifier().unwrap().credential_request(request).unwrap();
        json!({ "protocol": protocol, "data": data })
    }

    async fn verify(&self, number: &str, credential: &Value) -> Result<bool, ResponseError> {
        self.verify_at(ORIGIN, number, credential).await
    }

    /// Verifies a response that a page with this origin got.
    pub async fn verify_at(&self, origin: &str, number: &str, credential: &Value) -> Result<bool, ResponseError> {
        let credential = DigitalCredential {
            protocol: credential["protocol"].as_str().unwrap().to_owned(),
            data: credential["data"].clone(),
        };
        let response = CredentialResponse {
            check: CHECK,
            nonce: NONCE,
            key: &self.key,
            origins: &[origin],
            credential: &credential,
            now: self.now,
        };
        let verifier = self.connector.operator_token_verifier().unwrap();
        let token = verifier.verify_credential(&response).map_err(|_| ResponseError::Invalid)?;
        assert!(verifier.network_of_carrier(&token.carrier.unwrap()).is_some());
        let number = Msisdn::parse(number, Mode::Sandbox).unwrap();
        let matched = verifier.verify_number_with_token(CHECK, &number, &token.temporary_token).await;
        matched.map_err(ResponseError::Operator)
    }
}

/// A sandbox project that uses the wallet.
struct Shop<'a> {
    world: &'a World,
    token: String,
    verifier: Verifier,
}

impl<'a> Shop<'a> {
    async fn new(world: &'a World) -> Self {
        Shop::with_scope(world, "verification").await
    }

    async fn with_scope(world: &'a World, scope: &str) -> Self {
        let project = world.project(scope, json!({})).await;
        let token = world.token(&project.client_id, &project.client_secret, scope).await;
        Shop { world, token, verifier: Verifier::of(&world.node) }
    }

    fn body(&self, sim: &str) -> Value {
        json!({ "request": self.verifier.request(EVEN), "sim": sim, "origin": ORIGIN })
    }

    async fn post_to(&self, address: SocketAddr, body: &Value) -> HttpResponse {
        send_to(address, Request::post(PATH).bearer(&self.token).json(body)).await
    }

    async fn post(&self, body: &Value) -> HttpResponse {
        self.post_to(self.world.node.address, body).await
    }
}

#[tokio::test]
async fn operator_verifies_the_number_of_the_chosen_sim() {
    let world = World::sqlite().await;
    let shop = Shop::new(&world).await;
    for (sim, expected) in [
        (EVEN, Ok(true)),
        (ODD, Ok(false)),
        ("+990123456702", Ok(false)),
        ("+990123456799", Err(ResponseError::Operator(ErrorCode::MnoServerError))),
        ("+990123456795", Err(ResponseError::Operator(ErrorCode::MnoTimeout))),
    ] {
        let credential = shop.post(&shop.body(sim)).await.assert(200).json();
        assert_eq!(shop.verifier.verify(EVEN, &credential).await, expected, "{sim}");
        // The operator accepts each token once.
        let again = shop.verifier.verify(EVEN, &credential).await;
        assert!(matches!(again, Err(ResponseError::Operator(_))), "{sim}: {again:?}");
    }
}

#[tokio::test]
async fn forged_response_is_rejected() {
    let world = World::sqlite().await;
    let shop = Shop::new(&world).await;
    for forgery in ["issuer_signature", "binding_signature", "audience", "nonce", "operator_token"] {
        let mut body = shop.body(EVEN);
        body["forgery"] = json!(forgery);
        let credential = shop.post(&body).await.assert(200).json();
        let result = shop.verifier.verify(EVEN, &credential).await;
        match forgery {
            // Only the operator knows.
            "operator_token" => assert!(matches!(result, Err(ResponseError::Operator(_))), "{result:?}"),
            _ => assert!(matches!(result, Err(ResponseError::Invalid)), "{forgery}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn response_of_another_node_is_accepted() {
    let world = World::sqlite().await;
    let shop = Shop::with_scope(&world, "secure_sna").await;
    let second = world.second_node().await;
    let credential = shop.post_to(second.address, &shop.body(EVEN)).await.assert(200).json();
    assert_eq!(shop.verifier.verify(EVEN, &credential).await, Ok(true));
}

#[tokio::test]
async fn invalid_requests_are_rejected_with_their_position() {
    let world = World::sqlite().await;
    let shop = Shop::new(&world).await;
    let valid = shop.body(EVEN);
    for (pointer, value, reported) in [
        ("/request", json!(null), "`/request`"),
        ("/request/protocol", json!("openid4vp"), "`/request/protocol`"),
        ("/request/data/nonce", json!("another"), "credential_authorization_jwt`: nonce"),
        ("/request/data/response_mode", json!("fragment"), "`/request/data/response_mode`"),
        ("/request/data/dcql_query", json!(7), "`/request/data/dcql_query/credentials`"),
        ("/origin", json!("https://shop.example/"), "`/origin`"),
        ("/origin", json!(null), "`/origin`"),
        ("/sim", json!("+990123456798"), "`/sim`: the wallet of this simulated phone never answers"),
        ("/sim", json!("+990123456797"), "`/sim`: the wallet does not offer this SIM"),
        ("/sim", json!("+990123456796"), "`/sim`: the wallet does not offer this SIM"),
        ("/sim", json!("+990123456794"), "`/sim`: the wallet does not offer this SIM"),
    ] {
        let mut body = valid.clone();
        *body.pointer_mut(pointer).unwrap() = value.clone();
        let problem = shop.post(&body).await.assert(400).json();
        assert_eq!(problem["error_code"], "bad_request", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(reported), "{pointer} {value}: {problem}");
    }
    for (name, value, code) in [
        ("sim", json!("12"), "phone_number_invalid"),
        ("forgery", json!("all"), "bad_request"),
        ("outcome", json!("confirm"), "bad_request"),
    ] {
        let mut body = valid.clone();
        body[name] = value;
        let problem = shop.post(&body).await.assert(400).json();
        assert_eq!(problem["error_code"], code, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(&format!("`/{name}`")), "{problem}");
    }
}

#[tokio::test]
async fn wallet_is_for_sandbox_projects_with_a_suitable_scope() {
    let world = World::sqlite().await;
    let shop = Shop::with_scope(&world, "reverse_sms").await;
    let problem = shop.post(&shop.body(EVEN)).await.assert(403).json();
    assert!(problem["detail"].as_str().unwrap().contains("`secure_sna` or `verification`"), "{problem}");
    let live = world.project("Live", json!({ "mode": "live" })).await;
    let token = world.token(&live.client_id, &live.client_secret, "verification").await;
    let live = Shop { token, ..shop };
    let problem = live.post(&live.body(EVEN)).await.assert(403).json();
    assert!(problem["detail"].as_str().unwrap().contains("sandbox projects only"), "{problem}");
}
