//! Which network a number is of, and which numbers its subscribers text.

use std::collections::BTreeMap;

use super::{Network, NetworkId};
use crate::phone::{Country, Msisdn};

/// Everything that a deployment knows of networks. Replaced as a whole when the configuration is read anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDirectory {
    networks: BTreeMap<NetworkId, Network>,
    /// Digits that numbers begin with, and whose numbers those are.
    prefixes: BTreeMap<String, NetworkId>,
    /// Other ids that networks go by.
    aliases: BTreeMap<NetworkId, NetworkId>,
    countries: Vec<(Country, Pool)>,
    everybody: Pool,
}

/// Numbers to text, used in turn.
pub type Pool = Vec<Msisdn>;

/// Who texts the numbers of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience<'a> {
    /// The network's own subscribers.
    Network(&'a Network),
    /// Subscribers of networks in the country that have no numbers of their own, or none that is heard.
    Country(Country),
    /// Everybody else.
    Everybody,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    #[error("the network {0} is there twice")]
    Twice(NetworkId),
    #[error("the prefix {prefix} is of {first} and of {second}")]
    SharedPrefix { prefix: String, first: NetworkId, second: NetworkId },
    #[error("the id {alias} is of {first} and of {second}")]
    SharedAlias { alias: NetworkId, first: NetworkId, second: NetworkId },
    #[error("a prefix is 1 to 15 digits and does not begin with a zero: {0}")]
    NotAPrefix(String),
}

impl NetworkDirectory {
    pub fn new(
        networks: Vec<Network>,
        countries: Vec<(Country, Pool)>,
        everybody: Pool,
    ) -> Result<Self, DirectoryError> {
        let mut directory = NetworkDirectory { countries, everybody, ..NetworkDirectory::default() };
        for network in networks {
            for prefix in &network.prefixes {
                let shape_is_right = (1..=15).contains(&prefix.len())
                    && !prefix.starts_with('0')
                    && prefix.bytes().all(|byte| byte.is_ascii_digit());
                if !shape_is_right {
                    return Err(DirectoryError::NotAPrefix(prefix.clone()));
                }
                if let Some(first) = directory.prefixes.insert(prefix.clone(), network.id.clone()) {
                    let (prefix, second) = (prefix.clone(), network.id);
                    return Err(DirectoryError::SharedPrefix { prefix, first, second });
                }
            }
            if let Some(first) = directory.networks.insert(network.id.clone(), network) {
                return Err(DirectoryError::Twice(first.id));
            }
        }
        directory.aliases = directory.other_ids()?;
        Ok(directory)
    }

    /// Names may be shared, as those of brands are in several countries. Ids lead to one network only.
    fn other_ids(&self) -> Result<BTreeMap<NetworkId, NetworkId>, DirectoryError> {
        let mut aliases = BTreeMap::new();
        for network in self.networks.values() {
            for alias in network.other_ids() {
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

    /// A network by its id, or by one that it also goes by.
    pub fn known_as(&self, id: &NetworkId) -> Option<&Network> {
        self.networks.get(id).or_else(|| self.networks.get(self.aliases.get(id)?))
    }

    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.networks.values()
    }

    /// The network whose prefix fits a number best.
    pub fn by_prefix(&self, number: &Msisdn) -> Option<&Network> {
        let digits = number.digits();
        let id = (1..=digits.len()).rev().find_map(|length| self.prefixes.get(&digits[..length]))?;
        self.networks.get(id)
    }

    /// The pools that subscribers of a network may text, the nearest first. None of them is empty.
    pub fn pools<'a>(&'a self, network: &'a Network) -> impl Iterator<Item = (Audience<'a>, &'a Pool)> {
        let countries = self.countries.iter().filter(|(country, _)| *country == network.country);
        let country = countries.map(|(country, pool)| (Audience::Country(*country), pool));
        let own = [(Audience::Network(network), &network.receivers)].into_iter();
        own.chain(country).chain([(Audience::Everybody, &self.everybody)]).filter(|(_, pool)| !pool.is_empty())
    }

    /// Every pool, and whose it is. None of them is empty.
    pub fn all_pools(&self) -> impl Iterator<Item = (Audience<'_>, &Pool)> {
        let of_networks = self.networks.values().map(|network| (Audience::Network(network), &network.receivers));
        let of_countries = self.countries.iter().map(|(country, pool)| (Audience::Country(*country), pool));
        let all = of_networks.chain(of_countries).chain([(Audience::Everybody, &self.everybody)]);
        all.filter(|(_, pool)| !pool.is_empty())
    }

    /// Every number that anybody is told to text.
    pub fn receivers(&self) -> impl Iterator<Item = &Msisdn> {
        let of_networks = self.networks.values().flat_map(|network| &network.receivers);
        of_networks.chain(self.countries.iter().flat_map(|(_, pool)| pool)).chain(&self.everybody)
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
    fn the_longest_prefix_counts() {
        let networks = vec![network("23410", &["447", "447701"], &[]), network("23420", &["44770"], &[])];
        let directory = NetworkDirectory::new(networks, vec![], vec![]).unwrap();
        for (text, id) in [
            ("+447700900123", Some("23420")),
            ("+447701900123", Some("23410")),
            ("+447900900123", Some("23410")),
            ("+4915112345678", None),
        ] {
            let found = directory.by_prefix(&number(text)).map(|network| network.id.as_str());
            assert_eq!(found, id, "{text}");
        }
    }

    #[test]
    fn the_nearest_pool_comes_first() {
        let own = network("23410", &[], &["+447700900001"]);
        let none = network("23420", &[], &[]);
        let country = ("GB".parse().unwrap(), vec![number("+447700900002")]);
        let other_country = ("DE".parse().unwrap(), vec![number("+4915112345678")]);
        let everybody = vec![number("+447700900003")];
        let directory =
            NetworkDirectory::new(vec![own.clone(), none.clone()], vec![other_country, country], everybody).unwrap();
        let tails =
            |network: &Network| directory.pools(network).map(|(_, pool)| pool[0].tail().value()).collect::<Vec<_>>();
        assert_eq!(tails(&own), [1, 2, 3]);
        assert_eq!(tails(&none), [2, 3]);
        assert_eq!(directory.receivers().count(), 4);
        let audiences: Vec<_> = directory.all_pools().map(|(audience, _)| audience).collect();
        let (de, gb) = (Audience::Country("DE".parse().unwrap()), Audience::Country("GB".parse().unwrap()));
        assert_eq!(audiences, [Audience::Network(&own), de, gb, Audience::Everybody]);
    }

    #[test]
    fn a_network_is_known_by_its_other_ids() {
        let o2 = Network { aliases: vec!["O2".to_owned(), "23411".to_owned()], ..network("23410", &[], &[]) };
        let brand = Network { aliases: vec!["O2".to_owned()], ..network("26207", &[], &[]) };
        let directory = NetworkDirectory::new(vec![o2, brand], vec![], vec![]).unwrap();
        for (id, known) in [("23410", Some("23410")), ("23411", Some("23410")), ("23412", None)] {
            let found = directory.known_as(&id.parse().unwrap()).map(|network| network.id.as_str());
            assert_eq!(found, known, "{id}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let build = |networks| NetworkDirectory::new(networks, vec![], vec![]);
        assert!(matches!(
            build(vec![network("23410", &[], &[]), network("23410", &[], &[])]),
            Err(DirectoryError::Twice(_))
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
            assert!(matches!(build(vec![network("23410", &[bad], &[])]), Err(DirectoryError::NotAPrefix(_))), "{bad}");
        }
    }
}
