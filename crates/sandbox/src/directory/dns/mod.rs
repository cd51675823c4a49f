//! Numbers and their networks by DNS: the sockets. What is asked is read in [`query`], what is said is decided by the
//! [`zone`], and how it is written is in [`reply`].

mod query;
mod reply;
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
    reply::{Code, Reply},
};
use super::{Core, EnumFault};
use crate::doorway::{BREATH, take_in};

const READ_PATIENCE: Duration = Duration::from_secs(10);
/// Longer than any question about a number.
const LONGEST_QUESTION: usize = 4 * 1024;
/// How many answers may be late at a time. Datagrams above are lost, as datagrams are.
const LATE_AT_A_TIME: usize = 1_024;
/// How many ports are tried until one is free both ways.
const ATTEMPTS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Datagram,
    Stream,
}

/// One port for both ways.
pub(super) async fn bind(listen: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let mut attempts = ATTEMPTS;
    loop {
        let listener = TcpListener::bind(listen).await?;
        attempts -= 1;
        match UdpSocket::bind(listener.local_addr()?).await {
            Ok(socket) => return Ok((socket, listener)),
            // It was any port, and somebody has this one for datagrams: there are others.
            Err(_) if listen.port() == 0 && attempts > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Answers datagrams until the directory stops.
pub(super) async fn answer_datagrams(socket: UdpSocket, core: Arc<Core>, tasks: TaskTracker) {
    let (socket, room) = (Arc::new(socket), Arc::new(Semaphore::new(LATE_AT_A_TIME)));
    let mut datagram = vec![0; LONGEST_QUESTION];
    while let Some(received) = core.stop.run_until_cancelled(socket.recv_from(&mut datagram)).await {
        let Ok((length, from)) = received else {
            sleep(BREATH).await;
            continue;
        };
        let Some((answer, late)) = core.answer(&datagram[..length], Way::Datagram) else { continue };
        if late.is_zero() {
            // Whoever asked may be gone.
            let _ = socket.send_to(&answer, from).await;
            continue;
        }
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (socket, core) = (Arc::clone(&socket), Arc::clone(&core));
        tasks.spawn(async move {
            if core.stop.run_until_cancelled(sleep(late)).await.is_some() {
                let _ = socket.send_to(&answer, from).await;
            }
            drop(place);
        });
    }
}

/// Takes connections in until the directory stops.
pub(super) async fn listen(listener: TcpListener, core: Arc<Core>, tasks: TaskTracker) {
    let (most, stop) = (core.config.connections, core.stop.clone());
    let serve = |stream| {
        let core = Arc::clone(&core);
        async move {
            if let Err(error) = converse(stream, &core).await {
                tracing::debug!(%error, "a connection to the simulated number directory broke");
            }
        }
    };
    take_in(listener, most, stop, tasks, serve).await;
}

/// Question after question, each with its length before it, until the other side has no more.
async fn converse(mut stream: TcpStream, core: &Core) -> io::Result<()> {
    loop {
        let mut length = [0; 2];
        if timeout(READ_PATIENCE, stream.read(&mut length[..1])).await?? == 0 {
            return Ok(());
        }
        timeout(READ_PATIENCE, stream.read_exact(&mut length[1..])).await??;
        let mut question = vec![0; u16::from_be_bytes(length).into()];
        timeout(READ_PATIENCE, stream.read_exact(&mut question)).await??;
        let Some((answer, late)) = core.answer(&question, Way::Stream) else { continue };
        if !late.is_zero() {
            sleep(late).await;
        }
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes()[..], &answer].concat()).await?;
    }
}

impl Core {
    /// What is said to a message, and how late. `None`: nothing.
    fn answer(&self, message: &[u8], way: Way) -> Option<(Vec<u8>, Duration)> {
        let query = Query::read(message)?;
        self.observer.count(|counts| match way {
            Way::Datagram => counts.by_datagram += 1,
            Way::Stream => counts.over_tcp += 1,
        });
        let usual = || self.zone.answer(&query, &self.register);
        let (reply, late) = match self.faults.by_dns() {
            Some(EnumFault::Truncated) if way == Way::Datagram => (Reply::cut(), Duration::ZERO),
            None | Some(EnumFault::Truncated) => (usual(), Duration::ZERO),
            Some(EnumFault::Late(late)) => (usual(), late),
            Some(EnumFault::Refused) => (Reply::of(Code::Refused), Duration::ZERO),
            Some(EnumFault::ServerFailure) => (Reply::of(Code::ServerFailure), Duration::ZERO),
            Some(EnumFault::Silent) => return None,
        };
        let room = match way {
            Way::Datagram => query.datagram_room(),
            Way::Stream => usize::from(u16::MAX),
        };
        Some((reply.fitting(&query, room), late))
    }
}
