//! A scripted name server, and builders for DNS messages.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ringtrue_engine::ports::{clock::SystemClock, entropy::SystemEntropy};
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

/// Returns the offset after the question section.
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

/// Encodes a record of the queried name.
pub fn record(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&[0xC0, 12][..], &kind.to_be_bytes(), &[0, 1, 0, 0, 0, 60], &length, data].concat()
}

pub fn answer_with(query: &[u8], code: u8, records: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(records.len()).unwrap().to_be_bytes();
    let header = [&query[..2], &[0x84, code, 0, 1], &count, &[0, 0, 0, 0]].concat();
    let operation = &query[12..end_of_question(query)];
    [&header, operation, &records.concat()].concat()
}

pub fn answer(query: &[u8], code: u8, records: &[Naptr<'_>]) -> Vec<u8> {
    let records: Vec<_> = records.iter().map(|entry| record(35, &naptr(*entry))).collect();
    answer_with(query, code, &records)
}

pub fn set_truncated(mut answer: Vec<u8>) -> Vec<u8> {
    answer[2] |= 2;
    answer
}

pub fn has_edns(query: &[u8]) -> bool {
    query[11] == 1
}

/// Converts the question in an answer to lower case.
pub fn with_lower_case(mut answer: Vec<u8>) -> Vec<u8> {
    let end = end_of_question(&answer);
    answer[12..end].make_ascii_lowercase();
    answer
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

type Script = dyn Fn(&[u8], Transport) -> Vec<Vec<u8>> + Send + Sync;

/// Name server that sends the messages which its script returns for each query.
pub struct FakeNameServer {
    pub port: u16,
    counts: Arc<[AtomicUsize; 2]>,
}

impl FakeNameServer {
    pub async fn start(script: impl Fn(&[u8], Transport) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let (listener, socket) = bind_udp_and_tcp().await;
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let script: Arc<Script> = Arc::new(script);
        let tasks = TaskTracker::new();
        let (by_datagram, by_stream) = (Arc::clone(&counts), Arc::clone(&counts));
        let same_script = Arc::clone(&script);
        tasks.spawn(async move {
            let mut query = [0; 1_024];
            loop {
                let (length, from) = socket.recv_from(&mut query).await.unwrap();
                by_datagram[0].fetch_add(1, Ordering::SeqCst);
                for message in same_script(&query[..length], Transport::Udp) {
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
                for message in script(&query, Transport::Tcp) {
                    stream.write_u16(u16::try_from(message.len()).unwrap()).await.unwrap();
                    // The client may have closed the connection.
                    let _ = stream.write_all(&message).await;
                }
            }
        });
        FakeNameServer { port, counts }
    }

    /// Returns the number of queries over UDP and over TCP.
    pub fn query_counts(&self) -> (usize, usize) {
        (self.counts[0].load(Ordering::SeqCst), self.counts[1].load(Ordering::SeqCst))
    }
}

/// Binds the same port for UDP and TCP.
async fn bind_udp_and_tcp() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
            return (listener, socket);
        }
    }
}

/// Configures a source that queries these ports, with a timeout that tests do not reach.
pub fn config(ports: &[u16]) -> EnumConfig {
    let servers = ports.iter().map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect();
    let mut config = EnumConfig { timeout: Duration::from_secs(20), ..EnumConfig::new("enum", servers) };
    config.rules.known_networks = known();
    config
}

pub fn source(config: EnumConfig) -> EnumDns {
    EnumDns::new(config, Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap()
}
