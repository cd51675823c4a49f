//! Tests that the defaults are complete and documented, and that the examples in the documentation are valid.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use jiff::SignedDuration;
use ringtrue_domain::{network::NetworkDirectory, region::Region};
use ringtrue_engine::{courier, rate_limits::DefaultRateLimits};
use ringtrue_operators::ip_routing::IpRoutingConfig;
use ringtrue_store::StoreOptions;
use tempfile::TempDir;

use super::{
    super::document::{NAMED_GROUPS, parse_toml, variable_name},
    certificate_chain, load, load_valid,
};
use crate::config::{
    CallbacksSection, ConnectorSection, DEFAULTS, HttpSection, KeysSection, LogFormat, LoggedRequests, MetricsSection,
    SandboxSection, TelemetrySection,
};

const SETTINGS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md"));
const CONNECTOR_SETTINGS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/connector-settings.md"));
const CONSOLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/console.md"));
const CONNECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/connectors.md"));

fn keys() -> Vec<String> {
    let entries = parse_toml(DEFAULTS, Path::new("default.toml")).0.into_iter();
    entries.filter(|(_, _, value)| !value.is_table()).map(|(key, _, _)| key).collect()
}

#[test]
fn default_values() {
    let config = load_valid("", []);
    assert_eq!(config.region, Region::Eu);
    assert_eq!(config.base_url, None);
    assert_eq!(
        config.http,
        HttpSection {
            listen: "127.0.0.1:8080".parse().unwrap(),
            tls: None,
            trusted_proxies: vec![],
            proxy_protocol: false,
            max_connections: 10_000,
            max_connections_per_address: 200,
            max_connections_per_proxy: 5_000,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(25),
            idle_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(30),
        }
    );
    assert_eq!(config.metrics, MetricsSection { listen: Some("127.0.0.1:9464".parse().unwrap()) });
    assert_eq!(config.store.url.to_string(), "sqlite:/var/lib/ringtrue/ringtrue.db");
    assert_eq!(config.store.options, StoreOptions::default());
    assert_eq!(config.keys, KeysSection { master_key_file: None });
    assert_eq!(config.rate_limits, DefaultRateLimits::default());
    assert_eq!(
        config.callbacks,
        CallbacksSection { allow_http: false, allowed_addresses: vec![], allowed_hosts: vec![], ca_file: None }
    );
    assert_eq!(config.courier, courier::CourierLimits::default());
    assert_eq!((config.number_limit.max_checks, config.number_limit.window_seconds), (5, 600));
    assert_eq!(config.retention.numbers, SignedDuration::from_hours(30 * 24));
    assert_eq!(config.retention.discovered_numbers, SignedDuration::from_hours(24));
    assert_eq!(config.retention.audit_events, SignedDuration::from_hours(365 * 24));
    assert_eq!(config.retention.checks, Some(SignedDuration::from_hours(400 * 24)));
    assert_eq!(config.retention.request_log, Some(SignedDuration::from_hours(24)));
    assert_eq!(config.max_members, 500);
    assert!(!config.require_second_factor);
    assert!(!config.camara_enabled);
    assert!(config.openid_connect.is_none());
    assert_eq!(config.sandbox, SandboxSection { enabled: true, directory: None });
    assert_eq!(config.ingress, None);
    assert_eq!(config.header_enrichment, None);
    assert_eq!(config.networks, NetworkDirectory::default());
    assert_eq!(config.ip_routing, IpRoutingConfig::default());
    assert_eq!(config.connectors, []);
    assert_eq!((config.log.format, config.log.requests), (LogFormat::Json, LoggedRequests::Errors));
    assert_eq!(config.log.level.to_string(), "info");
    let telemetry = TelemetrySection { otlp_endpoint: None, service_name: "ringtrue".to_owned() };
    assert_eq!(config.telemetry, telemetry);
}

/// Finds defaults that no code reads. The opposite needs no test: reading a key without a default fails.
#[test]
fn every_key_is_read() {
    for key in keys() {
        let variable = variable_name(&key);
        let is_rejected = load("", [(variable.as_str(), "\u{1}")]).is_err();
        // Paths accept any text, so they cannot be tested with an invalid value.
        let is_path = key.contains(".tls.") || key.ends_with("_file") || key.ends_with("_database");
        assert!(is_rejected || is_path, "{key} accepts any text; it may be unused");
    }
}

#[test]
fn every_key_is_documented() {
    for (above, line) in DEFAULTS.lines().zip(DEFAULTS.lines().skip(1)) {
        let is_setting = line.contains(" = ") && !line.starts_with('#');
        assert!(!is_setting || above.starts_with("# "), "no comment above: {line}");
    }
}

/// Named sections have no defaults, so comments in the file of defaults document them by example.
#[test]
fn named_sections_have_valid_examples() {
    let examples = DEFAULTS.lines().filter_map(|line| line.strip_prefix("#   ")).collect::<Vec<_>>().join("\n");
    let file = examples.replace("password_file = \"/etc/ringtrue/o2.password\"", "password_env = \"O2_PASSWORD\"");
    let config = load_valid(&file, [("O2_PASSWORD", "hunter2")]);
    assert_eq!((config.connectors.len(), config.number_lookup.sources.len()), (1, 1));
    for section in NAMED_GROUPS {
        assert!(examples.contains(&format!("[{section}")), "no example of [{section}]");
        let error = load(&format!("[{section}.x]\nkind = \"?\""), []).unwrap_err().to_string();
        let kinds = error.split_once("found \"?\"; allowed: ").map_or("", |(_, kinds)| kinds);
        for kind in kinds.split('"').skip(1).step_by(2) {
            assert!(DEFAULTS.contains(&format!("\"{kind}\"")), "[{section}.NAME] may be of the kind {kind}");
        }
    }
}

#[test]
fn every_key_is_in_the_manual() {
    for key in keys() {
        assert!(SETTINGS.contains(&format!("`{key}`")), "docs/configuration.md does not mention `{key}`");
    }
}

#[test]
fn defaults_are_a_valid_file() {
    let config = load_valid(DEFAULTS, []);
    assert_eq!(config.http, load_valid("", []).http);
}

/// Concatenates the examples of a page into one configuration.
fn example(page: &str) -> String {
    page.split("```toml example\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

/// Creates the secret files of an example. SMPP passwords are limited to 8 characters.
fn with_secrets(example: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let (chain, chain_key) = certificate_chain();
    for name in example.split("\"/etc/ringtrue/").skip(1).filter_map(|rest| rest.split('"').next()) {
        let path = folder.path().join(name);
        let secret = match name.rsplit_once('.') {
            Some(("operator-token", "crt")) => chain.clone(),
            Some(("operator-token", "key")) => chain_key.clone(),
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
fn connector_settings_example_is_valid() {
    let (_folder, file) = with_secrets(&example(CONNECTOR_SETTINGS));
    let config = load_valid(&file, [("TWILIO_AUTH_TOKEN", "hunter2")]);
    let names: Vec<_> = config.connectors.iter().map(ConnectorSection::name).collect();
    assert_eq!(names, ["kannel", "o2", "twilio"]);
    let networks: Vec<_> = config.networks.networks().map(|network| network.name.as_str()).collect();
    assert_eq!(networks, ["O2", "Vodafone"]);
    assert_eq!(config.networks.receivers().count(), 4);
    assert_eq!(config.ingress.unwrap().listen.port(), 8081);
}

/// The page must have an example for every driver.
#[test]
fn connector_examples_are_valid() {
    let (_folder, file) = with_secrets(&example(CONNECTORS));
    let config = load_valid(&file, []);
    let names: Vec<_> = config.connectors.iter().map(ConnectorSection::name).collect();
    let shown =
        "bird infobip jasmin kannel legacy messagebird o2 other plivo sinch swaps telnyx three tokens twilio vonage";
    assert_eq!(names.join(" "), shown);
    assert_eq!(config.networks.receivers().count(), 4);
    assert_eq!(config.number_lookup.sources.len(), 2);
}

#[test]
fn console_example_is_valid() {
    let (_folder, file) = with_secrets(&example(CONSOLE));
    let section = load_valid(&file, []).openid_connect.unwrap();
    assert_eq!((section.issuer.as_str(), section.client_id.as_str()), ("https://login.example.com", "ringtrue"));
    assert!(section.client_secret.is_some() && !section.policy.create_accounts);
    assert_eq!((section.policy.administrators.len(), section.policy.workspaces.len()), (1, 1));
}

#[test]
fn missing_secret_file_is_reported() {
    let error = load(&example(CONNECTOR_SETTINGS), []).unwrap_err();
    assert!(error.to_string().contains("/etc/ringtrue/kannel.path"), "{error}");
}

#[test]
fn manual_example_for_number_sources_is_valid() {
    let (_, section) = CONNECTORS.split_once("### Trying sources out").unwrap();
    let (_, example) = section.split_once("```toml\n").unwrap();
    let config = load_valid(example.split_once("```").unwrap().0, []);
    let directory = config.sandbox.directory.unwrap();
    assert_eq!((directory.subscribers.len(), config.number_lookup.sources.len()), (3, 2));
    assert!(directory.enum_listen.is_some() && directory.hlr_listen.is_some());
}
