use std::{fs, sync::Arc, time::Duration};

use futures_util::future::join_all;
use http::{HeaderMap, Method};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ringtrue_engine::ports::transport::TlsError;
use ringtrue_operators::client::{
    Client, ClientCertificate, ClientError, ClientResponse, ClientSettings, MAX_BODY_BYTES, TlsConfigError,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{RootCertStore, ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer, server::WebPkiClientVerifier},
};
use tokio_util::task::TaskTracker;
use url::Url;

use super::{
    fake_operator::{
        FakeOperator,
        ScriptedResponse::{self, Json, Plain},
        VERIFY,
    },
    fixture::{Names, short_timeout_client},
};

async fn get(client: &Client, url: &Url) -> Result<ClientResponse, ClientError> {
    client.request(Method::GET, url, HeaderMap::new(), "").await
}

#[tokio::test]
async fn request_is_sent_unchanged_and_response_read_completely() {
    let (operator, client) = (FakeOperator::start().await, short_timeout_client());
    operator.respond("/a", Plain(418, "x-y: z\r\ncontent-encoding: gzip\r\n", vec![b'x'; MAX_BODY_BYTES]));
    let url = Url::parse(&format!("http://op.example:{}/a?b=c%20d", operator.port)).unwrap();
    let headers = HeaderMap::from_iter([(http::header::ACCEPT, "text/plain".parse().unwrap())]);
    let response = client.request(Method::PUT, &url, headers, "body").await.unwrap();
    assert_eq!(
        (response.status, response.headers["x-y"].as_bytes(), response.body.len()),
        (418, &b"z"[..], MAX_BODY_BYTES)
    );
    assert_eq!(format!("{response:?}"), format!("ClientResponse(418, {MAX_BODY_BYTES} bytes)"));

    let request = &operator.requests()[0];
    assert_eq!((&*request.line(), request.text()), ("PUT /a?b=c%20d", "body"));
    let header = |name: &str| request.find_header(name);
    assert_eq!(header("host"), Some(&*format!("op.example:{}", operator.port)));
    assert_eq!((header("accept"), header("accept-encoding")), (Some("text/plain"), None));
    assert!(header("user-agent").unwrap().starts_with("Ringtrue/"));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (operator, client) = (FakeOperator::start().await, short_timeout_client());
    operator.respond("/a", Plain(302, "location: /b\r\n", vec![]));
    assert_eq!(get(&client, &operator.url("/a")).await.unwrap().status, 302);
    assert_eq!(operator.requests().len(), 1);
}

#[tokio::test]
async fn connections_are_reused() {
    let (operator, client) = (FakeOperator::start().await, short_timeout_client());
    operator.respond("/good", Json(200, json!({})));
    operator.respond("/close", Plain(200, "connection: close\r\n", vec![]));
    operator.respond("/large", Plain(200, "", vec![b'x'; 2 * MAX_BODY_BYTES]));
    for (path, connection) in [("/good", 0), ("/good", 0), ("/close", 0), ("/good", 1), ("/large", 1), ("/good", 2)] {
        let _ = get(&client, &operator.url(path)).await;
        assert_eq!(operator.requests().last().unwrap().connection, connection, "{path}");
    }
}

/// Sends enough requests to use up the task's cooperative budget in tokio. The task must then be woken again.
#[tokio::test]
async fn concurrent_requests_of_one_task_complete() {
    let operator = FakeOperator::start().await;
    let client = Client::with_resolver(&ClientSettings::default(), Arc::new(Names)).unwrap();
    operator.respond("/good", Json(200, json!({})));
    let url = operator.url("/good");
    for _ in 0..3 {
        let answers = join_all((0..200).map(|_| get(&client, &url))).await;
        let lost: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
        assert_eq!(lost, []);
    }
}

#[tokio::test]
async fn sent_request_is_not_retried() {
    let (operator, client) = (FakeOperator::start().await, short_timeout_client());
    operator.respond_in_order(VERIFY, vec![Json(200, json!({})), ScriptedResponse::HangUp, Json(200, json!({}))]);
    assert!(get(&client, &operator.url(VERIFY)).await.is_ok());
    // The server receives the next request on the pooled connection, and then closes the connection.
    assert_eq!(get(&client, &operator.url(VERIFY)).await.err(), Some(ClientError::Lost));
    assert_eq!(operator.requests().len(), 2);
    assert!(get(&client, &operator.url(VERIFY)).await.is_ok());
}

#[tokio::test]
async fn invalid_urls_are_rejected() {
    // The connect timeout is much shorter than the total timeout, so that it reliably ends the last case.
    let settings = ClientSettings { connect_timeout: Duration::from_millis(200), ..ClientSettings::default() };
    let client = Client::with_resolver(&settings, Arc::new(Names)).unwrap();
    for (url, expected) in [
        ("ftp://127.0.0.1/", ClientError::InvalidUrl),
        ("data:,x", ClientError::InvalidUrl),
        ("http://missing.example/", ClientError::Unresolved),
        ("http://empty.example/", ClientError::Unresolved),
        ("http://silent.example/", ClientError::ConnectTimeout),
    ] {
        assert_eq!(get(&client, &Url::parse(url).unwrap()).await.err(), Some(expected), "{url}");
    }
}

/// A certificate authority, with a folder for the files of its certificates.
struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    roots: RootCertStore,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("authority.pem"), certificate.pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key), roots }
    }

    fn identity(&self) -> ClientCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["us".to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let path = |name: &str| self.folder.path().join(name);
        fs::write(path("us.pem"), certificate.pem()).unwrap();
        fs::write(path("us.key"), key.serialize_pem()).unwrap();
        ClientCertificate { certificates: path("us.pem"), key: path("us.key") }
    }

    /// Starts a server that requires a client certificate, and returns its port.
    async fn serve(&self) -> u16 {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["op.example".to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots.clone()), provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let recorder = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = recorder.local_addr().unwrap().port();
        TaskTracker::new().spawn(async move {
            loop {
                let (stream, _) = recorder.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let _ = stream.read(&mut [0; 4_096]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                let _ = stream.shutdown().await;
            }
        });
        port
    }

    fn settings(&self, identity: Option<ClientCertificate>) -> ClientSettings {
        let ca_file = Some(self.folder.path().join("authority.pem"));
        ClientSettings { ca_file, identity, ..ClientSettings::default() }
    }
}

#[tokio::test]
async fn mutual_tls_authenticates_both_sides() {
    let authority = Authority::new();
    let port = authority.serve().await;
    let url = Url::parse(&format!("https://op.example:{port}/")).unwrap();
    let other = Url::parse(&format!("https://other.example:{port}/")).unwrap();
    let client = |settings: &ClientSettings| Client::with_resolver(settings, Arc::new(Names)).unwrap();

    let ours = client(&authority.settings(Some(authority.identity())));
    assert_eq!(get(&ours, &url).await.unwrap().status, 200);
    assert_eq!(get(&ours, &other).await.err(), Some(ClientError::Tls(TlsError::CertificateWrongHost)));
    let without_identity = client(&authority.settings(None));
    assert!(get(&without_identity, &url).await.is_err());
    let without_root = client(&ClientSettings { identity: Some(authority.identity()), ..ClientSettings::default() });
    assert_eq!(get(&without_root, &url).await.err(), Some(ClientError::Tls(TlsError::CertificateUntrusted)));

    let mut missing = authority.identity();
    missing.key = authority.folder.path().join("missing.key");
    let made = Client::new(&authority.settings(Some(missing)));
    assert!(matches!(made, Err(TlsConfigError::ClientCertificate(_))));
}
