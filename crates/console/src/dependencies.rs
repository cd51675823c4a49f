//! What the console needs of the node beyond the state of all handlers.

use std::{fmt, sync::Arc};

use ringtrue_engine::ports::connectors::ConnectorStatus;

use crate::identity_provider::IdentityProvider;

/// An extension of all routes of the console.
#[derive(Clone, Debug)]
pub struct ConsoleDependencies {
    /// Sign-in by OpenID Connect. `None`: off.
    pub identity_provider: Option<Arc<IdentityProvider>>,
    pub connectors: Arc<dyn ConnectorStatuses>,
    /// Path templates of the routes whose requests are logged, sorted.
    pub logged_routes: Arc<[&'static str]>,
}

/// The connectors of this node.
pub trait ConnectorStatuses: fmt::Debug + Send + Sync {
    /// Current status of each.
    fn statuses(&self) -> Vec<ConnectorStatus>;
}
