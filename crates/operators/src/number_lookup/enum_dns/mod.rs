//! Looks up the network of a number by DNS: ENUM (RFC 6116).
//!
//! The number becomes a domain name (reversed digits under a suffix). Its NAPTR records yield URIs that identify the
//! network by MCC and MNC, by a 3GPP host name, or by an operator code that a table maps. Providers differ in how they
//! write these records, so parsing is lenient; only replies of the queried server are accepted.
//!
//! This module queries the configured servers itself instead of using a DNS resolver, because resolvers hide records
//! that come with REFUSED. The engine caches the results.
//!
//! An attacker can forge UDP responses by guessing. Every query therefore uses a random id, random letter case and a
//! new socket with a random port, which receives only from the queried server. Datagrams that do not match the query
//! are ignored. Several of them indicate guessing, so the query is then repeated over TCP, whose responses an attacker
//! can forge only on the network path.

mod config;
mod naptr;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use hickory_resolver::proto::{
    ProtoError,
    op::{Edns, Header, Message, MessageType, OpCode, Query as Question, ResponseCode},
    rr::{DNSClass, Name, RecordType},
    serialize::binary::{BinDecodable, BinDecoder, DecodeError},
};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{
    clock::Clock,
    entropy::Entropy,
    lookups::{LookupError, LookupResult, LookupSource},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use super::{SourceBreaker, SourceError};
use crate::{
    breaker::CallOutcome,
    client::{Resolver, SystemResolver},
};
pub use config::{CodeTable, EnumConfig, EnumConfigError, InvalidNameServer, NameServer, RecordRules};
pub use naptr::{EnumDecision, NaptrRecord};

/// Lookup source that queries ENUM name servers.
#[derive(derive_more::Debug)]
#[debug("EnumDns({})", config.name)]
pub struct EnumDns {
    config: EnumConfig,
    resolver: Arc<dyn Resolver>,
    entropy: Arc<dyn Entropy>,
    /// Index of the server to query first: the last one that responded. A dead server costs its timeout only once.
    preferred_server: AtomicUsize,
    breaker: SourceBreaker,
}

impl EnumDns {
    pub fn new(config: EnumConfig, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Self, EnumConfigError> {
        EnumDns::with_resolver(config, clock, entropy, Arc::new(SystemResolver::default()))
    }

    /// `resolver` resolves the host names of servers that are configured by name.
    pub fn with_resolver(
        config: EnumConfig,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, EnumConfigError> {
        let config = config.validated()?;
        let breaker = SourceBreaker::new(Arc::clone(&config.name), config.breaker, clock);
        Ok(EnumDns { config, resolver, entropy, preferred_server: AtomicUsize::new(0), breaker })
    }

    /// Queries the servers in turn, at most `tries` times each, until one gives a final result.
    async fn query_servers(&self, number: &Msisdn) -> Result<LookupResult, SourceError> {
        let servers = &self.config.servers;
        let start = self.preferred_server.load(Ordering::Relaxed);
        let mut error = LookupError::Unreachable;
        for _ in 0..self.config.tries {
            for turn in 0..servers.len() {
                let position = (start + turn) % servers.len();
                let mut attempt = ServerAttempt {
                    preferred_server: &self.preferred_server,
                    position,
                    next: (position + 1) % servers.len(),
                    has_responded: false,
                };
                let decision = self.query_server(&servers[position], number).await;
                let unresponsive = [LookupError::Timeout, LookupError::Unreachable].map(EnumDecision::TryNextServer);
                attempt.has_responded = !unresponsive.contains(&decision);
                match decision {
                    EnumDecision::Final(answer) => {
                        self.preferred_server.store(position, Ordering::Relaxed);
                        return answer.map_err(SourceError::from_response);
                    }
                    EnumDecision::TryNextServer(reason) => error = reason,
                    EnumDecision::RetryWithoutEdns => error = LookupError::Refused,
                }
                let (source, server) = (&*self.config.name, &servers[position]);
                tracing::debug!(source, %server, %error, "ENUM server query failed");
            }
        }
        let outcome = if error == LookupError::Timeout { CallOutcome::Timeout } else { CallOutcome::Failure };
        Err(SourceError::new(error, outcome))
    }

    async fn query_server(&self, server: &NameServer, number: &Msisdn) -> EnumDecision {
        let address = match self.resolve_server_address(server).await {
            Ok(address) => address,
            Err(error) => return EnumDecision::TryNextServer(error),
        };
        match self.query_address(address, number, true).await {
            EnumDecision::RetryWithoutEdns => self.query_address(address, number, false).await,
            decision => decision,
        }
    }

    async fn query_address(&self, address: SocketAddr, number: &Msisdn, edns: bool) -> EnumDecision {
        let EnumConfig { suffix, timeout, mixed_case, rules, .. } = &self.config;
        let Some(query) = EnumQuery::new(number, suffix, &*self.entropy, *mixed_case, edns) else {
            return EnumDecision::Final(Err(LookupError::InvalidResponse));
        };
        match send_query(address, &query, *timeout).await {
            Ok(answer) => rules.evaluate(&answer, number),
            Err(error) => EnumDecision::TryNextServer(error),
        }
    }

    async fn resolve_server_address(&self, server: &NameServer) -> Result<SocketAddr, LookupError> {
        if let Ok(address) = server.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, server.port));
        }
        let resolved = timeout(self.config.timeout, self.resolver.resolve(&server.host));
        let addresses: io::Result<_> = resolved.await.map_err(|_| LookupError::Timeout)?;
        let address = addresses.ok().and_then(|addresses| addresses.first().copied());
        address.map(|address| SocketAddr::new(address, server.port)).ok_or(LookupError::Unreachable)
    }
}

/// A query to one server. If it gets no response, or the lookup is dropped, the next lookup starts with another server.
struct ServerAttempt<'a> {
    preferred_server: &'a AtomicUsize,
    position: usize,
    next: usize,
    has_responded: bool,
}

impl Drop for ServerAttempt<'_> {
    fn drop(&mut self) {
        if !self.has_responded {
            // Has no effect if a concurrent lookup has changed the preferred server already.
            let _ =
                self.preferred_server.compare_exchange(self.position, self.next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl LookupSource for EnumDns {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError> {
        self.breaker.run(self.query_servers(number)).await
    }
}

/// Size of the receive buffer. Larger than the payload size that the query advertises.
const MAX_DATAGRAM_BYTES: usize = 4 * 1_024;
/// Maximum size of a response over TCP. The records of a number take a few hundred bytes.
const MAX_TCP_MESSAGE_BYTES: u16 = 16 * 1_024;
/// Number of mismatched datagrams that are ignored before the switch to TCP.
const MAX_STRAY_DATAGRAMS: usize = 8;

/// Queries one server over UDP, and if necessary over TCP; the timeout applies to each.
async fn send_query(server: SocketAddr, query: &EnumQuery, query_timeout: Duration) -> Result<EnumAnswer, LookupError> {
    let udp_result = timeout(query_timeout, query_udp(server, query)).await.map_err(|_| LookupError::Timeout)?;
    match udp_result.map_err(|_| LookupError::Unreachable)? {
        Some(answer) => Ok(answer),
        None => timeout(query_timeout, query_tcp(server, query)).await.map_err(|_| LookupError::Timeout)?,
    }
}

/// Queries a server over UDP. `None`: the query must be repeated over TCP.
async fn query_udp(server: SocketAddr, query: &EnumQuery) -> io::Result<Option<EnumAnswer>> {
    let local_address = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((local_address, 0)).await?;
    socket.connect(server).await?;
    socket.send(query.as_bytes()).await?;
    let mut datagram = vec![0; MAX_DATAGRAM_BYTES];
    for _ in 0..MAX_STRAY_DATAGRAMS {
        let length = socket.recv(&mut datagram).await?;
        match query.match_reply(&datagram[..length]) {
            ReplyMatch::Answer(answer) => return Ok(answer.case_matches.then_some(answer)),
            ReplyMatch::Truncated => return Ok(None),
            ReplyMatch::Unrelated => {}
        }
    }
    Ok(None)
}

async fn query_tcp(server: SocketAddr, query: &EnumQuery) -> Result<EnumAnswer, LookupError> {
    let message = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(query.as_bytes().len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), query.as_bytes()].concat()).await?;
        let length = stream.read_u16().await?;
        let mut message = vec![0; length.min(MAX_TCP_MESSAGE_BYTES).into()];
        stream.read_exact(&mut message).await?;
        Ok::<_, io::Error>(message)
    };
    match query.match_reply(&message.await.map_err(|_| LookupError::Unreachable)?) {
        // The random letter case only protects against forged UDP responses, so it need not match over TCP.
        ReplyMatch::Answer(answer) => Ok(answer),
        ReplyMatch::Truncated | ReplyMatch::Unrelated => Err(LookupError::InvalidResponse),
    }
}

/// UDP payload size that queries advertise. Small enough to avoid IP fragmentation.
const EDNS_PAYLOAD_BYTES: u16 = 1_232;

/// A query for one number. `Debug` omits the name, which contains the number.
#[derive(derive_more::Debug)]
#[debug("EnumQuery({} bytes)", wire.len())]
pub struct EnumQuery {
    id: u16,
    name: Name,
    wire: Vec<u8>,
}

/// What a received datagram is to a query: its answer, a truncated answer (the query is repeated over TCP), or unrelated.
#[derive(Debug)]
pub enum ReplyMatch {
    Unrelated,
    Truncated,
    Answer(EnumAnswer),
}

/// A server's answer. `Debug` omits the records, which contain numbers.
#[derive(derive_more::Debug)]
#[debug("EnumAnswer({code}, {} records)", records.len())]
pub struct EnumAnswer {
    pub code: ResponseCode,
    pub records: Vec<NaptrRecord>,
    pub has_unreadable_records: bool,
    /// Whether the reply preserves the letter case of the query. If not, the server normalises case, or the reply is
    /// forged.
    pub case_matches: bool,
}

impl EnumQuery {
    /// Returns `None` if the suffix is too long for a DNS name, which the validation of the configuration rules out.
    pub fn new(number: &Msisdn, suffix: &str, entropy: &dyn Entropy, mixed_case: bool, edns: bool) -> Option<Self> {
        let id = u16::from_be_bytes(entropy.bytes());
        let suffix = if mixed_case { with_random_case(suffix, entropy) } else { suffix.to_owned() };
        let reversed: String = number.digits().chars().rev().flat_map(|digit| [digit, '.']).collect();
        let name = Name::from_ascii(format!("{reversed}{suffix}.")).ok()?;
        let wire = encode_query(id, &name, edns).ok()?;
        Some(EnumQuery { id, name, wire })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.wire
    }

    /// Decodes a message from the queried server, and decides whether it answers this query.
    pub fn match_reply(&self, message: &[u8]) -> ReplyMatch {
        let mut decoder = BinDecoder::new(message);
        let Ok(header) = Header::read(&mut decoder) else { return ReplyMatch::Unrelated };
        let metadata = header.metadata;
        let is_response = metadata.id == self.id
            && metadata.message_type == MessageType::Response
            && metadata.op_code == OpCode::Query;
        if !is_response {
            return ReplyMatch::Unrelated;
        }
        match header.counts.queries {
            // Some servers omit the question when they truncate a reply. This is safe, because a truncated reply only
            // leads to a query over TCP.
            0 if metadata.truncation => return ReplyMatch::Truncated,
            // A server that cannot parse the question may omit it.
            0 if header.counts.answers == 0 && !concerns_name(metadata.response_code) => {
                return ReplyMatch::Answer(EnumAnswer::new(metadata.response_code, true));
            }
            1 => {}
            _ => return ReplyMatch::Unrelated,
        }
        let Ok(question) = Question::read(&mut decoder) else { return ReplyMatch::Unrelated };
        let is_ours = question.query_type == RecordType::NAPTR
            && question.query_class == DNSClass::IN
            && question.name == self.name;
        if !is_ours {
            return ReplyMatch::Unrelated;
        }
        if metadata.truncation {
            return ReplyMatch::Truncated;
        }
        let mut answer = EnumAnswer::new(metadata.response_code, question.name.eq_case(&self.name));
        let read_result = self.read_records(&mut decoder, header.counts.answers, &mut answer);
        answer.has_unreadable_records |= read_result.is_err();
        ReplyMatch::Answer(answer)
    }

    /// Reads the records of the queried name and of its CNAME targets, one by one: hickory rejects a whole message
    /// because of one malformed record.
    fn read_records(
        &self,
        decoder: &mut BinDecoder<'_>,
        count: u16,
        answer: &mut EnumAnswer,
    ) -> Result<(), DecodeError> {
        let mut owner_name = self.name.clone();
        for _ in 0..count {
            let owner = Name::read(decoder)?;
            let kind = RecordType::from(decoder.read_u16()?.unverified());
            let class = decoder.read_u16()?.unverified();
            decoder.read_u32()?;
            let length = decoder.read_u16()?.unverified();
            let start = u16::try_from(decoder.index()).map_err(|_| DecodeError::InsufficientBytes)?;
            let data = decoder.read_slice(length.into())?.unverified();
            if owner != owner_name || class != u16::from(DNSClass::IN) {
                continue;
            }
            match kind {
                RecordType::CNAME => owner_name = Name::read(&mut decoder.clone(start))?,
                RecordType::NAPTR => match NaptrRecord::parse(data) {
                    Some(record) => answer.records.push(record),
                    None => answer.has_unreadable_records = true,
                },
                _ => {}
            }
        }
        Ok(())
    }
}

impl EnumAnswer {
    fn new(code: ResponseCode, case_matches: bool) -> Self {
        EnumAnswer { code, records: vec![], has_unreadable_records: false, case_matches }
    }
}

/// Whether a response code is a statement about the queried name. Such a reply must repeat the question.
fn concerns_name(code: ResponseCode) -> bool {
    matches!(code, ResponseCode::NoError | ResponseCode::NXDomain)
}

fn encode_query(id: u16, name: &Name, edns: bool) -> Result<Vec<u8>, ProtoError> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Question::query(name.clone(), RecordType::NAPTR));
    if edns {
        let mut edns = Edns::new();
        edns.set_max_payload(EDNS_PAYLOAD_BYTES);
        message.set_edns(edns);
    }
    message.to_vec()
}

fn with_random_case(text: &str, entropy: &dyn Entropy) -> String {
    let mut random_bytes = vec![0; text.len()];
    entropy.fill(&mut random_bytes);
    let set_case = |(letter, random_byte): (char, u8)| match random_byte & 1 {
        0 => letter.to_ascii_lowercase(),
        _ => letter.to_ascii_uppercase(),
    };
    text.chars().zip(random_bytes).map(set_case).collect()
}
