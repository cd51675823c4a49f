use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, Method, StatusCode, header::LOCATION};
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{Arrival, Clock, Departure, Question, Reply, SilentRoute, SystemClock, SystemEntropy};
use ringtrue_operators::{
    camara::{
        Algorithm, Audience, BreakerState, Camara, CamaraConfig, ClientAuthentication, LoginHint, Provider,
        RequestObject, ScopeStyle,
    },
    client::Client,
};
use ringtrue_sandbox::camara::{self as simulated, Endpoint, Fault, Operator, OperatorConfig};
use url::Url;

use super::{
    keys::Key,
    world::{CALLBACK, TICKET, check, impatient},
};

struct Sandbox {
    operator: Operator,
    client: Arc<Client>,
    key: Key,
}

impl Sandbox {
    async fn start(algorithm: Algorithm) -> Self {
        let key = Key::new(algorithm, "ours");
        let us = simulated::Client::new("us").with_secret("secret").redirecting_to(CALLBACK);
        let clients = vec![us.with_keys(&key.jwk()).unwrap()];
        let operator = Operator::start(OperatorConfig { clients, ..OperatorConfig::default() }).await.unwrap();
        Sandbox { operator, client: Arc::new(impatient()), key }
    }

    fn config(&self) -> CamaraConfig {
        let issuer = self.operator.issuer();
        let root = Url::parse(issuer).unwrap();
        let key = self.key.signing();
        let authentication = ClientAuthentication::PrivateKeyJwt { key, audience: Audience::Endpoint };
        let provider = Provider::Issuer(issuer.to_owned());
        let callback = Url::parse(CALLBACK).unwrap();
        CamaraConfig {
            mode: Mode::Sandbox,
            login_hint: LoginHint::Tel,
            ..CamaraConfig::new("sandbox", provider, root, "us", authentication, callback)
        }
    }

    fn route(&self, config: CamaraConfig) -> Camara {
        Camara::new(config, self.client.clone(), Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap()
    }

    /// The whole way of a device with a SIM. `None`: it is never sent back.
    async fn ask(&self, route: &Camara, question: Question<'_>, sim: &Msisdn) -> Option<Result<Reply, ErrorCode>> {
        let (device, now) = (IpAddr::from([192, 0, 2, 1]), SystemClock.now());
        let departure = Departure { check: check(), question, ticket: TICKET, sim: Some(sim), device, now };
        let journey = match route.depart(departure).await {
            Ok(journey) => journey,
            Err(code) => return Some(Err(code)),
        };
        let url = Url::parse(&journey.location).unwrap();
        let answer = self.client.request(Method::GET, &url, HeaderMap::new(), "").await.unwrap();
        let back = Url::parse(answer.headers.get(LOCATION)?.to_str().unwrap()).unwrap();
        let query: Vec<(String, String)> = back.query_pairs().into_owned().collect();
        assert!(query.contains(&("state".to_owned(), TICKET.to_owned())));
        let arrival = Arrival {
            check: check(),
            question,
            memory: &journey.memory,
            departed_from: device,
            peer: (device, 40_000).into(),
            device,
            query: &query,
            headers: &[],
            now,
        };
        Some(route.arrive(arrival).await)
    }
}

fn sim(suffix: &str) -> Msisdn {
    Msisdn::parse(&format!("+9901234567{suffix}"), Mode::Sandbox).unwrap()
}

#[tokio::test]
async fn what_becomes_of_a_simulated_sim_is_told_by_its_last_digits() {
    let failed = |code| Some(Err(code));
    let sandbox = Sandbox::start(Algorithm::Es256).await;
    let route = sandbox.route(sandbox.config());
    for (suffix, verified, found) in [
        ("00", Some(Ok(Reply::Match(true))), Some(Ok(Reply::Number(sim("00"))))),
        ("96", Some(Ok(Reply::Match(true))), Some(Ok(Reply::Number(sim("96"))))),
        ("01", Some(Ok(Reply::Match(false))), failed(ErrorCode::MnoUserNotFound)),
        ("93", failed(ErrorCode::MnoServerError), failed(ErrorCode::MnoServerError)),
        ("94", failed(ErrorCode::MnoNotSupported), failed(ErrorCode::MnoNotSupported)),
        ("95", failed(ErrorCode::MnoTimeout), failed(ErrorCode::MnoTimeout)),
        ("97", failed(ErrorCode::MnoNotSupported), failed(ErrorCode::MnoNotSupported)),
        ("98", None, None),
        ("99", failed(ErrorCode::MnoServerError), failed(ErrorCode::MnoServerError)),
    ] {
        let sim = sim(suffix);
        // Often enough to open the breaker, if one SIM could close the way for the others.
        for _ in 0..6 {
            assert_eq!(sandbox.ask(&route, Question::IsNumber(&sim), &sim).await, verified, "{suffix}");
            assert_eq!(sandbox.ask(&route, Question::WhichNumber, &sim).await, found, "{suffix}");
        }
        assert_eq!(route.state(), BreakerState::Closed, "{suffix}");
    }
    assert_eq!(sandbox.ask(&route, Question::IsNumber(&sim("02")), &sim("00")).await, Some(Ok(Reply::Match(false))));
}

#[tokio::test]
async fn every_way_of_asking_is_understood() {
    for algorithm in Algorithm::ALL {
        let sandbox = Sandbox::start(algorithm).await;
        let signed = |audience| RequestObject::Signed { key: sandbox.key.signing(), audience };
        let issuer = ClientAuthentication::PrivateKeyJwt { key: sandbox.key.signing(), audience: Audience::Issuer };
        let mut hash = sandbox.config();
        hash.scopes.style = ScopeStyle::Hash;
        for (case, config) in [
            ("plain", sandbox.config()),
            (
                "signed for the endpoint",
                CamaraConfig { request_object: signed(Audience::Endpoint), ..sandbox.config() },
            ),
            ("signed for the issuer", CamaraConfig { request_object: signed(Audience::Issuer), ..sandbox.config() }),
            ("assertion for the issuer", CamaraConfig { client_authentication: issuer, ..sandbox.config() }),
            ("digest", CamaraConfig { sends_hashed_number: true, ..sandbox.config() }),
            ("number without a scheme", CamaraConfig { login_hint: LoginHint::E164, ..sandbox.config() }),
            ("hash", hash),
        ] {
            let (route, sim) = (sandbox.route(config), sim("00"));
            let reply = sandbox.ask(&route, Question::IsNumber(&sim), &sim).await;
            assert_eq!(reply, Some(Ok(Reply::Match(true))), "{algorithm:?}, {case}");
        }
    }
}

#[tokio::test]
async fn faults_on_demand_end_as_the_table_says() {
    let (server, response) = (ErrorCode::MnoServerError, ErrorCode::MnoResponseError);
    for (endpoint, fault, expected) in [
        (Endpoint::Discovery, Fault::new().wrong_issuer(), response),
        (Endpoint::Discovery, Fault::new().garbled(), response),
        (Endpoint::Discovery, Fault::new().dropped(), server),
        (Endpoint::Authorize, Fault::new().wrong_issuer(), response),
        (Endpoint::Jwks, Fault::new().garbled(), response),
        (Endpoint::Token, Fault::new().wrong_issuer(), response),
        (Endpoint::Token, Fault::new().wrong_nonce(), response),
        (Endpoint::Token, Fault::new().badly_signed(), response),
        (Endpoint::Token, Fault::new().padded_to(100_000), response),
        (Endpoint::Token, Fault::new().lost(), server),
        (Endpoint::VerifyNumber, Fault::new().garbled(), response),
        (Endpoint::VerifyNumber, Fault::new().dropped(), server),
        (Endpoint::VerifyNumber, Fault::new().lost(), server),
        (Endpoint::VerifyNumber, Fault::new().status(StatusCode::SERVICE_UNAVAILABLE), ErrorCode::MnoTimeout),
        (Endpoint::VerifyNumber, Fault::new().status(StatusCode::TOO_MANY_REQUESTS).retry_after(60), server),
    ] {
        let sandbox = Sandbox::start(Algorithm::Es256).await;
        sandbox.operator.befall(endpoint, fault.clone());
        let (route, sim) = (sandbox.route(sandbox.config()), sim("00"));
        let reply = sandbox.ask(&route, Question::IsNumber(&sim), &sim).await;
        assert_eq!(reply, Some(Err(expected)), "{endpoint:?} {fault:?}");
        sandbox.operator.shutdown().await;
    }
}
