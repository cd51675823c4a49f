//! Maps a device's IP address to its mobile network.
//!
//! Sources, in this order, until one matches:
//!
//! 1. the configured address ranges, agreed with operators: a match is a mobile device;
//! 2. MaxMind's ISP database, for ranges with MCC and MNC;
//! 3. the configured maps from ISP names and autonomous systems to networks.
//!
//! MaxMind's Connection-Type database restricts the last two: an address with another connection type than cellular is
//! not mobile. The maps apply only to cellular addresses, since an ISP or autonomous system may also have fixed lines;
//! without this database they apply to every address.
//!
//! An [`IpRouting`] is immutable and in memory; reloading the files creates a new one.
//!
//! Deliberately absent: the IPv4 address embedded in 6to4, Teredo and NAT64 addresses. Its network is not necessarily
//! the device's.

mod maxmind;
mod range_file;
mod table;

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::PathBuf,
};

use ipnet::IpNet;
use ringtrue_domain::{network::NetworkId, web_url::AddressPolicy};
use ringtrue_engine::ports::{IpLocation, IpLocator};

pub use self::range_file::RangeLineError;
use self::{
    maxmind::{Database, DatabaseKind},
    table::{Owner, RangeTable},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpRoutingConfig {
    pub ranges: BTreeMap<NetworkId, Vec<IpNet>>,
    /// Files with further ranges: one network id and range per line.
    pub range_files: Vec<PathBuf>,
    /// `GeoIP2-ISP`.
    pub isp_database: Option<PathBuf>,
    /// `GeoIP2-Connection-Type`.
    pub connection_type_database: Option<PathBuf>,
    /// `GeoLite2-ASN`: used without an ISP database.
    pub asn_database: Option<PathBuf>,
    /// ISP names, as in the ISP database.
    pub isps: BTreeMap<String, NetworkId>,
    pub autonomous_systems: BTreeMap<u32, NetworkId>,
}

#[derive(Debug, thiserror::Error)]
pub enum IpRoutingError {
    #[error("failed to read {path}: {problem}", path = .path.display())]
    Unreadable { path: PathBuf, problem: std::io::Error },
    #[error("{path}:{line}: {problem}", path = .path.display())]
    Line { path: PathBuf, line: usize, problem: RangeLineError },
    #[error("{path} is not a valid MaxMind database: {problem}", path = .path.display())]
    Corrupt { path: PathBuf, problem: String },
    #[error("{path} has the database type \"{found}\"; expected {expected}", path = .path.display())]
    WrongDatabaseType { path: PathBuf, found: String, expected: &'static str },
    #[error("the range {range} is assigned to both {one} and {other}")]
    ConflictingRange { range: IpNet, one: NetworkId, other: NetworkId },
}

/// Loaded ranges and databases.
#[derive(Debug)]
pub struct IpRouting {
    table: RangeTable,
    /// Indexed by [`Owner`].
    networks: Vec<NetworkId>,
    isp: Option<Database>,
    connection_type: Option<Database>,
    asn: Option<Database>,
    isps: HashMap<Box<str>, NetworkId>,
    autonomous_systems: HashMap<u32, NetworkId>,
}

/// Connection type of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionType {
    Cellular,
    Other,
    /// Not in the database.
    Unknown,
    NoDatabase,
}

impl IpRouting {
    /// Reads and verifies all files; slow for large databases.
    pub fn load(config: &IpRoutingConfig) -> Result<Self, IpRoutingError> {
        let mut network_index = NetworkIndex::default();
        let mut ranges = vec![];
        for (network, of_network) in &config.ranges {
            let owner = network_index.index_of(network);
            ranges.extend(of_network.iter().map(|range| (*range, owner)));
        }
        for path in &config.range_files {
            for (network, range) in range_file::read_range_file(path)? {
                ranges.push((range, network_index.index_of(&network)));
            }
        }
        let table = RangeTable::new(ranges).map_err(|conflict| {
            let [one, other] = conflict.owners.map(|owner| network_index.network(owner));
            IpRoutingError::ConflictingRange { range: conflict.range, one, other }
        })?;
        let open = |path: &Option<PathBuf>, kind| path.as_deref().map(|path| Database::open(path, kind)).transpose();
        Ok(IpRouting {
            table,
            networks: network_index.networks,
            isp: open(&config.isp_database, DatabaseKind::Isp)?,
            connection_type: open(&config.connection_type_database, DatabaseKind::ConnectionType)?,
            asn: open(&config.asn_database, DatabaseKind::Asn)?,
            isps: config.isps.iter().map(|(name, network)| (name.as_str().into(), network.clone())).collect(),
            autonomous_systems: config.autonomous_systems.clone().into_iter().collect(),
        })
    }

    /// Whether no source is configured.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.isp.is_none() && self.connection_type.is_none() && self.asn.is_none()
    }

    /// Uses the databases and the maps.
    fn locate_by_database(&self, address: IpAddr) -> IpLocation {
        let connection_type = self.connection_type(address);
        if connection_type == ConnectionType::Other {
            return IpLocation::NotMobile;
        }
        let provider = self.isp.as_ref().map(|database| database.provider(address)).unwrap_or_default();
        if let Some(network) = provider.network() {
            return IpLocation::Mobile(network);
        }
        if connection_type == ConnectionType::Unknown {
            return IpLocation::Unknown;
        }
        let by_isp = || self.isps.get(provider.isp?);
        let by_system = || {
            let system = provider.autonomous_system;
            let system = system.or_else(|| self.asn.as_ref()?.provider(address).autonomous_system)?;
            self.autonomous_systems.get(&system)
        };
        by_isp().or_else(by_system).map_or(IpLocation::Unknown, |network| IpLocation::Mobile(network.clone()))
    }

    fn connection_type(&self, address: IpAddr) -> ConnectionType {
        let Some(database) = &self.connection_type else { return ConnectionType::NoDatabase };
        match database.connection_type(address) {
            Some("Cellular") => ConnectionType::Cellular,
            Some(_) => ConnectionType::Other,
            None => ConnectionType::Unknown,
        }
    }
}

impl IpLocator for IpRouting {
    fn locate(&self, address: IpAddr) -> IpLocation {
        // Dual-stack sockets report 192.0.2.1 as `::ffff:192.0.2.1`.
        let address = address.to_canonical();
        if let Some(owner) = self.table.owner(address) {
            return self.networks.get(owner as usize).map_or(IpLocation::Unknown, |id| IpLocation::Mobile(id.clone()));
        }
        // Private addresses are known only from configured ranges.
        if AddressPolicy::default().permits(address) { self.locate_by_database(address) } else { IpLocation::Unknown }
    }
}

/// Assigns indexes to networks while a table is built.
#[derive(Default)]
struct NetworkIndex {
    networks: Vec<NetworkId>,
    indexes: HashMap<NetworkId, Owner>,
}

impl NetworkIndex {
    fn index_of(&mut self, network: &NetworkId) -> Owner {
        if let Some(index) = self.indexes.get(network) {
            return *index;
        }
        // At most a million network ids exist.
        let index = Owner::try_from(self.networks.len()).unwrap_or(Owner::MAX);
        self.networks.push(network.clone());
        self.indexes.insert(network.clone(), index);
        index
    }

    fn network(&self, index: Owner) -> NetworkId {
        self.networks[index as usize].clone()
    }
}
