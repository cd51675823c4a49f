//! Validates a configuration and builds everything that needs neither the network nor the database.
//!
//! This finds errors beyond syntax, such as invalid files or conflicting settings, so that `config check` reports the
//! same errors as `serve`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use anyhow::Context;
use ringtrue_console::IdentityProvider;
use ringtrue_domain::{network::NetworkDirectory, web_url::Host};
use ringtrue_engine::{
    Engine, EngineSettings,
    accounts::PasswordCosts,
    lookups::number_lookup::LookupSources,
    ports::{
        clock::{Clock, SystemClock},
        entropy::{Entropy, SystemEntropy},
    },
};
use ringtrue_operators::{
    ip_routing::IpRouting,
    outbound::{CertificateClock, Outbound, OutboundSettings},
};
use url::Url;

use crate::{
    config::{BaseUrl, Config, Connector, TlsFiles},
    connectors::{ConnectorFactory, PreparedConnectors},
    identity_provider::build_identity_provider,
    listener::Tls,
    number_sources,
};

/// Validated parts of a node that has not started yet.
pub struct PreparedNode {
    pub tls: Option<Arc<Tls>>,
    pub ingress_tls: Option<Arc<Tls>>,
    pub settings: EngineSettings,
    pub transport: Outbound,
    pub factory: ConnectorFactory,
    pub identity_provider: Option<IdentityProvider>,
    pub routing: Routing,
}

/// Networks, address tables, number sources and connectors, which can be reloaded at runtime.
pub struct Routing {
    pub networks: NetworkDirectory,
    pub addresses: IpRouting,
    pub sources: LookupSources,
    pub connectors: PreparedConnectors,
}

#[derive(Debug, thiserror::Error)]
#[error("invalid configuration: {0:#}")]
pub struct InvalidConfig(pub anyhow::Error);

impl PreparedNode {
    /// Builds all parts. Fails if any part of the configuration is invalid.
    pub fn prepare(
        config: &Config,
        address: SocketAddr,
        enrichment_address: Option<SocketAddr>,
        (clock, entropy): (&Arc<dyn Clock>, &Arc<dyn Entropy>),
    ) -> anyhow::Result<Self> {
        let tls = load_tls(config.http.tls.as_ref()).context("http.tls")?;
        let ingress_tls = load_tls(config.ingress.as_ref().and_then(|ingress| ingress.tls.as_ref()));
        let base_url = match &config.base_url {
            Some(base_url) => base_url.to_string(),
            None => format!("{}://{address}", if tls.is_some() { "https" } else { "http" }),
        };
        let listeners = listener_addresses(config, address, enrichment_address);
        let settings = engine_settings(config, base_url.clone(), OwnEndpoints::new(config, &base_url, &listeners));
        let transport = Outbound::new(OutboundSettings {
            addresses: settings.url_policy.addresses.clone(),
            ca_file: config.callbacks.ca_file.clone(),
            certificate_clock: CertificateClock(Arc::clone(clock)),
            ..OutboundSettings::default()
        });
        let dependencies = (Arc::clone(clock), Arc::clone(entropy));
        let factory = ConnectorFactory::new(config, base_url.clone(), enrichment_address, dependencies)?;
        let openid_connect = config.openid_connect.clone();
        let identity_provider =
            openid_connect.map(|section| build_identity_provider(*section, &base_url, &factory)).transpose()?;
        Ok(PreparedNode {
            tls,
            ingress_tls: ingress_tls.context("ingress.tls")?,
            settings,
            transport: transport.context("callbacks.ca_file")?,
            identity_provider,
            routing: Routing::prepare(config, &factory)?,
            factory,
        })
    }
}

impl Routing {
    pub fn prepare(config: &Config, factory: &ConnectorFactory) -> anyhow::Result<Self> {
        Ok(Routing {
            networks: config.networks.clone(),
            addresses: IpRouting::load(&config.ip_routing)?,
            sources: number_sources::build_sources(factory, config.number_lookup.clone())?,
            connectors: factory.prepare_all(config.connectors.clone())?,
        })
    }

    /// Passes the networks and sources to an engine. Returns the connectors, which are not started.
    pub fn apply_to(self, engine: &Engine) -> PreparedConnectors {
        engine.networks().replace(self.networks);
        engine.networks().set_address_networks(Box::new(self.addresses));
        engine.number_lookup().replace(self.sources);
        self.connectors
    }
}

/// Derives the engine's settings from the configuration.
pub fn engine_settings(config: &Config, base_url: String, own: OwnEndpoints) -> EngineSettings {
    EngineSettings {
        region: config.region,
        base_url,
        rate_limits: config.rate_limits,
        url_policy: config.callbacks.url_policy(own.hosts, own.loopback_listeners),
        number_limit: config.number_limit,
        tenant_limits: config.tenant_limits,
        courier: config.courier,
        retention: config.retention,
        number_lookup_cache_capacity: 100_000,
        max_members: config.max_members,
        require_second_factor: config.require_second_factor,
        password_costs: PasswordCosts::default(),
        camara_enabled: config.camara_enabled,
    }
}

/// Reports the errors with which `serve` would fail, without opening listeners, connections or the database.
pub fn validate(config: &Config) -> Result<(), InvalidConfig> {
    let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) =
        (Arc::new(SystemClock), Arc::new(SystemEntropy::default()));
    let enrichment = config.header_enrichment.as_ref().map(|enrichment| enrichment.listen);
    let validated = ringtrue_store::check_files(&config.store.url).context("store.url");
    let validated =
        validated.and_then(|()| PreparedNode::prepare(config, config.http.listen, enrichment, (&clock, &entropy)));
    validated.map(drop).map_err(InvalidConfig)
}

fn load_tls(files: Option<&TlsFiles>) -> anyhow::Result<Option<Arc<Tls>>> {
    files.map(|files| Ok(Arc::new(Tls::load(&files.certificate, &files.key)?))).transpose()
}

/// Hosts and addresses of this deployment. Callbacks to them are rejected, because a client could otherwise use the
/// server itself to bypass access rules.
#[derive(Debug, Default)]
pub struct OwnEndpoints {
    pub hosts: Vec<Host>,
    pub loopback_listeners: Vec<SocketAddr>,
}

impl OwnEndpoints {
    fn new(config: &Config, base_url: &str, listeners: &[SocketAddr]) -> Self {
        let mut hosts = own_hosts(config, base_url);
        let addresses = listeners.iter().flat_map(|listener| match listener.ip() {
            ip if ip.is_unspecified() => machine_addresses(),
            ip if ip.is_loopback() => vec![],
            ip => vec![ip],
        });
        hosts.extend(addresses.map(|ip| match ip {
            IpAddr::V4(ip) => Host::Ipv4(ip),
            IpAddr::V6(ip) => Host::Ipv6(ip),
        }));
        let loopback_listeners = listeners.iter().copied().filter(|listener| listener.ip().is_loopback()).collect();
        OwnEndpoints { hosts, loopback_listeners }
    }
}

fn listener_addresses(config: &Config, public: SocketAddr, enrichment: Option<SocketAddr>) -> Vec<SocketAddr> {
    let ingress = config.ingress.as_ref().map(|ingress| ingress.listen);
    [Some(public), enrichment, ingress, config.metrics.listen].into_iter().flatten().collect()
}

/// Returns the addresses from which this machine connects to others. Connecting a UDP socket reveals them without
/// sending packets.
fn machine_addresses() -> Vec<IpAddr> {
    let outside: [(SocketAddr, SocketAddr); 2] = [
        ((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into()),
        ((Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into()),
    ];
    let address = |(here, there): (SocketAddr, SocketAddr)| {
        let socket = UdpSocket::bind(here).ok()?;
        socket.connect(there).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    };
    outside.into_iter().filter_map(address).collect()
}

/// Returns the hosts of the URLs at which others reach this deployment.
pub(crate) fn own_hosts(config: &Config, base_url: &str) -> Vec<Host> {
    let enrichment = config.header_enrichment.as_ref().and_then(|enrichment| enrichment.public_url.as_ref());
    let webhooks = config.connectors.iter().filter_map(|section| match &section.connector {
        Connector::SmsHttp(webhook) => Some(webhook.public_url.as_str()),
        Connector::Smpp(_) | Connector::Camara(_) | Connector::HeaderEnrichment(_) => None,
    });
    let urls = [base_url].into_iter().chain(enrichment.map(BaseUrl::as_str)).chain(webhooks);
    urls.filter_map(|url| Some(Url::parse(url).ok()?.host()?.to_owned())).collect()
}
