//! Sources that find the network of a phone number or of an IP address.

use std::{fmt, net::IpAddr};

use async_trait::async_trait;
use ringtrue_domain::{network::NetworkId, phone::Msisdn};

pub use ringtrue_domain::network::AddressNetwork;

/// What one source knows about the network that serves a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The current network, after any porting.
    Network(NetworkId),
    /// The number is not assigned to a subscriber. A number whose phone is switched off is assigned.
    NoSubscriber,
    /// The number is in service, but the source's identifier of the network, such as an operator id, matches no
    /// configured network. The next source is tried, because it may return the network's id. The number's prefix is
    /// not used, because it would name a configured network.
    OtherNetwork,
    /// The source has no data about the number; the next source is tried.
    NoData,
}

/// A failed lookup; the next source is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LookupError {
    #[error("no response within the timeout")]
    Timeout,
    #[error("unreachable")]
    Unreachable,
    #[error("request refused: check credentials and quota")]
    Refused,
    #[error("invalid response")]
    InvalidResponse,
}

/// A service that finds the network of a number: ENUM, HLR lookup, Telco Finder.
///
/// Sources log the details of failures, without the number.
#[async_trait]
pub trait LookupSource: fmt::Debug + Send + Sync {
    /// Name of the source in the configuration.
    fn name(&self) -> &str;

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError>;
}

/// Tables that map IP addresses to networks. Lookups run on hot paths: they must not block and should not allocate.
pub trait AddressNetworkTable: fmt::Debug + Send + Sync {
    fn network_of_address(&self, address: IpAddr) -> AddressNetwork;
}
