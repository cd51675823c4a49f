//! Minimal DNS and HTTP clients.

use std::net::SocketAddr;

use ringtrue_sandbox::directory::Directory;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};

pub const NAPTR: u16 = 35;
pub const ID: [u8; 2] = [0xAB, 0xCD];

pub const FORMAT_ERROR: u8 = 1;
pub const SERVER_FAILURE: u8 = 2;
pub const NXDOMAIN: u8 = 3;
pub const NOT_IMPLEMENTED: u8 = 4;
pub const REFUSED: u8 = 5;

/// Returns the ENUM name of a number.
pub fn enum_name(number: &str, suffix: &str) -> String {
    let digits: String = number.chars().rev().filter(char::is_ascii_digit).flat_map(|digit| [digit, '.']).collect();
    format!("{digits}{suffix}")
}

/// Encodes a DNS query with the RD flag.
pub fn dns_query(name: &str, record_type: u16) -> Vec<u8> {
    let mut message = [&ID[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend([record_type.to_be_bytes(), [0, 1]].concat());
    message
}

/// Adds an EDNS record to a query.
pub fn with_edns(mut query: Vec<u8>, version: u8) -> Vec<u8> {
    query[11] = 1;
    query.extend([0, 0, 41, 0x04, 0xD0, 0, version, 0, 0, 0, 0]);
    query
}

/// Parsed DNS response.
#[derive(Debug, PartialEq, Eq)]
pub struct DnsResponse {
    pub code: u8,
    pub is_authoritative: bool,
    pub is_truncated: bool,
    /// Flags, service and expression of NAPTR records.
    pub records: Vec<[String; 3]>,
    /// Types of the authority and additional records.
    pub others: Vec<u16>,
}

impl DnsResponse {
    /// Creates an authoritative response without NAPTR records, but with the SOA record of the zone.
    pub fn no_records(code: u8) -> Self {
        DnsResponse { code, is_authoritative: true, is_truncated: false, records: vec![], others: vec![6] }
    }

    /// Creates a response with a code and without any records.
    pub fn code_only(code: u8) -> Self {
        DnsResponse { is_authoritative: false, others: vec![], ..DnsResponse::no_records(code) }
    }

    pub fn record(expression: &str) -> Self {
        let record = ["u", "E2U+pstn:tel", expression].map(str::to_owned);
        DnsResponse { records: vec![record], others: vec![], ..DnsResponse::no_records(0) }
    }

    pub fn parse(query: &[u8], message: &[u8]) -> Self {
        let count = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
        assert_eq!(&message[..2], ID);
        assert_eq!(message[2] & 0xF8, 0x80, "a response to a query");
        assert_eq!(message[2] & 1, query[2] & 1, "RD flag is copied");
        let mut at = 12;
        if count(4) == 1 {
            at += question_length(query);
            assert_eq!(message[12..at], query[12..at], "the query is echoed");
        }
        let (mut records, mut others) = (vec![], vec![]);
        for index in 0..count(6) + count(8) + count(10) {
            // The name is compressed, or it is the root.
            at += if message[at] == 0 { 1 } else { 2 };
            let (record_type, length) = (count(at), usize::from(count(at + 8)));
            let data = &message[at + 10..at + 10 + length];
            at += 10 + length;
            if index < count(6) {
                assert_eq!((record_type, &data[..4]), (NAPTR, &[0, 10, 0, 100][..]));
                records.push(character_strings(&data[4..]));
            } else {
                others.push(record_type);
            }
        }
        assert_eq!(at, message.len(), "no trailing octets");
        let (is_authoritative, is_truncated) = (message[2] & 4 != 0, message[2] & 2 != 0);
        DnsResponse { code: message[3] & 15, is_authoritative, is_truncated, records, others }
    }
}

fn question_length(query: &[u8]) -> usize {
    let mut at = 12;
    while query[at] != 0 {
        at += usize::from(query[at]) + 1;
    }
    at + 5 - 12
}

fn character_strings(mut data: &[u8]) -> [String; 3] {
    let texts = [(); 3].map(|()| {
        let (length, rest) = data.split_first().unwrap();
        let (text, rest) = rest.split_at((*length).into());
        data = rest;
        String::from_utf8(text.to_vec()).unwrap()
    });
    assert_eq!(data, [0], "empty replacement");
    texts
}

pub async fn query_udp(directory: &Directory, query: &[u8]) -> DnsResponse {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(directory.dns_address().unwrap()).await.unwrap();
    socket.send(query).await.unwrap();
    let mut response = [0; 2_048];
    let length = socket.recv(&mut response).await.unwrap();
    DnsResponse::parse(query, &response[..length])
}

pub async fn send_tcp(stream: &mut TcpStream, query: &[u8]) {
    stream.write_u16(u16::try_from(query.len()).unwrap()).await.unwrap();
    stream.write_all(query).await.unwrap();
}

pub async fn receive_tcp(stream: &mut TcpStream, query: &[u8]) -> DnsResponse {
    let mut response = vec![0; stream.read_u16().await.unwrap().into()];
    stream.read_exact(&mut response).await.unwrap();
    DnsResponse::parse(query, &response)
}

pub async fn query_tcp(directory: &Directory, query: &[u8]) -> DnsResponse {
    let mut stream = TcpStream::connect(directory.dns_address().unwrap()).await.unwrap();
    send_tcp(&mut stream, query).await;
    receive_tcp(&mut stream, query).await
}

/// HTTP response of the HLR.
#[derive(Debug)]
pub struct HlrResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl HlrResponse {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub fn hlr_address(directory: &Directory) -> SocketAddr {
    let url = url::Url::parse(&directory.hlr_url().unwrap()).unwrap();
    assert_eq!(url.path(), "/hlr");
    url.socket_addrs(|| None).unwrap()[0]
}

pub async fn hlr_request(directory: &Directory, line: &str, secret: Option<&str>) -> HlrResponse {
    let mut stream = TcpStream::connect(hlr_address(directory)).await.unwrap();
    let authorization = secret.map_or_else(String::new, |secret| format!("authorization: {secret}\r\n"));
    let request = format!("{line} HTTP/1.1\r\nhost: hlr\r\nconnection: close\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    HlrResponse { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}
