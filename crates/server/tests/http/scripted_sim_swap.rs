//! A scripted SIM Swap operator in place of a connector, within the process.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::ErrorCode, network::NetworkId, sandbox::SandboxScript, sim_swap::SimHistory};
use ringtrue_engine::{
    networks::SimSwapNetworkRoute,
    ports::{SimSwapConnector, SimSwapRequest},
};
use tokio::sync::Semaphore;

use crate::world::World;

/// Responds according to the last digits of numbers.
#[derive(Debug)]
pub struct ScriptedSimSwap {
    asked: AtomicUsize,
    /// Each request takes a permit.
    responses: Semaphore,
}

impl ScriptedSimSwap {
    fn new() -> Arc<Self> {
        Arc::new(ScriptedSimSwap { asked: AtomicUsize::new(0), responses: Semaphore::new(Semaphore::MAX_PERMITS) })
    }

    /// Installs it for sandbox projects.
    pub fn simulated(world: &World) -> Arc<Self> {
        let register = ScriptedSimSwap::new();
        world.node.engine.networks().set_simulated_sim_swap(Arc::clone(&register) as _);
        register
    }

    /// Installs it for these networks.
    pub fn of(world: &World, networks: &[&str]) -> Arc<Self> {
        let register = ScriptedSimSwap::new();
        let networks: Vec<NetworkId> = networks.iter().map(|id| id.parse().unwrap()).collect();
        let connector = Arc::clone(&register) as _;
        world.node.engine.networks().set_sim_swap_routes(vec![SimSwapNetworkRoute { networks, connector }]);
        register
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
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
impl SimSwapConnector for ScriptedSimSwap {
    fn name(&self) -> &'static str {
        "register"
    }

    async fn sim_history(&self, question: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.responses.acquire().await.expect("open").forget();
        let hours_ago = |hours| Ok(SimHistory::ChangedAt(question.now - SignedDuration::from_hours(hours)));
        match SandboxScript::of(question.number.tail()) {
            SandboxScript::OperatorFault => Err(ErrorCode::MnoServerError),
            SandboxScript::OperatorTimeout => Err(ErrorCode::MnoTimeout),
            SandboxScript::Silence => Ok(SimHistory::NoChangeFor(question.period.duration())),
            SandboxScript::NoSecureSna | SandboxScript::Even => hours_ago(24 * 730),
            SandboxScript::Odd => hours_ago(20),
            script => panic!("unexpected script {script:?}"),
        }
    }
}
