//! Which network a device's address is of.

use std::{fmt, net::IpAddr};

use ringtrue_domain::network::NetworkId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    Mobile(NetworkId),
    /// Known, and not an address of mobile devices.
    NotMobile,
    /// Private, reserved, or of nobody we know.
    Unknown,
}

/// Tables of addresses. Asked on hot paths: a look-up neither waits nor allocates much.
pub trait AddressBook: fmt::Debug + Send + Sync {
    fn locate(&self, address: IpAddr) -> Located;
}
