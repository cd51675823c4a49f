//! A scripted operator in place of a connector, within the process.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, product::Product, sandbox::DEFAULT_SIM, tenancy::Mode};
use ringtrue_engine::ports::{
    AuthorizationRedirect, AuthorizationRequest, AuthorizationResponse, SilentConnector, SilentOperation, SilentResult,
};
use tokio::sync::Semaphore;

use crate::world::World;

pub const NAME: &str = "scripted";
/// Default authorization endpoint.
pub const AUTHORIZE: &str = "https://operator.example/authorize";
/// Authorization code that the operator accepts.
pub const GOOD_CODE: &str = "good-code-of-an-operator";

/// Responds according to the device's SIM unless scripted otherwise.
#[derive(Debug)]
pub struct ScriptedOperator {
    authorize: String,
    departures: Mutex<VecDeque<ErrorCode>>,
    arrivals: Mutex<VecDeque<ErrorCode>>,
    /// Requests of returning devices, in order.
    seen: Mutex<Vec<Seen>>,
    /// Each returning device takes a permit.
    responses: Semaphore,
}

/// Data of a returning device as passed to the connector.
#[derive(Clone, Debug)]
pub struct Seen {
    pub peer: SocketAddr,
    pub device: IpAddr,
    pub departed_from: IpAddr,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl ScriptedOperator {
    pub fn of(world: &World) -> Arc<Self> {
        ScriptedOperator::at(world, AUTHORIZE)
    }

    /// With this authorization endpoint.
    pub fn at(world: &World, authorize: &str) -> Arc<Self> {
        let operator = Arc::new(ScriptedOperator {
            authorize: authorize.to_owned(),
            departures: Mutex::default(),
            arrivals: Mutex::default(),
            seen: Mutex::default(),
            responses: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        world.node.engine.networks().set_simulated_route(Arc::clone(&operator) as _);
        operator
    }

    /// Rejects the next authorization request.
    pub fn refuse(&self, code: ErrorCode) {
        self.departures.lock().unwrap().push_back(code);
    }

    /// Fails the next returning device.
    pub fn fail(&self, code: ErrorCode) {
        self.arrivals.lock().unwrap().push_back(code);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Stops responding.
    pub fn stop_responding(&self) {
        self.responses.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Responds to pending and later requests.
    pub fn resume_responding(&self) {
        self.responses.add_permits(Semaphore::MAX_PERMITS);
    }
}

#[async_trait]
impl SilentConnector for ScriptedOperator {
    fn name(&self) -> &str {
        NAME
    }

    fn supports(&self, product: Product) -> bool {
        matches!(product, Product::SecureSna | Product::Discovery)
    }

    async fn begin_authorization(
        &self,
        departure: AuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode> {
        if let Some(code) = self.departures.lock().unwrap().pop_front() {
            return Err(code);
        }
        let sim = departure.simulated_sim.map_or(DEFAULT_SIM, Msisdn::as_str);
        let location = format!("{}?state={}", self.authorize, departure.state);
        Ok(AuthorizationRedirect { location, connector_data: sim.as_bytes().to_vec() })
    }

    async fn complete_authorization(&self, arrival: AuthorizationResponse<'_>) -> Result<SilentResult, ErrorCode> {
        self.seen.lock().unwrap().push(Seen {
            peer: arrival.peer,
            device: arrival.device_ip,
            departed_from: arrival.initial_ip,
            query: arrival.query.to_vec(),
            headers: arrival.headers.to_vec(),
        });
        self.responses.acquire().await.expect("open").forget();
        if let Some(code) = self.arrivals.lock().unwrap().pop_front() {
            return Err(code);
        }
        let get = |wanted: &str| arrival.query.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let is_enriched = arrival.headers.iter().any(|(name, _)| name == "x-msisdn");
        if get("code") != Some(GOOD_CODE) && !is_enriched {
            return Err(ErrorCode::MnoUserNotFound);
        }
        let sim = Msisdn::parse(std::str::from_utf8(arrival.connector_data).unwrap(), Mode::Sandbox).unwrap();
        Ok(match arrival.operation {
            SilentOperation::VerifyNumber(claimed) => SilentResult::Match(*claimed == sim),
            SilentOperation::DiscoverNumber => SilentResult::Number(sim),
        })
    }
}
