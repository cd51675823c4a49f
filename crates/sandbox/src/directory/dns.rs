//! DNS server of the simulated directory, which answers ENUM queries over UDP and TCP.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hickory_proto::{
    op::{Edns, Header, Message, MessageType, Metadata, OpCode, Query, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{NAPTR, SOA},
    },
    serialize::binary::{BinDecodable, BinDecoder},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{
    DirectoryConfig, DirectoryState, EnumFault,
    subscriber::{Subscriber, SubscriberTable, parse_enum_labels},
};
use crate::{SOCKET_RETRY_DELAY, accept_connections};

const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the receive buffer: longer than any ENUM query.
const MAX_QUERY_BYTES: usize = 4 * 1024;
/// Maximum UDP payload without EDNS.
const DEFAULT_UDP_PAYLOAD: u16 = 512;
/// Maximum UDP payload that avoids fragmentation.
const MAX_UDP_PAYLOAD: u16 = 1_232;
/// Maximum number of responses that are delayed by a fault at the same time. Further queries are dropped.
const MAX_DELAYED_RESPONSES: usize = 1_024;
/// Attempts to find a port that is free for UDP and TCP.
const BIND_ATTEMPTS: u32 = 16;
/// Enumservice of RFC 4769.
const ENUM_SERVICE: &[u8] = b"E2U+pstn:tel";
/// Time to live of records, in seconds.
const TTL: u32 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

/// Binds UDP and TCP sockets to the same port.
pub(super) async fn bind_udp_and_tcp(listen: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let mut attempts = BIND_ATTEMPTS;
    loop {
        let listener = TcpListener::bind(listen).await?;
        attempts -= 1;
        match UdpSocket::bind(listener.local_addr()?).await {
            Ok(socket) => return Ok((socket, listener)),
            // The random TCP port is taken for UDP; try another.
            Err(_) if listen.port() == 0 && attempts > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

pub(super) async fn serve_udp(socket: UdpSocket, state: Arc<DirectoryState>, tasks: TaskTracker) {
    let (socket, permits) = (Arc::new(socket), Arc::new(Semaphore::new(MAX_DELAYED_RESPONSES)));
    let mut datagram = vec![0; MAX_QUERY_BYTES];
    while let Some(received) = state.stop.run_until_cancelled(socket.recv_from(&mut datagram)).await {
        let Ok((length, from)) = received else {
            sleep(SOCKET_RETRY_DELAY).await;
            continue;
        };
        let Some((response, delay)) = state.respond(&datagram[..length], Transport::Udp) else { continue };
        if delay.is_zero() {
            // Best effort: the client may have gone.
            let _ = socket.send_to(&response, from).await;
            continue;
        }
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
        let (socket, state) = (Arc::clone(&socket), Arc::clone(&state));
        tasks.spawn(async move {
            if state.stop.run_until_cancelled(sleep(delay)).await.is_some() {
                let _ = socket.send_to(&response, from).await;
            }
            drop(permit);
        });
    }
}

pub(super) async fn serve_tcp(listener: TcpListener, state: Arc<DirectoryState>, tasks: TaskTracker) {
    let (max_connections, stop) = (state.config.max_connections, state.stop.clone());
    let serve = |stream| {
        let state = Arc::clone(&state);
        async move {
            if let Err(error) = serve_connection(stream, &state).await {
                tracing::debug!(%error, "sandbox DNS connection failed");
            }
        }
    };
    accept_connections(listener, max_connections, stop, tasks, serve).await;
}

/// Serves length-prefixed queries until the client closes the connection.
async fn serve_connection(mut stream: TcpStream, state: &DirectoryState) -> io::Result<()> {
    loop {
        let mut length = [0; 2];
        if timeout(READ_TIMEOUT, stream.read(&mut length[..1])).await?? == 0 {
            return Ok(());
        }
        timeout(READ_TIMEOUT, stream.read_exact(&mut length[1..])).await??;
        let mut query = vec![0; u16::from_be_bytes(length).into()];
        timeout(READ_TIMEOUT, stream.read_exact(&mut query)).await??;
        let Some((response, delay)) = state.respond(&query, Transport::Tcp) else { continue };
        if !delay.is_zero() {
            sleep(delay).await;
        }
        let length = u16::try_from(response.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes()[..], &response].concat()).await?;
    }
}

impl DirectoryState {
    /// Returns the response and its delay. `None`: the message gets no response, because a simulated fault suppresses
    /// it, or because the message is itself a response or has no complete header. Responding to such messages could
    /// cause loops between servers.
    fn respond(&self, message: &[u8], transport: Transport) -> Option<(Vec<u8>, Duration)> {
        let header = Header::read(&mut BinDecoder::new(message)).ok()?;
        if header.metadata.message_type == MessageType::Response {
            return None;
        }
        self.counts.send_modify(|counts| match transport {
            Transport::Udp => counts.udp_queries += 1,
            Transport::Tcp => counts.tcp_queries += 1,
        });
        let query = parse_query(&header, message);
        let response = empty_response(&header, query.as_ref().ok());
        let with_code = |code| with_code(response.clone(), code);
        let regular = || match &query {
            Ok(query) if query.version() > 0 => with_code(ResponseCode::BADVERS),
            Ok(query) => self.zone.answer(response.clone(), &query.queries[0], &self.subscribers),
            Err(code) => with_code(*code),
        };
        let (answer, delay) = match self.faults.lock().enum_fault {
            Some(EnumFault::Truncated) if transport == Transport::Udp => (response.truncate(), Duration::ZERO),
            None | Some(EnumFault::Truncated) => (regular(), Duration::ZERO),
            Some(EnumFault::Delayed(delay)) => (regular(), delay),
            Some(EnumFault::Refused) => (with_code(ResponseCode::Refused), Duration::ZERO),
            Some(EnumFault::ServerFailure) => (with_code(ResponseCode::ServFail), Duration::ZERO),
            Some(EnumFault::NoResponse) => return None,
        };
        let max_bytes = match transport {
            Transport::Udp => query.map_or(DEFAULT_UDP_PAYLOAD, |query| query.max_payload()).min(MAX_UDP_PAYLOAD),
            Transport::Tcp => u16::MAX,
        };
        let fits = |encoded: &Vec<u8>| encoded.len() <= usize::from(max_bytes);
        let encoded = answer.to_vec().ok().filter(fits).or_else(|| response.truncate().to_vec().ok())?;
        Some((encoded, delay))
    }
}

/// Parses a message with exactly one question. The error is the DNS response code to send.
fn parse_query(header: &Header, message: &[u8]) -> Result<Message, ResponseCode> {
    let counts = header.counts;
    if header.metadata.op_code != OpCode::Query {
        return Err(ResponseCode::NotImp);
    }
    if (counts.queries, counts.answers, counts.authorities) != (1, 0, 0) {
        return Err(ResponseCode::FormErr);
    }
    Message::from_vec(message).map_err(|_| ResponseCode::FormErr)
}

/// Builds a response without records: with the question, and with EDNS if the query has it.
fn empty_response(header: &Header, query: Option<&Message>) -> Message {
    let mut response = Message::response(header.metadata.id, header.metadata.op_code);
    response.metadata = Metadata::response_from_request(&header.metadata);
    if let Some(query) = query {
        response.add_queries(query.queries.iter().cloned());
        response.edns = query.edns.as_ref().map(|_| {
            let mut edns = Edns::new();
            edns.set_max_payload(MAX_UDP_PAYLOAD);
            edns
        });
    }
    response
}

fn with_code(mut response: Message, code: ResponseCode) -> Message {
    response.metadata.response_code = code;
    response
}

/// Format of the NAPTR records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordStyle {
    /// MCC and MNC: `!^(.*)$!tel:\1;mcc=234;mnc=30!`.
    #[default]
    MccMnc,
    /// Routing number and service provider of a ported number (RFC 4694). Here both are the MCC and MNC:
    /// `!^.*$!tel:+447700900124;npdi;rn=23410;rn-context=sandbox.invalid;spn=23410!`. A number that is not ported has
    /// only `npdi`.
    RoutingNumber,
}

/// ENUM zone: resolves names to NAPTR records.
#[derive(Debug)]
pub(super) struct Zone {
    suffix: Name,
    style: RecordStyle,
    ported_only: bool,
}

impl Zone {
    /// Returns `None` if the suffix is not a DNS name, or too long for ENUM names below it.
    pub(super) fn new(config: &DirectoryConfig) -> Option<Self> {
        const MAX_SUFFIX_BYTES: usize = 220;
        let suffix = config.suffix.trim_matches('.');
        if suffix.is_empty() || suffix.len() > MAX_SUFFIX_BYTES {
            return None;
        }
        let suffix = Name::from_ascii(format!("{suffix}.")).ok()?;
        Some(Self { suffix, style: config.records, ported_only: config.ported_only })
    }

    /// Adds the answer to a question to the response.
    fn answer(&self, mut response: Message, question: &Query, subscribers: &SubscriberTable) -> Message {
        let name = &question.name;
        if !self.suffix.zone_of(name) || !matches!(question.query_class, DNSClass::IN | DNSClass::ANY) {
            return with_code(response, ResponseCode::Refused);
        }
        response.metadata.authoritative = true;
        let zone_labels = self.suffix.iter().count();
        let labels: Vec<&[u8]> = name.iter().collect();
        let labels = &labels[..labels.len() - zone_labels];
        let digits = parse_enum_labels(labels.iter().copied());
        let subscriber = digits.as_ref().and_then(|digits| subscribers.find(digits));
        let is_naptr_query = matches!(question.query_type, RecordType::NAPTR | RecordType::ANY);
        match subscriber.filter(|_| is_naptr_query).and_then(|subscriber| self.naptr_record(subscriber)) {
            Some(record) => response.add_answer(Record::from_rdata(name.clone(), TTL, record)),
            // A negative response has the SOA of the zone (RFC 2308).
            None => response.add_authority(soa_record(name.trim_to(zone_labels))),
        };
        // A name without records exists if there are names below it (RFC 8020).
        let exists = labels.is_empty() || digits.is_some_and(|digits| subscribers.has_prefix(&digits));
        with_code(response, if exists { ResponseCode::NoError } else { ResponseCode::NXDomain })
    }

    fn naptr_record(&self, subscriber: &Subscriber) -> Option<RData> {
        let Subscriber { number, network, ported_from, .. } = subscriber;
        if self.ported_only && ported_from.is_none() {
            return None;
        }
        let expression = match (self.style, ported_from) {
            (RecordStyle::MccMnc, _) => format!(r"!^(.*)$!tel:\1;mcc={};mnc={}!", network.mcc(), network.mnc()),
            (RecordStyle::RoutingNumber, Some(_)) => {
                let number = number.as_str();
                format!("!^.*$!tel:{number};npdi;rn={network};rn-context=sandbox.invalid;spn={network}!")
            }
            (RecordStyle::RoutingNumber, None) => format!("!^.*$!tel:{};npdi!", number.as_str()),
        };
        let expression = expression.into_bytes().into();
        Some(RData::NAPTR(NAPTR::new(10, 100, b"u"[..].into(), ENUM_SERVICE.into(), expression, Name::root())))
    }
}

/// Builds the SOA record of the zone, whose name is also MNAME and RNAME.
fn soa_record(zone: Name) -> Record {
    let (serial, refresh, retry, expire) = (1, 3_600, 600, 86_400);
    let soa = SOA::new(zone.clone(), zone.clone(), serial, refresh, retry, expire, TTL);
    Record::from_rdata(zone, TTL, RData::SOA(soa))
}
