//! The examples of the operators' manual are good configurations.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use super::{good, load};
use crate::config::ConnectorSection;

const MANUAL: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md"));

/// What stands between a fence and the next.
fn example() -> &'static str {
    let (_, rest) = MANUAL.split_once("```toml example\n").unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_example_of_the_manual_is_good() {
    let folder = tempfile::tempdir().unwrap();
    for (name, secret) in [("o2.password", "hunter2"), ("kannel.path", "0123456789abcdef")] {
        let path = folder.path().join(name);
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    let file = example().replace("/etc/ringtrue", folder.path().to_str().unwrap());
    let config = good(&file, [("TWILIO_AUTH_TOKEN", "hunter2")]);
    let names: Vec<_> = config.connectors.iter().map(ConnectorSection::name).collect();
    assert_eq!(names, ["kannel", "o2", "twilio"]);
    let networks: Vec<_> = config.networks.networks().map(|network| network.name.as_str()).collect();
    assert_eq!(networks, ["O2", "Vodafone"]);
    assert_eq!(config.networks.receivers().count(), 4);
    assert_eq!(config.ingress.unwrap().listen.port(), 8081);
}

/// Whoever has not written the secrets yet is told the first that is missing.
#[test]
fn the_example_needs_its_secrets() {
    let error = load(example(), []).unwrap_err();
    assert!(error.to_string().contains("/etc/ringtrue/kannel.path"), "{error}");
}
