//! URLs of the operator's APIs.

use url::Url;

use super::{CamaraConfig, SimSwapOperation};

pub struct ApiUrls {
    pub verify: Url,
    pub device_phone_number: Url,
    sim_swap_retrieve_date: Option<Url>,
    sim_swap_check: Option<Url>,
}

impl ApiUrls {
    /// `None`: a configured path yields no valid URL.
    pub fn new(config: &CamaraConfig) -> Option<Self> {
        let url = |path: &str, operation: &str| {
            let (root, path) = (config.api_root.as_str().trim_end_matches('/'), path.trim_end_matches('/'));
            Url::parse(&format!("{root}{path}/{operation}")).ok()
        };
        let sim_swap = |operation: &str| config.sim_swap.as_ref().and_then(|sim_swap| url(&sim_swap.path, operation));
        Some(ApiUrls {
            verify: url(&config.number_verification_path, "verify")?,
            device_phone_number: url(&config.number_verification_path, "device-phone-number")?,
            sim_swap_retrieve_date: sim_swap("retrieve-date"),
            sim_swap_check: sim_swap("check"),
        })
    }

    /// `None`: SIM Swap is not configured.
    pub fn sim_swap(&self, operation: SimSwapOperation) -> Option<&Url> {
        match operation {
            SimSwapOperation::RetrieveDate => self.sim_swap_retrieve_date.as_ref(),
            SimSwapOperation::Check => self.sim_swap_check.as_ref(),
        }
    }
}
