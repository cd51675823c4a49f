use ringtrue_sandbox::directory::{Directory, DirectoryConfig, RecordStyle};
use tokio::net::{TcpStream, UdpSocket};

use crate::{
    clients::{
        DnsResponse, FORMAT_ERROR, NAPTR, NOT_IMPLEMENTED, NXDOMAIN, REFUSED, dns_query, enum_name, query_tcp,
        query_udp, receive_tcp, send_tcp, with_edns,
    },
    start_directory,
};

const ZONE: &str = "e164.arpa";

async fn assert_resolves(directory: &Directory, name: &str, record_type: u16, expected: &DnsResponse) {
    let query = dns_query(name, record_type);
    assert_eq!(query_udp(directory, &query).await, *expected, "{name} over UDP");
    assert_eq!(query_tcp(directory, &query).await, *expected, "{name} over TCP");
}

#[tokio::test]
async fn assigned_numbers_have_mcc_and_mnc() {
    let directory = start_directory(|_| {}).await;
    for (number, expected) in [
        ("+447700900123", DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!")),
        ("+447700900124", DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!")),
        // ENUM does not depend on the phone state.
        ("+447700900125", DnsResponse::record(r"!^(.*)$!tel:\1;mcc=310;mnc=012!")),
        ("+447700900126", DnsResponse::no_records(NXDOMAIN)),
        ("+447700900127", DnsResponse::no_records(NXDOMAIN)),
        ("+4477009001234", DnsResponse::no_records(NXDOMAIN)),
        // Names that have no records themselves, but exist because names below them do.
        ("+4477", DnsResponse::no_records(0)),
        ("", DnsResponse::no_records(0)),
    ] {
        assert_resolves(&directory, &enum_name(number, ZONE), NAPTR, &expected).await;
    }
    let counts = directory.counts();
    assert_eq!((counts.udp_queries, counts.tcp_queries, counts.hlr_requests), (8, 8, 0));
}

#[tokio::test]
async fn other_names_and_record_types() {
    let directory = start_directory(|_| {}).await;
    let own = enum_name("+447700900123", ZONE);
    let (own, uppercase) = (own.as_str(), own.to_uppercase());
    for (name, record_type, expected) in [
        (own, 255, DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!")),
        (uppercase.as_str(), NAPTR, DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!")),
        (own, 1, DnsResponse::no_records(0)),
        ("www.e164.arpa", NAPTR, DnsResponse::no_records(NXDOMAIN)),
        ("32.1.e164.arpa", NAPTR, DnsResponse::no_records(NXDOMAIN)),
        ("3.2.1.0.0.9.0.0.7.7.4.4.e164.example", NAPTR, DnsResponse::code_only(REFUSED)),
        ("arpa", NAPTR, DnsResponse::code_only(REFUSED)),
        ("", NAPTR, DnsResponse::code_only(REFUSED)),
    ] {
        assert_resolves(&directory, name, record_type, &expected).await;
    }
}

#[tokio::test]
async fn routing_numbers_and_custom_suffix() {
    let directory = start_directory(|config| {
        config.suffix = "e164enum.net.".to_owned();
        config.records = RecordStyle::RoutingNumber;
    })
    .await;
    let ported = "!^.*$!tel:+447700900124;npdi;rn=23410;rn-context=sandbox.invalid;spn=23410!";
    for (number, expected) in [
        ("+447700900123", DnsResponse::record("!^.*$!tel:+447700900123;npdi!")),
        ("+447700900124", DnsResponse::record(ported)),
        ("+447700900126", DnsResponse::no_records(NXDOMAIN)),
    ] {
        assert_resolves(&directory, &enum_name(number, "e164enum.net"), NAPTR, &expected).await;
    }
    assert_resolves(&directory, &enum_name("+447700900123", ZONE), NAPTR, &DnsResponse::code_only(REFUSED)).await;
}

#[tokio::test]
async fn only_ported_numbers_have_records_if_configured() {
    let directory = start_directory(|config| config.ported_only = true).await;
    for (number, expected) in [
        ("+447700900123", DnsResponse::no_records(0)),
        ("+447700900124", DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!")),
        ("+447700900127", DnsResponse::no_records(NXDOMAIN)),
    ] {
        assert_resolves(&directory, &enum_name(number, ZONE), NAPTR, &expected).await;
    }
}

#[tokio::test]
async fn edns_query_gets_edns_response() {
    let directory = start_directory(|_| {}).await;
    let plain = dns_query(&enum_name("+447700900124", ZONE), NAPTR);
    let mut expected = DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!");
    expected.others = vec![41];
    assert_eq!(query_udp(&directory, &with_edns(plain.clone(), 0)).await, expected);
    expected = DnsResponse { others: vec![41], ..DnsResponse::code_only(0) };
    assert_eq!(query_udp(&directory, &with_edns(plain, 1)).await, expected, "unsupported EDNS version");
}

#[tokio::test]
async fn invalid_queries_are_rejected_or_ignored() {
    let directory = start_directory(|_| {}).await;
    let valid = dns_query(&enum_name("+447700900124", ZONE), NAPTR);
    let changed = |at: usize, octet: u8| {
        let mut message = valid.clone();
        message[at] = octet;
        message
    };
    for (message, code) in [
        (changed(2, 0x29), NOT_IMPLEMENTED),
        (changed(5, 2), FORMAT_ERROR),
        (changed(7, 1), FORMAT_ERROR),
        (changed(12, 0xC0), FORMAT_ERROR),
        (valid[..20].to_vec(), FORMAT_ERROR),
        (valid[..12].to_vec(), FORMAT_ERROR),
    ] {
        let response = query_udp_raw(&directory, &message).await;
        assert_eq!((response[2] & 0x80, response[3] & 15, &response[4..12]), (0x80, code, &[0; 8][..]), "{message:?}");
    }
    // Truncated headers and responses are ignored; the next query is answered.
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(directory.dns_address().unwrap()).await.unwrap();
    for message in [&[][..], &valid[..11], &changed(2, 0x81), &valid] {
        socket.send(message).await.unwrap();
    }
    let mut response = [0; 512];
    let length = socket.recv(&mut response).await.unwrap();
    assert_eq!(DnsResponse::parse(&valid, &response[..length]), DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!"));
}

async fn query_udp_raw(directory: &Directory, message: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(message, directory.dns_address().unwrap()).await.unwrap();
    let mut response = vec![0; 512];
    let length = socket.recv(&mut response).await.unwrap();
    response.truncate(length);
    response
}

#[tokio::test]
async fn connection_serves_several_queries() {
    let directory = start_directory(|_| {}).await;
    let mut stream = TcpStream::connect(directory.dns_address().unwrap()).await.unwrap();
    let first = dns_query(&enum_name("+447700900123", ZONE), NAPTR);
    let second = dns_query(&enum_name("+447700900127", ZONE), NAPTR);
    send_tcp(&mut stream, &first).await;
    send_tcp(&mut stream, &second).await;
    assert_eq!(receive_tcp(&mut stream, &first).await, DnsResponse::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!"));
    assert_eq!(receive_tcp(&mut stream, &second).await, DnsResponse::no_records(NXDOMAIN));
}

#[tokio::test]
async fn invalid_suffix_is_rejected() {
    for suffix in ["", ".", "a..b", &"a".repeat(64), &["a"; 120].join(".")] {
        let config = DirectoryConfig { suffix: suffix.to_owned(), ..DirectoryConfig::default() };
        assert!(Directory::start(config).await.is_err(), "{suffix}");
    }
}
