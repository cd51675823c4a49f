//! Event loop of a session, and its state.
//!
//! All awaited futures are cancellation safe. Buffered PDUs are processed before more is read, and responses are
//! written together, so that a burst of messages needs few system calls. [`SessionState`] does no I/O and never waits.

use std::{collections::VecDeque, ops::ControlFlow, pin::pin, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    time::{Instant, sleep_until, timeout},
};

use super::{
    MessageRequest, MessageResponse, QueuedRequest, RequestError, RequestHandler, SequenceNumbers, Session,
    SessionAnomaly, SessionConfig, SessionError, UnboundBy,
    transport::{PduReader, PduWriter, Transport},
};
use crate::pdu::{
    Body, CommandId, CommandStatus, DecodeError, Header, MessageResponseBody, Pdu, Request, Response, ResponseBody,
};

/// How far ahead the timer is set while there is no deadline.
const TIMER_WITHOUT_DEADLINE: Duration = Duration::from_hours(24);

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// Runs until either side unbinds or the connection fails. Handler calls in progress are then completed, and their
    /// responses sent if possible.
    pub async fn run<A: RequestHandler>(self, handler: &A) -> Result<UnboundBy, SessionError> {
        let Self { transport: Transport { mut reader, writer }, mut commands, config, sequence } = self;
        let mut state = SessionState::new(&config, handler, writer, sequence);
        let mut handlers = FuturesUnordered::new();
        let mut timer = pin!(sleep_until(Instant::now() + TIMER_WITHOUT_DEADLINE));

        let end = loop {
            let buffered_end = loop {
                if let Some(inbound) = state.queued_inbound_request.take_if(|_| handlers.len() < config.handler_window)
                {
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
                    state.start_draining(waiter);
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
                () = &mut timer, if state.queued_inbound_request.is_none() => {
                    if let Some(end) = state.on_deadline() {
                        break end;
                    }
                    let next_deadline = state.next_deadline();
                    timer.as_mut().reset(next_deadline.unwrap_or_else(|| Instant::now() + TIMER_WITHOUT_DEADLINE));
                }
            }
        };

        // A handler may wait for the response to a request that it sent over the link. Pending requests therefore fail
        // before the handlers are awaited.
        drop(commands);
        state.pending_requests.clear();
        while let Some(completed) = handlers.next().await {
            state.on_completed(completed);
        }
        if let Some(InboundRequest { sequence, request }) = state.queued_inbound_request.take() {
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

/// A received message request for the handler.
#[derive(Debug)]
struct InboundRequest {
    sequence: u32,
    request: MessageRequest,
}

/// A finished message request; `response` is `None` if the handler timed out.
#[derive(Debug)]
struct CompletedRequest {
    sequence: u32,
    command: CommandId,
    response: Option<MessageResponse>,
}

#[derive(Debug)]
enum SessionEnd {
    Unbound,
    UnboundByPeer { sequence: u32 },
    Failed(SessionError),
}

/// Progress of our own unbind: pending requests are completed before `unbind` is sent.
#[derive(Debug)]
enum Phase {
    Open,
    Draining,
    Unbinding { sequence: u32, deadline: Instant },
}

struct SessionState<'a, A, S> {
    config: &'a SessionConfig,
    handler: &'a A,
    writer: PduWriter<S>,
    sequence: SequenceNumbers,
    /// Our requests without a response, oldest first. All have the same timeout, so the oldest expires first.
    pending_requests: VecDeque<PendingRequest>,
    enquire_link: EnquireLinkTimer,
    phase: Phase,
    /// Callers of [`Link::unbind`](super::Link::unbind); dropping the senders wakes them.
    unbind_waiters: Vec<oneshot::Sender<()>>,
    /// A message request beyond the handler's window. Reading pauses while there is one.
    queued_inbound_request: Option<InboundRequest>,
    paused_since: Option<Instant>,
}

impl<'a, A: RequestHandler, S: AsyncWrite> SessionState<'a, A, S> {
    fn new(config: &'a SessionConfig, handler: &'a A, writer: PduWriter<S>, sequence: SequenceNumbers) -> Self {
        Self {
            config,
            handler,
            writer,
            sequence,
            pending_requests: VecDeque::new(),
            enquire_link: EnquireLinkTimer::new(config.enquire_link_interval, config.response_timeout, Instant::now()),
            phase: Phase::Open,
            unbind_waiters: vec![],
            queued_inbound_request: None,
            paused_since: None,
        }
    }

    fn may_read(&self) -> bool {
        self.queued_inbound_request.is_none() && !self.writer.is_full()
    }

    fn may_send(&self) -> bool {
        matches!(self.phase, Phase::Open)
            && self.pending_requests.len() < self.config.request_window
            && !self.writer.is_full()
    }

    fn record_activity(&mut self) {
        self.enquire_link.record_activity(Instant::now());
    }

    /// Processes one PDU, and queues it for the handler if it is a message request. Returns how the session ends, if
    /// the PDU ends it.
    fn on_pdu(&mut self, header: Header, body: &[u8]) -> Option<SessionEnd> {
        let Pdu { sequence, body } = match Pdu::decode(header, body) {
            Ok(pdu) => pdu,
            Err(error) => {
                self.on_malformed(error);
                return None;
            }
        };
        match body {
            Body::Request(request) => return self.on_request(sequence, request),
            Body::Response(response) => return self.on_response(sequence, response),
            Body::Unknown(unknown) if unknown.command.is_response() => {
                let (command, status) = (unknown.command, unknown.status);
                self.handler.on_anomaly(SessionAnomaly::UnmatchedResponse { command, status, sequence });
            }
            Body::Unknown(unknown) => {
                self.send_response(sequence, CommandStatus::INVALID_COMMAND_ID, ResponseBody::GenericNack);
                self.handler.on_anomaly(SessionAnomaly::UnknownCommand { command: unknown.command, sequence });
            }
        }
        None
    }

    fn on_malformed(&mut self, error: DecodeError) {
        let DecodeError { command, sequence, .. } = error;
        if command.is_response() {
            if let Some(pending) = self.take_pending(sequence) {
                pending.complete(Err(RequestError::Decode(error.clone())));
            }
        } else if command != CommandId::OUTBIND && command != CommandId::ALERT_NOTIFICATION {
            self.send_response(sequence, error.reason.status(), ResponseBody::empty_for(command));
        }
        self.handler.on_anomaly(SessionAnomaly::MalformedPdu(error));
    }

    fn on_request(&mut self, sequence: u32, request: Request) -> Option<SessionEnd> {
        match request {
            Request::SubmitSm(message) => self.queue_inbound_request(sequence, MessageRequest::SubmitSm(message)),
            Request::DeliverSm(message) => self.queue_inbound_request(sequence, MessageRequest::DeliverSm(message)),
            Request::DataSm(message) => self.queue_inbound_request(sequence, MessageRequest::DataSm(message)),
            Request::EnquireLink => self.send_response(sequence, CommandStatus::OK, ResponseBody::EnquireLink),
            Request::Bind(..) => {
                self.send_response(sequence, CommandStatus::ALREADY_BOUND, ResponseBody::empty_for(request.command()));
            }
            Request::Unbind => return Some(SessionEnd::UnboundByPeer { sequence }),
            Request::Outbind(outbind) => self.handler.on_anomaly(SessionAnomaly::Outbind(outbind)),
            Request::AlertNotification(alert) => self.handler.on_anomaly(SessionAnomaly::AlertNotification(alert)),
        }
        None
    }

    fn queue_inbound_request(&mut self, sequence: u32, request: MessageRequest) {
        if matches!(self.phase, Phase::Open) {
            self.queued_inbound_request = Some(InboundRequest { sequence, request });
        } else {
            self.reject_temporarily(sequence, request.command());
        }
    }

    fn on_response(&mut self, sequence: u32, response: Response) -> Option<SessionEnd> {
        let Response { status, ref body } = response;
        let command = body.command();
        if let Some(pending) = self.take_pending(sequence) {
            let matches_request =
                *body == ResponseBody::GenericNack || ResponseBody::empty_for(pending.command).command() == command;
            pending.complete(if matches_request {
                Ok(response)
            } else {
                Err(RequestError::UnexpectedResponse(command))
            });
        } else if matches!(self.phase, Phase::Unbinding { sequence: ours, .. } if ours == sequence) {
            return Some(SessionEnd::Unbound);
        } else if *body != ResponseBody::EnquireLink {
            self.handler.on_anomaly(SessionAnomaly::UnmatchedResponse { command, status, sequence });
        }
        None
    }

    fn on_outbound_request(&mut self, QueuedRequest { request, response_sender }: QueuedRequest) {
        let command = request.command();
        let sequence = self.sequence.next();
        let written = self.writer.write_pdu(&Pdu::request(sequence, request));
        match (written, response_sender) {
            (Ok(()), Some(response_sender)) => {
                let deadline = Instant::now() + self.config.response_timeout;
                self.pending_requests.push_back(PendingRequest { sequence, command, deadline, response_sender });
            }
            (Err(error), Some(response_sender)) => {
                let _ = response_sender.send(Err(RequestError::Encode(error)));
            }
            (_, None) => {}
        }
    }

    fn start_draining(&mut self, waiter: oneshot::Sender<()>) {
        self.unbind_waiters.push(waiter);
        if matches!(self.phase, Phase::Open) {
            self.phase = Phase::Draining;
        }
    }

    /// Sends `unbind` if the session is draining and nothing is pending.
    fn unbind_if_drained(&mut self, handler_is_idle: bool) {
        let idle = handler_is_idle && self.queued_inbound_request.is_none() && self.pending_requests.is_empty();
        if idle && matches!(self.phase, Phase::Draining) {
            let sequence = self.send_request(Request::Unbind);
            self.phase = Phase::Unbinding { sequence, deadline: Instant::now() + self.config.response_timeout };
        }
    }

    /// Sends the handler's response to the peer.
    fn on_completed(&mut self, CompletedRequest { sequence, command, response }: CompletedRequest) {
        let Some(MessageResponse { status, body }) = response else {
            self.reject_temporarily(sequence, command);
            self.handler.on_anomaly(SessionAnomaly::HandlerTimedOut { command, sequence });
            return;
        };
        let response = Pdu::response(sequence, status, message_response_body(command, body));
        if let Err(error) = self.writer.write_pdu(&response) {
            self.send_response(sequence, CommandStatus::SYSTEM_ERROR, ResponseBody::empty_for(command));
            self.handler.on_anomaly(SessionAnomaly::ResponseEncodingFailed { command, sequence, error });
        }
    }

    /// Returns the earliest deadline of our requests, `enquire_link` and unbind.
    fn next_deadline(&self) -> Option<Instant> {
        let unbinding = match self.phase {
            Phase::Unbinding { deadline, .. } => Some(deadline),
            Phase::Open | Phase::Draining => None,
        };
        let response = self.pending_requests.front().map(|request| request.deadline);
        [response, self.enquire_link.next_deadline(), unbinding].into_iter().flatten().min()
    }

    fn on_deadline(&mut self) -> Option<SessionEnd> {
        let now = Instant::now();
        while let Some(pending) = self.pending_requests.pop_front_if(|request| request.deadline <= now) {
            let (command, sequence) = (pending.command, pending.sequence);
            pending.complete(Err(RequestError::TimedOut));
            self.handler.on_anomaly(SessionAnomaly::ResponseTimedOut { command, sequence });
        }
        if matches!(self.phase, Phase::Unbinding { deadline, .. } if deadline <= now) {
            return Some(SessionEnd::Unbound);
        }
        match self.enquire_link.poll(now) {
            EnquireLinkAction::None => {}
            EnquireLinkAction::Send => drop(self.send_request(Request::EnquireLink)),
            EnquireLinkAction::TimedOut => return Some(SessionEnd::Failed(SessionError::EnquireLinkTimeout)),
        }
        None
    }

    /// Extends the peer's deadlines by the time in which reading was paused.
    fn extend_deadlines_after_pause(&mut self) {
        match (&self.queued_inbound_request, self.paused_since) {
            (Some(_), None) => self.paused_since = Some(Instant::now()),
            (None, Some(since)) => {
                let pause: Duration = since.elapsed();
                self.paused_since = None;
                for request in &mut self.pending_requests {
                    request.deadline += pause;
                }
                self.enquire_link.extend_deadline(pause);
                if let Phase::Unbinding { deadline, .. } = &mut self.phase {
                    *deadline += pause;
                }
            }
            _ => {}
        }
    }

    fn is_unbinding(&self) -> bool {
        matches!(self.phase, Phase::Unbinding { .. })
    }

    /// Removes the pending request with this number. Peers respond mostly in order, so a linear search from the front
    /// is fast.
    fn take_pending(&mut self, sequence: u32) -> Option<PendingRequest> {
        let index = self.pending_requests.iter().position(|request| request.sequence == sequence)?;
        self.pending_requests.remove(index)
    }

    /// Rejects a message request with a status that makes the peer retry.
    fn reject_temporarily(&mut self, sequence: u32, command: CommandId) {
        let is_to_smsc = command == CommandId::SUBMIT_SM;
        let status =
            if is_to_smsc { CommandStatus::MESSAGE_QUEUE_FULL } else { CommandStatus::RECEIVER_TEMPORARY_ERROR };
        self.send_response(sequence, status, ResponseBody::empty_for(command));
    }

    /// Sends a response that is always encodable, unlike that of a handler.
    fn send_response(&mut self, sequence: u32, status: CommandStatus, body: ResponseBody) {
        let written = self.writer.write_pdu(&Pdu::response(sequence, status, body));
        debug_assert_eq!(written, Ok(()));
    }

    /// Sends a request without a body, and returns its sequence number.
    fn send_request(&mut self, request: Request) -> u32 {
        let sequence = self.sequence.next();
        let written = self.writer.write_pdu(&Pdu::request(sequence, request));
        debug_assert_eq!(written, Ok(()));
        sequence
    }
}

fn message_response_body(command: CommandId, body: MessageResponseBody) -> ResponseBody {
    match command {
        CommandId::SUBMIT_SM => ResponseBody::SubmitSm(body),
        CommandId::DATA_SM => ResponseBody::DataSm(body),
        _ => ResponseBody::DeliverSm(body),
    }
}

/// Timer for `enquire_link`, which is sent to an idle peer. Any received octet counts as activity. If none arrives
/// within the response timeout after an `enquire_link`, the session ends.
#[derive(Debug)]
struct EnquireLinkTimer {
    interval: Option<Duration>,
    response_timeout: Duration,
    last_received: Instant,
    sent_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EnquireLinkAction {
    None,
    /// `enquire_link` is due. The timer assumes that it is sent now.
    Send,
    TimedOut,
}

impl EnquireLinkTimer {
    fn new(interval: Option<Duration>, response_timeout: Duration, now: Instant) -> Self {
        Self { interval, response_timeout, last_received: now, sent_at: None }
    }

    fn record_activity(&mut self, now: Instant) {
        self.last_received = now;
        self.sent_at = None;
    }

    fn next_deadline(&self) -> Option<Instant> {
        let interval = self.interval?;
        Some(self.sent_at.map_or(self.last_received + interval, |sent_at| sent_at + self.response_timeout))
    }

    fn poll(&mut self, now: Instant) -> EnquireLinkAction {
        match (self.next_deadline(), self.sent_at) {
            (Some(deadline), Some(_)) if deadline <= now => EnquireLinkAction::TimedOut,
            (Some(deadline), None) if deadline <= now => {
                self.sent_at = Some(now);
                EnquireLinkAction::Send
            }
            _ => EnquireLinkAction::None,
        }
    }

    /// Extends the deadline by the time in which reading was paused.
    fn extend_deadline(&mut self, by: Duration) {
        self.last_received += by;
        self.sent_at = self.sent_at.map(|sent_at| sent_at + by);
    }
}

#[derive(Debug)]
struct PendingRequest {
    sequence: u32,
    command: CommandId,
    deadline: Instant,
    response_sender: oneshot::Sender<Result<Response, RequestError>>,
}

impl PendingRequest {
    /// Passes the result to the caller, which may have dropped its future.
    fn complete(self, result: Result<Response, RequestError>) {
        let _ = self.response_sender.send(result);
    }
}
