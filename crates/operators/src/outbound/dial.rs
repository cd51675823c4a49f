//! How a connection is opened, once it is known to which addresses.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

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

/// How many addresses of a name are tried.
const TRIED: usize = 4;

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
