//! Test deployment with two live operators and the simulated one, a live and a sandbox project, and a callback
//! receiver.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_domain::{
    audit::Actor,
    lifecycle::{CheckId, CheckStatus},
    network::{AllowedNetwork, Network, NetworkDirectory},
    phone::Msisdn,
    product::Product,
    silent::SilentCheck,
    tenancy::{ConfigurationPatch, Mode, Project},
};
use ringtrue_engine::{
    Engine, EngineDependencies,
    actor::ManagementActor,
    keys::MasterKey,
    lookups::networks::SilentNetworkRoute,
    ports::{
        clock::ManualClock,
        entropy::SystemEntropy,
        lookups::AddressNetwork,
        transport::{OutboundRequest, OutboundResponse, Transport, TransportError},
    },
    silent::{
        CreateSilent, DeviceRequest, DeviceReturn, NextStep, RedeemError, RedirectError, RedirectFailure,
        RedirectOutcome,
    },
    tenants::NewProject,
};
use ringtrue_sandbox::operator_access::SandboxAccess;
use ringtrue_store::{StoreOptions, StoreUrl};
use ringtrue_test_support::engine::engine_settings;
use tempfile::TempDir;

use crate::operators::{Addresses, OPERATOR, Operator};

pub const PRODUCTS: [Product; 2] = [Product::SecureSna, Product::Discovery];
pub const START_TIME: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Phone number on the network of the operator `ours`, which also supports Reverse SMS.
pub const OURS: &str = "+447700900122";
/// Phone number on the network of the operator `other`.
pub const OTHER: &str = "+447800900122";
/// Phone number on a network without a connector.
pub const UNCONNECTED: &str = "+447900900122";
/// Phone number on a network that supports only Reverse SMS.
pub const SMS_ONLY: &str = "+447600900122";
/// Phone number on a network that the live project may not use.
pub const FORBIDDEN: &str = "+447500900122";

// Addresses of devices, named after the network that they belong to.
pub const ON_OURS: &str = "203.0.113.10";
pub const ALSO_ON_OURS: &str = "203.0.113.12";
pub const ON_BRAND: &str = "203.0.113.11";
pub const ON_OTHER: &str = "203.0.113.20";
pub const ON_UNCONNECTED: &str = "203.0.113.30";
pub const ON_FORBIDDEN: &str = "203.0.113.40";
pub const NOT_MOBILE: &str = "198.51.100.1";
pub const UNKNOWN_ADDRESS: &str = "192.0.2.1";

/// Accepts every callback and records its body.
#[derive(Default)]
pub struct Receiver(Mutex<Vec<String>>);

#[async_trait]
impl Transport for Receiver {
    async fn get(&self, _: &ringtrue_domain::web_url::CallbackUrl) -> Result<OutboundResponse, TransportError> {
        Err(TransportError::Connection)
    }

    async fn post(&self, request: OutboundRequest) -> Result<OutboundResponse, TransportError> {
        self.0.lock().push(String::from_utf8(request.body).unwrap());
        Ok(OutboundResponse { status: 200, headers: vec![], body: vec![] })
    }
}

pub struct World {
    pub engine: Engine,
    pub clock: Arc<ManualClock>,
    pub ours: Arc<Operator>,
    pub other: Arc<Operator>,
    pub simulated: Arc<Operator>,
    pub live: Project,
    pub sandbox: Project,
    pub sandbox_access: Arc<SandboxAccess>,
    receiver: Arc<Receiver>,
    _folder: TempDir,
}

impl World {
    pub async fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let url: StoreUrl = format!("sqlite:{}", folder.path().join("ringtrue.db").display()).parse().unwrap();
        ringtrue_store::migrate(&url, START_TIME).await.unwrap();
        let entropy = Arc::new(SystemEntropy::default());
        let clock = Arc::new(ManualClock::at(START_TIME));
        let receiver = Arc::new(Receiver::default());
        let sandbox_access = Arc::new(SandboxAccess::default());
        let parts = EngineDependencies {
            store: ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap(),
            clock: Arc::clone(&clock) as _,
            transport: Arc::clone(&receiver) as _,
            master_key: MasterKey::from_base64(&MasterKey::generate(&*entropy)).unwrap(),
            entropy,
            sandbox: Arc::clone(&sandbox_access) as _,
        };
        let engine = Engine::start(parts, engine_settings()).await.unwrap();
        let [ours, other, simulated] = ["ours", "other", "simulated"].map(|name| Arc::new(Operator::new(name)));
        let networks = engine.networks();
        networks.replace(directory());
        networks.set_address_networks(Box::new(addresses()));
        networks.set_silent_routes(vec![
            SilentNetworkRoute { networks: ids(&["23410", "23411", "23450"]), connector: Arc::clone(&ours) as _ },
            SilentNetworkRoute { networks: ids(&["23420"]), connector: Arc::clone(&other) as _ },
        ]);
        sandbox_access.set_silent_connector(Arc::clone(&simulated) as _);
        let [live, sandbox] = projects(&engine).await;
        World { engine, clock, ours, other, simulated, live, sandbox, sandbox_access, receiver, _folder: folder }
    }

    pub fn project(&self, mode: Mode) -> &Project {
        if mode == Mode::Live { &self.live } else { &self.sandbox }
    }

    /// Returns the live operator `ours`, or the simulated one for the sandbox.
    pub fn operator(&self, mode: Mode) -> &Operator {
        if mode == Mode::Live { &self.ours } else { &self.simulated }
    }

    /// Creates a check of the live project.
    pub async fn create(&self, product: Product) -> Device<'_> {
        self.create_in(Mode::Live, product, CreateSilent::default()).await
    }

    /// Creates a check. A Secure SNA check without a phone number gets [`OURS`].
    pub async fn create_in(&self, mode: Mode, product: Product, mut request: CreateSilent) -> Device<'_> {
        if product == Product::SecureSna {
            request.phone_number.get_or_insert_with(|| OURS.to_owned());
        }
        let project = self.project(mode);
        let created = self.engine.silent.create_silent(project, product, request, None).await.unwrap();
        let (_, token) = created.url.split_once("/redirect?t=").expect("a token");
        Device { world: self, project, product, id: created.check.id, token: token.to_owned() }
    }

    pub fn advance_seconds(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    /// Returns the bodies of all callbacks, after running deliveries have ended.
    pub async fn callbacks(&self) -> Vec<String> {
        self.engine.courier().wait_until_idle().await;
        self.receiver.0.lock().clone()
    }
}

/// Acts as the device of a check, and as the API client that created the check.
#[derive(Clone)]
pub struct Device<'w> {
    pub world: &'w World,
    pub project: &'w Project,
    pub product: Product,
    pub id: CheckId,
    pub token: String,
}

impl Device<'_> {
    pub fn request(&self) -> DeviceRequest<'_> {
        let Device { product, id: check, token, .. } = self;
        DeviceRequest { product: *product, check: *check, token, sim: None, address: address(ON_OURS) }
    }

    pub async fn open_url_from(&self, from: &str) -> Result<NextStep, RedirectError> {
        self.world.engine.silent.open_device_url(DeviceRequest { address: address(from), ..self.request() }).await
    }

    /// Opens the URL from an address on the network of `ours`. Returns the `state` of the redirect to the operator.
    pub async fn begin_redirect(&self) -> String {
        expect_state(self.open_url_from(ON_OURS).await)
    }

    /// Opens the URL, and expects the final outcome instead of a redirect.
    pub async fn open_url_and_finish(&self, from: &str) -> RedirectOutcome {
        match self.open_url_from(from).await.unwrap() {
            NextStep::Finish(end) => end,
            NextStep::Redirect(_) => panic!("redirected to the operator"),
        }
    }

    pub async fn return_from_operator(&self, state: &str) -> Result<RedirectOutcome, RedirectError> {
        let connector = if self.project.mode == Mode::Live { "ours" } else { "simulated" };
        self.return_to(connector, state).await
    }

    pub async fn return_to(&self, connector: &str, state: &str) -> Result<RedirectOutcome, RedirectError> {
        self.return_from(ON_OURS, connector, state).await
    }

    pub async fn return_from(
        &self,
        from: &str,
        connector: &str,
        state: &str,
    ) -> Result<RedirectOutcome, RedirectError> {
        let (address, peer) = (address(from), "127.0.0.1:4711".parse().unwrap());
        self.world
            .engine
            .silent
            .handle_authorization_response(
                DeviceReturn { connector, state, peer, address, query: &[], headers: &[] },
                &[],
            )
            .await
    }

    /// Completes the redirects, and returns the code that the API client can redeem.
    pub async fn obtain_code(&self) -> String {
        let state = self.begin_redirect().await;
        self.return_from_operator(&state).await.unwrap().result.expect("a code").0
    }

    pub async fn redeem(&self, code: &str) -> Result<SilentCheck, RedeemError> {
        self.world.engine.silent.redeem(self.project.id, self.product, self.id, code).await
    }

    pub async fn check(&self) -> SilentCheck {
        self.world.engine.silent.silent_check(self.project.id, self.product, self.id).await.unwrap()
    }

    pub async fn status(&self) -> CheckStatus {
        self.check().await.status()
    }
}

pub fn expect_state(step: Result<NextStep, RedirectError>) -> String {
    match step.unwrap() {
        NextStep::Redirect(location) => location.strip_prefix(OPERATOR).expect("to the operator").to_owned(),
        NextStep::Finish(end) => panic!("{end:?}"),
    }
}

pub fn expect_failure(end: RedirectOutcome) -> RedirectFailure {
    end.result.expect_err("no code")
}

pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ids<T: std::str::FromStr<Err: std::fmt::Debug>>(texts: &[&str]) -> Vec<T> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn directory() -> NetworkDirectory {
    NetworkDirectory::new(networks(), vec![], vec![]).unwrap()
}

fn networks() -> Vec<Network> {
    let networks = [
        ("23410", "44770", &["+447700900000"][..]),
        ("23420", "44780", &[]),
        ("23430", "44790", &[]),
        ("23440", "44760", &["+447600900000"]),
        ("23450", "44750", &[]),
    ];
    let networks = networks.map(|(id, prefix, receivers)| Network {
        id: id.parse().unwrap(),
        name: id.to_owned(),
        aliases: vec![],
        country: "GB".parse().unwrap(),
        prefixes: vec![prefix.to_owned()],
        receivers: receivers.iter().map(|number| Msisdn::parse(number, Mode::Live).unwrap()).collect(),
    });
    networks.to_vec()
}

fn addresses() -> Addresses {
    let mobile = [
        (ON_OURS, "23410"),
        (ALSO_ON_OURS, "23410"),
        (ON_BRAND, "23411"),
        (ON_OTHER, "23420"),
        (ON_UNCONNECTED, "23430"),
        (ON_FORBIDDEN, "23450"),
    ];
    let mobile = mobile.map(|(at, id)| (address(at), AddressNetwork::Mobile(id.parse().unwrap())));
    Addresses(mobile.into_iter().chain([(address(NOT_MOBILE), AddressNetwork::NotMobile)]).collect())
}

/// Creates a live and a sandbox project. The live one may use all networks except 23450, that of [`FORBIDDEN`].
async fn projects(engine: &Engine) -> [Project; 2] {
    let created = engine.management.create_workspace("Acme".parse().unwrap()).await.unwrap();
    let workspace = created.workspace.id;
    let manager = ManagementActor {
        workspace,
        actor: Actor::Credential(created.credential.credential.client_id),
        request_id: None,
    };
    let products = vec![Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];
    let mut made = Vec::new();
    for (name, mode) in [("Shop", Mode::Live), ("Trial", Mode::Sandbox)] {
        let configuration = ConfigurationPatch::default();
        let new = NewProject { name: name.parse().unwrap(), mode, configuration, products: products.clone() };
        made.push(engine.management.create_project(&manager, workspace, new, None).await.unwrap().project);
    }
    // Configures the network of a brand (MVNO) only while the project's permissions are set, and then removes it, so
    // that the project has permission for a network that is not configured.
    let brand = Network { id: "23411".parse().unwrap(), prefixes: vec![], receivers: vec![], ..networks()[0].clone() };
    let earlier = NetworkDirectory::new([networks(), vec![brand]].concat(), vec![], vec![]).unwrap();
    engine.networks().replace(earlier);
    let allowed = ids(&["23410", "23411", "23420", "23430", "23440"]).into_iter();
    let allowed = allowed.map(|network| AllowedNetwork { network, products: products.clone() }).collect();
    made[0] =
        engine.management.replace_allowed_networks(&manager, workspace, made[0].id, allowed, &|_| true).await.unwrap();
    engine.networks().replace(directory());
    made.try_into().unwrap()
}
