//! Connectors to operators that report SIM changes.

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
    /// Simulated SIMs belong to one project.
    pub project: ProjectId,
    pub number: &'a Msisdn,
    pub period: SimSwapPeriod,
    pub now: Timestamp,
    /// The caller drops the request at this instant.
    pub deadline: Instant,
}

/// A connector to operators that report SIM changes.
#[async_trait]
pub trait SimSwapConnector: fmt::Debug + Send + Sync {
    /// Name in the configuration.
    fn name(&self) -> &str;

    /// Whether requests currently reach the operator. `true` if the connector cannot tell.
    fn is_reachable(&self) -> bool {
        true
    }

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode>;
}
