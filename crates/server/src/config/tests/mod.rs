//! Valid configurations, and the errors of invalid ones.

mod addresses;
mod camara;
mod connectors;
mod defaults;
mod example;
mod invalid;
mod layers;
mod master_key;
mod networks;
mod number_lookup;
mod sandbox;
mod sms_http;

use std::path::Path;

use super::{Config, ConfigError, Environment, LoadedConfig, load_layers};

const FILE: &str = "/etc/ringtrue/ringtrue.toml";

fn variables<const N: usize>(variables: [(&str, &str); N]) -> Environment {
    variables.into_iter().collect()
}

fn load<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Result<LoadedConfig, ConfigError> {
    load_layers(Some((file, Path::new(FILE))), &variables(environment))
}

fn load_valid<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Config {
    load(file, environment).unwrap_or_else(|error| panic!("{error}")).config
}

#[track_caller]
fn assert_rejected<const N: usize>(file: &str, environment: [(&str, &str); N], message: &str) {
    let error = load(file, environment).expect_err(&format!("{file} is accepted"));
    assert_eq!(error.to_string(), message);
}
