//! Configuration of SIM Swap.

use jiff::SignedDuration;

use crate::{authentication::Audience, jwt::SigningKey};

#[derive(Clone, Debug)]
pub struct SimSwapConfig {
    pub flow: SimSwapFlow,
    /// Path under the API root; determines the version.
    pub path: String,
    /// Permitted operations, in order of preference.
    pub operations: Vec<SimSwapOperation>,
    pub retrieve_date_scope: String,
    pub check_scope: String,
    /// Assumed history if the operator reports neither a change nor its monitored period.
    pub assumed_window: Option<SignedDuration>,
}

impl SimSwapConfig {
    /// Defaults of the CAMARA profile.
    pub fn new(flow: SimSwapFlow) -> Self {
        SimSwapConfig {
            flow,
            path: "/sim-swap/v2".to_owned(),
            operations: vec![SimSwapOperation::RetrieveDate],
            retrieve_date_scope: "sim-swap:retrieve-date".to_owned(),
            check_scope: "sim-swap:check".to_owned(),
            assumed_window: None,
        }
    }

    pub(super) fn scope(&self, operation: SimSwapOperation) -> &str {
        match operation {
            SimSwapOperation::RetrieveDate => &self.retrieve_date_scope,
            SimSwapOperation::Check => &self.check_scope,
        }
    }
}

/// Token flow, as agreed with the operator; depends on national law.
#[derive(Clone, Debug)]
pub enum SimSwapFlow {
    /// One cached token for all numbers; the request contains the number.
    ClientCredentials,
    /// One token per number, issued after the operator's approval (CIBA, poll mode).
    Ciba,
    /// One token per number, for a signed assertion (RFC 7523).
    JwtBearer { key: SigningKey, audience: Audience },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimSwapOperation {
    /// Returns the date of the last change.
    RetrieveDate,
    /// Returns whether the SIM changed within a period.
    Check,
}
