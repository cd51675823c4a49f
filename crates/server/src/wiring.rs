//! Everything is assembled here, and everything stops from here.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use ringtrue_engine::{
    Engine, Settings,
    keys::MasterKey,
    ports::{Clock, Entropy, Store},
};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    config::Config,
    http::{self, App, Readiness, Shared, Site},
    listener::{self, Tls},
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
    pub engine: Engine,
    tls: Option<Arc<Tls>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// Enough for a burst of new connections while the accept loop is busy.
const BACKLOG: u32 = 4096;

/// Starts a node. It serves until `shutdown` is cancelled; [`Running::finished`] waits for its end.
pub async fn start(assembly: Assembly, shutdown: CancellationToken) -> anyhow::Result<Running> {
    let Assembly { config, store, master, clock, entropy } = assembly;
    let tls = match &config.http.tls {
        Some(files) => Some(Arc::new(Tls::load(&files.certificate, &files.key)?)),
        None => None,
    };
    let listener = bind(config.http.listen)?;
    let address = listener.local_addr()?;
    let base_url = match &config.base_url {
        Some(base_url) => base_url.to_string(),
        None => format!("{}://{address}", if tls.is_some() { "https" } else { "http" }),
    };

    let settings = Settings {
        region: config.region,
        base_url: base_url.clone(),
        limits: config.rate_limits,
        urls: config.callbacks.policy(own_host(&base_url)),
    };
    let engine = Engine::start(store, clock, entropy, master, settings).await?;
    let metrics = Arc::new(Metrics::default());
    let tasks = TaskTracker::new();
    let app = App::new(Shared {
        engine: engine.clone(),
        metrics: Arc::clone(&metrics),
        trusted_proxies: config.http.trusted_proxies.clone(),
        request_log: config.log.requests,
        traces: config.telemetry.otlp_endpoint.is_some(),
        body_timeout: config.http.body_timeout,
        request_timeout: config.http.request_timeout,
        tasks: tasks.clone(),
        shutdown: shutdown.clone(),
        readiness: Readiness::default(),
        site: Site::new(&base_url),
    });

    background(&tasks, &shutdown, &engine, |engine| async move { engine.follow_changes().await });
    background(&tasks, &shutdown, &engine, |engine| async move { engine.keep_beating().await });
    background(&tasks, &shutdown, &engine, |engine| async move { engine.keep_tidy().await });

    let limits = listener::Limits {
        max_connections: config.http.max_connections,
        max_connections_per_address: config.http.max_connections_per_address,
        header_timeout: config.http.header_timeout,
        idle_timeout: config.http.idle_timeout,
        write_timeout: config.http.write_timeout,
        trusted_proxies: config.http.trusted_proxies,
    };
    let mut metrics_address = None;
    if let Some(listen) = config.metrics.listen {
        let listener = bind(listen)?;
        metrics_address = Some(listener.local_addr()?);
        let door = http::operator_door(app.clone());
        let (limits, metrics) = (limits.clone(), Arc::clone(&metrics));
        tasks.spawn(listener::serve(listener, None, door, limits, metrics, tasks.clone(), shutdown.clone()));
    }
    let door = http::public_door(app);
    let serving = listener::serve(listener, tls.clone(), door, limits, metrics, tasks.clone(), shutdown.clone());
    tasks.spawn(serving);
    Ok(Running { base_url, address, metrics_address, engine, tls, tasks, shutdown })
}

impl Running {
    /// Takes over what may change while running: the certificate.
    pub fn reload(&self) {
        if let Some(tls) = &self.tls {
            match tls.reload() {
                Ok(()) => tracing::info!("the certificate was read again"),
                Err(error) => tracing::error!(%error, "the certificate was not replaced"),
            }
        }
    }

    /// Waits until the node has been told to stop and requests under way have ended.
    pub async fn finished(self) {
        self.shutdown.cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
        self.engine.leave().await;
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

/// A callback to ourselves would be a way around every rule on who may call what.
fn own_host(base_url: &str) -> Vec<String> {
    let host = url::Url::parse(base_url).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.into_iter().collect()
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address).with_context(|| format!("cannot listen on {address}"))?;
    Ok(socket.listen(BACKLOG)?)
}
