use std::sync::Arc;

use jiff::SignedDuration;
use jsonwebtoken::{DecodingKey, Validation, decode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use ringtrue_engine::ports::{
    clock::ManualClock,
    entropy::SystemEntropy,
    lookups::{LookupError, LookupResult, LookupSource},
};
use ringtrue_operators::number_lookup::{
    Algorithm, Audience, BreakerSettings, ClientAuthentication, SigningKey, TelcoFinder, TelcoFinderConfig,
    telco_finder::{SearchDepth, TelcoFinderConfigError, TelcoFinderOperation},
};
use serde_json::{Value, json as value};

use crate::{
    LookupOutcome,
    fake_vendor::{FakeVendor, NO_BREAKER, ReceivedRequest, ScriptedResponse, client, clock, json},
    known, network, number,
};

const TOKEN: &str = "/token";
const SEARCH: &str = "/ogw/telco-finder/v1/search";
const NETWORK_ID: &str = "/ogw/network-id/v0/resolve-network-id";
const NO_DATA: LookupOutcome = Ok(LookupResult::NoData);

struct TelcoFinderFixture {
    vendor: FakeVendor,
    clock: Arc<ManualClock>,
    source: TelcoFinder,
}

fn search(depth: SearchDepth) -> TelcoFinderOperation {
    let operators = [("op-1", "23410"), ("op-2", "26202")];
    TelcoFinderOperation::Search {
        operators: operators.map(|(name, id)| (name.to_owned(), id.parse().unwrap())).into(),
        depth,
    }
}

fn token_response(token: &str, expires_in: impl Into<Value>) -> ScriptedResponse {
    json(200, &value!({ "access_token": token, "token_type": "Bearer", "expires_in": expires_in.into() }))
}

impl TelcoFinderFixture {
    async fn start(operation: TelcoFinderOperation) -> Self {
        TelcoFinderFixture::with(operation, |_| {}).await
    }

    async fn with(operation: TelcoFinderOperation, change: impl FnOnce(&mut TelcoFinderConfig)) -> Self {
        let (vendor, clock) = (FakeVendor::start().await, clock());
        vendor.respond(TOKEN, [token_response("token-1", 300)]);
        let secret = ClientAuthentication::SecretPost("secret of ours".into());
        let (root, token) = (vendor.url("/ogw"), vendor.url(TOKEN));
        let mut config = TelcoFinderConfig::new("finder", root, operation, token, "client-1", secret);
        config.known_networks = known();
        config.breaker = NO_BREAKER;
        change(&mut config);
        let source = TelcoFinder::new(config, client(), clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
        TelcoFinderFixture { vendor, clock, source }
    }

    async fn resolve(&self) -> LookupOutcome {
        self.source.resolve(&number()).await
    }

    /// Returns the received requests, except token requests.
    fn lookup_requests(&self) -> Vec<ReceivedRequest> {
        self.vendor.take_requests().into_iter().filter(|request| !request.line().ends_with(TOKEN)).collect()
    }
}

fn found(operator: &str) -> ScriptedResponse {
    json(200, &value!({ "operatorId": operator, "apiRoot": "http://127.0.0.1:1/", "authProviderConfiguration": "x" }))
}

#[tokio::test]
async fn deep_search_follows_an_empty_shallow_search() {
    let miss = json(404, r#"{"status":404,"code":"IDENTIFIER_NOT_FOUND","message":"…"}"#);
    let foreign = json(422, r#"{"status":422,"code":"SERVICE_NOT_APPLICABLE","message":"…"}"#);
    let empty = json(200, "{}");
    let malformed = Err(LookupError::InvalidResponse);
    for (depth, responses, modes, outcome) in [
        (SearchDepth::ShallowThenDeep, vec![found("op-1")], vec!["SHALLOW"], network("23410")),
        (SearchDepth::ShallowThenDeep, vec![miss.clone(), found("op-2")], vec!["SHALLOW", "DEEP"], network("26202")),
        (SearchDepth::ShallowThenDeep, vec![empty.clone(), found("op-2")], vec!["SHALLOW"], malformed.clone()),
        (SearchDepth::Deep, vec![empty], vec!["DEEP"], malformed),
        (SearchDepth::ShallowThenDeep, vec![miss.clone(), foreign.clone()], vec!["SHALLOW", "DEEP"], NO_DATA),
        (SearchDepth::ShallowThenDeep, vec![found("op-3")], vec!["SHALLOW"], Ok(LookupResult::OtherNetwork)),
        (SearchDepth::Shallow, vec![miss.clone()], vec!["SHALLOW"], NO_DATA),
        (SearchDepth::Deep, vec![found("op-1")], vec!["DEEP"], network("23410")),
        (SearchDepth::Deep, vec![foreign], vec!["DEEP"], NO_DATA),
    ] {
        let fixture = TelcoFinderFixture::start(search(depth)).await;
        fixture.vendor.respond(SEARCH, responses.clone());
        assert_eq!(fixture.resolve().await, outcome, "{responses:?}");
        let requests = fixture.lookup_requests();
        let body = |mode| value!({ "target": { "phoneNumber": "+447700900123" }, "portabilitySearchMode": mode });
        let expected: Vec<Value> = modes.into_iter().map(body).collect();
        let sent: Vec<Value> = requests.iter().map(ringtrue_test_support::http_server::ReceivedRequest::json).collect();
        assert_eq!(sent, expected);
        for request in requests {
            assert_eq!(request.line(), format!("POST {SEARCH}"), "endpoints in responses are ignored");
            assert_eq!(request.header("authorization"), "Bearer token-1");
        }
    }
}

#[tokio::test]
async fn network_id_is_parsed() {
    for (response, outcome) in [
        (json(200, r#"{"networkId":"23410"}"#), network("23410")),
        (json(200, r#"{"networkId":"262002"}"#), network("26202")),
        (json(200, r#"{"networkId":"00000"}"#), NO_DATA),
        (json(404, "{}"), NO_DATA),
        (json(422, ""), NO_DATA),
        (json(200, "{}"), Err(LookupError::InvalidResponse)),
        (json(200, r#"{"networkId":"Vodafone"}"#), Err(LookupError::InvalidResponse)),
        (json(200, "garbage"), Err(LookupError::InvalidResponse)),
        (json(500, "{}"), Err(LookupError::Refused)),
        (json(429, "{}"), Err(LookupError::Refused)),
        (json(504, "{}"), Err(LookupError::Timeout)),
        (ScriptedResponse::Plain(307, "location: /elsewhere\r\n", vec![]), Err(LookupError::InvalidResponse)),
        (ScriptedResponse::HangUp, Err(LookupError::Unreachable)),
    ] {
        let fixture = TelcoFinderFixture::start(TelcoFinderOperation::NetworkId).await;
        fixture.vendor.respond(NETWORK_ID, [response.clone()]);
        assert_eq!(fixture.resolve().await, outcome, "{response:?}");
        let request = &fixture.lookup_requests()[0];
        assert_eq!(request.line(), format!("POST {NETWORK_ID}"));
        assert_eq!(request.text(), r#"{"phoneNumber":"+447700900123"}"#);
    }
}

#[tokio::test]
async fn token_is_cached_until_shortly_before_expiry() {
    let fixture = TelcoFinderFixture::start(search(SearchDepth::Shallow)).await;
    fixture.vendor.respond(
        TOKEN,
        [token_response("token-1", 300), token_response("token-2", "300"), token_response("token-3", 300)],
    );
    fixture.vendor.respond(SEARCH, [found("op-1")]);
    for (pause, token) in [(0, "token-1"), (239, "token-1"), (1, "token-2"), (239, "token-2"), (1, "token-3")] {
        fixture.clock.advance(SignedDuration::from_secs(pause));
        assert_eq!(fixture.resolve().await, network("23410"));
        assert_eq!(fixture.lookup_requests().last().unwrap().header("authorization"), format!("Bearer {token}"));
    }
}

#[tokio::test]
async fn rejected_token_is_replaced_once() {
    let fixture = TelcoFinderFixture::start(search(SearchDepth::Shallow)).await;
    fixture.vendor.respond(TOKEN, [token_response("token-1", 300), token_response("token-2", 300)]);
    fixture.vendor.respond(SEARCH, [json(401, "{}"), found("op-1")]);
    assert_eq!(fixture.resolve().await, network("23410"));
    let tokens: Vec<_> =
        fixture.lookup_requests().iter().map(|request| request.header("authorization").to_owned()).collect();
    assert_eq!(tokens, ["Bearer token-1", "Bearer token-2"]);
    fixture.vendor.respond(SEARCH, [json(401, "{}")]);
    assert_eq!(fixture.resolve().await, Err(LookupError::Refused));
    assert_eq!(fixture.lookup_requests().len(), 2);
}

#[tokio::test]
async fn concurrent_lookups_share_a_token() {
    let fixture = TelcoFinderFixture::start(search(SearchDepth::Shallow)).await;
    fixture.vendor.respond(SEARCH, [found("op-1")]);
    let all = futures_util::future::join_all((0..8).map(|_| fixture.resolve())).await;
    assert!(all.iter().all(|outcome| *outcome == network("23410")));
    let request = fixture.vendor.take_requests();
    assert_eq!(request.iter().filter(|request| request.line().ends_with(TOKEN)).count(), 1);
}

#[tokio::test]
async fn shared_token_error_counts_once() {
    let fixture = TelcoFinderFixture::with(search(SearchDepth::Shallow), |config| {
        config.breaker = BreakerSettings { failures: 2, ..BreakerSettings::default() };
    });
    let fixture = fixture.await;
    fixture.vendor.respond(TOKEN, [json(500, "{}")]);
    let all = futures_util::future::join_all((0..8).map(|_| fixture.resolve())).await;
    assert!(all.iter().all(|outcome| *outcome == Err(LookupError::Refused)));
    for sent in [1, 1, 0] {
        assert_eq!(fixture.vendor.take_requests().len(), sent);
        assert_eq!(fixture.resolve().await, Err(LookupError::Refused));
    }
}

#[tokio::test]
async fn no_lookup_is_sent_without_a_token() {
    for (response, fault) in [
        (json(400, r#"{"error":"invalid_client"}"#), LookupError::Refused),
        (json(401, r#"{"error":"invalid_client"}"#), LookupError::Refused),
        (json(500, "{}"), LookupError::Refused),
        (json(200, "{}"), LookupError::InvalidResponse),
        (json(200, r#"{"access_token":"t","token_type":"mac"}"#), LookupError::InvalidResponse),
        (json(200, r#"{"access_token":"a b","token_type":"bearer"}"#), LookupError::InvalidResponse),
        (json(200, r#"{"access_token":"","token_type":"bearer"}"#), LookupError::InvalidResponse),
        (ScriptedResponse::HangUp, LookupError::Unreachable),
    ] {
        let fixture = TelcoFinderFixture::start(search(SearchDepth::Shallow)).await;
        fixture.vendor.respond(TOKEN, [response.clone()]);
        assert_eq!(fixture.resolve().await, Err(fault), "{response:?}");
        assert_eq!(fixture.vendor.take_requests().len(), 1, "the token request is not retried, and no lookup is sent");
    }
}

#[tokio::test]
async fn client_authenticates_with_a_signed_assertion() {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    for audience in [Audience::Endpoint, Audience::Issuer] {
        let key = SigningKey::from_pem(pair.serialize_pem().as_bytes(), Algorithm::ES256, "key-1").unwrap();
        let fixture = TelcoFinderFixture::with(search(SearchDepth::Shallow), |config| {
            config.client_authentication = ClientAuthentication::PrivateKeyJwt { key, audience };
            config.issuer = "https://issuer.example".to_owned();
        })
        .await;
        fixture.vendor.respond(SEARCH, [found("op-1")]);
        assert_eq!(fixture.resolve().await, network("23410"));
        let form = fixture.vendor.take_requests()[0].form();
        assert_eq!(form["grant_type"], "client_credentials");
        assert_eq!(form["scope"], "telcofinder");
        assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        let mut validation = Validation::new(jsonwebtoken::Algorithm::ES256);
        // The token's times are those of the manual clock, so its expiry is not checked.
        validation.validate_exp = false;
        let expected = match audience {
            Audience::Endpoint => fixture.vendor.url(TOKEN).to_string(),
            Audience::Issuer => "https://issuer.example".to_owned(),
        };
        validation.set_audience(&[expected]);
        let raw = pair.public_key_raw();
        let key = DecodingKey::from_ec_der(raw);
        let claims = decode::<Value>(&form["client_assertion"], &key, &validation).unwrap().claims;
        assert_eq!((claims["iss"].as_str(), claims["sub"].as_str()), (Some("client-1"), Some("client-1")));
    }
}

#[tokio::test]
async fn invalid_settings_are_rejected() {
    let client = client();
    let refused = |operation: TelcoFinderOperation, change: fn(&mut TelcoFinderConfig)| {
        let url = |text: &str| text.parse().unwrap();
        let secret = ClientAuthentication::SecretBasic("secret of ours".into());
        let (root, token) = (url("https://finder.example"), url("https://issuer.example/token"));
        let mut config = TelcoFinderConfig::new("finder", root, operation, token, "client-1", secret);
        change(&mut config);
        assert!(!format!("{config:?}").contains("secret of ours"));
        TelcoFinder::new(config, Arc::clone(&client), clock(), Arc::new(SystemEntropy::default())).map_err(Some)
    };
    let source = refused(search(SearchDepth::default()), |config| {
        assert_eq!(config.issuer, "https://issuer.example");
    });
    assert_eq!(format!("{:?}", source.unwrap()), "TelcoFinder(finder)");
    let without_operators = TelcoFinderOperation::Search { operators: [].into(), depth: SearchDepth::Deep };
    let why = |outcome: Result<TelcoFinder, Option<TelcoFinderConfigError>>| outcome.err().flatten();
    assert_eq!(why(refused(without_operators, |_| {})), Some(TelcoFinderConfigError::NoOperators));
    let no_id: fn(&mut TelcoFinderConfig) = |config| config.client_id.clear();
    assert_eq!(why(refused(TelcoFinderOperation::NetworkId, no_id)), Some(TelcoFinderConfigError::ClientId));
    let no_root: fn(&mut TelcoFinderConfig) = |config| config.root = "data:,x".parse().unwrap();
    assert_eq!(why(refused(TelcoFinderOperation::NetworkId, no_root)), Some(TelcoFinderConfigError::Url));
}
