//! Number lookup sources.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use rcgen::{KeyPair, PKCS_RSA_SHA256};
use ringtrue_operators::number_lookup::http_hlr::HlrDriver;

use super::{assert_rejected, load_valid};
use crate::config::NumberSourceSection;

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

fn names(order: &str) -> Vec<String> {
    let file = format!("number_lookup.order = {order}\n{SOURCES}");
    let config = load_valid(&file, [("TWILIO_SECRET", "hunter2")]);
    let name = |source: &NumberSourceSection| match source {
        NumberSourceSection::Enum(config) => config.name.to_string(),
        NumberSourceSection::Hlr(config, _) => config.name.to_string(),
        NumberSourceSection::TelcoFinder(config, _) => config.name.to_string(),
    };
    config.number_lookup.sources.iter().map(name).collect()
}

#[test]
fn sources_follow_the_configured_order() {
    assert_eq!(names("[]"), ["aaa", "bbb", "ccc"]);
    assert_eq!(names(r#"["ccc", "aaa"]"#), ["ccc", "aaa", "bbb"]);
}

/// RSA keys are the longest secrets.
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

/// Brands have their own ids, and sources return them with or without leading zeros in the MNC.
#[test]
fn networks_are_known_by_id_and_aliases() {
    let file =
        format!("[networks.23410]\nname = \"O2\"\ncountry = \"GB\"\naliases = [\"Giffgaff\", \"23411\"]\n{SOURCES}");
    let config = load_valid(&file, [("TWILIO_SECRET", "hunter2")]);
    for source in &config.number_lookup.sources {
        let known = match source {
            NumberSourceSection::Enum(config) => &config.rules.known_networks,
            NumberSourceSection::Hlr(config, _) => &config.known_networks,
            NumberSourceSection::TelcoFinder(config, _) => &config.known_networks,
        };
        for (written, meant) in [("234010", "23410"), ("234011", "23411"), ("234012", "234012")] {
            assert_eq!(known.resolve_plmn_code(written).unwrap().as_str(), meant);
        }
    }
}

#[test]
fn invalid_sources_are_rejected() {
    for (file, error) in [
        (
            "number_lookup.order = [\"none\"]",
            "number_lookup.order (/etc/ringtrue/ringtrue.toml:1): found \"none\"; allowed: names of \
             `[number_sources.NAME]` sections",
        ),
        (
            "number_lookup.prefixes = \"never\"",
            "number_lookup.prefixes (/etc/ringtrue/ringtrue.toml:1): found \"never\"; allowed: \"never\" only with a \
             `[number_sources.NAME]` section, since no number would have a network",
        ),
        (
            "[number_sources.a]\nkind = \"enum_dns\"\nservers = []",
            "number_sources.a.servers (/etc/ringtrue/ringtrue.toml:3): found []; allowed: at least one name server",
        ),
    ] {
        assert_rejected(file, [], error);
    }
}
