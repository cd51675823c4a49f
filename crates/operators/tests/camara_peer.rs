//! The CAMARA connector against an external authorization server: npm `oidc-provider`, in `e2e/oidc/operator.mjs`. The
//! test plays the device and its wallet, and follows the redirects. Requires node and `make setup`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

#[path = "camara/wallet.rs"]
mod wallet;

use std::{net::IpAddr, path::Path, process::Stdio, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, Method, header::LOCATION};
use jiff::SignedDuration;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    sim_swap::{SimHistory, SimSwapPeriod},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    clock::{Clock, SystemClock},
    entropy::SystemEntropy,
    operator_tokens::{CredentialKey, CredentialRequest, CredentialResponse},
    silent::{
        AuthorizationRedirect, OperatorAuthorizationRequest, OperatorAuthorizationResponse, SilentConnector,
        SilentOperation, SilentResult,
    },
    sim_swap::{SimSwapConnector, SimSwapRequest},
};
use ringtrue_operators::{
    camara::{
        Algorithm, Audience, BreakerState, Camara, CamaraConfig, ClientAuthentication, ConsentData,
        OperatorTokenConfig, OperatorTokenFlow, Provider, RequestObjectMode, SIGNING_ALGORITHMS, SigningKey,
        SimSwapConfig, SimSwapFlow, SimSwapOperation, WalletRequestSigner,
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

use wallet::{Draft, ORIGIN, TEMPORARY_TOKEN};

const TIMEOUT: Duration = Duration::from_mins(1);
const REDIRECT_URI: &str = "https://ringtrue.example/southbound/camara/op/callback";
/// A subscriber, a subscriber who has not consented, and a device on Wi-Fi.
const SUBSCRIBER: &str = "+447700900123";
const WITHOUT_CONSENT: &str = "+447700900124";
const ON_WIFI: &str = "none";
/// For CIBA: a subscriber who consents late, one who never responds, and an unknown number.
const SLOW: &str = "+447700900126";
const SILENT: &str = "+447700900127";
const UNKNOWN: &str = "+447700900199";

struct Peer {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    issuer: String,
    /// Our signing key; the peer has the public key.
    key: SigningKey,
    client: Arc<Client>,
}

impl Peer {
    async fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/oidc/operator.mjs");
        let mut command = Command::new("node");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("node is installed; see `make setup`");
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let input = process.stdin.take().unwrap();
        let (key, jwk) = new_key();
        let client = Arc::new(Client::new(&ClientSettings::default()).unwrap());
        let mut peer = Self { process, output, input, issuer: String::new(), key, client };
        peer.send(&json!({ "jwk": jwk, "redirectUri": REDIRECT_URI })).await;
        peer.next_event().await["issuer"].as_str().unwrap().clone_into(&mut peer.issuer);
        peer
    }

    async fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Waits for the next event that the peer prints.
    async fn next_event(&mut self) -> Value {
        let line = timeout(TIMEOUT, self.output.next_line()).await.expect("the peer responds in time").unwrap();
        serde_json::from_str(&line.expect("the peer is running; `make setup` installs its packages")).unwrap()
    }

    /// Makes the peer simulate a fault in later requests to this path.
    async fn inject_fault(&mut self, path: &str, fault: &str) {
        let message = json!({ "path": path, "fault": fault });
        self.send(&message).await;
        assert_eq!(self.next_event().await, message);
    }

    fn config(&self, id: &str, authentication: ClientAuthentication) -> CamaraConfig {
        let provider = Provider::Issuer(self.issuer.clone());
        let root = Url::parse(&self.issuer).unwrap();
        CamaraConfig::new("op", provider, root, id, authentication, Url::parse(REDIRECT_URI).unwrap())
    }

    /// Returns a configuration that follows the CAMARA profile and signs client assertions and request objects.
    fn signing(&self) -> CamaraConfig {
        let authentication =
            ClientAuthentication::PrivateKeyJwt { key: self.key.clone(), audience: Audience::Endpoint };
        let request_object = RequestObjectMode::Signed { key: self.key.clone(), audience: Audience::Issuer };
        CamaraConfig { request_object, ..self.config("assertion", authentication) }
    }

    fn with_secret(&self, algorithm: Algorithm) -> CamaraConfig {
        let id = format!("secret {algorithm:?}");
        self.config(&id, ClientAuthentication::SecretBasic("s3cret: of/ours+".into()))
    }

    /// Returns a configuration with SIM Swap only.
    fn sim_swap_config(&self, flow: SimSwapFlow, operations: &[SimSwapOperation], with_secret: bool) -> CamaraConfig {
        let mut config = if with_secret {
            self.config("sim secret", ClientAuthentication::SecretBasic("s3cret: of/ours+".into()))
        } else {
            CamaraConfig { client_id: "sim assertion".to_owned(), ..self.signing() }
        };
        (config.scopes.verify, config.scopes.device_phone_number) = (None, None);
        config.sim_swap = Some(SimSwapConfig { operations: operations.to_vec(), ..SimSwapConfig::new(flow) });
        config
    }

    /// Registers the temporary token of the wallet's SIM.
    async fn issue_temporary_token(&mut self, sim: &str) {
        let message = json!({ "temporaryToken": TEMPORARY_TOKEN, "sim": sim });
        self.send(&message).await;
        assert_eq!(self.next_event().await, message);
    }

    fn operator_token_config(&self, flow: OperatorTokenFlow) -> CamaraConfig {
        let client_id = match &flow {
            OperatorTokenFlow::Ciba => "token ciba",
            OperatorTokenFlow::JwtBearer { .. } => "token assertion",
        };
        let policy = Url::parse("https://ringtrue.example/privacy").unwrap();
        let consent = ConsentData::new("May we ask?", &policy, "Privacy");
        let tokens = OperatorTokenConfig::new(flow, "https://ringtrue.example", request_signer(), consent);
        let networks = vec!["23420".parse().unwrap()];
        CamaraConfig { client_id: client_id.to_owned(), networks, operator_tokens: Some(tokens), ..self.signing() }
    }

    fn route(&self, config: CamaraConfig) -> Route {
        Route(
            Camara::new(config, self.client.clone(), Arc::new(SystemClock), Arc::new(SystemEntropy::default()))
                .unwrap(),
        )
    }

    /// Follows redirects until the device returns to us.
    async fn follow_redirects(&self, redirect: &AuthorizationRedirect, sim: &str) -> Vec<(String, String)> {
        let sim_header = HeaderName::from_static("x-sim");
        let mut location = Url::parse(&redirect.location).unwrap();
        while !location.as_str().starts_with(REDIRECT_URI) {
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
    async fn begin(&self, operation: SilentOperation<'_>) -> Result<AuthorizationRedirect, ErrorCode> {
        let (device, now) = (IpAddr::from([192, 0, 2, 1]), SystemClock.now());
        self.0
            .begin_authorization(OperatorAuthorizationRequest {
                check: check(),
                operation,
                state: "state-of-the-device",
                simulated_sim: None,
                device_ip: device,
                now,
            })
            .await
    }

    async fn complete(
        &self,
        operation: SilentOperation<'_>,
        memory: &[u8],
        query: &[(String, String)],
    ) -> Result<SilentResult, ErrorCode> {
        let device = IpAddr::from([192, 0, 2, 1]);
        let response = OperatorAuthorizationResponse {
            check: check(),
            operation,
            connector_data: memory,
            initial_ip: device,
            peer: (device, 40_000).into(),
            device_ip: device,
            query,
            headers: &[],
            now: SystemClock.now(),
        };
        self.0.complete_authorization(response).await
    }

    /// Has the wallet answer a request, and asks the operator about the number.
    async fn verify_by_token(&self, text: &str) -> Result<bool, ErrorCode> {
        let (check, number, now) = (check(), &number(text), SystemClock.now());
        let (nonce, key) = ("nonce-of-the-request", &CredentialKey::new([9; 32]));
        let verifier = self.0.operator_token_verifier().unwrap();
        let request = CredentialRequest { check, number_hint: Some(number), nonce, key, now };
        let request = verifier.credential_request(request).unwrap();
        let credential = &Draft::new(&request, now.as_second()).seal();
        let response = CredentialResponse { check, nonce, key, origins: &[ORIGIN], credential, now };
        let token = verifier.verify_credential(&response).unwrap();
        verifier.verify_number_with_token(check, number, &token.temporary_token).await
    }

    async fn sim_history(&self, text: &str, minutes: i64) -> Result<SimHistory, ErrorCode> {
        let (number, period) = (number(text), SimSwapPeriod::try_from(minutes).unwrap());
        let (now, until) = (SystemClock.now(), Instant::now() + Duration::from_secs(10));
        let operation =
            SimSwapRequest { check: check(), project: project(), number: &number, period, now, deadline: until };
        self.0.sim_history(operation).await
    }

    /// Runs a check from the redirect to the result, for a device with this SIM.
    async fn run_check(
        &self,
        peer: &Peer,
        operation: SilentOperation<'_>,
        sim: &str,
    ) -> Result<SilentResult, ErrorCode> {
        let redirect = self.begin(operation).await?;
        let query = peer.follow_redirects(&redirect, sim).await;
        assert!(query.contains(&("state".to_owned(), "state-of-the-device".to_owned())));
        self.complete(operation, &redirect.connector_data, &query).await
    }
}

fn request_signer() -> WalletRequestSigner {
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut root = CertificateParams::default();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = CertificateParams::default().signed_by(&key, &Issuer::from_params(&root, &root_key)).unwrap();
    let pem = certificate.pem() + &root.self_signed(&root_key).unwrap().pem();
    WalletRequestSigner::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

fn new_key() -> (SigningKey, Value) {
    let pair = KeyPair::generate().unwrap();
    let key = SigningKey::from_pem(pair.serialize_pem().as_bytes(), Algorithm::ES256, "ours").unwrap();
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
async fn external_operator_verifies_subscribers() {
    let mut peer = Peer::start().await;
    let mut routes = vec![peer.route(peer.signing())];
    // The issuer is also accepted as the audience of client assertions.
    let for_issuer = ClientAuthentication::PrivateKeyJwt { key: peer.key.clone(), audience: Audience::Issuer };
    routes.push(peer.route(CamaraConfig { client_authentication: for_issuer, ..peer.signing() }));
    routes.push(peer.route(CamaraConfig { sends_hashed_number: true, ..peer.signing() }));
    // ID tokens with every supported algorithm.
    routes.extend(SIGNING_ALGORITHMS.map(|algorithm| peer.route(peer.with_secret(algorithm))));
    routes.push(peer.route(CamaraConfig { pkce: false, ..peer.with_secret(Algorithm::RS256) }));

    let (right, wrong) = (number(SUBSCRIBER), number("+447700900125"));
    for route in routes {
        for (operation, expected, path) in [
            (SilentOperation::VerifyNumber(&right), SilentResult::Match(true), "POST /number-verification/v2/verify"),
            (SilentOperation::VerifyNumber(&wrong), SilentResult::Match(false), "POST /number-verification/v2/verify"),
            (
                SilentOperation::DiscoverNumber,
                SilentResult::Number(right.clone()),
                "GET /number-verification/v2/device-phone-number",
            ),
        ] {
            assert_eq!(route.run_check(&peer, operation, SUBSCRIBER).await, Ok(expected));
            assert_eq!(peer.next_event().await, json!({ "request": path, "correlator": check().to_string() }));
        }
        assert_eq!(route.0.breaker_state(), BreakerState::Closed);
    }
    peer.process.kill().await.unwrap();
}

#[tokio::test]
async fn external_operator_errors_are_mapped() {
    let peer = Peer::start().await;
    let operation = SilentOperation::DiscoverNumber;
    for config in [peer.signing(), peer.with_secret(Algorithm::ES256)] {
        let route = peer.route(config);
        assert_eq!(route.run_check(&peer, operation, ON_WIFI).await, Err(ErrorCode::MnoUserNotFound), "login_required");
        assert_eq!(
            route.run_check(&peer, operation, WITHOUT_CONSENT).await,
            Err(ErrorCode::MnoNoDataAvailable),
            "consent_required"
        );

        let redirect = route.begin(operation).await.unwrap();
        let query = peer.follow_redirects(&redirect, SUBSCRIBER).await;
        let from_another = |(name, value): &(String, String)| {
            (name.clone(), if name == "iss" { "https://other.example".to_owned() } else { value.clone() })
        };
        let forged: Vec<_> = query.iter().map(from_another).collect();
        let nameless: Vec<_> = query.iter().filter(|(name, _)| name != "iss").cloned().collect();
        let refused = Err(ErrorCode::MnoResponseError);
        for query in [&forged, &nameless] {
            assert_eq!(route.complete(operation, &redirect.connector_data, query).await, refused);
        }
        assert!(
            route.complete(operation, &redirect.connector_data, &query).await.is_ok(),
            "the rejected responses did not use the code"
        );
        assert_eq!(route.complete(operation, &redirect.connector_data, &query).await, refused, "the code is used");

        // Another device's code: the code verifier does not match.
        let (one, other) = (route.begin(operation).await.unwrap(), route.begin(operation).await.unwrap());
        let query = peer.follow_redirects(&one, SUBSCRIBER).await;
        assert_eq!(route.complete(operation, &other.connector_data, &query).await, refused);
        assert_eq!(route.0.breaker_state(), BreakerState::Closed);
    }

    // Without PKCE the code is accepted, but the ID token has another nonce.
    let route = peer.route(CamaraConfig { pkce: false, ..peer.with_secret(Algorithm::ES256) });
    let (one, other) = (route.begin(operation).await.unwrap(), route.begin(operation).await.unwrap());
    let query = peer.follow_redirects(&one, SUBSCRIBER).await;
    assert_eq!(route.complete(operation, &other.connector_data, &query).await, Err(ErrorCode::MnoResponseError));
}

#[tokio::test]
async fn external_operator_rejects_unknown_client() {
    let peer = Peer::start().await;
    let operation = SilentOperation::DiscoverNumber;
    let wrong_secret = ClientAuthentication::SecretBasic("wrong".into());
    let wrong_key = ClientAuthentication::PrivateKeyJwt { key: new_key().0, audience: Audience::Endpoint };
    for config in [
        CamaraConfig { client_authentication: wrong_secret, ..peer.with_secret(Algorithm::ES256) },
        CamaraConfig { client_authentication: wrong_key, ..peer.signing() },
    ] {
        let route = peer.route(config);
        assert_eq!(
            route.run_check(&peer, operation, SUBSCRIBER).await,
            Err(ErrorCode::MnoServerError),
            "invalid_client"
        );
        assert!(matches!(route.0.breaker_state(), BreakerState::Open { .. }));
        assert_eq!(route.begin(operation).await, Err(ErrorCode::MnoServerError));
    }

    // This server expects the issuer as the audience of request objects.
    let request_object = RequestObjectMode::Signed { key: peer.key.clone(), audience: Audience::Endpoint };
    let route = peer.route(CamaraConfig { request_object, ..peer.signing() });
    assert_eq!(
        route.run_check(&peer, operation, SUBSCRIBER).await,
        Err(ErrorCode::MnoServerError),
        "invalid_request_object"
    );
    let mut config = peer.with_secret(Algorithm::ES256);
    config.scopes.device_phone_number = Some("number-verification:verify".to_owned());
    let route = peer.route(config);
    assert_eq!(
        route.run_check(&peer, operation, SUBSCRIBER).await,
        Err(ErrorCode::MnoServerError),
        "PERMISSION_DENIED"
    );
    assert_eq!(route.0.breaker_state(), BreakerState::Closed, "the device may have requested a narrower scope");
}

#[tokio::test]
async fn external_operator_timeouts_are_mapped() {
    let mut peer = Peer::start().await;
    let timeout = Duration::from_secs(3);
    let short_timeout_client = Arc::new(Client::new(&ClientSettings { timeout, ..ClientSettings::default() }).unwrap());
    let operation = SilentOperation::DiscoverNumber;
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy::default()));
    for path in ["/.well-known/openid-configuration", "/token", "/jwks", "/number-verification/v2/device-phone-number"]
    {
        for (fault, expected) in [("slow", ErrorCode::MnoTimeout), ("dead", ErrorCode::MnoServerError)] {
            peer.inject_fault(path, fault).await;
            let route =
                Camara::new(peer.signing(), short_timeout_client.clone(), clock.clone(), entropy.clone()).unwrap();
            assert_eq!(Route(route).run_check(&peer, operation, SUBSCRIBER).await, Err(expected), "{path} {fault}");
        }
        peer.inject_fault(path, "none").await;
    }
    let route = peer.route(peer.signing());
    let redirect = route.begin(operation).await.unwrap();
    let query = peer.follow_redirects(&redirect, SUBSCRIBER).await;
    peer.process.kill().await.unwrap();
    assert_eq!(route.complete(operation, &redirect.connector_data, &query).await, Err(ErrorCode::MnoServerError));
}

#[tokio::test]
async fn external_operator_returns_sim_history() {
    let mut peer = Peer::start().await;
    let (date, check_first) =
        (&[SimSwapOperation::RetrieveDate][..], &[SimSwapOperation::Check, SimSwapOperation::RetrieveDate][..]);
    let changed = Ok(SimHistory::ChangedAt("2024-09-18T07:37:53.471829447Z".parse().unwrap()));
    let hours = |hours| Ok(SimHistory::NoChangeFor(SignedDuration::from_hours(hours)));
    for with_secret in [false, true] {
        for flow in [SimSwapFlow::ClientCredentials, SimSwapFlow::Ciba] {
            for (operations, minutes, expected, requested) in [
                (date, 10_080, changed, &["retrieve-date"][..]),
                (check_first, 10_080, hours(168), &["check"]),
                (check_first, 540_000, changed, &["check", "retrieve-date"]),
            ] {
                let route = peer.route(peer.sim_swap_config(flow.clone(), operations, with_secret));
                assert_eq!(route.sim_history(SUBSCRIBER, minutes).await, expected, "{flow:?}");
                for operation in requested {
                    let request_line = format!("POST /sim-swap/v2/{operation}");
                    assert_eq!(
                        peer.next_event().await,
                        json!({ "request": request_line, "correlator": check().to_string() })
                    );
                }
                assert_eq!(route.0.sim_swap_breaker_state(), BreakerState::Closed);
            }
        }
    }
}

#[tokio::test]
async fn external_operator_ciba_is_polled() {
    let peer = Peer::start().await;
    let date = &[SimSwapOperation::RetrieveDate];
    let route = peer.route(peer.sim_swap_config(SimSwapFlow::Ciba, date, false));
    // The backchannel response contains no polling interval, so the connector uses its default.
    let month = SimHistory::NoChangeFor(SignedDuration::from_hours(30 * 24));
    let (slow, silent) = tokio::join!(route.sim_history(SLOW, 10_080), route.sim_history(SILENT, 10_080));
    assert_eq!((slow, silent), (Ok(month), Err(ErrorCode::MnoTimeout)));
    assert_eq!(route.sim_history(WITHOUT_CONSENT, 60).await, Err(ErrorCode::MnoUserNotFound), "access_denied");
    assert_eq!(route.sim_history(UNKNOWN, 60).await, Err(ErrorCode::MnoUserNotFound), "unknown_user_id");
    assert_eq!(route.0.sim_swap_breaker_state(), BreakerState::Closed);

    let route = peer.route(peer.sim_swap_config(SimSwapFlow::ClientCredentials, date, true));
    assert_eq!(route.sim_history(UNKNOWN, 60).await, Err(ErrorCode::MnoUserNotFound), "IDENTIFIER_NOT_FOUND");
    assert_eq!(route.0.sim_swap_breaker_state(), BreakerState::Closed);

    let wrong_key = ClientAuthentication::PrivateKeyJwt { key: new_key().0, audience: Audience::Endpoint };
    for flow in [SimSwapFlow::ClientCredentials, SimSwapFlow::Ciba] {
        let usual = peer.sim_swap_config(flow, date, false);
        let route = peer.route(CamaraConfig { client_authentication: wrong_key.clone(), ..usual });
        assert_eq!(route.sim_history(SUBSCRIBER, 60).await, Err(ErrorCode::MnoServerError), "invalid_client");
        assert!(matches!(route.0.sim_swap_breaker_state(), BreakerState::Open { .. }));
    }
    // This server does not support the JWT bearer grant.
    let by_assertion = SimSwapFlow::JwtBearer { key: peer.key.clone(), audience: Audience::Endpoint };
    let route = peer.route(peer.sim_swap_config(by_assertion, date, false));
    assert_eq!(route.sim_history(SUBSCRIBER, 60).await, Err(ErrorCode::MnoServerError), "unsupported_grant_type");
}

#[tokio::test]
async fn external_operator_exchanges_operator_tokens() {
    let mut peer = Peer::start().await;
    let assertion = |audience| OperatorTokenFlow::JwtBearer { key: peer.key.clone(), audience };
    for flow in [assertion(Audience::Endpoint), assertion(Audience::Issuer), OperatorTokenFlow::Ciba] {
        let route = peer.route(peer.operator_token_config(flow.clone()));
        for (text, expected) in [(SUBSCRIBER, true), ("+447700900125", false)] {
            peer.issue_temporary_token(SUBSCRIBER).await;
            assert_eq!(route.verify_by_token(text).await, Ok(expected), "{flow:?}");
            let path = "POST /number-verification/v2/verify";
            assert_eq!(peer.next_event().await, json!({ "request": path, "correlator": check().to_string() }));
        }
        // The token is used.
        let error = match flow {
            OperatorTokenFlow::Ciba => ErrorCode::MnoUserNotFound,
            OperatorTokenFlow::JwtBearer { .. } => ErrorCode::MnoResponseError,
        };
        assert_eq!(route.verify_by_token(SUBSCRIBER).await, Err(error), "{flow:?}");
        assert_eq!(route.0.breaker_state(), BreakerState::Closed);
    }
    let wrong_key = OperatorTokenFlow::JwtBearer { key: new_key().0, audience: Audience::Endpoint };
    let route = peer.route(peer.operator_token_config(wrong_key));
    peer.issue_temporary_token(SUBSCRIBER).await;
    let rejected = Err(ErrorCode::MnoResponseError);
    assert_eq!(route.verify_by_token(SUBSCRIBER).await, rejected, "invalid_grant");
    peer.process.kill().await.unwrap();
}
