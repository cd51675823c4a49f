//! Test deployment with four live networks and the simulated one, a number lookup source, and two projects.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::Actor,
    network::{AllowedNetwork, Network, NetworkDirectory, NetworkId},
    phone::Msisdn,
    product::Product,
    reverse_sms::NumberLimit,
    tenancy::{ConfigurationPatch, Mode, Project},
};
use ringtrue_engine::{
    Engine, EngineDependencies, EngineSettings,
    actor::ManagementActor,
    keys::MasterKey,
    lookups::{
        networks::{SilentNetworkRoute, SimSwapNetworkRoute},
        number_lookup::{LookupSources, PrefixPolicy},
    },
    ports::{
        clock::ManualClock,
        entropy::SystemEntropy,
        lookups::{AddressNetwork, LookupResult},
        transport::{OutboundRequest, OutboundResponse, Transport, TransportError},
    },
    tenants::NewProject,
};
use ringtrue_sandbox::operator_access::SandboxAccess;
use ringtrue_store::{StoreOptions, StoreUrl};
use ringtrue_test_support::engine::engine_settings;
use strum::VariantArray as _;
use tempfile::TempDir;

use crate::sources::{Addresses, Behavior, ScriptedOperator, ScriptedSource, UnusedConnector};

pub const START_TIME: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Phone number on the first network, which supports all products.
pub const EVERYTHING: &str = "+447700900122";
/// Phone number on the second network, which supports only SIM Swap.
pub const SIMS_ONLY: &str = "+447800900122";
/// Phone number on a network without a connector.
pub const UNCONNECTED: &str = "+447900900122";
/// Phone number on a network that the project may not use. The network supports all products except Reverse SMS.
pub const FORBIDDEN: &str = "+447500900122";
/// Phone number that was ported from the first network to the second.
pub const PORTED: &str = "+447700900124";
/// Phone number of a brand (MVNO) that uses the first network as its host.
pub const OF_BRAND: &str = "+447700900126";

pub const ALL: [Product; 4] = [Product::SecureSna, Product::SimSwap, Product::ReverseSms, Product::Discovery];

/// Transport that is never used, because SIM Swap and Eligibility have no callbacks.
struct NoCallbacks;

#[async_trait]
impl Transport for NoCallbacks {
    async fn get(&self, _: &ringtrue_domain::web_url::CallbackUrl) -> Result<OutboundResponse, TransportError> {
        Err(TransportError::Connection)
    }

    async fn post(&self, request: OutboundRequest) -> Result<OutboundResponse, TransportError> {
        panic!("unexpected callback: {request:?}");
    }
}

pub struct World {
    pub engine: Engine,
    pub clock: Arc<ManualClock>,
    pub operator: Arc<ScriptedOperator>,
    pub simulated: Arc<ScriptedOperator>,
    pub source: Arc<ScriptedSource>,
    pub manager: ManagementActor,
    pub live: Project,
    pub sandbox: Project,
    sandbox_access: Arc<SandboxAccess>,
    _folder: TempDir,
}

impl World {
    pub async fn new() -> World {
        let world = World::without_simulated_operator().await;
        world.sandbox_access.set_sim_swap_connector(Arc::clone(&world.simulated) as _);
        world
    }

    pub async fn without_simulated_operator() -> World {
        let folder = tempfile::tempdir().unwrap();
        let url: StoreUrl = format!("sqlite:{}", folder.path().join("ringtrue.db").display()).parse().unwrap();
        ringtrue_store::migrate(&url, START_TIME).await.unwrap();
        let entropy = Arc::new(SystemEntropy::default());
        let clock = Arc::new(ManualClock::at(START_TIME));
        let sandbox_access = Arc::new(SandboxAccess::default());
        let parts = EngineDependencies {
            store: ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap(),
            clock: Arc::clone(&clock) as _,
            transport: Arc::new(NoCallbacks),
            master_key: MasterKey::from_base64(&MasterKey::generate(&*entropy)).unwrap(),
            entropy,
            sandbox: Arc::clone(&sandbox_access) as _,
        };
        let engine = Engine::start(parts, settings()).await.unwrap();
        let (operator, simulated) =
            (ScriptedOperator::new(Behavior::BySuffix), ScriptedOperator::new(Behavior::BySuffix));
        let source = Arc::new(ScriptedSource::default());
        configure_networks(&engine, &operator, &source);

        let created = engine.management.create_workspace("Acme".parse().unwrap()).await.unwrap();
        let client_id = created.credential.credential.client_id;
        let manager =
            ManagementActor { workspace: created.workspace.id, actor: Actor::Credential(client_id), request_id: None };
        let live = project(&engine, &manager, "Shop", Mode::Live, Product::VARIANTS).await;
        let sandbox = project(&engine, &manager, "Trial", Mode::Sandbox, Product::VARIANTS).await;
        let live = allow(&engine, &manager, &live, &["23410", "23420", "23430"], &ALL).await;
        World { engine, clock, operator, simulated, source, manager, live, sandbox, sandbox_access, _folder: folder }
    }

    pub async fn project(&self, name: &str, mode: Mode, products: &[Product]) -> Project {
        project(&self.engine, &self.manager, name, mode, products).await
    }

    pub async fn allow(&self, project: &Project, networks: &[&str], products: &[Product]) -> Project {
        allow(&self.engine, &self.manager, project, networks, products).await
    }
}

fn configure_networks(engine: &Engine, operator: &Arc<ScriptedOperator>, source: &Arc<ScriptedSource>) {
    let networks = engine.networks();
    networks.replace(directory());
    let mobile = |id: &str| AddressNetwork::Mobile(id.parse().unwrap());
    let addresses = [
        ("82.132.0.1", mobile("23410")),
        ("2a01:4c8::1", mobile("23411")),
        ("85.255.0.1", mobile("23420")),
        ("80.187.0.1", mobile("26201")),
        ("81.2.69.1", AddressNetwork::NotMobile),
    ];
    let addresses = addresses.map(|(address, located)| (address.parse().unwrap(), located));
    networks.set_address_networks(Box::new(Addresses(HashMap::from(addresses))));
    let silent = Arc::new(UnusedConnector(&[Product::SecureSna, Product::Discovery]));
    networks.set_silent_routes(vec![SilentNetworkRoute { networks: ids(&["23410", "23450"]), connector: silent }]);
    let connector = Arc::clone(operator) as _;
    networks.set_sim_swap_routes(vec![SimSwapNetworkRoute { networks: ids(&["23410", "23420", "23450"]), connector }]);
    source.set_result(PORTED, Ok(LookupResult::Network("23420".parse().unwrap())));
    source.set_result(OF_BRAND, Ok(LookupResult::Network("23411".parse().unwrap())));
    let sources = vec![Arc::clone(source) as _];
    engine.number_lookup().replace(LookupSources {
        prefixes: PrefixPolicy::Fallback,
        sources,
        ..LookupSources::default()
    });
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

async fn project(engine: &Engine, manager: &ManagementActor, name: &str, mode: Mode, products: &[Product]) -> Project {
    let configuration = ConfigurationPatch::default();
    let new = NewProject { name: name.parse().unwrap(), mode, configuration, products: products.to_vec() };
    engine.management.create_project(manager, manager.workspace, new, None).await.unwrap().project
}

async fn allow(
    engine: &Engine,
    manager: &ManagementActor,
    project: &Project,
    networks: &[&str],
    products: &[Product],
) -> Project {
    let allowed = ids(networks)
        .into_iter()
        .map(|network| AllowedNetwork { network: network.into(), products: products.to_vec() });
    engine
        .management
        .replace_allowed_networks(manager, manager.workspace, project.id, allowed.collect(), &|_| true)
        .await
        .unwrap()
}

pub fn ids(texts: &[&str]) -> Vec<NetworkId> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn settings() -> EngineSettings {
    EngineSettings { number_limit: NumberLimit { max_checks: 5, window_seconds: 600 }, ..engine_settings() }
}
