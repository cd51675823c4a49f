use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PKCS_RSA_SHA256, date_time_ymd,
};
use ringtrue_engine::ports::{clock::ManualClock, transport::TlsError};
use ringtrue_operators::outbound::{CertificateClock, Outbound, OutboundSettings, TlsConfigError};
use ringtrue_test_support::http_server::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer},
};

use super::{ScriptedResolver, allowing, post};

const HOST: &str = "receiver.example";

/// Issues a certificate that is valid from 2019 on.
fn issued_certificate(
    name: &str,
    issuer: &Issuer<'_, KeyPair>,
    change: impl FnOnce(&mut CertificateParams),
) -> (Certificate, KeyPair) {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(2019, 1, 1);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap(), key)
}

/// A certificate authority, and a callback receiver with a certificate.
struct TlsFixture {
    _folder: tempfile::TempDir,
    authority: PathBuf,
    receiver: TestServer,
}

impl TlsFixture {
    /// Starts a receiver with a certificate that the authority issued.
    async fn new(name: &str) -> TlsFixture {
        TlsFixture::with(|issuer| issued_certificate(name, issuer, |_| {})).await
    }

    async fn with(certify: impl FnOnce(&Issuer<'_, KeyPair>) -> (Certificate, KeyPair)) -> TlsFixture {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // By default, all certificates have the same name. The authority needs its own.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let authority_key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&authority_key).unwrap();
        let (certificate, key) = certify(&Issuer::new(params, authority_key));

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
        let ca_file = trusts_it.then(|| self.authority.clone());
        let settings = OutboundSettings { ca_file, ..allowing(&["127.0.0.1/32"]) };
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
async fn rejected_certificate_is_named() {
    type Change = fn(&mut CertificateParams);
    let nothing: Change = |_| {};
    for (name, change, expected) in [
        (HOST, (|params| params.not_after = date_time_ymd(2020, 1, 2)) as Change, TlsError::CertificateExpired),
        (HOST, |params| params.not_before = date_time_ymd(4000, 1, 1), TlsError::CertificateNotYetValid),
        ("other.example", nothing, TlsError::CertificateWrongHost),
        (
            HOST,
            |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            TlsError::CertificateInvalid,
        ),
    ] {
        let fixture = TlsFixture::with(|issuer| issued_certificate(name, issuer, change)).await;
        assert_eq!(post(&fixture.client(true), &fixture.url(HOST)).await, Err(expected.into()));
    }
    let unknown_issuer = TlsFixture::new(HOST).await;
    let untrusted = Err(TlsError::CertificateUntrusted.into());
    assert_eq!(post(&unknown_issuer.client(false), &unknown_issuer.url(HOST)).await, untrusted);
    // A self-signed certificate is rejected with and without the CA flag, which `openssl req -x509` sets.
    for is_ca in [IsCa::ExplicitNoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let fixture = TlsFixture::with(|_| {
            let mut params = CertificateParams::new([HOST.to_owned()]).unwrap();
            params.is_ca = is_ca;
            let key = KeyPair::generate().unwrap();
            (params.self_signed(&key).unwrap(), key)
        });
        let fixture = fixture.await;
        assert_eq!(post(&fixture.client(true), &fixture.url(HOST)).await, untrusted);
    }
}

/// Each case is a peer's response to our handshake, with the error that names the problem.
#[tokio::test]
async fn peer_without_our_tls_is_named() {
    let trusting = TlsFixture::new(HOST).await.client(true);
    let alert = |description: u8| vec![0x15, 0x03, 0x01, 0, 2, 2, description];
    // A `ServerHello` of TLS 1.1.
    let old_hello = [&[0x16, 0x03, 0x02, 0, 42, 2, 0, 0, 38, 0x03, 0x02][..], &[7; 32], &[0, 0xc0, 0x13, 0]].concat();
    for (response, expected) in [
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_vec(), TlsError::NotTls),
        (b"<html>The plain HTTP request was sent to HTTPS port".to_vec(), TlsError::NotTls),
        (b"220 mail.example ESMTP\r\n".to_vec(), TlsError::NotTls),
        (b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), TlsError::NotTls),
        (alert(70), TlsError::TlsVersion),
        (old_hello, TlsError::TlsVersion),
        (alert(40), TlsError::Handshake),
    ] {
        let shown = String::from_utf8_lossy(&response).into_owned();
        let peer = TestServer::start("127.0.0.1:0", move |mut stream, _| {
            let response = response.clone();
            async move {
                // The whole handshake message is read, because closing with unread bytes sends a reset.
                let mut hello = [0; 4_096];
                let _ = stream.read(&mut hello).await;
                let _ = stream.write_all(&response).await;
                let _ = stream.shutdown().await;
                while matches!(stream.read(&mut hello).await, Ok(1..)) {}
            }
        })
        .await;
        let url = format!("https://{HOST}:{}/", peer.port);
        assert_eq!(post(&trusting, &url).await, Err(expected.into()), "{shown:?}");
    }
}

/// A running `openssl s_server`, which stops when this is dropped.
struct OpenSsl(Child);

impl OpenSsl {
    /// Starts `openssl s_server` and returns its port.
    fn start(folder: &Path, arguments: &[&str]) -> (Self, u16) {
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
        let certificate = CertificateParams::new([HOST.to_owned()]).unwrap().self_signed(&key).unwrap();
        fs::write(folder.join("certificate.pem"), certificate.pem()).unwrap();
        fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        let mut server = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-cert", "certificate.pem", "-key", "key.pem"])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("openssl, which `make test` installs: {error}"));
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let server = OpenSsl(server);
        let address = lines.into_iter().find_map(|line| line.strip_prefix("ACCEPT ").map(str::to_owned)).unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        (server, port.parse().unwrap())
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn old_tls_version_of_openssl_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let client = TlsFixture::new(HOST).await.client(true);
    for (arguments, expected) in [
        (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"][..], TlsError::TlsVersion),
        (&["-tls1_2"], TlsError::CertificateUntrusted),
        (&["-tls1_3"], TlsError::CertificateUntrusted),
    ] {
        let (_server, port) = OpenSsl::start(folder.path(), arguments);
        let url = format!("https://{HOST}:{port}/");
        assert_eq!(post(&client, &url).await, Err(expected.into()), "{arguments:?}");
    }
}

#[tokio::test]
async fn certificate_expiry_uses_the_given_clock() {
    let fixture = TlsFixture::new("receiver.example").await;
    for (now, is_reached) in [("2026-11-14T09:30:00Z", true), ("5000-01-01T00:00:00Z", false)] {
        let settings = OutboundSettings {
            ca_file: Some(fixture.authority.clone()),
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
    let with =
        |path: PathBuf| Outbound::new(OutboundSettings { ca_file: Some(path), ..OutboundSettings::default() }).err();
    assert!(matches!(with(empty), Some(TlsConfigError::InvalidExtraRoot)));
    assert!(matches!(with(folder.path().join("missing.pem")), Some(TlsConfigError::ExtraRoots(_))));
}
