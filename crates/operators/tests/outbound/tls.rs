use std::{fs, path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ringtrue_engine::ports::{ManualClock, TransportError};
use ringtrue_operators::outbound::{CertificateClock, Outbound, OutboundSettings, TlsConfigError};
use ringtrue_test_support::http_server::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer},
};

use super::{ScriptedResolver, allowing, post};

/// A certificate authority, and a callback receiver with a certificate from it.
struct TlsFixture {
    _folder: tempfile::TempDir,
    authority: PathBuf,
    receiver: TestServer,
}

impl TlsFixture {
    async fn new(name: &str) -> TlsFixture {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authority.pem");
        fs::write(&path, authority.pem()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let receiver = TestServer::start("127.0.0.1:0", move |stream, _| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = [0; 4_096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
                let _ = stream.shutdown().await;
            }
        })
        .await;
        TlsFixture { _folder: folder, authority: path, receiver }
    }

    fn client(&self, trusts_it: bool) -> Outbound {
        let extra_roots = trusts_it.then(|| self.authority.clone());
        let settings = OutboundSettings { extra_roots, ..allowing(&["127.0.0.1/32"]) };
        Outbound::with_resolver(settings, ScriptedResolver::of(&[&["127.0.0.1"]])).unwrap()
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/hook", self.receiver.port)
    }
}

#[tokio::test]
async fn trusted_certificate_is_accepted() {
    let fixture = TlsFixture::new("receiver.example").await;
    assert_eq!(post(&fixture.client(true), &fixture.url("receiver.example")).await.unwrap().status, 200);

    let by_address = TlsFixture::new("127.0.0.1").await;
    assert_eq!(post(&by_address.client(true), &by_address.url("127.0.0.1")).await.unwrap().status, 200);
}

#[tokio::test]
async fn untrusted_or_mismatched_certificate_is_rejected() {
    let fixture = TlsFixture::new("receiver.example").await;
    assert_eq!(post(&fixture.client(false), &fixture.url("receiver.example")).await, Err(TransportError::Tls));
    assert_eq!(post(&fixture.client(true), &fixture.url("other.example")).await, Err(TransportError::Tls));

    let plain = TestServer::start("127.0.0.1:0", |mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let url = format!("https://receiver.example:{}/", plain.port);
    assert_eq!(post(&fixture.client(true), &url).await, Err(TransportError::Tls));
}

#[tokio::test]
async fn certificate_expiry_uses_the_given_clock() {
    let fixture = TlsFixture::new("receiver.example").await;
    for (now, is_reached) in [("2026-11-14T09:30:00Z", true), ("5000-01-01T00:00:00Z", false)] {
        let settings = OutboundSettings {
            extra_roots: Some(fixture.authority.clone()),
            certificate_clock: CertificateClock(Arc::new(ManualClock::at(now.parse().unwrap()))),
            ..allowing(&["127.0.0.1/32"])
        };
        let client = Outbound::with_resolver(settings, ScriptedResolver::of(&[&["127.0.0.1"]])).unwrap();
        assert_eq!(post(&client, &fixture.url("receiver.example")).await.is_ok(), is_reached, "{now}");
    }
}

#[test]
fn invalid_root_file_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    fs::write(&empty, "nothing").unwrap();
    let with = |path: PathBuf| {
        Outbound::new(OutboundSettings { extra_roots: Some(path), ..OutboundSettings::default() }).err()
    };
    assert!(matches!(with(empty), Some(TlsConfigError::InvalidExtraRoot)));
    assert!(matches!(with(folder.path().join("missing.pem")), Some(TlsConfigError::ExtraRoots(_))));
}
