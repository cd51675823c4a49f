//! Mobile networks, by the number that operators know each other by.

use std::{fmt, str::FromStr};

use crate::{
    phone::{Country, Msisdn},
    product::Product,
};

mod directory;

pub use directory::{Audience, DirectoryError, NetworkDirectory, Pool};

/// A mobile network: its country code (MCC, three digits) and network code (MNC, two or three) in a row.
///
/// In place, and not a `String`: it is copied with every look-up.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetworkId {
    /// The last one is no digit, but zero, where there are five.
    digits: [u8; 6],
}

impl NetworkId {
    pub fn as_str(&self) -> &str {
        let length = if self.digits[5] == 0 { 5 } else { 6 };
        // They are ASCII by construction.
        std::str::from_utf8(&self.digits[..length]).unwrap_or_default()
    }
}

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkId({self})")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network id is five or six digits: the country code and the network code")]
pub struct NotANetworkId;

impl FromStr for NetworkId {
    type Err = NotANetworkId;

    fn from_str(text: &str) -> Result<Self, NotANetworkId> {
        let shape_is_right = (5..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if !shape_is_right {
            return Err(NotANetworkId);
        }
        let mut digits = [0; 6];
        digits[..text.len()].copy_from_slice(text.as_bytes());
        Ok(NetworkId { digits })
    }
}

/// A network that this deployment knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    pub id: NetworkId,
    pub name: String,
    pub aliases: Vec<String>,
    pub country: Country,
    /// The beginnings of its numbers, in digits. Of several that fit a number the longest counts.
    pub prefixes: Vec<String>,
    /// The numbers that its subscribers text, before those of the country or of everybody.
    pub receivers: Vec<Msisdn>,
}

impl Network {
    /// The ids among its aliases; the others are names.
    pub fn other_ids(&self) -> impl Iterator<Item = NetworkId> {
        self.aliases.iter().filter_map(|alias| alias.parse().ok())
    }

    /// Whether one of these ids is the network's, or one that it also goes by.
    pub fn is_among(&self, ids: &[NetworkId]) -> bool {
        ids.contains(&self.id) || self.aliases.iter().any(|alias| ids.iter().any(|id| id.as_str() == alias))
    }
}

/// The networks that an entry of a project's allowed networks is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkSelector {
    /// Written `*`: those that the deployment has now and those that it will have.
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
#[error("expected a network id, which is five or six digits, or `*` for all networks")]
pub struct NotANetworkSelector;

impl FromStr for NetworkSelector {
    type Err = NotANetworkSelector;

    fn from_str(text: &str) -> Result<Self, NotANetworkSelector> {
        match text {
            "*" => Ok(NetworkSelector::All),
            _ => text.parse().map(NetworkSelector::One).map_err(|NotANetworkId| NotANetworkSelector),
        }
    }
}

impl From<NetworkId> for NetworkSelector {
    fn from(id: NetworkId) -> Self {
        NetworkSelector::One(id)
    }
}

/// Networks that a project may use, and for which products: the authorisation gate.
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

/// What is known of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    Mobile(NetworkId),
    /// Known, and not an address of mobile devices.
    NotMobile,
    /// Private, reserved, or of nobody we know.
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
            assert_eq!(bad.parse::<NetworkId>(), Err(NotANetworkId), "{bad}");
        }
    }
}
