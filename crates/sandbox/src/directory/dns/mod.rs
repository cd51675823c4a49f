//! ENUM over DNS: UDP and TCP sockets. [`query`] parses queries, [`zone`] resolves them, [`response`] encodes
//! responses.

mod query;
mod response;
mod zone;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

pub use self::zone::RecordStyle;
pub(super) use self::zone::Zone;
use self::{
    query::Query,
    response::{DnsResponse, ResponseCode},
};
use super::{DirectoryState, EnumFault};
use crate::accept::{SOCKET_RETRY_DELAY, accept_connections};

const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than any ENUM query.
const MAX_QUERY_BYTES: usize = 4 * 1024;
/// Further queries are dropped.
const MAX_DELAYED_RESPONSES: usize = 1_024;
/// Attempts to find a port that is free for UDP and TCP.
const BIND_ATTEMPTS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

/// Binds UDP and TCP sockets to the same port.
pub(super) async fn bind(listen: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
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
    /// Response and its delay; `None`: no response.
    fn respond(&self, message: &[u8], transport: Transport) -> Option<(Vec<u8>, Duration)> {
        let query = Query::parse(message)?;
        self.observer.count(|counts| match transport {
            Transport::Udp => counts.udp_queries += 1,
            Transport::Tcp => counts.tcp_queries += 1,
        });
        let regular = || self.zone.respond(&query, &self.subscribers);
        let (response, delay) = match self.faults.enum_fault() {
            Some(EnumFault::Truncated) if transport == Transport::Udp => (DnsResponse::truncated(), Duration::ZERO),
            None | Some(EnumFault::Truncated) => (regular(), Duration::ZERO),
            Some(EnumFault::Delayed(delay)) => (regular(), delay),
            Some(EnumFault::Refused) => (DnsResponse::with_code(ResponseCode::Refused), Duration::ZERO),
            Some(EnumFault::ServerFailure) => (DnsResponse::with_code(ResponseCode::ServerFailure), Duration::ZERO),
            Some(EnumFault::NoResponse) => return None,
        };
        let max_bytes = match transport {
            Transport::Udp => query.max_udp_response(),
            Transport::Tcp => usize::from(u16::MAX),
        };
        Some((response.encode_within(&query, max_bytes), delay))
    }
}
