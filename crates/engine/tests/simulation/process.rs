//! A server process that can be killed: an engine with its own Tokio runtime, on a database that survives the crash.

use std::{ffi::OsString, fs, path::Path, sync::Arc};

use futures_util::poll;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::Actor,
    tenancy::{ConfigurationPatch, Mode, Project},
};
use ringtrue_engine::{
    Engine, EngineDependencies, EngineSettings,
    actor::ManagementActor,
    courier,
    keys::MasterKey,
    ports::{
        clock::ManualClock,
        combined::Store,
        entropy::{Entropy, SystemEntropy},
    },
    tenants::NewProject,
};
use ringtrue_sandbox::operator_access::SandboxAccess;
use ringtrue_store::{StoreOptions, StoreUrl};
use ringtrue_test_support::engine::engine_settings;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{operator::Operator, receivers::Receivers};

/// Start time of every scenario.
pub const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A database with schema, keys and a project. Every scenario starts with a copy of it.
pub struct Template {
    master: String,
    /// Names and contents of the database file and its WAL.
    files: Vec<(OsString, Vec<u8>)>,
    pub project: Project,
}

impl Template {
    pub fn new() -> Self {
        let entropy = Arc::new(SystemEntropy::default());
        let master = MasterKey::generate(&*entropy).to_string();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringtrue.db");
        runtime().block_on(ringtrue_store::migrate(&url(&path), START)).unwrap();
        let clock = Arc::new(ManualClock::at(START));
        let receivers = Arc::new(Receivers::new(Arc::clone(&clock)));
        let (operator, limits) = (Arc::default(), courier::CourierLimits::default());
        let environment = Environment { clock, entropy, receivers, operator, limits };
        let process = Process::start(&path, &master, &environment);
        let project = process.run(async |engine| {
            let created = engine.management.create_workspace("Acme".parse().unwrap()).await.unwrap();
            let workspace = created.workspace.id;
            let client_id = created.credential.credential.client_id;
            let manager = ManagementActor { workspace, actor: Actor::Credential(client_id), request_id: None };
            let name = "Shop".parse().unwrap();
            let configuration = ConfigurationPatch::default();
            let new = NewProject { name, mode: Mode::Sandbox, configuration, products: vec![] };
            engine.management.create_project(&manager, workspace, new, None).await.unwrap().project
        });
        // Copies the files with their WAL while the database is open but idle, so that the copy is consistent.
        let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap());
        let files = files.filter(|file| !file.file_name().to_string_lossy().ends_with("-shm"));
        let files = files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect();
        process.kill();
        Template { master, files, project }
    }
}

/// The environment of a simulated server process. It survives when the process is killed.
#[derive(Clone)]
pub struct Environment {
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<dyn Entropy>,
    pub receivers: Arc<Receivers>,
    pub operator: Arc<Operator>,
    pub limits: courier::CourierLimits,
}

/// A machine that keeps its database (a copy of the template) while its processes are killed and restarted.
pub struct Machine {
    folder: TempDir,
    master: String,
    pub environment: Environment,
}

impl Machine {
    pub fn new(template: &Template, environment: Environment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, contents) in &template.files {
            fs::write(folder.path().join(name), contents).unwrap();
        }
        Machine { folder, master: template.master.clone(), environment }
    }

    /// Starts another node that shares the database of a running process.
    pub fn start_node(&self, process: &Process) -> Engine {
        let Environment { clock, entropy, receivers, operator, limits } = self.environment.clone();
        let sandbox = Arc::new(SandboxAccess::default());
        sandbox.set_silent_connector(Arc::clone(&operator) as _);
        sandbox.set_sim_swap_connector(operator);
        let dependencies = EngineDependencies {
            store: Arc::clone(&process.store),
            clock,
            entropy,
            transport: receivers,
            master_key: MasterKey::from_base64(&self.master).unwrap(),
            sandbox,
        };
        process.runtime.block_on(Engine::start(dependencies, settings(limits))).unwrap()
    }

    pub fn start_process(&self) -> Process {
        Process::start(&self.folder.path().join("ringtrue.db"), &self.master, &self.environment)
    }
}

pub struct Process {
    runtime: Runtime,
    engine: Engine,
    store: Arc<dyn Store>,
    receivers: Arc<Receivers>,
}

impl Process {
    fn start(path: &Path, master: &str, environment: &Environment) -> Self {
        let runtime = runtime();
        let Environment { clock, entropy, receivers, operator, limits } = environment.clone();
        let (store, engine) = runtime.block_on(async {
            let store = ringtrue_store::open(&url(path), &StoreOptions::default()).await.unwrap();
            let master = MasterKey::from_base64(master).unwrap();
            let transport = Arc::clone(&receivers) as _;
            let sandbox = Arc::new(SandboxAccess::default());
            sandbox.set_silent_connector(Arc::clone(&operator) as _);
            sandbox.set_sim_swap_connector(operator);
            let store_port = Arc::clone(&store);
            let parts =
                EngineDependencies { store: store_port, clock, entropy, transport, master_key: master, sandbox };
            (store, Engine::start(parts, settings(limits)).await.unwrap())
        });
        Process { runtime, engine, store, receivers }
    }

    /// Runs `work` to completion. Background tasks that it spawns may not have run.
    pub fn run<T>(&self, work: impl AsyncFnOnce(&Engine) -> T) -> T {
        self.runtime.block_on(work(&self.engine))
    }

    /// Polls `work` at most `polls` times, to stop it somewhere in the middle.
    pub fn poll_partially<T>(&self, polls: usize, work: impl AsyncFnOnce(&Engine) -> T) {
        self.runtime.block_on(async {
            let mut work = std::pin::pin!(work(&self.engine));
            for _ in 0..polls {
                if poll!(&mut work).is_ready() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
    }

    /// Runs until every callback attempt in flight waits for the response of its receiver.
    pub fn run_until_idle(&self) {
        self.runtime.block_on(async {
            while self.engine.courier().metrics().in_flight != self.receivers.pending_count() {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Kills the process. Unfinished work is lost.
    pub fn kill(self) {
        let Process { runtime, engine, store, receivers } = self;
        drop(engine);
        drop(runtime);
        receivers.process_restarted();
        // The store executes writes in order. When this empty write returns, all earlier writes are committed or rolled
        // back.
        self::runtime().block_on(store.release_leases(vec![], START)).unwrap();
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn url(path: &Path) -> StoreUrl {
    format!("sqlite:{}", path.display()).parse().unwrap()
}

fn settings(courier: courier::CourierLimits) -> EngineSettings {
    EngineSettings { courier, number_lookup_cache_capacity: 1_000, ..engine_settings() }
}
