//! Maps a device's IP address to its mobile network.
//!
//! Sources, in this order, until one matches:
//!
//! 1. the configured address ranges, agreed with operators: a match is a mobile device;
//! 2. MaxMind's ISP database, for ranges with MCC and MNC;
//! 3. the configured maps from ISP names and autonomous systems to networks.
//!
//! MaxMind's Connection-Type database restricts the second and third source. An address with another connection type
//! than cellular is not mobile. The maps apply only to cellular addresses, because an ISP or autonomous system may also
//! have fixed lines. Without this database, the maps apply to every address.
//!
//! An [`IpRouting`] is immutable and in memory; reloading the files creates a new one.
//!
//! Deliberately absent: lookups of the IPv4 address embedded in 6to4, Teredo and NAT64 addresses. Its network is not
//! necessarily the device's.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use ipnet::{IpNet, Ipv4Net};
use maxminddb::{MaxMindDbError, Reader, geoip2};
use rangemap::RangeInclusiveMap;
use ringtrue_domain::{
    network::{InvalidNetworkId, NetworkId},
    web_url::AddressPolicy,
};
use ringtrue_engine::ports::lookups::{AddressNetwork, AddressNetworkTable};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpRoutingConfig {
    pub address_ranges: BTreeMap<NetworkId, Vec<IpNet>>,
    /// Files with further ranges: one network id and range per line.
    pub range_files: Vec<PathBuf>,
    /// MaxMind's database `GeoIP2-ISP`.
    pub isp_database: Option<PathBuf>,
    /// MaxMind's database `GeoIP2-Connection-Type`.
    pub connection_type_database: Option<PathBuf>,
    /// MaxMind's database `GeoLite2-ASN`. Used for addresses whose autonomous system is not in the ISP database.
    pub asn_database: Option<PathBuf>,
    /// Networks by ISP name, as spelled in the ISP database.
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
    ranges: RangeTable,
    isp: Option<Database>,
    connection_type: Option<Database>,
    asn: Option<Database>,
    isps: HashMap<Box<str>, NetworkId>,
    autonomous_systems: HashMap<u32, NetworkId>,
}

/// Connection type of an address in MaxMind's Connection-Type database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionType {
    Cellular,
    Other,
    /// The database does not contain the address.
    Unknown,
    NoDatabase,
}

impl IpRouting {
    /// Reads and verifies all files; slow for large databases.
    pub fn load(config: &IpRoutingConfig) -> Result<Self, IpRoutingError> {
        let mut ranges = Vec::new();
        for (network, of_network) in &config.address_ranges {
            ranges.extend(of_network.iter().map(|range| (network.clone(), *range)));
        }
        for path in &config.range_files {
            ranges.extend(read_range_file(path)?);
        }
        let open = |path: &Option<PathBuf>, kind| path.as_deref().map(|path| Database::open(path, kind)).transpose();
        Ok(IpRouting {
            ranges: RangeTable::new(ranges)?,
            isp: open(&config.isp_database, DatabaseKind::Isp)?,
            connection_type: open(&config.connection_type_database, DatabaseKind::ConnectionType)?,
            asn: open(&config.asn_database, DatabaseKind::Asn)?,
            isps: config.isps.iter().map(|(name, network)| (name.as_str().into(), network.clone())).collect(),
            autonomous_systems: config.autonomous_systems.clone().into_iter().collect(),
        })
    }

    /// Whether no source is configured.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.isp.is_none() && self.connection_type.is_none() && self.asn.is_none()
    }

    /// Finds the network of an address with the MaxMind databases and the maps from ISPs and autonomous systems to
    /// networks.
    fn network_by_database(&self, address: IpAddr) -> AddressNetwork {
        let connection_type = self.connection_type(address);
        if connection_type == ConnectionType::Other {
            return AddressNetwork::NotMobile;
        }
        let provider = self.isp.as_ref().map(|database| database.provider(address)).unwrap_or_default();
        if let Some(network) = provider.network() {
            return AddressNetwork::Mobile(network);
        }
        if connection_type == ConnectionType::Unknown {
            return AddressNetwork::Unknown;
        }
        let by_isp = || self.isps.get(provider.isp?);
        let by_system = || {
            let system = provider.autonomous_system;
            let system = system.or_else(|| self.asn.as_ref()?.provider(address).autonomous_system)?;
            self.autonomous_systems.get(&system)
        };
        by_isp().or_else(by_system).map_or(AddressNetwork::Unknown, |network| AddressNetwork::Mobile(network.clone()))
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

impl AddressNetworkTable for IpRouting {
    fn network_of_address(&self, address: IpAddr) -> AddressNetwork {
        // Dual-stack sockets report 192.0.2.1 as `::ffff:192.0.2.1`.
        let address = address.to_canonical();
        if let Some(network) = self.ranges.find(address) {
            return AddressNetwork::Mobile(network.clone());
        }
        // Only configured ranges can assign a private address to a network. The databases cover public addresses.
        if AddressPolicy::default().permits(address) {
            self.network_by_database(address)
        } else {
            AddressNetwork::Unknown
        }
    }
}

/// Address ranges and their networks. Ranges may be nested; the smallest one wins.
#[derive(Debug, Default)]
struct RangeTable {
    v4: RangeInclusiveMap<u32, NetworkId>,
    v6: RangeInclusiveMap<u128, NetworkId>,
}

impl RangeTable {
    /// Creates the table, with host bits masked and IPv4-mapped ranges converted to IPv4. Fails if a range is assigned
    /// to two networks.
    fn new(ranges: Vec<(NetworkId, IpNet)>) -> Result<Self, IpRoutingError> {
        let mut networks = BTreeMap::<IpNet, NetworkId>::new();
        for (network, range) in ranges {
            let range = to_ipv4_if_mapped(range.trunc());
            match networks.insert(range, network.clone()) {
                Some(one) if one != network => {
                    return Err(IpRoutingError::ConflictingRange { range, one, other: network });
                }
                _ => {}
            }
        }
        let mut networks: Vec<_> = networks.into_iter().collect();
        // From the largest range to the smallest: a later range replaces the part of an earlier one that it covers.
        networks.sort_by_key(|(range, _)| range.prefix_len());
        let mut table = RangeTable::default();
        for (range, network) in networks {
            match range {
                IpNet::V4(range) => {
                    table.v4.insert(range.network().to_bits()..=range.broadcast().to_bits(), network);
                }
                IpNet::V6(range) => {
                    table.v6.insert(range.network().to_bits()..=range.broadcast().to_bits(), network);
                }
            }
        }
        Ok(table)
    }

    fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    fn find(&self, address: IpAddr) -> Option<&NetworkId> {
        match address {
            IpAddr::V4(address) => self.v4.get(&address.to_bits()),
            IpAddr::V6(address) => self.v6.get(&address.to_bits()),
        }
    }
}

fn to_ipv4_if_mapped(range: IpNet) -> IpNet {
    const MAPPED_PREFIX_BITS: u8 = 96;
    let IpNet::V6(v6) = range else { return range };
    let v4 = v6.prefix_len().checked_sub(MAPPED_PREFIX_BITS).zip(v6.network().to_ipv4_mapped());
    v4.and_then(|(length, address)| Ipv4Net::new(address, length).ok()).map_or(range, IpNet::V4)
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeLineError {
    #[error("expected a network id and a range, such as `23410 192.0.2.0/24`")]
    Format,
    #[error(transparent)]
    Network(#[from] InvalidNetworkId),
    #[error("invalid address range \"{0}\"")]
    Range(String),
}

/// Reads a file in which each line holds a network id and an address range. `#` begins a comment.
fn read_range_file(path: &Path) -> Result<Vec<(NetworkId, IpNet)>, IpRoutingError> {
    let text =
        fs::read_to_string(path).map_err(|problem| IpRoutingError::Unreadable { path: path.to_owned(), problem })?;
    let ranges = (1..).zip(text.lines()).filter_map(|(line, text)| {
        let content = text.split('#').next().unwrap_or_default().trim();
        let parsed = (!content.is_empty()).then(|| parse_line(content))?;
        Some(parsed.map_err(|problem| IpRoutingError::Line { path: path.to_owned(), line, problem }))
    });
    ranges.collect()
}

fn parse_line(text: &str) -> Result<(NetworkId, IpNet), RangeLineError> {
    let mut words = text.split_whitespace();
    let (Some(network), Some(range), None) = (words.next(), words.next(), words.next()) else {
        return Err(RangeLineError::Format);
    };
    let network = network.parse()?;
    // A single address is a valid range.
    let parsed = range.parse().or_else(|_| range.parse::<IpAddr>().map(IpNet::from));
    Ok((network, parsed.map_err(|_| RangeLineError::Range(range.to_owned()))?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatabaseKind {
    Isp,
    ConnectionType,
    Asn,
}

impl DatabaseKind {
    fn expected_type(self) -> &'static str {
        match self {
            DatabaseKind::Isp => "an ISP database (GeoIP2-ISP)",
            DatabaseKind::ConnectionType => "a connection type database (GeoIP2-Connection-Type)",
            DatabaseKind::Asn => "an ASN database (GeoLite2-ASN)",
        }
    }

    /// Matches by substring: other vendors sell compatible databases under their own names.
    fn accepts(self, database_type: &str) -> bool {
        match self {
            DatabaseKind::Isp => database_type.contains("ISP"),
            DatabaseKind::ConnectionType => database_type.contains("Connection-Type"),
            DatabaseKind::Asn => database_type.contains("ASN") || database_type.contains("ISP"),
        }
    }
}

/// MaxMind database in memory.
#[derive(derive_more::Debug)]
#[debug("Database({}, built {})", reader.metadata().database_type, reader.metadata().build_epoch)]
struct Database {
    reader: Reader<Vec<u8>>,
}

/// What the ISP or ASN database contains about an address.
#[derive(Clone, Copy, Debug, Default)]
struct ProviderRecord<'a> {
    /// MCC and MNC of the mobile network. `None`: the database has none for this address.
    plmn: Option<(&'a str, &'a str)>,
    isp: Option<&'a str>,
    autonomous_system: Option<u32>,
}

impl ProviderRecord<'_> {
    fn network(&self) -> Option<NetworkId> {
        let (country, network) = self.plmn?;
        let is_plmn = country.len() == 3 && (2..=3).contains(&network.len());
        format!("{country}{network}").parse().ok().filter(|_| is_plmn)
    }
}

impl Database {
    /// Reads and verifies the whole database.
    fn open(path: &Path, kind: DatabaseKind) -> Result<Self, IpRoutingError> {
        let to_error = |problem: MaxMindDbError| match problem {
            MaxMindDbError::Io(problem) => IpRoutingError::Unreadable { path: path.to_owned(), problem },
            problem => IpRoutingError::Corrupt { path: path.to_owned(), problem: problem.to_string() },
        };
        let reader = Reader::open_readfile(path).map_err(to_error)?;
        reader.verify().map_err(to_error)?;
        let found = &reader.metadata().database_type;
        if !kind.accepts(found) {
            let (found, expected) = (found.clone(), kind.expected_type());
            return Err(IpRoutingError::WrongDatabaseType { path: path.to_owned(), found, expected });
        }
        Ok(Database { reader })
    }

    /// Looks up the provider of an address. Unreadable records are treated as missing.
    fn provider(&self, address: IpAddr) -> ProviderRecord<'_> {
        let found = self.reader.lookup(address).and_then(|found| found.decode::<geoip2::Isp<'_>>());
        let Ok(Some(found)) = found else { return ProviderRecord::default() };
        ProviderRecord {
            plmn: found.mobile_country_code.zip(found.mobile_network_code),
            isp: found.isp,
            autonomous_system: found.autonomous_system_number,
        }
    }

    fn connection_type(&self, address: IpAddr) -> Option<&str> {
        let found = self.reader.lookup(address).and_then(|found| found.decode::<geoip2::ConnectionType<'_>>());
        found.ok().flatten()?.connection_type
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(ranges: &[(&str, &str)]) -> Result<RangeTable, IpRoutingError> {
        let parsed = ranges.iter().map(|(range, network)| (network.parse().unwrap(), range.parse().unwrap()));
        RangeTable::new(parsed.collect())
    }

    #[test]
    fn smallest_enclosing_range_wins() {
        let table = table(&[
            ("10.0.0.0/8", "00101"),
            ("10.1.0.0/16", "00102"),
            ("10.1.2.0/24", "00101"),
            ("10.1.2.3/32", "00103"),
            ("2001:db8::/32", "00105"),
            ("2001:db8:ffff::/48", "00106"),
            ("::/127", "00108"),
            ("0.0.0.0/32", "00101"),
            ("255.255.255.255/32", "00102"),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "00103"),
        ])
        .unwrap();
        for (address, network) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some("00101")),
            ("10.1.0.0", Some("00102")),
            ("10.1.2.2", Some("00101")),
            ("10.1.2.3", Some("00103")),
            ("10.1.3.0", Some("00102")),
            ("10.255.255.255", Some("00101")),
            ("11.0.0.0", None),
            ("2001:db8::", Some("00105")),
            ("2001:db8:ffff::1", Some("00106")),
            ("2001:db9::", None),
            ("::", Some("00108")),
            ("::2", None),
            ("0.0.0.0", Some("00101")),
            ("0.0.0.1", None),
            ("255.255.255.254", None),
            ("255.255.255.255", Some("00102")),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("00103")),
        ] {
            assert_eq!(table.find(address.parse().unwrap()).map(NetworkId::as_str), network, "{address}");
        }
    }

    #[test]
    fn provider_codes_are_validated() {
        for (plmn, network) in [
            (("310", "004"), Some("310004")),
            (("234", "10"), Some("23410")),
            (("999", "9"), None),
            (("23", "410"), None),
            (("2341", "0"), None),
            (("2341", "00"), None),
            (("234", "1x"), None),
            (("", "23410"), None),
        ] {
            let record = ProviderRecord { plmn: Some(plmn), ..ProviderRecord::default() };
            assert_eq!(record.network().as_ref().map(NetworkId::as_str), network, "{plmn:?}");
        }
    }

    #[test]
    fn ranges_are_normalized() {
        for (range, inside, outside) in [
            ("23.124.1.200/20", "23.124.15.255", "23.124.16.0"),
            ("::ffff:23.124.1.200/116", "23.124.15.255", "23.124.16.0"),
            ("2001:db8::1/64", "2001:db8::ffff", "2001:db8:0:1::"),
        ] {
            let table = table(&[(range, "00101")]).unwrap();
            assert!(table.find(inside.parse().unwrap()).is_some(), "{range}");
            assert!(table.find(outside.parse().unwrap()).is_none(), "{range}");
        }
    }

    #[test]
    fn range_of_two_networks_is_rejected() {
        assert!(table(&[("10.0.0.0/8", "00101"), ("10.0.0.0/8", "00101")]).is_ok());
        let conflict = table(&[("10.0.0.0/8", "00102"), ("10.255.0.0/8", "00101")]).unwrap_err();
        assert_eq!(conflict.to_string(), "the range 10.0.0.0/8 is assigned to both 00102 and 00101");
    }
}
