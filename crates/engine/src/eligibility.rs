//! Eligibility: which products a user can use, by number or by address.
//!
//! The list of products is derived from what connectors can do and what the project may use: there is no table of it.

use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use ringtrue_domain::{
    eligibility::{Gate, PRODUCTS, Standing},
    network::{AllowedNetwork, Located, Network, NetworkId},
    phone::{Country, Msisdn, NotE164},
    product::Product,
    sandbox::{self, Script, TestAddress},
    tenancy::{Mode, Project},
};

use crate::{
    Engine,
    number_lookup::{Asked, Known, OtherNetwork, Unavailable},
};

/// The network of a user, and what can be used there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eligibility {
    pub network: ServingNetwork,
    pub products: Vec<Product>,
}

/// The network that serves a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingNetwork {
    /// One of the deployment's. The same `Arc` for all its users, until the configuration is reloaded.
    Ours(Arc<UserNetwork>),
    /// None of the deployment's: what the number and the look-up tell of it.
    Other { id: Option<NetworkId>, country: Option<Country> },
}

/// A network as callers are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserNetwork {
    pub id: NetworkId,
    pub name: String,
    pub aliases: Vec<String>,
    /// Two letters; `ZZ` for the simulated operator, which is of no country.
    pub country: String,
    /// Without a `+`.
    pub dialing_code: String,
}

#[derive(Debug, thiserror::Error)]
pub enum EligibilityError {
    #[error("{0}")]
    PhoneNumber(#[from] NotE164),
    #[error("an address is IPv4 or IPv6, with nothing around it")]
    Address,
    #[error("no active subscriber has this number")]
    NoSubscriber,
    #[error("this address belongs to no network that is known here")]
    NoNetwork,
    #[error("this address does not belong to a mobile network")]
    NotMobile,
    #[error("which operator serves this number cannot be found out at the moment")]
    LookupUnavailable,
    #[error("the project is disabled")]
    ProjectDisabled,
}

/// Whom a question about eligibility is about.
#[derive(Clone, PartialEq, Eq)]
pub enum User {
    Number(Msisdn),
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAUser {
    #[error("this is not a number in E.164 form: {0}")]
    Number(NotE164),
    #[error("this is neither a number in E.164 form nor an IP address")]
    Neither,
}

impl User {
    /// What was typed is not repeated: it is about a person.
    pub fn parse(typed: &str, project: Option<&Project>) -> Result<Self, NotAUser> {
        if typed.starts_with('+') {
            let mode = project.map_or(Mode::Live, |project| project.mode);
            return Msisdn::parse(typed, mode).map(User::Number).map_err(NotAUser::Number);
        }
        let address: Result<IpAddr, _> = typed.parse();
        address.map(|address| User::Address(address.to_canonical())).map_err(|_| NotAUser::Neither)
    }

    /// As much of them as may be shown.
    pub fn shown(&self) -> String {
        match self {
            User::Number(number) => format!("…{}", number.tail()),
            User::Address(IpAddr::V4(_)) => "an IPv4 address".to_owned(),
            User::Address(IpAddr::V6(_)) => "an IPv6 address".to_owned(),
        }
    }
}

/// Masked: it is about a person.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({})", self.shown())
    }
}

/// Why a user can use what, for people who run the service or build on it. Callers of the API are never told.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What was asked for the network, and what it said. Empty for an address, and in a sandbox.
    pub asked: Vec<Asked>,
    pub network: Result<Arc<UserNetwork>, String>,
    /// Says so when the network is only the one that the number's prefix belongs to.
    pub note: Option<String>,
    pub gates: Vec<(Product, Result<(), Gate>)>,
}

impl Explanation {
    /// Why a gate keeps a product from a project's users, in a sentence.
    pub fn why(gate: Gate, product: Product, project: Option<&Project>) -> &'static str {
        let is_enabled = project.is_none_or(|project| project.products.contains(&product));
        match gate {
            Gate::Connectivity => "no connector asks this operator, and its subscribers have nobody to text",
            Gate::Authorisation if is_enabled => "the project is not allowed to use this network for it",
            Gate::Authorisation => "the project is not enabled for it",
            Gate::ProductSupport => "no connector to this operator does it",
        }
    }
}

impl Engine {
    /// Which source answered, which network the user is of, and which gate lets which product fall. Without a project,
    /// nobody asks for its authorisation.
    pub async fn explain(&self, project: Option<&Project>, user: &User) -> Explanation {
        if project.is_some_and(|project| project.disabled) {
            let network = Err(EligibilityError::ProjectDisabled.to_string());
            return Explanation { asked: vec![], network, note: None, gates: vec![] };
        }
        match user {
            User::Number(number) => self.explain_number(project, number).await,
            User::Address(address) => self.explain_address(project, *address),
        }
    }

    pub async fn eligibility_of_number(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError> {
        if project.disabled {
            return Err(EligibilityError::ProjectDisabled);
        }
        if project.mode == Mode::Live
            && let Some(Known::Network(id)) = self.number_lookup().remembered(text)
            && let Some(found) = self.at_network(project, &id, None)
        {
            return Ok(found);
        }
        let number = Msisdn::parse(text, project.mode)?;
        if project.mode == Mode::Sandbox {
            return simulated(&number).map(|found| found.limited_to(&project.products));
        }
        match self.number_lookup().network_of(&number).await {
            Ok(Known::Network(id)) => {
                self.at_network(project, &id, Some(&number)).ok_or(EligibilityError::NoSubscriber)
            }
            Ok(Known::OtherNetwork(OtherNetwork { id, country })) => Ok(other_network(id, country)),
            Ok(Known::NoSubscriber | Known::Nobody) => Err(EligibilityError::NoSubscriber),
            Err(Unavailable) => Err(EligibilityError::LookupUnavailable),
        }
    }

    pub fn eligibility_of_address(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError> {
        if project.disabled {
            return Err(EligibilityError::ProjectDisabled);
        }
        let address: IpAddr = text.parse().map_err(|_| EligibilityError::Address)?;
        if project.mode == Mode::Sandbox {
            return simulated_address(address).map(|found| found.limited_to(&project.products));
        }
        match self.networks().locate(address) {
            Located::Mobile(id) => self.at_network(project, &id, None).ok_or(EligibilityError::NoNetwork),
            Located::NotMobile => Err(EligibilityError::NotMobile),
            Located::Unknown => Err(EligibilityError::NoNetwork),
        }
    }

    /// A network that the deployment does not know has no products, and is told of as far as the number tells of it.
    fn at_network(&self, project: &Project, id: &NetworkId, number: Option<&Msisdn>) -> Option<Eligibility> {
        let directory = self.networks().directory();
        let Some(network) = directory.known_as(id) else {
            return Some(other_network(Some(id.clone()), number?.country()));
        };
        let supported = self.networks().supported(network);
        let products = Standing::of(project, &network.id, &supported).eligible();
        Some(Eligibility { network: ServingNetwork::Ours(self.networks().shown(network)), products })
    }

    async fn explain_number(&self, project: Option<&Project>, number: &Msisdn) -> Explanation {
        if let Some(project) = sandbox(project) {
            return explained_simulation(project, simulated(number));
        }
        let report = self.number_lookup().ask(number).await;
        let note = report.prefix_note();
        let network = match report.answer {
            Ok(Known::Network(id)) => self.known_network(&id),
            Ok(Known::OtherNetwork(OtherNetwork { id: Some(id), .. })) => Err(not_configured(&id)),
            Ok(Known::OtherNetwork(OtherNetwork { id: None, .. })) => {
                Err("the number is in service on a network that is not configured here".to_owned())
            }
            Ok(Known::NoSubscriber) => Err("nobody has this number".to_owned()),
            Ok(Known::Nobody) => Err("no source knows this number".to_owned()),
            Err(problem) => Err(problem.to_string()),
        };
        Explanation { note, ..self.explained(project, report.asked, network) }
    }

    fn explain_address(&self, project: Option<&Project>, address: IpAddr) -> Explanation {
        if let Some(project) = sandbox(project) {
            return explained_simulation(project, simulated_address(address));
        }
        let network = match self.networks().locate(address) {
            Located::Mobile(id) => self.known_network(&id),
            Located::NotMobile => Err("the address is known, and not a mobile one".to_owned()),
            Located::Unknown => Err("the address is private, reserved, or of no network that is known here".to_owned()),
        };
        self.explained(project, vec![], network)
    }

    fn known_network(&self, id: &NetworkId) -> Result<Network, String> {
        let directory = self.networks().directory();
        directory.known_as(id).cloned().ok_or_else(|| not_configured(id))
    }

    fn explained(&self, project: Option<&Project>, asked: Vec<Asked>, network: Result<Network, String>) -> Explanation {
        let network = match network {
            Ok(network) => network,
            Err(problem) => return Explanation { asked, network: Err(problem), note: None, gates: vec![] },
        };
        let supported = self.networks().supported(&network);
        let everything = [AllowedNetwork { network: network.id.clone().into(), products: PRODUCTS.to_vec() }];
        let (enabled, allowed) = match project {
            Some(project) => (&project.products[..], &project.allowed_networks[..]),
            None => (&PRODUCTS[..], &everything[..]),
        };
        let standing = Standing { network: &network.id, supported: &supported, enabled, allowed };
        let gates = PRODUCTS.into_iter().map(|product| (product, standing.judge(product))).collect();
        Explanation { asked, network: Ok(self.networks().shown(&network)), note: None, gates }
    }
}

fn not_configured(id: &NetworkId) -> String {
    format!("{id}, which is not configured here")
}

/// What the simulated operator supports for a user, whatever the project has.
struct SimulatedEligibility {
    network: Arc<UserNetwork>,
    products: Vec<Product>,
}

impl SimulatedEligibility {
    fn limited_to(self, enabled: &[Product]) -> Eligibility {
        let products = self.products.into_iter().filter(|product| enabled.contains(product)).collect();
        Eligibility { network: ServingNetwork::Ours(self.network), products }
    }
}

impl ServingNetwork {
    /// Two letters; `ZZ` for the simulated operator, which is of no country.
    pub fn country_code(&self) -> Option<String> {
        match self {
            ServingNetwork::Ours(network) => Some(network.country.clone()),
            ServingNetwork::Other { country, .. } => country.map(|country| country.to_string()),
        }
    }

    /// Without a `+`.
    pub fn dialing_code(&self) -> Option<String> {
        match self {
            ServingNetwork::Ours(network) => Some(network.dialing_code.clone()),
            ServingNetwork::Other { country, .. } => country.map(dialing_code),
        }
    }

    pub fn id(&self) -> Option<&NetworkId> {
        match self {
            ServingNetwork::Ours(network) => Some(&network.id),
            ServingNetwork::Other { id, .. } => id.as_ref(),
        }
    }
}

/// A number in service on a network that is none of the deployment's: nothing can be used there.
fn other_network(id: Option<NetworkId>, country: Option<Country>) -> Eligibility {
    Eligibility { network: ServingNetwork::Other { id, country }, products: vec![] }
}

fn sandbox(project: Option<&Project>) -> Option<&Project> {
    project.filter(|project| project.mode == Mode::Sandbox)
}

/// In a sandbox the digits decide what the simulated operator supports, and every network is allowed.
fn explained_simulation(project: &Project, found: Result<SimulatedEligibility, EligibilityError>) -> Explanation {
    match found {
        Ok(SimulatedEligibility { network, products }) => {
            let judge = |product| {
                if !project.products.contains(&product) {
                    Err(Gate::Authorisation)
                } else if !products.contains(&product) {
                    Err(Gate::ProductSupport)
                } else {
                    Ok(())
                }
            };
            let gates = PRODUCTS.into_iter().map(|product| (product, judge(product))).collect();
            Explanation { asked: vec![], network: Ok(network), note: None, gates }
        }
        Err(problem) => Explanation { asked: vec![], network: Err(problem.to_string()), note: None, gates: vec![] },
    }
}

impl From<&Network> for UserNetwork {
    fn from(network: &Network) -> Self {
        UserNetwork {
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

fn simulated(number: &Msisdn) -> Result<SimulatedEligibility, EligibilityError> {
    match Script::of(number.tail()) {
        Script::NoSubscriber => Err(EligibilityError::NoSubscriber),
        Script::LookupDown => Err(EligibilityError::LookupUnavailable),
        Script::NothingSupported => simulated_network(vec![]),
        Script::NoSecureSna => {
            simulated_network(PRODUCTS.into_iter().filter(|product| *product != Product::SecureSna).collect())
        }
        Script::OperatorFault | Script::Silence | Script::OperatorTimeout | Script::Even | Script::Odd => {
            simulated_network(PRODUCTS.to_vec())
        }
    }
}

fn simulated_address(address: IpAddr) -> Result<SimulatedEligibility, EligibilityError> {
    match TestAddress::of(address) {
        Some(TestAddress::Mobile) => simulated_network(PRODUCTS.to_vec()),
        Some(TestAddress::MobileWithoutProducts) => simulated_network(vec![]),
        Some(TestAddress::NotMobile) => Err(EligibilityError::NotMobile),
        Some(TestAddress::Unknown) | None => Err(EligibilityError::NoNetwork),
    }
}

fn simulated_network(products: Vec<Product>) -> Result<SimulatedEligibility, EligibilityError> {
    static NETWORK: LazyLock<Option<Arc<UserNetwork>>> = LazyLock::new(|| {
        Some(Arc::new(UserNetwork {
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
