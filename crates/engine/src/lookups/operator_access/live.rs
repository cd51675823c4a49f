//! Operator access for live projects, based on the configured networks, the number lookup and the eligibility gates.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use ringtrue_domain::{
    eligibility::{EligibilityGate, EligibilityInput, PRODUCTS},
    lifecycle::ErrorCode,
    network::{AddressNetwork, AllowedNetwork, Network, NetworkId},
    phone::{Country, Msisdn},
    product::Product,
    reverse_sms::{HashedSender, NumberLimit, ReverseSmsCheck},
    silent::DeviceAddressComparison,
    tenancy::{Mode, Project, ProjectId},
};

use super::{DeviceVisit, OperatorAccess, RouteError, SilentRoute, SilentRouteError, SimSwapRoute, SmsRoute};
use crate::{
    control_plane::ControlPlane,
    lookups::{
        eligibility::{Eligibility, EligibilityError, EligibilityExplanation, EligibilitySubject, ServingNetwork},
        networks::Networks,
        number_lookup::{LookupUnavailable, NumberLookup, NumberResolution, OtherNetwork, SourceResult},
    },
    ports::silent::SilentConnector,
    rate_limits::ip_bucket,
};

#[derive(Debug)]
pub(crate) struct LiveAccess {
    pub networks: Arc<Networks>,
    pub number_lookup: Arc<NumberLookup>,
    pub control_plane: Arc<ControlPlane>,
    pub number_limit: NumberLimit,
}

#[async_trait]
impl OperatorAccess for LiveAccess {
    fn number_limit(&self) -> Option<NumberLimit> {
        Some(self.number_limit)
    }

    async fn sms_route(&self, project: &Project, number: &Msisdn) -> Result<SmsRoute, RouteError> {
        let network = self.resolve_network(number).await?;
        let receiver = self.networks.next_receiver(&network);
        require_eligible(project, Product::ReverseSms, &network.id, receiver.is_some())?;
        Ok(SmsRoute { network: network.id, receiver: receiver.ok_or(RouteError::MnoNotSupported)? })
    }

    fn sms_sender(&self, _: &ReverseSmsCheck, sender: HashedSender) -> Option<HashedSender> {
        Some(sender)
    }

    async fn sim_swap_route(&self, project: &Project, number: &Msisdn) -> Result<SimSwapRoute, RouteError> {
        let network = self.resolve_network(number).await?;
        let connector = self.networks.sim_swap_connector(&network.id);
        require_eligible(project, Product::SimSwap, &network.id, connector.is_some())?;
        Ok(SimSwapRoute { network: network.id, connector: connector.ok_or(RouteError::MnoNotSupported)? })
    }

    async fn silent_network(
        &self,
        project: &Project,
        product: Product,
        number: &Msisdn,
    ) -> Result<NetworkId, RouteError> {
        let network = self.resolve_network(number).await?;
        let is_supported = self.networks.silent_connector_of_network(&network.id, product).is_some();
        match require_eligible(project, product, &network.id, is_supported) {
            Ok(()) => Ok(network.id),
            Err(RouteError::MnoNotSupported) if self.supports_reverse_sms(project, &network.id) => {
                Err(RouteError::OnlyReverseSms)
            }
            Err(refused) => Err(refused),
        }
    }

    fn silent_route(&self, visit: DeviceVisit<'_>) -> Result<SilentRoute, SilentRouteError> {
        let DeviceVisit { check, number, announced_ip, device_ip, .. } = visit;
        let device_network = self.networks.network_of_address(device_ip);
        let claimed = number.and(check.network.as_ref());
        let comparison =
            DeviceAddressComparison { ip: device_ip, network: &device_network, announced_ip, claimed_network: claimed };
        let shared_connector = |claimed: &NetworkId, device: &NetworkId| {
            self.networks.shared_silent_connector(claimed, device, check.product)
        };
        let network = comparison.resolve_network(|claimed, device| shared_connector(claimed, device).is_some())?;
        let is_allowed = |project: &Project| require_eligible(project, check.product, &network, true).is_ok();
        // If the check has a number to verify, eligibility was checked when the check was created. Without a number, the
        // network is known only now.
        if number.is_none() && !self.control_plane.has_project_where(check.project, is_allowed) {
            return Err(ErrorCode::MnoNotSupported.into());
        }
        let connector = match claimed {
            Some(claimed) => shared_connector(claimed, &network),
            None => self.networks.silent_connector_of_network(&network, check.product),
        };
        let connector = connector.ok_or(ErrorCode::MnoRedirectUnsupported)?;
        // The check keeps the network of the number to verify. If that is a virtual operator (MVNO), the device may be
        // located on the virtual operator's host network.
        Ok(SilentRoute { network: claimed.cloned().unwrap_or(network), connector, simulated_sim: None })
    }

    fn silent_connector(&self, name: &str) -> Option<Arc<dyn SilentConnector>> {
        self.networks.silent_connector_by_name(name)
    }

    fn operator_token_connector(&self, network: &NetworkId) -> Option<Arc<dyn SilentConnector>> {
        self.networks.operator_token_connector(network)
    }

    fn operator_token_connector_of_carrier(
        &self,
        project: ProjectId,
        carrier: &str,
    ) -> Option<Arc<dyn SilentConnector>> {
        let (network, connector) = self.networks.operator_token_connector_of_carrier(carrier)?;
        let is_allowed = |project: &Project| require_eligible(project, Product::SecureSna, &network, true).is_ok();
        self.control_plane.has_project_where(project, is_allowed).then_some(connector)
    }

    /// If the API client has not sent the device's address (`announced`), accepts any address of the same mobile
    /// network, because mobile networks may change a device's address with each request.
    fn may_be_same_device(&self, before: IpAddr, after: IpAddr, announced: Option<IpAddr>) -> bool {
        if ip_bucket(before) == ip_bucket(after) {
            return true;
        }
        let located = self.networks.network_of_address(after);
        announced.is_none()
            && matches!(located, AddressNetwork::Mobile(_))
            && located == self.networks.network_of_address(before)
    }

    fn supports_reverse_sms(&self, project: &Project, network: &NetworkId) -> bool {
        let directory = self.networks.directory();
        let has_receiver = directory.get(network).is_some_and(|network| self.networks.has_receiver(network));
        require_eligible(project, Product::ReverseSms, network, has_receiver).is_ok()
    }

    async fn eligibility_of_number(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError> {
        if let Some(NumberResolution::Network(id)) = self.number_lookup.cached(text)
            && let Some(found) = self.eligibility_at(project, &id, None)
        {
            return Ok(found);
        }
        let number = Msisdn::parse(text, Mode::Live)?;
        match self.number_lookup.look_up(&number).await {
            Ok(NumberResolution::Network(id)) => {
                self.eligibility_at(project, &id, Some(&number)).ok_or(EligibilityError::NoSubscriber)
            }
            Ok(NumberResolution::OtherNetwork(OtherNetwork { id, country })) => Ok(other_network(id, country)),
            Ok(NumberResolution::NoSubscriber | NumberResolution::Unknown) => Err(EligibilityError::NoSubscriber),
            Err(LookupUnavailable) => Err(EligibilityError::LookupUnavailable),
        }
    }

    fn eligibility_of_address(&self, project: &Project, address: IpAddr) -> Result<Eligibility, EligibilityError> {
        match self.networks.network_of_address(address) {
            AddressNetwork::Mobile(id) => self.eligibility_at(project, &id, None).ok_or(EligibilityError::NoNetwork),
            AddressNetwork::NotMobile => Err(EligibilityError::NotMobile),
            AddressNetwork::Unknown => Err(EligibilityError::NoNetwork),
        }
    }

    async fn explain_eligibility(
        &self,
        project: Option<&Project>,
        subject: &EligibilitySubject,
    ) -> EligibilityExplanation {
        match subject {
            EligibilitySubject::Number(number) => self.explain_number(project, number).await,
            EligibilitySubject::Address(address) => self.explain_address(project, *address),
        }
    }
}

impl LiveAccess {
    /// Returns the configured network that serves a number.
    async fn resolve_network(&self, number: &Msisdn) -> Result<Network, RouteError> {
        let known = match self.number_lookup.look_up(number).await {
            Ok(NumberResolution::Network(id)) => self.networks.directory().find_by_any_id(&id).cloned(),
            Ok(NumberResolution::OtherNetwork(_) | NumberResolution::NoSubscriber | NumberResolution::Unknown) => None,
            Err(LookupUnavailable) => return Err(RouteError::LookupUnavailable),
        };
        known.ok_or(RouteError::MnoNotSupported)
    }

    /// Returns the products available to a subscriber of a network. A network that is not configured has no products.
    /// `None`: the network is not configured and there is no `number` to take the country from.
    fn eligibility_at(&self, project: &Project, id: &NetworkId, number: Option<&Msisdn>) -> Option<Eligibility> {
        let directory = self.networks.directory();
        let Some(network) = directory.find_by_any_id(id) else {
            return Some(other_network(Some(id.clone()), number?.country()));
        };
        let supported = self.networks.supported_products(network);
        let products = EligibilityInput::for_project(project, &network.id, &supported).eligible_products();
        Some(Eligibility { network: ServingNetwork::Configured(self.networks.info(network)), products })
    }

    async fn explain_number(&self, project: Option<&Project>, number: &Msisdn) -> EligibilityExplanation {
        let report = self.number_lookup.look_up_uncached(number).await;
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
        let network = match self.networks.network_of_address(address) {
            AddressNetwork::Mobile(id) => self.known_network(&id),
            AddressNetwork::NotMobile => Err("the address does not belong to a mobile network".to_owned()),
            AddressNetwork::Unknown => {
                Err("the address is private, reserved, or belongs to no known network".to_owned())
            }
        };
        self.build_explanation(project, vec![], network)
    }

    fn known_network(&self, id: &NetworkId) -> Result<Network, String> {
        let directory = self.networks.directory();
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
                return EligibilityExplanation { source_results, ..EligibilityExplanation::new_failed(problem) };
            }
        };
        let supported = self.networks.supported_products(&network);
        let everything = [AllowedNetwork { network: network.id.clone().into(), products: PRODUCTS.to_vec() }];
        let (enabled, allowed) = match project {
            Some(project) => (&project.products[..], &project.allowed_networks[..]),
            None => (&PRODUCTS[..], &everything[..]),
        };
        let input = EligibilityInput { network: &network.id, supported: &supported, enabled, allowed };
        let gates = PRODUCTS.into_iter().map(|product| (product, input.evaluate(product))).collect();
        EligibilityExplanation { source_results, network: Ok(self.networks.info(&network)), note: None, gates }
    }
}

/// Fails if the operator does not support the product, or if the project may not use the product on this network.
/// Missing support is reported first.
fn require_eligible(
    project: &Project,
    product: Product,
    network: &NetworkId,
    is_supported: bool,
) -> Result<(), RouteError> {
    let supported: &[Product] = if is_supported { &[product] } else { &[] };
    EligibilityInput::for_project(project, network, supported).evaluate(product).map_err(|gate| match gate {
        EligibilityGate::Connectivity | EligibilityGate::ProductSupport => RouteError::MnoNotSupported,
        EligibilityGate::Authorisation => RouteError::NetworkNotAllowed,
    })
}

fn not_configured(id: &NetworkId) -> String {
    format!("{id}, which is not configured")
}

fn other_network(id: Option<NetworkId>, country: Option<Country>) -> Eligibility {
    Eligibility { network: ServingNetwork::Other { id, country }, products: vec![] }
}
