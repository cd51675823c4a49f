//! Status of the connector, for the console and metrics.

use std::sync::Arc;

use ringtrue_engine::ports::{
    BreakerPosition, BreakerStatus, ConnectorHealth, ConnectorState, ConnectorStatus, MonitoredConnector,
};

use super::{BreakerState, Camara};

impl MonitoredConnector for Camara {
    fn connector_status(&self) -> ConnectorStatus {
        let number_verification = self
            .supports_number_verification()
            .then(|| breaker("devices", self.breaker_state(), self.breaker.call_counts()));
        let sim_swap = self
            .supports_sim_swap()
            .then(|| breaker("SIM cards", self.sim_swap_breaker_state(), self.sim_swap_breaker.call_counts()));
        let breakers: Vec<BreakerStatus> = number_verification.into_iter().chain(sim_swap).collect();
        let health = self.health.snapshot();
        let count = |predicate: fn(&BreakerPosition) -> bool| {
            breakers.iter().filter(|breaker| predicate(&breaker.position)).count()
        };
        let state = match count(|position| *position == BreakerPosition::Closed) {
            closed if closed == breakers.len() && health == ConnectorHealth::default() => ConnectorState::Idle,
            closed if closed == breakers.len() => ConnectorState::Up,
            0 if count(|position| matches!(position, BreakerPosition::HalfOpen)) == 0 => ConnectorState::Down,
            _ => ConnectorState::Degraded,
        };
        ConnectorStatus {
            name: Arc::clone(&self.config.name),
            kind: "CAMARA",
            mode: self.config.mode,
            state,
            networks: self.config.networks.clone(),
            receivers: vec![],
            links: None,
            breakers,
            counts: None,
            health,
        }
    }
}

fn breaker(of: &'static str, state: BreakerState, calls: Vec<(&'static str, u64)>) -> BreakerStatus {
    let position = match state {
        BreakerState::Closed => BreakerPosition::Closed,
        BreakerState::Open { until, .. } => BreakerPosition::Open { until },
        BreakerState::HalfOpen => BreakerPosition::HalfOpen,
    };
    BreakerStatus { operation: of, position, calls }
}
