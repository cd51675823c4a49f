use std::{collections::HashMap, io, net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    clock::{Clock, ManualClock},
    entropy::SystemEntropy,
    silent::{
        AuthorizationRedirect, OperatorAuthorizationRequest, OperatorAuthorizationResponse, SilentConnector,
        SilentOperation, SilentResult,
    },
};
use ringtrue_operators::{
    camara::{Camara, CamaraConfig, ClientAuthentication, Provider},
    client::{Client, ClientSettings},
    outbound::Resolver,
};
use url::Url;

use super::fake_operator::FakeOperator;

pub const STATE: &str = "state-of-the-device_0123456789";
pub const REDIRECT_URI: &str = "https://ringtrue.example/southbound/camara/op/callback";

pub fn number() -> Msisdn {
    Msisdn::parse("+447700900123", Mode::Live).unwrap()
}

pub fn project() -> ProjectId {
    "0199d2c4-7a5e-7c3a-9d2f-1b2c3d4e5f61".parse().unwrap()
}

pub fn check() -> CheckId {
    "0199d2c4-7a5e-7c3a-9d2f-1b2c3d4e5f60".parse().unwrap()
}

pub struct Fixture {
    pub operator: FakeOperator,
    pub camara: Camara,
    pub clock: Arc<ManualClock>,
}

impl Fixture {
    pub async fn start() -> Self {
        Fixture::with(|_, _| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut CamaraConfig, &FakeOperator)) -> Self {
        Fixture::with_client(&Arc::new(short_timeout_client()), change).await
    }

    /// Starts an operator and a connector that uses this client. Tests can share a client, because creating one is
    /// slow: it reads all system certificates.
    pub async fn with_client(client: &Arc<Client>, change: impl FnOnce(&mut CamaraConfig, &FakeOperator)) -> Self {
        let operator = FakeOperator::start().await;
        let mut config = CamaraConfig::new(
            "op",
            Provider::Issuer(operator.issuer()),
            operator.url("/"),
            "client id:1",
            ClientAuthentication::SecretPost("secret of ours".into()),
            Url::parse(REDIRECT_URI).unwrap(),
        );
        change(&mut config, &operator);
        let clock = Arc::new(ManualClock::at("2026-11-15T09:00:00Z".parse().unwrap()));
        let camara = Camara::new(config, client.clone(), clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
        Fixture { operator, camara, clock }
    }

    pub fn advance(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub async fn begin(&self, operation: SilentOperation<'_>) -> Result<AuthorizationRedirect, ErrorCode> {
        let request = OperatorAuthorizationRequest {
            check: check(),
            operation,
            state: STATE,
            simulated_sim: None,
            device_ip: IpAddr::from([192, 0, 2, 1]),
            now: self.clock.now(),
        };
        self.camara.begin_authorization(request).await
    }

    pub async fn complete(
        &self,
        operation: SilentOperation<'_>,
        redirect: &AuthorizationRedirect,
        query: &[(&str, &str)],
    ) -> Result<SilentResult, ErrorCode> {
        let query: Vec<_> = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let device = IpAddr::from([192, 0, 2, 1]);
        let response = OperatorAuthorizationResponse {
            check: check(),
            operation,
            connector_data: &redirect.connector_data,
            initial_ip: device,
            peer: (device, 40_000).into(),
            device_ip: device,
            query: &query,
            headers: &[],
            now: self.clock.now(),
        };
        self.camara.complete_authorization(response).await
    }

    /// Runs a check from the redirect to the result. The device returns with a code.
    pub async fn run_check(&self, operation: SilentOperation<'_>) -> Result<SilentResult, ErrorCode> {
        let redirect = self.begin(operation).await?;
        self.complete(operation, &redirect, &[("state", STATE), ("code", "code-of-the-device")]).await
    }

    pub async fn verify(&self) -> Result<SilentResult, ErrorCode> {
        self.run_check(SilentOperation::VerifyNumber(&number())).await
    }
}

/// Returns the query parameters of an authorization request.
pub fn query_parameters(redirect: &AuthorizationRedirect) -> HashMap<String, String> {
    let url = Url::parse(&redirect.location).unwrap();
    let pairs: Vec<_> = url.query_pairs().into_owned().collect();
    let count = pairs.len();
    let query_parameters: HashMap<_, _> = pairs.into_iter().collect();
    assert_eq!(query_parameters.len(), count, "no repeated parameters");
    query_parameters
}

/// Creates a client whose timeouts are short enough to wait for in a test.
pub fn short_timeout_client() -> Client {
    let timeout = Duration::from_millis(700);
    let settings = ClientSettings { connect_timeout: timeout, timeout, ..ClientSettings::default() };
    Client::with_resolver(&settings, Arc::new(Names)).unwrap()
}

/// Resolver with one missing, one empty and one hanging name. All other names resolve to 127.0.0.1.
#[derive(Debug)]
pub struct Names;

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "missing.example" => Err(io::Error::other("no such name")),
            "empty.example" => Ok(vec![]),
            "silent.example" => std::future::pending().await,
            _ => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
        }
    }
}
