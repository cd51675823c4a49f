//! Whose addresses are: of devices, and of clients behind proxies.

use ringtrue_operators::ip_routing::IpRoutingConfig;

use super::{good, refused};

const O2: &str = "[networks.23410]\nname = \"O2\"\ncountry = \"GB\"\n";
const VODAFONE: &str = "[networks.23415]\nname = \"Vodafone\"\ncountry = \"GB\"\n";

#[test]
fn networks_and_files_say_whose_an_address_is() {
    let file = format!(
        "{O2}address_ranges = [\"192.0.2.0/25\", \"2001:db8::1/32\"]\nisps = [\"O2\", \"Telefonica UK\"]
        {VODAFONE}autonomous_systems = [64500, 4200000000]
        [ip_routing]
        range_files = [\"/etc/ringtrue/ranges\"]
        isp_database = \"/var/lib/GeoIP/isp.mmdb\"
        connection_type_database = \"/var/lib/GeoIP/connection-type.mmdb\"
        asn_database = \"/var/lib/GeoIP/asn.mmdb\""
    );
    let [o2, vodafone] = ["23410", "23415"].map(|id| id.parse().unwrap());
    let database = |name: &str| Some(format!("/var/lib/GeoIP/{name}.mmdb").into());
    let expected = IpRoutingConfig {
        ranges: [(o2, vec!["192.0.2.0/25".parse().unwrap(), "2001:db8::1/32".parse().unwrap()])].into(),
        range_files: vec!["/etc/ringtrue/ranges".into()],
        isp_database: database("isp"),
        connection_type_database: database("connection-type"),
        asn_database: database("asn"),
        isps: [("O2".to_owned(), "23410".parse().unwrap()), ("Telefonica UK".to_owned(), "23410".parse().unwrap())]
            .into(),
        autonomous_systems: [(64500, vodafone), (4_200_000_000, "23415".parse().unwrap())].into(),
    };
    assert_eq!(good(&file, []).ip_routing, expected);
}

#[test]
fn what_is_of_two_networks_is_of_none() {
    for (one, other, message) in [
        (
            "address_ranges = [\"192.0.2.0/24\"]",
            "address_ranges = [\"192.0.2.77/24\"]",
            "networks.23415.address_ranges (/etc/ringtrue/ringtrue.toml:8): found 192.0.2.0/24; allowed: what is of \
             this network alone; this is in `networks.23410.address_ranges` too",
        ),
        (
            "isps = [\"Example\"]",
            "isps = [\"Example\"]",
            "networks.23415.isps (/etc/ringtrue/ringtrue.toml:8): found \"Example\"; allowed: what is of this network \
             alone; this is in `networks.23410.isps` too",
        ),
        (
            "",
            "autonomous_systems = [64500, 64500]",
            "networks.23415.autonomous_systems (/etc/ringtrue/ringtrue.toml:8): found 64500; allowed: each of them once",
        ),
        (
            "",
            "autonomous_systems = [0]",
            "networks.23415.autonomous_systems (/etc/ringtrue/ringtrue.toml:8): found [0]; allowed: a list, each item \
             a whole number from 1 to 4294967294",
        ),
        (
            "",
            "address_ranges = [\"192.0.2.0\"]",
            "networks.23415.address_ranges (/etc/ringtrue/ringtrue.toml:8): found [\"192.0.2.0\"]; allowed: a list, \
             each item a network, such as \"10.0.0.0/8\" or \"2001:db8::/32\"",
        ),
    ] {
        refused(&format!("{O2}{one}\n{VODAFONE}{other}"), [], message);
    }
}

#[test]
fn a_header_is_asked_only_of_proxies_that_are_named() {
    let config = good("[http]\nproxy_protocol = true\ntrusted_proxies = [\"10.0.0.0/8\"]", []);
    assert!(config.http.proxy_protocol);
    for section in ["http", "ingress"] {
        let message = format!(
            "{section}.proxy_protocol (/etc/ringtrue/ringtrue.toml:2): found true; allowed: false, because \
             `{section}.trusted_proxies` is empty and only those in it are asked for a header"
        );
        refused(&format!("[{section}]\nproxy_protocol = true"), [], &message);
    }
}
