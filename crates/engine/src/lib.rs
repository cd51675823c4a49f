//! The use cases of the service, and the ports (traits) that they need.
//!
//! This crate has no HTTP server and no SQL: requests arrive as values, and a [`ports::Store`] persists state.

pub mod accounts;
pub mod activity;
pub mod callback;
pub mod checks;
pub mod control_plane;
mod credential_uses;
pub mod deployment;
pub mod eligibility;
pub mod idempotency;
pub mod keys;
pub mod live;
pub mod management;
pub mod networks;
pub mod nodes;
pub mod number_lookup;
pub mod ports;
mod privacy;
pub mod rate_limit;
mod rate_shares;
pub mod request_log;
pub mod restore;
pub mod reverse_sms;
pub mod search_limit;
pub mod silent;
pub mod sim_swap;
mod sweeper;
pub mod tokens;
mod verified_token_cache;

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_domain::{
    id::uuid_v7,
    region::{Region, ResidencyViolation},
    reverse_sms::NumberLimit,
    tenancy::Mode,
    web_url::UrlPolicy,
};

use crate::{
    accounts::{LoginThrottleCache, PasswordHasher},
    activity::ActivityRecorder,
    callback::{Courier, CourierDependencies},
    control_plane::{ControlPlane, RefreshError},
    credential_uses::LastUseTracker,
    keys::MasterKey,
    live::LiveFeeds,
    management::TenantLimits,
    networks::Networks,
    nodes::ClockSkewReporter,
    number_lookup::NumberLookup,
    ports::{Clock, Entropy, NodeId, Store, StoreError, Transport},
    rate_limit::{DefaultRateLimits, RateLimiter},
    request_log::RequestLog,
    restore::RollbackDetector,
    reverse_sms::PendingCodeCache,
    search_limit::SearchLimiter,
    verified_token_cache::VerifiedTokenCache,
};

/// Settings of a deployment.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    pub region: Region,
    /// Public URL of the API and issuer of its tokens, without a trailing slash.
    pub base_url: String,
    pub rate_limits: DefaultRateLimits,
    /// Policy for callback and redirect URLs.
    pub url_policy: UrlPolicy,
    pub number_limit: NumberLimit,
    pub tenant_limits: TenantLimits,
    /// Limits on callbacks in flight and in memory.
    pub courier: callback::CourierLimits,
    /// Retention of numbers and callback bodies after their check has concluded.
    pub number_retention: SignedDuration,
    /// The same for Discovery checks.
    pub discovery_retention: SignedDuration,
    pub audit_retention: SignedDuration,
    /// Capacity, in numbers, of the cache of number lookups.
    pub number_lookup_cache_capacity: usize,
    /// Retention of the request log. `None` disables the log.
    pub request_log_retention: Option<SignedDuration>,
    /// Limit on the members and pending invitations of a workspace.
    pub max_members_per_workspace: u32,
}

/// Dependencies of an [`Engine`].
pub struct EngineDependencies {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub transport: Arc<dyn Transport>,
    pub master_key: MasterKey,
}

impl std::fmt::Debug for EngineDependencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
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

/// State shared by all use cases. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    control_plane: Arc<ControlPlane>,
    networks: Arc<Networks>,
    number_lookup: Arc<NumberLookup>,
    courier: Courier,
    activity: Arc<ActivityRecorder>,
    rate_limiter: RateLimiter,
    search_limiter: SearchLimiter,
    passwords: PasswordHasher,
    login_throttle: LoginThrottleCache,
    request_log: RequestLog,
    live: LiveFeeds,
    settings: EngineSettings,
    /// Beginning of the claims JSON, equal in all tokens.
    shared_token_claims: String,
    verified_token_cache: VerifiedTokenCache,
    credential_uses: LastUseTracker,
    pending_codes: PendingCodeCache,
    node: NodeId,
    clock_skew_reporter: ClockSkewReporter,
    rollback_detector: RollbackDetector,
}

impl Engine {
    /// Loads the control plane, creates missing keys, and registers this node.
    pub async fn start(parts: EngineDependencies, settings: EngineSettings) -> Result<Self, StartError> {
        let EngineDependencies { store, clock, entropy, transport, master_key: master } = parts;
        // Must come before anything that uses the clock.
        nodes::sample_database_time(&*store, &*clock).await?;
        let node = NodeId(uuid_v7(clock.now(), entropy.bytes()));
        let control_plane = Arc::new(ControlPlane::empty(master));
        let activity = Arc::<ActivityRecorder>::default();
        let courier = Courier::new(CourierDependencies {
            store: Arc::clone(&store) as _,
            transport,
            keys: Arc::clone(&control_plane) as _,
            workspaces: Arc::clone(&control_plane) as _,
            clock: Arc::clone(&clock),
            entropy: Arc::clone(&entropy),
            activity: Arc::clone(&activity),
            limits: settings.courier,
        });
        let networks = Arc::<Networks>::default();
        let engine = Engine(Arc::new(Inner {
            control_plane,
            number_lookup: NumberLookup::new(
                Arc::clone(&networks),
                Arc::clone(&clock),
                settings.number_lookup_cache_capacity,
            ),
            networks,
            courier,
            activity,
            rate_limiter: RateLimiter::new(settings.rate_limits),
            search_limiter: SearchLimiter::default(),
            passwords: PasswordHasher::default(),
            login_throttle: LoginThrottleCache::default(),
            request_log: RequestLog::new(settings.request_log_retention),
            live: LiveFeeds::default(),
            shared_token_claims: tokens::build_shared_claims(&settings.base_url, settings.region),
            verified_token_cache: VerifiedTokenCache::default(),
            credential_uses: LastUseTracker::default(),
            pending_codes: PendingCodeCache::default(),
            store,
            clock,
            entropy,
            settings,
            node,
            clock_skew_reporter: ClockSkewReporter::default(),
            rollback_detector: RollbackDetector::default(),
        }));
        keys::upgrade_legacy_keys(
            engine.region(),
            engine.store(),
            engine.control_plane().master_key(),
            engine.clock(),
            engine.entropy(),
        )
        .await?;
        // Unseals the existing keys first: a wrong master key must not add new keys.
        engine.refresh().await?;
        // A database of another region, or a copy of one, is rejected before anything is written to it.
        engine.region().check_residency(engine.control_plane().data_residencies())?;
        keys::create_missing_keys(
            engine.store(),
            engine.control_plane().master_key(),
            engine.clock(),
            engine.entropy(),
        )
        .await?;
        engine.refresh().await?;
        engine.sync_clock().await?;
        engine.send_heartbeat().await?;
        Ok(engine)
    }

    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock)
    }

    pub fn entropy(&self) -> &dyn Entropy {
        &*self.0.entropy
    }

    pub fn shared_entropy(&self) -> Arc<dyn Entropy> {
        Arc::clone(&self.0.entropy)
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.0.control_plane
    }

    pub fn networks(&self) -> &Arc<Networks> {
        &self.0.networks
    }

    pub fn number_lookup(&self) -> &Arc<NumberLookup> {
        &self.0.number_lookup
    }

    pub fn courier(&self) -> &Courier {
        &self.0.courier
    }

    pub(crate) fn pending_codes(&self) -> &PendingCodeCache {
        &self.0.pending_codes
    }

    /// Counters for the project overview and metrics.
    pub fn activity_recorder(&self) -> &ActivityRecorder {
        &self.0.activity
    }

    pub fn rate_limiter(&self) -> &RateLimiter {
        &self.0.rate_limiter
    }

    pub fn search_limiter(&self) -> &SearchLimiter {
        &self.0.search_limiter
    }

    pub fn request_log(&self) -> &RequestLog {
        &self.0.request_log
    }

    fn live_feeds(&self) -> &LiveFeeds {
        &self.0.live
    }

    fn password_hasher(&self) -> &PasswordHasher {
        &self.0.passwords
    }

    fn login_throttle(&self) -> &LoginThrottleCache {
        &self.0.login_throttle
    }

    pub fn region(&self) -> Region {
        self.0.settings.region
    }

    pub fn base_url(&self) -> &str {
        &self.0.settings.base_url
    }

    fn shared_token_claims(&self) -> &str {
        &self.0.shared_token_claims
    }

    fn verified_token_cache(&self) -> &VerifiedTokenCache {
        &self.0.verified_token_cache
    }

    fn last_use_tracker(&self) -> &LastUseTracker {
        &self.0.credential_uses
    }

    pub fn url_policy(&self) -> &UrlPolicy {
        &self.0.settings.url_policy
    }

    /// Limit on the checks of one phone number. Sandbox projects have none, since simulated numbers have no owner.
    fn number_limit(&self, mode: Mode) -> Option<NumberLimit> {
        (mode == Mode::Live).then_some(self.0.settings.number_limit)
    }

    pub fn tenant_limits(&self) -> TenantLimits {
        self.0.settings.tenant_limits
    }

    fn number_retention(&self) -> SignedDuration {
        self.0.settings.number_retention
    }

    fn audit_retention(&self) -> SignedDuration {
        self.0.settings.audit_retention
    }

    fn discovery_retention(&self) -> SignedDuration {
        self.0.settings.discovery_retention
    }

    fn rollback_detector(&self) -> &RollbackDetector {
        &self.0.rollback_detector
    }

    fn clock_skew_reporter(&self) -> &ClockSkewReporter {
        &self.0.clock_skew_reporter
    }

    fn max_members_per_workspace(&self) -> u32 {
        self.0.settings.max_members_per_workspace
    }

    pub fn node(&self) -> NodeId {
        self.0.node
    }

    /// Loads the control-plane changes made since the last refresh.
    pub async fn refresh(&self) -> Result<(), RefreshError> {
        self.control_plane().refresh(self.store(), self.clock().now()).await
    }

    /// Refreshes the control plane on each change until the future is dropped.
    pub async fn run_control_plane_refresh(&self) {
        self.control_plane().run_refresh(self.store(), self.clock()).await;
    }

    /// Refreshes the control plane after a write by this node, so that the next request sees the change.
    async fn refresh_after_write(&self) {
        if let Err(error) = self.refresh().await {
            // The change is stored; the next poll loads it.
            tracing::warn!(%error, "control-plane refresh after a write failed; retrying");
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("node", &self.0.node).finish_non_exhaustive()
    }
}
