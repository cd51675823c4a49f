//! The embedded defaults: these, complete, and documented.

use std::time::Duration;

use jiff::SignedDuration;
use ringtrue_domain::{network::NetworkDirectory, region::Region};
use ringtrue_engine::{callback, rate_limit::Limits};
use ringtrue_operators::ip_routing::IpRoutingConfig;
use ringtrue_store::StoreOptions;

use super::{
    super::{family::Family, settings::variable_of, value::entries},
    good,
};
use crate::config::{
    CallbacksSection, DEFAULTS, Http, KeysSection, LogFormat, MetricsSection, RequestLog, SandboxSection,
    TelemetrySection,
};

fn keys() -> Vec<String> {
    entries(DEFAULTS, "default.toml".as_ref()).unwrap().into_iter().map(|entry| entry.key).collect()
}

#[test]
fn the_defaults_are_these() {
    let config = good("", []);
    assert_eq!(config.region, Region::Eu);
    assert_eq!(config.base_url, None);
    assert_eq!(
        config.http,
        Http {
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
    assert_eq!(config.rate_limits, Limits::default());
    assert_eq!(
        config.callbacks,
        CallbacksSection { allow_http: false, allowed_addresses: vec![], allowed_hosts: vec![], ca_file: None }
    );
    assert_eq!(config.courier, callback::Limits::default());
    assert_eq!((config.number_guard.creates, config.number_guard.within_seconds), (5, 600));
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
    assert_eq!((config.log.format, config.log.requests), (LogFormat::Json, RequestLog::Errors));
    assert_eq!(config.log.level.to_string(), "info");
    let telemetry = TelemetrySection { otlp_endpoint: None, service_name: "ringtrue".to_owned() };
    assert_eq!(config.telemetry, telemetry);
}

/// Every key that can be read is in the defaults, because reading one that is not there fails; this is the other way
/// round: every key of the defaults is read by someone.
#[test]
fn every_key_means_something() {
    for key in keys() {
        let variable = variable_of(&key);
        let refused = super::load("", [(variable.as_str(), "\u{1}")]).is_err();
        // Any text at all is a path.
        let is_path = key.contains(".tls.") || key.ends_with("_file") || key.ends_with("_database");
        assert!(refused || is_path, "{key} takes anything: is it read at all?");
    }
}

#[test]
fn every_key_has_a_comment() {
    let mut lines = DEFAULTS.lines().peekable();
    let mut previous = "";
    for line in &mut lines {
        if line.contains(" = ") && !line.starts_with('#') {
            assert!(previous.starts_with("# "), "no comment above: {line}");
        }
        previous = line;
    }
}

/// Sections with names have no defaults, and yet nobody is to miss them.
#[test]
fn sections_with_names_are_shown_by_example() {
    let examples = DEFAULTS.lines().filter_map(|line| line.strip_prefix("#   ")).collect::<Vec<_>>().join("\n");
    let file = examples.replace("password_file = \"/etc/ringtrue/o2.password\"", "password_env = \"O2_PASSWORD\"");
    let config = good(&file, [("O2_PASSWORD", "hunter2")]);
    assert_eq!((config.connectors.len(), config.number_lookup.sources.len()), (1, 1));
    for section in Family::sections() {
        assert!(examples.contains(&format!("[{section}")), "no example of [{section}]");
        let refused = super::load(&format!("[{section}.x]\nkind = \"?\""), []).unwrap_err().to_string();
        let kinds = refused.split_once("found \"?\"; allowed: ").map_or("", |(_, kinds)| kinds);
        for kind in kinds.split('"').skip(1).step_by(2) {
            assert!(DEFAULTS.contains(&format!("\"{kind}\"")), "[{section}.NAME] may be of the kind {kind}");
        }
    }
}

#[test]
fn every_key_is_in_the_operators_manual() {
    let manual = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md"));
    for key in keys() {
        assert!(manual.contains(&format!("`{key}`")), "docs/operating.md does not mention `{key}`");
    }
}

#[test]
fn the_defaults_can_be_written_to_a_file_and_read_again() {
    let config = good(DEFAULTS, []);
    assert_eq!(config.http, good("", []).http);
}
