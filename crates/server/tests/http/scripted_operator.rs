//! An operator that does as a test says: in place of a connector, within the process.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, product::Product, sandbox::DEFAULT_SIM, tenancy::Mode};
use ringtrue_engine::ports::{Arrival, Departure, Journey, Question, Reply, SilentRoute};
use tokio::sync::Semaphore;

use crate::world::World;

pub const NAME: &str = "scripted";
/// Where devices are sent by itself.
pub const AUTHORIZE: &str = "https://operator.example/authorize";
/// What an operator sends devices back with.
pub const GOOD_CODE: &str = "good-code-of-an-operator";

/// Says what is true of the device's SIM, unless it is told otherwise.
#[derive(Debug)]
pub struct ScriptedOperator {
    authorize: String,
    departures: Mutex<VecDeque<ErrorCode>>,
    arrivals: Mutex<VecDeque<ErrorCode>>,
    /// What devices brought, in their order.
    seen: Mutex<Vec<Seen>>,
    /// Taken by every arrival.
    answers: Semaphore,
}

/// What a connector gets to see of a device that is back.
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

    /// One that is reached at this URL.
    pub fn at(world: &World, authorize: &str) -> Arc<Self> {
        let operator = Arc::new(ScriptedOperator {
            authorize: authorize.to_owned(),
            departures: Mutex::default(),
            arrivals: Mutex::default(),
            seen: Mutex::default(),
            answers: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        world.node.engine.networks().set_simulated_route(Arc::clone(&operator) as _);
        operator
    }

    /// The next device is not let in.
    pub fn refuse(&self, code: ErrorCode) {
        self.departures.lock().unwrap().push_back(code);
    }

    /// The next device that comes back is not known.
    pub fn fail(&self, code: ErrorCode) {
        self.arrivals.lock().unwrap().push_back(code);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// No answers from now on.
    pub fn fall_silent(&self) {
        self.answers.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Answers those who wait.
    pub fn speak(&self) {
        self.answers.add_permits(Semaphore::MAX_PERMITS);
    }
}

#[async_trait]
impl SilentRoute for ScriptedOperator {
    fn name(&self) -> &str {
        NAME
    }

    fn serves(&self, product: Product) -> bool {
        matches!(product, Product::SecureSna | Product::Discovery)
    }

    async fn depart(&self, departure: Departure<'_>) -> Result<Journey, ErrorCode> {
        if let Some(code) = self.departures.lock().unwrap().pop_front() {
            return Err(code);
        }
        let sim = departure.sim.map_or(DEFAULT_SIM, Msisdn::as_str);
        let location = format!("{}?state={}", self.authorize, departure.ticket);
        Ok(Journey { location, memory: sim.as_bytes().to_vec() })
    }

    async fn arrive(&self, arrival: Arrival<'_>) -> Result<Reply, ErrorCode> {
        self.seen.lock().unwrap().push(Seen {
            peer: arrival.peer,
            device: arrival.device,
            departed_from: arrival.departed_from,
            query: arrival.query.to_vec(),
            headers: arrival.headers.to_vec(),
        });
        self.answers.acquire().await.expect("open").forget();
        if let Some(code) = self.arrivals.lock().unwrap().pop_front() {
            return Err(code);
        }
        let get = |wanted: &str| arrival.query.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let is_enriched = arrival.headers.iter().any(|(name, _)| name == "x-msisdn");
        if get("code") != Some(GOOD_CODE) && !is_enriched {
            return Err(ErrorCode::MnoUserNotFound);
        }
        let sim = Msisdn::parse(std::str::from_utf8(arrival.memory).unwrap(), Mode::Sandbox).unwrap();
        Ok(match arrival.question {
            Question::IsNumber(claimed) => Reply::Match(*claimed == sim),
            Question::WhichNumber => Reply::Number(sim),
        })
    }
}
