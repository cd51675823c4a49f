//! Which network a device's address is of.

use std::{fmt, net::IpAddr};

pub use ringtrue_domain::network::Located;

/// Tables of addresses. Asked on hot paths: a look-up neither waits nor allocates much.
pub trait AddressBook: fmt::Debug + Send + Sync {
    fn locate(&self, address: IpAddr) -> Located;
}
