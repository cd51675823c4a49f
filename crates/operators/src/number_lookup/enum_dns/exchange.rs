//! One question to one server.
//!
//! A datagram can be forged by whoever guesses enough of it. The socket is a new one for each question, so its port is
//! another each time; it is connected, so nothing from elsewhere is heard; the id and the letters' case are random. What
//! does not fit is passed over, and so much of it that somebody seems to be guessing ends the conversation by datagrams:
//! TCP cannot be forged from afar.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use ringtrue_engine::ports::SourceFault;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use super::message::{Answer, Query, Reception};

/// More than a server sends that keeps to what it is told of our payload.
const DATAGRAM: usize = 4 * 1_024;
/// How long an answer over TCP may be. The records of a number take a few hundred bytes.
const LONGEST: u16 = 16 * 1_024;
/// How many messages may come that are not the answer. Some are late ones of before.
const STRAYS: usize = 8;

/// Each of the two ways has all of the patience: who answers that the answer is too long is not slow.
pub async fn ask(server: SocketAddr, query: &Query, patience: Duration) -> Result<Answer, SourceFault> {
    let by_datagram = timeout(patience, over_udp(server, query)).await.map_err(|_| SourceFault::Timeout)?;
    match by_datagram.map_err(|_| SourceFault::Unreachable)? {
        Some(answer) => Ok(answer),
        None => timeout(patience, over_tcp(server, query)).await.map_err(|_| SourceFault::Timeout)?,
    }
}

/// `None`: to be asked over TCP.
async fn over_udp(server: SocketAddr, query: &Query) -> io::Result<Option<Answer>> {
    let anywhere = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((anywhere, 0)).await?;
    socket.connect(server).await?;
    socket.send(query.wire()).await?;
    let mut datagram = vec![0; DATAGRAM];
    for _ in 0..STRAYS {
        let length = socket.recv(&mut datagram).await?;
        match query.read(&datagram[..length]) {
            Reception::Answer(answer) => return Ok(answer.keeps_case.then_some(answer)),
            Reception::Cut => return Ok(None),
            Reception::NotOurs => {}
        }
    }
    Ok(None)
}

async fn over_tcp(server: SocketAddr, query: &Query) -> Result<Answer, SourceFault> {
    let message = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(query.wire().len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), query.wire()].concat()).await?;
        let length = stream.read_u16().await?;
        let mut message = vec![0; length.min(LONGEST).into()];
        stream.read_exact(&mut message).await?;
        Ok::<_, io::Error>(message)
    };
    match query.read(&message.await.map_err(|_| SourceFault::Unreachable)?) {
        // In whatever case: nobody but the server can have written it.
        Reception::Answer(answer) => Ok(answer),
        Reception::Cut | Reception::NotOurs => Err(SourceFault::Nonsense),
    }
}
