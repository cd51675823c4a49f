//! The simulated operator, and whom its directory of numbers knows.

use std::{collections::HashSet, net::SocketAddr};

use ringtrue_sandbox::directory::{DirectoryConfig, NotASubscriber, Subscriber};

use super::super::{
    ConfigError,
    kind::{self, Flag, Kind, OrNone, Text},
    private_file,
    settings::Settings,
    value::Value,
};

/// The simulated operator that sandbox projects talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSection {
    pub enabled: bool,
    /// `None`: it tells nobody whose numbers are.
    pub directory: Option<DirectoryConfig>,
}

pub(super) fn read(settings: &Settings) -> Result<SandboxSection, ConfigError> {
    let directory = DirectoryConfig {
        enum_listen: settings.read("sandbox.enum_listen", &OrNone(loopback()))?,
        hlr_listen: settings.read("sandbox.hlr_listen", &OrNone(loopback()))?,
        subscribers: settings.read("sandbox.subscribers", &Subscribers)?,
        secret: secret(settings)?,
        ..DirectoryConfig::default()
    };
    let is_open = directory.enum_listen.is_some() || directory.hlr_listen.is_some();
    Ok(SandboxSection {
        enabled: settings.read("sandbox.enabled", &Flag)?,
        directory: Some(directory).filter(|_| is_open),
    })
}

/// Simulated numbers are no secret, but a server that answers any datagram is of use to those who flood others.
fn loopback() -> Text<SocketAddr> {
    Text {
        allowed: "a loopback address and a port, such as \"127.0.0.1:5353\"",
        parse: |text| text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback()),
    }
}

fn secret(settings: &Settings) -> Result<Option<String>, ConfigError> {
    const KEY: &str = "sandbox.hlr_secret_file";
    const ALLOWED: &str = "a path to a file that its owner alone can read, with a secret in it; or \"\" for none";
    let Some(path) = settings.read(KEY, &OrNone(kind::path()))? else { return Ok(None) };
    let refused = |why: String| settings.invalid(KEY, format!("\"{}\", which {why}", path.display()), ALLOWED);
    let text = private_file::read(&path).map_err(|problem| refused(problem.to_string()))?;
    // Editors and `echo` end a file with a new line.
    let secret = text.trim_end_matches(['\r', '\n']);
    let can_be_sent = !secret.is_empty() && secret.bytes().all(|octet| octet.is_ascii_graphic());
    if can_be_sent { Ok(Some(secret.to_owned())) } else { Err(refused("holds something else".to_owned())) }
}

/// A list of subscribers, no two of whom have one number. Which of them is wrong is told by its place.
struct Subscribers;

impl Subscribers {
    /// The subscribers up to the first that is none, and whether that is all.
    fn judged(items: &[Value]) -> (Vec<Subscriber>, bool) {
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

impl Kind for Subscribers {
    type Output = Vec<Subscriber>;

    fn allowed(&self) -> String {
        format!("a list of subscribers, each with a number of his own: {NotASubscriber}")
    }

    fn read(&self, value: &Value) -> Option<Vec<Subscriber>> {
        let Value::List(items) = value else { return None };
        let (subscribers, are_all) = Self::judged(items);
        are_all.then_some(subscribers)
    }

    fn show(&self, value: &Value) -> String {
        match value {
            Value::List(items) => format!("something else in place {}", Self::judged(items).0.len() + 1),
            _ => "something else".to_owned(),
        }
    }
}
