use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, Method, StatusCode, header::LOCATION};
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{
    clock::{Clock, SystemClock},
    entropy::SystemEntropy,
    silent::{
        OperatorAuthorizationRequest, OperatorAuthorizationResponse, SilentConnector, SilentOperation, SilentResult,
    },
};
use ringtrue_operators::{
    camara::{
        Algorithm, Audience, BreakerState, Camara, CamaraConfig, ClientAuthentication, LoginHintFormat, Provider,
        RequestObjectMode, SIGNING_ALGORITHMS, ScopeStyle,
    },
    client::Client,
};
use ringtrue_sandbox::camara::{self as simulated, Endpoint, EndpointFault, Operator, OperatorConfig};
use url::Url;

use super::{
    fixture::{REDIRECT_URI, STATE, check, short_timeout_client},
    keys::Key,
};

struct Sandbox {
    operator: Operator,
    client: Arc<Client>,
    key: Key,
}

impl Sandbox {
    async fn start(algorithm: Algorithm) -> Self {
        let key = Key::new(algorithm, "ours");
        let us = simulated::OAuthClient::new("us").with_secret("secret").with_redirect_uri(REDIRECT_URI);
        let clients = vec![us.with_keys(&key.jwk()).unwrap()];
        let operator = Operator::start(OperatorConfig { clients, ..OperatorConfig::default() }).await.unwrap();
        Sandbox { operator, client: Arc::new(short_timeout_client()), key }
    }

    fn config(&self) -> CamaraConfig {
        let issuer = self.operator.issuer();
        let root = Url::parse(issuer).unwrap();
        let key = self.key.signing();
        let authentication = ClientAuthentication::PrivateKeyJwt { key, audience: Audience::Endpoint };
        let provider = Provider::Issuer(issuer.to_owned());
        let callback = Url::parse(REDIRECT_URI).unwrap();
        CamaraConfig {
            mode: Mode::Sandbox,
            login_hint: LoginHintFormat::Tel,
            ..CamaraConfig::new("sandbox", provider, root, "us", authentication, callback)
        }
    }

    fn route(&self, config: CamaraConfig) -> Camara {
        Camara::new(config, self.client.clone(), Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap()
    }

    /// Runs a check for a device with this SIM. `None`: the device is never redirected back.
    async fn run_check(
        &self,
        route: &Camara,
        operation: SilentOperation<'_>,
        sim: &Msisdn,
    ) -> Option<Result<SilentResult, ErrorCode>> {
        let (device, now) = (IpAddr::from([192, 0, 2, 1]), SystemClock.now());
        let request = OperatorAuthorizationRequest {
            check: check(),
            operation,
            state: STATE,
            simulated_sim: Some(sim),
            device_ip: device,
            now,
        };
        let redirect = match route.begin_authorization(request).await {
            Ok(redirect) => redirect,
            Err(code) => return Some(Err(code)),
        };
        let url = Url::parse(&redirect.location).unwrap();
        let answer = self.client.request(Method::GET, &url, HeaderMap::new(), "").await.unwrap();
        let back = Url::parse(answer.headers.get(LOCATION)?.to_str().unwrap()).unwrap();
        let query: Vec<(String, String)> = back.query_pairs().into_owned().collect();
        assert!(query.contains(&("state".to_owned(), STATE.to_owned())));
        let response = OperatorAuthorizationResponse {
            check: check(),
            operation,
            connector_data: &redirect.connector_data,
            initial_ip: device,
            peer: (device, 40_000).into(),
            device_ip: device,
            query: &query,
            headers: &[],
            now,
        };
        Some(route.complete_authorization(response).await)
    }
}

fn sim(suffix: &str) -> Msisdn {
    Msisdn::parse(&format!("+9901234567{suffix}"), Mode::Sandbox).unwrap()
}

#[tokio::test]
async fn simulated_result_follows_the_last_digits() {
    let failed = |code| Some(Err(code));
    let sandbox = Sandbox::start(Algorithm::ES256).await;
    let route = sandbox.route(sandbox.config());
    for (suffix, verified, found) in [
        ("00", Some(Ok(SilentResult::Match(true))), Some(Ok(SilentResult::Number(sim("00"))))),
        ("96", Some(Ok(SilentResult::Match(true))), Some(Ok(SilentResult::Number(sim("96"))))),
        ("01", Some(Ok(SilentResult::Match(false))), failed(ErrorCode::MnoUserNotFound)),
        ("93", failed(ErrorCode::MnoServerError), failed(ErrorCode::MnoServerError)),
        ("94", failed(ErrorCode::MnoNotSupported), failed(ErrorCode::MnoNotSupported)),
        ("95", failed(ErrorCode::MnoTimeout), failed(ErrorCode::MnoTimeout)),
        ("97", failed(ErrorCode::MnoNotSupported), failed(ErrorCode::MnoNotSupported)),
        ("98", None, None),
        ("99", failed(ErrorCode::MnoServerError), failed(ErrorCode::MnoServerError)),
    ] {
        let sim = sim(suffix);
        // Enough errors to open the breaker, if errors of subscribers counted.
        for _ in 0..6 {
            assert_eq!(
                sandbox.run_check(&route, SilentOperation::VerifyNumber(&sim), &sim).await,
                verified,
                "{suffix}"
            );
            assert_eq!(sandbox.run_check(&route, SilentOperation::DiscoverNumber, &sim).await, found, "{suffix}");
        }
        assert_eq!(route.breaker_state(), BreakerState::Closed, "{suffix}");
    }
    assert_eq!(
        sandbox.run_check(&route, SilentOperation::VerifyNumber(&sim("02")), &sim("00")).await,
        Some(Ok(SilentResult::Match(false)))
    );
}

#[tokio::test]
async fn every_client_configuration_works() {
    for algorithm in SIGNING_ALGORITHMS {
        let sandbox = Sandbox::start(algorithm).await;
        let signed = |audience| RequestObjectMode::Signed { key: sandbox.key.signing(), audience };
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
            ("number without a scheme", CamaraConfig { login_hint: LoginHintFormat::E164, ..sandbox.config() }),
            ("hash", hash),
        ] {
            let (route, sim) = (sandbox.route(config), sim("00"));
            let reply = sandbox.run_check(&route, SilentOperation::VerifyNumber(&sim), &sim).await;
            assert_eq!(reply, Some(Ok(SilentResult::Match(true))), "{algorithm:?}, {case}");
        }
    }
}

#[tokio::test]
async fn simulated_faults_map_to_error_codes() {
    let (server, response) = (ErrorCode::MnoServerError, ErrorCode::MnoResponseError);
    for (endpoint, fault, expected) in [
        (Endpoint::Discovery, EndpointFault::new().wrong_issuer(), response),
        (Endpoint::Discovery, EndpointFault::new().garbled(), response),
        (Endpoint::Discovery, EndpointFault::new().connection_dropped(), server),
        (Endpoint::Authorize, EndpointFault::new().wrong_issuer(), response),
        (Endpoint::Jwks, EndpointFault::new().garbled(), response),
        (Endpoint::Token, EndpointFault::new().wrong_issuer(), response),
        (Endpoint::Token, EndpointFault::new().wrong_nonce(), response),
        (Endpoint::Token, EndpointFault::new().invalid_signature(), response),
        (Endpoint::Token, EndpointFault::new().padded_to(100_000), response),
        (Endpoint::Token, EndpointFault::new().response_lost(), server),
        (Endpoint::VerifyNumber, EndpointFault::new().garbled(), response),
        (Endpoint::VerifyNumber, EndpointFault::new().connection_dropped(), server),
        (Endpoint::VerifyNumber, EndpointFault::new().response_lost(), server),
        (Endpoint::VerifyNumber, EndpointFault::new().status(StatusCode::SERVICE_UNAVAILABLE), ErrorCode::MnoTimeout),
        (Endpoint::VerifyNumber, EndpointFault::new().status(StatusCode::TOO_MANY_REQUESTS).retry_after(60), server),
    ] {
        let sandbox = Sandbox::start(Algorithm::ES256).await;
        sandbox.operator.set_fault(endpoint, fault.clone());
        let (route, sim) = (sandbox.route(sandbox.config()), sim("00"));
        let reply = sandbox.run_check(&route, SilentOperation::VerifyNumber(&sim), &sim).await;
        assert_eq!(reply, Some(Err(expected)), "{endpoint:?} {fault:?}");
        sandbox.operator.shutdown().await;
    }
}
