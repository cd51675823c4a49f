//! Mapping of IP addresses to mobile networks.

use std::{fmt, net::IpAddr};

pub use ringtrue_domain::network::IpLocation;

/// IP address tables. Lookups run on hot paths: they must not block and should not allocate.
pub trait IpLocator: fmt::Debug + Send + Sync {
    fn locate(&self, address: IpAddr) -> IpLocation;
}
