//! Whom to ask which network serves a number, and how operators are asked about its SIM.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
    phone::Msisdn,
    sim_swap::{Period, SimHistory},
    tenancy::ProjectId,
};
use tokio::time::Instant;

/// What a source knows of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The network that serves it now, wherever it was ported from.
    Network(NetworkId),
    /// The source is sure that nobody has this number. A phone that is switched off is not that.
    NoSubscriber,
    /// It is in service on a network that the source names by a code that is in no table: not the network that its
    /// prefix was given to. Another source may name it by its id.
    OtherNetwork,
    /// The source has nothing on it: another one may.
    NoData,
}

/// Why a source did not answer. Another one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SourceFault {
    #[error("no answer in time")]
    Timeout,
    #[error("cannot be reached")]
    Unreachable,
    #[error("refuses to answer: credentials, quota, or its own fault")]
    Refused,
    #[error("the answer makes no sense")]
    Nonsense,
}

/// A source of which network serves a number: ENUM, an HLR look-up, a Telco Finder.
///
/// What went wrong in detail is the source's to log, without the number.
#[async_trait]
pub trait NumberSource: fmt::Debug + Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    async fn resolve(&self, number: &Msisdn) -> Result<Resolved, SourceFault>;
}

/// A question about a number's SIM.
#[derive(Clone, Copy)]
pub struct SimSwapQuestion<'a> {
    pub check: CheckId,
    /// Who asks: simulated SIMs are each project's own.
    pub project: ProjectId,
    pub number: &'a Msisdn,
    /// How far back a change matters.
    pub period: Period,
    pub now: Timestamp,
    /// How long whoever asks waits. Then the question is dropped, and was asked in vain.
    pub until: Instant,
}

impl fmt::Debug for SimSwapQuestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimSwapQuestion").field("check", &self.check).finish_non_exhaustive()
    }
}

/// A connector to operators that can tell a SIM's history.
#[async_trait]
pub trait SimSwapRoute: fmt::Debug + Send + Sync {
    /// The connector's name in the configuration.
    fn name(&self) -> &str;

    async fn sim_history(&self, question: SimSwapQuestion<'_>) -> Result<SimHistory, ErrorCode>;
}
