//! Tests the precedence of environment, file and defaults, and the formats of values.

use std::{fs, path::Path, time::Duration};

use super::{
    super::{
        LoadedConfig,
        document::{mask_url, suggest_similar},
        listeners::BaseUrl,
        load, load_for_development,
        sections::parse_log_filter,
        value_parser::{format_duration, parse_duration},
    },
    load_valid, variables,
};
use crate::config::{Environment, LogFormat, LoggedRequests};

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
    assert_eq!(config.log.requests, LoggedRequests::All);
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
fn reserved_variables_are_not_settings() {
    load_valid("", [("RINGTRUE_CONFIG", "x"), ("RINGTRUE_MASTER_KEY", "x"), ("RINGTRUE_LOG", "debug")]);
    load_valid("", [("RINGTRUE_PROFILE", "x"), ("RINGTRUE_CLIENT_SECRET", "x")]);
}

#[test]
fn log_variable_overrides_the_file() {
    let file = "log.level = \"warn\"";
    assert_eq!(load_valid(file, [("RINGTRUE_LOG", "")]).log.level.to_string(), "warn");
    assert_eq!(load_valid(file, [("RINGTRUE_LOG", "trace")]).log.level.to_string(), "trace");
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
    assert!(missing.to_string().starts_with("cannot read "), "{missing}");

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

#[cfg(feature = "otlp")]
#[test]
fn otlp_endpoint_must_be_plain_http() {
    for url in ["https://collector:4318", "http://u:p@collector:4318", "http://collector?key=1", "collector:4318"] {
        assert!(super::load(&format!("telemetry.otlp_endpoint = \"{url}\""), []).is_err(), "{url}");
    }
}

#[test]
fn empty_sections_are_accepted() {
    load_valid("[http]\n[http.tls]\n[metrics]\n[networks]\n[receivers.countries]\n[connectors]", []);
}

#[test]
fn proxies_may_send_proxy_protocol_headers() {
    assert!(load_valid("[http]\nproxy_protocol = true\ntrusted_proxies = [\"10.0.0.0/8\"]", []).http.proxy_protocol);
}

#[test]
fn durations_parse_and_render() {
    for (text, millis) in [
        ("500ms", Some(500)),
        ("10s", Some(10_000)),
        ("2m", Some(120_000)),
        ("1h", Some(3_600_000)),
        ("0s", Some(0)),
        ("30d", Some(2_592_000_000)),
        ("10", None),
        ("s", None),
        ("-1s", None),
        ("1.5s", None),
        ("10 s", None),
        ("1w", None),
        ("99999999999999999999s", None),
        ("18446744073709551615d", None),
        ("", None),
    ] {
        assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
    }
    for text in ["500ms", "90s", "2m", "1h", "0s", "25h", "30d"] {
        assert_eq!(format_duration(parse_duration(text).unwrap()), text);
    }
}

#[test]
fn secrets_in_urls_are_masked() {
    for (url, shown) in [
        ("sqlite:/var/lib/ringtrue.db", "sqlite:/var/lib/ringtrue.db"),
        ("postgres://u:hunter2@db/x", "postgres://…@db/x"),
        ("postgres://u:p@ss?w/rd@db/x", "postgres://…@db/x"),
        ("postgres://db/x?user=u&password=hunter2", "postgres://db/x?…"),
        ("u:hunter2@db", "…@db"),
    ] {
        assert_eq!(mask_url(url), shown);
    }
}

#[test]
fn only_similar_names_are_suggested() {
    let suggest = |name| suggest_similar(name, ["region", "base_url"].into_iter());
    assert_eq!(suggest("zzz"), None);
    assert_eq!(suggest("Regoin").as_deref(), Some("region"));
}

#[test]
fn only_origins_are_base_urls() {
    for (text, expected) in [
        ("https://eu.verify.example.com", Some("https://eu.verify.example.com")),
        ("HTTPS://EU.Verify.Example.com:443", Some("https://eu.verify.example.com")),
        ("http://127.0.0.1:8080", Some("http://127.0.0.1:8080")),
        ("https://[2001:db8::1]:8443", Some("https://[2001:db8::1]:8443")),
        ("https://example.com/", None),
        ("https://example.com/api", None),
        ("https://example.com?x=1", None),
        ("https://example.com?", None),
        ("https://example.com#top", None),
        ("https://user@example.com", None),
        ("https://user:secret@example.com", None),
        ("ftp://example.com", None),
        ("example.com", None),
        ("https://", None),
        ("", None),
    ] {
        assert_eq!(BaseUrl::parse(text).as_ref().map(BaseUrl::as_str), expected, "{text}");
    }
    for (text, is_loopback) in [
        ("http://localhost:8080", true),
        ("http://api.localhost", true),
        ("http://127.1.2.3", true),
        ("http://[::1]:8080", true),
        ("http://10.0.0.1", false),
        ("http://localhost.example.com", false),
    ] {
        assert_eq!(BaseUrl::parse(text).unwrap().is_loopback(), is_loopback, "{text}");
    }
}

#[test]
fn only_levels_are_log_filters() {
    for (text, is_valid) in [
        ("info", true),
        ("INFO", true),
        ("off", true),
        ("info,ringtrue_store=debug", true),
        ("ringtrue_web::middleware=trace", true),
        ("inf", false),
        ("", false),
        ("info,", false),
        ("ringtrue_store=loud", false),
    ] {
        assert_eq!(parse_log_filter(text).is_some(), is_valid, "{text}");
    }
}
