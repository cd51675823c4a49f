//! Secure SNA and Discovery: the device is sent to its operator, who says by the network whose it is.
//!
//! What the operator says stays sealed until the caller redeems the code that the device brings back: the code proves
//! that the device that was asked about is the one in front of the caller.

use std::net::IpAddr;

use jiff::Timestamp;

use crate::{
    lifecycle::{AlreadyConcluded, Check, Concluded, DiscoveredNumber, ErrorCode, Outcome, Verdict},
    network::{Located, NetworkId},
};

/// From creation to redemption.
pub const WINDOW_SECONDS: u16 = 120;
/// The last of these wrong codes ends a check.
pub const WRONG_CODES: u32 = 3;

/// What the operator said of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Secure SNA: whether it has the claimed number.
    Match(bool),
    /// Discovery: its number.
    Number(DiscoveredNumber),
}

impl Verdict for Proof {
    fn matched(&self) -> Option<bool> {
        match self {
            Proof::Match(matched) => Some(*matched),
            Proof::Number(_) => None,
        }
    }

    fn discovered(&self) -> Option<&DiscoveredNumber> {
        match self {
            Proof::Match(_) => None,
            Proof::Number(number) => Some(number),
        }
    }
}

pub type SilentCheck = Check<Proof>;

impl Check<Proof> {
    /// Ends the check with what the operator said: its code was redeemed.
    pub fn redeem(self, proof: Proof, at: Timestamp) -> Result<Concluded<Proof>, AlreadyConcluded> {
        self.end(Outcome::Completed(proof), at)
    }

    /// Ends the check because nothing can be proved.
    pub fn fail(self, code: ErrorCode, at: Timestamp) -> Result<Concluded<Proof>, AlreadyConcluded> {
        self.end(Outcome::Error(code), at)
    }
}

/// A device that has opened a check's URL.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// Where it came from.
    pub address: IpAddr,
    /// What is known of that address.
    pub located: &'a Located,
    /// Where the caller said that it would come from.
    pub announced: Option<IpAddr>,
    /// The network of the claimed number, and whether a network is reached in the same way as that one: brands share
    /// the addresses of the network that they live on.
    pub claimed: Option<&'a NetworkId>,
}

impl Sighting<'_> {
    /// The network that the device is on, if its operator may be asked about it.
    pub fn network(&self, is_same: impl FnOnce(&NetworkId, &NetworkId) -> bool) -> Result<NetworkId, ErrorCode> {
        let network = match self.located {
            Located::Mobile(network) => network,
            Located::NotMobile => return Err(ErrorCode::NotMobileIp),
            Located::Unknown => return Err(ErrorCode::MnoNotSupported),
        };
        if self.claimed.is_some_and(|claimed| claimed != network && !is_same(claimed, network)) {
            return Err(ErrorCode::IpMsisdnMismatch);
        }
        if self.announced.is_some_and(|announced| announced.to_canonical() != self.address.to_canonical()) {
            return Err(ErrorCode::IpMismatch);
        }
        Ok(network.clone())
    }
}

#[cfg(test)]
mod tests;
