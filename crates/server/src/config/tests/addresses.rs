//! IP routing and PROXY protocol settings.

use ringtrue_operators::ip_routing::IpRoutingConfig;

use super::{assert_rejected, load_valid};

const O2: &str = "[networks.23410]\nname = \"O2\"\ncountry = \"GB\"\n";
const VODAFONE: &str = "[networks.23415]\nname = \"Vodafone\"\ncountry = \"GB\"\n";

#[test]
fn ip_routing_settings_are_read() {
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
    assert_eq!(load_valid(&file, []).ip_routing, expected);
}

#[test]
fn values_shared_by_two_networks_are_rejected() {
    for (one, other, message) in [
        (
            "address_ranges = [\"192.0.2.0/24\"]",
            "address_ranges = [\"192.0.2.77/24\"]",
            "networks.23415.address_ranges (/etc/ringtrue/ringtrue.toml:8): found 192.0.2.0/24; allowed: values of \
             this network only; this one is also in `networks.23410.address_ranges`",
        ),
        (
            "isps = [\"Example\"]",
            "isps = [\"Example\"]",
            "networks.23415.isps (/etc/ringtrue/ringtrue.toml:8): found \"Example\"; allowed: values of this network \
             only; this one is also in `networks.23410.isps`",
        ),
        (
            "",
            "autonomous_systems = [64500, 64500]",
            "networks.23415.autonomous_systems (/etc/ringtrue/ringtrue.toml:8): found 64500; allowed: each value only \
             once",
        ),
        (
            "",
            "autonomous_systems = [0]",
            "networks.23415.autonomous_systems (/etc/ringtrue/ringtrue.toml:8): found [0]; allowed: a list, each item \
             an integer from 1 to 4294967294",
        ),
        (
            "",
            "address_ranges = [\"192.0.2.0\"]",
            "networks.23415.address_ranges (/etc/ringtrue/ringtrue.toml:8): found [\"192.0.2.0\"]; allowed: a list, \
             each item an IP network, such as \"10.0.0.0/8\" or \"2001:db8::/32\"",
        ),
    ] {
        assert_rejected(&format!("{O2}{one}\n{VODAFONE}{other}"), [], message);
    }
}

#[test]
fn proxy_protocol_requires_trusted_proxies() {
    let config = load_valid("[http]\nproxy_protocol = true\ntrusted_proxies = [\"10.0.0.0/8\"]", []);
    assert!(config.http.proxy_protocol);
    for section in ["http", "ingress"] {
        let message = format!(
            "{section}.proxy_protocol (/etc/ringtrue/ringtrue.toml:2): found true; allowed: false, because \
             `{section}.trusted_proxies` is empty and only its proxies may send the header"
        );
        assert_rejected(&format!("[{section}]\nproxy_protocol = true"), [], &message);
    }
}
