//! The configured networks, and the receivers: the numbers to which their subscribers send SMS.

use std::collections::BTreeMap;

use super::{Network, NetworkId};
use crate::phone::{Country, Msisdn};

/// All configured networks and receivers. A reload of the configuration replaces it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDirectory {
    networks: BTreeMap<NetworkId, Network>,
    /// Network ids by number prefix.
    prefixes: BTreeMap<String, NetworkId>,
    /// Network ids by alias id, which is a further PLMN id of the same network.
    aliases: BTreeMap<NetworkId, NetworkId>,
    countries: Vec<(Country, ReceiverPool)>,
    global: ReceiverPool,
}

/// Numbers to which end-users send their SMS. Checks use them in turn.
pub type ReceiverPool = Vec<Msisdn>;

/// The subscribers for whom a receiver pool is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolScope<'a> {
    /// Subscribers of the network.
    Network(&'a Network),
    /// Subscribers of networks in the country that have no working receiver of their own.
    Country(Country),
    /// All other subscribers.
    Global,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    #[error("duplicate network {0}")]
    DuplicateNetwork(NetworkId),
    #[error("the prefix {prefix} is assigned to both {first} and {second}")]
    SharedPrefix { prefix: String, first: NetworkId, second: NetworkId },
    #[error("the id {alias} is assigned to both {first} and {second}")]
    SharedAlias { alias: NetworkId, first: NetworkId, second: NetworkId },
    #[error("invalid prefix {0}: a prefix is 1 to 15 digits without a leading zero")]
    InvalidPrefix(String),
}

impl NetworkDirectory {
    pub fn new(
        networks: Vec<Network>,
        countries: Vec<(Country, ReceiverPool)>,
        global: ReceiverPool,
    ) -> Result<Self, DirectoryError> {
        let mut directory = NetworkDirectory { countries, global, ..NetworkDirectory::default() };
        for network in networks {
            for prefix in &network.prefixes {
                let is_valid = (1..=15).contains(&prefix.len())
                    && !prefix.starts_with('0')
                    && prefix.bytes().all(|byte| byte.is_ascii_digit());
                if !is_valid {
                    return Err(DirectoryError::InvalidPrefix(prefix.clone()));
                }
                if let Some(first) = directory.prefixes.insert(prefix.clone(), network.id.clone()) {
                    let (prefix, second) = (prefix.clone(), network.id);
                    return Err(DirectoryError::SharedPrefix { prefix, first, second });
                }
            }
            if let Some(first) = directory.networks.insert(network.id.clone(), network) {
                return Err(DirectoryError::DuplicateNetwork(first.id));
            }
        }
        directory.aliases = directory.index_aliases()?;
        Ok(directory)
    }

    /// Indexes networks by alias id. An alias id must be unique. Alias names may repeat, for example a brand in several
    /// countries.
    fn index_aliases(&self) -> Result<BTreeMap<NetworkId, NetworkId>, DirectoryError> {
        let mut aliases = BTreeMap::new();
        for network in self.networks.values() {
            for alias in network.alias_ids() {
                let first = if self.networks.contains_key(&alias) { Some(&alias) } else { aliases.get(&alias) };
                if let Some(first) = first.filter(|first| **first != network.id).cloned() {
                    return Err(DirectoryError::SharedAlias { alias, first, second: network.id.clone() });
                }
                aliases.insert(alias, network.id.clone());
            }
        }
        Ok(aliases)
    }

    pub fn get(&self, id: &NetworkId) -> Option<&Network> {
        self.networks.get(id)
    }

    /// Finds a network by its id or an alias id.
    pub fn find_by_any_id(&self, id: &NetworkId) -> Option<&Network> {
        self.networks.get(id).or_else(|| self.networks.get(self.aliases.get(id)?))
    }

    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.networks.values()
    }

    /// Finds the network with the longest prefix that matches a number.
    pub fn find_by_prefix(&self, number: &Msisdn) -> Option<&Network> {
        let digits = number.digits();
        let id = (1..=digits.len()).rev().find_map(|length| self.prefixes.get(&digits[..length]))?;
        self.networks.get(id)
    }

    /// Returns the non-empty receiver pools for a network, most specific first.
    pub fn pools_for_network<'a>(
        &'a self,
        network: &'a Network,
    ) -> impl Iterator<Item = (PoolScope<'a>, &'a ReceiverPool)> {
        let countries = self.countries.iter().filter(|(country, _)| *country == network.country);
        let country = countries.map(|(country, pool)| (PoolScope::Country(*country), pool));
        let own = [(PoolScope::Network(network), &network.receivers)].into_iter();
        own.chain(country).chain([(PoolScope::Global, &self.global)]).filter(|(_, pool)| !pool.is_empty())
    }

    /// Returns all non-empty receiver pools.
    pub fn all_pools(&self) -> impl Iterator<Item = (PoolScope<'_>, &ReceiverPool)> {
        let of_networks = self.networks.values().map(|network| (PoolScope::Network(network), &network.receivers));
        let of_countries = self.countries.iter().map(|(country, pool)| (PoolScope::Country(*country), pool));
        let all = of_networks.chain(of_countries).chain([(PoolScope::Global, &self.global)]);
        all.filter(|(_, pool)| !pool.is_empty())
    }

    /// Returns the receivers of all pools.
    pub fn receivers(&self) -> impl Iterator<Item = &Msisdn> {
        let of_networks = self.networks.values().flat_map(|network| &network.receivers);
        of_networks.chain(self.countries.iter().flat_map(|(_, pool)| pool)).chain(&self.global)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::Mode;

    fn number(text: &str) -> Msisdn {
        Msisdn::parse(text, Mode::Live).unwrap()
    }

    fn network(id: &str, prefixes: &[&str], receivers: &[&str]) -> Network {
        Network {
            id: id.parse().unwrap(),
            name: id.to_owned(),
            aliases: vec![],
            country: "GB".parse().unwrap(),
            prefixes: prefixes.iter().map(ToString::to_string).collect(),
            receivers: receivers.iter().map(|text| number(text)).collect(),
        }
    }

    #[test]
    fn longest_prefix_wins() {
        let networks = vec![network("23410", &["447", "447701"], &[]), network("23420", &["44770"], &[])];
        let directory = NetworkDirectory::new(networks, vec![], vec![]).unwrap();
        for (text, id) in [
            ("+447700900123", Some("23420")),
            ("+447701900123", Some("23410")),
            ("+447900900123", Some("23410")),
            ("+4915112345678", None),
        ] {
            let found = directory.find_by_prefix(&number(text)).map(|network| network.id.as_str());
            assert_eq!(found, id, "{text}");
        }
    }

    #[test]
    fn most_specific_pool_comes_first() {
        let own = network("23410", &[], &["+447700900001"]);
        let none = network("23420", &[], &[]);
        let country = ("GB".parse().unwrap(), vec![number("+447700900002")]);
        let other_country = ("DE".parse().unwrap(), vec![number("+4915112345678")]);
        let global = vec![number("+447700900003")];
        let directory =
            NetworkDirectory::new(vec![own.clone(), none.clone()], vec![other_country, country], global).unwrap();
        let tails = |network: &Network| {
            directory.pools_for_network(network).map(|(_, pool)| pool[0].tail().value()).collect::<Vec<_>>()
        };
        assert_eq!(tails(&own), [1, 2, 3]);
        assert_eq!(tails(&none), [2, 3]);
        assert_eq!(directory.receivers().count(), 4);
        let audiences: Vec<_> = directory.all_pools().map(|(audience, _)| audience).collect();
        let (de, gb) = (PoolScope::Country("DE".parse().unwrap()), PoolScope::Country("GB".parse().unwrap()));
        assert_eq!(audiences, [PoolScope::Network(&own), de, gb, PoolScope::Global]);
    }

    #[test]
    fn network_is_found_by_alias_id() {
        let o2 = Network { aliases: vec!["O2".to_owned(), "23411".to_owned()], ..network("23410", &[], &[]) };
        let brand = Network { aliases: vec!["O2".to_owned()], ..network("26207", &[], &[]) };
        let directory = NetworkDirectory::new(vec![o2, brand], vec![], vec![]).unwrap();
        for (id, known) in [("23410", Some("23410")), ("23411", Some("23410")), ("23412", None)] {
            let found = directory.find_by_any_id(&id.parse().unwrap()).map(|network| network.id.as_str());
            assert_eq!(found, known, "{id}");
        }
    }

    #[test]
    fn conflicting_networks_are_rejected() {
        let build = |networks| NetworkDirectory::new(networks, vec![], vec![]);
        assert!(matches!(
            build(vec![network("23410", &[], &[]), network("23410", &[], &[])]),
            Err(DirectoryError::DuplicateNetwork(_))
        ));
        assert!(matches!(
            build(vec![network("23410", &["447"], &[]), network("23420", &["447"], &[])]),
            Err(DirectoryError::SharedPrefix { .. })
        ));
        let alias = |id: &str, alias: &str| Network { aliases: vec![alias.to_owned()], ..network(id, &[], &[]) };
        for (networks, first) in [
            (vec![alias("23410", "23411"), alias("23420", "23411")], "23410"),
            (vec![alias("23410", "23420"), network("23420", &[], &[])], "23420"),
        ] {
            let error = build(networks).unwrap_err();
            assert!(matches!(&error, DirectoryError::SharedAlias { first: of, .. } if of.as_str() == first), "{error}");
        }
        for bad in ["", "+44", "044", "44x", "1234567890123456"] {
            assert!(
                matches!(build(vec![network("23410", &[bad], &[])]), Err(DirectoryError::InvalidPrefix(_))),
                "{bad}"
            );
        }
    }
}
