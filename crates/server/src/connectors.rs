//! The connectors of a node, as the configuration wants them at the moment.
//!
//! When the configuration is read again, a connector whose settings are the same stays as it is: no link is dropped for
//! a change that does not concern it.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use anyhow::Context;
use arc_swap::ArcSwap;
use futures_util::future::join_all;
use ringtrue_engine::{
    Engine,
    networks::{Route, SwapRoute},
    ports::{Clock, ConnectorReport, Entropy, Reporting},
};
use ringtrue_operators::{
    camara::Camara,
    client::{CertificateClock, Client, ClientSettings, NoRoots},
    header_enrichment::{HeaderEnrichment, HeaderEnrichmentConfig},
    smpp::{self, Counters, SmppConfig, Surroundings},
    sms_http::{self, SoundConfig, Webhook},
};
use url::Url;

use crate::config::{CamaraSection, Config, Connector, ConnectorSection, Fingerprint};

/// What connectors are made with: no network, no database.
#[derive(Clone)]
pub struct Workbench {
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Where operators send devices back to.
    base_url: String,
    /// Where devices find the listener for enriched requests.
    enrichment_url: Option<Url>,
}

impl std::fmt::Debug for Workbench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workbench").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Connectors {
    engine: Engine,
    workbench: Workbench,
    running: Mutex<BTreeMap<Arc<str>, Running>>,
    webhooks: ArcSwap<HashMap<Arc<str>, Arc<Webhook>>>,
    /// Of links. They outlive their connectors: a counter that goes back is taken for a restart. A webhook that is
    /// replaced counts anew.
    counters: Mutex<BTreeMap<Arc<str>, Arc<Counters>>>,
    /// Those of the simulated operator, which no configuration names.
    simulated: OnceLock<Vec<Arc<dyn Reporting>>>,
}

#[derive(Debug)]
struct Running {
    fingerprint: Fingerprint,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Link(smpp::Connector),
    Webhook(Arc<Webhook>),
    Asking(Asking),
}

/// How an operator is asked: about devices, about SIM cards, or about both.
#[derive(Debug)]
struct Asking {
    devices: Option<Route>,
    sim_cards: Option<SwapRoute>,
    reporter: Arc<dyn Reporting>,
}

/// A connector that can be started.
enum Prepared {
    Link(Box<SmppConfig>),
    Webhook(Box<SoundConfig>),
    Asking(Asking),
}

/// Connectors that can be put to work.
pub struct AllPrepared(BTreeMap<Arc<str>, (Fingerprint, Prepared)>);

impl std::fmt::Debug for AllPrepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Connectors {
    pub fn new(engine: &Engine, workbench: Workbench) -> Self {
        Connectors {
            engine: engine.clone(),
            workbench,
            running: Mutex::default(),
            webhooks: ArcSwap::default(),
            counters: Mutex::default(),
            simulated: OnceLock::new(),
        }
    }

    pub fn workbench(&self) -> &Workbench {
        &self.workbench
    }

    /// Tells of the simulated operator's connectors, which report as the others do.
    pub fn set_simulated(&self, connectors: Vec<Arc<dyn Reporting>>) {
        // Set once, when the node is assembled.
        let _ = self.simulated.set(connectors);
    }

    /// How they all are, on this node.
    pub fn reports(&self) -> Vec<ConnectorReport> {
        let running = lock(&self.running);
        let configured = running.values().map(|running| match &running.kind {
            Kind::Link(connector) => connector.report(),
            Kind::Webhook(webhook) => webhook.report(),
            Kind::Asking(asking) => asking.reporter.report(),
        });
        let simulated = self.simulated.get().into_iter().flatten().map(|connector| connector.report());
        configured.chain(simulated).collect()
    }

    /// The webhook of this name, if there is one.
    pub fn webhook(&self, name: &str) -> Option<Arc<Webhook>> {
        self.webhooks.load().get(name).cloned()
    }

    /// What was counted, by connector and outcome.
    pub fn counts(&self) -> Vec<(Arc<str>, &'static str, u64)> {
        let links = lock(&self.counters);
        let of_links = links.iter().flat_map(|(name, counters)| {
            smpp::Outcome::ALL.map(|outcome| (Arc::clone(name), outcome.as_str(), counters.get(outcome)))
        });
        let webhooks = self.webhooks.load();
        let of_webhooks = webhooks.iter().flat_map(|(name, webhook)| {
            sms_http::Outcome::ALL.map(|outcome| (Arc::clone(name), outcome.as_str(), webhook.tally().get(outcome)))
        });
        of_links.chain(of_webhooks).collect()
    }

    pub fn binds_up(&self) -> Vec<(Arc<str>, usize)> {
        lock(&self.counters).iter().map(|(name, counters)| (Arc::clone(name), counters.binds_up())).collect()
    }

    /// Starts what is new, stops what is gone, replaces what has changed, and leaves the rest alone.
    pub async fn put_to_work(&self, AllPrepared(prepared): AllPrepared) {
        let is_gone = |name: &Arc<str>, running: &mut Running| {
            prepared.get(name).is_none_or(|(fingerprint, _)| *fingerprint != running.fingerprint)
        };
        let gone: Vec<_> = lock(&self.running).extract_if(.., is_gone).collect();
        join_all(gone.iter().map(|(_, running)| running.stop())).await;
        for (name, _) in &gone {
            tracing::info!(connector = &**name, "a connector has stopped");
            self.engine.networks().forget(name);
        }
        let mut running = lock(&self.running);
        for (name, (fingerprint, prepared)) in prepared {
            running.entry(name).or_insert_with_key(|name| {
                tracing::info!(connector = &**name, "a connector starts");
                Running { fingerprint, kind: self.start(prepared) }
            });
        }
        let webhooks = running.iter().filter_map(|(name, running)| match &running.kind {
            Kind::Webhook(webhook) => Some((Arc::clone(name), Arc::clone(webhook))),
            Kind::Link(_) | Kind::Asking(_) => None,
        });
        self.webhooks.store(Arc::new(webhooks.collect()));
        let asking = running.values().filter_map(|running| match &running.kind {
            Kind::Asking(asking) => Some(asking),
            Kind::Link(_) | Kind::Webhook(_) => None,
        });
        self.set_routes(asking);
    }

    /// Lets the engine know what these connectors could do, without starting any. Numbers that links and webhooks bring
    /// count as heard: that they are not, only a node that runs can find out.
    pub fn announce(&self, AllPrepared(prepared): &AllPrepared) {
        self.set_routes(prepared.values().filter_map(|(_, prepared)| match prepared {
            Prepared::Asking(asking) => Some(asking),
            Prepared::Link(_) | Prepared::Webhook(_) => None,
        }));
    }

    fn set_routes<'a>(&self, asking: impl Iterator<Item = &'a Asking> + Clone) {
        let networks = self.engine.networks();
        networks.set_routes(asking.clone().filter_map(|asking| asking.devices.clone()).collect());
        networks.set_sim_swap_routes(asking.filter_map(|asking| asking.sim_cards.clone()).collect());
    }

    pub async fn shutdown(&self) {
        let all = std::mem::take(&mut *lock(&self.running));
        join_all(all.values().map(Running::stop)).await;
    }

    fn start(&self, prepared: Prepared) -> Kind {
        match prepared {
            Prepared::Link(config) => {
                let counters = Arc::clone(lock(&self.counters).entry(Arc::clone(&config.name)).or_default());
                let surroundings = Surroundings {
                    inbox: Arc::new(self.engine.clone()),
                    networks: Arc::clone(self.engine.networks()),
                    clock: self.engine.shared_clock(),
                    entropy: self.engine.shared_entropy(),
                    counters,
                };
                Kind::Link(smpp::Connector::start(*config, surroundings))
            }
            Prepared::Asking(asking) => Kind::Asking(asking),
            Prepared::Webhook(config) => {
                let inbox = Arc::new(self.engine.clone());
                let webhook = Arc::new(Webhook::of_sound(*config, inbox, self.engine.shared_clock()));
                // Nobody can tell whether a vendor will call; that it cannot is not known either.
                self.engine.networks().hears(&webhook.name().into(), webhook.receivers(), true);
                Kind::Webhook(webhook)
            }
        }
    }
}

impl Workbench {
    /// `enriched` is where the listener for enriched requests is, if there is one.
    pub fn new(
        config: &Config,
        base_url: String,
        enriched: Option<SocketAddr>,
        (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>),
    ) -> anyhow::Result<Self> {
        let enrichment_url = enriched.map(|address| enrichment_url(config, address)).transpose()?;
        Ok(Workbench { clock, entropy, base_url, enrichment_url })
    }

    /// All that can be wrong with connectors is found here, before any of them is touched.
    pub fn prepare_all(&self, wanted: Vec<ConnectorSection>) -> anyhow::Result<AllPrepared> {
        let prepared = wanted.into_iter().map(|section| {
            let name: Arc<str> = section.name().into();
            Ok((name, (section.fingerprint, self.prepare(section.connector)?)))
        });
        prepared.collect::<anyhow::Result<_>>().map(AllPrepared)
    }

    fn prepare(&self, connector: Connector) -> anyhow::Result<Prepared> {
        Ok(match connector {
            Connector::Smpp(mut config) => {
                if let Some(tls) = &mut config.tls {
                    Arc::make_mut(&mut tls.config).time_provider = Arc::new(CertificateClock(Arc::clone(&self.clock)));
                }
                Prepared::Link(config)
            }
            Connector::SmsHttp(config) => Prepared::Webhook(Box::new(config.sound()?)),
            Connector::Camara(section) => Prepared::Asking(self.camara_of(*section)?),
            Connector::HeaderEnrichment(config) => Prepared::Asking(self.enrichment_of(*config)?),
        })
    }

    /// A client for an operator's endpoints.
    pub fn client(&self, settings: ClientSettings) -> Result<Client, NoRoots> {
        let certificate_clock = CertificateClock(Arc::clone(&self.clock));
        Client::new(&ClientSettings { certificate_clock, ..settings })
    }

    fn camara_of(&self, section: CamaraSection) -> anyhow::Result<Asking> {
        let CamaraSection { mut config, has_own_redirect_uri, client } = section;
        if !has_own_redirect_uri {
            config.redirect_uri = camara_redirect_uri(&self.base_url, &config.name)?;
        }
        let (name, networks) = (Arc::clone(&config.name), config.networks.clone());
        let named = || format!("connectors.{name}");
        let client = Arc::new(self.client(client).with_context(named)?);
        let camara = Camara::new(config, client, Arc::clone(&self.clock), Arc::clone(&self.entropy));
        let camara = Arc::new(camara.with_context(named)?);
        let devices = camara.sends_devices().then(|| Route { networks: networks.clone(), connector: camara.clone() });
        let sim_cards = camara.serves_sim_swap().then(|| SwapRoute { networks, connector: camara.clone() });
        Ok(Asking { devices, sim_cards, reporter: camara })
    }

    fn enrichment_of(&self, config: HeaderEnrichmentConfig) -> anyhow::Result<Asking> {
        let base_url = self.enrichment_url.clone().context("`header_enrichment.listen` is off")?;
        let (named, networks) = (format!("connectors.{}", config.name), config.networks.clone());
        let connector = HeaderEnrichment::new(HeaderEnrichmentConfig { base_url, ..config }).context(named)?;
        let connector = Arc::new(connector);
        let devices = Some(Route { networks, connector: connector.clone() });
        Ok(Asking { devices, sim_cards: None, reporter: connector })
    }
}

impl Running {
    /// Only links have something to stop: the others are no longer found.
    async fn stop(&self) {
        match &self.kind {
            Kind::Link(connector) => connector.shutdown().await,
            Kind::Webhook(_) | Kind::Asking(_) => {}
        }
    }
}

/// Where operators send devices back to.
pub fn camara_redirect_uri(base_url: &str, connector: &str) -> anyhow::Result<Url> {
    let uri = format!("{base_url}/southbound/camara/{connector}/callback");
    Url::parse(&uri).context("`base_url` is not a URL that devices can be sent back to")
}

/// Where devices find the listener for enriched requests.
fn enrichment_url(config: &Config, address: SocketAddr) -> anyhow::Result<Url> {
    let public = config.header_enrichment.as_ref().and_then(|enrichment| enrichment.public_url.as_ref());
    let url = public.map_or_else(|| format!("http://{address}"), ToString::to_string);
    Url::parse(&url).context("`header_enrichment.public_url` is not a URL that devices can be sent to")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
