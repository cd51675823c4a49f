//! A world for one test: a node on a free port, with a database and a clock of its own.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::{
    management::CreatedWorkspace,
    ports::{Clock, DatabaseClock, ManualClock, Store, SystemEntropy},
    rate_limit::Limits,
};
use ringtrue_server::{
    config::{self, Config, Environment},
    pages::openapi,
    wiring::{self, Assembly, Running},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    client::{self, Answer, PATIENCE, Request},
    contract::Contract,
    database::Database,
    keys::{furnish, master},
    receiver,
};

/// When every world begins: 2026-01-01T00:00:00Z.
pub const BEGINNING: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Every answer of every test is held against the OpenAPI document.
pub static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(openapi::DOCUMENT).expect("the document is sound"));

pub struct World {
    pub node: Running,
    pub clock: Arc<ManualClock>,
    pub acme: Tenant,
    pub database: Database,
    shutdown: CancellationToken,
    config: Config,
}

/// A workspace and its first credential.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub workspace_id: String,
    pub client_id: String,
    pub client_secret: String,
}

/// A project and its first credential.
#[derive(Clone, Debug)]
pub struct ProjectOf {
    pub path: String,
    pub project_id: String,
    pub client_id: String,
    pub client_secret: String,
}

impl World {
    pub async fn sqlite() -> Self {
        World::with(Database::sqlite().await, |_| {}).await
    }

    pub async fn postgres() -> Self {
        World::with(Database::postgres().await, |_| {}).await
    }

    /// A world on SQLite whose configuration differs.
    pub async fn configured(change: impl FnOnce(&mut Config)) -> Self {
        World::with(Database::sqlite().await, change).await
    }

    pub async fn with(database: Database, change: impl FnOnce(&mut Config)) -> Self {
        let store = database.open().await;
        furnish(&*store).await;
        World::on(database, store, change).await
    }

    /// A world on SQLite that has nothing in common with any other, not even its keys.
    pub async fn foreign(change: impl FnOnce(&mut Config)) -> Self {
        let database = Database::sqlite().await;
        let store = database.open().await;
        World::on(database, store, change).await
    }

    pub async fn on(database: Database, store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Self {
        let clock = Arc::new(ManualClock::at(BEGINNING));
        let mut world = World::at(database, store, Arc::clone(&clock) as _, change).await;
        world.clock = clock;
        world
    }

    pub async fn at(
        database: Database,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = config(database.address());
        change(&mut config);
        let shutdown = CancellationToken::new();
        let node = start(&config, store, &clock, &shutdown).await;
        let acme = tenant(&node, "Acme").await;
        World { node, clock: Arc::new(ManualClock::at(BEGINNING)), acme, database, shutdown, config }
    }

    /// A world that lives by the time of its database, on a machine with this clock.
    pub async fn following(database: Database, machine: Arc<dyn Clock>) -> Self {
        let store = database.open().await;
        furnish(&*store).await;
        World::at(database, store, Arc::new(DatabaseClock::new(machine)), |_| {}).await
    }

    /// Another node on the same database, which follows its time, on a machine with this clock.
    pub async fn following_node(&self, machine: Arc<dyn Clock>) -> Running {
        let clock: Arc<dyn Clock> = Arc::new(DatabaseClock::new(machine));
        start(&self.config, self.database.open().await, &clock, &self.shutdown).await
    }

    /// Another node on the same database.
    pub async fn second_node(&self) -> Running {
        self.mortal_node().await.0
    }

    /// Why no node starts on the same database whose configuration differs.
    pub async fn refusal(&self, change: impl FnOnce(&mut Config)) -> String {
        let mut config = self.config.clone();
        change(&mut config);
        let started = try_start(&config, self.database.open().await, &self.manual_clock(), &self.shutdown).await;
        started.expect_err("it starts").to_string()
    }

    /// Another node on the same database, and what ends it.
    pub async fn mortal_node(&self) -> (Running, CancellationToken) {
        let shutdown = self.shutdown.child_token();
        (start(&self.config, self.database.open().await, &self.manual_clock(), &shutdown).await, shutdown)
    }

    /// A second customer.
    pub async fn another_tenant(&self) -> Tenant {
        tenant(&self.node, "Other").await
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    fn manual_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as _
    }

    pub fn advance(&self, by: SignedDuration) {
        self.clock.advance(by);
    }

    /// Sends a request, and holds the answer against the OpenAPI document.
    pub async fn send(&self, request: Request) -> Answer {
        send_to(self.node.address, request).await
    }

    /// Sends a request with a management token of the first tenant.
    pub async fn manage(&self, request: Request) -> Answer {
        let token = self.manager().await;
        self.send(request.bearer(&token)).await
    }

    pub async fn token_request(&self, id: &str, secret: &str, scope: &str) -> Answer {
        self.send(token_request(id, secret, scope)).await
    }

    pub async fn token(&self, id: &str, secret: &str, scope: &str) -> String {
        let answer = self.token_request(id, secret, scope).await.assert(200);
        answer.json()["access_token"].as_str().unwrap().to_owned()
    }

    /// A management token of the first tenant.
    pub async fn manager(&self) -> String {
        self.manager_of(&self.acme).await
    }

    pub async fn manager_of(&self, tenant: &Tenant) -> String {
        self.token(&tenant.client_id, &tenant.client_secret, "management").await
    }

    /// A project of the first tenant, with what `body` says beside its name.
    pub async fn project(&self, name: &str, body: Value) -> ProjectOf {
        self.project_of(&self.acme, name, body).await
    }

    pub async fn project_of(&self, tenant: &Tenant, name: &str, mut body: Value) -> ProjectOf {
        body["name"] = json!(name);
        let token = self.manager_of(tenant).await;
        let path = format!("{}/projects", tenant.path());
        let answer = self.send(Request::post(&path).bearer(&token).json(&body)).await.assert(201);
        ProjectOf::from_answer(tenant, &answer.json())
    }

    /// Whether this node takes a management token.
    pub async fn accepts(&self, token: &str) -> bool {
        accepted_at(self.node.address, token).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Tenant {
    pub fn path(&self) -> String {
        format!("/v1/management/workspaces/{}", self.workspace_id)
    }
}

impl ProjectOf {
    pub fn from_answer(tenant: &Tenant, body: &Value) -> Self {
        let project_id = body["project_id"].as_str().unwrap().to_owned();
        ProjectOf {
            path: format!("{}/projects/{project_id}", tenant.path()),
            project_id,
            client_id: body["credentials"][0]["client_id"].as_str().unwrap().to_owned(),
            client_secret: body["credentials"][0]["client_secret"].as_str().unwrap().to_owned(),
        }
    }
}

pub async fn send_to(address: SocketAddr, request: Request) -> Answer {
    let answer = client::send(address, &request).await;
    held(&request, answer)
}

/// Holds an answer against the OpenAPI document.
pub fn held(request: &Request, answer: Answer) -> Answer {
    let path = request.target.split('?').next().unwrap();
    if let Err(problem) = CONTRACT.check(&request.method, path, answer.status, &answer.headers, &answer.body) {
        panic!(
            "{} {path} answered {} against its contract: {problem}\n{}",
            request.method,
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
    }
    answer
}

/// Whether a node takes a token at the door of the Management API: 200 or 403, but not 401.
pub async fn accepted_at(address: SocketAddr, token: &str) -> bool {
    let answer = send_to(address, Request::get("/v1/management/workspaces").bearer(token)).await;
    assert!([200, 401, 403].contains(&answer.status), "{answer:?}");
    answer.status != 401
}

/// Waits for what another node or task does in its own time.
pub async fn eventually(what: &str, is_so: impl AsyncFnMut() -> bool) {
    within(PATIENCE, what, is_so).await;
}

/// Waits for what a node promises within a second. Ten times that leaves room for a machine that is busy, and none for
/// a promise that is not kept.
pub async fn soon(what: &str, is_so: impl AsyncFnMut() -> bool) {
    within(Duration::from_secs(10), what, is_so).await;
}

async fn within(limit: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < limit, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn token_request(id: &str, secret: &str, scope: &str) -> Request {
    Request::post("/oauth2/token")
        .header("Authorization", basic(id, secret))
        .form(&[("grant_type", "client_credentials"), ("scope", scope)])
}

pub fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

/// Defaults, on free ports, and with limits that no ordinary test reaches.
fn config(store: &str) -> Config {
    let settings = [
        ("RINGTRUE_HTTP__LISTEN", "127.0.0.1:0"),
        ("RINGTRUE_METRICS__LISTEN", "127.0.0.1:0"),
        ("RINGTRUE_STORE__URL", store),
    ];
    let mut config = config::load(None, &settings.into_iter().collect::<Environment>()).expect("defaults").config;
    config.callbacks.allowed_addresses = vec![IpAddr::from(receiver::ADDRESS).into()];
    config.rate_limits = Limits {
        create: 1_000_000,
        read: 1_000_000,
        eligibility: 1_000_000,
        management: 1_000_000,
        token: 1_000_000,
        token_per_workspace: 1_000_000,
        device: 1_000_000,
        device_visits: 1_000_000,
        console: 1_000_000,
        failed_logins: 10,
    };
    config
}

async fn start(
    config: &Config,
    store: Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    shutdown: &CancellationToken,
) -> Running {
    try_start(config, store, clock, shutdown).await.expect("a node")
}

async fn try_start(
    config: &Config,
    store: Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    shutdown: &CancellationToken,
) -> anyhow::Result<Running> {
    let assembly = Assembly {
        config: config.clone(),
        store,
        master: master(),
        clock: Arc::clone(clock),
        entropy: Arc::new(SystemEntropy::default()),
    };
    wiring::start(assembly, shutdown.clone()).await
}

async fn tenant(node: &Running, name: &str) -> Tenant {
    let CreatedWorkspace { workspace, credential } =
        node.engine.create_workspace(name.parse().unwrap()).await.expect("a workspace");
    Tenant {
        workspace_id: workspace.id.to_string(),
        client_id: credential.credential.client_id.to_string(),
        client_secret: credential.secret.reveal().to_owned(),
    }
}
