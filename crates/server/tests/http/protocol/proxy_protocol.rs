//! The PROXY protocol with trusted proxies and untrusted peers.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use ringtrue_server::config::{Config, TlsFiles};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::TlsConnector;

use crate::{
    client::{Request, read_until_closed, token_request, try_parse},
    world::World,
};

const PROXY: &str = "127.0.0.1";
const UNTRUSTED: &str = "127.0.0.2";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Permits one wrong secret per minute for each client and address. The response to a second one then reveals whether
/// both requests counted for the same address.
fn behind_a_proxy(config: &mut Config) {
    config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap(), "192.0.2.0/24".parse().unwrap()];
    config.http.proxy_protocol = true;
    config.rate_limits.failed_logins = 1;
}

/// Builds the PROXY protocol header for a client.
fn proxied(client: &str) -> Vec<u8> {
    match client.parse().unwrap() {
        std::net::IpAddr::V4(client) => {
            [SIGNATURE, &[0x21, 0x11, 0, 12], &client.octets(), &[127, 0, 0, 1], &[0x1f, 0x90, 0, 80]].concat()
        }
        std::net::IpAddr::V6(client) => {
            [SIGNATURE, &[0x21, 0x21, 0, 36], &client.octets(), &[0; 16], &[0x1f, 0x90, 0, 80]].concat()
        }
    }
}

fn local() -> Vec<u8> {
    [SIGNATURE, &[0x20, 0, 0, 0]].concat()
}

pub async fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    socket.connect(to).await.unwrap()
}

/// Returns the status of the response, or `None` if the connection is closed without one.
async fn status_of(world: &World, from: &str, bytes: &[u8]) -> Option<u16> {
    let mut stream = connect(from, world.node.address).await;
    // Errors are ignored, because the server may close the connection while the client writes.
    let _ = stream.write_all(bytes).await;
    let response = read_until_closed(&mut stream).await;
    try_parse(&response).map(|response| response.status)
}

/// Returns the status of a request that is sent after `header`.
async fn send(world: &World, from: &str, header: &[u8], request: &Request) -> Option<u16> {
    status_of(world, from, &[header, &request.bytes(world.node.address)].concat()).await
}

/// Returns 401 for the first failed login of an address, and 429 for later ones.
async fn failed_login_status(world: &World, from: &str, header: &[u8]) -> Option<u16> {
    send(world, from, header, &token_request(&world.acme.client_id, "wrong", "management")).await
}

#[tokio::test]
async fn proxy_header_sets_the_client_address() {
    let world = World::configured(behind_a_proxy).await;
    for client in ["203.0.113.7", "203.0.113.8", "2001:db8::1"] {
        assert_eq!(failed_login_status(&world, PROXY, &proxied(client)).await, Some(401), "{client}");
        assert_eq!(failed_login_status(&world, PROXY, &proxied(client)).await, Some(429), "{client}");
    }
    // A request of the proxy itself, such as a health check, counts for the proxy's address.
    assert_eq!(failed_login_status(&world, PROXY, &local()).await, Some(401));
    assert_eq!(failed_login_status(&world, PROXY, &local()).await, Some(429));
    assert_eq!(failed_login_status(&world, UNTRUSTED, &[]).await, Some(401), "other addresses are not throttled");
}

#[tokio::test]
async fn forwarded_for_of_a_proxied_client_is_ignored() {
    let world = World::configured(behind_a_proxy).await;
    let forwarded =
        |address: &str| token_request(&world.acme.client_id, "wrong", "management").header("X-Forwarded-For", address);
    let client = proxied("203.0.113.7");
    assert_eq!(send(&world, PROXY, &client, &forwarded("203.0.113.9")).await, Some(401));
    assert_eq!(
        send(&world, PROXY, &client, &forwarded("203.0.113.10")).await,
        Some(429),
        "the forwarded address is ignored"
    );
    // If the PROXY header names another trusted proxy, the client's address comes from `X-Forwarded-For`.
    let inner = proxied("192.0.2.1");
    assert_eq!(send(&world, PROXY, &inner, &forwarded("203.0.113.9")).await, Some(401));
    assert_eq!(send(&world, PROXY, &inner, &forwarded("203.0.113.10")).await, Some(401));
    assert_eq!(send(&world, PROXY, &inner, &forwarded("203.0.113.7")).await, Some(429));
}

#[tokio::test]
async fn trusted_proxy_must_send_a_header() {
    let world = World::configured(behind_a_proxy).await;
    let request = Request::get("/livez");
    let mut udp = proxied("203.0.113.7");
    udp[13] = 0x12;
    let mut short = proxied("203.0.113.7");
    short[15] = 11;
    for header in [vec![], b"PROXY TCP4 203.0.113.7 127.0.0.1 8080 80\r\n".to_vec(), udp, short] {
        assert_eq!(send(&world, PROXY, &header, &request).await, None, "{header:x?}");
    }
    assert_eq!(send(&world, PROXY, &proxied("203.0.113.7"), &request).await, Some(200));
}

#[tokio::test]
async fn header_from_an_untrusted_peer_is_rejected() {
    let world = World::configured(behind_a_proxy).await;
    assert_eq!(send(&world, UNTRUSTED, &[], &Request::get("/livez")).await, Some(200));
    let status = failed_login_status(&world, UNTRUSTED, &proxied("203.0.113.7")).await;
    assert_ne!(status, Some(401), "the header of an untrusted peer is not accepted");
    assert_eq!(
        failed_login_status(&world, PROXY, &proxied("203.0.113.7")).await,
        Some(401),
        "the first failed login of this client"
    );
}

#[tokio::test]
async fn header_is_rejected_when_the_proxy_protocol_is_off() {
    let world = World::configured(|config| {
        behind_a_proxy(config);
        config.http.proxy_protocol = false;
    })
    .await;
    assert_eq!(send(&world, PROXY, &[], &Request::get("/livez")).await, Some(200));
    assert_ne!(send(&world, PROXY, &proxied("203.0.113.7"), &Request::get("/livez")).await, Some(200));
}

#[tokio::test]
async fn missing_proxy_header_times_out() {
    let world = World::configured(|config| {
        behind_a_proxy(config);
        config.http.header_timeout = Duration::from_millis(300);
    })
    .await;
    for start in [&b""[..], &SIGNATURE[..5], &proxied("203.0.113.7")[..20]] {
        assert_eq!(status_of(&world, PROXY, start).await, None);
    }
}

#[tokio::test]
async fn connections_are_counted_by_client_address() {
    let world = World::configured(|config| {
        behind_a_proxy(config);
        config.http.max_connections_per_address = 1;
    })
    .await;
    let mut first = connect(PROXY, world.node.address).await;
    let request = Request::get("/livez").header("Connection", "keep-alive").bytes(world.node.address);
    first.write_all(&[&proxied("203.0.113.7")[..], &request].concat()).await.unwrap();
    assert_ne!(first.read(&mut [0; 1024]).await.unwrap(), 0, "the first connection is served");
    assert_eq!(send(&world, PROXY, &proxied("203.0.113.7"), &Request::get("/livez")).await, None);
    assert_eq!(send(&world, PROXY, &proxied("203.0.113.8"), &Request::get("/livez")).await, Some(200));
}

#[tokio::test]
async fn proxy_header_precedes_tls() {
    let folder = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificate: folder.path().join("certificate.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&files.certificate, cert.pem()).unwrap();
    std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
    let world = World::configured(|config| {
        behind_a_proxy(config);
        config.http.tls = Some(files);
    })
    .await;
    let failed_login = token_request(&world.acme.client_id, "wrong", "management").bytes(world.node.address);
    for (from, header, status) in [
        (PROXY, proxied("203.0.113.7"), Some(401)),
        (PROXY, proxied("203.0.113.7"), Some(429)),
        (PROXY, proxied("203.0.113.8"), Some(401)),
        (PROXY, vec![], None),
        (UNTRUSTED, vec![], Some(401)),
        (UNTRUSTED, proxied("203.0.113.9"), None),
    ] {
        let mut stream = connect(from, world.node.address).await;
        stream.write_all(&header).await.unwrap();
        assert_eq!(status_over_tls(stream, cert.der(), &failed_login).await, status, "{from} {header:x?}");
    }
}

/// Returns the status of the response over TLS, or `None` if the connection is closed without one.
async fn status_over_tls(stream: TcpStream, trusted: &CertificateDer<'static>, bytes: &[u8]) -> Option<u16> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    stream.write_all(bytes).await.ok()?;
    let mut response = vec![];
    stream.read_to_end(&mut response).await.ok()?;
    try_parse(&response).map(|response| response.status)
}
