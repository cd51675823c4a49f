//! TLS on the public listener, and a certificate that is replaced while it runs.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "http/database.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod database;

use std::{net::SocketAddr, path::Path, sync::Arc};

use database::Database;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use ringtrue_engine::{
    keys::MasterKey,
    ports::{SystemClock, SystemEntropy},
};
use ringtrue_server::{
    config::{self, Environment, TlsFiles},
    wiring::{self, Assembly, Running},
};
use ringtrue_store::{StoreOptions, StoreUrl};
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

/// Makes a certificate, writes it where the server looks, and gives it to be trusted.
fn certify(folder: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("certificate.pem"), cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
    cert.der().clone()
}

async fn start(database: &Database, folder: &Path, shutdown: &CancellationToken) -> Running {
    let settings = [("RINGTRUE_HTTP__LISTEN", "127.0.0.1:0"), ("RINGTRUE_METRICS__LISTEN", "off")];
    let mut config = config::load(None, &settings.into_iter().collect::<Environment>()).unwrap().config;
    let url: StoreUrl = database.address().parse().unwrap();
    config.store.url = url.clone();
    config.http.tls = Some(TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") });
    let entropy = SystemEntropy::default();
    let assembly = Assembly {
        config,
        store: ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap(),
        master: MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap(),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
    };
    wiring::start(assembly, shutdown.clone()).await.unwrap()
}

/// Asks for `/livez` over TLS, trusting one certificate. The status line, or why the handshake failed.
async fn ask(address: SocketAddr, trusted: &CertificateDer<'static>) -> Result<String, String> {
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
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(|error| error.to_string())?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_certificate_is_replaced_without_a_restart() {
    let database = Database::sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let shutdown = CancellationToken::new();
    let first = certify(folder.path());
    let node = start(&database, folder.path(), &shutdown).await;
    assert!(node.base_url.starts_with("https://"), "{}", node.base_url);
    assert_eq!(ask(node.address, &first).await.as_deref(), Ok("HTTP/1.1 200 OK"));

    let second = certify(folder.path());
    assert!(ask(node.address, &second).await.is_err(), "not read yet");
    node.reload(Err(anyhow::anyhow!("there is no file"))).await;
    assert_eq!(ask(node.address, &second).await.as_deref(), Ok("HTTP/1.1 200 OK"));
    assert!(ask(node.address, &first).await.is_err(), "the old one is gone");

    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    node.reload(Err(anyhow::anyhow!("there is no file"))).await;
    assert_eq!(ask(node.address, &second).await.as_deref(), Ok("HTTP/1.1 200 OK"), "a broken file changes nothing");

    shutdown.cancel();
    node.finished().await;
}

#[tokio::test]
async fn plain_http_on_the_tls_port_harms_nobody() {
    let database = Database::sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let shutdown = CancellationToken::new();
    let certificate = certify(folder.path());
    let node = start(&database, folder.path(), &shutdown).await;
    let mut plain = TcpStream::connect(node.address).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = vec![];
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(ask(node.address, &certificate).await.as_deref(), Ok("HTTP/1.1 200 OK"));
    shutdown.cancel();
    node.finished().await;
}
