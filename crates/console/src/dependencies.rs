//! Dependencies that only the console's handlers need. The state that all handlers of the server share is
//! [`AppState`](ringtrue_web::app::AppState).

use std::{fmt, sync::Arc};

use ringtrue_engine::ports::{certificates::CertificateStatus, connectors::ConnectorStatus};

use crate::identity_provider::IdentityProvider;

/// Dependencies that all handlers of the console can extract as an axum extension.
#[derive(Clone, Debug)]
pub struct ConsoleDependencies {
    /// OpenID provider for sign-in. `None`: sign-in by OpenID Connect is off.
    pub identity_provider: Option<Arc<IdentityProvider>>,
    pub connectors: Arc<dyn ConnectorStatuses>,
    pub certificates: Arc<dyn CertificateStatuses>,
    /// Path templates of the routes whose requests are recorded in the request log, sorted.
    pub logged_routes: Arc<[&'static str]>,
}

/// Source of the status of this node's connectors.
pub trait ConnectorStatuses: fmt::Debug + Send + Sync {
    /// Returns the current status of each connector.
    fn statuses(&self) -> Vec<ConnectorStatus>;
}

/// Source of the expiry of this node's certificates.
pub trait CertificateStatuses: fmt::Debug + Send + Sync {
    /// Returns each certificate that this node presents to clients or operators.
    fn certificates(&self) -> Vec<CertificateStatus>;
}
