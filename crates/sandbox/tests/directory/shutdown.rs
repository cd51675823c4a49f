use ringtrue_sandbox::directory::{Directory, DirectoryConfig};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::{SECRET, clients::hlr_address, start_directory};

#[tokio::test]
async fn shutdown_releases_the_ports() {
    let directory = start_directory(|_| {}).await;
    let (dns, hlr) = (directory.dns_address().unwrap(), hlr_address(&directory));
    let mut idle = TcpStream::connect(dns).await.unwrap();
    directory.shutdown().await;
    assert_eq!(idle.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(dns).await.is_err() && TcpStream::connect(hlr).await.is_err());
    assert!(UdpSocket::bind(dns).await.is_ok());
    // A second shutdown has no effect.
    directory.shutdown().await;
}

#[tokio::test]
async fn listeners_are_optional() {
    let enum_only = start_directory(|config| config.hlr_listen = None).await;
    assert!(enum_only.dns_address().is_some() && enum_only.hlr_url().is_none());
    let hlr_only = start_directory(|config| config.enum_listen = None).await;
    assert!(hlr_only.dns_address().is_none() && hlr_only.hlr_url().is_some());
}

#[tokio::test]
async fn used_port_is_an_error() {
    let used = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let enum_listen = Some(used.local_addr().unwrap());
    assert!(Directory::start(DirectoryConfig { enum_listen, ..DirectoryConfig::default() }).await.is_err());
    let used = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hlr_listen = Some(used.local_addr().unwrap());
    assert!(Directory::start(DirectoryConfig { hlr_listen, ..DirectoryConfig::default() }).await.is_err());
}

#[tokio::test]
async fn connections_above_the_limit_are_closed() {
    let directory = start_directory(|config| config.max_connections = 0).await;
    for address in [directory.dns_address().unwrap(), hlr_address(&directory)] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn debug_hides_numbers_and_the_secret() {
    let shown = format!("{:?}", start_directory(|_| {}).await);
    assert!(!shown.contains("77009") && !shown.contains(SECRET), "{shown}");
}
