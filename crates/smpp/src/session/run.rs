//! Event loop of a session.
//!
//! All awaited futures are cancellation safe. Buffered PDUs are processed before more is read, and responses are
//! written together, so that a burst of messages needs few system calls.

use std::{ops::ControlFlow, pin::pin, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until, timeout},
};

use super::{
    RequestHandler, Session, SessionError, UnboundBy,
    state::{CompletedRequest, InboundRequest, SessionEnd, SessionState},
    transport::{PduReader, Transport},
};
use crate::pdu::{CommandId, CommandStatus, ResponseBody};

/// Reset time of the timer while there is no deadline.
const IDLE_TIMER: Duration = Duration::from_hours(24);

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// Runs until either side unbinds or the connection fails. Handler calls in progress are then completed, and their
    /// responses sent if possible.
    pub async fn run<A: RequestHandler>(self, handler: &A) -> Result<UnboundBy, SessionError> {
        let Self { transport: Transport { mut reader, writer }, mut commands, config, sequence } = self;
        let mut state = SessionState::new(&config, handler, writer, sequence);
        let mut handlers = FuturesUnordered::new();
        let mut timer = pin!(sleep_until(Instant::now() + IDLE_TIMER));

        let end = loop {
            let buffered_end = loop {
                if let Some(inbound) = state.parked.take_if(|_| handlers.len() < config.handler_window) {
                    handlers.push(run_handler(handler, inbound, config.handler_timeout));
                }
                match process_next_pdu(&mut reader, &mut state) {
                    ControlFlow::Continue(()) => {}
                    ControlFlow::Break(end) => break end,
                }
            };
            if let Some(end) = buffered_end {
                break end;
            }
            state.extend_deadlines_after_pause();
            state.unbind_if_drained(handlers.is_empty());
            if let Some(deadline) = state.next_deadline().filter(|deadline| *deadline < timer.deadline()) {
                timer.as_mut().reset(deadline);
            }
            let (may_read, may_send, may_write) = (state.may_read(), state.may_send(), state.writer.has_unsent());
            tokio::select! {
                biased;
                Some(completed) = handlers.next(), if !handlers.is_empty() => state.on_completed(completed),
                Some(waiter) = commands.unbinds.recv() => {
                    state.on_unbind(waiter);
                    commands.requests.close();
                    while commands.requests.try_recv().is_ok() {}
                }
                Some(request) = commands.requests.recv(), if may_send => state.on_outbound_request(request),
                written = state.writer.write_step(), if may_write => {
                    if let Err(error) = written {
                        break SessionEnd::Failed(error.into());
                    }
                }
                filled = reader.fill(), if may_read => match filled {
                    Ok(()) => state.record_activity(),
                    Err(SessionError::Closed) if state.is_unbinding() => break SessionEnd::Unbound,
                    Err(error) => break SessionEnd::Failed(error),
                },
                () = &mut timer, if state.parked.is_none() => {
                    if let Some(end) = state.on_deadline() {
                        break end;
                    }
                    timer.as_mut().reset(state.next_deadline().unwrap_or_else(|| Instant::now() + IDLE_TIMER));
                }
            }
        };

        // A handler may wait for one of these responses, so they fail before the handlers are awaited.
        drop(commands);
        state.drop_pending_requests();
        while let Some(completed) = handlers.next().await {
            state.on_completed(completed);
        }
        if let Some(InboundRequest { sequence, request }) = state.parked.take() {
            state.reject_temporarily(sequence, request.command());
        }
        let ended = match end {
            SessionEnd::Unbound => Ok(UnboundBy::Us),
            SessionEnd::UnboundByPeer { sequence } => {
                state.send_response(sequence, CommandStatus::OK, ResponseBody::empty_for(CommandId::UNBIND));
                Ok(UnboundBy::Peer)
            }
            SessionEnd::Failed(error) => Err(error),
        };
        if !matches!(ended, Err(SessionError::Io(_))) {
            // Best effort: the peer may have disconnected.
            let _ = timeout(config.response_timeout, state.writer.close()).await;
        }
        ended
    }
}

/// Processes one buffered PDU. Breaks if there is none, if reading is paused, or if the session ends.
fn process_next_pdu<A: RequestHandler, S: AsyncRead + AsyncWrite>(
    reader: &mut PduReader<S>,
    state: &mut SessionState<'_, A, S>,
) -> ControlFlow<Option<SessionEnd>> {
    if !state.may_read() {
        return ControlFlow::Break(None);
    }
    match reader.next_buffered() {
        Ok(None) => ControlFlow::Break(None),
        Ok(Some((header, body))) => match state.on_pdu(header, &body) {
            None => ControlFlow::Continue(()),
            end => ControlFlow::Break(end),
        },
        Err(length) => {
            state.send_response(0, CommandStatus::INVALID_COMMAND_LENGTH, ResponseBody::GenericNack);
            ControlFlow::Break(Some(SessionEnd::Failed(length.into())))
        }
    }
}

async fn run_handler<A: RequestHandler>(
    handler: &A,
    InboundRequest { sequence, request }: InboundRequest,
    handler_timeout: Duration,
) -> CompletedRequest {
    let command = request.command();
    let response = timeout(handler_timeout, handler.on_request(request)).await.ok();
    CompletedRequest { sequence, command, response }
}
