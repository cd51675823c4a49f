//! Access to mobile operators: the network of a number or address, and the receiver or connector to use.
//!
//! Live projects use the configured networks ([`LiveAccess`]). Sandbox projects use the simulated operator, which the
//! engine gets as a dependency. [`Operators::for_mode`] is the only place that distinguishes the two.

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
    tenancy::{Mode, Project},
};
use strum::VariantArray as _;

pub(crate) use live::LiveAccess;

use crate::{
    lookups::eligibility::{Eligibility, EligibilityError, EligibilityExplanation, EligibilitySubject},
    ports::{silent::SilentConnector, sim_swap::SimSwapConnector},
};

/// Why a number has no route for a product.
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

/// A number's network, and a receiver for SMS from it.
#[derive(Clone, Debug)]
pub struct SmsRoute {
    pub network: NetworkId,
    pub receiver: Msisdn,
}

/// A number's network, and the connector to its operator.
#[derive(Clone, Debug)]
pub struct SimSwapRoute {
    pub network: NetworkId,
    pub connector: Arc<dyn SimSwapConnector>,
}

/// A device's network, and the connector to its operator.
#[derive(Clone, Debug)]
pub struct SilentRoute {
    pub network: NetworkId,
    pub connector: Arc<dyn SilentConnector>,
    /// The SIM that a simulated operator assumes in the device.
    pub simulated_sim: Option<Msisdn>,
}

/// A device that opened the URL of a check.
#[derive(Clone, Copy, derive_more::Debug)]
pub struct DeviceVisit<'a> {
    #[debug("{}", check.id)]
    pub check: &'a SilentCheck,
    /// The claimed number. `None` for Discovery.
    pub number: Option<&'a Msisdn>,
    /// The `device_ip` of the create request.
    #[debug(skip)]
    pub announced_ip: Option<IpAddr>,
    #[debug(skip)]
    pub device_ip: IpAddr,
    /// The `sim` parameter of the URL, which only a simulated operator uses.
    #[debug(skip)]
    pub sim: Option<&'a str>,
}

/// The SMS that the end-user of a verification has to send. Masked: it is a credential.
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
    /// Concludes the check.
    Failed(ErrorCode),
}

impl From<ErrorCode> for SilentRouteError {
    fn from(code: ErrorCode) -> Self {
        SilentRouteError::Failed(code)
    }
}

/// The operators that projects of one mode reach.
#[async_trait]
pub trait OperatorAccess: fmt::Debug + Send + Sync {
    /// Limit on the checks of one phone number. `None`: unlimited.
    fn number_limit(&self) -> Option<NumberLimit>;

    /// The route for a Reverse SMS check, if the project may use it.
    async fn sms_route(&self, project: &Project, number: &Msisdn) -> Result<SmsRoute, RouteError>;

    /// Called when a verification has begun to wait for this SMS of the end-user. Only simulated operators act on it.
    fn on_sms_step_begun(&self, _project: &Project, _sms: &ExpectedSms<'_>) {}

    /// The sender of an SMS with the code of a check, as the operator reports it. `None`: the SMS is ignored.
    fn sms_sender(&self, check: &ReverseSmsCheck, sender: HashedSender) -> Option<HashedSender>;

    /// The route for a SIM Swap check, if the project may use it.
    async fn sim_swap_route(&self, project: &Project, number: &Msisdn) -> Result<SimSwapRoute, RouteError>;

    /// The network of a claimed number, if the project may use it for the product.
    async fn silent_network(
        &self,
        project: &Project,
        product: Product,
        number: &Msisdn,
    ) -> Result<NetworkId, RouteError>;

    fn silent_route(&self, visit: DeviceVisit<'_>) -> Result<SilentRoute, SilentRouteError>;

    fn silent_connector(&self, name: &str) -> Option<Arc<dyn SilentConnector>>;

    /// Compares the addresses before and after the redirect, to detect a redirect URL passed to another device.
    fn may_be_same_device(&self, before: IpAddr, after: IpAddr, announced: Option<IpAddr>) -> bool;

    /// Whether the project may use Reverse SMS instead of a silent check on this network.
    fn supports_reverse_sms(&self, project: &Project, network: &NetworkId) -> bool;

    async fn eligibility_of_number(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError>;

    fn eligibility_of_address(&self, project: &Project, address: IpAddr) -> Result<Eligibility, EligibilityError>;

    /// Without a project, authorisation is not checked.
    async fn explain_eligibility(
        &self,
        project: Option<&Project>,
        subject: &EligibilitySubject,
    ) -> EligibilityExplanation;
}

/// The operators of both modes.
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

    /// Searches the connectors of both modes.
    pub(crate) fn silent_connector(&self, name: &str) -> Option<Arc<dyn SilentConnector>> {
        Mode::VARIANTS.iter().find_map(|&mode| self.for_mode(mode).silent_connector(name))
    }
}
