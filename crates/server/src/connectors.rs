//! The running connectors of a node to operators, as the current configuration defines them.
//!
//! A reload keeps connectors with unchanged settings, so unrelated changes never interrupt an SMPP bind.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use anyhow::Context;
use arc_swap::ArcSwap;
use futures_util::future::join_all;
use jiff::Timestamp;
use parking_lot::Mutex;
use ringtrue_api::Webhooks;
use ringtrue_console::ConnectorStatuses;
use ringtrue_engine::{
    Engine,
    lookups::networks::{SilentNetworkRoute, SimSwapNetworkRoute},
    ports::{
        certificates::CertificateStatus,
        clock::Clock,
        connectors::{ConnectorStatus, MonitoredConnector},
        entropy::Entropy,
    },
};
use ringtrue_operators::{
    camara::Camara,
    client::{CertificateClock, Client, ClientSettings, TlsConfigError},
    header_enrichment::{HeaderEnrichment, HeaderEnrichmentConfig},
    smpp::{self, SmppConfig, SmppCounters, SmppDependencies},
    sms_http::{ValidatedWebhookConfig, Webhook},
};
use rustls::pki_types::CertificateDer;
use url::Url;

use crate::{
    config::{CamaraSection, Config, Connector, ConnectorFingerprint, ConnectorSection},
    leaf_certificate,
};

/// Builds connectors without using the network or the database.
#[derive(Clone, derive_more::Debug)]
#[debug("ConnectorFactory({base_url})")]
pub struct ConnectorFactory {
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Public base URL, from which the redirect URIs for operators are built.
    base_url: String,
    /// Public URL of the header enrichment listener.
    enrichment_url: Option<Url>,
}

#[derive(Debug)]
pub struct Connectors {
    engine: Engine,
    factory: ConnectorFactory,
    running: Mutex<BTreeMap<Arc<str>, RunningConnector>>,
    webhooks: ArcSwap<HashMap<Arc<str>, Arc<Webhook>>>,
    /// SMPP counters by connector. They outlive their connectors, because monitoring would take a decreasing counter
    /// for a restart. Counters of replaced webhooks do start again at zero.
    counters: Mutex<BTreeMap<Arc<str>, Arc<SmppCounters>>>,
    /// Connectors to the sandbox operator. They are not in the configuration.
    sandbox: OnceLock<Vec<Arc<dyn MonitoredConnector>>>,
}

#[derive(Debug)]
struct RunningConnector {
    fingerprint: ConnectorFingerprint,
    kind: ConnectorKind,
}

#[derive(Debug)]
enum ConnectorKind {
    Smpp(smpp::SmppConnector),
    Webhook(Arc<Webhook>),
    OperatorApi(OperatorRoutes),
}

/// Routes served by an operator API: device verification, SIM Swap, or both.
#[derive(Debug)]
struct OperatorRoutes {
    devices: Option<SilentNetworkRoute>,
    sim_swaps: Option<SimSwapNetworkRoute>,
    reporter: Arc<dyn MonitoredConnector>,
    /// Settings of the certificates that we present to the operator or to phones, and when they expire.
    certificates: Vec<(&'static str, Timestamp)>,
}

enum PreparedConnector {
    Smpp(Box<SmppConfig>),
    Webhook(Box<ValidatedWebhookConfig>),
    OperatorApi(OperatorRoutes),
}

/// Validated connectors that are not started yet. `Debug` shows only their names.
#[derive(derive_more::Debug)]
#[debug("PreparedConnectors({:?})", _0.keys())]
pub struct PreparedConnectors(BTreeMap<Arc<str>, (ConnectorFingerprint, PreparedConnector)>);

impl Connectors {
    pub fn new(engine: &Engine, factory: ConnectorFactory) -> Self {
        Connectors {
            engine: engine.clone(),
            factory,
            running: Mutex::default(),
            webhooks: ArcSwap::default(),
            counters: Mutex::default(),
            sandbox: OnceLock::new(),
        }
    }

    pub fn factory(&self) -> &ConnectorFactory {
        &self.factory
    }

    /// Adds the sandbox operator's connectors to the status reports.
    pub fn set_sandbox_connectors(&self, connectors: Vec<Arc<dyn MonitoredConnector>>) {
        // Cannot fail, because this method is called only once, at startup.
        let _ = self.sandbox.set(connectors);
    }

    /// Returns the number of inbound SMS by connector and outcome.
    pub fn inbound_counts(&self) -> Vec<(Arc<str>, &'static str, u64)> {
        let counters = self.counters.lock();
        let smpp_counts = counters
            .iter()
            .flat_map(|(name, counters)| counters.counts().map(|(outcome, count)| (Arc::clone(name), outcome, count)));
        let webhooks = self.webhooks.load();
        let webhook_counts = webhooks.iter().flat_map(|(name, webhook)| {
            webhook.counters().counts().map(|(outcome, count)| (Arc::clone(name), outcome, count))
        });
        smpp_counts.chain(webhook_counts).collect()
    }

    pub fn bind_counts(&self) -> Vec<(Arc<str>, usize)> {
        self.counters.lock().iter().map(|(name, counters)| (Arc::clone(name), counters.binds_up())).collect()
    }

    /// Returns the certificates that connectors present to operators and phones.
    pub fn client_certificates(&self) -> Vec<CertificateStatus> {
        let running = self.running.lock();
        let certificates = running.iter().flat_map(|(name, running)| {
            let certificates = match &running.kind {
                ConnectorKind::OperatorApi(routes) => &routes.certificates[..],
                ConnectorKind::Smpp(_) | ConnectorKind::Webhook(_) => &[],
            };
            certificates.iter().map(move |(setting, expires_at)| CertificateStatus {
                setting: format!("connectors.{name}.{setting}"),
                expires_at: *expires_at,
            })
        });
        certificates.collect()
    }

    /// Starts new connectors, stops removed ones and replaces changed ones.
    pub async fn apply(&self, PreparedConnectors(prepared): PreparedConnectors) {
        let is_obsolete = |name: &Arc<str>, running: &mut RunningConnector| {
            prepared.get(name).is_none_or(|(fingerprint, _)| *fingerprint != running.fingerprint)
        };
        let stopped: Vec<_> = self.running.lock().extract_if(.., is_obsolete).collect();
        join_all(stopped.iter().map(|(_, running)| running.stop())).await;
        for (name, _) in &stopped {
            tracing::info!(connector = &**name, "connector stopped");
            self.engine.networks().remove_connector(name);
        }
        let mut running = self.running.lock();
        for (name, (fingerprint, prepared)) in prepared {
            running.entry(name).or_insert_with_key(|name| {
                tracing::info!(connector = &**name, "connector starting");
                RunningConnector { fingerprint, kind: self.start(prepared) }
            });
        }
        let webhooks = running.iter().filter_map(|(name, running)| match &running.kind {
            ConnectorKind::Webhook(webhook) => Some((Arc::clone(name), Arc::clone(webhook))),
            ConnectorKind::Smpp(_) | ConnectorKind::OperatorApi(_) => None,
        });
        self.webhooks.store(Arc::new(webhooks.collect()));
        let routes = running.values().filter_map(|running| match &running.kind {
            ConnectorKind::OperatorApi(routes) => Some(routes),
            ConnectorKind::Smpp(_) | ConnectorKind::Webhook(_) => None,
        });
        self.set_routes(routes);
    }

    /// Registers the connectors' routes with the engine without starting the connectors, for `ringtrue eligibility
    /// explain`. All receivers count as in service, because only a running node knows their actual state.
    pub fn register_without_starting(&self, PreparedConnectors(prepared): &PreparedConnectors) {
        self.set_routes(prepared.values().filter_map(|(_, prepared)| match prepared {
            PreparedConnector::OperatorApi(routes) => Some(routes),
            PreparedConnector::Smpp(_) | PreparedConnector::Webhook(_) => None,
        }));
    }

    fn set_routes<'a>(&self, routes: impl Iterator<Item = &'a OperatorRoutes> + Clone) {
        let networks = self.engine.networks();
        networks.set_silent_routes(routes.clone().filter_map(|routes| routes.devices.clone()).collect());
        networks.set_sim_swap_routes(routes.filter_map(|routes| routes.sim_swaps.clone()).collect());
    }

    pub async fn shutdown(&self) {
        let all = std::mem::take(&mut *self.running.lock());
        join_all(all.values().map(RunningConnector::stop)).await;
    }

    fn start(&self, prepared: PreparedConnector) -> ConnectorKind {
        match prepared {
            PreparedConnector::Smpp(config) => {
                let counters = Arc::clone(self.counters.lock().entry(Arc::clone(&config.name)).or_default());
                let dependencies = SmppDependencies {
                    inbox: self.engine.checks.clone(),
                    reassembly: self.engine.reassembly.clone(),
                    leases: self.engine.shared_store(),
                    node: self.engine.node.id(),
                    networks: Arc::clone(self.engine.networks()),
                    clock: self.engine.shared_clock(),
                    entropy: self.engine.shared_entropy(),
                    counters,
                };
                ConnectorKind::Smpp(smpp::SmppConnector::start(*config, dependencies))
            }
            PreparedConnector::OperatorApi(routes) => ConnectorKind::OperatorApi(routes),
            PreparedConnector::Webhook(config) => {
                let (inbox, reassembly) = (self.engine.checks.clone(), self.engine.reassembly.clone());
                let webhook = Webhook::from_validated(*config, inbox, reassembly, self.engine.shared_clock());
                let webhook = Arc::new(webhook);
                // A webhook has no connection state, so its receivers count as in service.
                self.engine.networks().set_receivers_available(&webhook.name().into(), webhook.receivers(), true);
                ConnectorKind::Webhook(webhook)
            }
        }
    }
}

impl ConnectorStatuses for Connectors {
    fn statuses(&self) -> Vec<ConnectorStatus> {
        let running = self.running.lock();
        let configured = running.values().map(|running| match &running.kind {
            ConnectorKind::Smpp(connector) => connector.connector_status(),
            ConnectorKind::Webhook(webhook) => webhook.connector_status(),
            ConnectorKind::OperatorApi(routes) => routes.reporter.connector_status(),
        });
        let sandbox = self.sandbox.get().into_iter().flatten().map(|connector| connector.connector_status());
        configured.chain(sandbox).collect()
    }
}

impl Webhooks for Connectors {
    fn webhook(&self, connector: &str) -> Option<Arc<Webhook>> {
        self.webhooks.load().get(connector).cloned()
    }
}

impl ConnectorFactory {
    /// Creates a factory. `enriched` is the address of the header enrichment listener, or `None` if that listener is
    /// off.
    pub fn new(
        config: &Config,
        base_url: String,
        enriched: Option<SocketAddr>,
        (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>),
    ) -> anyhow::Result<Self> {
        let enrichment_url = enriched.map(|address| enrichment_url(config, address)).transpose()?;
        Ok(ConnectorFactory { clock, entropy, base_url, enrichment_url })
    }

    /// Validates all connectors, so that an invalid one is reported before any running connector is changed.
    pub fn prepare_all(&self, sections: Vec<ConnectorSection>) -> anyhow::Result<PreparedConnectors> {
        let prepared = sections.into_iter().map(|section| {
            let name: Arc<str> = section.name().into();
            Ok((name, (section.fingerprint, self.prepare(section.connector)?)))
        });
        prepared.collect::<anyhow::Result<_>>().map(PreparedConnectors)
    }

    fn prepare(&self, connector: Connector) -> anyhow::Result<PreparedConnector> {
        Ok(match connector {
            Connector::Smpp(mut config) => {
                if let Some(tls) = &mut config.tls {
                    Arc::make_mut(&mut tls.config).time_provider = Arc::new(CertificateClock(Arc::clone(&self.clock)));
                }
                PreparedConnector::Smpp(config)
            }
            Connector::SmsHttp(config) => PreparedConnector::Webhook(Box::new(config.validate()?)),
            Connector::Camara(section) => PreparedConnector::OperatorApi(self.prepare_camara(*section)?),
            Connector::HeaderEnrichment(config) => {
                PreparedConnector::OperatorApi(self.prepare_header_enrichment(*config)?)
            }
        })
    }

    /// Builds an HTTP client for an operator's endpoints.
    pub fn client(&self, settings: ClientSettings) -> Result<Client, TlsConfigError> {
        let certificate_clock = CertificateClock(Arc::clone(&self.clock));
        Client::new(&ClientSettings { certificate_clock, ..settings })
    }

    fn prepare_camara(&self, section: CamaraSection) -> anyhow::Result<OperatorRoutes> {
        let CamaraSection { mut config, has_own_redirect_uri, client } = section;
        if !has_own_redirect_uri {
            config.redirect_uri = camara_redirect_uri(&self.base_url, &config.name)?;
        }
        let (name, networks) = (Arc::clone(&config.name), config.networks.clone());
        let certificate =
            client.identity.as_ref().and_then(|identity| leaf_certificate::read_leaf(&identity.certificates));
        let expiry = |certificate: &CertificateDer<'_>| Some(leaf_certificate::validity(certificate)?.1);
        let certificate = certificate.as_ref().and_then(expiry).map(|at| ("tls_certificate_file", at));
        let signed_requests = config.operator_tokens.as_ref().and_then(|tokens| {
            let expires_at = tokens.signer.certificates().iter().filter_map(expiry).min()?;
            Some(("operator_tokens_certificate_file", expires_at))
        });
        let certificates = certificate.into_iter().chain(signed_requests).collect();
        let named = || format!("connectors.{name}");
        let client = Arc::new(self.client(client).with_context(named)?);
        let camara = Camara::new(config, client, Arc::clone(&self.clock), Arc::clone(&self.entropy));
        let camara = Arc::new(camara.with_context(named)?);
        let devices = camara
            .supports_number_verification()
            .then(|| SilentNetworkRoute { networks: networks.clone(), connector: camara.clone() });
        let sim_swaps = camara.supports_sim_swap().then(|| SimSwapNetworkRoute { networks, connector: camara.clone() });
        Ok(OperatorRoutes { devices, sim_swaps, reporter: camara, certificates })
    }

    fn prepare_header_enrichment(&self, config: HeaderEnrichmentConfig) -> anyhow::Result<OperatorRoutes> {
        let base_url = self.enrichment_url.clone().context("`header_enrichment.listen` is not set")?;
        let (named, networks) = (format!("connectors.{}", config.name), config.networks.clone());
        let connector = HeaderEnrichment::new(HeaderEnrichmentConfig { base_url, ..config }).context(named)?;
        let connector = Arc::new(connector);
        let devices = Some(SilentNetworkRoute { networks, connector: connector.clone() });
        Ok(OperatorRoutes { devices, sim_swaps: None, reporter: connector, certificates: vec![] })
    }
}

impl RunningConnector {
    /// Closes the connector's connections. Only SMPP connectors have any.
    async fn stop(&self) {
        match &self.kind {
            ConnectorKind::Smpp(connector) => connector.shutdown().await,
            ConnectorKind::Webhook(_) | ConnectorKind::OperatorApi(_) => {}
        }
    }
}

/// Returns the redirect URI that must be registered with the operator.
pub fn camara_redirect_uri(base_url: &str, connector: &str) -> anyhow::Result<Url> {
    let uri = format!("{base_url}/southbound/camara/{connector}/callback");
    Url::parse(&uri).context("`base_url` is not valid as a redirect target for devices")
}

/// Returns the public URL of the header enrichment listener.
fn enrichment_url(config: &Config, address: SocketAddr) -> anyhow::Result<Url> {
    let public = config.header_enrichment.as_ref().and_then(|enrichment| enrichment.public_url.as_ref());
    let url = public.map_or_else(|| format!("http://{address}"), ToString::to_string);
    Url::parse(&url).context("`header_enrichment.public_url` is not valid as a redirect target for devices")
}
