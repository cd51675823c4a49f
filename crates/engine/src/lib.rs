//! What the service does: its use cases, and the ports that they need.
//!
//! No HTTP server and no SQL here: requests come in as values, and a [`ports::Store`] keeps what must be kept.

pub mod callback;
pub mod control_plane;
pub mod idempotency;
pub mod keys;
pub mod management;
pub mod networks;
pub mod nodes;
pub mod ports;
pub mod rate_limit;
pub mod tokens;

use std::sync::Arc;

use ringtrue_domain::{id::time_ordered, region::Region, web_url::UrlPolicy};

use crate::{
    control_plane::{ControlPlane, RefreshError},
    keys::MasterKey,
    ports::{Clock, Entropy, NodeId, Store},
    rate_limit::{Limits, RateLimiter},
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
}

/// Everything that use cases share. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    control_plane: ControlPlane,
    limiter: RateLimiter,
    settings: Settings,
    /// The beginning of every token's claims.
    token_claims: String,
    node: NodeId,
}

impl Engine {
    /// Loads the control plane, makes missing keys, and joins the other nodes.
    pub async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        master: MasterKey,
        settings: Settings,
    ) -> Result<Self, RefreshError> {
        let node = NodeId(time_ordered(clock.now(), entropy.bytes()));
        let engine = Engine(Arc::new(Inner {
            control_plane: ControlPlane::empty(master),
            limiter: RateLimiter::new(settings.limits),
            token_claims: tokens::shared_claims(&settings.base_url, settings.region),
            store,
            clock,
            entropy,
            settings,
            node,
        }));
        // Existing keys are opened first: a wrong master key must not add a key of its own.
        engine.refresh().await?;
        keys::ensure_keys(engine.store(), engine.control_plane().master(), engine.clock(), engine.entropy()).await?;
        engine.refresh().await?;
        engine.beat().await?;
        Ok(engine)
    }

    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub fn entropy(&self) -> &dyn Entropy {
        &*self.0.entropy
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.0.control_plane
    }

    pub fn limiter(&self) -> &RateLimiter {
        &self.0.limiter
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

    pub fn urls(&self) -> &UrlPolicy {
        &self.0.settings.urls
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
