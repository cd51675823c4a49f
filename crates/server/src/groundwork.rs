//! What a configuration leads to before a node is started: all that needs neither the network nor the database.
//!
//! Whatever can be wrong with a configuration beyond its text is found in making this: files that hold something else,
//! settings that do not fit each other. So `config check` finds what `serve` would refuse.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use anyhow::Context;
use ringtrue_domain::{network::NetworkDirectory, web_url::Host};
use ringtrue_engine::{
    Engine, Settings,
    number_lookup::Sources,
    ports::{Clock, Entropy, SystemClock, SystemEntropy},
};
use ringtrue_operators::{
    ip_routing::IpRouting,
    outbound::{CertificateClock, Outbound, OutboundSettings},
};
use url::Url;

use crate::{
    config::{BaseUrl, Config, Connector, TlsFiles},
    connectors::{AllPrepared, Workbench},
    listener::Tls,
    number_sources,
    wiring::settings,
};

/// What a configuration leads to before anything is opened but its listeners.
pub struct Groundwork {
    pub tls: Option<Arc<Tls>>,
    pub ingress_tls: Option<Arc<Tls>>,
    pub settings: Settings,
    pub transport: Outbound,
    pub workbench: Workbench,
    pub ways: Ways,
}

/// Whose numbers and addresses are where, and whom to ask: what may change while a node runs.
pub struct Ways {
    pub networks: NetworkDirectory,
    pub addresses: IpRouting,
    pub sources: Sources,
    pub connectors: AllPrepared,
}

/// Something that a configuration asks for cannot be done.
#[derive(Debug, thiserror::Error)]
#[error("the configuration is wrong: {0:#}")]
pub struct Unfit(pub anyhow::Error);

impl Groundwork {
    /// All that can be wrong with a configuration is found here.
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
        let listeners = listeners(config, address, enrichment_address);
        let settings = settings(config, base_url.clone(), OwnPlaces::of(config, &base_url, &listeners));
        let transport = Outbound::new(OutboundSettings {
            addresses: settings.urls.addresses.clone(),
            extra_roots: config.callbacks.ca_file.clone(),
            certificate_clock: CertificateClock(Arc::clone(clock)),
            ..OutboundSettings::default()
        });
        let workbench = Workbench::new(config, base_url, enrichment_address, (Arc::clone(clock), Arc::clone(entropy)))?;
        Ok(Groundwork {
            tls,
            ingress_tls: ingress_tls.context("ingress.tls")?,
            settings,
            transport: transport.context("callbacks.ca_file")?,
            ways: Ways::prepare(config, &workbench)?,
            workbench,
        })
    }
}

impl Ways {
    pub fn prepare(config: &Config, workbench: &Workbench) -> anyhow::Result<Self> {
        Ok(Ways {
            networks: config.networks.clone(),
            addresses: IpRouting::load(&config.ip_routing)?,
            sources: number_sources::sources(workbench, config.number_lookup.clone())?,
            connectors: workbench.prepare_all(config.connectors.clone())?,
        })
    }

    /// Tells an engine that has no connectors yet. They are left to be put to work.
    pub fn tell(self, engine: &Engine) -> AllPrepared {
        engine.networks().replace(self.networks);
        engine.networks().set_addresses(Box::new(self.addresses));
        engine.number_lookup().replace(self.sources);
        self.connectors
    }
}

/// Finds what `serve` would refuse of a configuration. Opens nothing: no listener, no link, no database.
pub fn judge(config: &Config) -> Result<(), Unfit> {
    let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) =
        (Arc::new(SystemClock), Arc::new(SystemEntropy::default()));
    let enrichment = config.header_enrichment.as_ref().map(|enrichment| enrichment.listen);
    let judged = ringtrue_store::check_files(&config.store.url).context("store.url");
    let judged = judged.and_then(|()| Groundwork::prepare(config, config.http.listen, enrichment, (&clock, &entropy)));
    judged.map(drop).map_err(Unfit)
}

fn load_tls(files: Option<&TlsFiles>) -> anyhow::Result<Option<Arc<Tls>>> {
    files.map(|files| Ok(Arc::new(Tls::load(&files.certificate, &files.key)?))).transpose()
}

/// Where callers, devices and operators reach us. A callback to ourselves would be a way around every rule on who may
/// call what.
#[derive(Debug, Default)]
pub struct OwnPlaces {
    pub hosts: Vec<Host>,
    pub loopback_listeners: Vec<SocketAddr>,
}

impl OwnPlaces {
    fn of(config: &Config, base_url: &str, listeners: &[SocketAddr]) -> Self {
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
        OwnPlaces { hosts, loopback_listeners }
    }
}

fn listeners(config: &Config, public: SocketAddr, enrichment: Option<SocketAddr>) -> Vec<SocketAddr> {
    let ingress = config.ingress.as_ref().map(|ingress| ingress.listen);
    [Some(public), enrichment, ingress, config.metrics.listen].into_iter().flatten().collect()
}

/// The addresses that this machine reaches the Internet from. Connecting a UDP socket sends nothing.
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

fn own_hosts(config: &Config, base_url: &str) -> Vec<Host> {
    let enrichment = config.header_enrichment.as_ref().and_then(|enrichment| enrichment.public_url.as_ref());
    let webhooks = config.connectors.iter().filter_map(|section| match &section.connector {
        Connector::SmsHttp(webhook) => Some(webhook.public_url.as_str()),
        Connector::Smpp(_) | Connector::Camara(_) | Connector::HeaderEnrichment(_) => None,
    });
    let urls = [base_url].into_iter().chain(enrichment.map(BaseUrl::as_str)).chain(webhooks);
    urls.filter_map(|url| Some(Url::parse(url).ok()?.host()?.to_owned())).collect()
}
