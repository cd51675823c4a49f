//! Simulated operator and its number directory.

use std::{collections::HashSet, net::SocketAddr};

use ringtrue_sandbox::directory::{DirectoryConfig, InvalidSubscriber, Subscriber};

use super::super::{
    ConfigError, private_file,
    settings::Settings,
    value::Value,
    value_type::{self, Bool, Optional, Text, ValueType},
};

/// Simulated operator of sandbox projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSection {
    pub enabled: bool,
    /// `None`: no directory listener is configured.
    pub directory: Option<DirectoryConfig>,
}

pub(super) fn read(settings: &Settings) -> Result<SandboxSection, ConfigError> {
    let directory = DirectoryConfig {
        enum_listen: settings.read("sandbox.enum_listen", &Optional(loopback_address()))?,
        hlr_listen: settings.read("sandbox.hlr_listen", &Optional(loopback_address()))?,
        subscribers: settings.read("sandbox.subscribers", &SubscriberList)?,
        secret: read_secret(settings)?,
        ..DirectoryConfig::default()
    };
    let has_listener = directory.enum_listen.is_some() || directory.hlr_listen.is_some();
    Ok(SandboxSection {
        enabled: settings.read("sandbox.enabled", &Bool)?,
        directory: Some(directory).filter(|_| has_listener),
    })
}

/// Loopback only: an open UDP responder could be used for reflection attacks.
fn loopback_address() -> Text<SocketAddr> {
    Text {
        allowed: "a loopback address and a port, such as \"127.0.0.1:5353\"",
        parse: |text| text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback()),
    }
}

fn read_secret(settings: &Settings) -> Result<Option<String>, ConfigError> {
    const KEY: &str = "sandbox.hlr_secret_file";
    const ALLOWED: &str = "a path to a file readable by its owner only that contains a secret; or \"\" for none";
    let Some(path) = settings.read(KEY, &Optional(value_type::file_path()))? else { return Ok(None) };
    let invalid = |why: String| settings.invalid(KEY, format!("\"{}\", which {why}", path.display()), ALLOWED);
    let text = private_file::read(&path).map_err(|error| invalid(error.to_string()))?;
    // Editors and `echo` append a newline.
    let secret = text.trim_end_matches(['\r', '\n']);
    let is_valid = !secret.is_empty() && secret.bytes().all(|octet| octet.is_ascii_graphic());
    if is_valid { Ok(Some(secret.to_owned())) } else { Err(invalid("contains no valid secret".to_owned())) }
}

/// List of subscribers with distinct numbers. Errors name the position, not the number, which may be a real one.
struct SubscriberList;

impl SubscriberList {
    /// Parses subscribers up to the first invalid one. The flag tells whether all are valid.
    fn parse_subscribers(items: &[Value]) -> (Vec<Subscriber>, bool) {
        let (mut subscribers, mut numbers) = (Vec::<Subscriber>::new(), HashSet::new());
        for item in items {
            let Value::Text(text) = item else { return (subscribers, false) };
            match text.parse::<Subscriber>() {
                Ok(subscriber) if numbers.insert(subscriber.number.clone()) => subscribers.push(subscriber),
                _ => return (subscribers, false),
            }
        }
        (subscribers, true)
    }
}

impl ValueType for SubscriberList {
    type Output = Vec<Subscriber>;

    fn allowed(&self) -> String {
        format!("a list of subscribers with distinct numbers: {InvalidSubscriber}")
    }

    fn parse(&self, value: &Value) -> Option<Vec<Subscriber>> {
        let Value::List(items) = value else { return None };
        let (subscribers, all_valid) = Self::parse_subscribers(items);
        all_valid.then_some(subscribers)
    }

    fn display(&self, value: &Value) -> String {
        match value {
            Value::List(items) => {
                format!("an invalid subscriber at position {}", Self::parse_subscribers(items).0.len() + 1)
            }
            _ => "a value that is not a list".to_owned(),
        }
    }
}
