//! An operator's register of SIM cards that does as a test says: in place of a connector, within the process.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::ErrorCode, network::NetworkId, sandbox::Script, sim_swap::SimHistory};
use ringtrue_engine::{
    networks::SwapRoute,
    ports::{SimSwapQuestion, SimSwapRoute},
};
use tokio::sync::Semaphore;

use crate::world::World;

/// Answers by the last digits of numbers.
#[derive(Debug)]
pub struct SimRegister {
    asked: AtomicUsize,
    /// Taken by every question.
    answers: Semaphore,
}

impl SimRegister {
    fn new() -> Arc<Self> {
        Arc::new(SimRegister { asked: AtomicUsize::new(0), answers: Semaphore::new(Semaphore::MAX_PERMITS) })
    }

    /// The one that sandbox projects ask.
    pub fn simulated(world: &World) -> Arc<Self> {
        let register = SimRegister::new();
        world.node.engine.networks().set_simulated_sim_swap(Arc::clone(&register) as _);
        register
    }

    /// The one of these networks.
    pub fn of(world: &World, networks: &[&str]) -> Arc<Self> {
        let register = SimRegister::new();
        let networks: Vec<NetworkId> = networks.iter().map(|id| id.parse().unwrap()).collect();
        let connector = Arc::clone(&register) as _;
        world.node.engine.networks().set_sim_swap_routes(vec![SwapRoute { networks, connector }]);
        register
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
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
impl SimSwapRoute for SimRegister {
    fn name(&self) -> &'static str {
        "register"
    }

    async fn sim_history(&self, question: SimSwapQuestion<'_>) -> Result<SimHistory, ErrorCode> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answers.acquire().await.expect("open").forget();
        let hours_ago = |hours| Ok(SimHistory::ChangedAt(question.now - SignedDuration::from_hours(hours)));
        match Script::of(question.number.tail()) {
            Script::OperatorFault => Err(ErrorCode::MnoServerError),
            Script::OperatorTimeout => Err(ErrorCode::MnoTimeout),
            Script::Silence => Ok(SimHistory::NoChangeFor(question.period.duration())),
            Script::NoSecureSna | Script::Even => hours_ago(24 * 730),
            Script::Odd => hours_ago(20),
            script => panic!("nobody asks about {script:?}"),
        }
    }
}
