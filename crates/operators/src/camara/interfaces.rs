//! Where the operator's interfaces are: their URLs, put together once.

use url::Url;

use super::{CamaraConfig, SimSwapOperation};

pub struct Interfaces {
    pub verify: Url,
    pub device_phone_number: Url,
    retrieve_date: Option<Url>,
    check: Option<Url>,
}

impl Interfaces {
    /// `None`: what is configured makes no URL.
    pub fn new(config: &CamaraConfig) -> Option<Self> {
        let url = |path: &str, operation: &str| {
            let (root, path) = (config.api_root.as_str().trim_end_matches('/'), path.trim_end_matches('/'));
            Url::parse(&format!("{root}{path}/{operation}")).ok()
        };
        let sim_swap = |operation: &str| config.sim_swap.as_ref().and_then(|sim_swap| url(&sim_swap.path, operation));
        Some(Interfaces {
            verify: url(&config.number_verification_path, "verify")?,
            device_phone_number: url(&config.number_verification_path, "device-phone-number")?,
            retrieve_date: sim_swap("retrieve-date"),
            check: sim_swap("check"),
        })
    }

    /// `None`: the operator is not asked about SIM cards.
    pub fn sim_swap(&self, operation: SimSwapOperation) -> Option<&Url> {
        match operation {
            SimSwapOperation::RetrieveDate => self.retrieve_date.as_ref(),
            SimSwapOperation::Check => self.check.as_ref(),
        }
    }
}
