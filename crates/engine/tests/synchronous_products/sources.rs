//! Test operators and lookup sources that return scripted results and record their requests.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_domain::{
    lifecycle::ErrorCode,
    phone::Msisdn,
    product::Product,
    sim_swap::{SimHistory, SimSwapPeriod},
};
use ringtrue_engine::ports::{
    lookups::{AddressNetwork, AddressNetworkTable, LookupError, LookupResult, LookupSource},
    silent::{
        AuthorizationRedirect, DeviceQuestion, OperatorAuthorizationRequest, OperatorAuthorizationResponse,
        SilentConnector, SilentResult,
    },
    sim_swap::{SimSwapConnector, SimSwapRequest},
};
use ringtrue_sandbox::operator_access::NumberBehaviour;
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug)]
pub enum Behavior {
    /// The result depends on the last digits of the number, as in the sandbox.
    BySuffix,
    Fixed(Result<SimHistory, ErrorCode>),
    Hang,
}

/// Number, period and time of a request.
pub type RecordedRequest = (String, SimSwapPeriod, Timestamp);

#[derive(Debug)]
pub struct ScriptedOperator {
    behavior: Mutex<Behavior>,
    requests: Mutex<Vec<RecordedRequest>>,
    /// Notified when a request arrives.
    pub called: Notify,
}

impl ScriptedOperator {
    pub fn new(behavior: Behavior) -> Arc<Self> {
        Arc::new(ScriptedOperator { behavior: Mutex::new(behavior), requests: Mutex::default(), called: Notify::new() })
    }

    pub fn set_behavior(&self, behavior: Behavior) {
        *self.behavior.lock() = behavior;
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().clone()
    }
}

#[async_trait]
impl SimSwapConnector for ScriptedOperator {
    fn name(&self) -> &'static str {
        "operator"
    }

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
        let recorded = (request.number.as_str().to_owned(), request.period, request.now);
        self.requests.lock().push(recorded);
        self.called.notify_one();
        let behavior = *self.behavior.lock();
        match behavior {
            Behavior::Fixed(result) => result,
            Behavior::BySuffix => history_by_suffix(request),
            Behavior::Hang => std::future::pending().await,
        }
    }
}

fn history_by_suffix(request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
    let hours_ago = |hours| Ok(SimHistory::ChangedAt(request.now - SignedDuration::from_hours(hours)));
    match NumberBehaviour::of(request.number.tail()) {
        NumberBehaviour::OperatorFault => Err(ErrorCode::MnoServerError),
        NumberBehaviour::OperatorTimeout => Err(ErrorCode::MnoTimeout),
        NumberBehaviour::Silence => Ok(SimHistory::NoChangeFor(request.period.duration())),
        NumberBehaviour::NoSecureSna | NumberBehaviour::Even => hours_ago(24 * 730),
        NumberBehaviour::Odd => hours_ago(20),
        script => panic!("unexpected script {script:?}"),
    }
}

#[derive(Debug, Default)]
pub struct ScriptedSource {
    pub known: Mutex<HashMap<&'static str, Result<LookupResult, LookupError>>>,
}

impl ScriptedSource {
    pub fn set_result(&self, number: &'static str, result: Result<LookupResult, LookupError>) {
        self.known.lock().insert(number, result);
    }
}

#[async_trait]
impl LookupSource for ScriptedSource {
    fn name(&self) -> &'static str {
        "hlr"
    }

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError> {
        self.known.lock().get(number.as_str()).cloned().unwrap_or(Ok(LookupResult::NoData))
    }
}

#[derive(Debug)]
pub struct Addresses(pub HashMap<IpAddr, AddressNetwork>);

impl AddressNetworkTable for Addresses {
    fn network_of_address(&self, address: IpAddr) -> AddressNetwork {
        self.0.get(&address.to_canonical()).cloned().unwrap_or(AddressNetwork::Unknown)
    }
}

/// A connector that supports these products. The tests never call it.
#[derive(Debug)]
pub struct UnusedConnector(pub &'static [Product]);

#[async_trait]
impl SilentConnector for UnusedConnector {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn supports(&self, product: Product) -> bool {
        self.0.contains(&product)
    }

    async fn begin_authorization(
        &self,
        _: OperatorAuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode> {
        Err(ErrorCode::InternalError)
    }

    async fn complete_authorization(&self, _: OperatorAuthorizationResponse<'_>) -> Result<SilentResult, ErrorCode> {
        Err(ErrorCode::InternalError)
    }

    async fn verify_device(&self, _: DeviceQuestion<'_>) -> Result<bool, ErrorCode> {
        Err(ErrorCode::InternalError)
    }
}
