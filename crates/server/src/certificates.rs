//! Expiry of the certificates that a node presents to clients and operators.

use std::sync::Arc;

use ringtrue_console::CertificateStatuses;
use ringtrue_engine::ports::certificates::CertificateStatus;

use crate::{connectors::Connectors, listener::Tls};

/// Certificates of the listeners and connectors, as they are in use.
#[derive(Debug)]
pub struct NodeCertificates {
    http: Option<Arc<Tls>>,
    ingress: Option<Arc<Tls>>,
    connectors: Arc<Connectors>,
}

impl NodeCertificates {
    pub fn new(http: Option<&Arc<Tls>>, ingress: Option<&Arc<Tls>>, connectors: &Arc<Connectors>) -> Self {
        NodeCertificates { http: http.cloned(), ingress: ingress.cloned(), connectors: Arc::clone(connectors) }
    }
}

impl CertificateStatuses for NodeCertificates {
    fn certificates(&self) -> Vec<CertificateStatus> {
        let listeners = [("http.tls.certificate", &self.http), ("ingress.tls.certificate", &self.ingress)];
        let listeners = listeners.into_iter().filter_map(|(setting, tls)| {
            let expires_at = tls.as_ref()?.expires_at()?;
            Some(CertificateStatus { setting: setting.to_owned(), expires_at })
        });
        listeners.chain(self.connectors.client_certificates()).collect()
    }
}
