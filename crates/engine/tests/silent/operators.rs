//! Test operators that return scripted results and record their calls.

use std::{collections::HashMap, fmt, net::IpAddr};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::ports::{
    lookups::{AddressNetwork, AddressNetworkTable},
    silent::{
        AuthorizationRedirect, DeviceQuestion, OperatorAuthorizationRequest, OperatorAuthorizationResponse,
        SilentConnector, SilentOperation, SilentResult,
    },
};

pub const OPERATOR: &str = "https://operator.example/authorize?state=";

/// A connector with scripted results.
pub struct Operator {
    name: &'static str,
    contents: Mutex<OperatorState>,
}

struct OperatorState {
    result: Result<SilentResult, ErrorCode>,
    concurrent_work: Option<BoxFuture<'static, ()>>,
    calls: RecordedCalls,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedCalls {
    /// The operation and the simulated SIM of each authorization request.
    pub requests: Vec<(RecordedOperation, Option<String>)>,
    /// The operation of each authorization response, and the device's address before the redirect.
    pub responses: Vec<(RecordedOperation, IpAddr)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedOperation {
    Verify(String),
    Discover,
}

impl From<SilentOperation<'_>> for RecordedOperation {
    fn from(operation: SilentOperation<'_>) -> Self {
        match operation {
            SilentOperation::VerifyNumber(number) => RecordedOperation::Verify(number.as_str().to_owned()),
            SilentOperation::DiscoverNumber | SilentOperation::AuthenticateDevice => RecordedOperation::Discover,
        }
    }
}

impl Operator {
    pub fn new(name: &'static str) -> Self {
        let contents = OperatorState {
            result: Ok(SilentResult::Match(true)),
            concurrent_work: None,
            calls: RecordedCalls::default(),
        };
        Operator { name, contents: Mutex::new(contents) }
    }

    pub fn set_result(&self, reply: impl Into<Result<SilentResult, ErrorCode>>) {
        self.contents.lock().result = reply.into();
    }

    /// Runs `work` during the next call of the connector, before it returns.
    pub fn run_during_call(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.contents.lock().concurrent_work = Some(Box::pin(work));
    }

    pub fn calls(&self) -> RecordedCalls {
        self.contents.lock().calls.clone()
    }

    async fn run_concurrent_work(&self) {
        let work = self.contents.lock().concurrent_work.take();
        if let Some(work) = work {
            work.await;
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

pub fn number(text: &str) -> SilentResult {
    SilentResult::Number(Msisdn::parse(text, Mode::Sandbox).unwrap())
}

#[async_trait]
impl SilentConnector for Operator {
    fn name(&self) -> &str {
        self.name
    }

    fn supports(&self, product: Product) -> bool {
        matches!(product, Product::SecureSna | Product::Discovery)
    }

    async fn begin_authorization(
        &self,
        request: OperatorAuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode> {
        let OperatorAuthorizationRequest { check, operation, state, simulated_sim, .. } = request;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        assert!(state.len() <= 128 && state.bytes().all(is_plain), "{state}");
        let sim = simulated_sim.map(|sim| sim.as_str().to_owned());
        self.contents.lock().calls.requests.push((operation.into(), sim));
        self.run_concurrent_work().await;
        Ok(AuthorizationRedirect {
            location: format!("{OPERATOR}{state}"),
            connector_data: connector_data(self.name, check.0),
        })
    }

    async fn complete_authorization(
        &self,
        response: OperatorAuthorizationResponse<'_>,
    ) -> Result<SilentResult, ErrorCode> {
        assert_eq!(response.connector_data, connector_data(self.name, response.check.0), "connector data is unchanged");
        let result = {
            let mut contents = self.contents.lock();
            contents.calls.responses.push((response.operation.into(), response.initial_ip));
            contents.result.clone()
        };
        self.run_concurrent_work().await;
        result
    }

    async fn verify_device(&self, _: DeviceQuestion<'_>) -> Result<bool, ErrorCode> {
        Err(ErrorCode::InternalError)
    }
}

/// Returns the data that the connector stores with a redirect: arbitrary bytes, which are neither UTF-8 nor JSON.
fn connector_data(name: &str, check: uuid::Uuid) -> Vec<u8> {
    [&[0, 255, b'"'], name.as_bytes(), check.as_bytes()].concat()
}

#[derive(Debug)]
pub struct Addresses(pub HashMap<IpAddr, AddressNetwork>);

impl AddressNetworkTable for Addresses {
    fn network_of_address(&self, address: IpAddr) -> AddressNetwork {
        self.0.get(&address).cloned().unwrap_or(AddressNetwork::Unknown)
    }
}
