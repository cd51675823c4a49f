//! A deployment with two operators and the simulated one, a live and a sandbox project, and receivers of callbacks.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::Actor,
    lifecycle::{CheckId, Status},
    network::{AllowedNetwork, Network, NetworkDirectory},
    phone::Msisdn,
    product::Product,
    region::Region,
    reverse_sms::NumberGuard,
    silent::SilentCheck,
    tenancy::{Mode, Project},
    web_url::{AddressPolicy, UrlPolicy},
};
use ringtrue_engine::{
    Engine, Parts, Settings, callback,
    keys::MasterKey,
    management::{ConfigurationPatch, Manager, NewProject, TenantLimits},
    networks::Route,
    ports::{Answer, Located, ManualClock, Outgoing, SystemEntropy, Transport, Undelivered},
    rate_limit,
    silent::{ChainEnd, ChainFault, CreateSilent, RedeemError, Return, Step, Visit, VisitError},
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tempfile::TempDir;

use crate::operators::{Addresses, OPERATOR, Operator};

pub const PRODUCTS: [Product; 2] = [Product::SecureSna, Product::Discovery];
pub const BEGINNING: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A number of the first network, whose users can text us too.
pub const OURS: &str = "+447700900122";
/// A number of the second network.
pub const OTHER: &str = "+447800900122";
/// Of a network that nobody asks.
pub const UNASKED: &str = "+447900900122";
/// Of a network that nobody asks silently, and whose users can text us.
pub const TEXTING: &str = "+447600900122";
/// Of a network that the project may not use.
pub const FORBIDDEN: &str = "+447500900122";

/// Addresses of devices.
pub const ON_OURS: &str = "203.0.113.10";
pub const ALSO_ON_OURS: &str = "203.0.113.12";
pub const ON_BRAND: &str = "203.0.113.11";
pub const ON_OTHER: &str = "203.0.113.20";
pub const ON_UNASKED: &str = "203.0.113.30";
pub const ON_FORBIDDEN: &str = "203.0.113.40";
pub const AT_HOME: &str = "198.51.100.1";
pub const NOWHERE: &str = "192.0.2.1";

/// Takes every callback, and keeps what it says.
#[derive(Default)]
pub struct Receiver(Mutex<Vec<String>>);

#[async_trait]
impl Transport for Receiver {
    async fn post(&self, request: Outgoing) -> Result<Answer, Undelivered> {
        self.0.lock().unwrap().push(String::from_utf8(request.body).unwrap());
        Ok(Answer { status: 200, headers: vec![], body: vec![] })
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
    receiver: Arc<Receiver>,
    _folder: TempDir,
}

impl World {
    pub async fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let url: StoreUrl = format!("sqlite:{}", folder.path().join("ringtrue.db").display()).parse().unwrap();
        ringtrue_store::migrate(&url, BEGINNING).await.unwrap();
        let entropy = Arc::new(SystemEntropy::default());
        let clock = Arc::new(ManualClock::at(BEGINNING));
        let receiver = Arc::new(Receiver::default());
        let parts = Parts {
            store: ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap(),
            clock: Arc::clone(&clock) as _,
            transport: Arc::clone(&receiver) as _,
            master: MasterKey::from_base64(&MasterKey::generate(&*entropy)).unwrap(),
            entropy,
        };
        let engine = Engine::start(parts, settings()).await.unwrap();
        let [ours, other, simulated] = ["ours", "other", "simulated"].map(|name| Arc::new(Operator::new(name)));
        let networks = engine.networks();
        networks.replace(directory());
        networks.set_addresses(Box::new(addresses()));
        networks.set_routes(vec![
            Route { networks: ids(&["23410", "23411", "23450"]), connector: Arc::clone(&ours) as _ },
            Route { networks: ids(&["23420"]), connector: Arc::clone(&other) as _ },
        ]);
        networks.set_simulated_route(Arc::clone(&simulated) as _);
        let [live, sandbox] = projects(&engine).await;
        World { engine, clock, ours, other, simulated, live, sandbox, receiver, _folder: folder }
    }

    pub fn project(&self, mode: Mode) -> &Project {
        if mode == Mode::Live { &self.live } else { &self.sandbox }
    }

    /// The operator that a device on the first network is sent to.
    pub fn operator(&self, mode: Mode) -> &Operator {
        if mode == Mode::Live { &self.ours } else { &self.simulated }
    }

    /// A check of the live project.
    pub async fn create(&self, product: Product) -> Device<'_> {
        self.create_in(Mode::Live, product, CreateSilent::default()).await
    }

    /// A check about a number of the first network, if it is about any and the request names no other.
    pub async fn create_in(&self, mode: Mode, product: Product, mut request: CreateSilent) -> Device<'_> {
        if product == Product::SecureSna {
            request.phone_number.get_or_insert_with(|| OURS.to_owned());
        }
        let project = self.project(mode);
        let created = self.engine.create_silent(project, product, request, None).await.unwrap();
        let (_, token) = created.url.split_once("/redirect?t=").expect("a token");
        let token = token.to_owned();
        Device { world: self, project, product, id: created.check.id, token, url: created.url }
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    /// What receivers have got by now.
    pub async fn callbacks(&self) -> Vec<String> {
        self.engine.courier().idle().await;
        self.receiver.0.lock().unwrap().clone()
    }
}

/// The device of a check, and its caller.
#[derive(Clone)]
pub struct Device<'w> {
    pub world: &'w World,
    pub project: &'w Project,
    pub product: Product,
    pub id: CheckId,
    pub token: String,
    pub url: String,
}

impl Device<'_> {
    pub fn visit(&self) -> Visit<'_> {
        let Device { product, id: check, token, .. } = self;
        Visit { product: *product, check: *check, token, sim: None, address: address(ON_OURS) }
    }

    pub async fn opens_url_from(&self, from: &str) -> Result<Step, VisitError> {
        self.world.engine.visit(Visit { address: address(from), ..self.visit() }).await
    }

    /// It is sent to the operator, and has a ticket.
    pub async fn sets_out(&self) -> String {
        ticket(self.opens_url_from(ON_OURS).await)
    }

    /// It opens its URL, and that is the end.
    pub async fn is_stopped_at(&self, from: &str) -> ChainEnd {
        match self.opens_url_from(from).await.unwrap() {
            Step::End(end) => end,
            Step::Go(_) => panic!("it is sent to the operator"),
        }
    }

    pub async fn comes_back(&self, ticket: &str) -> Result<ChainEnd, VisitError> {
        let connector = if self.project.mode == Mode::Live { "ours" } else { "simulated" };
        self.comes_back_to(connector, ticket).await
    }

    pub async fn comes_back_to(&self, connector: &str, ticket: &str) -> Result<ChainEnd, VisitError> {
        self.comes_back_from(ON_OURS, connector, ticket).await
    }

    pub async fn comes_back_from(&self, from: &str, connector: &str, ticket: &str) -> Result<ChainEnd, VisitError> {
        let (address, peer) = (address(from), "127.0.0.1:4711".parse().unwrap());
        self.world.engine.come_back(Return { connector, ticket, peer, address, query: &[], headers: &[] }).await
    }

    /// The whole way.
    pub async fn brings_a_code(&self) -> String {
        let ticket = self.sets_out().await;
        self.comes_back(&ticket).await.unwrap().result.expect("a code").0
    }

    pub async fn redeem(&self, code: &str) -> Result<SilentCheck, RedeemError> {
        self.world.engine.redeem(self.project.id, self.product, self.id, code).await
    }

    pub async fn check(&self) -> SilentCheck {
        self.world.engine.silent_check(self.project.id, self.product, self.id).await.unwrap()
    }

    pub async fn status(&self) -> Status {
        self.check().await.status()
    }
}

pub fn ticket(step: Result<Step, VisitError>) -> String {
    match step.unwrap() {
        Step::Go(location) => location.strip_prefix(OPERATOR).expect("to the operator").to_owned(),
        Step::End(end) => panic!("{end:?}"),
    }
}

pub fn fault(end: ChainEnd) -> ChainFault {
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
        (ON_UNASKED, "23430"),
        (ON_FORBIDDEN, "23450"),
    ];
    let mobile = mobile.map(|(at, id)| (address(at), Located::Mobile(id.parse().unwrap())));
    Addresses(mobile.into_iter().chain([(address(AT_HOME), Located::NotMobile)]).collect())
}

/// A live and a sandbox project. The live one may use all networks but 23450.
async fn projects(engine: &Engine) -> [Project; 2] {
    let created = engine.create_workspace("Acme".parse().unwrap()).await.unwrap();
    let workspace = created.workspace.id;
    let manager =
        Manager { workspace, actor: Actor::Credential(created.credential.credential.client_id), request_id: None };
    let products = vec![Product::ReverseSms, Product::SecureSna, Product::Discovery];
    let mut made = Vec::new();
    for (name, mode) in [("Shop", Mode::Live), ("Trial", Mode::Sandbox)] {
        let configuration = ConfigurationPatch::default();
        let new = NewProject { name: name.parse().unwrap(), mode, configuration, products: products.clone() };
        made.push(engine.create_project(&manager, workspace, new, None).await.unwrap().project);
    }
    // The brand's network has left the configuration, and the project may still use it.
    let brand = Network { id: "23411".parse().unwrap(), prefixes: vec![], receivers: vec![], ..networks()[0].clone() };
    let earlier = NetworkDirectory::new([networks(), vec![brand]].concat(), vec![], vec![]).unwrap();
    engine.networks().replace(earlier);
    let allowed = ids(&["23410", "23411", "23420", "23430", "23440"]).into_iter();
    let allowed = allowed.map(|network| AllowedNetwork { network, products: products.clone() }).collect();
    made[0] = engine.replace_allowed_networks(&manager, workspace, made[0].id, allowed, &|_| true).await.unwrap();
    engine.networks().replace(directory());
    made.try_into().unwrap()
}

fn settings() -> Settings {
    Settings {
        region: Region::Eu,
        base_url: "https://ringtrue.example".to_owned(),
        limits: rate_limit::Limits::default(),
        urls: UrlPolicy { allow_http: false, addresses: AddressPolicy::default() },
        tenant_limits: TenantLimits::default(),
        number_guard: NumberGuard { creates: 1_000, within_seconds: 600 },
        courier: callback::Limits::default(),
        retention: SignedDuration::from_hours(24 * 30),
        discovery_retention: SignedDuration::from_hours(24),
        audit_retention: SignedDuration::from_hours(24 * 365),
        cached_lookups: 100,
        keep_requests: None,
        max_members: 500,
    }
}
