//! The use cases of Ringtrue, and the ports (traits) through which they reach databases, operators and receivers.
//!
//! This crate has no HTTP server and no SQL: requests arrive as values, and a [`Store`] persists state.
//!
//! The use cases are methods of services, such as [`Checks`] and [`Accounts`]. An [`Engine`] contains all services of a
//! node.

pub mod accounts;
pub mod activity;
pub mod actor;
pub mod callbacks;
pub mod camara;
pub mod checks;
mod context;
pub mod control_plane;
pub mod courier;
pub mod idempotency;
pub mod issues;
pub mod jwt;
pub mod keys;
pub mod live;
pub mod lookups;
pub mod node;
pub mod ports;
pub mod rate_limits;
pub mod request_log;
pub mod sign_in;
pub mod signing_pool;
pub mod silent;
pub mod simulated_sims;
pub mod tenants;
pub mod tokens;
pub mod verifications;

use std::sync::Arc;

use jiff::SignedDuration;
use parking_lot::Mutex;
use ringtrue_domain::{
    region::{Region, ResidencyViolation},
    reverse_sms::NumberLimit,
    web_url::UrlPolicy,
};

use crate::{
    accounts::{Accounts, PasswordCosts},
    activity::{Activity, ActivityRecorder},
    callbacks::{BulkResendBudget, Callbacks, RunningTests},
    camara::Camara,
    checks::{Checks, PendingCodeCache, reassembly::SmsReassembly},
    context::Context,
    control_plane::{ControlPlane, RefreshError},
    courier::{Courier, CourierDependencies, CourierLimits, Outbox},
    idempotency::Idempotency,
    issues::Issues,
    keys::MasterKey,
    live::{LiveFeeds, OpenFeeds},
    lookups::{
        networks::Networks,
        number_lookup::NumberLookup,
        operator_access::{LiveAccess, OperatorAccess, Operators},
    },
    node::{ClockSkewReporter, Node, RollbackDetector},
    ports::{clock::Clock, combined::Store, entropy::Entropy, node::NodeId, store::StoreError, transport::Transport},
    rate_limits::{DefaultRateLimits, RateLimiter},
    request_log::RequestLog,
    sign_in::{ClientKeySets, SignIns},
    signing_pool::SigningPool,
    silent::SilentFlow,
    simulated_sims::SimulatedSims,
    tenants::{Management, TenantLimits},
    tokens::Tokens,
    verifications::{Steps, Verifications},
};

/// Settings of a deployment.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    pub region: Region,
    /// Public URL of the API and issuer of its tokens, without a trailing slash.
    pub base_url: String,
    pub rate_limits: DefaultRateLimits,
    /// Which callback and redirect URLs customers may use.
    pub url_policy: UrlPolicy,
    pub number_limit: NumberLimit,
    pub tenant_limits: TenantLimits,
    /// Bounds on callback attempts in flight, and on callbacks queued in memory.
    pub courier: CourierLimits,
    pub retention: RetentionSettings,
    /// How many phone numbers the cache of the number lookup can hold.
    pub number_lookup_cache_capacity: usize,
    /// Maximum number of members and pending invitations of a workspace, together.
    pub max_members: u32,
    /// Whether accounts that sign in to the console by password must have a second factor.
    pub require_second_factor: bool,
    /// Costs of hashing the passwords of console accounts.
    pub password_costs: PasswordCosts,
    /// Whether the deployment offers CAMARA's APIs.
    pub camara_enabled: bool,
}

/// How long a deployment keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// How long checks are kept, with their callbacks and attempts. `None`: for ever.
    pub checks: Option<SignedDuration>,
    /// How long phone numbers and callback bodies are kept after their check has concluded.
    pub numbers: SignedDuration,
    /// Like `numbers`, for Discovery checks.
    pub discovered_numbers: SignedDuration,
    pub audit_events: SignedDuration,
    /// How long entries of the request log are kept. `None` disables the request log.
    pub request_log: Option<SignedDuration>,
}

/// Dependencies of an [`Engine`].
#[derive(derive_more::Debug)]
#[debug("EngineDependencies")]
pub struct EngineDependencies {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub transport: Arc<dyn Transport>,
    pub master_key: MasterKey,
    /// The simulated operator of sandbox projects.
    pub sandbox: Arc<dyn OperatorAccess>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Refresh(#[from] RefreshError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Misplaced(#[from] ResidencyViolation),
}

/// All services of a node. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("Engine({:?})", node.id())]
pub struct Engine {
    pub checks: Arc<Checks>,
    pub reassembly: Arc<SmsReassembly>,
    pub silent: Arc<SilentFlow>,
    pub verifications: Arc<Verifications>,
    pub sign_ins: Arc<SignIns>,
    pub camara: Arc<Camara>,
    pub callbacks: Arc<Callbacks>,
    pub tokens: Arc<Tokens>,
    pub management: Arc<Management>,
    pub issues: Arc<Issues>,
    pub accounts: Arc<Accounts>,
    pub idempotency: Arc<Idempotency>,
    pub activity: Arc<Activity>,
    pub live: Arc<LiveFeeds>,
    pub request_log: Arc<RequestLog>,
    pub simulated_sims: Arc<SimulatedSims>,
    pub node: Arc<Node>,
    store: Arc<dyn Store>,
    context: Arc<Context>,
    networks: Arc<Networks>,
    number_lookup: Arc<NumberLookup>,
    courier: Courier,
    rate_limiter: Arc<RateLimiter>,
}

impl Engine {
    /// Loads the control plane, creates missing keys, and registers this node in the database.
    pub async fn start(dependencies: EngineDependencies, settings: EngineSettings) -> Result<Self, StartError> {
        let EngineDependencies { store, clock, entropy, transport, master_key, sandbox } = dependencies;
        // Sets the clock to the time of the database. Must come before anything that uses the clock.
        node::sync_clock_with_database(&*store, &*clock).await?;
        let context = Arc::new(Context {
            clock,
            entropy,
            control_plane: Arc::new(ControlPlane::empty(master_key)),
            control_plane_store: store.clone(),
            settings,
        });
        store.set_row_signer(context.control_plane.clone());
        // Unseals the existing keys, which fails with a wrong master key. Comes before `create_missing_keys`, so that
        // no new key is sealed with a wrong master key.
        context.refresh().await?;
        // Rejects a database whose workspaces belong to another region (for example, a copied database), before
        // anything is written to it.
        context.settings.region.check_residency(context.control_plane.data_residencies())?;
        let master_key = context.control_plane.master_key();
        keys::create_missing_keys(&*store, master_key, &*context.clock, &*context.entropy).await?;
        context.refresh().await?;
        let engine = Self::assemble(context, store, transport, sandbox);
        engine.node.sync_clock().await?;
        engine.node.send_heartbeat().await?;
        Ok(engine)
    }

    #[expect(clippy::too_many_lines, reason = "a list of the services and their dependencies")]
    fn assemble(
        context: Arc<Context>,
        store: Arc<dyn Store>,
        transport: Arc<dyn Transport>,
        sandbox: Arc<dyn OperatorAccess>,
    ) -> Self {
        let settings = &context.settings;
        let networks = Arc::<Networks>::default();
        let number_lookup =
            NumberLookup::new(networks.clone(), context.clock.clone(), settings.number_lookup_cache_capacity);
        let live = LiveAccess {
            networks: networks.clone(),
            number_lookup: number_lookup.clone(),
            control_plane: context.control_plane.clone(),
            number_limit: settings.number_limit,
        };
        let operators = Arc::new(Operators { live, sandbox });
        let rate_limiter = Arc::new(RateLimiter::new(settings.rate_limits));
        let recorder = Arc::<ActivityRecorder>::default();
        let signing_pool = SigningPool::default();
        let courier = Courier::new(CourierDependencies {
            store: store.clone(),
            signing_pool: signing_pool.clone(),
            transport: transport.clone(),
            keys: context.control_plane.clone(),
            projects: context.control_plane.clone(),
            clock: context.clock.clone(),
            entropy: context.entropy.clone(),
            activity: recorder.clone(),
            limits: settings.courier,
        });
        let activity =
            Arc::new(Activity { recorder: recorder.clone(), store: store.clone(), clock: context.clock.clone() });
        let request_log = Arc::new(RequestLog::new(store.clone(), settings.retention.request_log));
        let idempotency = Arc::new(Idempotency { context: context.clone(), store: store.clone() });
        let tokens = Arc::new(Tokens::new(&context, store.clone()));
        let accounts = Arc::new(Accounts::new(&context, store.clone()));
        let outbox = Outbox::new(context.clone(), courier.clone());
        let pending_codes = Arc::<PendingCodeCache>::default();
        let steps = Steps::new(
            context.clone(),
            store.clone(),
            store.clone(),
            operators.clone(),
            outbox.clone(),
            recorder.clone(),
            pending_codes.clone(),
        );
        let checks = Checks::new(
            context.clone(),
            store.clone(),
            operators.clone(),
            idempotency.clone(),
            outbox,
            recorder.clone(),
            pending_codes,
        );
        let checks = Arc::new(checks.with_end_handler(Arc::new(steps.clone())));
        let silent = Arc::new(SilentFlow {
            context: context.clone(),
            store: store.clone(),
            checks: checks.clone(),
            idempotency: idempotency.clone(),
            operators: operators.clone(),
            rate_limiter: rate_limiter.clone(),
            activity: recorder,
            step_sessions: Arc::new(steps.clone()),
            assertions: store.clone(),
        });
        let verifications = Arc::new(Verifications {
            context: context.clone(),
            store: store.clone(),
            checks: checks.clone(),
            steps,
            silent: silent.clone(),
            idempotency: idempotency.clone(),
            followers: Arc::default(),
        });
        let sign_ins = Arc::new(SignIns {
            context: context.clone(),
            store: store.clone(),
            verifications: verifications.clone(),
            silent: silent.clone(),
            tokens: tokens.clone(),
            operators,
            rate_limiter: rate_limiter.clone(),
            signing_pool,
            key_sets: ClientKeySets::new(transport),
        });
        let camara = Arc::new(Camara {
            context: context.clone(),
            store: store.clone(),
            sign_ins: sign_ins.clone(),
            silent: silent.clone(),
            checks: checks.clone(),
        });
        let callbacks = Arc::new(Callbacks {
            context: context.clone(),
            store: store.clone(),
            checks: checks.clone(),
            idempotency: idempotency.clone(),
            courier: courier.clone(),
            verifications: verifications.clone(),
            running_tests: RunningTests::default(),
            bulk_resends: BulkResendBudget::default(),
            streams: Arc::default(),
        });
        let management = Arc::new(Management {
            context: context.clone(),
            store: store.clone(),
            idempotency: idempotency.clone(),
            networks: networks.clone(),
        });
        Engine {
            issues: Arc::new(Issues {
                context: context.clone(),
                callbacks: callbacks.clone(),
                management: management.clone(),
                networks: networks.clone(),
            }),
            reassembly: Arc::new(SmsReassembly { context: context.clone(), store: store.clone() }),
            simulated_sims: Arc::new(SimulatedSims::new(context.clone(), store.clone())),
            silent,
            callbacks,
            verifications,
            sign_ins,
            camara,
            management,
            live: Arc::new(LiveFeeds {
                context: context.clone(),
                sessions: store.clone(),
                accounts: accounts.clone(),
                checks: checks.clone(),
                open: OpenFeeds::default(),
            }),
            node: Arc::new(Node {
                id: NodeId(context.new_uuid(context.now())),
                context: context.clone(),
                store: store.clone(),
                checks: checks.clone(),
                courier: courier.clone(),
                tokens: tokens.clone(),
                accounts: accounts.clone(),
                activity: activity.clone(),
                request_log: request_log.clone(),
                rate_limiter: rate_limiter.clone(),
                peers: Mutex::default(),
                clock_skew_reporter: ClockSkewReporter::default(),
                rollback_detector: RollbackDetector::default(),
            }),
            checks,
            tokens,
            accounts,
            idempotency,
            activity,
            request_log,
            store,
            context,
            networks,
            number_lookup,
            courier,
            rate_limiter,
        }
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub fn shared_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.context.clock
    }

    pub fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.context.clock)
    }

    pub fn entropy(&self) -> &dyn Entropy {
        &*self.context.entropy
    }

    pub fn shared_entropy(&self) -> Arc<dyn Entropy> {
        Arc::clone(&self.context.entropy)
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.context.control_plane
    }

    pub fn networks(&self) -> &Arc<Networks> {
        &self.networks
    }

    pub fn number_lookup(&self) -> &Arc<NumberLookup> {
        &self.number_lookup
    }

    pub fn courier(&self) -> &Courier {
        &self.courier
    }

    pub fn rate_limiter(&self) -> &RateLimiter {
        &self.rate_limiter
    }

    pub fn region(&self) -> Region {
        self.context.settings.region
    }

    pub fn base_url(&self) -> &str {
        &self.context.settings.base_url
    }
}
