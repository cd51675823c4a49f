//! Eligibility: the products available to an end-user, by number or IP address.
//!
//! Availability is computed from the connectors' capabilities and the project's permissions; it is not stored.

use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use ringtrue_domain::{
    eligibility::{EligibilityGate, EligibilityInput, PRODUCTS},
    network::{AllowedNetwork, IpLocation, Network, NetworkId},
    phone::{Country, InvalidPhoneNumber, Msisdn},
    product::Product,
    sandbox::{self, SandboxAddress, SandboxScript},
    tenancy::{Mode, Project},
};

use crate::{
    Engine,
    number_lookup::{LookupUnavailable, NumberResolution, OtherNetwork, SourceResult},
};

/// An end-user's network and the products available there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eligibility {
    pub network: ServingNetwork,
    pub products: Vec<Product>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingNetwork {
    /// All results share one `Arc` per network until the configuration is reloaded.
    Configured(Arc<NetworkInfo>),
    /// A network that is not configured, as far as the number and the look-up describe it.
    Other { id: Option<NetworkId>, country: Option<Country> },
}

/// A network as shown to API clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInfo {
    pub id: NetworkId,
    pub name: String,
    pub aliases: Vec<String>,
    /// ISO 3166-1 alpha-2; `ZZ` for the simulated operator.
    pub country: String,
    /// Without a `+`.
    pub dialing_code: String,
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
    #[error("number look-up unavailable; try again later")]
    LookupUnavailable,
    #[error("the project is disabled")]
    ProjectDisabled,
}

/// End-user of an eligibility request.
#[derive(Clone, PartialEq, Eq)]
pub enum EligibilitySubject {
    Number(Msisdn),
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
    /// Errors do not repeat the input: it is personal data.
    pub fn parse(text: &str, project: Option<&Project>) -> Result<Self, SubjectError> {
        if text.starts_with('+') {
            let mode = project.map_or(Mode::Live, |project| project.mode);
            return Msisdn::parse(text, mode).map(EligibilitySubject::Number).map_err(SubjectError::Number);
        }
        let address: Result<IpAddr, _> = text.parse();
        address.map(|address| EligibilitySubject::Address(address.to_canonical())).map_err(|_| SubjectError::Neither)
    }

    /// The subject for logs and pages.
    pub fn masked(&self) -> String {
        match self {
            EligibilitySubject::Number(number) => format!("…{}", number.tail()),
            EligibilitySubject::Address(IpAddr::V4(_)) => "an IPv4 address".to_owned(),
            EligibilitySubject::Address(IpAddr::V6(_)) => "an IPv6 address".to_owned(),
        }
    }
}

/// Masked: personal data.
impl fmt::Debug for EligibilitySubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EligibilitySubject({})", self.masked())
    }
}

/// Explains an eligibility result to operators and developers. Not part of the API.
#[derive(Clone, Debug)]
pub struct EligibilityExplanation {
    /// Empty for an address, and in a sandbox.
    pub source_results: Vec<SourceResult>,
    pub network: Result<Arc<NetworkInfo>, String>,
    /// Set when the network was taken from the number's prefix.
    pub note: Option<String>,
    pub gates: Vec<(Product, Result<(), EligibilityGate>)>,
}

impl EligibilityExplanation {
    /// Why a gate excludes a product.
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

impl Engine {
    /// Explains the look-up and the gate result of each product. Without a project, authorisation is not checked.
    pub async fn explain_eligibility(
        &self,
        project: Option<&Project>,
        user: &EligibilitySubject,
    ) -> EligibilityExplanation {
        if project.is_some_and(|project| project.disabled) {
            let network = Err(EligibilityError::ProjectDisabled.to_string());
            return EligibilityExplanation { source_results: vec![], network, note: None, gates: vec![] };
        }
        match user {
            EligibilitySubject::Number(number) => self.explain_number(project, number).await,
            EligibilitySubject::Address(address) => self.explain_address(project, *address),
        }
    }

    pub async fn eligibility_of_number(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError> {
        if project.disabled {
            return Err(EligibilityError::ProjectDisabled);
        }
        if project.mode == Mode::Live
            && let Some(NumberResolution::Network(id)) = self.number_lookup().cached(text)
            && let Some(found) = self.eligibility_at(project, &id, None)
        {
            return Ok(found);
        }
        let number = Msisdn::parse(text, project.mode)?;
        if project.mode == Mode::Sandbox {
            return simulate_number(&number).map(|found| found.limited_to(&project.products));
        }
        match self.number_lookup().look_up(&number).await {
            Ok(NumberResolution::Network(id)) => {
                self.eligibility_at(project, &id, Some(&number)).ok_or(EligibilityError::NoSubscriber)
            }
            Ok(NumberResolution::OtherNetwork(OtherNetwork { id, country })) => Ok(other_network(id, country)),
            Ok(NumberResolution::NoSubscriber | NumberResolution::Unknown) => Err(EligibilityError::NoSubscriber),
            Err(LookupUnavailable) => Err(EligibilityError::LookupUnavailable),
        }
    }

    pub fn eligibility_of_address(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError> {
        if project.disabled {
            return Err(EligibilityError::ProjectDisabled);
        }
        let address: IpAddr = text.parse().map_err(|_| EligibilityError::Address)?;
        if project.mode == Mode::Sandbox {
            return simulate_address(address).map(|found| found.limited_to(&project.products));
        }
        match self.networks().locate(address) {
            IpLocation::Mobile(id) => self.eligibility_at(project, &id, None).ok_or(EligibilityError::NoNetwork),
            IpLocation::NotMobile => Err(EligibilityError::NotMobile),
            IpLocation::Unknown => Err(EligibilityError::NoNetwork),
        }
    }

    /// Eligibility at a network. A network that is not configured has no products.
    fn eligibility_at(&self, project: &Project, id: &NetworkId, number: Option<&Msisdn>) -> Option<Eligibility> {
        let directory = self.networks().directory();
        let Some(network) = directory.find_by_any_id(id) else {
            return Some(other_network(Some(id.clone()), number?.country()));
        };
        let supported = self.networks().supported_products(network);
        let products = EligibilityInput::for_project(project, &network.id, &supported).eligible_products();
        Some(Eligibility { network: ServingNetwork::Configured(self.networks().info(network)), products })
    }

    async fn explain_number(&self, project: Option<&Project>, number: &Msisdn) -> EligibilityExplanation {
        if let Some(project) = sandbox_project(project) {
            return explain_simulated(project, simulate_number(number));
        }
        let report = self.number_lookup().look_up_uncached(number).await;
        let note = report.prefix_note();
        let network = match report.resolution {
            Ok(NumberResolution::Network(id)) => self.known_network(&id),
            Ok(NumberResolution::OtherNetwork(OtherNetwork { id: Some(id), .. })) => Err(not_configured(&id)),
            Ok(NumberResolution::OtherNetwork(OtherNetwork { id: None, .. })) => {
                Err("the number is in service on a network that is not configured".to_owned())
            }
            Ok(NumberResolution::NoSubscriber) => Err("no active subscriber has this number".to_owned()),
            Ok(NumberResolution::Unknown) => Err("no source has data about this number".to_owned()),
            Err(problem) => Err(problem.to_string()),
        };
        EligibilityExplanation { note, ..self.build_explanation(project, report.source_results, network) }
    }

    fn explain_address(&self, project: Option<&Project>, address: IpAddr) -> EligibilityExplanation {
        if let Some(project) = sandbox_project(project) {
            return explain_simulated(project, simulate_address(address));
        }
        let network = match self.networks().locate(address) {
            IpLocation::Mobile(id) => self.known_network(&id),
            IpLocation::NotMobile => Err("the address does not belong to a mobile network".to_owned()),
            IpLocation::Unknown => Err("the address is private, reserved, or belongs to no known network".to_owned()),
        };
        self.build_explanation(project, vec![], network)
    }

    fn known_network(&self, id: &NetworkId) -> Result<Network, String> {
        let directory = self.networks().directory();
        directory.find_by_any_id(id).cloned().ok_or_else(|| not_configured(id))
    }

    fn build_explanation(
        &self,
        project: Option<&Project>,
        source_results: Vec<SourceResult>,
        network: Result<Network, String>,
    ) -> EligibilityExplanation {
        let network = match network {
            Ok(network) => network,
            Err(problem) => {
                return EligibilityExplanation { source_results, network: Err(problem), note: None, gates: vec![] };
            }
        };
        let supported = self.networks().supported_products(&network);
        let everything = [AllowedNetwork { network: network.id.clone().into(), products: PRODUCTS.to_vec() }];
        let (enabled, allowed) = match project {
            Some(project) => (&project.products[..], &project.allowed_networks[..]),
            None => (&PRODUCTS[..], &everything[..]),
        };
        let input = EligibilityInput { network: &network.id, supported: &supported, enabled, allowed };
        let gates = PRODUCTS.into_iter().map(|product| (product, input.evaluate(product))).collect();
        EligibilityExplanation { source_results, network: Ok(self.networks().info(&network)), note: None, gates }
    }
}

fn not_configured(id: &NetworkId) -> String {
    format!("{id}, which is not configured")
}

/// Products that the simulated operator supports, before the project's own are considered.
struct SimulatedEligibility {
    network: Arc<NetworkInfo>,
    products: Vec<Product>,
}

impl SimulatedEligibility {
    fn limited_to(self, enabled: &[Product]) -> Eligibility {
        let products = self.products.into_iter().filter(|product| enabled.contains(product)).collect();
        Eligibility { network: ServingNetwork::Configured(self.network), products }
    }
}

impl ServingNetwork {
    /// ISO 3166-1 alpha-2; `ZZ` for the simulated operator.
    pub fn country_code(&self) -> Option<String> {
        match self {
            ServingNetwork::Configured(network) => Some(network.country.clone()),
            ServingNetwork::Other { country, .. } => country.map(|country| country.to_string()),
        }
    }

    /// Without a `+`.
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

fn other_network(id: Option<NetworkId>, country: Option<Country>) -> Eligibility {
    Eligibility { network: ServingNetwork::Other { id, country }, products: vec![] }
}

fn sandbox_project(project: Option<&Project>) -> Option<&Project> {
    project.filter(|project| project.mode == Mode::Sandbox)
}

/// In a sandbox the number's last digits select the supported products, and every network is allowed.
fn explain_simulated(
    project: &Project,
    found: Result<SimulatedEligibility, EligibilityError>,
) -> EligibilityExplanation {
    match found {
        Ok(SimulatedEligibility { network, products }) => {
            let judge = |product| {
                if !project.products.contains(&product) {
                    Err(EligibilityGate::Authorisation)
                } else if !products.contains(&product) {
                    Err(EligibilityGate::ProductSupport)
                } else {
                    Ok(())
                }
            };
            let gates = PRODUCTS.into_iter().map(|product| (product, judge(product))).collect();
            EligibilityExplanation { source_results: vec![], network: Ok(network), note: None, gates }
        }
        Err(problem) => EligibilityExplanation {
            source_results: vec![],
            network: Err(problem.to_string()),
            note: None,
            gates: vec![],
        },
    }
}

impl From<&Network> for NetworkInfo {
    fn from(network: &Network) -> Self {
        NetworkInfo {
            id: network.id.clone(),
            name: network.name.clone(),
            aliases: network.aliases.clone(),
            country: network.country.to_string(),
            dialing_code: dialing_code(network.country),
        }
    }
}

fn dialing_code(country: Country) -> String {
    country.dialing_code().map_or_else(String::new, |code| code.to_string())
}

fn simulate_number(number: &Msisdn) -> Result<SimulatedEligibility, EligibilityError> {
    match SandboxScript::of(number.tail()) {
        SandboxScript::NoSubscriber => Err(EligibilityError::NoSubscriber),
        SandboxScript::LookupDown => Err(EligibilityError::LookupUnavailable),
        SandboxScript::NothingSupported => simulated_network(vec![]),
        SandboxScript::NoSecureSna => {
            simulated_network(PRODUCTS.into_iter().filter(|product| *product != Product::SecureSna).collect())
        }
        SandboxScript::OperatorFault
        | SandboxScript::Silence
        | SandboxScript::OperatorTimeout
        | SandboxScript::Even
        | SandboxScript::Odd => simulated_network(PRODUCTS.to_vec()),
    }
}

fn simulate_address(address: IpAddr) -> Result<SimulatedEligibility, EligibilityError> {
    match SandboxAddress::of(address) {
        Some(SandboxAddress::Mobile) => simulated_network(PRODUCTS.to_vec()),
        Some(SandboxAddress::MobileWithoutProducts) => simulated_network(vec![]),
        Some(SandboxAddress::NotMobile) => Err(EligibilityError::NotMobile),
        Some(SandboxAddress::Unknown) | None => Err(EligibilityError::NoNetwork),
    }
}

fn simulated_network(products: Vec<Product>) -> Result<SimulatedEligibility, EligibilityError> {
    static NETWORK: LazyLock<Option<Arc<NetworkInfo>>> = LazyLock::new(|| {
        Some(Arc::new(NetworkInfo {
            id: sandbox::NETWORK_ID.parse().ok()?,
            name: "Simulated operator".to_owned(),
            aliases: vec![],
            country: "ZZ".to_owned(),
            dialing_code: "990".to_owned(),
        }))
    });
    let network = NETWORK.clone().ok_or(EligibilityError::NoNetwork)?;
    Ok(SimulatedEligibility { network, products })
}
