//! How a connection is opened, once it is known to which addresses.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ringtrue_engine::ports::Undelivered;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, pki_types::ServerName},
};
use tokio_util::task::TaskTracker;

use super::Sender;

/// How many addresses of a name are tried.
const TRIED: usize = 4;
/// How long the head of an answer may be, and how many headers it may have.
const HEAD: usize = 16 * 1_024;
const HEADERS: usize = 100;
/// What a connection holds in memory at most.
const BUFFER: usize = 32 * 1_024;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Tries one address after the other. Each but the last gets an equal share of the time that is left.
pub async fn open_first(addresses: &[IpAddr], port: u16, deadline: Instant) -> Result<TcpStream, Undelivered> {
    let addresses = &addresses[..addresses.len().min(TRIED)];
    let mut outcome = Undelivered::Connection;
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - index).unwrap_or(1);
        let tried: Result<io::Result<TcpStream>, _> =
            timeout_at(Instant::now() + share, TcpStream::connect(SocketAddr::new(*address, port))).await;
        match tried {
            Ok(Ok(stream)) => {
                // Requests are small and written at once.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(_)) => outcome = Undelivered::Connection,
            Err(_) => outcome = Undelivered::Timeout,
        }
    }
    Err(outcome)
}

pub async fn secure(
    tls: &TlsConnector,
    name: ServerName<'static>,
    tcp: TcpStream,
) -> Result<Box<dyn Stream>, Undelivered> {
    match tls.connect(name, tcp).await {
        Ok(tls) => Ok(Box::new(tls)),
        Err(error) => Err(match error.downcast::<rustls::Error>() {
            Ok(_) => Undelivered::Tls,
            Err(_) => Undelivered::Connection,
        }),
    }
}

/// The task that drives the connection ends when the connection does or nobody holds its sender.
pub async fn speak_http(stream: Box<dyn Stream>, tasks: &TaskTracker) -> Result<Sender, Undelivered> {
    let handshake = http1::Builder::new()
        .max_headers(HEADERS)
        .max_header_size(HEAD)
        .max_buf_size(BUFFER)
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream));
    let (sender, connection) = handshake.await.map_err(|_| Undelivered::Connection)?;
    tasks.spawn(async move {
        // Whoever waits for an answer hears of an error; nobody else needs to.
        let _ = connection.await;
    });
    Ok(sender)
}
