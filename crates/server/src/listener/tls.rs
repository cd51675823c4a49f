//! TLS with certificates that can be reloaded at runtime.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::leaf_certificate;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path}: {problem}", path = .path.display())]
    File { path: PathBuf, problem: String },
    #[error("the certificate does not match the private key: {0}")]
    Pair(rustls::Error),
    #[error("failed to set up TLS: {0}")]
    Setup(rustls::Error),
}

#[derive(derive_more::Debug)]
#[debug("Tls({})", certificate.display())]
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<CurrentCertificate>,
    certificate: PathBuf,
    key: PathBuf,
}

/// Certificate for new connections. Open connections keep the certificate of their handshake.
#[derive(Debug)]
struct CurrentCertificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl Tls {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let current = Arc::new(CurrentCertificate(ArcSwap::from_pointee(read_certified_key(certificate, key)?)));
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&current) as _;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            current,
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Reads the certificate files again. Keeps the current certificate on errors.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.0.store(Arc::new(read_certified_key(&self.certificate, &self.key)?));
        Ok(())
    }

    /// Returns when the current certificate expires. `None`: it is malformed.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let current = self.current.0.load();
        leaf_certificate::validity(current.cert.first()?).map(|(_, until)| until)
    }

    pub async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }
}

fn read_certified_key(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let at = |path: &Path, problem: String| TlsError::File { path: path.to_owned(), problem };
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| at(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(at(certificate, "contains no PEM certificate".to_owned()));
    }
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, error.to_string()))?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    CertifiedKey::from_der(chain, key_der, &provider).map_err(TlsError::Pair)
}
