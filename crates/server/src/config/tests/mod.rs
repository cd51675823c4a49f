//! Configurations as data: what is read, what is refused, and with which words.

mod addresses;
mod broken;
mod camara;
mod connectors;
mod defaults;
mod example;
mod layers;
mod master_key;
mod networks;
mod number_lookup;
mod sandbox;
mod webhooks;

use std::path::Path;

use super::{Config, ConfigError, Environment, Loaded, load_layers};

const FILE: &str = "/etc/ringtrue/ringtrue.toml";

fn variables<const N: usize>(variables: [(&str, &str); N]) -> Environment {
    variables.into_iter().collect()
}

fn load<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Result<Loaded, ConfigError> {
    load_layers(Some((file, Path::new(FILE))), &variables(environment))
}

fn good<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Config {
    load(file, environment).unwrap_or_else(|error| panic!("{error}")).config
}

#[track_caller]
fn refused<const N: usize>(file: &str, environment: [(&str, &str); N], message: &str) {
    let error = load(file, environment).expect_err(&format!("{file} is taken"));
    assert_eq!(error.to_string(), message);
}
