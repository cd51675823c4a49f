use std::sync::Arc;

use jiff::SignedDuration;
use jsonwebtoken::{DecodingKey, Validation, decode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use ringtrue_engine::ports::{ManualClock, NumberSource, Resolved, SourceFault, SystemEntropy};
use ringtrue_operators::number_lookup::{
    Algorithm, Audience, BreakerSettings, ClientAuthentication, SigningKey, TelcoFinder, TelcoFinderConfig,
    telco_finder::{BadTelcoFinderConfig, Depth, Question},
};
use serde_json::{Value, json as value};

use crate::{
    Outcome, known, network, number,
    vendor::{Heard, NO_BREAKER, Saying, Vendor, client, clock, json},
};

const TOKEN: &str = "/token";
const SEARCH: &str = "/ogw/telco-finder/v1/search";
const NETWORK_ID: &str = "/ogw/network-id/v0/resolve-network-id";
const NO_DATA: Outcome = Ok(Resolved::NoData);

struct World {
    vendor: Vendor,
    clock: Arc<ManualClock>,
    source: TelcoFinder,
}

fn search(depth: Depth) -> Question {
    let operators = [("op-1", "23410"), ("op-2", "26202")];
    Question::Search { operators: operators.map(|(name, id)| (name.to_owned(), id.parse().unwrap())).into(), depth }
}

fn granted(token: &str, expires_in: impl Into<Value>) -> Saying {
    json(200, &value!({ "access_token": token, "token_type": "Bearer", "expires_in": expires_in.into() }))
}

impl World {
    async fn start(question: Question) -> Self {
        World::with(question, |_| {}).await
    }

    async fn with(question: Question, change: impl FnOnce(&mut TelcoFinderConfig)) -> Self {
        let (vendor, clock) = (Vendor::start().await, clock());
        vendor.says_at(TOKEN, &[granted("token-1", 300)]);
        let secret = ClientAuthentication::SecretPost("secret of ours".into());
        let (root, token) = (vendor.url("/ogw"), vendor.url(TOKEN));
        let mut config = TelcoFinderConfig::new("finder", root, question, token, "client-1", secret);
        config.known = known();
        config.breaker = NO_BREAKER;
        change(&mut config);
        let source = TelcoFinder::new(config, client(), clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
        World { vendor, clock, source }
    }

    async fn resolve(&self) -> Outcome {
        self.source.resolve(&number()).await
    }

    /// The questions that were asked, without those for tokens.
    fn questions(&self) -> Vec<Heard> {
        self.vendor.heard().into_iter().filter(|heard| !heard.line.ends_with(TOKEN)).collect()
    }
}

fn found(operator: &str) -> Saying {
    json(200, &value!({ "operatorId": operator, "apiRoot": "http://127.0.0.1:1/", "authProviderConfiguration": "x" }))
}

#[tokio::test]
async fn it_looks_deeper_where_nothing_is_known() {
    let miss = json(404, r#"{"status":404,"code":"IDENTIFIER_NOT_FOUND","message":"…"}"#);
    let foreign = json(422, r#"{"status":422,"code":"SERVICE_NOT_APPLICABLE","message":"…"}"#);
    let empty = json(200, "{}");
    let malformed = Err(SourceFault::Nonsense);
    for (depth, sayings, modes, outcome) in [
        (Depth::ShallowThenDeep, vec![found("op-1")], vec!["SHALLOW"], network("23410")),
        (Depth::ShallowThenDeep, vec![miss.clone(), found("op-2")], vec!["SHALLOW", "DEEP"], network("26202")),
        (Depth::ShallowThenDeep, vec![empty.clone(), found("op-2")], vec!["SHALLOW"], malformed.clone()),
        (Depth::Deep, vec![empty], vec!["DEEP"], malformed),
        (Depth::ShallowThenDeep, vec![miss.clone(), foreign.clone()], vec!["SHALLOW", "DEEP"], NO_DATA),
        (Depth::ShallowThenDeep, vec![found("op-3")], vec!["SHALLOW"], Ok(Resolved::OtherNetwork)),
        (Depth::Shallow, vec![miss.clone()], vec!["SHALLOW"], NO_DATA),
        (Depth::Deep, vec![found("op-1")], vec!["DEEP"], network("23410")),
        (Depth::Deep, vec![foreign], vec!["DEEP"], NO_DATA),
    ] {
        let world = World::start(search(depth)).await;
        world.vendor.says_at(SEARCH, &sayings);
        assert_eq!(world.resolve().await, outcome, "{sayings:?}");
        let questions = world.questions();
        let body = |mode| value!({ "target": { "phoneNumber": "+447700900123" }, "portabilitySearchMode": mode });
        let expected: Vec<Value> = modes.into_iter().map(body).collect();
        let asked: Vec<Value> = questions.iter().map(|heard| serde_json::from_str(&heard.body).unwrap()).collect();
        assert_eq!(asked, expected);
        for heard in questions {
            assert_eq!(heard.line, format!("POST {SEARCH}"), "no place that an answer names is asked");
            assert_eq!(heard.header("authorization"), "Bearer token-1");
        }
    }
}

#[tokio::test]
async fn a_network_id_is_read() {
    for (saying, outcome) in [
        (json(200, r#"{"networkId":"23410"}"#), network("23410")),
        (json(200, r#"{"networkId":"262002"}"#), network("26202")),
        (json(200, r#"{"networkId":"00000"}"#), NO_DATA),
        (json(404, "{}"), NO_DATA),
        (json(422, ""), NO_DATA),
        (json(200, "{}"), Err(SourceFault::Nonsense)),
        (json(200, r#"{"networkId":"Vodafone"}"#), Err(SourceFault::Nonsense)),
        (json(200, "garbage"), Err(SourceFault::Nonsense)),
        (json(500, "{}"), Err(SourceFault::Refused)),
        (json(429, "{}"), Err(SourceFault::Refused)),
        (json(504, "{}"), Err(SourceFault::Timeout)),
        (Saying::Head(307, "location: /elsewhere"), Err(SourceFault::Nonsense)),
        (Saying::HangUp, Err(SourceFault::Unreachable)),
    ] {
        let world = World::start(Question::NetworkId).await;
        world.vendor.says_at(NETWORK_ID, std::slice::from_ref(&saying));
        assert_eq!(world.resolve().await, outcome, "{saying:?}");
        let question = &world.questions()[0];
        assert_eq!(question.line, format!("POST {NETWORK_ID}"));
        assert_eq!(question.body, r#"{"phoneNumber":"+447700900123"}"#);
    }
}

#[tokio::test]
async fn a_token_is_kept_until_shortly_before_its_end() {
    let world = World::start(search(Depth::Shallow)).await;
    world.vendor.says_at(TOKEN, &[granted("token-1", 300), granted("token-2", "300"), granted("token-3", 300)]);
    world.vendor.says_at(SEARCH, &[found("op-1")]);
    for (pause, token) in [(0, "token-1"), (239, "token-1"), (1, "token-2"), (239, "token-2"), (1, "token-3")] {
        world.clock.advance(SignedDuration::from_secs(pause));
        assert_eq!(world.resolve().await, network("23410"));
        assert_eq!(world.questions().last().unwrap().header("authorization"), format!("Bearer {token}"));
    }
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_replaced_once() {
    let world = World::start(search(Depth::Shallow)).await;
    world.vendor.says_at(TOKEN, &[granted("token-1", 300), granted("token-2", 300)]);
    world.vendor.says_at(SEARCH, &[json(401, "{}"), found("op-1")]);
    assert_eq!(world.resolve().await, network("23410"));
    let tokens: Vec<_> = world.questions().iter().map(|heard| heard.header("authorization").to_owned()).collect();
    assert_eq!(tokens, ["Bearer token-1", "Bearer token-2"]);
    world.vendor.says_at(SEARCH, &[json(401, "{}")]);
    assert_eq!(world.resolve().await, Err(SourceFault::Refused));
    assert_eq!(world.questions().len(), 2);
}

#[tokio::test]
async fn those_who_ask_at_the_same_time_share_a_token() {
    let world = World::start(search(Depth::Shallow)).await;
    world.vendor.says_at(SEARCH, &[found("op-1")]);
    let all = futures_util::future::join_all((0..8).map(|_| world.resolve())).await;
    assert!(all.iter().all(|outcome| *outcome == network("23410")));
    let heard = world.vendor.heard();
    assert_eq!(heard.iter().filter(|heard| heard.line.ends_with(TOKEN)).count(), 1);
}

#[tokio::test]
async fn one_refusal_is_one_however_many_waited_for_it() {
    let world = World::with(search(Depth::Shallow), |config| {
        config.breaker = BreakerSettings { failures: 2, ..BreakerSettings::default() };
    });
    let world = world.await;
    world.vendor.says_at(TOKEN, &[json(500, "{}")]);
    let all = futures_util::future::join_all((0..8).map(|_| world.resolve())).await;
    assert!(all.iter().all(|outcome| *outcome == Err(SourceFault::Refused)));
    for asked in [1, 1, 0] {
        assert_eq!(world.vendor.heard().len(), asked);
        assert_eq!(world.resolve().await, Err(SourceFault::Refused));
    }
}

#[tokio::test]
async fn without_a_token_nothing_is_asked() {
    for (saying, fault) in [
        (json(400, r#"{"error":"invalid_client"}"#), SourceFault::Refused),
        (json(401, r#"{"error":"invalid_client"}"#), SourceFault::Refused),
        (json(500, "{}"), SourceFault::Refused),
        (json(200, "{}"), SourceFault::Nonsense),
        (json(200, r#"{"access_token":"t","token_type":"mac"}"#), SourceFault::Nonsense),
        (json(200, r#"{"access_token":"a b","token_type":"bearer"}"#), SourceFault::Nonsense),
        (json(200, r#"{"access_token":"","token_type":"bearer"}"#), SourceFault::Nonsense),
        (Saying::HangUp, SourceFault::Unreachable),
    ] {
        let world = World::start(search(Depth::Shallow)).await;
        world.vendor.says_at(TOKEN, std::slice::from_ref(&saying));
        assert_eq!(world.resolve().await, Err(fault), "{saying:?}");
        assert_eq!(world.vendor.heard().len(), 1, "an assertion is shown once, and no question is asked");
    }
}

#[tokio::test]
async fn we_say_who_we_are_by_a_signed_assertion() {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    for audience in [Audience::Endpoint, Audience::Issuer] {
        let key = SigningKey::from_pem(pair.serialize_pem().as_bytes(), Algorithm::Es256, "key-1").unwrap();
        let world = World::with(search(Depth::Shallow), |config| {
            config.client_authentication = ClientAuthentication::PrivateKeyJwt { key, audience };
            config.issuer = "https://issuer.example".to_owned();
        })
        .await;
        world.vendor.says_at(SEARCH, &[found("op-1")]);
        assert_eq!(world.resolve().await, network("23410"));
        let form = world.vendor.heard()[0].form();
        assert_eq!(form["grant_type"], "client_credentials");
        assert_eq!(form["scope"], "telcofinder");
        assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        let mut validation = Validation::new(jsonwebtoken::Algorithm::ES256);
        // The clock of these tests stands still.
        validation.validate_exp = false;
        let expected = match audience {
            Audience::Endpoint => world.vendor.url(TOKEN).to_string(),
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
async fn what_cannot_work_is_said_at_once() {
    let client = client();
    let refused = |question: Question, change: fn(&mut TelcoFinderConfig)| {
        let url = |text: &str| text.parse().unwrap();
        let secret = ClientAuthentication::SecretBasic("secret of ours".into());
        let (root, token) = (url("https://finder.example"), url("https://issuer.example/token"));
        let mut config = TelcoFinderConfig::new("finder", root, question, token, "client-1", secret);
        change(&mut config);
        assert!(!format!("{config:?}").contains("secret of ours"));
        TelcoFinder::new(config, Arc::clone(&client), clock(), Arc::new(SystemEntropy::default())).map_err(Some)
    };
    let source = refused(search(Depth::default()), |config| {
        assert_eq!(config.issuer, "https://issuer.example");
    });
    assert_eq!(format!("{:?}", source.unwrap()), "TelcoFinder { name: \"finder\", .. }");
    let nobody = Question::Search { operators: [].into(), depth: Depth::Deep };
    let why = |outcome: Result<TelcoFinder, Option<BadTelcoFinderConfig>>| outcome.err().flatten();
    assert_eq!(why(refused(nobody, |_| {})), Some(BadTelcoFinderConfig::NoOperators));
    let no_id: fn(&mut TelcoFinderConfig) = |config| config.client_id.clear();
    assert_eq!(why(refused(Question::NetworkId, no_id)), Some(BadTelcoFinderConfig::ClientId));
    let no_root: fn(&mut TelcoFinderConfig) = |config| config.root = "data:,x".parse().unwrap();
    assert_eq!(why(refused(Question::NetworkId, no_root)), Some(BadTelcoFinderConfig::Url));
}
