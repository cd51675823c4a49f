//! IP routing with range files and MaxMind databases.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod files;
mod maxmind;
mod precedence;

use std::{fs, path::PathBuf};

use ringtrue_domain::network::NetworkId;
use ringtrue_engine::ports::lookups::{AddressNetwork, AddressNetworkTable};
use ringtrue_operators::ip_routing::{IpRouting, IpRoutingConfig};
use tempfile::TempDir;

use maxmind::{Value, database};

fn network(id: &str) -> NetworkId {
    id.parse().unwrap()
}

/// Returns the network id, "not mobile" or "unknown".
fn describe(located: &AddressNetwork) -> &str {
    match located {
        AddressNetwork::Mobile(network) => network.as_str(),
        AddressNetwork::NotMobile => "not mobile",
        AddressNetwork::Unknown => "unknown",
    }
}

#[track_caller]
fn assert_located(routing: &IpRouting, cases: &[(&str, &str)]) {
    for (address, expected) in cases {
        let located = routing.network_of_address(address.parse().unwrap());
        assert_eq!(describe(&located), *expected, "{address}");
    }
}

struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> Self {
        TestFolder(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes an ISP database. Its providers have an MCC and MNC, a mapped ISP name, a mapped autonomous system, or
    /// none of these.
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

    /// Writes a database of connection types. The first part of each provider's range is cellular, the second is cable,
    /// and the rest is missing.
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

/// Returns a configuration with all sources.
fn full_config(folder: &TestFolder) -> IpRoutingConfig {
    IpRoutingConfig {
        address_ranges: [
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
