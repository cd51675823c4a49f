//! Port for connectors to operators that report SIM changes.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    sim_swap::{SimHistory, SimSwapPeriod},
    tenancy::ProjectId,
};
use tokio::time::Instant;

/// A request for the SIM history of a number.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("SimSwapRequest({check})")]
pub struct SimSwapRequest<'a> {
    pub check: CheckId,
    /// The project of the check. Each project has its own simulated SIMs.
    pub project: ProjectId,
    pub number: &'a Msisdn,
    pub period: SimSwapPeriod,
    pub now: Timestamp,
    /// When the caller stops waiting and drops the request.
    pub deadline: Instant,
}

/// A connector to operators that report SIM changes.
#[async_trait]
pub trait SimSwapConnector: fmt::Debug + Send + Sync {
    /// Name of the connector in the configuration.
    fn name(&self) -> &str;

    /// Whether requests currently reach the operator. `true` if the connector cannot tell.
    fn is_reachable(&self) -> bool {
        true
    }

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode>;
}
