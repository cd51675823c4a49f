//! Secure SNA and Discovery ("silent" products): the operator identifies the device by its mobile connection.
//!
//! The operator's verdict stays sealed until the caller redeems the code that the device returns with. The code proves
//! that the identified device is the one that the caller's end-user holds.

use std::net::IpAddr;

use jiff::Timestamp;

use crate::{
    lifecycle::{AlreadyConcluded, Check, CheckOutcome, Concluded, DiscoveredNumber, ErrorCode, Verdict},
    network::{IpLocation, NetworkId},
};

/// Time from the creation of a check to the redemption of its code.
pub const CHECK_TTL_SECONDS: u16 = 120;
/// The last of these wrong codes concludes the check.
pub const MAX_WRONG_CODES: u32 = 3;

/// The operator's verdict about the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorVerdict {
    /// Secure SNA: whether the device has the claimed number.
    Match(bool),
    /// Discovery: the number of the device.
    Number(DiscoveredNumber),
}

impl Verdict for OperatorVerdict {
    fn matched(&self) -> Option<bool> {
        match self {
            OperatorVerdict::Match(matched) => Some(*matched),
            OperatorVerdict::Number(_) => None,
        }
    }

    fn discovered(&self) -> Option<&DiscoveredNumber> {
        match self {
            OperatorVerdict::Match(_) => None,
            OperatorVerdict::Number(number) => Some(number),
        }
    }
}

pub type SilentCheck = Check<OperatorVerdict>;

impl Check<OperatorVerdict> {
    /// Concludes the check with the operator's verdict after its code was redeemed.
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

/// The location of a device that opened the URL of a check.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLocation<'a> {
    /// IP address of the device.
    pub ip: IpAddr,
    /// Network of that address.
    pub location: &'a IpLocation,
    /// IP address that the caller announced.
    pub announced_ip: Option<IpAddr>,
    /// Network of the claimed number.
    pub claimed_network: Option<&'a NetworkId>,
}

impl DeviceLocation<'_> {
    /// Returns the network of the device if it is consistent with the claimed number and the announced address.
    /// `is_same`: whether two networks share a connector, as a brand and its host network do.
    pub fn resolve_network(
        &self,
        is_same: impl FnOnce(&NetworkId, &NetworkId) -> bool,
    ) -> Result<NetworkId, ErrorCode> {
        let network = match self.location {
            IpLocation::Mobile(network) => network,
            IpLocation::NotMobile => return Err(ErrorCode::NotMobileIp),
            IpLocation::Unknown => return Err(ErrorCode::MnoNotSupported),
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
