//! Connections of those who want our messages: taking them in, binding, and running their sessions.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use ringtrue_smpp::{
    pdu::{BindMode, BindReply, CommandStatus, Tag, Tlvs, VERSION_3_4},
    session::{Answer, Application, BindError, BindOffer, Event, Incoming, Link, Session},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Centre, binds::Receiver};

/// How long to leave a listener alone that cannot accept.
const BREATH: Duration = Duration::from_millis(100);

/// Takes connections in until the centre stops.
pub(super) async fn listen(listener: TcpListener, centre: Arc<Centre>, tasks: TaskTracker) {
    let room = Arc::new(Semaphore::new(centre.config.connections));
    let mut connections = 0;
    loop {
        let accepted = tokio::select! {
            () = centre.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the message centre cannot accept connections");
                sleep(BREATH).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            // Closed at once, so that the peer knows; one that waits in the backlog does not.
            centre.observer.count(|counts| counts.turned_away += 1);
            continue;
        };
        connections += 1;
        let (centre, number) = (Arc::clone(&centre), connections);
        tasks.spawn(async move {
            Connection { number, peer, cut: centre.link_token(), centre: &centre }.run(stream).await;
            drop(place);
        });
    }
}

struct Connection<'a> {
    number: u64,
    peer: SocketAddr,
    cut: CancellationToken,
    centre: &'a Centre,
}

impl Connection<'_> {
    async fn run(&self, stream: TcpStream) {
        // Small messages that wait for their answers: the usual gathering only makes them late.
        let _ = stream.set_nodelay(true);
        let (mut session, link) = Session::new(stream, self.centre.config.session);
        let admitted = tokio::select! {
            admitted = self.bind(&mut session) => admitted,
            () = self.cut.cancelled() => return,
            () = self.centre.stop.cancelled() => return,
        };
        match admitted {
            Ok(mode) => self.run_bound(session, link, mode).await,
            Err(error) => tracing::debug!(peer.address = %self.peer, %error, "a connection ended without a bind"),
        }
    }

    async fn bind(&self, session: &mut Session<TcpStream>) -> Result<BindMode, BindError> {
        let offer = session.await_bind().await?;
        let mode = offer.mode;
        if let Err(status) = self.judge(&offer) {
            self.centre.observer.count(|counts| counts.binds_refused += 1);
            session.refuse(offer, status).await?;
            return Err(BindError::Refused(status));
        }
        let tlvs = Tlvs::default().with(Tag::SC_INTERFACE_VERSION, [VERSION_3_4]);
        session.admit(offer, BindReply { system_id: self.centre.config.system_id.clone(), tlvs }).await?;
        Ok(mode)
    }

    fn judge(&self, offer: &BindOffer) -> Result<(), CommandStatus> {
        let config = &self.centre.config;
        if self.centre.refuses_binds() {
            Err(CommandStatus::BIND_FAILED)
        } else if offer.bind.system_id != config.system_id {
            Err(CommandStatus::INVALID_SYSTEM_ID)
        } else if offer.bind.password != config.password {
            Err(CommandStatus::INVALID_PASSWORD)
        } else {
            Ok(())
        }
    }

    /// A transmitter is welcome and gets nothing.
    async fn run_bound(&self, session: Session<TcpStream>, link: Link, mode: BindMode) {
        let receiver = Receiver { link: link.clone(), cut: self.cut.clone(), connection: self.number };
        let registration = (mode != BindMode::Transmitter).then(|| self.centre.binds.register(receiver));
        self.centre.observer.count(|counts| counts.binds += 1);
        tracing::info!(peer.address = %self.peer, bind.mode = ?mode, "a bind was made");

        let farewell = async {
            self.centre.stop.cancelled().await;
            let _ = timeout(self.centre.config.farewell, link.unbind()).await;
        };
        let desk = Desk { mode };
        tokio::select! {
            biased;
            ended = session.run(&desk) => {
                tracing::info!(peer.address = %self.peer, bind.end = ?ended, "a bind has ended");
            }
            () = self.cut.cancelled() => tracing::info!(peer.address = %self.peer, "a link was cut"),
            () = farewell => tracing::info!(peer.address = %self.peer, "a bind was given up"),
        }
        drop(registration);
        self.centre.observer.count(|counts| counts.binds -= 1);
    }
}

/// Answers what a peer sends. This centre carries messages from handsets, and none to them.
struct Desk {
    mode: BindMode,
}

impl Application for Desk {
    async fn on_request(&self, request: Incoming) -> Answer {
        match (request, self.mode) {
            (Incoming::SubmitSm(_) | Incoming::DataSm(_), BindMode::Transmitter | BindMode::Transceiver) => {
                CommandStatus::SUBMIT_FAILED.into()
            }
            _ => CommandStatus::INCORRECT_BIND_STATUS.into(),
        }
    }

    fn on_event(&self, event: Event) {
        tracing::debug!(link.event = ?event, "something happened on a link");
    }
}
