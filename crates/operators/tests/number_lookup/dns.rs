//! A name server that says what a test wants, and DNS messages to say it with.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ringtrue_engine::ports::{SystemClock, SystemEntropy};
use ringtrue_operators::number_lookup::{EnumConfig, EnumDns};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
};
use tokio_util::task::TaskTracker;

use crate::known;

pub const NO_ERROR: u8 = 0;
pub const FORMAT_ERROR: u8 = 1;
pub const SERVER_FAILURE: u8 = 2;
pub const NO_SUCH_NAME: u8 = 3;
pub const NOT_IMPLEMENTED: u8 = 4;
pub const REFUSED: u8 = 5;

/// A NAPTR record: order, preference, flags, service, expression.
pub type Naptr<'a> = (u16, u16, &'a str, &'a str, &'a str);

pub const TEL: Naptr<'_> = (10, 100, "u", "E2U+pstn:tel", r"!^(.*)$!tel:\1;mcc=234;mnc=10!");

/// Where the question ends that a message begins with.
fn end_of_question(wire: &[u8]) -> usize {
    let mut at = 12;
    while wire[at] != 0 {
        at += usize::from(wire[at]) + 1;
    }
    at + 5
}

fn text(into: &mut Vec<u8>, text: &str) {
    into.push(u8::try_from(text.len()).unwrap());
    into.extend_from_slice(text.as_bytes());
}

pub fn naptr((order, preference, flags, service, expression): Naptr<'_>) -> Vec<u8> {
    let mut data = [order.to_be_bytes(), preference.to_be_bytes()].concat();
    for part in [flags, service, expression] {
        text(&mut data, part);
    }
    data.push(0);
    data
}

/// A record of the name that was asked for.
pub fn record(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&[0xC0, 12][..], &kind.to_be_bytes(), &[0, 1, 0, 0, 0, 60], &length, data].concat()
}

/// An answer to a query, with these records.
pub fn answer_with(query: &[u8], code: u8, records: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(records.len()).unwrap().to_be_bytes();
    let header = [&query[..2], &[0x84, code, 0, 1], &count, &[0, 0, 0, 0]].concat();
    let question = &query[12..end_of_question(query)];
    [&header, question, &records.concat()].concat()
}

pub fn answer(query: &[u8], code: u8, records: &[Naptr<'_>]) -> Vec<u8> {
    let records: Vec<_> = records.iter().map(|entry| record(35, &naptr(*entry))).collect();
    answer_with(query, code, &records)
}

/// Marks an answer as one of which only a part was sent.
pub fn cut(mut answer: Vec<u8>) -> Vec<u8> {
    answer[2] |= 2;
    answer
}

pub fn has_edns(query: &[u8]) -> bool {
    query[11] == 1
}

/// The letters of the question, in lower case.
pub fn in_lower_case(mut answer: Vec<u8>) -> Vec<u8> {
    let end = end_of_question(&answer);
    answer[12..end].make_ascii_lowercase();
    answer
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Udp,
    Tcp,
}

type Script = dyn Fn(&[u8], Way) -> Vec<Vec<u8>> + Send + Sync;

/// Gives each question the messages that its script has for it.
pub struct Server {
    pub port: u16,
    asked: Arc<[AtomicUsize; 2]>,
}

impl Server {
    pub async fn start(script: impl Fn(&[u8], Way) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let (listener, socket) = both().await;
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let script: Arc<Script> = Arc::new(script);
        let tasks = TaskTracker::new();
        let (by_datagram, by_stream) = (Arc::clone(&asked), Arc::clone(&asked));
        let same_script = Arc::clone(&script);
        tasks.spawn(async move {
            let mut query = [0; 1_024];
            loop {
                let (length, from) = socket.recv_from(&mut query).await.unwrap();
                by_datagram[0].fetch_add(1, Ordering::SeqCst);
                for message in same_script(&query[..length], Way::Udp) {
                    socket.send_to(&message, from).await.unwrap();
                }
            }
        });
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                by_stream[1].fetch_add(1, Ordering::SeqCst);
                let length = stream.read_u16().await.unwrap();
                let mut query = vec![0; length.into()];
                stream.read_exact(&mut query).await.unwrap();
                for message in script(&query, Way::Tcp) {
                    stream.write_u16(u16::try_from(message.len()).unwrap()).await.unwrap();
                    // Whoever asked may have heard enough.
                    let _ = stream.write_all(&message).await;
                }
            }
        });
        Server { port, asked }
    }

    /// By datagrams, and over TCP.
    pub fn asked(&self) -> (usize, usize) {
        (self.asked[0].load(Ordering::SeqCst), self.asked[1].load(Ordering::SeqCst))
    }
}

/// A port on which both ways are free.
async fn both() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
            return (listener, socket);
        }
    }
}

/// A source that asks these ports. Its patience is long: what ends it early in a test is not time.
pub fn config(ports: &[u16]) -> EnumConfig {
    let servers = ports.iter().map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect();
    let mut config = EnumConfig { timeout: Duration::from_secs(20), ..EnumConfig::new("enum", servers) };
    config.reading.known = known();
    config
}

pub fn source(config: EnumConfig) -> EnumDns {
    EnumDns::new(config, Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap()
}
