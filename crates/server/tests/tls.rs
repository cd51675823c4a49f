//! TLS on the public listener, and certificate reload.

#![expect(clippy::unwrap_used, reason = "tests panic on failure")]

use std::{net::SocketAddr, path::Path, sync::Arc};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use ringtrue_engine::{
    accounts::PasswordCosts,
    keys::MasterKey,
    ports::{clock::SystemClock, entropy::SystemEntropy},
};
use ringtrue_server::{
    config::{self, Environment, TlsFiles},
    wiring::{self, NodeDependencies, RunningNode},
};
use ringtrue_store::{StoreOptions, StoreUrl};
use ringtrue_test_support::database::Database;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// Creates a certificate, writes it to the server's files, and returns it as a trust anchor.
fn certify(folder: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("certificate.pem"), cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
    cert.der().clone()
}

async fn start(database: &Database, folder: &Path, shutdown: &CancellationToken) -> RunningNode {
    let settings = [("RINGTRUE_HTTP__LISTEN", "127.0.0.1:0"), ("RINGTRUE_METRICS__LISTEN", "off")];
    let mut config = config::load(None, &settings.into_iter().collect::<Environment>()).unwrap().config;
    let url: StoreUrl = database.address().parse().unwrap();
    config.store.url = url.clone();
    config.http.tls = Some(TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") });
    let entropy = SystemEntropy::default();
    let dependencies = NodeDependencies {
        config,
        store: ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap(),
        master: MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap(),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
        password_costs: PasswordCosts::default(),
        development: None,
        periodic_heartbeats: true,
    };
    wiring::start(dependencies, shutdown.clone()).await.unwrap()
}

/// Requests `/livez` over TLS with one trusted certificate. Returns the status line or the handshake error.
async fn get_status_line(address: SocketAddr, trusted: &CertificateDer<'static>) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream =
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| error.to_string())?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.map_err(|error| error.to_string())?;
    Ok(response.lines().next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn certificate_is_reloaded_without_a_restart() {
    let database = Database::sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let shutdown = CancellationToken::new();
    let first = certify(folder.path());
    let node = start(&database, folder.path(), &shutdown).await;
    assert!(node.base_url.starts_with("https://"), "{}", node.base_url);
    assert_eq!(get_status_line(node.address, &first).await.as_deref(), Ok("HTTP/1.1 200 OK"));

    let second = certify(folder.path());
    assert!(get_status_line(node.address, &second).await.is_err(), "files are only read on reload");
    node.reload(Err(anyhow::anyhow!("no configuration file"))).await;
    assert_eq!(get_status_line(node.address, &second).await.as_deref(), Ok("HTTP/1.1 200 OK"));
    assert!(get_status_line(node.address, &first).await.is_err(), "the old certificate is replaced");

    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    node.reload(Err(anyhow::anyhow!("no configuration file"))).await;
    assert_eq!(
        get_status_line(node.address, &second).await.as_deref(),
        Ok("HTTP/1.1 200 OK"),
        "an invalid key file has no effect"
    );

    shutdown.cancel();
    node.wait_until_stopped().await;
}

#[tokio::test]
async fn plain_http_on_the_tls_port_is_rejected() {
    let database = Database::sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let shutdown = CancellationToken::new();
    let certificate = certify(folder.path());
    let node = start(&database, folder.path(), &shutdown).await;
    let mut plain = TcpStream::connect(node.address).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut response = vec![];
    let _ = plain.read_to_end(&mut response).await;
    assert!(!response.starts_with(b"HTTP/1.1 200"));
    assert_eq!(get_status_line(node.address, &certificate).await.as_deref(), Ok("HTTP/1.1 200 OK"));
    shutdown.cancel();
    node.wait_until_stopped().await;
}
