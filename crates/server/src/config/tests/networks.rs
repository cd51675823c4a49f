//! Tests the settings of networks, receiver pools and number sources.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use rcgen::{KeyPair, PKCS_RSA_SHA256};
use ringtrue_domain::{
    network::{Network, NetworkDirectory},
    phone::Msisdn,
    tenancy::Mode,
};
use ringtrue_operators::{ip_routing::IpRoutingConfig, number_lookup::http_hlr::HlrDriver};
use ringtrue_sandbox::directory::DirectoryConfig;

use super::{O2, SMPP, load_valid};
use crate::config::NumberSourceSection;

const SUBSCRIBERS: &str = r#"["+447700900123 23430", "+447700900124 23410 ported-from 23430 absent"]"#;
const SOURCES: &str = r#"
[number_sources.aaa]
kind = "enum_dns"
servers = ["192.0.2.53:53"]
routing_numbers = ["d27*=25001"]

[number_sources.bbb]
kind = "http_hlr"
driver = "twilio"
key = "SK1"
client_secret_env = "TWILIO_SECRET"

[number_sources.ccc]
kind = "telco_finder"
root = "https://finder.example"
token_endpoint = "https://finder.example/token"
client_id = "us"
client_authentication = "client_secret_basic"
client_secret_env = "TWILIO_SECRET"
operators = ["three=23420"]
"#;

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Live).unwrap()
}

#[test]
fn networks_and_pools_are_read() {
    let file = format!(
        "{SMPP}password_env = \"PASSWORD\"
        {O2}aliases = [\"Telefonica\"]
        prefixes = [\"+447700\", \"447701\"]
        receivers = [\"+447700900001\"]
        [networks.310004]
        name = \"Verizon\"
        country = \"US\"
        [receivers]
        default = [\"+447700900001\", \"+447700900002\"]
        [receivers.countries]
        GB = [\"+447700900002\"]"
    );
    let o2 = Network {
        id: "23410".parse().unwrap(),
        name: "O2".to_owned(),
        aliases: vec!["Telefonica".to_owned()],
        country: "GB".parse().unwrap(),
        prefixes: vec!["447700".to_owned(), "447701".to_owned()],
        receivers: vec![number("+447700900001")],
    };
    let verizon = Network {
        id: "310004".parse().unwrap(),
        name: "Verizon".to_owned(),
        aliases: vec![],
        country: "US".parse().unwrap(),
        prefixes: vec![],
        receivers: vec![],
    };
    let countries = vec![("GB".parse().unwrap(), vec![number("+447700900002")])];
    let default_pool = vec![number("+447700900001"), number("+447700900002")];
    let expected = NetworkDirectory::new(vec![o2, verizon], countries, default_pool).unwrap();
    assert_eq!(load_valid(&file, [("PASSWORD", "secret")]).networks, expected);
}

#[test]
fn ip_routing_settings_are_read() {
    let file = format!(
        "{O2}address_ranges = [\"192.0.2.0/25\", \"2001:db8::1/32\"]\nisps = [\"O2\", \"Telefonica UK\"]
        [networks.23415]
        name = \"Vodafone\"
        country = \"GB\"
        autonomous_systems = [64500, 4200000000]
        [ip_routing]
        range_files = [\"/etc/ringtrue/ranges\"]
        isp_database = \"/var/lib/GeoIP/isp.mmdb\"
        connection_type_database = \"/var/lib/GeoIP/connection-type.mmdb\"
        asn_database = \"/var/lib/GeoIP/asn.mmdb\""
    );
    let [o2, vodafone] = ["23410", "23415"].map(|id| id.parse().unwrap());
    let database = |name: &str| Some(format!("/var/lib/GeoIP/{name}.mmdb").into());
    let expected = IpRoutingConfig {
        address_ranges: [(o2, vec!["192.0.2.0/25".parse().unwrap(), "2001:db8::1/32".parse().unwrap()])].into(),
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

fn names(order: &str) -> Vec<String> {
    let file = format!("number_lookup.order = {order}\n{SOURCES}");
    let config = load_valid(&file, [("TWILIO_SECRET", "hunter2")]);
    config.number_lookup.sources.iter().map(|source| source.name().to_owned()).collect()
}

#[test]
fn sources_follow_the_configured_order() {
    assert_eq!(names("[]"), ["aaa", "bbb", "ccc"]);
    assert_eq!(names(r#"["ccc", "aaa"]"#), ["ccc", "aaa", "bbb"]);
}

/// An RSA key is the longest secret that must still fit into the size limit of secret files.
#[test]
fn rsa_signing_key_is_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vonage.pem");
    fs::write(&path, KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap().serialize_pem()).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for algorithm in ["RS256", "PS256"] {
        let file = format!(
            "[number_sources.vonage]\nkind = \"http_hlr\"\ndriver = \"vonage_identity_insights\"\n\
             application_id = \"us\"\nsigning_key_file = {path:?}\nsigning_key_id = \"2026-11\"\n\
             signing_algorithm = \"{algorithm}\""
        );
        let sources = load_valid(&file, []).number_lookup.sources;
        let [NumberSourceSection::Hlr(config, _)] = &*sources else { panic!("{sources:?}") };
        let HlrDriver::VonageIdentityInsights(vonage) = &config.driver else { panic!("{config:?}") };
        assert_eq!(format!("{:?}", vonage.key), format!("SigningKey({algorithm}, 2026-11)"));
    }
}

/// Brands of a network have their own ids, and sources return ids with or without leading zeros in the MNC.
#[test]
fn networks_are_known_by_id_and_aliases() {
    let file = format!("{O2}aliases = [\"Giffgaff\", \"23411\"]\n{SOURCES}");
    let config = load_valid(&file, [("TWILIO_SECRET", "hunter2")]);
    for source in &config.number_lookup.sources {
        let known = match source {
            NumberSourceSection::Enum(config) => &config.rules.known_networks,
            NumberSourceSection::Hlr(config, _) => &config.known_networks,
            NumberSourceSection::TelcoFinder(config, _) => &config.known_networks,
        };
        for (written, meant) in [("234010", "23410"), ("234011", "23411"), ("234012", "234012")] {
            assert_eq!(known.network_id_from_plmn(written).unwrap().as_str(), meant);
        }
    }
}

#[test]
fn directory_exists_if_it_has_a_listener() {
    let subscribers = format!("[sandbox]\nsubscribers = {SUBSCRIBERS}\n");
    assert_eq!(load_valid(&subscribers, []).sandbox.directory, None);
    let config = load_valid(&format!("{subscribers}enum_listen = \"127.0.0.1:5353\""), []);
    let expected = DirectoryConfig {
        enum_listen: Some("127.0.0.1:5353".parse().unwrap()),
        hlr_listen: None,
        subscribers: vec![
            "+447700900123 23430".parse().unwrap(),
            "+447700900124 23410 ported-from 23430 absent".parse().unwrap(),
        ],
        ..DirectoryConfig::default()
    };
    assert_eq!(config.sandbox.directory, Some(expected));
    let by_variables =
        load_valid("", [("RINGTRUE_SANDBOX__HLR_LISTEN", "[::1]:0"), ("RINGTRUE_SANDBOX__SUBSCRIBERS", SUBSCRIBERS)]);
    assert_eq!(by_variables.sandbox.directory.unwrap().subscribers.len(), 2);
}
