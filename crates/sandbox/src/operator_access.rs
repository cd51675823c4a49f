//! The simulated operator, as sandbox projects reach it: its network, receivers and connectors.
//!
//! Every number and address is simulated. The last two digits of a number select its behaviour. Some endings are
//! special; of the others, even numbers match and odd ones do not. Addresses reserved for documentation select the
//! simulated location of a device.

use std::{
    net::IpAddr,
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use parking_lot::RwLock;
use ringtrue_domain::{
    eligibility::{EligibilityGate, PRODUCTS},
    lifecycle::{ErrorCode, NumberHash},
    network::NetworkId,
    phone::{Msisdn, NumberTail},
    product::Product,
    reverse_sms::{HashedSender, NumberLimit, ReverseSmsCheck},
    tenancy::{Mode, Project, ProjectId},
};
use ringtrue_engine::{
    lookups::{
        eligibility::{Eligibility, EligibilityError, EligibilityExplanation, EligibilitySubject, ServingNetwork},
        networks::NetworkInfo,
        operator_access::{
            DeviceVisit, ExpectedSms, OperatorAccess, RouteError, SilentRoute, SilentRouteError, SimSwapRoute, SmsRoute,
        },
    },
    ports::{silent::SilentConnector, sim_swap::SimSwapConnector},
};

use crate::smsc::{FaultScript, QueueAccount, Sms, Smsc};

/// Time after which a simulated handset replies automatically.
const AUTOMATIC_REPLY_DELAY: Duration = Duration::from_secs(2);

/// Network of the simulated operator: the test network of ITU-T E.212.
pub const NETWORK_ID: &str = "00101";
pub const NETWORK_NAME: &str = "Simulated operator";
/// Numbers of the simulated operator that receive SMS.
pub const RECEIVERS: [&str; 2] = ["+99000000001", "+99000000002"];
/// Number of the SIM in a simulated device, unless another one is chosen.
pub const DEFAULT_SIM: &str = "+99000000010";

/// Behaviour of a simulated number. Its last two digits select it, as noted on the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberBehaviour {
    /// 99: the operator fails.
    OperatorFault,
    /// 98: the operator never responds.
    Silence,
    /// 97: the operator supports no product.
    NothingSupported,
    /// 96: like an even number, but the operator does not support Secure SNA.
    NoSecureSna,
    /// 95: the operator times out. Reverse SMS, which makes no operator request, treats it as an odd number.
    OperatorTimeout,
    /// 94: the number is unassigned.
    NoSubscriber,
    /// 93: all lookup sources fail.
    LookupDown,
    Even,
    Odd,
}

impl NumberBehaviour {
    pub fn of(tail: NumberTail) -> Self {
        match tail.value() {
            99 => NumberBehaviour::OperatorFault,
            98 => NumberBehaviour::Silence,
            97 => NumberBehaviour::NothingSupported,
            96 => NumberBehaviour::NoSecureSna,
            95 => NumberBehaviour::OperatorTimeout,
            94 => NumberBehaviour::NoSubscriber,
            93 => NumberBehaviour::LookupDown,
            even if even % 2 == 0 => NumberBehaviour::Even,
            _ => NumberBehaviour::Odd,
        }
    }
}

/// Simulated location of a device, by its documentation address (RFC 5737).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SimulatedLocation {
    /// `203.0.113.0/25`
    Mobile,
    /// `203.0.113.128/25`
    MobileWithoutProducts,
    /// `198.51.100.0/24`
    NotMobile,
    /// `192.0.2.0/24`
    Unknown,
}

impl SimulatedLocation {
    /// Returns `None` if the address is not one of these documentation addresses.
    fn of(address: IpAddr) -> Option<Self> {
        let IpAddr::V4(address) = address.to_canonical() else { return None };
        match address.octets() {
            [203, 0, 113, last] if last < 128 => Some(SimulatedLocation::Mobile),
            [203, 0, 113, _] => Some(SimulatedLocation::MobileWithoutProducts),
            [198, 51, 100, _] => Some(SimulatedLocation::NotMobile),
            [192, 0, 2, _] => Some(SimulatedLocation::Unknown),
            _ => None,
        }
    }
}

/// The simulated operator, as sandbox projects reach it. Without connectors, only Reverse SMS and Eligibility work.
#[derive(Debug, Default)]
pub struct SandboxAccess {
    silent_connector: ArcSwapOption<Arc<dyn SilentConnector>>,
    sim_swap_connector: ArcSwapOption<Arc<dyn SimSwapConnector>>,
    /// SMSC of the simulated handsets. A weak reference, so that the SMSC stops when its owner drops it.
    smsc: RwLock<Weak<Smsc>>,
    next_receiver: AtomicUsize,
}

impl SandboxAccess {
    pub fn set_silent_connector(&self, connector: Arc<dyn SilentConnector>) {
        self.silent_connector.store(Some(Arc::new(connector)));
    }

    pub fn set_smsc(&self, smsc: &Arc<Smsc>) {
        *self.smsc.write() = Arc::downgrade(smsc);
    }

    pub fn set_sim_swap_connector(&self, connector: Arc<dyn SimSwapConnector>) {
        self.sim_swap_connector.store(Some(Arc::new(connector)));
    }
}

/// Returns the account under which the SMSC queues a project's SMS. The account id is the project id, so that an SMS
/// reaches only checks of the project that sent it. The projects of a workspace share a limit of queued SMS.
pub fn queue_account_of(project: &Project) -> QueueAccount {
    QueueAccount { id: project.id.0.as_u128(), group: project.workspace.0.as_u128() }
}

/// Sends the SMS that a check expects, after a short delay. Must be called within a Tokio runtime.
pub fn send_automatic_reply(smsc: &Smsc, project: &Project, expected: &ExpectedSms<'_>) {
    let ExpectedSms { from, to, body } = expected;
    let faults = FaultScript::new().delayed_by(AUTOMATIC_REPLY_DELAY);
    let sms = Sms::new(from.as_str(), to.as_str(), *body).with_faults(faults).with_account(queue_account_of(project));
    if let Err(error) = smsc.send(sms) {
        tracing::warn!(%error, "simulated handset failed to reply");
    }
}

#[async_trait]
impl OperatorAccess for SandboxAccess {
    /// There is no limit of checks for each phone number, because simulated numbers have no owner to protect.
    fn number_limit(&self) -> Option<NumberLimit> {
        None
    }

    async fn sms_route(&self, _: &Project, number: &Msisdn) -> Result<SmsRoute, RouteError> {
        require_support(number, Product::ReverseSms)?;
        let receiver = RECEIVERS[self.next_receiver.fetch_add(1, Ordering::Relaxed) % RECEIVERS.len()];
        // This cannot fail, because the constants are valid numbers.
        let receiver = Msisdn::parse(receiver, Mode::Sandbox).map_err(|_| RouteError::MnoNotSupported)?;
        Ok(SmsRoute { network: network().id.clone(), receiver })
    }

    /// Sends the expected SMS from the simulated handset, if the project has automatic replies enabled.
    fn on_sms_step_begun(&self, project: &Project, sms: &ExpectedSms<'_>) {
        let smsc = self.smsc.read().upgrade();
        if let Some(smsc) = smsc.filter(|_| project.configuration.reverse_sms.auto_reply) {
            send_automatic_reply(&smsc, project, sms);
        }
    }

    fn sms_sender(&self, check: &ReverseSmsCheck, sender: HashedSender) -> Option<HashedSender> {
        let Some(claimed) = check.claimed else { return Some(sender) };
        match (NumberBehaviour::of(claimed.tail), sender) {
            (NumberBehaviour::Silence, _) => None,
            (NumberBehaviour::OperatorFault, _) => Some(HashedSender::Unattributed),
            (NumberBehaviour::Odd | NumberBehaviour::OperatorTimeout, HashedSender::Number(_)) => {
                let other_number = NumberHash(claimed.hash.0.map(|byte| !byte));
                Some(HashedSender::Number(other_number))
            }
            _ => Some(sender),
        }
    }

    async fn sim_swap_route(&self, _: &Project, number: &Msisdn) -> Result<SimSwapRoute, RouteError> {
        require_support(number, Product::SimSwap)?;
        let connector = self.sim_swap_connector.load_full().ok_or(RouteError::MnoNotSupported)?;
        Ok(SimSwapRoute { network: network().id.clone(), connector: Arc::clone(&connector) })
    }

    async fn silent_network(&self, _: &Project, product: Product, number: &Msisdn) -> Result<NetworkId, RouteError> {
        require_support(number, product)?;
        Ok(network().id.clone())
    }

    /// A documentation address that was announced for the device determines its simulated location. Any other announced
    /// address must equal the address that the device uses. Without an announced address, the device may use any
    /// address but the test addresses that are not mobile.
    fn silent_route(&self, visit: DeviceVisit<'_>) -> Result<SilentRoute, SilentRouteError> {
        let sim = visit.sim.map(|sim| Msisdn::parse(sim, Mode::Sandbox)).transpose();
        let sim = sim.map_err(SilentRouteError::InvalidSim)?;
        if let Some(announced) = visit.announced_ip {
            match SimulatedLocation::of(announced) {
                Some(SimulatedLocation::Mobile) => {}
                Some(SimulatedLocation::NotMobile) => return Err(ErrorCode::NotMobileIp.into()),
                Some(SimulatedLocation::MobileWithoutProducts | SimulatedLocation::Unknown) => {
                    return Err(ErrorCode::MnoNotSupported.into());
                }
                None if announced.to_canonical() == visit.device_ip.to_canonical() => {}
                None => return Err(ErrorCode::IpMismatch.into()),
            }
        } else if SimulatedLocation::of(visit.device_ip) == Some(SimulatedLocation::NotMobile) {
            return Err(ErrorCode::NotMobileIp.into());
        }
        let connector = self.silent_connector.load_full().ok_or(ErrorCode::MnoRedirectUnsupported)?;
        let simulated_sim = sim.or_else(|| visit.number.cloned());
        Ok(SilentRoute { network: network().id.clone(), connector: Arc::clone(&connector), simulated_sim })
    }

    fn silent_connector(&self, name: &str) -> Option<Arc<dyn SilentConnector>> {
        let connector = self.silent_connector.load_full()?;
        (connector.name() == name).then(|| Arc::clone(&*connector))
    }

    fn operator_token_connector(&self, _: &NetworkId) -> Option<Arc<dyn SilentConnector>> {
        let connector = self.silent_connector.load_full()?;
        connector.operator_token_verifier().is_some().then(|| Arc::clone(&*connector))
    }

    /// Sandbox projects may use every network.
    fn operator_token_connector_of_carrier(&self, _: ProjectId, carrier: &str) -> Option<Arc<dyn SilentConnector>> {
        let connector = self.silent_connector.load_full()?;
        connector.operator_token_verifier()?.network_of_carrier(carrier)?;
        Some(Arc::clone(&*connector))
    }

    /// A documentation address that was announced is the simulated location of any device.
    fn is_announced_address(&self, announced: Option<IpAddr>, address: IpAddr) -> bool {
        let is_simulated = |announced: IpAddr| SimulatedLocation::of(announced).is_some();
        announced.is_none_or(|announced| is_simulated(announced) || announced.to_canonical() == address.to_canonical())
    }

    fn may_be_same_device(&self, _: IpAddr, _: IpAddr, _: Option<IpAddr>) -> bool {
        true
    }

    fn supports_reverse_sms(&self, project: &Project, _: &NetworkId) -> bool {
        project.products.contains(&Product::ReverseSms)
    }

    async fn eligibility_of_number(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError> {
        let number = Msisdn::parse(text, Mode::Sandbox)?;
        Ok(eligibility_for_project(products_of_number(&number)?, project))
    }

    fn eligibility_of_address(&self, project: &Project, address: IpAddr) -> Result<Eligibility, EligibilityError> {
        Ok(eligibility_for_project(products_of_address(address)?, project))
    }

    /// The simulated operator knows the SIM in a device from the number to verify, unless the device is at a test
    /// address that is not mobile.
    fn may_verify_device(&self, _: &Project, address: IpAddr) -> bool {
        SimulatedLocation::of(address) != Some(SimulatedLocation::NotMobile)
    }

    /// The simulated operator knows the SIM from the device itself. It also recognises devices at a test address of a
    /// mobile network.
    fn may_identify_device(&self, project: &Project, product: Product, address: IpAddr, sim: Option<&str>) -> bool {
        sim.is_some()
            || products_of_address(address)
                .is_ok_and(|products| eligibility_for_project(products, project).products.contains(&product))
    }

    async fn explain_eligibility(
        &self,
        project: Option<&Project>,
        subject: &EligibilitySubject,
    ) -> EligibilityExplanation {
        let supported = match subject {
            EligibilitySubject::Number(number) => products_of_number(number),
            EligibilitySubject::Address(address) => products_of_address(*address),
        };
        let supported = match supported {
            Ok(supported) => supported,
            Err(problem) => return EligibilityExplanation::new_failed(problem.to_string()),
        };
        // Networks are not tested, because sandbox projects may use every network.
        let evaluate = |product| {
            if project.is_some_and(|project| !project.products.contains(&product)) {
                Err(EligibilityGate::Authorisation)
            } else if supported.contains(&product) {
                Ok(())
            } else {
                Err(EligibilityGate::ProductSupport)
            }
        };
        EligibilityExplanation {
            source_results: vec![],
            network: Ok(network()),
            note: None,
            gates: PRODUCTS.into_iter().map(|product| (product, evaluate(product))).collect(),
        }
    }
}

fn network() -> Arc<NetworkInfo> {
    static NETWORK: LazyLock<Arc<NetworkInfo>> = LazyLock::new(|| {
        Arc::new(NetworkInfo {
            #[expect(clippy::expect_used, reason = "the constant is a valid network id")]
            id: NETWORK_ID.parse().expect("a network id"),
            name: NETWORK_NAME.to_owned(),
            aliases: vec![],
            country: "ZZ".to_owned(),
            dialing_code: "990".to_owned(),
        })
    });
    Arc::clone(&NETWORK)
}

/// Returns the products that the operator supports for a number.
fn products_of_number(number: &Msisdn) -> Result<Vec<Product>, EligibilityError> {
    match NumberBehaviour::of(number.tail()) {
        NumberBehaviour::NoSubscriber => Err(EligibilityError::NoSubscriber),
        NumberBehaviour::LookupDown => Err(EligibilityError::LookupUnavailable),
        NumberBehaviour::NothingSupported => Ok(vec![]),
        NumberBehaviour::NoSecureSna => {
            Ok(PRODUCTS.into_iter().filter(|product| *product != Product::SecureSna).collect())
        }
        NumberBehaviour::OperatorFault
        | NumberBehaviour::Silence
        | NumberBehaviour::OperatorTimeout
        | NumberBehaviour::Even
        | NumberBehaviour::Odd => Ok(PRODUCTS.to_vec()),
    }
}

/// Returns the products that the operator supports at an address.
fn products_of_address(address: IpAddr) -> Result<Vec<Product>, EligibilityError> {
    match SimulatedLocation::of(address) {
        Some(SimulatedLocation::Mobile) => Ok(PRODUCTS.to_vec()),
        Some(SimulatedLocation::MobileWithoutProducts) => Ok(vec![]),
        Some(SimulatedLocation::NotMobile) => Err(EligibilityError::NotMobile),
        Some(SimulatedLocation::Unknown) | None => Err(EligibilityError::NoNetwork),
    }
}

/// Fails unless the operator supports the product for the number.
fn require_support(number: &Msisdn, product: Product) -> Result<(), RouteError> {
    match products_of_number(number) {
        Ok(supported) if supported.contains(&product) => Ok(()),
        Ok(supported) if supported.contains(&Product::ReverseSms) => Err(RouteError::OnlyReverseSms),
        Err(EligibilityError::LookupUnavailable) => Err(RouteError::LookupUnavailable),
        Ok(_) | Err(_) => Err(RouteError::MnoNotSupported),
    }
}

fn eligibility_for_project(supported: Vec<Product>, project: &Project) -> Eligibility {
    let products = supported.into_iter().filter(|product| project.products.contains(product)).collect();
    Eligibility { network: ServingNetwork::Configured(network()), products }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use ringtrue_domain::{
        lifecycle::{CheckId, CheckStatus, Lifecycle, OpenState, StoredNumber},
        reverse_sms::SenderMatch,
    };

    use super::*;

    #[test]
    fn sandbox_addresses_are_documentation_addresses() {
        for (address, expected) in [
            ("203.0.113.0", Some(SimulatedLocation::Mobile)),
            ("203.0.113.127", Some(SimulatedLocation::Mobile)),
            ("::ffff:203.0.113.128", Some(SimulatedLocation::MobileWithoutProducts)),
            ("198.51.100.9", Some(SimulatedLocation::NotMobile)),
            ("192.0.2.1", Some(SimulatedLocation::Unknown)),
            ("127.0.0.1", None),
            ("2001:db8::1", None),
        ] {
            assert_eq!(SimulatedLocation::of(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn sms_of_simulated_numbers_follow_their_script() {
        const CLAIMED: NumberHash = NumberHash([1; 32]);
        const OTHER: NumberHash = NumberHash([2; 32]);
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let check = |tail: &str| ReverseSmsCheck {
            id: CheckId(uuid::Uuid::from_u128(1)),
            project: ProjectId(uuid::Uuid::from_u128(2)),
            product: Product::ReverseSms,
            mode: Mode::Sandbox,
            network: NETWORK_ID.parse().ok(),
            claimed: Some(StoredNumber { hash: CLAIMED, tail: tail.parse().unwrap() }),
            reference: None,
            callback_url: None,
            verification: None,
            redirect_url: None,
            created_at: at(0),
            expires_at: at(300),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        for (tail, from, expected) in [
            ("00", CLAIMED, Some((CheckStatus::Completed, Some(SenderMatch(true))))),
            ("00", OTHER, Some((CheckStatus::Completed, Some(SenderMatch(false))))),
            ("96", CLAIMED, Some((CheckStatus::Completed, Some(SenderMatch(true))))),
            ("01", CLAIMED, Some((CheckStatus::Completed, Some(SenderMatch(false))))),
            ("95", CLAIMED, Some((CheckStatus::Completed, Some(SenderMatch(false))))),
            ("99", CLAIMED, Some((CheckStatus::Error, None))),
            ("98", CLAIMED, None),
        ] {
            let check = check(tail);
            let sender = SandboxAccess::default().sms_sender(&check, HashedSender::Number(from));
            let concluded = sender.map(|sender| check.evaluate_sms(sender, at(10)).unwrap().into_check());
            assert_eq!(concluded.map(|check| (check.status(), check.verdict().copied())), expected, "{tail}");
        }
    }
}
