use std::time::Duration;

use ringtrue_sandbox::directory::{Directory, DirectoryConfig, DirectoryFault, EnumFault, HlrFault};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    time::Instant,
};

use crate::{
    SECRET,
    clients::{
        DnsResponse, NAPTR, REFUSED, SERVER_FAILURE, dns_query, enum_name, hlr_address, hlr_request, query_tcp,
        query_udp, receive_tcp, send_tcp,
    },
    start_directory,
};

const HLR_REQUEST: &str = "GET /hlr?number=447700900123";

fn enum_query() -> Vec<u8> {
    dns_query(&enum_name("+447700900123", "e164.arpa"), NAPTR)
}

fn regular_response() -> DnsResponse {
    DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!")
}

#[tokio::test]
async fn enum_faults_apply_until_cleared() {
    let directory = start_directory(|_| {}).await;
    let truncated = DnsResponse { is_truncated: true, ..DnsResponse::code_only(0) };
    for (fault, in_datagrams, over_streams) in [
        (EnumFault::Truncated, truncated, regular_response()),
        (EnumFault::Refused, DnsResponse::code_only(REFUSED), DnsResponse::code_only(REFUSED)),
        (EnumFault::ServerFailure, DnsResponse::code_only(SERVER_FAILURE), DnsResponse::code_only(SERVER_FAILURE)),
    ] {
        directory.set_fault(DirectoryFault::Enum(fault));
        assert_eq!(query_udp(&directory, &enum_query()).await, in_datagrams, "{fault:?}");
        assert_eq!(query_tcp(&directory, &enum_query()).await, over_streams, "{fault:?}");
        directory.clear_faults();
        assert_eq!(query_udp(&directory, &enum_query()).await, regular_response(), "{fault:?}");
    }
}

#[tokio::test]
async fn enum_queries_without_response_are_counted() {
    let directory = start_directory(|_| {}).await;
    directory.set_fault(DirectoryFault::Enum(EnumFault::NoResponse));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(directory.dns_address().unwrap()).await.unwrap();
    socket.send(&enum_query()).await.unwrap();
    let mut stream = TcpStream::connect(directory.dns_address().unwrap()).await.unwrap();
    send_tcp(&mut stream, &enum_query()).await;
    directory.wait_until(|counts| (counts.udp_queries, counts.tcp_queries) == (1, 1)).await;

    directory.clear_faults();
    socket.send(&enum_query()).await.unwrap();
    send_tcp(&mut stream, &enum_query()).await;
    assert_eq!(receive_tcp(&mut stream, &enum_query()).await, regular_response());
    let mut response = [0; 512];
    let length = socket.recv(&mut response).await.unwrap();
    assert_eq!(DnsResponse::parse(&enum_query(), &response[..length]), regular_response());
    assert!(socket.try_recv(&mut response).is_err(), "the earlier query gets no response");
}

#[tokio::test]
async fn enum_responses_are_delayed() {
    let delay = Duration::from_millis(50);
    let directory = start_directory(|_| {}).await;
    directory.set_fault(DirectoryFault::Enum(EnumFault::Delayed(delay)));
    let started = Instant::now();
    assert_eq!(query_udp(&directory, &enum_query()).await, regular_response());
    assert!(started.elapsed() >= delay);
    let started = Instant::now();
    assert_eq!(query_tcp(&directory, &enum_query()).await, regular_response());
    assert!(started.elapsed() >= delay);
}

#[tokio::test]
async fn hlr_faults_apply_until_cleared() {
    let directory = start_directory(|config| config.hlr_secret = None).await;
    let regular = hlr_request(&directory, HLR_REQUEST, None).await;

    directory.set_fault(DirectoryFault::Hlr(HlrFault::InternalError));
    assert_eq!(hlr_request(&directory, HLR_REQUEST, None).await.status, 500);
    directory.set_fault(DirectoryFault::Hlr(HlrFault::TooManyRequests { retry_after: 17 }));
    let busy = hlr_request(&directory, HLR_REQUEST, None).await;
    assert_eq!(busy.status, 429);
    assert!(busy.head.contains("retry-after: 17"), "{busy:?}");
    directory.set_fault(DirectoryFault::Hlr(HlrFault::GarbledBody));
    let garbage = hlr_request(&directory, HLR_REQUEST, None).await;
    assert_eq!((garbage.status, garbage.body), (200, "}".repeat(regular.body.len())));
    // HLR faults do not affect ENUM.
    assert_eq!(query_udp(&directory, &enum_query()).await, self::regular_response());

    directory.clear_faults();
    assert_eq!(hlr_request(&directory, HLR_REQUEST, None).await.body, regular.body);
}

#[tokio::test]
async fn hanging_hlr_keeps_the_connection_open() {
    let directory = start_directory(|config| config.hlr_secret = None).await;
    directory.set_fault(DirectoryFault::Hlr(HlrFault::Hang));
    let mut stream = TcpStream::connect(hlr_address(&directory)).await.unwrap();
    stream.write_all(format!("{HLR_REQUEST} HTTP/1.1\r\nhost: hlr\r\n\r\n").as_bytes()).await.unwrap();
    directory.wait_until(|counts| counts.hlr_requests == 1).await;
    assert!(stream.try_read(&mut [0]).is_err(), "neither a response nor a close");
    directory.shutdown().await;
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}

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
