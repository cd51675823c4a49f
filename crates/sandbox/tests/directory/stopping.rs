use ringtrue_sandbox::directory::{Directory, DirectoryConfig};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::{SECRET, directory, wire::hlr_address};

#[tokio::test]
async fn a_directory_that_stops_gives_its_ports_back() {
    let directory = directory(|_| {}).await;
    let (dns, hlr) = (directory.dns_address().unwrap(), hlr_address(&directory));
    let mut idle = TcpStream::connect(dns).await.unwrap();
    directory.shutdown().await;
    assert_eq!(idle.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(dns).await.is_err() && TcpStream::connect(hlr).await.is_err());
    assert!(UdpSocket::bind(dns).await.is_ok());
    // Once more does no harm.
    directory.shutdown().await;
}

#[tokio::test]
async fn a_directory_answers_where_it_is_told_to_and_nowhere_else() {
    let by_dns = directory(|config| config.hlr_listen = None).await;
    assert!(by_dns.dns_address().is_some() && by_dns.hlr_url().is_none());
    let by_http = directory(|config| config.enum_listen = None).await;
    assert!(by_http.dns_address().is_none() && by_http.hlr_url().is_some());
}

#[tokio::test]
async fn a_port_that_somebody_has_is_not_taken() {
    let taken = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let enum_listen = Some(taken.local_addr().unwrap());
    assert!(Directory::start(DirectoryConfig { enum_listen, ..DirectoryConfig::default() }).await.is_err());
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hlr_listen = Some(taken.local_addr().unwrap());
    assert!(Directory::start(DirectoryConfig { hlr_listen, ..DirectoryConfig::default() }).await.is_err());
}

#[tokio::test]
async fn connections_above_the_limit_are_closed() {
    let directory = directory(|config| config.connections = 0).await;
    for address in [directory.dns_address().unwrap(), hlr_address(&directory)] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn neither_numbers_nor_the_secret_are_shown() {
    let shown = format!("{:?}", directory(|_| {}).await);
    assert!(!shown.contains("77009") && !shown.contains(SECRET), "{shown}");
}
