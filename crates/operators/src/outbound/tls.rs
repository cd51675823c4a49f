//! Whom we believe to be the host that a URL names.

use std::{path::Path, sync::Arc};

use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Why the certificates to trust could not be read.
#[derive(Debug, thiserror::Error)]
pub enum NoRoots {
    #[error("the file of extra certificates cannot be read: {0}")]
    File(#[from] tokio_rustls::rustls::pki_types::pem::Error),
    #[error("the file of extra certificates holds one that is not valid, or none")]
    Certificate,
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

pub fn client_config(extra_roots: Option<&Path>) -> Result<Arc<ClientConfig>, NoRoots> {
    let mut roots = RootCertStore::empty();
    let machine = rustls_native_certs::load_native_certs();
    for error in &machine.errors {
        tracing::warn!(%error, "a certificate of this machine cannot be read");
    }
    roots.add_parsable_certificates(machine.certs);
    if let Some(path) = extra_roots {
        let extra = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
        let count = extra.len();
        let (added, _) = roots.add_parsable_certificates(extra);
        if added == 0 || added < count {
            return Err(NoRoots::Certificate);
        }
    }
    if roots.is_empty() {
        tracing::warn!("no certificate is trusted: callbacks to https URLs will fail");
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
