//! Lookups by phone number: the serving network, and the SIM history for SIM Swap.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
    phone::Msisdn,
    sim_swap::{SimHistory, SimSwapPeriod},
    tenancy::ProjectId,
};
use tokio::time::Instant;

/// The network that serves a number, according to one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The current network, after any porting.
    Network(NetworkId),
    /// The number is unassigned. A phone that is switched off is not.
    NoSubscriber,
    /// The number is in service on a network whose code is unknown to this deployment, and which is not the network
    /// of its prefix. Another source may identify it.
    OtherNetwork,
    /// The source has no data about the number; the next source is tried.
    NoData,
}

/// A failed lookup; the next source is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LookupError {
    #[error("no response within the timeout")]
    Timeout,
    #[error("unreachable")]
    Unreachable,
    #[error("request refused: check credentials and quota")]
    Refused,
    #[error("invalid response")]
    InvalidResponse,
}

/// A service that finds the network of a number: ENUM, HLR lookup, Telco Finder.
///
/// Sources log the details of failures, without the number.
#[async_trait]
pub trait LookupSource: fmt::Debug + Send + Sync {
    /// Name in the configuration.
    fn name(&self) -> &str;

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError>;
}

/// A request for the SIM history of a number.
#[derive(Clone, Copy)]
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

impl fmt::Debug for SimSwapRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimSwapRequest").field("check", &self.check).finish_non_exhaustive()
    }
}

/// A connector to operators that report SIM changes.
#[async_trait]
pub trait SimSwapConnector: fmt::Debug + Send + Sync {
    /// Name in the configuration.
    fn name(&self) -> &str;

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode>;
}
