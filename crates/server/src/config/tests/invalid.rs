//! Error messages of invalid configurations.

use super::{assert_rejected, load_valid};

#[test]
fn invalid_values_are_rejected() {
    for (file, message) in [
        ("region = \"mars\"", "region (/etc/ringtrue/ringtrue.toml:1): found \"mars\"; allowed: \"eu\" or \"us\""),
        ("\n\nregion = 7", "region (/etc/ringtrue/ringtrue.toml:3): found 7; allowed: \"eu\" or \"us\""),
        (
            "[http]\n# ours\nlisten = \"localhost\"",
            "http.listen (/etc/ringtrue/ringtrue.toml:3): found \"localhost\"; allowed: an IP address and a port, such \
             as \"127.0.0.1:8080\" or \"[::]:8443\"",
        ),
        (
            "http.max_connections = 0",
            "http.max_connections (/etc/ringtrue/ringtrue.toml:1): found 0; allowed: an integer from 1 to 1000000",
        ),
        (
            "http.max_connections = 99999999999999999999",
            "http.max_connections (/etc/ringtrue/ringtrue.toml:1): found an integer out of range; allowed: an integer \
             from 1 to 1000000",
        ),
        (
            "http.max_connections = 1.5",
            "http.max_connections (/etc/ringtrue/ringtrue.toml:1): found a floating-point number; allowed: an integer \
             from 1 to 1000000",
        ),
        (
            "http.header_timeout = \"10 seconds\"",
            "http.header_timeout (/etc/ringtrue/ringtrue.toml:1): found \"10 seconds\"; allowed: a duration from 100ms \
             to 10m, such as \"500ms\", \"10s\" or \"2m\", or an integer number of seconds",
        ),
        (
            "http.idle_timeout = \"2h\"",
            "http.idle_timeout (/etc/ringtrue/ringtrue.toml:1): found \"2h\"; allowed: a duration from 100ms to 1h, \
             such as \"500ms\", \"10s\" or \"2m\", or an integer number of seconds",
        ),
        (
            "http.trusted_proxies = \"10.0.0.0/8\"",
            "http.trusted_proxies (/etc/ringtrue/ringtrue.toml:1): found \"10.0.0.0/8\"; allowed: a list, each item an \
             IP network, such as \"10.0.0.0/8\" or \"2001:db8::/32\"",
        ),
        (
            "http.trusted_proxies = [\"10.0.0.0/8\", \"10.0.0.0/33\"]",
            "http.trusted_proxies (/etc/ringtrue/ringtrue.toml:1): found [\"10.0.0.0/8\", \"10.0.0.0/33\"]; allowed: a \
             list, each item an IP network, such as \"10.0.0.0/8\" or \"2001:db8::/32\"",
        ),
        (
            "metrics.listen = \"9464\"",
            "metrics.listen (/etc/ringtrue/ringtrue.toml:1): found \"9464\"; allowed: an IP address and a port, such \
             as \"127.0.0.1:8080\" or \"[::]:8443\"; or \"\" for none",
        ),
        (
            "callbacks.allow_http = \"yes\"",
            "callbacks.allow_http (/etc/ringtrue/ringtrue.toml:1): found \"yes\"; allowed: true or false",
        ),
        (
            "callbacks.allowed_hosts = [\"https://hooks.internal\"]",
            "callbacks.allowed_hosts (/etc/ringtrue/ringtrue.toml:1): found [\"https://hooks.internal\"]; allowed: a \
             list, each item a host name without scheme or port, such as \"hooks.internal\"",
        ),
        (
            "retention.numbers = \"30 days\"",
            "retention.numbers (/etc/ringtrue/ringtrue.toml:1): found \"30 days\"; allowed: a duration from 1h to \
             365d, such as \"500ms\", \"10s\" or \"2m\", or an integer number of seconds",
        ),
        (
            "rate_limits.token = -1",
            "rate_limits.token (/etc/ringtrue/ringtrue.toml:1): found -1; allowed: an integer from 1 to 1000000",
        ),
        (
            "log.format = \"xml\"",
            "log.format (/etc/ringtrue/ringtrue.toml:1): found \"xml\"; allowed: \"json\" or \"pretty\"",
        ),
        (
            "log.level = \"loud\"",
            "log.level (/etc/ringtrue/ringtrue.toml:1): found \"loud\"; allowed: \"off\", \"error\", \"warn\", \
             \"info\", \"debug\" or \"trace\", or per module, as in \"info,ringtrue_store=debug\"",
        ),
        (
            "log.requests = true",
            "log.requests (/etc/ringtrue/ringtrue.toml:1): found true; allowed: \"off\", \"errors\" or \"all\"",
        ),
        (
            "telemetry.service_name = \"\"",
            "telemetry.service_name (/etc/ringtrue/ringtrue.toml:1): found \"\"; allowed: 1 to 100 characters without \
             control characters",
        ),
    ] {
        assert_rejected(file, [], message);
    }
}

#[test]
fn unknown_keys_are_rejected() {
    for (file, message) in [
        ("[http]\nlisen = 1", "http.lisen (/etc/ringtrue/ringtrue.toml:2): unknown key; did you mean http.listen?"),
        ("regoin = \"eu\"", "regoin (/etc/ringtrue/ringtrue.toml:1): unknown key; did you mean region?"),
        ("x = 1", "x (/etc/ringtrue/ringtrue.toml:1): unknown key"),
        ("http = 8080", "http (/etc/ringtrue/ringtrue.toml:1): unknown key; did you mean a section, [http]?"),
        ("[region]", "region (/etc/ringtrue/ringtrue.toml:1): unknown key; did you mean region?"),
        ("[region]\nname = \"eu\"", "region.name (/etc/ringtrue/ringtrue.toml:2): unknown key; did you mean region?"),
        // Must not echo the secret.
        (
            "[keys]\nmaster_key = \"hunter2\"",
            "keys.master_key (/etc/ringtrue/ringtrue.toml:2): unknown key; did you mean keys.master_key_file?",
        ),
    ] {
        assert_rejected(file, [], message);
    }
    load_valid("[http]\n[http.tls]\n[metrics]", []);
}

#[test]
fn invalid_toml_is_rejected() {
    assert_rejected(
        "region = \"eu\"\nbase_url = https://example.com",
        [],
        "/etc/ringtrue/ringtrue.toml:2: invalid TOML: string values must be quoted, expected literal string",
    );
    assert_rejected(
        "region = \"eu\"\nregion = \"us\"",
        [],
        "/etc/ringtrue/ringtrue.toml:2: invalid TOML: duplicate key",
    );
}

#[test]
fn conflicting_values_are_rejected() {
    for (file, message) in [
        (
            "http.listen = \"0.0.0.0:8443\"",
            "base_url (default): found nothing; allowed: a scheme and a host, such as \
             \"https://eu.verify.example.com\", without a path or trailing slash, because `http.listen` is \
             0.0.0.0:8443, which is not a loopback address",
        ),
        (
            "base_url = \"https://us.verify.example.com\"",
            "base_url (/etc/ringtrue/ringtrue.toml:1): found \"https://us.verify.example.com\"; allowed: a host that \
             does not begin with \"us.\", because `region` is \"eu\"",
        ),
        (
            "base_url = \"http://verify.example.com\"",
            "base_url (/etc/ringtrue/ringtrue.toml:1): found \"http://verify.example.com\"; allowed: an https:// URL, \
             because its host is not this machine; or set `allow_plain_http`",
        ),
        (
            "base_url = \"http://localhost:8080\"\nhttp.tls = { certificate = \"a.pem\", key = \"b.pem\" }",
            "base_url (/etc/ringtrue/ringtrue.toml:1): found \"http://localhost:8080\"; allowed: an https:// URL, \
             because `http.tls` is set",
        ),
        (
            "[http.tls]\ncertificate = \"a.pem\"",
            "http.tls.key (default): found nothing; allowed: a path to a file, because `http.tls.certificate` is set",
        ),
        (
            "[http.tls]\nkey = \"a.pem\"",
            "http.tls.certificate (default): found nothing; allowed: a path to a file, because `http.tls.key` is set",
        ),
        (
            "metrics.listen = \"127.0.0.1:8080\"",
            "metrics.listen (/etc/ringtrue/ringtrue.toml:1): found \"127.0.0.1:8080\"; allowed: an address other than \
             `http.listen`, or \"off\"",
        ),
        (
            "ingress.listen = \"127.0.0.1:8080\"",
            "ingress.listen (/etc/ringtrue/ringtrue.toml:1): found \"127.0.0.1:8080\"; allowed: an address other than \
             `http.listen`, or \"off\"",
        ),
        (
            "ingress.listen = \"127.0.0.1:9464\"",
            "ingress.listen (/etc/ringtrue/ringtrue.toml:1): found \"127.0.0.1:9464\"; allowed: an address other than \
             `metrics.listen`, or \"off\"",
        ),
        (
            "header_enrichment.listen = \"127.0.0.1:8080\"",
            "header_enrichment.listen (/etc/ringtrue/ringtrue.toml:1): found \"127.0.0.1:8080\"; allowed: an address \
             other than `http.listen`, or \"off\"",
        ),
        (
            "header_enrichment.listen = \"0.0.0.0:80\"",
            "header_enrichment.public_url (default): found nothing; allowed: an http:// URL without a path, such as \
             \"http://he.example.com\", because `header_enrichment.listen` is \
             0.0.0.0:80, which is not a loopback address",
        ),
        (
            "header_enrichment.public_url = \"https://he.example.com\"",
            "header_enrichment.public_url (/etc/ringtrue/ringtrue.toml:1): found \"https://he.example.com\"; allowed: \
             an http:// URL without a path, such as \"http://he.example.com\"",
        ),
        (
            "[ingress.tls]\nkey = \"a.pem\"",
            "ingress.tls.certificate (default): found nothing; allowed: a path to a file, because `ingress.tls.key` is \
             set",
        ),
        (
            "[callbacks]\nconcurrency = 10\nconcurrency_per_destination = 11",
            "callbacks.concurrency_per_destination (/etc/ringtrue/ringtrue.toml:3): found 11; allowed: at most 10, the \
             value of `callbacks.concurrency`",
        ),
    ] {
        assert_rejected(file, [], message);
    }
}

#[test]
fn passwords_are_masked_in_errors() {
    let allowed = "store URLs have the form `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`";
    assert_rejected(
        "store.url = \"mysql://root:hunter2@db/ringtrue?password=hunter2\"",
        [],
        &format!("store.url (/etc/ringtrue/ringtrue.toml:1): found \"mysql://…@db/ringtrue?…\"; allowed: {allowed}"),
    );
    assert_rejected(
        "",
        [("RINGTRUE_STORE__URL", "mysql://root:hunter2@db")],
        &format!("store.url (environment variable RINGTRUE_STORE__URL): found \"mysql://…@db\"; allowed: {allowed}"),
    );
    assert_rejected(
        "store.url = \"postgres://u:hunter2@db/ringtrue?sslmode=prefer\"",
        [],
        "store.url (/etc/ringtrue/ringtrue.toml:1): found \"postgres://…@db/ringtrue?…\"; allowed: `sslmode` must be \
         `disable`, `require` or `verify-full`",
    );
    assert_rejected(
        "base_url = \"https://root:hunter2@example.com\"",
        [],
        "base_url (/etc/ringtrue/ringtrue.toml:1): found \"https://…@example.com\"; allowed: a scheme and a host, such \
         as \"https://eu.verify.example.com\", without a path or trailing slash; or \"\" for none",
    );
}

#[cfg(feature = "otlp")]
#[test]
fn otlp_endpoint_must_be_plain_http() {
    for url in ["https://collector:4318", "http://u:p@collector:4318", "http://collector?key=1", "collector:4318"] {
        assert!(super::load(&format!("telemetry.otlp_endpoint = \"{url}\""), []).is_err(), "{url}");
    }
}
