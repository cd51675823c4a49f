//! Assembles, reloads and stops a node.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, bail};
use ringtrue_console::ConsoleDependencies;
use ringtrue_engine::{
    Engine, EngineDependencies, EngineSettings,
    accounts::PasswordCosts,
    keys::MasterKey,
    ports::{clock::Clock, combined::Store, entropy::Entropy},
};
use ringtrue_sandbox::{directory::Directory, handsets::Handsets, operator_access::SandboxAccess, smsc::SmscObserver};
use ringtrue_web::{
    app::{App, AppState},
    authorization_forwarder::AuthorizationForwarder,
    development::Development,
    metrics::Metrics,
    middleware::HttpService,
};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use crate::prepared::{OwnEndpoints, engine_settings};
use crate::{
    certificates::NodeCertificates,
    config::{Config, HttpSection},
    connectors::{ConnectorFactory, Connectors},
    generation_file::GenerationFile,
    listener::{self, Tls},
    prepared::{InvalidConfig, PreparedNode, Routing},
    sandbox_operator::SandboxOperator,
    telemetry::metrics::EngineCollector,
};

#[derive(derive_more::Debug)]
#[debug("NodeDependencies({config:?})")]
pub struct NodeDependencies {
    pub config: Config,
    pub store: Arc<dyn Store>,
    pub master: MasterKey,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Costs of hashing passwords: the default, except in tests that sign in often.
    pub password_costs: PasswordCosts,
    /// Information about a server that `ringtrue dev` starts. `None` for other servers.
    pub development: Option<Arc<Development>>,
    /// Whether the node sends a heartbeat every second. Tests with a manual clock turn this off and send heartbeats
    /// themselves.
    pub periodic_heartbeats: bool,
}

#[derive(Debug)]
pub struct RunningNode {
    pub base_url: String,
    pub address: SocketAddr,
    pub metrics_address: Option<SocketAddr>,
    /// Address of the listener for SMS webhooks. `None`: it is off.
    pub ingress_address: Option<SocketAddr>,
    /// Address of the header enrichment listener. `None`: it is off.
    pub enrichment_address: Option<SocketAddr>,
    pub engine: Engine,
    /// Connectors that sandbox projects use.
    pub sandbox_access: Arc<SandboxAccess>,
    connectors: Arc<Connectors>,
    sandbox: Option<SandboxOperator>,
    /// Simulated number directory of the sandbox operator. `None`: it is off.
    pub directory: Option<Directory>,
    certificates: Vec<Arc<Tls>>,
    generation_file: Option<Arc<GenerationFile>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// Length of the queue of connections that are not accepted yet. Long enough for a burst of connections while the
/// accept loop is busy.
const LISTEN_BACKLOG: u32 = 4096;

/// Starts a node. It serves until `shutdown` is cancelled. [`RunningNode::wait_until_stopped`] waits for its end.
pub async fn start(dependencies: NodeDependencies, shutdown: CancellationToken) -> anyhow::Result<RunningNode> {
    let NodeDependencies { config, store, master, clock, entropy, password_costs, development, periodic_heartbeats } =
        dependencies;
    let listener = bind(config.http.listen)?;
    let address = listener.local_addr()?;
    // The header enrichment listener is bound before the connectors are built, because they need its address.
    let enrichment = config.header_enrichment.as_ref().map(|enrichment| bind(enrichment.listen)).transpose()?;
    let enrichment_address = enrichment.as_ref().map(TcpListener::local_addr).transpose()?;
    let prepared =
        PreparedNode::prepare(&config, address, enrichment_address, (&clock, &entropy)).map_err(InvalidConfig)?;
    let PreparedNode { tls, ingress_tls, settings, transport, factory, identity_provider, routing } = prepared;
    let sandbox_access = Arc::new(SandboxAccess::default());
    let transport = Arc::new(transport);
    let dependencies =
        EngineDependencies { store, clock, entropy, transport, master_key: master, sandbox: sandbox_access.clone() };
    let engine = Engine::start(dependencies, EngineSettings { password_costs, ..settings }).await?;
    let generation_file = GenerationFile::for_store(&config.store).map(Arc::new);
    engine.node.detect_rollback(generation_file.as_ref().and_then(|file| file.read())).await?;
    let connectors = Arc::new(Connectors::new(&engine, factory));
    let prepared = routing.apply_to(&engine);
    let sandbox =
        if config.sandbox.enabled { Some(SandboxOperator::start(&engine, &sandbox_access).await?) } else { None };
    let directory = start_directory(&config).await?;
    connectors.set_sandbox_connectors(sandbox.as_ref().map_or_else(Vec::new, SandboxOperator::monitored_connectors));
    let tasks = TaskTracker::new();
    let collector = EngineCollector { engine: engine.clone(), connectors: Arc::clone(&connectors) };
    let metrics = Arc::new(Metrics::new(Box::new(collector)));
    let app = |section: &HttpSection| {
        App::new(AppState {
            engine: engine.clone(),
            metrics: Arc::clone(&metrics),
            handsets: sandbox.as_ref().map_or_else(Handsets::default, SandboxOperator::handsets),
            authorization_forwarder: sandbox
                .as_ref()
                .map_or_else(AuthorizationForwarder::default, SandboxOperator::authorization_forwarder),
            http: section.settings(),
            log_requests: config.log.requests,
            traces: config.telemetry.otlp_endpoint.is_some(),
            tasks: tasks.clone(),
            shutdown: shutdown.clone(),
            development: development.clone(),
        })
    };
    connectors.apply(prepared).await;
    spawn_engine_tasks(&tasks, &shutdown, &engine);
    if periodic_heartbeats {
        spawn_until_shutdown(&tasks, &shutdown, &engine, |engine| async move { engine.node.run_heartbeat().await });
    }
    if let Some(file) = generation_file.clone() {
        spawn_until_shutdown(&tasks, &shutdown, &engine, |engine| file.run(engine));
    }

    let serve = |listener, tls, section: HttpSection, service: &dyn Fn(App) -> HttpService| {
        let service = service(app(&section));
        tasks.spawn(listener::serve(listener, tls, Arc::new(section), service));
    };
    let mut metrics_address = None;
    if let Some(listen) = config.metrics.listen {
        let listener = bind(listen)?;
        metrics_address = Some(listener.local_addr()?);
        let section = HttpSection { proxy_protocol: false, ..config.http.clone() };
        serve(listener, None, section, &|app| HttpService::new(ringtrue_api::metrics_routes(), app));
    }
    let mut certificates: Vec<_> = tls.iter().cloned().collect();
    let node_certificates = NodeCertificates::new(tls.as_ref(), ingress_tls.as_ref(), &connectors);
    let mut ingress_address = None;
    if let Some(ingress) = &config.ingress {
        let listener = bind(ingress.listen)?;
        ingress_address = Some(listener.local_addr()?);
        certificates.extend(ingress_tls.clone());
        let section = config.http.with_trusted_proxies(&ingress.trusted_proxies, ingress.proxy_protocol);
        let routes = || ringtrue_api::sms_webhook_routes(connectors.clone());
        serve(listener, ingress_tls, section, &|app| HttpService::new(routes(), app));
    }
    if let (Some(listener), Some(enrichment)) = (enrichment, &config.header_enrichment) {
        let section = config.http.with_trusted_proxies(&enrichment.trusted_proxies, false);
        serve(listener, None, section, &enrichment_service);
    }
    let console = ConsoleDependencies {
        identity_provider: identity_provider.map(Arc::new),
        connectors: connectors.clone(),
        certificates: Arc::new(node_certificates),
        logged_routes: logged_routes().into(),
    };
    serve(listener, tls, config.http, &|app| public_service(app, console.clone()));
    Ok(RunningNode {
        base_url: engine.base_url().to_owned(),
        address,
        metrics_address,
        ingress_address,
        enrichment_address,
        engine,
        sandbox_access,
        connectors,
        sandbox,
        directory,
        certificates,
        generation_file,
        tasks,
        shutdown,
    })
}

/// Builds the service with the API, the hosted verification page and the console.
fn public_service(app: App, console: ConsoleDependencies) -> HttpService {
    HttpService::new(ringtrue_api::routes().merge(ringtrue_console::routes(console)), app).with_hsts()
}

/// Builds the service for devices whose operator adds their number in a request header (header enrichment). It uses
/// plain HTTP, because operators cannot add headers to TLS.
fn enrichment_service(app: App) -> HttpService {
    HttpService::new(ringtrue_api::enrichment_routes(), app).keep_enrichment_headers()
}

/// Returns the API routes whose requests are recorded in the request log, sorted.
fn logged_routes() -> Vec<&'static str> {
    let routes = ringtrue_api::public_routes();
    let mut paths: Vec<_> = routes.iter().filter(|route| route.policy.is_logged).map(|route| route.path).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Starts the simulated number directory of the sandbox operator, if it is configured.
async fn start_directory(config: &Config) -> anyhow::Result<Option<Directory>> {
    let Some(section) = config.sandbox.directory.clone().filter(|_| config.sandbox.enabled) else { return Ok(None) };
    let started = Directory::start(section).await;
    started.map(Some).context("the sandbox operator failed to listen on `sandbox.enum_listen` or `sandbox.hlr_listen`")
}

/// Passes networks, number sources and routes to an engine without opening listeners or connections, for `ringtrue
/// eligibility explain`.
pub fn apply_config_without_starting(engine: &Engine, config: &Config) -> anyhow::Result<()> {
    let listen = config.header_enrichment.as_ref().map(|enrichment| enrichment.listen);
    let base_url = engine.base_url().to_owned();
    let factory = ConnectorFactory::new(config, base_url, listen, (engine.shared_clock(), engine.shared_entropy()))?;
    let prepared = Routing::prepare(config, &factory).map_err(InvalidConfig)?.apply_to(engine);
    Connectors::new(engine, factory).register_without_starting(&prepared);
    Ok(())
}

fn spawn_engine_tasks(tasks: &TaskTracker, shutdown: &CancellationToken, engine: &Engine) {
    spawn_until_shutdown(
        tasks,
        shutdown,
        engine,
        |engine| async move { engine.node.run_control_plane_refresh().await },
    );
    spawn_until_shutdown(tasks, shutdown, engine, |engine| async move { engine.node.run_housekeeping().await });
    spawn_until_shutdown(tasks, shutdown, engine, |engine| async move { engine.node.run_check_retention().await });
    spawn_until_shutdown(tasks, shutdown, engine, |engine| async move { engine.activity.run_flush().await });
    let (sweeping, until) = (engine.clone(), shutdown.clone());
    tasks.spawn(async move { sweeping.checks.run_sweeper(until).await });
    let (writing, until) = (engine.clone(), shutdown.clone());
    tasks.spawn(async move { writing.request_log.run_writer(until).await });
    let (looking, until) = (engine.clone(), shutdown.clone());
    tasks.spawn(async move { looking.live.run(until).await });
    let (following, until) = (engine.clone(), shutdown.clone());
    tasks.spawn(async move { following.verifications.run_followers(until).await });
    let (courier, shutdown) = (engine.courier().clone(), shutdown.clone());
    // The courier, which delivers callbacks, handles shutdown itself: it finishes deliveries in progress and leaves the
    // rest to other nodes.
    tasks.spawn(async move { courier.run(shutdown).await });
}

impl RunningNode {
    /// Returns an observer of the SMS that reach the sandbox operator's SMSC. `None`: the sandbox is off.
    pub fn smsc_observer(&self) -> Option<SmscObserver> {
        self.sandbox.as_ref().map(SandboxOperator::smsc_observer)
    }

    /// Reloads certificates, networks, receivers, connectors, number sources and address tables.
    pub async fn reload(&self, config: anyhow::Result<Config>) {
        for tls in &self.certificates {
            match tls.reload() {
                Ok(()) => tracing::info!("certificate reloaded"),
                Err(error) => tracing::error!(%error, "failed to reload certificate; keeping the current one"),
            }
        }
        let applied = async {
            let config = config?;
            if config.ingress.is_some() != self.ingress_address.is_some() {
                bail!("`ingress.listen` cannot be enabled or disabled by a reload; restart the node");
            }
            if config.header_enrichment.is_some() != self.enrichment_address.is_some() {
                bail!("`header_enrichment.listen` cannot be enabled or disabled by a reload; restart the node");
            }
            let factory = self.connectors.factory().clone();
            // Runs on a blocking thread, because loading address tables takes long and blocks.
            let routing = tokio::task::spawn_blocking(move || Routing::prepare(&config, &factory)).await??;
            // Replaces networks first, so that no check is assigned a receiver whose connector is about to stop.
            self.engine.networks().replace(routing.networks);
            self.connectors.apply(routing.connectors).await;
            self.engine.networks().set_address_networks(Box::new(routing.addresses));
            self.engine.number_lookup().replace(routing.sources);
            anyhow::Ok(())
        };
        match applied.await {
            Ok(()) => {
                tracing::info!(
                    "configuration reloaded: networks, receivers, connectors, number sources and address tables"
                );
            }
            // Logs the whole chain of causes, because the outermost one often names only the section.
            Err(error) => tracing::error!(
                error = format!("{error:#}"),
                "failed to reload configuration; networks, receivers, connectors, number sources and address tables are unchanged"
            ),
        }
    }

    /// Waits until shutdown is requested and all requests in progress have finished.
    pub async fn wait_until_stopped(self) {
        self.shutdown.cancelled().await;
        // Connectors stop first, so that no more inbound messages arrive.
        self.connectors.shutdown().await;
        self.tasks.close();
        self.tasks.wait().await;
        // Verifications may still wait for operators' answers about SIM swaps, without an HTTP request.
        self.engine.verifications.wait_until_idle().await;
        // The sandbox operator stops after the requests in progress, which may have needed it.
        if let Some(sandbox) = &self.sandbox {
            sandbox.shutdown().await;
        }
        if let Some(directory) = &self.directory {
            directory.shutdown().await;
        }
        // All tasks have ended: no check can conclude and no activity can be counted any more, so the following steps
        // miss nothing.
        self.engine.courier().release_leases().await;
        if let Err(error) = self.engine.activity.flush().await {
            tracing::warn!(%error, "failed to flush activity counters; counts of the last seconds are lost");
        }
        self.engine.node.deregister_node().await;
        if let Some(file) = &self.generation_file {
            file.write_generation(&self.engine).await;
        }
    }
}

/// Spawns a task that runs until shutdown.
fn spawn_until_shutdown<F: Future<Output = ()> + Send + 'static>(
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
    socket.bind(address).with_context(|| format!("failed to listen on {address}"))?;
    Ok(socket.listen(LISTEN_BACKLOG)?)
}
