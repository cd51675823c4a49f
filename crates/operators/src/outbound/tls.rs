//! Whom we believe to be the host that a URL names, and who we say that we are.

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

/// Why the certificates to trust could not be read.
#[derive(Debug, thiserror::Error)]
pub enum NoRoots {
    #[error("the file of extra certificates cannot be read: {0}")]
    File(#[from] tokio_rustls::rustls::pki_types::pem::Error),
    #[error("the file of extra certificates holds one that is not valid, or none")]
    Certificate,
    #[error("our own certificate or its key cannot be read: {0}")]
    Identity(#[source] tokio_rustls::rustls::pki_types::pem::Error),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// Our own certificate, for hosts that want to see one.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate and those between it and its root (PEM).
    pub certificates: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
}

/// The clock by which certificates have expired or not.
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
    identity: Option<&Identity>,
    clock: &CertificateClock,
) -> Result<Arc<ClientConfig>, NoRoots> {
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
        tracing::warn!("no certificate is trusted: requests to https URLs will fail");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_file_iter(&identity.certificates).and_then(Iterator::collect);
            let key = PrivateKeyDer::from_pem_file(&identity.key).map_err(NoRoots::Identity)?;
            config.with_client_auth_cert(chain.map_err(NoRoots::Identity)?, key)?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.time_provider = Arc::new(clock.clone());
    Ok(Arc::new(config))
}
