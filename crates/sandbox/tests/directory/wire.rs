//! DNS and HTTP, octet by octet.

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
pub const NO_SUCH_NAME: u8 = 3;
pub const NOT_IMPLEMENTED: u8 = 4;
pub const REFUSED: u8 = 5;

/// The name that a number has in ENUM.
pub fn name(number: &str, suffix: &str) -> String {
    let digits: String = number.chars().rev().filter(char::is_ascii_digit).flat_map(|digit| [digit, '.']).collect();
    format!("{digits}{suffix}")
}

/// A question for records of a kind, with recursion desired as most who ask do.
pub fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut message = [&ID[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend([kind.to_be_bytes(), [0, 1]].concat());
    message
}

/// The same question, of one who speaks this version of EDNS.
pub fn with_edns(mut question: Vec<u8>, version: u8) -> Vec<u8> {
    question[11] = 1;
    question.extend([0, 0, 41, 0x04, 0xD0, 0, version, 0, 0, 0, 0]);
    question
}

/// An answer, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub code: u8,
    pub is_authoritative: bool,
    pub is_cut: bool,
    /// Flags, service and expression of NAPTR records.
    pub records: Vec<[String; 3]>,
    /// Kinds of the records that tell of the zone, and besides.
    pub others: Vec<u16>,
}

impl Told {
    /// Of an answer without records, from the zone.
    pub fn nothing(code: u8) -> Self {
        Told { code, is_authoritative: true, is_cut: false, records: vec![], others: vec![6] }
    }

    /// Of an answer that says nothing of the name.
    pub fn only(code: u8) -> Self {
        Told { is_authoritative: false, others: vec![], ..Told::nothing(code) }
    }

    pub fn record(expression: &str) -> Self {
        let record = ["u", "E2U+pstn:tel", expression].map(str::to_owned);
        Told { records: vec![record], others: vec![], ..Told::nothing(0) }
    }

    pub fn read(question: &[u8], message: &[u8]) -> Self {
        let count = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
        assert_eq!(&message[..2], ID);
        assert_eq!(message[2] & 0xF8, 0x80, "a response to a query");
        assert_eq!(message[2] & 1, question[2] & 1, "recursion was as much desired");
        let mut at = 12;
        if count(4) == 1 {
            at += question_length(question);
            assert_eq!(message[12..at], question[12..at], "the question comes back as it was");
        }
        let (mut records, mut others) = (vec![], vec![]);
        for place in 0..count(6) + count(8) + count(10) {
            // A name that is pointed to, or none.
            at += if message[at] == 0 { 1 } else { 2 };
            let (kind, length) = (count(at), usize::from(count(at + 8)));
            let data = &message[at + 10..at + 10 + length];
            at += 10 + length;
            if place < count(6) {
                assert_eq!((kind, &data[..4]), (NAPTR, &[0, 10, 0, 100][..]));
                records.push(texts(&data[4..]));
            } else {
                others.push(kind);
            }
        }
        assert_eq!(at, message.len(), "nothing follows");
        let (is_authoritative, is_cut) = (message[2] & 4 != 0, message[2] & 2 != 0);
        Told { code: message[3] & 15, is_authoritative, is_cut, records, others }
    }
}

fn question_length(question: &[u8]) -> usize {
    let mut at = 12;
    while question[at] != 0 {
        at += usize::from(question[at]) + 1;
    }
    at + 5 - 12
}

fn texts(mut data: &[u8]) -> [String; 3] {
    let texts = [(); 3].map(|()| {
        let (length, rest) = data.split_first().unwrap();
        let (text, rest) = rest.split_at((*length).into());
        data = rest;
        String::from_utf8(text.to_vec()).unwrap()
    });
    assert_eq!(data, [0], "no other name");
    texts
}

pub async fn by_datagram(directory: &Directory, question: &[u8]) -> Told {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(directory.dns_address().unwrap()).await.unwrap();
    socket.send(question).await.unwrap();
    let mut answer = [0; 2_048];
    let length = socket.recv(&mut answer).await.unwrap();
    Told::read(question, &answer[..length])
}

pub async fn put_over_tcp(stream: &mut TcpStream, question: &[u8]) {
    stream.write_u16(u16::try_from(question.len()).unwrap()).await.unwrap();
    stream.write_all(question).await.unwrap();
}

pub async fn hear_over_tcp(stream: &mut TcpStream, question: &[u8]) -> Told {
    let mut answer = vec![0; stream.read_u16().await.unwrap().into()];
    stream.read_exact(&mut answer).await.unwrap();
    Told::read(question, &answer)
}

pub async fn over_tcp(directory: &Directory, question: &[u8]) -> Told {
    let mut stream = TcpStream::connect(directory.dns_address().unwrap()).await.unwrap();
    put_over_tcp(&mut stream, question).await;
    hear_over_tcp(&mut stream, question).await
}

/// An answer of the HLR: status, head and body.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Page {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Where the HLR is.
pub fn hlr_address(directory: &Directory) -> SocketAddr {
    let url = url::Url::parse(&directory.hlr_url().unwrap()).unwrap();
    assert_eq!(url.path(), "/hlr");
    url.socket_addrs(|| None).unwrap()[0]
}

pub async fn http(directory: &Directory, line: &str, secret: Option<&str>) -> Page {
    let mut stream = TcpStream::connect(hlr_address(directory)).await.unwrap();
    let authorization = secret.map_or_else(String::new, |secret| format!("authorization: {secret}\r\n"));
    let request = format!("{line} HTTP/1.1\r\nhost: hlr\r\nconnection: close\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Page { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}
