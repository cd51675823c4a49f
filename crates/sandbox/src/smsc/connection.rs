//! Connections of ESMEs, the clients of the SMSC: accepts them, handles the bind and runs the session.

use std::{net::SocketAddr, sync::Arc};

use ringtrue_smpp::{
    pdu::{BindMode, BindResponseBody, CommandStatus, TlvTag, Tlvs, VERSION_3_4},
    session::{BindError, Link, MessageRequest, MessageResponse, PendingBind, RequestHandler, Session, SessionAnomaly},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{SmscState, delivery::ReceiverBind};
use crate::SOCKET_RETRY_DELAY;

pub(super) async fn listen(listener: TcpListener, state: Arc<SmscState>, tasks: TaskTracker) {
    let permits = Arc::new(Semaphore::new(state.config.max_connections));
    let mut connections = 0;
    while let Some(accepted) = state.stop.run_until_cancelled(listener.accept()).await {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "sandbox SMSC accept failed");
                sleep(SOCKET_RETRY_DELAY).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            // The connection is closed immediately, so that the peer notices the limit instead of waiting in the
            // backlog.
            state.observer.update_counts(|counts| counts.connections_rejected += 1);
            continue;
        };
        connections += 1;
        let (state, number) = (Arc::clone(&state), connections);
        tasks.spawn(async move {
            Connection { number, peer, disconnect: state.disconnect_token(), state: &state }.run(stream).await;
            drop(permit);
        });
    }
}

struct Connection<'a> {
    number: u64,
    peer: SocketAddr,
    disconnect: CancellationToken,
    state: &'a SmscState,
}

impl Connection<'_> {
    async fn run(&self, stream: TcpStream) {
        // Nagle's algorithm would delay small messages.
        let _ = stream.set_nodelay(true);
        let (mut session, link) = Session::new(stream, self.state.config.session);
        let bound = tokio::select! {
            bound = self.handle_bind(&mut session) => bound,
            () = self.disconnect.cancelled() => return,
            () = self.state.stop.cancelled() => return,
        };
        match bound {
            Ok((mode, permit)) => self.run_bound(session, link, mode, permit).await,
            Err(error) => tracing::debug!(peer.address = %self.peer, %error, "sandbox SMSC bind failed"),
        }
    }

    /// Waits for a bind request, and accepts or rejects it. The bind counts against the limit until the permit is
    /// dropped.
    async fn handle_bind(
        &self,
        session: &mut Session<TcpStream>,
    ) -> Result<(BindMode, OwnedSemaphorePermit), BindError> {
        let pending = session.wait_for_bind().await?;
        let mode = pending.mode;
        let permit = self.check_bind(&pending).and_then(|()| {
            let permit = Arc::clone(&self.state.bind_permits).try_acquire_owned();
            permit.map_err(|_| CommandStatus::ALREADY_BOUND)
        });
        let permit = match permit {
            Ok(permit) => permit,
            Err(status) => {
                self.state.observer.update_counts(|counts| counts.binds_rejected += 1);
                session.reject_bind(pending, status).await?;
                return Err(BindError::Rejected(status));
            }
        };
        let tlvs = Tlvs::default().with(TlvTag::SC_INTERFACE_VERSION, [VERSION_3_4]);
        session.accept_bind(pending, BindResponseBody { system_id: self.state.config.system_id.clone(), tlvs }).await?;
        Ok((mode, permit))
    }

    fn check_bind(&self, pending: &PendingBind) -> Result<(), CommandStatus> {
        let config = &self.state.config;
        if self.state.refuses_binds() {
            Err(CommandStatus::BIND_FAILED)
        } else if pending.bind.system_id != config.system_id {
            Err(CommandStatus::INVALID_SYSTEM_ID)
        } else if pending.bind.password != config.password {
            Err(CommandStatus::INVALID_PASSWORD)
        } else {
            Ok(())
        }
    }

    /// Runs the session of an accepted bind. Transmitters receive no messages.
    async fn run_bound(&self, session: Session<TcpStream>, link: Link, mode: BindMode, permit: OwnedSemaphorePermit) {
        let receiver =
            ReceiverBind { link: link.clone(), disconnect: self.disconnect.clone(), connection: self.number };
        let registration = (mode != BindMode::Transmitter).then(|| self.state.binds.register(receiver));
        self.state.observer.update_counts(|counts| counts.binds += 1);
        tracing::info!(peer.address = %self.peer, bind.mode = ?mode, "sandbox SMSC bind accepted");

        let graceful_unbind = async {
            self.state.stop.cancelled().await;
            let _ = timeout(self.state.config.unbind_timeout, link.unbind()).await;
        };
        let handler = EsmeRequestHandler { mode };
        tokio::select! {
            biased;
            ended = session.run(&handler) => {
                tracing::info!(peer.address = %self.peer, bind.end = ?ended, "sandbox SMSC session ended");
            }
            () = self.disconnect.cancelled() => tracing::info!(peer.address = %self.peer, "sandbox SMSC connection dropped"),
            () = graceful_unbind => tracing::info!(peer.address = %self.peer, "sandbox SMSC unbind timed out"),
        }
        drop((registration, permit));
        self.state.observer.update_counts(|counts| counts.binds -= 1);
    }
}

/// Rejects message requests of ESMEs: the SMSC does not deliver to handsets.
struct EsmeRequestHandler {
    mode: BindMode,
}

impl RequestHandler for EsmeRequestHandler {
    async fn on_request(&self, request: MessageRequest) -> MessageResponse {
        match (request, self.mode) {
            (
                MessageRequest::SubmitSm(_) | MessageRequest::DataSm(_),
                BindMode::Transmitter | BindMode::Transceiver,
            ) => CommandStatus::SUBMIT_FAILED.into(),
            _ => CommandStatus::INCORRECT_BIND_STATUS.into(),
        }
    }

    fn on_anomaly(&self, event: SessionAnomaly) {
        tracing::debug!(link.event = ?event, "sandbox SMSC session event");
    }
}
