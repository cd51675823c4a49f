//! The CAMARA connector and an authorisation server that is not ours: npm `oidc-provider`, in `e2e/oidc/operator.mjs`.
//! `make setup` installs it; without it, or without node, this fails. The test is the device, and carries what it is
//! given from one to the other.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{net::IpAddr, path::Path, process::Stdio, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, Method, header::LOCATION};
use jiff::SignedDuration;
use rcgen::KeyPair;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    sim_swap::{Period, SimHistory},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    Arrival, Clock, Departure, Journey, Question, Reply, SilentRoute, SimSwapQuestion, SimSwapRoute, SystemClock,
    SystemEntropy,
};
use ringtrue_operators::{
    camara::{
        Algorithm, Audience, BreakerState, Camara, CamaraConfig, ClientAuthentication, Provider, RequestObject,
        SigningKey, SimSwapConfig, SimSwapFlow, SimSwapOperation,
    },
    client::{Client, ClientSettings},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Instant, timeout},
};
use url::Url;

/// Long enough for a busy machine, short enough to notice.
const PATIENCE: Duration = Duration::from_mins(1);
const CALLBACK: &str = "https://ringtrue.example/southbound/camara/op/callback";
/// A subscriber, one who has not consented, and somebody on Wi-Fi.
const SUBSCRIBER: &str = "+447700900123";
const UNASKED: &str = "+447700900124";
const NOBODY: &str = "none";
/// One who is asked without a device and takes a moment to consent, one who never says anything, and nobody's number.
const SLOW: &str = "+447700900126";
const SILENT: &str = "+447700900127";
const UNKNOWN: &str = "+447700900199";

struct Peer {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
    told: ChildStdin,
    issuer: String,
    /// Ours, whose public half the peer knows.
    key: SigningKey,
    client: Arc<Client>,
}

impl Peer {
    async fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/oidc/operator.mjs");
        let mut command = Command::new("node");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("node is installed; see `make setup`");
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = process.stdin.take().unwrap();
        let (key, jwk) = new_key();
        let client = Arc::new(Client::new(&ClientSettings::default()).unwrap());
        let mut peer = Self { process, said, told, issuer: String::new(), key, client };
        peer.tell(&json!({ "jwk": jwk, "redirectUri": CALLBACK })).await;
        peer.says().await["issuer"].as_str().unwrap().clone_into(&mut peer.issuer);
        peer
    }

    async fn tell(&mut self, what: &Value) {
        self.told.write_all(format!("{what}\n").as_bytes()).await.unwrap();
    }

    /// The next thing that happened there.
    async fn says(&mut self) -> Value {
        let line = timeout(PATIENCE, self.said.next_line()).await.expect("the peer goes on").unwrap();
        serde_json::from_str(&line.expect("the peer lives; its packages come by `make setup`")).unwrap()
    }

    /// From now on.
    async fn goes_wrong(&mut self, path: &str, fault: &str) {
        let what = json!({ "path": path, "fault": fault });
        self.tell(&what).await;
        assert_eq!(self.says().await, what);
    }

    fn config(&self, id: &str, authentication: ClientAuthentication) -> CamaraConfig {
        let provider = Provider::Issuer(self.issuer.clone());
        let root = Url::parse(&self.issuer).unwrap();
        CamaraConfig::new("op", provider, root, id, authentication, Url::parse(CALLBACK).unwrap())
    }

    /// As the profile has it: all that can be signed is.
    fn signing(&self) -> CamaraConfig {
        let authentication =
            ClientAuthentication::PrivateKeyJwt { key: self.key.clone(), audience: Audience::Endpoint };
        let request_object = RequestObject::Signed { key: self.key.clone(), audience: Audience::Issuer };
        CamaraConfig { request_object, ..self.config("assertion", authentication) }
    }

    fn with_secret(&self, algorithm: Algorithm) -> CamaraConfig {
        let id = format!("secret {}", algorithm.as_str());
        self.config(&id, ClientAuthentication::SecretBasic("s3cret: of/ours+".into()))
    }

    /// Asked about SIM cards alone.
    fn about_sims(&self, flow: SimSwapFlow, operations: &[SimSwapOperation], with_secret: bool) -> CamaraConfig {
        let mut config = if with_secret {
            self.config("sim secret", ClientAuthentication::SecretBasic("s3cret: of/ours+".into()))
        } else {
            CamaraConfig { client_id: "sim assertion".to_owned(), ..self.signing() }
        };
        (config.scopes.verify, config.scopes.device_phone_number) = (None, None);
        config.sim_swap = Some(SimSwapConfig { operations: operations.to_vec(), ..SimSwapConfig::new(flow) });
        config
    }

    fn route(&self, config: CamaraConfig) -> Route {
        Route(
            Camara::new(config, self.client.clone(), Arc::new(SystemClock), Arc::new(SystemEntropy::default()))
                .unwrap(),
        )
    }

    /// Goes where the device is sent, as often as it is sent on, until it is sent back to us.
    async fn carry(&self, journey: &Journey, sim: &str) -> Vec<(String, String)> {
        let sim_header = HeaderName::from_static("x-sim");
        let mut location = Url::parse(&journey.location).unwrap();
        while !location.as_str().starts_with(CALLBACK) {
            let headers = HeaderMap::from_iter([(sim_header.clone(), sim.parse().unwrap())]);
            let answer = self.client.request(Method::GET, &location, headers, "").await.unwrap();
            assert!((300..400).contains(&answer.status), "{}", String::from_utf8_lossy(&answer.body));
            location = location.join(answer.headers[LOCATION].to_str().unwrap()).unwrap();
        }
        location.query_pairs().into_owned().collect()
    }
}

struct Route(Camara);

impl Route {
    async fn depart(&self, question: Question<'_>) -> Result<Journey, ErrorCode> {
        let (device, now) = (IpAddr::from([192, 0, 2, 1]), SystemClock.now());
        self.0.depart(Departure { check: check(), question, ticket: "ticket", sim: None, device, now }).await
    }

    async fn arrive(
        &self,
        question: Question<'_>,
        memory: &[u8],
        query: &[(String, String)],
    ) -> Result<Reply, ErrorCode> {
        let device = IpAddr::from([192, 0, 2, 1]);
        let arrival = Arrival {
            check: check(),
            question,
            memory,
            departed_from: device,
            peer: (device, 40_000).into(),
            device,
            query,
            headers: &[],
            now: SystemClock.now(),
        };
        self.0.arrive(arrival).await
    }

    async fn sim_history(&self, text: &str, minutes: i64) -> Result<SimHistory, ErrorCode> {
        let (number, period) = (number(text), Period::try_from(minutes).unwrap());
        let (now, until) = (SystemClock.now(), Instant::now() + Duration::from_secs(10));
        let question = SimSwapQuestion { check: check(), project: project(), number: &number, period, now, until };
        self.0.sim_history(question).await
    }

    /// The whole way.
    async fn ask(&self, peer: &Peer, question: Question<'_>, sim: &str) -> Result<Reply, ErrorCode> {
        let journey = self.depart(question).await?;
        let query = peer.carry(&journey, sim).await;
        assert!(query.contains(&("state".to_owned(), "ticket".to_owned())));
        self.arrive(question, &journey.memory, &query).await
    }
}

fn new_key() -> (SigningKey, Value) {
    let pair = KeyPair::generate().unwrap();
    let key = SigningKey::from_pem(pair.serialize_pem().as_bytes(), Algorithm::Es256, "ours").unwrap();
    let point = pair.public_key_raw();
    let [x, y] = [&point[1..33], &point[33..]].map(|half| BASE64_URL_SAFE_NO_PAD.encode(half));
    (key, json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "ours", "alg": "ES256", "use": "sig" }))
}

fn project() -> ProjectId {
    "0199d2c4-7a5e-7c3a-9d2f-1b2c3d4e5f61".parse().unwrap()
}

fn check() -> CheckId {
    "0199d2c4-7a5e-7c3a-9d2f-1b2c3d4e5f60".parse().unwrap()
}

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Live).unwrap()
}

#[tokio::test]
async fn an_operator_that_is_not_ours_knows_its_subscribers() {
    let mut peer = Peer::start().await;
    let mut routes = vec![peer.route(peer.signing())];
    // It accepts an assertion that is meant for the issuer, too.
    let for_issuer = ClientAuthentication::PrivateKeyJwt { key: peer.key.clone(), audience: Audience::Issuer };
    routes.push(peer.route(CamaraConfig { client_authentication: for_issuer, ..peer.signing() }));
    routes.push(peer.route(CamaraConfig { sends_hashed_number: true, ..peer.signing() }));
    // ID tokens signed in every way that is believed.
    routes.extend(Algorithm::ALL.map(|algorithm| peer.route(peer.with_secret(algorithm))));
    routes.push(peer.route(CamaraConfig { pkce: false, ..peer.with_secret(Algorithm::Rs256) }));

    let (right, wrong) = (number(SUBSCRIBER), number("+447700900125"));
    for route in routes {
        for (question, expected, path) in [
            (Question::IsNumber(&right), Reply::Match(true), "POST /number-verification/v2/verify"),
            (Question::IsNumber(&wrong), Reply::Match(false), "POST /number-verification/v2/verify"),
            (Question::WhichNumber, Reply::Number(right.clone()), "GET /number-verification/v2/device-phone-number"),
        ] {
            assert_eq!(route.ask(&peer, question, SUBSCRIBER).await, Ok(expected));
            assert_eq!(peer.says().await, json!({ "asked": path, "correlator": check().to_string() }));
        }
        assert_eq!(route.0.state(), BreakerState::Closed);
    }
    peer.process.kill().await.unwrap();
}

#[tokio::test]
async fn an_operator_that_is_not_ours_refuses() {
    let peer = Peer::start().await;
    let question = Question::WhichNumber;
    for config in [peer.signing(), peer.with_secret(Algorithm::Es256)] {
        let route = peer.route(config);
        assert_eq!(route.ask(&peer, question, NOBODY).await, Err(ErrorCode::MnoUserNotFound), "login_required");
        assert_eq!(route.ask(&peer, question, UNASKED).await, Err(ErrorCode::MnoNoDataAvailable), "consent_required");

        let journey = route.depart(question).await.unwrap();
        let query = peer.carry(&journey, SUBSCRIBER).await;
        let from_another = |(name, value): &(String, String)| {
            (name.clone(), if name == "iss" { "https://other.example".to_owned() } else { value.clone() })
        };
        let forged: Vec<_> = query.iter().map(from_another).collect();
        let nameless: Vec<_> = query.iter().filter(|(name, _)| name != "iss").cloned().collect();
        let refused = Err(ErrorCode::MnoResponseError);
        for query in [&forged, &nameless] {
            assert_eq!(route.arrive(question, &journey.memory, query).await, refused);
        }
        assert!(route.arrive(question, &journey.memory, &query).await.is_ok(), "its code was not used up");
        assert_eq!(route.arrive(question, &journey.memory, &query).await, refused, "now it is");

        // Somebody else's code: its proof is not ours.
        let (one, other) = (route.depart(question).await.unwrap(), route.depart(question).await.unwrap());
        let query = peer.carry(&one, SUBSCRIBER).await;
        assert_eq!(route.arrive(question, &other.memory, &query).await, refused);
        assert_eq!(route.0.state(), BreakerState::Closed);
    }

    // Without the proof the code is taken, but the ID token is for another device.
    let route = peer.route(CamaraConfig { pkce: false, ..peer.with_secret(Algorithm::Es256) });
    let (one, other) = (route.depart(question).await.unwrap(), route.depart(question).await.unwrap());
    let query = peer.carry(&one, SUBSCRIBER).await;
    assert_eq!(route.arrive(question, &other.memory, &query).await, Err(ErrorCode::MnoResponseError));
}

#[tokio::test]
async fn an_operator_that_is_not_ours_does_not_know_us() {
    let peer = Peer::start().await;
    let question = Question::WhichNumber;
    let wrong_secret = ClientAuthentication::SecretBasic("wrong".into());
    let wrong_key = ClientAuthentication::PrivateKeyJwt { key: new_key().0, audience: Audience::Endpoint };
    for config in [
        CamaraConfig { client_authentication: wrong_secret, ..peer.with_secret(Algorithm::Es256) },
        CamaraConfig { client_authentication: wrong_key, ..peer.signing() },
    ] {
        let route = peer.route(config);
        assert_eq!(route.ask(&peer, question, SUBSCRIBER).await, Err(ErrorCode::MnoServerError), "invalid_client");
        assert!(matches!(route.0.state(), BreakerState::Open { .. }));
        assert_eq!(route.depart(question).await, Err(ErrorCode::MnoServerError));
    }

    // This server wants request objects for itself, not for its endpoint, as the profile would rather have it.
    let request_object = RequestObject::Signed { key: peer.key.clone(), audience: Audience::Endpoint };
    let route = peer.route(CamaraConfig { request_object, ..peer.signing() });
    assert_eq!(route.ask(&peer, question, SUBSCRIBER).await, Err(ErrorCode::MnoServerError), "invalid_request_object");
    let mut config = peer.with_secret(Algorithm::Es256);
    config.scopes.device_phone_number = Some("number-verification:verify".to_owned());
    let route = peer.route(config);
    assert_eq!(route.ask(&peer, question, SUBSCRIBER).await, Err(ErrorCode::MnoServerError), "PERMISSION_DENIED");
    assert_eq!(route.0.state(), BreakerState::Closed, "the device may have asked for less");
}

#[tokio::test]
async fn an_operator_that_is_not_ours_is_slow_or_dead() {
    let mut peer = Peer::start().await;
    // Time enough for what goes well, and each wait has its end.
    let total = Duration::from_secs(3);
    let impatient = Arc::new(Client::new(&ClientSettings { total, ..ClientSettings::default() }).unwrap());
    let question = Question::WhichNumber;
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy::default()));
    for path in ["/.well-known/openid-configuration", "/token", "/jwks", "/number-verification/v2/device-phone-number"]
    {
        for (fault, expected) in [("slow", ErrorCode::MnoTimeout), ("dead", ErrorCode::MnoServerError)] {
            peer.goes_wrong(path, fault).await;
            let route = Camara::new(peer.signing(), impatient.clone(), clock.clone(), entropy.clone()).unwrap();
            assert_eq!(Route(route).ask(&peer, question, SUBSCRIBER).await, Err(expected), "{path} {fault}");
        }
        peer.goes_wrong(path, "none").await;
    }
    let route = peer.route(peer.signing());
    let journey = route.depart(question).await.unwrap();
    let query = peer.carry(&journey, SUBSCRIBER).await;
    peer.process.kill().await.unwrap();
    assert_eq!(route.arrive(question, &journey.memory, &query).await, Err(ErrorCode::MnoServerError));
}

#[tokio::test]
async fn an_operator_that_is_not_ours_knows_when_a_sim_was_changed() {
    let mut peer = Peer::start().await;
    let (date, check_first) =
        (&[SimSwapOperation::RetrieveDate][..], &[SimSwapOperation::Check, SimSwapOperation::RetrieveDate][..]);
    let changed = Ok(SimHistory::ChangedAt("2024-09-18T07:37:53.471829447Z".parse().unwrap()));
    let hours = |hours| Ok(SimHistory::NoChangeFor(SignedDuration::from_hours(hours)));
    for with_secret in [false, true] {
        for flow in [SimSwapFlow::ClientCredentials, SimSwapFlow::Ciba] {
            for (operations, minutes, expected, asked) in [
                (date, 10_080, changed, &["retrieve-date"][..]),
                (check_first, 10_080, hours(168), &["check"]),
                (check_first, 540_000, changed, &["check", "retrieve-date"]),
            ] {
                let route = peer.route(peer.about_sims(flow.clone(), operations, with_secret));
                assert_eq!(route.sim_history(SUBSCRIBER, minutes).await, expected, "{flow:?}");
                for operation in asked {
                    let asked = format!("POST /sim-swap/v2/{operation}");
                    assert_eq!(peer.says().await, json!({ "asked": asked, "correlator": check().to_string() }));
                }
                assert_eq!(route.0.sim_swap_state(), BreakerState::Closed);
            }
        }
    }
}

#[tokio::test]
async fn an_operator_that_is_not_ours_decides_about_sims_at_once_later_or_never() {
    let peer = Peer::start().await;
    let date = &[SimSwapOperation::RetrieveDate];
    let route = peer.route(peer.about_sims(SimSwapFlow::Ciba, date, false));
    // It does not say how often it wants to be asked.
    let month = SimHistory::NoChangeFor(SignedDuration::from_hours(30 * 24));
    let (slow, silent) = tokio::join!(route.sim_history(SLOW, 10_080), route.sim_history(SILENT, 10_080));
    assert_eq!((slow, silent), (Ok(month), Err(ErrorCode::MnoTimeout)));
    assert_eq!(route.sim_history(UNASKED, 60).await, Err(ErrorCode::MnoUserNotFound), "access_denied");
    assert_eq!(route.sim_history(UNKNOWN, 60).await, Err(ErrorCode::MnoUserNotFound), "unknown_user_id");
    assert_eq!(route.0.sim_swap_state(), BreakerState::Closed);

    let route = peer.route(peer.about_sims(SimSwapFlow::ClientCredentials, date, true));
    assert_eq!(route.sim_history(UNKNOWN, 60).await, Err(ErrorCode::MnoUserNotFound), "IDENTIFIER_NOT_FOUND");
    assert_eq!(route.0.sim_swap_state(), BreakerState::Closed);

    let wrong_key = ClientAuthentication::PrivateKeyJwt { key: new_key().0, audience: Audience::Endpoint };
    for flow in [SimSwapFlow::ClientCredentials, SimSwapFlow::Ciba] {
        let usual = peer.about_sims(flow, date, false);
        let route = peer.route(CamaraConfig { client_authentication: wrong_key.clone(), ..usual });
        assert_eq!(route.sim_history(SUBSCRIBER, 60).await, Err(ErrorCode::MnoServerError), "invalid_client");
        assert!(matches!(route.0.sim_swap_state(), BreakerState::Open { .. }));
    }
    // It has no use for assertions that name a number.
    let by_assertion = SimSwapFlow::JwtBearer { key: peer.key.clone(), audience: Audience::Endpoint };
    let route = peer.route(peer.about_sims(by_assertion, date, false));
    assert_eq!(route.sim_history(SUBSCRIBER, 60).await, Err(ErrorCode::MnoServerError), "unsupported_grant_type");
}
