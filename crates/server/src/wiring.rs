//! Everything is assembled here, and everything stops from here.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, bail};
use ipnet::IpNet;
use ringtrue_engine::{
    Engine, Parts, Settings,
    keys::MasterKey,
    ports::{Clock, Entropy, Store},
};
use ringtrue_sandbox::directory::Directory;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use crate::groundwork::OwnPlaces;
use crate::{
    config::Config,
    connectors::{Connectors, Workbench},
    groundwork::{Groundwork, Unfit, Ways},
    handsets::Handsets,
    http::{self, App, Readiness, Shared, Site, ToldNetworks},
    listener::{self, Tls},
    sandbox_operator::{Authorizer, SandboxOperator},
    state_file::StateFile,
    telemetry::metrics::Metrics,
};

/// What a node is made of.
pub struct Assembly {
    pub config: Config,
    pub store: Arc<dyn Store>,
    pub master: MasterKey,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

impl std::fmt::Debug for Assembly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembly").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A node that serves.
#[derive(Debug)]
pub struct Running {
    pub base_url: String,
    pub address: SocketAddr,
    pub metrics_address: Option<SocketAddr>,
    /// Where operators' webhooks come in.
    pub ingress_address: Option<SocketAddr>,
    /// Where devices come whose operator adds a header.
    pub enrichment_address: Option<SocketAddr>,
    pub engine: Engine,
    connectors: Arc<Connectors>,
    sandbox: Option<SandboxOperator>,
    /// The simulated operator's directory of numbers.
    pub directory: Option<Directory>,
    certificates: Vec<Arc<Tls>>,
    state_file: Option<Arc<StateFile>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// The proxies in front of a listener.
#[derive(Clone, Copy)]
struct Proxies<'a> {
    trusted: &'a [IpNet],
    /// Whether they say by the PROXY protocol whose connection they carry.
    introduce_clients: bool,
}

/// Enough for a burst of new connections while the accept loop is busy.
const BACKLOG: u32 = 4096;

/// Starts a node. It serves until `shutdown` is cancelled; [`Running::finished`] waits for its end.
pub async fn start(assembly: Assembly, shutdown: CancellationToken) -> anyhow::Result<Running> {
    let Assembly { config, store, master, clock, entropy } = assembly;
    let listener = bind(config.http.listen)?;
    let address = listener.local_addr()?;
    // Devices are told where it is, so it is opened before there is anybody to tell them.
    let enrichment = config.header_enrichment.as_ref().map(|enrichment| bind(enrichment.listen)).transpose()?;
    let enrichment_address = enrichment.as_ref().map(TcpListener::local_addr).transpose()?;
    let groundwork = Groundwork::prepare(&config, address, enrichment_address, (&clock, &entropy)).map_err(Unfit)?;
    let Groundwork { tls, ingress_tls, settings, transport, workbench, ways } = groundwork;
    let base_url = settings.base_url.clone();
    let transport = Arc::new(transport);
    let engine = Engine::start(Parts { store, clock, entropy, transport, master }, settings).await?;
    let state_file = StateFile::of(&config.store).map(Arc::new);
    engine.recognise_database(state_file.as_ref().and_then(|file| file.read())).await?;
    let connectors = Arc::new(Connectors::new(&engine, workbench));
    let prepared = ways.tell(&engine);
    let sandbox = if config.sandbox.enabled { Some(SandboxOperator::start(&engine).await?) } else { None };
    let directory = directory(&config).await?;
    connectors.set_simulated(sandbox.as_ref().map_or_else(Vec::new, SandboxOperator::reporters));
    let tasks = TaskTracker::new();
    let metrics = Arc::new(Metrics::new(&engine, &connectors));
    let app = |trusted_proxies: &[IpNet]| {
        App::new(Shared {
            engine: engine.clone(),
            metrics: Arc::clone(&metrics),
            connectors: Arc::clone(&connectors),
            handsets: sandbox.as_ref().map_or_else(Handsets::default, SandboxOperator::handsets),
            authorizer: sandbox.as_ref().map_or_else(Authorizer::default, SandboxOperator::authorizer),
            trusted_proxies: trusted_proxies.to_vec(),
            request_log: config.log.requests,
            traces: config.telemetry.otlp_endpoint.is_some(),
            body_timeout: config.http.body_timeout,
            request_timeout: config.http.request_timeout,
            idle_timeout: config.http.idle_timeout,
            tasks: tasks.clone(),
            shutdown: shutdown.clone(),
            readiness: Readiness::default(),
            site: Site::new(&base_url),
            told_networks: ToldNetworks::default(),
        })
    };
    connectors.put_to_work(prepared).await;
    work_in_background(&tasks, &shutdown, &engine);
    if let Some(file) = state_file.clone() {
        background(&tasks, &shutdown, &engine, |engine| file.keep(engine));
    }

    let serve = |listener: TcpListener, tls: Option<Arc<Tls>>, door: http::Door, proxies: Proxies<'_>| {
        let limits = listener::Limits {
            max_connections: config.http.max_connections,
            max_connections_per_address: config.http.max_connections_per_address,
            max_connections_per_proxy: config.http.max_connections_per_proxy,
            header_timeout: config.http.header_timeout,
            idle_timeout: config.http.idle_timeout,
            write_timeout: config.http.write_timeout,
            trusted_proxies: proxies.trusted.to_vec(),
            proxy_protocol: proxies.introduce_clients,
        };
        let metrics = Arc::clone(&metrics);
        tasks.spawn(listener::serve(listener, tls, door, limits, metrics, tasks.clone(), shutdown.clone()));
    };
    let proxies = Proxies { trusted: &config.http.trusted_proxies, introduce_clients: config.http.proxy_protocol };
    let public = app(proxies.trusted);
    let mut metrics_address = None;
    if let Some(listen) = config.metrics.listen {
        let listener = bind(listen)?;
        metrics_address = Some(listener.local_addr()?);
        serve(listener, None, http::operator_door(public.clone()), Proxies { introduce_clients: false, ..proxies });
    }
    let mut certificates: Vec<_> = tls.iter().cloned().collect();
    let mut ingress_address = None;
    if let Some(ingress) = &config.ingress {
        let listener = bind(ingress.listen)?;
        ingress_address = Some(listener.local_addr()?);
        certificates.extend(ingress_tls.clone());
        let proxies = Proxies { trusted: &ingress.trusted_proxies, introduce_clients: ingress.proxy_protocol };
        serve(listener, ingress_tls, http::ingress_door(app(proxies.trusted)), proxies);
    }
    if let (Some(listener), Some(section)) = (enrichment, &config.header_enrichment) {
        let proxies = Proxies { trusted: &section.trusted_proxies, introduce_clients: false };
        serve(listener, None, http::enrichment_door(app(proxies.trusted)), proxies);
    }
    serve(listener, tls, http::public_door(public), proxies);
    Ok(Running {
        base_url,
        address,
        metrics_address,
        ingress_address,
        enrichment_address,
        engine,
        connectors,
        sandbox,
        directory,
        certificates,
        state_file,
        tasks,
        shutdown,
    })
}

/// The simulated operator's directory of numbers, for those who point their sources to it.
async fn directory(config: &Config) -> anyhow::Result<Option<Directory>> {
    let Some(wanted) = config.sandbox.directory.clone().filter(|_| config.sandbox.enabled) else { return Ok(None) };
    let started = Directory::start(wanted).await;
    started.map(Some).context("the sandbox operator cannot listen on `sandbox.enum_listen` and `sandbox.hlr_listen`")
}

/// What a configuration decides for an engine.
pub fn settings(config: &Config, base_url: String, own: OwnPlaces) -> Settings {
    Settings {
        region: config.region,
        base_url,
        limits: config.rate_limits,
        urls: config.callbacks.policy(own.hosts, own.loopback_listeners),
        number_guard: config.number_guard,
        tenant_limits: config.tenant_limits,
        courier: config.courier,
        retention: config.retention,
        discovery_retention: config.discovery_retention,
        audit_retention: config.audit_retention,
        cached_lookups: 100_000,
        keep_requests: config.keep_requests,
        max_members: config.max_members,
    }
}

/// Tells an engine all that it would know in a node, and opens nothing: no listener, no link.
pub fn rehearse(engine: &Engine, config: &Config) -> anyhow::Result<()> {
    let listen = config.header_enrichment.as_ref().map(|enrichment| enrichment.listen);
    let base_url = engine.base_url().to_owned();
    let workbench = Workbench::new(config, base_url, listen, (engine.shared_clock(), engine.shared_entropy()))?;
    let prepared = Ways::prepare(config, &workbench).map_err(Unfit)?.tell(engine);
    Connectors::new(engine, workbench).announce(&prepared);
    Ok(())
}

fn work_in_background(tasks: &TaskTracker, shutdown: &CancellationToken, engine: &Engine) {
    background(tasks, shutdown, engine, |engine| async move { engine.follow_changes().await });
    background(tasks, shutdown, engine, |engine| async move { engine.keep_beating().await });
    background(tasks, shutdown, engine, |engine| async move { engine.keep_tidy().await });
    background(tasks, shutdown, engine, |engine| async move { engine.keep_flushing_activity().await });
    let (sweeping, until) = (engine.clone(), shutdown.clone());
    tasks.spawn(async move { sweeping.keep_sweeping(until).await });
    let (writing, until) = (engine.clone(), shutdown.clone());
    tasks.spawn(async move { writing.keep_writing_requests(until).await });
    let (looking, until) = (engine.clone(), shutdown.clone());
    tasks.spawn(async move { looking.keep_looking(until).await });
    let (courier, shutdown) = (engine.courier().clone(), shutdown.clone());
    // The courier ends by itself: it finishes what is under way, and gives the rest back.
    tasks.spawn(async move { courier.run(shutdown).await });
}

impl Running {
    /// Takes over what may change while running: certificates, networks, receivers, connectors, number sources, address
    /// tables.
    pub async fn reload(&self, config: anyhow::Result<Config>) {
        for tls in &self.certificates {
            match tls.reload() {
                Ok(()) => tracing::info!("a certificate was read again"),
                Err(error) => tracing::error!(%error, "a certificate was not replaced"),
            }
        }
        let applied = async {
            let config = config?;
            if config.ingress.is_some() != self.ingress_address.is_some() {
                bail!("`ingress.listen` cannot be switched on or off while running");
            }
            if config.header_enrichment.is_some() != self.enrichment_address.is_some() {
                bail!("`header_enrichment.listen` cannot be switched on or off while running");
            }
            let workbench = self.connectors.workbench().clone();
            // Databases are large, and looked into whole.
            let ways = tokio::task::spawn_blocking(move || Ways::prepare(&config, &workbench)).await??;
            // Nobody is to be sent to a number whose connector is about to stop.
            self.engine.networks().replace(ways.networks);
            self.connectors.put_to_work(ways.connectors).await;
            self.engine.networks().set_addresses(Box::new(ways.addresses));
            self.engine.number_lookup().replace(ways.sources);
            anyhow::Ok(())
        };
        match applied.await {
            Ok(()) => {
                tracing::info!("networks, receivers, connectors, number sources and address tables were read again");
            }
            // With its causes: the outermost often says no more than which section it is about.
            Err(error) => tracing::error!(
                error = format!("{error:#}"),
                "networks, receivers, connectors, number sources and address tables stay as they were"
            ),
        }
    }

    /// Waits until the node has been told to stop and requests under way have ended.
    pub async fn finished(self) {
        self.shutdown.cancelled().await;
        // No new messages while the rest is finished.
        self.connectors.shutdown().await;
        self.tasks.close();
        self.tasks.wait().await;
        // Those that were under way may have needed their operator.
        if let Some(sandbox) = &self.sandbox {
            sandbox.shutdown().await;
        }
        if let Some(directory) = &self.directory {
            directory.shutdown().await;
        }
        // All checks that were to end have ended by now, and all has been counted.
        self.engine.courier().give_back().await;
        if let Err(error) = self.engine.flush_activity().await {
            tracing::warn!(%error, "the counts of the last seconds are lost");
        }
        self.engine.leave().await;
        if let Some(file) = &self.state_file {
            file.remember(&self.engine).await;
        }
    }
}

/// Runs an endless task until shutdown.
fn background<F: Future<Output = ()> + Send + 'static>(
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
    engine: &Engine,
    task: impl FnOnce(Engine) -> F,
) {
    let (task, shutdown) = (task(engine.clone()), shutdown.clone());
    tasks.spawn(async move {
        shutdown.run_until_cancelled(task).await;
    });
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address).with_context(|| format!("cannot listen on {address}"))?;
    Ok(socket.listen(BACKLOG)?)
}
