//! Opens TCP and TLS streams to resolved addresses.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use ringtrue_engine::ports::TransportError;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, pki_types::ServerName},
};

const MAX_ADDRESSES_TRIED: usize = 4;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Tries the addresses in order. Each gets an equal share of the remaining time.
pub async fn connect_any(addresses: &[IpAddr], port: u16, deadline: Instant) -> Result<TcpStream, TransportError> {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES_TRIED)];
    let mut outcome = TransportError::Connection;
    for (index, address) in addresses.iter().enumerate() {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let share = remaining / u32::try_from(addresses.len() - index).unwrap_or(1);
        let attempt: Result<io::Result<TcpStream>, _> =
            timeout_at(Instant::now() + share, TcpStream::connect(SocketAddr::new(*address, port))).await;
        match attempt {
            Ok(Ok(stream)) => {
                // Requests are small and written in one piece.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(_)) => outcome = TransportError::Connection,
            Err(_) => outcome = TransportError::Timeout,
        }
    }
    Err(outcome)
}

pub async fn start_tls(
    tls: &TlsConnector,
    name: ServerName<'static>,
    tcp: TcpStream,
) -> Result<Box<dyn Stream>, TransportError> {
    match tls.connect(name, tcp).await {
        Ok(tls) => Ok(Box::new(tls)),
        Err(error) => Err(match error.downcast::<rustls::Error>() {
            Ok(_) => TransportError::Tls,
            Err(_) => TransportError::Connection,
        }),
    }
}
