//! How the way to an operator is, for whoever runs the deployment.

use std::sync::Arc;

use ringtrue_engine::ports::{Breaker, BreakerPosition, Condition, ConnectorReport, Reporting, Signs};

use super::{BreakerState, Camara};

impl Reporting for Camara {
    fn report(&self) -> ConnectorReport {
        let of_devices = self.sends_devices().then(|| breaker("devices", self.state(), self.breaker.calls()));
        let of_sim_cards =
            self.serves_sim_swap().then(|| breaker("SIM cards", self.sim_swap_state(), self.sim_swap_breaker.calls()));
        let breakers: Vec<Breaker> = of_devices.into_iter().chain(of_sim_cards).collect();
        let signs = self.signs.read();
        let count =
            |wanted: fn(&BreakerPosition) -> bool| breakers.iter().filter(|breaker| wanted(&breaker.position)).count();
        let condition = match count(|position| *position == BreakerPosition::Closed) {
            closed if closed == breakers.len() && signs == Signs::default() => Condition::Waiting,
            closed if closed == breakers.len() => Condition::Up,
            0 if count(|position| matches!(position, BreakerPosition::HalfOpen)) == 0 => Condition::Down,
            _ => Condition::Impaired,
        };
        ConnectorReport {
            name: Arc::clone(&self.config.name),
            kind: "CAMARA",
            mode: self.config.mode,
            condition,
            networks: self.config.networks.clone(),
            receivers: vec![],
            links: None,
            breakers,
            counts: None,
            signs,
        }
    }
}

fn breaker(of: &'static str, state: BreakerState, calls: Vec<(&'static str, u64)>) -> Breaker {
    let position = match state {
        BreakerState::Closed => BreakerPosition::Closed,
        BreakerState::Open { until, .. } => BreakerPosition::Open { until },
        BreakerState::HalfOpen => BreakerPosition::HalfOpen,
    };
    Breaker { of, position, calls }
}
