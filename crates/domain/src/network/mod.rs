//! Mobile networks: identifiers, configured networks, and the networks that a project may use.

use std::{fmt, str::FromStr};

use crate::{
    phone::{Country, Msisdn},
    product::Product,
};

mod directory;

pub use directory::{DirectoryError, NetworkDirectory, PoolScope, ReceiverPool};

/// PLMN id of a mobile network: MCC (three digits) and MNC (two or three digits).
///
/// It is stored inline, without a heap allocation, because lookups copy it often.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
#[debug("NetworkId({})", self.as_str())]
pub struct NetworkId {
    /// ASCII digits. The last byte is zero if the id has five digits.
    digits: [u8; 6],
}

impl NetworkId {
    pub fn as_str(&self) -> &str {
        let length = if self.digits[5] == 0 { 5 } else { 6 };
        // ASCII by construction.
        std::str::from_utf8(&self.digits[..length]).unwrap_or_default()
    }
}

crate::display_as_str::display_as_str!(NetworkId);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network id is five or six digits: MCC and MNC")]
pub struct InvalidNetworkId;

impl FromStr for NetworkId {
    type Err = InvalidNetworkId;

    fn from_str(text: &str) -> Result<Self, InvalidNetworkId> {
        let is_valid = (5..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_valid {
            return Err(InvalidNetworkId);
        }
        let mut digits = [0; 6];
        digits[..text.len()].copy_from_slice(text.as_bytes());
        Ok(NetworkId { digits })
    }
}

/// A mobile network in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    pub id: NetworkId,
    pub name: String,
    pub aliases: Vec<String>,
    pub country: Country,
    /// Prefixes of its phone numbers, in digits. If several networks match a number, the longest prefix wins.
    pub prefixes: Vec<String>,
    /// Receiver numbers for its subscribers. They are preferred to the country's receivers and the global ones.
    pub receivers: Vec<Msisdn>,
}

impl Network {
    /// Returns the aliases that are network ids. Other aliases are names.
    pub fn alias_ids(&self) -> impl Iterator<Item = NetworkId> {
        self.aliases.iter().filter_map(|alias| alias.parse().ok())
    }

    /// Whether the network's id or one of its aliases is in `ids`.
    pub fn matches_any(&self, ids: &[NetworkId]) -> bool {
        ids.contains(&self.id) || self.aliases.iter().any(|alias| ids.iter().any(|id| id.as_str() == alias))
    }
}

/// The networks to which one entry of a project's allowed networks applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkSelector {
    /// All current and future networks of the deployment. Written as `*`.
    All,
    One(NetworkId),
}

impl fmt::Display for NetworkSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkSelector::All => f.write_str("*"),
            NetworkSelector::One(id) => id.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a network id of five or six digits, or `*` for all networks")]
pub struct InvalidNetworkSelector;

impl FromStr for NetworkSelector {
    type Err = InvalidNetworkSelector;

    fn from_str(text: &str) -> Result<Self, InvalidNetworkSelector> {
        match text {
            "*" => Ok(NetworkSelector::All),
            _ => text.parse().map(NetworkSelector::One).map_err(|InvalidNetworkId| InvalidNetworkSelector),
        }
    }
}

impl From<NetworkId> for NetworkSelector {
    fn from(id: NetworkId) -> Self {
        NetworkSelector::One(id)
    }
}

/// An entry of a project's allowed networks: the networks, and the products that the project may use on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedNetwork {
    pub network: NetworkSelector,
    pub products: Vec<Product>,
}

impl AllowedNetwork {
    pub fn allows(&self, network: &NetworkId, product: Product) -> bool {
        let is_covered = match &self.network {
            NetworkSelector::All => true,
            NetworkSelector::One(id) => id == network,
        };
        is_covered && self.products.contains(&product)
    }
}

/// What is known about the network of an IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressNetwork {
    Mobile(NetworkId),
    /// A known address that does not belong to a mobile network.
    NotMobile,
    /// A private, reserved or unlisted address.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_ids_are_five_or_six_digits() {
        for good in ["23410", "310004"] {
            assert_eq!(good.parse::<NetworkId>().unwrap().as_str(), good);
        }
        let in_order = ["23410", "234100", "23411", "310004"].map(|id| id.parse::<NetworkId>().unwrap());
        assert!(in_order.is_sorted());
        for bad in ["", "2341", "2341000", "234-10", "２３４１０", "23410 "] {
            assert_eq!(bad.parse::<NetworkId>(), Err(InvalidNetworkId), "{bad}");
        }
    }
}
