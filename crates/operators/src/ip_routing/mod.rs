//! From a device's address to its mobile network.
//!
//! What is asked, in this order, until one of them knows:
//!
//! 1. the deployment's own table of ranges, agreed with operators: a hit is a mobile device;
//! 2. MaxMind's ISP database, for ranges with a mobile country and network code;
//! 3. the deployment's maps from the names of providers, and from autonomous systems, to networks.
//!
//! MaxMind's Connection-Type database has a say in the last two: an address that is known to be of another kind is not
//! a mobile one. The maps hold only for addresses that it calls cellular, because providers and autonomous systems may
//! have lines of both kinds; where there is no such database, whoever wrote the maps is believed.
//!
//! Everything is in memory, and an [`IpRouting`] never changes: to read the files again is to load another one.
//!
//! Deliberately absent: a guess from 6to4, Teredo and NAT64 addresses at the IPv4 address in them. Whoever routes them
//! is not the network that the device is in.

mod databases;
mod list;
mod table;

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::PathBuf,
};

use ipnet::IpNet;
use ringtrue_domain::{network::NetworkId, web_url::AddressPolicy};
use ringtrue_engine::ports::{AddressBook, Located};

pub use self::list::NotARow;
use self::{
    databases::{Database, Kind},
    table::{Owner, Table},
};

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpRoutingConfig {
    /// The ranges of networks.
    pub ranges: BTreeMap<NetworkId, Vec<IpNet>>,
    /// Files with more of them: on each line a network's id and a range.
    pub range_files: Vec<PathBuf>,
    /// `GeoIP2-ISP`.
    pub isp_database: Option<PathBuf>,
    /// `GeoIP2-Connection-Type`.
    pub connection_type_database: Option<PathBuf>,
    /// `GeoLite2-ASN`: for autonomous systems where there is no ISP database.
    pub asn_database: Option<PathBuf>,
    /// Providers, as the ISP database calls them.
    pub isps: BTreeMap<String, NetworkId>,
    /// Autonomous systems.
    pub autonomous_systems: BTreeMap<u32, NetworkId>,
}

/// Why addresses cannot be looked up by a configuration.
#[derive(Debug, thiserror::Error)]
pub enum IpRoutingError {
    #[error("{path} cannot be read: {problem}", path = .path.display())]
    Unreadable { path: PathBuf, problem: std::io::Error },
    #[error("{path}:{line}: {problem}", path = .path.display())]
    Row { path: PathBuf, line: usize, problem: NotARow },
    #[error("{path} is no good MaxMind database: {problem}", path = .path.display())]
    Corrupt { path: PathBuf, problem: String },
    #[error("{path} is a database of the type \"{found}\", and not {expected}", path = .path.display())]
    OtherDatabase { path: PathBuf, found: String, expected: &'static str },
    #[error("the range {range} is of the network {one} and of the network {other}")]
    Claimed { range: IpNet, one: NetworkId, other: NetworkId },
}

/// The tables and databases of a configuration, as they were when they were read.
#[derive(Debug)]
pub struct IpRouting {
    table: Table,
    /// The owners of ranges.
    networks: Vec<NetworkId>,
    isp: Option<Database>,
    connection_type: Option<Database>,
    asn: Option<Database>,
    isps: HashMap<Box<str>, NetworkId>,
    autonomous_systems: HashMap<u32, NetworkId>,
}

/// What the Connection-Type database says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Cellular,
    Other,
    /// The database does not know it.
    Unknown,
    /// There is no such database.
    Unasked,
}

impl IpRouting {
    /// Reads and verifies everything. Takes its time with large databases.
    pub fn load(config: &IpRoutingConfig) -> Result<Self, IpRoutingError> {
        let mut owners = Owners::default();
        let mut ranges = vec![];
        for (network, of_network) in &config.ranges {
            let owner = owners.number(network);
            ranges.extend(of_network.iter().map(|range| (*range, owner)));
        }
        for path in &config.range_files {
            for (network, range) in list::read(path)? {
                ranges.push((range, owners.number(&network)));
            }
        }
        let table = Table::new(ranges).map_err(|claimed| {
            let [one, other] = claimed.owners.map(|owner| owners.network(owner));
            IpRoutingError::Claimed { range: claimed.range, one, other }
        })?;
        let open = |path: &Option<PathBuf>, kind| path.as_deref().map(|path| Database::open(path, kind)).transpose();
        Ok(IpRouting {
            table,
            networks: owners.networks,
            isp: open(&config.isp_database, Kind::Isp)?,
            connection_type: open(&config.connection_type_database, Kind::ConnectionType)?,
            asn: open(&config.asn_database, Kind::Asn)?,
            isps: config.isps.iter().map(|(name, network)| (name.as_str().into(), network.clone())).collect(),
            autonomous_systems: config.autonomous_systems.clone().into_iter().collect(),
        })
    }

    /// Whether there is anything that an address could be found in.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.isp.is_none() && self.connection_type.is_none() && self.asn.is_none()
    }

    /// By the databases, and the maps that refer to them.
    fn by_databases(&self, address: IpAddr) -> Located {
        let line = self.line(address);
        if line == Line::Other {
            return Located::NotMobile;
        }
        let provider = self.isp.as_ref().map(|database| database.provider(address)).unwrap_or_default();
        if let Some(network) = provider.network() {
            return Located::Mobile(network);
        }
        if line == Line::Unknown {
            return Located::Unknown;
        }
        let by_name = || self.isps.get(provider.isp?);
        let by_system = || {
            let system = provider.autonomous_system;
            let system = system.or_else(|| self.asn.as_ref()?.provider(address).autonomous_system)?;
            self.autonomous_systems.get(&system)
        };
        by_name().or_else(by_system).map_or(Located::Unknown, |network| Located::Mobile(network.clone()))
    }

    fn line(&self, address: IpAddr) -> Line {
        let Some(database) = &self.connection_type else { return Line::Unasked };
        match database.connection_type(address) {
            Some("Cellular") => Line::Cellular,
            Some(_) => Line::Other,
            None => Line::Unknown,
        }
    }
}

impl AddressBook for IpRouting {
    fn locate(&self, address: IpAddr) -> Located {
        // `::ffff:192.0.2.1` is how a socket for both families says 192.0.2.1.
        let address = address.to_canonical();
        if let Some(owner) = self.table.owner(address) {
            return self.networks.get(owner as usize).map_or(Located::Unknown, |id| Located::Mobile(id.clone()));
        }
        // Only the deployment itself knows what its private ranges are.
        if AddressPolicy::default().permits(address) { self.by_databases(address) } else { Located::Unknown }
    }
}

/// Gives networks numbers while a table is made.
#[derive(Default)]
struct Owners {
    networks: Vec<NetworkId>,
    numbers: HashMap<NetworkId, Owner>,
}

impl Owners {
    fn number(&mut self, network: &NetworkId) -> Owner {
        if let Some(number) = self.numbers.get(network) {
            return *number;
        }
        // There are a million network ids at most.
        let number = Owner::try_from(self.networks.len()).unwrap_or(Owner::MAX);
        self.networks.push(network.clone());
        self.numbers.insert(network.clone(), number);
        number
    }

    fn network(&self, number: Owner) -> NetworkId {
        self.networks[number as usize].clone()
    }
}
