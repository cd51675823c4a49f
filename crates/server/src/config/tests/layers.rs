//! Precedence of environment, file and defaults.

use std::{fs, path::Path, time::Duration};

use super::{
    super::{LoadedConfig, load, load_for_development},
    assert_rejected, load_valid, variables,
};
use crate::config::{ConfigError, Environment, LogFormat, RequestLogLevel};

#[test]
fn environment_overrides_file_and_file_overrides_defaults() {
    let file = "[http]\nlisten = \"127.0.0.1:1\"\nmax_connections = 1";
    let config = load_valid(file, [("RINGTRUE_HTTP__LISTEN", "127.0.0.1:2")]);
    assert_eq!(config.http.listen.port(), 2);
    assert_eq!(config.http.max_connections, 1);
    assert_eq!(config.http.max_connections_per_address, 200);
}

#[test]
fn variables_are_parsed_by_the_type_of_their_key() {
    let config = load_valid(
        "",
        [
            ("RINGTRUE_REGION", "us"),
            ("RINGTRUE_BASE_URL", "\"https://us.example.com\""),
            ("RINGTRUE_HTTP__MAX_CONNECTIONS", "7"),
            ("RINGTRUE_HTTP__HEADER_TIMEOUT", "3"),
            ("RINGTRUE_HTTP__BODY_TIMEOUT", "250ms"),
            ("RINGTRUE_HTTP__TRUSTED_PROXIES", "[\"10.0.0.0/8\", \"::1/128\"]"),
            ("RINGTRUE_METRICS__LISTEN", "off"),
            ("RINGTRUE_CALLBACKS__ALLOW_HTTP", "true"),
            ("RINGTRUE_CALLBACKS__ALLOWED_HOSTS", "[\"Hooks.Internal\"]"),
            ("RINGTRUE_LOG__REQUESTS", "all"),
            ("RINGTRUE_TELEMETRY__SERVICE_NAME", "42"),
            ("HOME", "/root"),
        ],
    );
    assert_eq!(config.base_url.unwrap().as_str(), "https://us.example.com");
    assert_eq!(config.http.max_connections, 7);
    assert_eq!(config.http.header_timeout, Duration::from_secs(3));
    assert_eq!(config.http.body_timeout, Duration::from_millis(250));
    assert_eq!(config.http.trusted_proxies.len(), 2);
    assert_eq!(config.metrics.listen, None);
    assert!(config.callbacks.allow_http);
    assert_eq!(config.callbacks.allowed_hosts, ["hooks.internal"]);
    assert_eq!(config.log.requests, RequestLogLevel::All);
    assert_eq!(config.telemetry.service_name, "42");
}

#[test]
fn empty_variable_unsets_a_setting_of_the_file() {
    let file = "[http.tls]\ncertificate = \"a.pem\"\nkey = \"b.pem\"";
    assert!(load_valid(file, []).http.tls.is_some());
    let config = load_valid(file, [("RINGTRUE_HTTP__TLS__CERTIFICATE", ""), ("RINGTRUE_HTTP__TLS__KEY", "")]);
    assert!(config.http.tls.is_none());
}

#[test]
fn unknown_and_invalid_variables_are_rejected() {
    for (name, message) in [
        (
            "RINGTRUE_HTTP_LISTEN",
            "RINGTRUE_HTTP_LISTEN: no setting for this environment variable; did you mean \
             RINGTRUE_HTTP__LISTEN?",
        ),
        (
            "RINGTRUE_http__listen",
            "RINGTRUE_http__listen: no setting for this environment variable; did you mean \
             RINGTRUE_HTTP__LISTEN?",
        ),
        (
            "RINGTRUE_MASTERKEY",
            "RINGTRUE_MASTERKEY: no setting for this environment variable; did you mean RINGTRUE_MASTER_KEY?",
        ),
    ] {
        assert_rejected("", [(name, "hunter2")], message);
    }
    assert_rejected(
        "",
        [("RINGTRUE_HTTP__MAX_CONNECTIONS", "many")],
        "http.max_connections (environment variable RINGTRUE_HTTP__MAX_CONNECTIONS): found \"many\"; allowed: an \
         integer from 1 to 1000000",
    );
}

#[test]
fn reserved_variables_are_not_settings() {
    load_valid("", [("RINGTRUE_CONFIG", "x"), ("RINGTRUE_MASTER_KEY", "x"), ("RINGTRUE_LOG", "debug")]);
    load_valid("", [("RINGTRUE_PROFILE", "x"), ("RINGTRUE_CLIENT_SECRET", "x")]);
}

#[test]
fn log_variable_overrides_the_file() {
    let file = "log.level = \"warn\"";
    assert_eq!(load_valid(file, [("RINGTRUE_LOG", "")]).log.level.to_string(), "warn");
    assert_eq!(load_valid(file, [("RINGTRUE_LOG", "trace")]).log.level.to_string(), "trace");
    assert_rejected(
        file,
        [("RINGTRUE_LOG", "lots")],
        "log.level (environment variable RINGTRUE_LOG): found \"lots\"; allowed: \"off\", \"error\", \"warn\", \
         \"info\", \"debug\" or \"trace\", or per module, as in \"info,ringtrue_store=debug\"",
    );
}

#[test]
fn plain_http_base_url_requires_opt_in() {
    let url = "base_url = \"http://ringtrue:8080\"";
    assert!(super::load(url, []).is_err());
    load_valid(&format!("{url}\nallow_plain_http = true"), []);
    load_valid("base_url = \"http://127.0.0.1:9\"", []);
}

#[test]
fn named_file_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.toml");
    let missing = load(Some(&path), &Environment::default()).unwrap_err();
    assert!(matches!(missing, ConfigError::Unreadable { .. }), "{missing}");

    fs::write(&path, "region = \"us\"").unwrap();
    let by_variable = variables([("RINGTRUE_CONFIG", path.to_str().unwrap())]);
    let LoadedConfig { file, changed, .. } = load(None, &by_variable).unwrap();
    assert_eq!(file.as_deref(), Some(path.as_path()));
    let [changed] = changed.as_slice() else { panic!("{changed:?}") };
    assert_eq!((changed.key.as_str(), changed.value.as_str()), ("region", "\"us\""));
    assert_eq!(changed.origin.to_string(), format!("{}:1", path.display()));
}

#[test]
fn changed_settings_mask_passwords() {
    let url = [("RINGTRUE_STORE__URL", "postgres://u:hunter2@db/ringtrue")];
    let loaded = super::load("", url).unwrap();
    let shown: Vec<_> = loaded.changed.iter().map(|changed| changed.value.as_str()).collect();
    assert_eq!(shown, ["\"postgres://…@db/ringtrue\""]);
    assert!(!format!("{loaded:?}").contains("hunter2"));
}

#[test]
fn development_ignores_production_variables() {
    let environment = variables([
        ("RINGTRUE_STORE__URL", "postgres://u:p@production/ringtrue"),
        ("RINGTRUE_BASE_URL", "https://eu.example.com"),
        ("RINGTRUE_HTTP__LISTEN", "0.0.0.0:443"),
        ("RINGTRUE_HTTP__TLS__CERTIFICATE", "a.pem"),
        ("RINGTRUE_KEYS__MASTER_KEY_FILE", "master.key"),
        ("RINGTRUE_LOG__FORMAT", "json"),
    ]);
    let listen = "127.0.0.1:0".parse().unwrap();
    let config = load_for_development(Path::new("/tmp/x/ringtrue.db"), listen, &environment).unwrap();
    assert!(config.base_url.is_none() && config.http.tls.is_none() && config.keys.master_key_file.is_none());
    assert_eq!(config.http.listen, listen);
    assert_eq!(config.store.url.to_string(), "sqlite:/tmp/x/ringtrue.db");
    assert_eq!(config.log.format, LogFormat::Json, "other settings may be overridden");
    assert_eq!(config.metrics.listen, None);
}
