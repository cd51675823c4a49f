//! A scripted SIM Swap operator in place of a connector, within the process.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::ErrorCode, network::NetworkId, sim_swap::SimHistory};
use ringtrue_engine::{
    lookups::networks::SimSwapNetworkRoute,
    ports::sim_swap::{SimSwapConnector, SimSwapRequest},
};
use ringtrue_sandbox::operator_access::NumberBehaviour;
use ringtrue_test_support::WAIT_LIMIT;
use tokio::{
    sync::{Semaphore, watch},
    time::timeout,
};

use crate::world::World;

/// Operator that responds according to the last digits of a number.
#[derive(Debug)]
pub struct ScriptedSimSwap {
    request_count: watch::Sender<usize>,
    /// Each response waits for a permit, so tests can stop the operator by removing all permits.
    responses: Semaphore,
}

impl ScriptedSimSwap {
    fn new() -> Arc<Self> {
        Arc::new(ScriptedSimSwap {
            request_count: watch::Sender::default(),
            responses: Semaphore::new(Semaphore::MAX_PERMITS),
        })
    }

    /// Installs the operator for sandbox projects.
    pub fn simulated(world: &World) -> Arc<Self> {
        let operator = ScriptedSimSwap::new();
        world.node.sandbox_access.set_sim_swap_connector(Arc::clone(&operator) as _);
        operator
    }

    /// Installs the operator for these networks.
    pub fn of(world: &World, networks: &[&str]) -> Arc<Self> {
        let operator = ScriptedSimSwap::new();
        let networks: Vec<NetworkId> = networks.iter().map(|id| id.parse().unwrap()).collect();
        let connector = Arc::clone(&operator) as _;
        world.node.engine.networks().set_sim_swap_routes(vec![SimSwapNetworkRoute { networks, connector }]);
        operator
    }

    pub fn request_count(&self) -> usize {
        *self.request_count.borrow()
    }

    /// Waits until this many requests were received in total.
    pub async fn wait_for_requests(&self, count: usize) {
        let mut request_count = self.request_count.subscribe();
        let received =
            timeout(WAIT_LIMIT, request_count.wait_for(|request_count| *request_count >= count)).await.is_ok();
        assert!(received, "the operator is not queried");
    }

    pub fn stop_responding(&self) {
        self.responses.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Responds to pending and later requests.
    pub fn resume_responding(&self) {
        self.responses.add_permits(Semaphore::MAX_PERMITS);
    }
}

#[async_trait]
impl SimSwapConnector for ScriptedSimSwap {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
        self.request_count.send_modify(|request_count| *request_count += 1);
        self.responses.acquire().await.expect("open").forget();
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
}
