//! What is to be known of an operator to ask it about SIM cards.

use jiff::SignedDuration;

use crate::{authentication::Audience, jwt::SigningKey};

#[derive(Clone, Debug)]
pub struct SimSwapConfig {
    pub flow: SimSwapFlow,
    /// Where under the API root SIM Swap is, and so which version it is.
    pub path: String,
    /// What the operator lets us ask: the first first, the others where that one cannot say.
    pub operations: Vec<SimSwapOperation>,
    pub retrieve_date_scope: String,
    pub check_scope: String,
    /// For how long a SIM has not changed of which the operator knows no change, and does not say how far back it looks.
    pub assumed_window: Option<SignedDuration>,
}

impl SimSwapConfig {
    /// With what the CAMARA profile asks for.
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

    /// What we ask to be allowed.
    pub(super) fn scope(&self, operation: SimSwapOperation) -> &str {
        match operation {
            SimSwapOperation::RetrieveDate => &self.retrieve_date_scope,
            SimSwapOperation::Check => &self.check_scope,
        }
    }
}

/// How we come by a token. Which one it is, is agreed on with the operator, and follows from the law of its country.
#[derive(Clone, Debug)]
pub enum SimSwapFlow {
    /// A token of ours for all numbers, which is kept. The question says which number is meant.
    ClientCredentials,
    /// A token for each number, which the operator gives once it knows that it may (CIBA, by polling).
    Ciba,
    /// A token for each number, for our signature (RFC 7523).
    JwtBearer { key: SigningKey, audience: Audience },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimSwapOperation {
    /// When the SIM was changed.
    RetrieveDate,
    /// Whether it was, within a time.
    Check,
}
