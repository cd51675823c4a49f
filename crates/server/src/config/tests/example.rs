//! The examples in the documentation are valid configurations.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use tempfile::TempDir;

use super::{load, load_valid};
use crate::config::ConnectorSection;

const MANUAL: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md"));

const CONNECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/connectors.md"));

/// Concatenates the examples of a page into one configuration.
fn example(page: &str) -> String {
    page.split("```toml example\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

/// Creates the secret files of an example. SMPP passwords are limited to 8 characters.
fn with_secrets(example: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for name in example.split("\"/etc/ringtrue/").skip(1).filter_map(|rest| rest.split('"').next()) {
        let path = folder.path().join(name);
        let secret = match name.rsplit_once('.') {
            Some((_, "password")) => "hunter2".to_owned(),
            Some((_, "key")) => "0123456789abcdef".repeat(4),
            Some((_, "pem")) => rcgen::KeyPair::generate().unwrap().serialize_pem(),
            _ => "0123456789abcdef".to_owned(),
        };
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    let file = example.replace("/etc/ringtrue", folder.path().to_str().unwrap());
    (folder, file)
}

#[test]
fn operating_manual_example_is_valid() {
    let (_folder, file) = with_secrets(&example(MANUAL));
    let config = load_valid(&file, [("TWILIO_AUTH_TOKEN", "hunter2")]);
    let names: Vec<_> = config.connectors.iter().map(ConnectorSection::name).collect();
    assert_eq!(names, ["kannel", "o2", "twilio"]);
    let networks: Vec<_> = config.networks.networks().map(|network| network.name.as_str()).collect();
    assert_eq!(networks, ["O2", "Vodafone"]);
    assert_eq!(config.networks.receivers().count(), 4);
    assert_eq!(config.ingress.unwrap().listen.port(), 8081);
}

/// The page has an example of every driver.
#[test]
fn connector_examples_are_valid() {
    let (_folder, file) = with_secrets(&example(CONNECTORS));
    let config = load_valid(&file, []);
    let names: Vec<_> = config.connectors.iter().map(ConnectorSection::name).collect();
    let shown = [
        "bird",
        "infobip",
        "jasmin",
        "kannel",
        "legacy",
        "messagebird",
        "o2",
        "other",
        "plivo",
        "sinch",
        "swaps",
        "telnyx",
        "three",
        "twilio",
        "vonage",
    ];
    assert_eq!(names, shown);
    assert_eq!(config.networks.receivers().count(), 4);
    assert_eq!(config.number_lookup.sources.len(), 2);
}

#[test]
fn missing_secret_file_is_reported() {
    let error = load(&example(MANUAL), []).unwrap_err();
    assert!(error.to_string().contains("/etc/ringtrue/kannel.path"), "{error}");
}
