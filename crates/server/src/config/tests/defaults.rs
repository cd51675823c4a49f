//! The embedded defaults are complete and documented.

use std::time::Duration;

use jiff::SignedDuration;
use ringtrue_domain::{network::NetworkDirectory, region::Region};
use ringtrue_engine::{callback, rate_limit::DefaultRateLimits};
use ringtrue_operators::ip_routing::IpRoutingConfig;
use ringtrue_store::StoreOptions;

use super::{
    super::{named_sections::SectionGroup, settings::variable_name, value::parse_toml},
    load_valid,
};
use crate::config::{
    CallbacksSection, DEFAULTS, HttpSection, KeysSection, LogFormat, MetricsSection, RequestLogLevel, SandboxSection,
    TelemetrySection,
};

fn keys() -> Vec<String> {
    parse_toml(DEFAULTS, "default.toml".as_ref()).unwrap().into_iter().map(|entry| entry.key).collect()
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
    assert_eq!(config.courier, callback::CourierLimits::default());
    assert_eq!((config.number_guard.max_checks, config.number_guard.window_seconds), (5, 600));
    assert_eq!(config.retention, SignedDuration::from_hours(30 * 24));
    assert_eq!(config.discovery_retention, SignedDuration::from_hours(24));
    assert_eq!(config.audit_retention, SignedDuration::from_hours(365 * 24));
    assert_eq!(config.keep_requests, Some(SignedDuration::from_hours(24)));
    assert_eq!(config.max_members, 500);
    assert_eq!(config.sandbox, SandboxSection { enabled: true, directory: None });
    assert_eq!(config.ingress, None);
    assert_eq!(config.header_enrichment, None);
    assert_eq!(config.networks, NetworkDirectory::default());
    assert_eq!(config.ip_routing, IpRoutingConfig::default());
    assert_eq!(config.connectors, []);
    assert_eq!((config.log.format, config.log.requests), (LogFormat::Json, RequestLogLevel::Errors));
    assert_eq!(config.log.level.to_string(), "info");
    let telemetry = TelemetrySection { otlp_endpoint: None, service_name: "ringtrue".to_owned() };
    assert_eq!(config.telemetry, telemetry);
}

/// The other direction needs no test: reading a key that has no default fails.
#[test]
fn every_key_is_read() {
    for key in keys() {
        let variable = variable_name(&key);
        let is_rejected = super::load("", [(variable.as_str(), "\u{1}")]).is_err();
        // Any text is a valid path.
        let is_path = key.contains(".tls.") || key.ends_with("_file") || key.ends_with("_database");
        assert!(is_rejected || is_path, "{key} accepts any text: is it read?");
    }
}

#[test]
fn every_key_is_documented() {
    let mut lines = DEFAULTS.lines().peekable();
    let mut previous = "";
    for line in &mut lines {
        if line.contains(" = ") && !line.starts_with('#') {
            assert!(previous.starts_with("# "), "no comment above: {line}");
        }
        previous = line;
    }
}

/// Named sections have no defaults, so the file documents them by example.
#[test]
fn named_sections_have_valid_examples() {
    let examples = DEFAULTS.lines().filter_map(|line| line.strip_prefix("#   ")).collect::<Vec<_>>().join("\n");
    let file = examples.replace("password_file = \"/etc/ringtrue/o2.password\"", "password_env = \"O2_PASSWORD\"");
    let config = load_valid(&file, [("O2_PASSWORD", "hunter2")]);
    assert_eq!((config.connectors.len(), config.number_lookup.sources.len()), (1, 1));
    for section in SectionGroup::prefixes() {
        assert!(examples.contains(&format!("[{section}")), "no example of [{section}]");
        let error = super::load(&format!("[{section}.x]\nkind = \"?\""), []).unwrap_err().to_string();
        let kinds = error.split_once("found \"?\"; allowed: ").map_or("", |(_, kinds)| kinds);
        for kind in kinds.split('"').skip(1).step_by(2) {
            assert!(DEFAULTS.contains(&format!("\"{kind}\"")), "[{section}.NAME] may be of the kind {kind}");
        }
    }
}

#[test]
fn every_key_is_in_the_operating_manual() {
    let manual = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md"));
    for key in keys() {
        assert!(manual.contains(&format!("`{key}`")), "docs/operating.md does not mention `{key}`");
    }
}

#[test]
fn defaults_are_a_valid_file() {
    let config = load_valid(DEFAULTS, []);
    assert_eq!(config.http, load_valid("", []).http);
}
