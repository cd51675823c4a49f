//! Where callbacks may go, and how many at a time.

use std::{net::SocketAddr, path::PathBuf};

use ipnet::IpNet;
use ringtrue_domain::web_url::{AddressPolicy, Host, UrlPolicy};
use ringtrue_engine::callback;

use super::{
    super::{
        ConfigError,
        kind::{self, Flag, ListOf, OrNone, Text, Whole},
        settings::Settings,
    },
    ip_networks,
};

/// Where callbacks may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbacksSection {
    pub allow_http: bool,
    pub allowed_addresses: Vec<IpNet>,
    pub allowed_hosts: Vec<String>,
    /// Certificates that are trusted besides those that the system trusts, as a PEM file.
    pub ca_file: Option<PathBuf>,
}

impl CallbacksSection {
    /// The rule that URLs of callers are held to. Which hosts are our own is known once we listen.
    pub fn policy(&self, own_hosts: Vec<Host>, own_listeners: Vec<SocketAddr>) -> UrlPolicy {
        UrlPolicy {
            allow_http: self.allow_http,
            addresses: AddressPolicy {
                allow: self.allowed_addresses.clone(),
                allow_hosts: self.allowed_hosts.clone(),
                own_hosts,
                own_listeners,
            },
        }
    }
}

pub(super) fn callbacks(settings: &Settings) -> Result<CallbacksSection, ConfigError> {
    Ok(CallbacksSection {
        allow_http: settings.read("callbacks.allow_http", &Flag)?,
        allowed_addresses: settings.read("callbacks.allowed_addresses", &ip_networks())?,
        allowed_hosts: settings.read("callbacks.allowed_hosts", &ListOf(host_name()))?,
        ca_file: settings.read("callbacks.ca_file", &OrNone(kind::path()))?,
    })
}

/// Destinations that have not answered yet may hold a quarter of the slots, slow and failing ones another quarter. One
/// destination may fill a quarter of the queue.
pub(super) fn courier(settings: &Settings) -> Result<callback::Limits, ConfigError> {
    let in_flight = settings.read("callbacks.concurrency", &Whole(4..=100_000))?;
    let per_destination = settings.read("callbacks.concurrency_per_destination", &Whole(1..=100_000))?;
    let queued = settings.read("callbacks.queue", &Whole(4..=10_000_000))?;
    if per_destination > in_flight {
        let allowed = format!("at most {in_flight}, because `callbacks.concurrency` is that");
        return Err(settings.invalid("callbacks.concurrency_per_destination", per_destination, allowed));
    }
    Ok(callback::Limits {
        in_flight,
        unproven_in_flight: in_flight / 4,
        poor_in_flight: in_flight / 4,
        per_destination,
        queued,
        queued_per_destination: queued / 4,
    })
}

/// A name in lower case and punycode, as the URLs of callers are compared with it.
fn host_name() -> Text<String> {
    Text {
        allowed: "a host name without scheme and port, such as \"hooks.internal\"",
        parse: |text| match url::Host::parse(text) {
            Ok(url::Host::Domain(name)) if !text.is_empty() && !name.ends_with('.') => Some(name),
            _ => None,
        },
    }
}
