//! Eligibility: which products are available to an end-user, given a number or an IP address.
//!
//! It is computed for each request from the connectors' capabilities and the project's permissions. Nothing is stored.

use std::{net::IpAddr, sync::Arc};

use ringtrue_domain::{
    eligibility::EligibilityGate,
    network::NetworkId,
    phone::{Country, InvalidPhoneNumber, Msisdn},
    product::Product,
    tenancy::{Mode, Project},
};

use crate::lookups::{
    networks::{NetworkInfo, dialing_code},
    number_lookup::SourceResult,
};

/// The network of an end-user, and the products that the project can use there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eligibility {
    pub network: ServingNetwork,
    pub products: Vec<Product>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingNetwork {
    /// A configured network. Results share the `Arc` of a network, to avoid copies.
    Configured(Arc<NetworkInfo>),
    /// A network that is not configured. `id` is known only if the lookup returned it, and `country` only if the number
    /// has one.
    Other { id: Option<NetworkId>, country: Option<Country> },
}

#[derive(Debug, thiserror::Error)]
pub enum EligibilityError {
    #[error("{0}")]
    PhoneNumber(#[from] InvalidPhoneNumber),
    #[error("invalid address: expected a plain IPv4 or IPv6 address")]
    Address,
    #[error("no active subscriber has this number")]
    NoSubscriber,
    #[error("no known network for this address")]
    NoNetwork,
    #[error("this address does not belong to a mobile network")]
    NotMobile,
    #[error("number lookup unavailable; try again later")]
    LookupUnavailable,
    #[error("the project is disabled")]
    ProjectDisabled,
}

/// The number or address that an eligibility request is about.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum EligibilitySubject {
    Number(Msisdn),
    /// Debug output omits the address, because it is personal data.
    #[debug("Address(…)")]
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    #[error("invalid phone number: {0}")]
    Number(InvalidPhoneNumber),
    #[error("neither a phone number in E.164 form nor an IP address")]
    Neither,
}

impl EligibilitySubject {
    /// Parses a phone number, which starts with `+`, or an IP address. Errors do not contain the input, because it is
    /// personal data.
    pub fn parse(text: &str, project: Option<&Project>) -> Result<Self, SubjectError> {
        if text.starts_with('+') {
            let mode = project.map_or(Mode::Live, |project| project.mode);
            return Msisdn::parse(text, mode).map(EligibilitySubject::Number).map_err(SubjectError::Number);
        }
        let address: Result<IpAddr, _> = text.parse();
        address.map(|address| EligibilitySubject::Address(address.to_canonical())).map_err(|_| SubjectError::Neither)
    }

    /// Describes the subject for logs and pages, without personal data except the last digits of a number.
    pub fn masked(&self) -> String {
        match self {
            EligibilitySubject::Number(number) => format!("…{}", number.tail()),
            EligibilitySubject::Address(IpAddr::V4(_)) => "an IPv4 address".to_owned(),
            EligibilitySubject::Address(IpAddr::V6(_)) => "an IPv6 address".to_owned(),
        }
    }
}

/// Explains an eligibility result to developers and to those who run the server. The API does not return it.
#[derive(Clone, Debug)]
pub struct EligibilityExplanation {
    /// Results of the queried number lookup sources. Empty for an address, and in a sandbox.
    pub source_results: Vec<SourceResult>,
    pub network: Result<Arc<NetworkInfo>, String>,
    /// Why the network was taken from the number's prefix. `None`: the network comes from a lookup source or an
    /// address.
    pub note: Option<String>,
    pub gates: Vec<(Product, Result<(), EligibilityGate>)>,
}

impl EligibilityExplanation {
    /// Creates the explanation of a request that failed before any source was queried.
    pub fn new_failed(problem: String) -> Self {
        EligibilityExplanation { source_results: vec![], network: Err(problem), note: None, gates: vec![] }
    }

    /// Describes why a product is not available. `gate` is the condition that is not met.
    pub fn describe_gate(gate: EligibilityGate, product: Product, project: Option<&Project>) -> &'static str {
        let is_enabled = project.is_none_or(|project| project.products.contains(&product));
        match gate {
            EligibilityGate::Connectivity => "no connector to this operator, and no receiver for its subscribers",
            EligibilityGate::Authorisation if is_enabled => {
                "the project is not allowed to use this network for this product"
            }
            EligibilityGate::Authorisation => "the product is not enabled for the project",
            EligibilityGate::ProductSupport => "no connector to this operator supports this product",
        }
    }
}

impl ServingNetwork {
    /// Returns the ISO 3166-1 alpha-2 code of the country, or `ZZ` for the simulated operator. `None`: unknown.
    pub fn country_code(&self) -> Option<String> {
        match self {
            ServingNetwork::Configured(network) => Some(network.country.clone()),
            ServingNetwork::Other { country, .. } => country.map(|country| country.to_string()),
        }
    }

    /// Returns the dialling code of the country, without a `+`. `None`: the country is unknown.
    pub fn dialing_code(&self) -> Option<String> {
        match self {
            ServingNetwork::Configured(network) => Some(network.dialing_code.clone()),
            ServingNetwork::Other { country, .. } => country.map(dialing_code),
        }
    }

    pub fn id(&self) -> Option<&NetworkId> {
        match self {
            ServingNetwork::Configured(network) => Some(&network.id),
            ServingNetwork::Other { id, .. } => id.as_ref(),
        }
    }
}
