//! What the service does: its use cases, and the ports that they need.
//!
//! No HTTP server and no SQL here: requests come in as values, and a [`ports::Store`] keeps what must be kept.

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
pub mod requests;
pub mod restore;
pub mod reverse_sms;
pub mod search_limit;
pub mod silent;
pub mod sim_swap;
mod sweeper;
pub mod tokens;
mod verified_tokens;

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_domain::{
    id::time_ordered,
    region::{Misplaced, Region},
    reverse_sms::NumberGuard,
    tenancy::Mode,
    web_url::UrlPolicy,
};

use crate::{
    accounts::{Passwords, SignInDelays},
    activity::Activity,
    callback::{Courier, CourierParts},
    control_plane::{ControlPlane, RefreshError},
    credential_uses::CredentialUses,
    keys::MasterKey,
    live::Live,
    management::TenantLimits,
    networks::Networks,
    nodes::SkewReport,
    number_lookup::NumberLookup,
    ports::{Clock, Entropy, NodeId, Store, StoreError, Transport},
    rate_limit::{Limits, RateLimiter},
    requests::RequestLog,
    restore::Lineage,
    reverse_sms::Awaited,
    search_limit::SearchLimiter,
    verified_tokens::VerifiedTokens,
};

/// What a deployment decides once.
#[derive(Clone, Debug)]
pub struct Settings {
    pub region: Region,
    /// Where callers reach this deployment; the issuer of its tokens. No slash at the end.
    pub base_url: String,
    pub limits: Limits,
    /// Which callback and redirect URLs may be given to us.
    pub urls: UrlPolicy,
    pub number_guard: NumberGuard,
    pub tenant_limits: TenantLimits,
    /// How many callbacks are sent and kept in memory at a time.
    pub courier: callback::Limits,
    /// How long numbers and callback bodies are kept after the end of their check.
    pub retention: SignedDuration,
    /// The same for checks that have found a number out.
    pub discovery_retention: SignedDuration,
    /// How long audit events are kept.
    pub audit_retention: SignedDuration,
    /// How many numbers' networks are remembered.
    pub cached_lookups: usize,
    /// How long requests are kept in their log. `None`: not at all.
    pub keep_requests: Option<SignedDuration>,
    /// Members and pending invitations of a workspace.
    pub max_members: u32,
}

/// What an engine works with.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub transport: Arc<dyn Transport>,
    pub master: MasterKey,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Refresh(#[from] RefreshError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
}

/// Everything that use cases share. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    control_plane: Arc<ControlPlane>,
    networks: Arc<Networks>,
    lookup: Arc<NumberLookup>,
    courier: Courier,
    activity: Arc<Activity>,
    limiter: RateLimiter,
    search_limiter: SearchLimiter,
    passwords: Passwords,
    sign_in_delays: SignInDelays,
    request_log: RequestLog,
    live: Live,
    settings: Settings,
    /// The beginning of every token's claims.
    token_claims: String,
    verified_tokens: VerifiedTokens,
    credential_uses: CredentialUses,
    awaited: Awaited,
    node: NodeId,
    skew_report: SkewReport,
    lineage: Lineage,
}

impl Engine {
    /// Loads the control plane, makes missing keys, and joins the other nodes.
    pub async fn start(parts: Parts, settings: Settings) -> Result<Self, StartError> {
        let Parts { store, clock, entropy, transport, master } = parts;
        // Before anything is decided or stamped by the clock.
        nodes::sample_database_time(&*store, &*clock).await?;
        let node = NodeId(time_ordered(clock.now(), entropy.bytes()));
        let control_plane = Arc::new(ControlPlane::empty(master));
        let activity = Arc::<Activity>::default();
        let courier = Courier::new(CourierParts {
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
            lookup: NumberLookup::new(Arc::clone(&networks), Arc::clone(&clock), settings.cached_lookups),
            networks,
            courier,
            activity,
            limiter: RateLimiter::new(settings.limits),
            search_limiter: SearchLimiter::default(),
            passwords: Passwords::default(),
            sign_in_delays: SignInDelays::default(),
            request_log: RequestLog::new(settings.keep_requests),
            live: Live::default(),
            token_claims: tokens::shared_claims(&settings.base_url, settings.region),
            verified_tokens: VerifiedTokens::default(),
            credential_uses: CredentialUses::default(),
            awaited: Awaited::default(),
            store,
            clock,
            entropy,
            settings,
            node,
            skew_report: SkewReport::default(),
            lineage: Lineage::default(),
        }));
        keys::upgrade(
            engine.region(),
            engine.store(),
            engine.control_plane().master(),
            engine.clock(),
            engine.entropy(),
        )
        .await?;
        // Existing keys are opened first: a wrong master key must not add a key of its own.
        engine.refresh().await?;
        // A database by mistake, or a copy of one. Nothing is written to it.
        engine.region().holds_only_its_own(engine.control_plane().residences())?;
        keys::ensure_keys(engine.store(), engine.control_plane().master(), engine.clock(), engine.entropy()).await?;
        engine.refresh().await?;
        engine.follow_database_time().await?;
        engine.beat().await?;
        Ok(engine)
    }

    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// The same, for who keeps it.
    pub fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock)
    }

    pub fn entropy(&self) -> &dyn Entropy {
        &*self.0.entropy
    }

    /// The same, for who keeps it.
    pub fn shared_entropy(&self) -> Arc<dyn Entropy> {
        Arc::clone(&self.0.entropy)
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.0.control_plane
    }

    pub fn networks(&self) -> &Arc<Networks> {
        &self.0.networks
    }

    /// Finds out which network serves a number.
    pub fn number_lookup(&self) -> &Arc<NumberLookup> {
        &self.0.lookup
    }

    pub fn courier(&self) -> &Courier {
        &self.0.courier
    }

    pub(crate) fn awaited(&self) -> &Awaited {
        &self.0.awaited
    }

    /// Counts what happens, for people.
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    pub fn limiter(&self) -> &RateLimiter {
        &self.0.limiter
    }

    /// Limits the searches of each workspace.
    pub fn search_limiter(&self) -> &SearchLimiter {
        &self.0.search_limiter
    }

    pub fn request_log(&self) -> &RequestLog {
        &self.0.request_log
    }

    fn live(&self) -> &Live {
        &self.0.live
    }

    fn passwords(&self) -> &Passwords {
        &self.0.passwords
    }

    fn sign_in_delays(&self) -> &SignInDelays {
        &self.0.sign_in_delays
    }

    pub fn region(&self) -> Region {
        self.0.settings.region
    }

    pub fn base_url(&self) -> &str {
        &self.0.settings.base_url
    }

    fn token_claims(&self) -> &str {
        &self.0.token_claims
    }

    fn verified_tokens(&self) -> &VerifiedTokens {
        &self.0.verified_tokens
    }

    fn credential_uses(&self) -> &CredentialUses {
        &self.0.credential_uses
    }

    pub fn urls(&self) -> &UrlPolicy {
        &self.0.settings.urls
    }

    /// The limit on checks about one number. Simulated numbers belong to nobody, so sandbox projects have none.
    fn number_guard(&self, mode: Mode) -> Option<NumberGuard> {
        (mode == Mode::Live).then_some(self.0.settings.number_guard)
    }

    pub fn tenant_limits(&self) -> TenantLimits {
        self.0.settings.tenant_limits
    }

    fn retention(&self) -> SignedDuration {
        self.0.settings.retention
    }

    fn audit_retention(&self) -> SignedDuration {
        self.0.settings.audit_retention
    }

    fn discovery_retention(&self) -> SignedDuration {
        self.0.settings.discovery_retention
    }

    fn lineage(&self) -> &Lineage {
        &self.0.lineage
    }

    fn skew_report(&self) -> &SkewReport {
        &self.0.skew_report
    }

    fn max_members(&self) -> u32 {
        self.0.settings.max_members
    }

    pub fn node(&self) -> NodeId {
        self.0.node
    }

    /// Takes over what other nodes have changed, now.
    pub async fn refresh(&self) -> Result<(), RefreshError> {
        self.control_plane().refresh(self.store(), self.clock().now()).await
    }

    /// Follows the changes of other nodes until the future is dropped.
    pub async fn follow_changes(&self) {
        self.control_plane().follow(self.store(), self.clock()).await;
    }

    /// Takes a change of our own over at once, so that the next request sees it.
    async fn see_own_change(&self) {
        if let Err(error) = self.refresh().await {
            // The change is stored; the next poll takes it over.
            tracing::warn!(%error, "a change of our own will be seen late");
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("node", &self.0.node).finish_non_exhaustive()
    }
}
