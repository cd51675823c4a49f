//! Secure SNA and Discovery ("silent" products): the operator identifies the device by its mobile connection.
//!
//! The operator's verdict stays encrypted until the client redeems the code with which the device returns. The code
//! proves that the identified device is the one that the client's end-user holds.
//!
//! [`SilentWay`]s of a check differ in how the device reaches the operator. Only the operator's answer is a verdict.

mod app_origin;
mod way;

use std::net::IpAddr;

use jiff::Timestamp;

use crate::{
    lifecycle::{AlreadyConcluded, Check, CheckOutcome, Concluded, DiscoveredNumber, ErrorCode, Verdict},
    network::{AddressNetwork, NetworkId},
};

pub use app_origin::{AppOrigin, InvalidAppOrigin};
pub use way::{SilentWay, WalletFailure};

/// Time from the creation of a check within which its code must be redeemed.
pub const CHECK_TTL_SECONDS: u16 = 120;
/// Number of wrong codes after which the check is concluded with an error.
pub const MAX_WRONG_CODES: u32 = 3;

/// The operator's verdict about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorVerdict {
    /// Secure SNA: whether the device has the claimed number.
    Match(bool),
    /// Discovery: the number that the device has.
    Number(DiscoveredNumber),
}

impl Verdict for OperatorVerdict {
    fn matched(&self) -> Option<bool> {
        match self {
            OperatorVerdict::Match(matched) => Some(*matched),
            OperatorVerdict::Number(_) => None,
        }
    }

    fn discovered_number(&self) -> Option<&DiscoveredNumber> {
        match self {
            OperatorVerdict::Match(_) => None,
            OperatorVerdict::Number(number) => Some(number),
        }
    }
}

pub type SilentCheck = Check<OperatorVerdict>;

impl Check<OperatorVerdict> {
    /// Concludes the check with the operator's verdict, after the code was redeemed.
    pub fn conclude_with_verdict(
        self,
        verdict: OperatorVerdict,
        at: Timestamp,
    ) -> Result<Concluded<OperatorVerdict>, AlreadyConcluded> {
        self.conclude_unless_expired(CheckOutcome::Completed(verdict), at)
    }

    pub fn conclude_with_error(
        self,
        code: ErrorCode,
        at: Timestamp,
    ) -> Result<Concluded<OperatorVerdict>, AlreadyConcluded> {
        self.conclude_unless_expired(CheckOutcome::Error(code), at)
    }
}

/// Compares the IP address and network of a device that has opened a check's URL with those that the check expects.
#[derive(Clone, Copy, Debug)]
pub struct DeviceAddressComparison<'a> {
    /// IP address from which the device opened the URL.
    pub ip: IpAddr,
    /// Network to which that address belongs.
    pub network: &'a AddressNetwork,
    /// IP address that the client gave for the device when it created the check. `None`: the client gave none.
    pub announced_ip: Option<IpAddr>,
    /// Network that serves the claimed number. `None`: the check has no claimed number.
    pub claimed_network: Option<&'a NetworkId>,
}

impl DeviceAddressComparison<'_> {
    /// Returns the device's network. Fails if this network does not serve the claimed number, or if the device's
    /// address is not the announced one. `is_same` returns whether two networks share a connector, as a brand and its
    /// host network do.
    pub fn resolve_network(
        &self,
        is_same: impl FnOnce(&NetworkId, &NetworkId) -> bool,
    ) -> Result<NetworkId, ErrorCode> {
        let network = match self.network {
            AddressNetwork::Mobile(network) => network,
            AddressNetwork::NotMobile => return Err(ErrorCode::NotMobileIp),
            AddressNetwork::Unknown => return Err(ErrorCode::MnoNotSupported),
        };
        if self.claimed_network.is_some_and(|claimed| claimed != network && !is_same(claimed, network)) {
            return Err(ErrorCode::IpMsisdnMismatch);
        }
        if self.announced_ip.is_some_and(|announced| announced.to_canonical() != self.ip.to_canonical()) {
            return Err(ErrorCode::IpMismatch);
        }
        Ok(network.clone())
    }
}

#[cfg(test)]
mod tests;
