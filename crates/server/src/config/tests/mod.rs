//! Tests with valid configurations, and with the errors of invalid ones.

mod connectors;
mod documentation;
mod networks;
mod secrets;
mod values;

use std::{path::Path, time::Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{Config, ConfigErrors, Environment, LoadedConfig, load_layers};

const FILE: &str = "/etc/ringtrue/ringtrue.toml";

/// Sections that the cases in rejected.txt include by name.
const FIXTURES: [(&str, &str); 4] = [("@smpp", SMPP), ("@camara", CAMARA), ("@sms_http", SMS_HTTP), ("@o2", O2)];

/// A connector without a password. Has six lines, which matters for line numbers in expected errors.
const SMPP: &str = r#"[connectors.o2]
kind = "smpp"
host = "smsc.example.net"
port = 2775
system_id = "ringtrue"
receivers = ["+447700900001", "+447700900002"]
"#;

/// A CAMARA connector. Has eight lines, which matters for line numbers in expected errors.
const CAMARA: &str = r#"[connectors.three]
kind = "camara"
networks = ["23420"]
issuer = "https://op.example"
api_root = "https://api.op.example"
client_id = "us"
client_authentication = "client_secret_basic"
client_secret_env = "SECRET"
"#;

/// A listener, and a webhook connector without a driver. Has five lines, which matters for line numbers in expected
/// errors.
const SMS_HTTP: &str = r#"ingress.listen = "127.0.0.1:8081"
[connectors.sms]
kind = "sms_http"
public_url = "https://sms.example.com/southbound/sms/sms"
receivers = ["+447700900001"]
"#;

/// A network. Has three lines, which matters for line numbers in expected errors.
const O2: &str = r#"[networks.23410]
name = "O2"
country = "GB"
"#;

fn variables<const N: usize>(variables: [(&str, &str); N]) -> Environment {
    variables.into_iter().collect()
}

fn load<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Result<LoadedConfig, ConfigErrors> {
    load_layers(Some((file, Path::new(FILE))), &variables(environment))
}

#[track_caller]
fn load_valid<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Config {
    load(file, environment).unwrap_or_else(|error| panic!("{error}")).config
}

/// Returns a certificate with its root, and the certificate's key (PEM).
fn certificate_chain() -> (String, String) {
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut root = CertificateParams::default();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = CertificateParams::default().signed_by(&key, &Issuer::from_params(&root, &root_key)).unwrap();
    (certificate.pem() + &root.self_signed(&root_key).unwrap().pem(), key.serialize_pem())
}

#[test]
fn all_errors_are_reported_by_line() {
    let file = r#"region = "mars"
listen = "127.0.0.1:1"
[http]
listen = "localhost"
[store]
connections = 0
[connectors.o2]
kind = "smpp"
host = ""
port = 2775
receivers = ["+447700900001"]
[networks.23410]
name = "O2"
country = "Britain"
receivers = ["+447700900001"]
[networks.23420]
country = "GB"
nmae = "Three"
"#;
    let error = load(file, [("RINGTRUE_RATE_LIMITS__READ", "many"), ("RINGTRUE_LOG__LEVL", "info")]).unwrap_err();
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let keys: Vec<&str> = lines[1..].iter().map(|line| line.trim_start().split(": ").next().unwrap()).collect();
    let at = |key: &str, line: u32| format!("{key} ({FILE}:{line})");
    assert_eq!(lines[0], "10 errors", "{text}");
    assert_eq!(
        keys,
        [
            at("region", 1),
            at("listen", 2),
            at("http.listen", 4),
            at("store.connections", 6),
            at("connectors.o2.host", 9),
            at("networks.23410.country", 14),
            at("networks.23420.name", 16),
            at("networks.23420.nmae", 18),
            "RINGTRUE_LOG__LEVL".to_owned(),
            "rate_limits.read (environment variable RINGTRUE_RATE_LIMITS__READ)".to_owned(),
        ],
        "{text}"
    );
}

#[test]
fn all_syntax_errors_are_reported() {
    let text = load("region = \nbase_url = \"x\n[store\nurl = 7", []).unwrap_err().to_string();
    for line in [1, 2, 3] {
        assert!(text.contains(&format!("{FILE}:{line}: invalid TOML")), "{text}");
    }
}

#[test]
fn only_settings_that_differ_from_their_defaults_are_changed() {
    let file = "region = \"eu\"\n[rate_limits]\nread = 100\ncreate = 51\n[store]\nconnections = 7";
    let variables = [("RINGTRUE_RATE_LIMITS__TOKEN", "50"), ("RINGTRUE_RATE_LIMITS__MANAGEMENT", "26")];
    let changed: Vec<String> = load(file, variables).unwrap().changed.into_iter().map(|setting| setting.key).collect();
    assert_eq!(changed, ["rate_limits.create", "rate_limits.management", "store.connections"]);
}

/// Compares the times for two numbers of networks, because an absolute limit would depend on the machine.
#[test]
fn time_to_load_is_proportional_to_the_number_of_networks() {
    let file = |networks: u32| {
        let network = |index: u32| {
            let (mcc, mnc) = (200 + index / 1_000, index % 1_000);
            let (a, b) = (index / 250, index % 250);
            format!(
                "[networks.{mcc}{mnc:03}]\nname = \"Network {index}\"\ncountry = \"GB\"\n\
                 prefixes = [\"+447{index:06}\"]\nreceivers = [\"+447700900001\"]\n\
                 address_ranges = [\"10.{a}.{b}.0/24\"]\nautonomous_systems = [{}]\n",
                index + 1
            )
        };
        let connector = format!("{SMPP}password_env = \"PASSWORD\"\n");
        connector + &(0..networks).map(network).collect::<String>()
    };
    let time = |networks: u32| {
        let text = file(networks);
        let measure = || {
            let start = Instant::now();
            assert_eq!(load_valid(&text, [("PASSWORD", "secret")]).networks.networks().count(), networks as usize);
            start.elapsed()
        };
        (0..3).map(|_| measure()).min().unwrap()
    };
    let (small, large) = (time(2_000), time(8_000));
    assert!(large < small * 8, "four times as many networks take {:.1} times as long", large.div_duration_f64(small));
}

/// The cases are in rejected.txt, which explains their format.
#[test]
fn invalid_configurations_are_rejected() {
    let (mut file, mut environment) = (String::new(), vec![]);
    let mut lines = include_str!("rejected.txt").lines().skip_while(|line| line.starts_with("##")).peekable();
    let mut cases = 0;
    while let Some(line) = lines.next() {
        if let Some(expected) = line.strip_prefix("=> ") {
            let result = load_layers(Some((&file, Path::new(FILE))), &environment.drain(..).collect());
            let found = result.map(drop).unwrap_err().to_string().replace(FILE, "FILE");
            let found: Vec<&str> =
                found.lines().skip(usize::from(found.contains(" errors\n"))).map(str::trim).collect();
            // A case may have further errors, such as missing members.
            assert!(found.contains(&expected), "expected {expected}; found {found:#?}; file:\n{file}");
            // An empty line separates the cases.
            assert_eq!(lines.next().unwrap_or_default(), "");
            file.clear();
            cases += 1;
        } else if let Some((name, value)) = line.strip_prefix('$').and_then(|variable| variable.split_once('=')) {
            environment.push((name.to_owned(), value.to_owned()));
        } else if let Some((_, fixture)) = FIXTURES.iter().find(|(name, _)| *name == line) {
            file += fixture;
        } else {
            file.extend([line, "\n"]);
        }
    }
    assert!(cases > 100 && file.is_empty(), "{cases} cases, and then {file}");
}
