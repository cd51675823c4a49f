//! A deployment with four operators and the simulated one, a source of who serves a number, and two projects.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::Actor,
    network::{AllowedNetwork, Network, NetworkDirectory, NetworkId},
    phone::Msisdn,
    product::Product,
    region::Region,
    reverse_sms::NumberGuard,
    tenancy::{Mode, Project},
    web_url::{AddressPolicy, UrlPolicy},
};
use ringtrue_engine::{
    Engine, Parts, Settings, callback,
    keys::MasterKey,
    management::{ConfigurationPatch, Manager, NewProject, TenantLimits},
    networks::{Route, SwapRoute},
    number_lookup::{Prefixes, Sources},
    ports::{Answer, Located, ManualClock, Outgoing, Resolved, SystemEntropy, Transport, Undelivered},
    rate_limit,
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tempfile::TempDir;

use crate::sources::{Addresses, Idle, Register, Says, Source};

pub const BEGINNING: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Of a network whose operator is asked for everything, and whose users can text us.
pub const EVERYTHING: &str = "+447700900122";
/// Of one that tells of SIM cards only.
pub const SIMS_ONLY: &str = "+447800900122";
/// Of one that nobody is connected to.
pub const UNCONNECTED: &str = "+447900900122";
/// Of one that the project may not use, and that is asked for everything silent.
pub const FORBIDDEN: &str = "+447500900122";
/// Given out by the first network, and taken to the second.
pub const PORTED: &str = "+447700900124";
/// Of a brand that lives on the first network.
pub const OF_BRAND: &str = "+447700900126";

pub const ALL: [Product; 4] = [Product::SecureSna, Product::SimSwap, Product::ReverseSms, Product::Discovery];

/// SIM Swap and Eligibility tell nobody.
struct Nobody;

#[async_trait]
impl Transport for Nobody {
    async fn post(&self, request: Outgoing) -> Result<Answer, Undelivered> {
        panic!("a callback: {request:?}");
    }
}

pub struct World {
    pub engine: Engine,
    pub clock: Arc<ManualClock>,
    pub register: Arc<Register>,
    pub simulated: Arc<Register>,
    pub source: Arc<Source>,
    pub manager: Manager,
    pub live: Project,
    pub sandbox: Project,
    _folder: TempDir,
}

impl World {
    pub async fn new() -> World {
        let world = World::without_simulated_operator().await;
        world.engine.networks().set_simulated_sim_swap(Arc::clone(&world.simulated) as _);
        world
    }

    pub async fn without_simulated_operator() -> World {
        let folder = tempfile::tempdir().unwrap();
        let url: StoreUrl = format!("sqlite:{}", folder.path().join("ringtrue.db").display()).parse().unwrap();
        ringtrue_store::migrate(&url, BEGINNING).await.unwrap();
        let entropy = Arc::new(SystemEntropy::default());
        let clock = Arc::new(ManualClock::at(BEGINNING));
        let parts = Parts {
            store: ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap(),
            clock: Arc::clone(&clock) as _,
            transport: Arc::new(Nobody),
            master: MasterKey::from_base64(&MasterKey::generate(&*entropy)).unwrap(),
            entropy,
        };
        let engine = Engine::start(parts, settings()).await.unwrap();
        let (register, simulated) = (Register::new(Says::ByDigits), Register::new(Says::ByDigits));
        let source = Arc::new(Source::default());
        furnish(&engine, &register, &source);

        let created = engine.create_workspace("Acme".parse().unwrap()).await.unwrap();
        let client_id = created.credential.credential.client_id;
        let manager =
            Manager { workspace: created.workspace.id, actor: Actor::Credential(client_id), request_id: None };
        let live = project(&engine, &manager, "Shop", Mode::Live, &Product::ALL).await;
        let sandbox = project(&engine, &manager, "Trial", Mode::Sandbox, &Product::ALL).await;
        let live = allow(&engine, &manager, &live, &["23410", "23420", "23430"], &ALL).await;
        World { engine, clock, register, simulated, source, manager, live, sandbox, _folder: folder }
    }

    pub async fn project(&self, name: &str, mode: Mode, products: &[Product]) -> Project {
        project(&self.engine, &self.manager, name, mode, products).await
    }

    pub async fn allow(&self, project: &Project, networks: &[&str], products: &[Product]) -> Project {
        allow(&self.engine, &self.manager, project, networks, products).await
    }
}

fn furnish(engine: &Engine, register: &Arc<Register>, source: &Arc<Source>) {
    let networks = engine.networks();
    networks.replace(directory());
    let mobile = |id: &str| Located::Mobile(id.parse().unwrap());
    let addresses = [
        ("82.132.0.1", mobile("23410")),
        ("2a01:4c8::1", mobile("23411")),
        ("85.255.0.1", mobile("23420")),
        ("80.187.0.1", mobile("26201")),
        ("81.2.69.1", Located::NotMobile),
    ];
    let addresses = addresses.map(|(address, located)| (address.parse().unwrap(), located));
    networks.set_addresses(Box::new(Addresses(HashMap::from(addresses))));
    let silent = Arc::new(Idle(&[Product::SecureSna, Product::Discovery]));
    networks.set_routes(vec![Route { networks: ids(&["23410", "23450"]), connector: silent }]);
    let connector = Arc::clone(register) as _;
    networks.set_sim_swap_routes(vec![SwapRoute { networks: ids(&["23410", "23420", "23450"]), connector }]);
    source.knows(PORTED, Ok(Resolved::Network("23420".parse().unwrap())));
    source.knows(OF_BRAND, Ok(Resolved::Network("23411".parse().unwrap())));
    let sources = vec![Arc::clone(source) as _];
    engine.number_lookup().replace(Sources { prefixes: Prefixes::Fallback, sources, ..Sources::default() });
}

fn directory() -> NetworkDirectory {
    let networks = [
        ("23410", "44770", &["23411", "A brand"][..], &["+447700900000"][..]),
        ("23420", "44780", &[], &[]),
        ("23430", "44790", &[], &[]),
        ("23450", "44750", &[], &[]),
    ];
    let networks = networks.map(|(id, prefix, aliases, receivers)| Network {
        id: id.parse().unwrap(),
        name: format!("Network {id}"),
        aliases: aliases.iter().map(ToString::to_string).collect(),
        country: "GB".parse().unwrap(),
        prefixes: vec![prefix.to_owned()],
        receivers: receivers.iter().map(|number| Msisdn::parse(number, Mode::Live).unwrap()).collect(),
    });
    NetworkDirectory::new(networks.to_vec(), vec![], vec![]).unwrap()
}

async fn project(engine: &Engine, manager: &Manager, name: &str, mode: Mode, products: &[Product]) -> Project {
    let configuration = ConfigurationPatch::default();
    let new = NewProject { name: name.parse().unwrap(), mode, configuration, products: products.to_vec() };
    engine.create_project(manager, manager.workspace, new, None).await.unwrap().project
}

async fn allow(
    engine: &Engine,
    manager: &Manager,
    project: &Project,
    networks: &[&str],
    products: &[Product],
) -> Project {
    let allowed = ids(networks)
        .into_iter()
        .map(|network| AllowedNetwork { network: network.into(), products: products.to_vec() });
    engine.replace_allowed_networks(manager, manager.workspace, project.id, allowed.collect(), &|_| true).await.unwrap()
}

pub fn ids(texts: &[&str]) -> Vec<NetworkId> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn settings() -> Settings {
    Settings {
        region: Region::Eu,
        base_url: "https://ringtrue.example".to_owned(),
        limits: rate_limit::Limits::default(),
        urls: UrlPolicy { allow_http: false, addresses: AddressPolicy::default() },
        tenant_limits: TenantLimits::default(),
        number_guard: NumberGuard { creates: 5, within_seconds: 600 },
        courier: callback::Limits::default(),
        retention: SignedDuration::from_hours(24 * 30),
        discovery_retention: SignedDuration::from_hours(24),
        audit_retention: SignedDuration::from_hours(24 * 365),
        cached_lookups: 100,
        keep_requests: None,
        max_members: 500,
    }
}
