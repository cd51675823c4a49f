//! Callbacks: allowed destinations and concurrency.

use std::{net::SocketAddr, path::PathBuf};

use ipnet::IpNet;
use ringtrue_domain::web_url::{AddressPolicy, Host, UrlPolicy};
use ringtrue_engine::callback;

use super::{
    super::{
        ConfigError,
        settings::Settings,
        value_type::{self, Bool, Integer, ListOf, Optional, Text},
    },
    ip_networks,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbacksSection {
    pub allow_http: bool,
    pub allowed_addresses: Vec<IpNet>,
    pub allowed_hosts: Vec<String>,
    /// Extra CA certificates (PEM).
    pub ca_file: Option<PathBuf>,
}

impl CallbacksSection {
    /// Builds the policy for callback and redirect URLs. The own hosts are known only after binding.
    pub fn url_policy(&self, own_hosts: Vec<Host>, own_listeners: Vec<SocketAddr>) -> UrlPolicy {
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

pub(super) fn read_callbacks(settings: &Settings) -> Result<CallbacksSection, ConfigError> {
    Ok(CallbacksSection {
        allow_http: settings.read("callbacks.allow_http", &Bool)?,
        allowed_addresses: settings.read("callbacks.allowed_addresses", &ip_networks())?,
        allowed_hosts: settings.read("callbacks.allowed_hosts", &ListOf(host_name()))?,
        ca_file: settings.read("callbacks.ca_file", &Optional(value_type::file_path()))?,
    })
}

/// Destinations that have not responded yet may use a quarter of the slots, slow and failing ones another quarter. One
/// destination may use a quarter of the queue.
pub(super) fn read_courier_limits(settings: &Settings) -> Result<callback::CourierLimits, ConfigError> {
    let in_flight = settings.read("callbacks.concurrency", &Integer(4..=100_000))?;
    let per_destination = settings.read("callbacks.concurrency_per_destination", &Integer(1..=100_000))?;
    let queued = settings.read("callbacks.queue", &Integer(4..=10_000_000))?;
    if per_destination > in_flight {
        let allowed = format!("at most {in_flight}, the value of `callbacks.concurrency`");
        return Err(settings.invalid("callbacks.concurrency_per_destination", per_destination, allowed));
    }
    Ok(callback::CourierLimits {
        in_flight,
        unproven_in_flight: in_flight / 4,
        poor_in_flight: in_flight / 4,
        per_destination,
        queued,
        queued_per_destination: queued / 4,
    })
}

/// Normalises to lower case and punycode, the form of hosts in parsed URLs.
fn host_name() -> Text<String> {
    Text {
        allowed: "a host name without scheme or port, such as \"hooks.internal\"",
        parse: |text| match url::Host::parse(text) {
            Ok(url::Host::Domain(name)) if !text.is_empty() && !name.ends_with('.') => Some(name),
            _ => None,
        },
    }
}
