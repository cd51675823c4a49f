use std::{sync::Arc, time::Duration};

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::ErrorCode,
    phone::Msisdn,
    sim_swap::{SimHistory, SimSwapPeriod},
    tenancy::Mode,
};
use ringtrue_engine::ports::{
    clock::{Clock, SystemClock},
    entropy::SystemEntropy,
    sim_swap::{SimSwapConnector, SimSwapRequest},
};
use ringtrue_operators::{
    camara::{
        Algorithm, Audience, BreakerState, Camara, CamaraConfig, ClientAuthentication, Provider, SimSwapConfig,
        SimSwapFlow, SimSwapOperation,
    },
    client::{Client, ClientSettings},
};
use ringtrue_sandbox::camara::{self as simulated, Endpoint, EndpointFault, Operator, OperatorConfig};
use tokio::time::Instant;
use url::Url;

use super::{
    fixture::{REDIRECT_URI, check, project},
    keys::Key,
};

struct Sandbox {
    operator: Operator,
    key: Key,
    client: Arc<Client>,
}

impl Sandbox {
    async fn start(poll_interval: u64) -> Self {
        let key = Key::new(Algorithm::ES256, "ours");
        let clients = vec![simulated::OAuthClient::new("us").with_keys(&key.jwk()).unwrap()];
        let poll_interval = Duration::from_secs(poll_interval);
        let config = OperatorConfig { clients, poll_interval, ..OperatorConfig::default() };
        let client = Arc::new(Client::new(&ClientSettings::default()).unwrap());
        Sandbox { operator: Operator::start(config).await.unwrap(), key, client }
    }

    fn token_flows(&self) -> [SimSwapFlow; 3] {
        let by = |audience| SimSwapFlow::JwtBearer { key: self.key.signing(), audience };
        [SimSwapFlow::ClientCredentials, SimSwapFlow::Ciba, by(Audience::Issuer)]
    }

    fn route(&self, sim_swap: SimSwapConfig) -> Camara {
        let authentication =
            ClientAuthentication::PrivateKeyJwt { key: self.key.signing(), audience: Audience::Endpoint };
        let issuer = self.operator.issuer();
        let (provider, root) = (Provider::Issuer(issuer.to_owned()), Url::parse(issuer).unwrap());
        let callback = Url::parse(REDIRECT_URI).unwrap();
        let config = CamaraConfig {
            mode: Mode::Sandbox,
            sim_swap: Some(sim_swap),
            ..CamaraConfig::new("sandbox", provider, root, "us", authentication, callback)
        };
        Camara::new(config, self.client.clone(), Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap()
    }
}

async fn query_sim_history(route: &Camara, suffix: &str, minutes: i64) -> (Result<SimHistory, ErrorCode>, Timestamp) {
    let number = Msisdn::parse(&format!("+9901234567{suffix}"), Mode::Sandbox).unwrap();
    let (period, now) = (SimSwapPeriod::try_from(minutes).unwrap(), SystemClock.now());
    let until = Instant::now() + Duration::from_secs(10);
    let operation =
        SimSwapRequest { check: check(), project: project(), number: &number, period, now, deadline: until };
    (route.sim_history(operation).await, SystemClock.now())
}

#[tokio::test]
async fn simulated_sim_history_follows_the_last_digits() {
    // A poll interval of zero keeps the test fast.
    let sandbox = Sandbox::start(0).await;
    for flow in sandbox.token_flows() {
        let is_by_assertion = matches!(flow, SimSwapFlow::JwtBearer { .. });
        let route = sandbox.route(SimSwapConfig::new(flow));
        for period in [60, 10_080, 540_000] {
            for suffix in ["00", "96"] {
                let (history, now) = query_sim_history(&route, suffix, period).await;
                let verdict = history.unwrap().evaluate(SimSwapPeriod::try_from(period).unwrap(), now);
                assert_eq!(
                    (verdict.no_sim_change, verdict.changed_within_minutes),
                    (true, Some(525_601)),
                    "{suffix} {period}"
                );
            }
        }
        let (history, now) = query_sim_history(&route, "01", 10_080).await;
        let verdict = history.unwrap().evaluate(SimSwapPeriod::DEFAULT, now);
        assert_eq!((verdict.no_sim_change, verdict.changed_within_minutes), (false, Some(1_440)));
        let forgotten = SimHistory::NoChangeFor(SignedDuration::from_hours(24 * 400));
        let unknown = if is_by_assertion { ErrorCode::MnoResponseError } else { ErrorCode::MnoUserNotFound };
        for (suffix, expected) in [
            ("98", Ok(forgotten)),
            ("99", Err(ErrorCode::MnoServerError)),
            ("97", Err(ErrorCode::MnoNotSupported)),
            ("95", Err(ErrorCode::MnoTimeout)),
            ("94", Err(unknown)),
            ("93", Err(ErrorCode::MnoTimeout)),
        ] {
            assert_eq!(query_sim_history(&route, suffix, 10_080).await.0, expected, "{suffix}");
        }
        assert_eq!(route.breaker_state(), BreakerState::Closed);
    }
}

#[tokio::test]
async fn every_operation_works_in_every_flow() {
    let sandbox = Sandbox::start(1).await;
    let hours = SignedDuration::from_hours;
    for flow in sandbox.token_flows() {
        let operations = vec![SimSwapOperation::Check, SimSwapOperation::RetrieveDate];
        let both = SimSwapConfig { operations, ..SimSwapConfig::new(flow.clone()) };
        let route = sandbox.route(both);
        assert_eq!(query_sim_history(&route, "01", 1_200).await.0, Ok(SimHistory::ChangedWithin(hours(20))));
        assert_eq!(query_sim_history(&route, "01", 1_140).await.0, Ok(SimHistory::NoChangeFor(hours(19))));
        assert_eq!(query_sim_history(&route, "00", 540_000).await.0, Ok(SimHistory::NoChangeFor(hours(2_400))));
        // Some operators use one scope for both operations.
        let one = "sim-swap".to_owned();
        let usual = SimSwapConfig::new(flow);
        let route = sandbox.route(SimSwapConfig { retrieve_date_scope: one.clone(), check_scope: one, ..usual });
        assert!(matches!(query_sim_history(&route, "00", 60).await.0, Ok(SimHistory::ChangedAt(_))));
    }
}

#[tokio::test]
async fn monitored_period_is_respected() {
    let key = Key::new(Algorithm::ES256, "ours");
    let clients = vec![simulated::OAuthClient::new("us").with_keys(&key.jwk()).unwrap()];
    let config = OperatorConfig { clients, monitored_days: Some(30), ..OperatorConfig::default() };
    let client = Arc::new(Client::new(&ClientSettings::default()).unwrap());
    let sandbox = Sandbox { operator: Operator::start(config).await.unwrap(), key, client };
    let month = SimHistory::NoChangeFor(SignedDuration::from_hours(24 * 30));
    for (operations, expected) in [
        (vec![SimSwapOperation::RetrieveDate], Ok(month)),
        (vec![SimSwapOperation::Check, SimSwapOperation::RetrieveDate], Ok(month)),
        (vec![SimSwapOperation::Check], Err(ErrorCode::MnoNoDataAvailable)),
    ] {
        let usual = SimSwapConfig::new(SimSwapFlow::ClientCredentials);
        let route = sandbox.route(SimSwapConfig { operations, ..usual });
        assert_eq!(query_sim_history(&route, "00", 540_000).await.0, expected);
    }
}

#[tokio::test]
async fn simulated_faults_map_to_error_codes() {
    let (server, response) = (ErrorCode::MnoServerError, ErrorCode::MnoResponseError);
    for (endpoint, fault, expected) in [
        (Endpoint::Discovery, EndpointFault::new().wrong_issuer(), response),
        (Endpoint::BackchannelAuthorize, EndpointFault::new().garbled(), response),
        (Endpoint::BackchannelAuthorize, EndpointFault::new().status(StatusCode::UNAUTHORIZED), server),
        (Endpoint::Token, EndpointFault::new().response_lost(), server),
        (Endpoint::Token, EndpointFault::new().padded_to(100_000), response),
        (Endpoint::RetrieveSimSwapDate, EndpointFault::new().garbled(), response),
        (Endpoint::RetrieveSimSwapDate, EndpointFault::new().connection_dropped(), server),
        (
            Endpoint::RetrieveSimSwapDate,
            EndpointFault::new().status(StatusCode::SERVICE_UNAVAILABLE),
            ErrorCode::MnoTimeout,
        ),
        (
            Endpoint::RetrieveSimSwapDate,
            EndpointFault::new().status(StatusCode::TOO_MANY_REQUESTS).retry_after(60),
            server,
        ),
    ] {
        let sandbox = Sandbox::start(0).await;
        sandbox.operator.set_fault(endpoint, fault.clone());
        let route = sandbox.route(SimSwapConfig::new(SimSwapFlow::Ciba));
        assert_eq!(query_sim_history(&route, "00", 60).await.0, Err(expected), "{endpoint:?} {fault:?}");
    }
    let sandbox = Sandbox::start(0).await;
    let route = sandbox.route(SimSwapConfig::new(SimSwapFlow::ClientCredentials));
    sandbox.operator.set_fault_for_next(1, Endpoint::RetrieveSimSwapDate, EndpointFault::new().response_lost());
    assert!(query_sim_history(&route, "00", 60).await.0.is_ok(), "a lost response is retried");
    sandbox.operator.set_fault_for_next(
        1,
        Endpoint::RetrieveSimSwapDate,
        EndpointFault::new().status(StatusCode::UNAUTHORIZED),
    );
    assert!(query_sim_history(&route, "00", 60).await.0.is_ok(), "a rejected token is replaced");
    assert_eq!(sandbox.operator.request_count(Endpoint::Token), 2);
}
