//! TLS client configuration: trusted roots and our client certificate.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ringtrue_engine::ports::{Clock, SystemClock};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    time_provider::TimeProvider,
};

#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    #[error("failed to read the extra root certificates: {0}")]
    ExtraRoots(#[from] tokio_rustls::rustls::pki_types::pem::Error),
    #[error("the extra root certificates file contains an invalid certificate, or none")]
    InvalidExtraRoot,
    #[error("failed to read the client certificate or its key: {0}")]
    ClientCertificate(#[source] tokio_rustls::rustls::pki_types::pem::Error),
    #[error("invalid TLS configuration: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// Client certificate for mutual TLS.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate and its intermediates (PEM).
    pub certificates: PathBuf,
    /// Private key (PEM).
    pub key: PathBuf,
}

/// Clock for certificate validity.
#[derive(Clone)]
pub struct CertificateClock(pub Arc<dyn Clock>);

impl Default for CertificateClock {
    fn default() -> Self {
        CertificateClock(Arc::new(SystemClock))
    }
}

impl TimeProvider for CertificateClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl fmt::Debug for CertificateClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateClock")
    }
}

pub fn client_config(
    extra_roots: Option<&Path>,
    identity: Option<&ClientCertificate>,
    clock: &CertificateClock,
) -> Result<Arc<ClientConfig>, TlsConfigError> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::warn!(%error, "failed to read a system root certificate");
    }
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = extra_roots {
        let extra = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
        let count = extra.len();
        let (added, _) = roots.add_parsable_certificates(extra);
        if added == 0 || added < count {
            return Err(TlsConfigError::InvalidExtraRoot);
        }
    }
    if roots.is_empty() {
        tracing::warn!("no trusted root certificates; https requests will fail");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_file_iter(&identity.certificates).and_then(Iterator::collect);
            let key = PrivateKeyDer::from_pem_file(&identity.key).map_err(TlsConfigError::ClientCertificate)?;
            config.with_client_auth_cert(chain.map_err(TlsConfigError::ClientCertificate)?, key)?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.time_provider = Arc::new(clock.clone());
    Ok(Arc::new(config))
}
