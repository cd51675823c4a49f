//! Valid configurations, and the errors of invalid ones.

mod connectors;
mod documentation;
mod networks;
mod secrets;
mod values;

use std::path::Path;

use super::{Config, ConfigError, Environment, LoadedConfig, load_layers};

const FILE: &str = "/etc/ringtrue/ringtrue.toml";

/// Sections that cases include by name.
const FIXTURES: [(&str, &str); 4] = [("@smpp", SMPP), ("@camara", CAMARA), ("@sms_http", SMS_HTTP), ("@o2", O2)];

/// Six lines; without a password.
const SMPP: &str = r#"[connectors.o2]
kind = "smpp"
host = "smsc.example.net"
port = 2775
system_id = "ringtrue"
receivers = ["+447700900001", "+447700900002"]
"#;

/// Eight lines.
const CAMARA: &str = r#"[connectors.three]
kind = "camara"
networks = ["23420"]
issuer = "https://op.example"
api_root = "https://api.op.example"
client_id = "us"
client_authentication = "client_secret_basic"
client_secret_env = "SECRET"
"#;

/// Five lines; without a driver.
const SMS_HTTP: &str = r#"ingress.listen = "127.0.0.1:8081"
[connectors.sms]
kind = "sms_http"
public_url = "https://sms.example.com/southbound/sms/sms"
receivers = ["+447700900001"]
"#;

/// Three lines.
const O2: &str = r#"[networks.23410]
name = "O2"
country = "GB"
"#;

fn variables<const N: usize>(variables: [(&str, &str); N]) -> Environment {
    variables.into_iter().collect()
}

fn load<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Result<LoadedConfig, ConfigError> {
    load_layers(Some((file, Path::new(FILE))), &variables(environment))
}

#[track_caller]
fn load_valid<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Config {
    load(file, environment).unwrap_or_else(|error| panic!("{error}")).config
}

/// The cases are in rejected.txt, which explains their form.
#[test]
fn invalid_configurations_are_rejected() {
    let (mut file, mut environment) = (String::new(), vec![]);
    let mut lines = include_str!("rejected.txt").lines().skip_while(|line| line.starts_with("##")).peekable();
    let mut cases = 0;
    while let Some(line) = lines.next() {
        if let Some(expected) = line.strip_prefix("=> ") {
            let result = load_layers(Some((&file, Path::new(FILE))), &environment.drain(..).collect());
            let found = result.map(drop).map_err(|error| error.to_string());
            assert_eq!(found, Err(expected.replace("FILE", FILE)), "{file}");
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
