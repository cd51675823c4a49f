//! A process that can die: an engine with a runtime of its own, on a database that outlives both.

use std::{ffi::OsString, fs, path::Path, sync::Arc};

use futures_util::poll;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::Actor,
    region::Region,
    reverse_sms::NumberGuard,
    tenancy::{Mode, Project},
    web_url::{AddressPolicy, UrlPolicy},
};
use ringtrue_engine::{
    Engine, Parts, Settings, callback,
    keys::MasterKey,
    management::{ConfigurationPatch, Manager, NewProject, TenantLimits},
    ports::{Entropy, ManualClock, Store, SystemEntropy},
    rate_limit,
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{operator::Operator, receivers::Receivers};

/// When every play begins.
pub const BEGINNING: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// What every play begins with: a schema, keys and a project. Made once.
pub struct Template {
    master: String,
    /// The database and its journal.
    files: Vec<(OsString, Vec<u8>)>,
    pub project: Project,
}

impl Template {
    pub fn new() -> Self {
        let entropy = Arc::new(SystemEntropy::default());
        let master = MasterKey::generate(&*entropy).to_string();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringtrue.db");
        runtime().block_on(ringtrue_store::migrate(&url(&path), BEGINNING)).unwrap();
        let clock = Arc::new(ManualClock::at(BEGINNING));
        let receivers = Arc::new(Receivers::new(Arc::clone(&clock)));
        let (operator, limits) = (Arc::default(), callback::Limits::default());
        let surroundings = Surroundings { clock, entropy, receivers, operator, limits };
        let process = Process::start(&path, &master, &surroundings);
        let project = process.run(async |engine| {
            let created = engine.create_workspace("Acme".parse().unwrap()).await.unwrap();
            let workspace = created.workspace.id;
            let client_id = created.credential.credential.client_id;
            let manager = Manager { workspace, actor: Actor::Credential(client_id), request_id: None };
            let name = "Shop".parse().unwrap();
            let configuration = ConfigurationPatch::default();
            let new = NewProject { name, mode: Mode::Sandbox, configuration, products: vec![] };
            engine.create_project(&manager, workspace, new, None).await.unwrap().project
        });
        // Nobody writes, and nobody closes what is open.
        let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap());
        let files = files.filter(|file| !file.file_name().to_string_lossy().ends_with("-shm"));
        let files = files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect();
        process.die();
        Template { master, files, project }
    }
}

/// What a process finds when it starts.
#[derive(Clone)]
pub struct Surroundings {
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<dyn Entropy>,
    pub receivers: Arc<Receivers>,
    pub operator: Arc<Operator>,
    pub limits: callback::Limits,
}

/// A machine with the template's database on it.
pub struct Machine {
    folder: TempDir,
    master: String,
    pub surroundings: Surroundings,
}

impl Machine {
    pub fn new(template: &Template, surroundings: Surroundings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, contents) in &template.files {
            fs::write(folder.path().join(name), contents).unwrap();
        }
        Machine { folder, master: template.master.clone(), surroundings }
    }

    pub fn boot(&self) -> Process {
        Process::start(&self.folder.path().join("ringtrue.db"), &self.master, &self.surroundings)
    }
}

pub struct Process {
    runtime: Runtime,
    engine: Engine,
    store: Arc<dyn Store>,
    receivers: Arc<Receivers>,
}

impl Process {
    fn start(path: &Path, master: &str, surroundings: &Surroundings) -> Self {
        let runtime = runtime();
        let Surroundings { clock, entropy, receivers, operator, limits } = surroundings.clone();
        let (store, engine) = runtime.block_on(async {
            let store = ringtrue_store::open(&url(path), &StoreOptions::default()).await.unwrap();
            let master = MasterKey::from_base64(master).unwrap();
            let transport = Arc::clone(&receivers) as _;
            let parts = Parts { store: Arc::clone(&store), clock, entropy, transport, master };
            (store, Engine::start(parts, settings(limits)).await.unwrap())
        });
        engine.networks().set_simulated_route(operator);
        Process { runtime, engine, store, receivers }
    }

    /// Does something, and nothing else: what it has set off has hardly begun when this is over.
    pub fn run<T>(&self, work: impl AsyncFnOnce(&Engine) -> T) -> T {
        self.runtime.block_on(work(&self.engine))
    }

    /// Begins something, and looks at it so many times only.
    pub fn begin<T>(&self, looks: usize, work: impl AsyncFnOnce(&Engine) -> T) {
        self.runtime.block_on(async {
            let mut work = std::pin::pin!(work(&self.engine));
            for _ in 0..looks {
                if poll!(&mut work).is_ready() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
    }

    /// Lets everything go on until nothing moves but for an answer from outside.
    pub fn settle_down(&self) {
        self.runtime.block_on(async {
            while self.engine.courier().figures().in_flight != self.receivers.hung() {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Whatever it was doing is left undone.
    pub fn die(self) {
        let Process { runtime, engine, store, receivers } = self;
        drop(engine);
        drop(runtime);
        receivers.next_life();
        // Writes go one after the other: when this one is over, what had begun before is done or undone.
        self::runtime().block_on(store.release(vec![], BEGINNING)).unwrap();
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn url(path: &Path) -> StoreUrl {
    format!("sqlite:{}", path.display()).parse().unwrap()
}

fn settings(courier: callback::Limits) -> Settings {
    Settings {
        region: Region::Eu,
        base_url: "https://ringtrue.example".to_owned(),
        limits: rate_limit::Limits::default(),
        urls: UrlPolicy { allow_http: false, addresses: AddressPolicy::default() },
        tenant_limits: TenantLimits::default(),
        number_guard: NumberGuard { creates: 1_000, within_seconds: 600 },
        courier,
        retention: SignedDuration::from_hours(24 * 30),
        discovery_retention: SignedDuration::from_hours(24),
        audit_retention: SignedDuration::from_hours(24 * 365),
        cached_lookups: 1_000,
        keep_requests: None,
        max_members: 500,
    }
}
