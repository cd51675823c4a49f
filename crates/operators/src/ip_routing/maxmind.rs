//! MaxMind databases.

use std::{fmt, net::IpAddr, path::Path};

use maxminddb::{MaxMindDbError, Reader, geoip2};
use ringtrue_domain::network::NetworkId;

use super::IpRoutingError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatabaseKind {
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

/// Database in memory.
pub(super) struct Database {
    reader: Reader<Vec<u8>>,
}

/// Provider of an address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProviderRecord<'a> {
    /// MCC and MNC.
    plmn: Option<(&'a str, &'a str)>,
    pub isp: Option<&'a str>,
    pub autonomous_system: Option<u32>,
}

impl ProviderRecord<'_> {
    pub fn network(&self) -> Option<NetworkId> {
        let (country, network) = self.plmn?;
        format!("{country}{network}").parse().ok()
    }
}

impl Database {
    /// Reads and verifies the whole database.
    pub fn open(path: &Path, kind: DatabaseKind) -> Result<Self, IpRoutingError> {
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

    /// Unreadable records are treated as missing.
    pub fn provider(&self, address: IpAddr) -> ProviderRecord<'_> {
        let found = self.reader.lookup(address).and_then(|found| found.decode::<geoip2::Isp<'_>>());
        let Ok(Some(found)) = found else { return ProviderRecord::default() };
        ProviderRecord {
            plmn: found.mobile_country_code.zip(found.mobile_network_code),
            isp: found.isp,
            autonomous_system: found.autonomous_system_number,
        }
    }

    pub fn connection_type(&self, address: IpAddr) -> Option<&str> {
        let found = self.reader.lookup(address).and_then(|found| found.decode::<geoip2::ConnectionType<'_>>());
        found.ok().flatten()?.connection_type
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = self.reader.metadata();
        f.debug_struct("Database")
            .field("type", &metadata.database_type)
            .field("built", &metadata.build_epoch)
            .finish_non_exhaustive()
    }
}
