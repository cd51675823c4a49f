//! From addresses to networks: tables, databases, and what they say together.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
mod maxmind;
mod mmdb;
mod order;

use std::{fs, path::PathBuf};

use ringtrue_domain::network::NetworkId;
use ringtrue_engine::ports::{AddressBook, Located};
use ringtrue_operators::ip_routing::{IpRouting, IpRoutingConfig};
use tempfile::TempDir;

use mmdb::{Value, database};

fn network(id: &str) -> NetworkId {
    id.parse().unwrap()
}

/// A mobile network by its id, or in a word what it is instead.
fn said(located: &Located) -> &str {
    match located {
        Located::Mobile(network) => network.as_str(),
        Located::NotMobile => "not mobile",
        Located::Unknown => "unknown",
    }
}

#[track_caller]
fn holds(routing: &IpRouting, cases: &[(&str, &str)]) {
    for (address, expected) in cases {
        let located = routing.locate(address.parse().unwrap());
        assert_eq!(said(&located), *expected, "{address}");
    }
}

/// Files in a folder of their own.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Providers: with codes, with a name that is on the map, with an autonomous system that is, with nothing.
    fn isp(&self) -> PathBuf {
        let provider =
            |isp, system| vec![("isp", Value::Text(isp)), ("autonomous_system_number", Value::Number(system))];
        let codes =
            |mcc, mnc| vec![("mobile_country_code", Value::Text(mcc)), ("mobile_network_code", Value::Text(mnc))];
        let both = |one: Vec<(&'static str, Value)>, other| Value::Map(one.into_iter().chain(other).collect());
        let records = [
            ("5.1.0.0/16", both(codes("234", "10"), provider("O2", 1))),
            ("5.2.0.0/16", Value::Map(provider("Example Mobile", 2))),
            ("5.3.0.0/16", Value::Map(provider("Nobody", 64500))),
            ("5.4.0.0/16", Value::Map(provider("Nobody", 3))),
            ("5.5.0.0/16", both(codes("23", "x"), provider("Example Mobile", 2))),
            ("2a00:1::/32", both(codes("310", "004"), provider("Verizon", 4))),
        ];
        self.write("isp.mmdb", database("GeoIP2-ISP", &records))
    }

    /// Each provider has cellular addresses in the first eighth, cables in the second, and nothing in the rest.
    fn connection_type(&self) -> PathBuf {
        let kind = |kind| Value::Map(vec![("connection_type", Value::Text(kind))]);
        let mut records = vec![];
        for (cellular, cable) in [
            ("5.1.0.0/19", "5.1.32.0/19"),
            ("5.2.0.0/19", "5.2.32.0/19"),
            ("5.3.0.0/19", "5.3.32.0/19"),
            ("5.4.0.0/19", "5.4.32.0/19"),
            ("5.6.0.0/19", "5.6.32.0/19"),
            ("2a00:1:0:0::/64", "2a00:1:0:1::/64"),
        ] {
            records.push((cellular, kind("Cellular")));
            records.push((cable, kind("Cable/DSL")));
        }
        self.write("connection-type.mmdb", database("GeoIP2-Connection-Type", &records))
    }

    fn asn(&self) -> PathBuf {
        let system = |number| Value::Map(vec![("autonomous_system_number", Value::Number(number))]);
        self.write(
            "asn.mmdb",
            database("GeoLite2-ASN", &[("5.3.0.0/16", system(64500)), ("5.6.0.0/16", system(64500))]),
        )
    }
}

/// With everything that a deployment can have.
fn everything(folder: &Folder) -> IpRoutingConfig {
    IpRoutingConfig {
        ranges: [
            (network("23415"), vec!["5.1.128.0/24".parse().unwrap(), "10.20.0.0/16".parse().unwrap()]),
            (network("26201"), vec!["5.1.32.0/24".parse().unwrap(), "2001:db8:1::/48".parse().unwrap()]),
        ]
        .into(),
        range_files: vec![folder.write("ranges", "23420 192.0.2.0/25\n")],
        isp_database: Some(folder.isp()),
        connection_type_database: Some(folder.connection_type()),
        asn_database: Some(folder.asn()),
        isps: [("Example Mobile".to_owned(), network("23430"))].into(),
        autonomous_systems: [(64500, network("23433"))].into(),
    }
}
