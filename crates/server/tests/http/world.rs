//! Test fixture: a node on a free port with its own database and clock.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_api::openapi;
use ringtrue_engine::{
    accounts::PasswordCosts,
    ports::{
        clock::{Clock, DatabaseClock, ManualClock},
        combined::Store,
        entropy::SystemEntropy,
    },
    rate_limits::DefaultRateLimits,
    tenants::CreatedWorkspace,
};
use ringtrue_server::{
    config::{self, Config, Environment},
    wiring::{self, NodeDependencies, RunningNode},
};
use ringtrue_test_support::{WAIT_LIMIT, poll_until};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    client::{self, HttpResponse, Request, token_request},
    contract::Contract,
    database::Database,
    node::keys::{insert_keys, master},
    receiver,
};

/// Initial time of every test: 2026-01-01T00:00:00Z.
pub const START_TIME: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// The OpenAPI document, against which all responses are validated.
pub static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(openapi::DOCUMENT).expect("the document is valid"));

pub struct World {
    pub node: RunningNode,
    pub clock: Arc<ManualClock>,
    pub acme: Tenant,
    pub database: Database,
    shutdown: CancellationToken,
    config: Config,
}

/// Where a node gets the time from.
enum TimeSource {
    /// The test advances the time and sends heartbeats when it needs them. Periodic heartbeats would divide rate limits
    /// among the nodes at times that the test cannot predict.
    Manual(Arc<ManualClock>),
    /// The node samples the database time with periodic heartbeats. The contained clock is the clock of the node's
    /// machine.
    Database(Arc<dyn Clock>),
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
pub struct TestProject {
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

    /// Starts a node on SQLite with a changed configuration.
    pub async fn configured(change: impl FnOnce(&mut Config)) -> Self {
        World::with(Database::sqlite().await, change).await
    }

    pub async fn with(database: Database, change: impl FnOnce(&mut Config)) -> Self {
        let store = database.open().await;
        insert_keys(&*store).await;
        World::on(database, store, change).await
    }

    /// Starts a node on SQLite with newly generated keys instead of those that tests share.
    pub async fn with_own_keys(change: impl FnOnce(&mut Config)) -> Self {
        let database = Database::sqlite().await;
        let store = database.open().await;
        World::on(database, store, change).await
    }

    pub async fn on(database: Database, store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Self {
        World::at(database, store, Arc::new(ManualClock::at(START_TIME)), change).await
    }

    pub async fn at(
        database: Database,
        store: Arc<dyn Store>,
        clock: Arc<ManualClock>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        World::with_time(database, store, TimeSource::Manual(clock), change).await
    }

    async fn with_time(
        database: Database,
        store: Arc<dyn Store>,
        time: TimeSource,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = config(database.address());
        change(&mut config);
        let shutdown = CancellationToken::new();
        let node = start(&config, store, &time, &shutdown).await;
        let acme = tenant(&node, "Acme").await;
        let clock = match time {
            TimeSource::Manual(clock) => clock,
            TimeSource::Database(_) => Arc::new(ManualClock::at(START_TIME)),
        };
        World { node, clock, acme, database, shutdown, config }
    }

    /// Starts a node that uses the database time, on a machine with this clock.
    pub async fn with_database_clock(database: Database, machine: Arc<dyn Clock>) -> Self {
        let store = database.open().await;
        insert_keys(&*store).await;
        World::with_time(database, store, TimeSource::Database(machine), |_| {}).await
    }

    /// Starts another node that uses the database time, on a machine with this clock.
    pub async fn node_with_database_clock(&self, machine: Arc<dyn Clock>) -> RunningNode {
        start(&self.config, self.database.open().await, &TimeSource::Database(machine), &self.shutdown).await
    }

    /// Starts another node on the same database.
    pub async fn second_node(&self) -> RunningNode {
        self.stoppable_node().await.0
    }

    /// Starts another node on the same database, with a changed configuration.
    pub async fn node_with(&self, change: impl FnOnce(&mut Config)) -> RunningNode {
        let mut config = self.config.clone();
        change(&mut config);
        start(&config, self.database.open().await, &self.manual_time(), &self.shutdown).await
    }

    /// Returns the error with which a node with a changed configuration fails to start on the same database.
    pub async fn start_error(&self, change: impl FnOnce(&mut Config)) -> String {
        let mut config = self.config.clone();
        change(&mut config);
        let started = try_start(&config, self.database.open().await, &self.manual_time(), &self.shutdown).await;
        started.expect_err("the node must not start").to_string()
    }

    /// Starts another node on the same database. Returns it with its shutdown token.
    pub async fn stoppable_node(&self) -> (RunningNode, CancellationToken) {
        let shutdown = self.shutdown.child_token();
        (start(&self.config, self.database.open().await, &self.manual_time(), &shutdown).await, shutdown)
    }

    pub async fn another_tenant(&self) -> Tenant {
        tenant(&self.node, "Other").await
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    fn manual_time(&self) -> TimeSource {
        TimeSource::Manual(Arc::clone(&self.clock))
    }

    pub fn advance(&self, by: SignedDuration) {
        self.clock.advance(by);
    }

    /// Sends a request and validates the response against the OpenAPI document.
    pub async fn send(&self, request: Request) -> HttpResponse {
        send_to(self.node.address, request).await
    }

    /// Sends a request with a management token of the first tenant.
    pub async fn manage(&self, request: Request) -> HttpResponse {
        let token = self.management_token().await;
        self.send(request.bearer(&token)).await
    }

    pub async fn token_request(&self, id: &str, secret: &str, scope: &str) -> HttpResponse {
        self.send(token_request(id, secret, scope)).await
    }

    pub async fn token(&self, id: &str, secret: &str, scope: &str) -> String {
        self.token_request(id, secret, scope).await.access_token()
    }

    /// Requests a management token of the first tenant.
    pub async fn management_token(&self) -> String {
        self.management_token_of(&self.acme).await
    }

    pub async fn management_token_of(&self, tenant: &Tenant) -> String {
        self.token(&tenant.client_id, &tenant.client_secret, "management").await
    }

    /// Creates a project of the first tenant from `body` and a name.
    pub async fn project(&self, name: &str, body: Value) -> TestProject {
        self.project_of(&self.acme, name, body).await
    }

    pub async fn project_of(&self, tenant: &Tenant, name: &str, mut body: Value) -> TestProject {
        body["name"] = json!(name);
        let token = self.management_token_of(tenant).await;
        let path = format!("{}/projects", tenant.path());
        let response = self.send(Request::post(&path).bearer(&token).json(&body)).await.assert(201);
        TestProject::from_response(tenant, &response.json())
    }

    /// Waits until the sandbox operator has delivered all SMS.
    pub async fn wait_for_sms(&self) {
        let observer = self.node.smsc_observer().expect("a sandbox operator");
        let delivered = timeout(WAIT_LIMIT, observer.wait_until(|counts| counts.queued == 0)).await;
        assert!(delivered.is_ok(), "undelivered SMS: {:?}", observer.counts());
    }

    /// Waits until the node has stored the results of the callbacks that it sent.
    pub async fn wait_for_callback_results(&self) {
        wait_for_callback_results(&self.node).await;
    }

    pub async fn accepts_token(&self, token: &str) -> bool {
        is_token_accepted(self.node.address, token).await
    }
}

/// Waits until a node has stored the results of the callbacks that it sent. If a test advances the time before that,
/// the lease of such a callback expires, and another node sends it again.
pub async fn wait_for_callback_results(node: &RunningNode) {
    let courier = node.engine.courier();
    assert!(timeout(WAIT_LIMIT, courier.wait_until_idle()).await.is_ok(), "running attempts: {courier:?}");
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

impl TestProject {
    pub fn from_response(tenant: &Tenant, body: &Value) -> Self {
        let project_id = body["project_id"].as_str().unwrap().to_owned();
        TestProject {
            path: format!("{}/projects/{project_id}", tenant.path()),
            project_id,
            client_id: body["credentials"][0]["client_id"].as_str().unwrap().to_owned(),
            client_secret: body["credentials"][0]["client_secret"].as_str().unwrap().to_owned(),
        }
    }
}

pub async fn send_to(address: SocketAddr, request: Request) -> HttpResponse {
    let response = client::send(address, &request).await;
    assert_contract(&request, response)
}

/// Validates a response against the OpenAPI document.
pub fn assert_contract(request: &Request, response: HttpResponse) -> HttpResponse {
    let path = request.target.split('?').next().unwrap();
    if let Err(problem) = CONTRACT.check(&request.method, path, response.status, &response.headers, &response.body) {
        panic!(
            "{} {path} returned {} in violation of the contract: {problem}\n{}",
            request.method,
            response.status,
            String::from_utf8_lossy(&response.body)
        );
    }
    response
}

/// Returns whether the token is valid: the Management API then responds with 200 or 403 instead of 401.
pub async fn is_token_accepted(address: SocketAddr, token: &str) -> bool {
    let response = send_to(address, Request::get("/v1/management/workspaces").bearer(token)).await;
    assert!([200, 401, 403].contains(&response.status), "{response:?}");
    response.status != 401
}

/// Polls for an effect that a node guarantees within a second. The timeout of ten seconds allows for a busy machine.
pub async fn poll_with_timeout(what: &str, condition: impl AsyncFnMut() -> bool) {
    assert!(timeout(Duration::from_secs(10), poll_until(what, condition)).await.is_ok(), "timed out: {what}");
}

/// Returns the default configuration on free ports, with limits that regular tests do not reach.
fn config(store: &str) -> Config {
    let settings = [
        ("RINGTRUE_HTTP__LISTEN", "127.0.0.1:0"),
        ("RINGTRUE_METRICS__LISTEN", "127.0.0.1:0"),
        ("RINGTRUE_STORE__URL", store),
    ];
    let mut config = config::load(None, &settings.into_iter().collect::<Environment>()).expect("defaults").config;
    config.camara_enabled = true;
    config.callbacks.allowed_addresses = vec![IpAddr::from(receiver::ADDRESS).into()];
    config.rate_limits = DefaultRateLimits {
        create: 1_000_000,
        read: 1_000_000,
        eligibility: 1_000_000,
        management: 1_000_000,
        token: 1_000_000,
        token_per_workspace: 1_000_000,
        device: 1_000_000,
        device_visits: 1_000_000,
        console: 1_000_000,
        console_per_session: 1_000_000,
        console_per_workspace: 1_000_000,
        failed_logins: 10,
    };
    config
}

async fn start(config: &Config, store: Arc<dyn Store>, time: &TimeSource, shutdown: &CancellationToken) -> RunningNode {
    try_start(config, store, time, shutdown).await.expect("a node")
}

async fn try_start(
    config: &Config,
    store: Arc<dyn Store>,
    time: &TimeSource,
    shutdown: &CancellationToken,
) -> anyhow::Result<RunningNode> {
    let (clock, periodic_heartbeats): (Arc<dyn Clock>, bool) = match time {
        TimeSource::Manual(clock) => (Arc::clone(clock) as _, false),
        TimeSource::Database(machine) => (Arc::new(DatabaseClock::new(Arc::clone(machine))), true),
    };
    let dependencies = NodeDependencies {
        config: config.clone(),
        store,
        master: master(),
        clock,
        entropy: Arc::new(SystemEntropy::default()),
        password_costs: lowest_password_costs(),
        development: None,
        periodic_heartbeats,
    };
    Box::pin(wiring::start(dependencies, shutdown.clone())).await
}

#[expect(clippy::disallowed_methods, reason = "hashes of the default costs take a third of the tests' processor time")]
fn lowest_password_costs() -> PasswordCosts {
    PasswordCosts::lowest()
}

async fn tenant(node: &RunningNode, name: &str) -> Tenant {
    let CreatedWorkspace { workspace, credential } =
        node.engine.management.create_workspace(name.parse().unwrap()).await.expect("a workspace");
    Tenant {
        workspace_id: workspace.id.to_string(),
        client_id: credential.credential.client_id.to_string(),
        client_secret: credential.secret.reveal().to_owned(),
    }
}
