//! Sends one query to one server, over UDP and if necessary TCP.
//!
//! UDP responses can be forged by guessing. Every query uses a new connected socket (random port, no other source), a
//! random id and random letter case. Mismatched datagrams are ignored; many of them indicate guessing and cause a
//! switch to TCP, which cannot be forged off-path.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use ringtrue_engine::ports::LookupError;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use super::message::{EnumAnswer, EnumQuery, ReplyMatch};

/// Larger than the payload that the query advertises.
const MAX_DATAGRAM_BYTES: usize = 4 * 1_024;
/// The records of a number take a few hundred bytes.
const MAX_TCP_MESSAGE_BYTES: u16 = 16 * 1_024;
/// Mismatched datagrams tolerated before the switch to TCP.
const MAX_STRAY_DATAGRAMS: usize = 8;

/// The timeout applies to UDP and TCP separately.
pub async fn send_query(
    server: SocketAddr,
    query: &EnumQuery,
    query_timeout: Duration,
) -> Result<EnumAnswer, LookupError> {
    let udp_result = timeout(query_timeout, query_udp(server, query)).await.map_err(|_| LookupError::Timeout)?;
    match udp_result.map_err(|_| LookupError::Unreachable)? {
        Some(answer) => Ok(answer),
        None => timeout(query_timeout, query_tcp(server, query)).await.map_err(|_| LookupError::Timeout)?,
    }
}

/// `None`: repeat over TCP.
async fn query_udp(server: SocketAddr, query: &EnumQuery) -> io::Result<Option<EnumAnswer>> {
    let local_address = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((local_address, 0)).await?;
    socket.connect(server).await?;
    socket.send(query.wire()).await?;
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
        let length = u16::try_from(query.wire().len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), query.wire()].concat()).await?;
        let length = stream.read_u16().await?;
        let mut message = vec![0; length.min(MAX_TCP_MESSAGE_BYTES).into()];
        stream.read_exact(&mut message).await?;
        Ok::<_, io::Error>(message)
    };
    match query.match_reply(&message.await.map_err(|_| LookupError::Unreachable)?) {
        // The case does not matter over TCP.
        ReplyMatch::Answer(answer) => Ok(answer),
        ReplyMatch::Truncated | ReplyMatch::Unrelated => Err(LookupError::InvalidResponse),
    }
}
