//! Access to mobile operators: finds the network of a number or address, and the receiver or connector to use.
//!
//! Live projects use the configured networks ([`LiveAccess`]). Sandbox projects use the simulated operator, which the
//! engine gets as a dependency. Only [`Operators::for_mode`] distinguishes the two.

mod live;

use std::{fmt, net::IpAddr, sync::Arc};

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::ErrorCode,
    network::NetworkId,
    phone::{InvalidPhoneNumber, Msisdn},
    product::Product,
    reverse_sms::{HashedSender, NumberLimit, ReverseSmsCheck},
    silent::SilentCheck,
    tenancy::{Mode, Project, ProjectId},
};
use strum::VariantArray as _;

pub(crate) use live::LiveAccess;

use crate::{
    lookups::eligibility::{Eligibility, EligibilityError, EligibilityExplanation, EligibilitySubject},
    ports::{operator_tokens::OperatorTokenVerifier, silent::SilentConnector, sim_swap::SimSwapConnector},
};

/// The reason why a number cannot be checked with a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("no supported operator serves this number")]
    MnoNotSupported,
    #[error("silent checks are not supported for this number; use Reverse SMS")]
    OnlyReverseSms,
    #[error("this project is not allowed to use the number's network for this product")]
    NetworkNotAllowed,
    #[error("number lookup unavailable; try again later")]
    LookupUnavailable,
}

/// The network of a number, and the receiver to which its subscribers send their SMS.
#[derive(Clone, Debug)]
pub struct SmsRoute {
    pub network: NetworkId,
    pub receiver: Msisdn,
}

/// The network of a number, and the SIM Swap connector to its operator.
#[derive(Clone, Debug)]
pub struct SimSwapRoute {
    pub network: NetworkId,
    pub connector: Arc<dyn SimSwapConnector>,
}

/// The network of a device, and the connector to its operator for silent checks.
#[derive(Clone, Debug)]
pub struct SilentRoute {
    pub network: NetworkId,
    pub connector: Arc<dyn SilentConnector>,
    /// The number of the SIM that the simulated operator assumes in the device. `None` for live checks.
    pub simulated_sim: Option<Msisdn>,
}

/// A request from a device that has opened the URL of a silent check.
#[derive(Clone, Copy, derive_more::Debug)]
pub struct DeviceVisit<'a> {
    #[debug("{}", check.id)]
    pub check: &'a SilentCheck,
    /// The number that the end-user claims to have. `None`: Discovery finds it, or it follows later.
    pub number: Option<&'a Msisdn>,
    /// The device's address that the API client announced as `device_ip` in the create request.
    #[debug(skip)]
    pub announced_ip: Option<IpAddr>,
    #[debug(skip)]
    pub device_ip: IpAddr,
    /// The `sim` parameter of the URL. Only the simulated operator uses it.
    #[debug(skip)]
    pub sim: Option<&'a str>,
}

/// The SMS that the end-user of a verification has to send. Debug output omits its fields, because anyone who knows the
/// text can send it.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("ExpectedSms")]
pub struct ExpectedSms<'a> {
    pub from: &'a Msisdn,
    pub to: &'a Msisdn,
    pub body: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilentRouteError {
    InvalidSim(InvalidPhoneNumber),
    /// The check is concluded with this error.
    Failed(ErrorCode),
}

impl From<ErrorCode> for SilentRouteError {
    fn from(code: ErrorCode) -> Self {
        SilentRouteError::Failed(code)
    }
}

/// The operators that projects of one mode (live or sandbox) use.
#[async_trait]
pub trait OperatorAccess: fmt::Debug + Send + Sync {
    /// Returns the limit on the number of checks for one phone number. `None`: unlimited.
    fn number_limit(&self) -> Option<NumberLimit>;

    /// Returns the route for a Reverse SMS check of a number. Fails if the number's network does not support the
    /// product, or the project may not use it.
    async fn sms_route(&self, project: &Project, number: &Msisdn) -> Result<SmsRoute, RouteError>;

    /// Called when a verification begins to wait for this SMS from the end-user, so that the simulated operator can
    /// send it. The implementation for live projects ignores the call.
    fn on_sms_step_begun(&self, _project: &Project, _sms: &ExpectedSms<'_>) {}

    /// Returns the sender to compare with the number of a check, after an SMS with the code of the check has arrived
    /// from `sender`. The simulated operator may return another sender, or `None` to ignore the SMS, depending on the
    /// last digits of the check's number.
    fn sms_sender(&self, check: &ReverseSmsCheck, sender: HashedSender) -> Option<HashedSender>;

    /// Returns the route for a SIM Swap check of a number. Fails if the number's network does not support the product,
    /// or the project may not use it.
    async fn sim_swap_route(&self, project: &Project, number: &Msisdn) -> Result<SimSwapRoute, RouteError>;

    /// Returns the network of the claimed number of a silent check. Fails if that network does not support the product,
    /// or the project may not use it.
    async fn silent_network(
        &self,
        project: &Project,
        product: Product,
        number: &Msisdn,
    ) -> Result<NetworkId, RouteError>;

    fn silent_route(&self, visit: DeviceVisit<'_>) -> Result<SilentRoute, SilentRouteError>;

    fn silent_connector(&self, name: &str) -> Option<Arc<dyn SilentConnector>>;

    /// Returns a connector that verifies numbers of a network by tokens from wallets. `None`: its operator accepts none.
    fn operator_token_connector(&self, network: &NetworkId) -> Option<Arc<dyn SilentConnector>>;

    /// Returns a connector that verifies numbers by tokens of SIMs of this network, given as MCC and MNC. `None` also if
    /// the project may not use that network.
    fn operator_token_connector_of_carrier(
        &self,
        project: ProjectId,
        carrier: &str,
    ) -> Option<Arc<dyn SilentConnector>>;

    /// Like [`operator_token_connector`](Self::operator_token_connector), before a user is offered the wallet. `None`
    /// also if the operator cannot be asked at present.
    fn available_operator_token_connector(&self, network: &NetworkId) -> Option<Arc<dyn SilentConnector>> {
        let connector = self.operator_token_connector(network)?;
        connector.operator_token_verifier().is_some_and(OperatorTokenVerifier::is_available).then_some(connector)
    }

    /// Whether the address of a device may be the one that the API client announced.
    fn is_announced_address(&self, announced: Option<IpAddr>, address: IpAddr) -> bool {
        announced.is_none_or(|announced| announced.to_canonical() == address.to_canonical())
    }

    /// Compares the addresses of the device before and after the redirect to the operator. `false`: another device has
    /// returned, so someone may have passed the operator's URL on to it.
    fn may_be_same_device(&self, before: IpAddr, after: IpAddr, announced: Option<IpAddr>) -> bool;

    /// Returns whether the project may use Reverse SMS on this network, as an alternative to a silent check.
    fn supports_reverse_sms(&self, project: &Project, network: &NetworkId) -> bool;

    async fn eligibility_of_number(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError>;

    fn eligibility_of_address(&self, project: &Project, address: IpAddr) -> Result<Eligibility, EligibilityError>;

    /// Whether the operator may verify that a device at this address has a number that is known already.
    fn may_verify_device(&self, project: &Project, address: IpAddr) -> bool {
        self.may_identify_device(project, Product::SecureSna, address, None)
    }

    /// Whether the operator may recognise a device at this address for a silent product, without knowing its number.
    /// `sim` is the number of the SIM that a simulated device names.
    fn may_identify_device(&self, project: &Project, product: Product, address: IpAddr, _sim: Option<&str>) -> bool {
        let eligibility = self.eligibility_of_address(project, address);
        eligibility.is_ok_and(|eligibility| eligibility.products.contains(&product))
    }

    /// Explains which products are available to an end-user, and why others are not. Without a `project`, does not
    /// consider the permissions of projects.
    async fn explain_eligibility(
        &self,
        project: Option<&Project>,
        subject: &EligibilitySubject,
    ) -> EligibilityExplanation;
}

/// The operators for live and for sandbox projects.
#[derive(Debug)]
pub(crate) struct Operators {
    pub live: LiveAccess,
    pub sandbox: Arc<dyn OperatorAccess>,
}

impl Operators {
    pub(crate) fn for_mode(&self, mode: Mode) -> &dyn OperatorAccess {
        match mode {
            Mode::Live => &self.live,
            Mode::Sandbox => &*self.sandbox,
        }
    }

    /// Finds a connector by name, among the connectors of both modes.
    pub(crate) fn silent_connector(&self, name: &str) -> Option<Arc<dyn SilentConnector>> {
        Mode::VARIANTS.iter().find_map(|&mode| self.for_mode(mode).silent_connector(name))
    }
}
