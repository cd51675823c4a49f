//! MaxMind's databases, and what is asked of them.

use std::{fmt, net::IpAddr, path::Path};

use maxminddb::{MaxMindDbError, Reader, geoip2};
use ringtrue_domain::network::NetworkId;

use super::IpRoutingError;

/// What a database is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Isp,
    ConnectionType,
    Asn,
}

impl Kind {
    fn expected(self) -> &'static str {
        match self {
            Kind::Isp => "one of providers (GeoIP2-ISP)",
            Kind::ConnectionType => "one of connection types (GeoIP2-Connection-Type)",
            Kind::Asn => "one of autonomous systems (GeoLite2-ASN)",
        }
    }

    /// Whether a database with a type of this name can be asked. Others sell databases of the same form.
    fn fits(self, database_type: &str) -> bool {
        match self {
            Kind::Isp => database_type.contains("ISP"),
            Kind::ConnectionType => database_type.contains("Connection-Type"),
            Kind::Asn => database_type.contains("ASN") || database_type.contains("ISP"),
        }
    }
}

/// A database in memory.
pub(super) struct Database {
    reader: Reader<Vec<u8>>,
}

/// Whose an address is, as far as a database knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Provider<'a> {
    /// The mobile country code and the mobile network code.
    codes: Option<(&'a str, &'a str)>,
    pub isp: Option<&'a str>,
    pub autonomous_system: Option<u32>,
}

impl Provider<'_> {
    pub fn network(&self) -> Option<NetworkId> {
        let (country, network) = self.codes?;
        format!("{country}{network}").parse().ok()
    }
}

impl Database {
    /// Reads a database whole and looks into every corner of it.
    pub fn open(path: &Path, kind: Kind) -> Result<Self, IpRoutingError> {
        let corrupt = |problem: MaxMindDbError| match problem {
            MaxMindDbError::Io(problem) => IpRoutingError::Unreadable { path: path.to_owned(), problem },
            problem => IpRoutingError::Corrupt { path: path.to_owned(), problem: problem.to_string() },
        };
        let reader = Reader::open_readfile(path).map_err(corrupt)?;
        reader.verify().map_err(corrupt)?;
        let found = &reader.metadata().database_type;
        if !kind.fits(found) {
            let (found, expected) = (found.clone(), kind.expected());
            return Err(IpRoutingError::OtherDatabase { path: path.to_owned(), found, expected });
        }
        Ok(Database { reader })
    }

    /// A record that cannot be read is as good as none.
    pub fn provider(&self, address: IpAddr) -> Provider<'_> {
        let found = self.reader.lookup(address).and_then(|found| found.decode::<geoip2::Isp<'_>>());
        let Ok(Some(found)) = found else { return Provider::default() };
        Provider {
            codes: found.mobile_country_code.zip(found.mobile_network_code),
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
