//! State of a running session and its reaction to each event. Does no I/O and never waits.

use std::time::Duration;

use tokio::{io::AsyncWrite, sync::oneshot, time::Instant};

use super::{
    MessageRequest, MessageResponse, RequestError, RequestHandler, SequenceNumbers, SessionConfig, SessionError,
    SessionEvent,
    enquire_link::{EnquireLinkAction, EnquireLinkTimer},
    link::OutboundRequest,
    pending_requests::{PendingRequest, PendingRequests},
    transport::PduWriter,
};
use crate::pdu::{
    Body, CommandId, CommandStatus, DecodeError, Header, MessageResponseBody, Pdu, Request, Response, ResponseBody,
};

/// A received message request for the handler.
#[derive(Debug)]
pub(super) struct InboundRequest {
    pub(super) sequence: u32,
    pub(super) request: MessageRequest,
}

/// A finished message request; `response` is `None` if the handler timed out.
#[derive(Debug)]
pub(super) struct CompletedRequest {
    pub(super) sequence: u32,
    pub(super) command: CommandId,
    pub(super) response: Option<MessageResponse>,
}

#[derive(Debug)]
pub(super) enum SessionEnd {
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

pub(super) struct SessionState<'a, A, S> {
    config: &'a SessionConfig,
    handler: &'a A,
    pub(super) writer: PduWriter<S>,
    sequence: SequenceNumbers,
    pending_requests: PendingRequests,
    enquire_link: EnquireLinkTimer,
    phase: Phase,
    /// Callers of [`Link::unbind`](super::Link::unbind); dropping the senders wakes them.
    unbind_waiters: Vec<oneshot::Sender<()>>,
    /// A message request beyond the handler's window. Reading pauses while there is one.
    pub(super) parked: Option<InboundRequest>,
    parked_since: Option<Instant>,
}

impl<'a, A: RequestHandler, S: AsyncWrite> SessionState<'a, A, S> {
    pub(super) fn new(
        config: &'a SessionConfig,
        handler: &'a A,
        writer: PduWriter<S>,
        sequence: SequenceNumbers,
    ) -> Self {
        Self {
            config,
            handler,
            writer,
            sequence,
            pending_requests: PendingRequests::default(),
            enquire_link: EnquireLinkTimer::new(config.enquire_link_interval, config.response_timeout, Instant::now()),
            phase: Phase::Open,
            unbind_waiters: vec![],
            parked: None,
            parked_since: None,
        }
    }

    pub(super) fn may_read(&self) -> bool {
        self.parked.is_none() && !self.writer.is_full()
    }

    pub(super) fn may_send(&self) -> bool {
        matches!(self.phase, Phase::Open)
            && self.pending_requests.len() < self.config.request_window
            && !self.writer.is_full()
    }

    pub(super) fn record_activity(&mut self) {
        self.enquire_link.record_activity(Instant::now());
    }

    /// Processes one PDU. Parks message requests for the handler.
    pub(super) fn on_pdu(&mut self, header: Header, body: &[u8]) -> Option<SessionEnd> {
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
                self.handler.on_event(SessionEvent::UnmatchedResponse { command, status, sequence });
            }
            Body::Unknown(unknown) => {
                self.send_response(sequence, CommandStatus::INVALID_COMMAND_ID, ResponseBody::GenericNack);
                self.handler.on_event(SessionEvent::UnknownCommand { command: unknown.command, sequence });
            }
        }
        None
    }

    fn on_malformed(&mut self, error: DecodeError) {
        let DecodeError { command, sequence, .. } = error;
        if command.is_response() {
            if let Some(pending) = self.pending_requests.take(sequence) {
                pending.complete(Err(RequestError::Decode(error.clone())));
            }
        } else if command != CommandId::OUTBIND && command != CommandId::ALERT_NOTIFICATION {
            self.send_response(sequence, error.reason.status(), ResponseBody::empty_for(command));
        }
        self.handler.on_event(SessionEvent::MalformedPdu(error));
    }

    fn on_request(&mut self, sequence: u32, request: Request) -> Option<SessionEnd> {
        match request {
            Request::SubmitSm(message) => self.park(sequence, MessageRequest::SubmitSm(message)),
            Request::DeliverSm(message) => self.park(sequence, MessageRequest::DeliverSm(message)),
            Request::DataSm(message) => self.park(sequence, MessageRequest::DataSm(message)),
            Request::EnquireLink => self.send_response(sequence, CommandStatus::OK, ResponseBody::EnquireLink),
            Request::Bind(..) => {
                self.send_response(sequence, CommandStatus::ALREADY_BOUND, ResponseBody::empty_for(request.command()));
            }
            Request::Unbind => return Some(SessionEnd::UnboundByPeer { sequence }),
            Request::Outbind(outbind) => self.handler.on_event(SessionEvent::Outbind(outbind)),
            Request::AlertNotification(alert) => self.handler.on_event(SessionEvent::AlertNotification(alert)),
        }
        None
    }

    fn park(&mut self, sequence: u32, request: MessageRequest) {
        if matches!(self.phase, Phase::Open) {
            self.parked = Some(InboundRequest { sequence, request });
        } else {
            self.reject_temporarily(sequence, request.command());
        }
    }

    fn on_response(&mut self, sequence: u32, response: Response) -> Option<SessionEnd> {
        let Response { status, ref body } = response;
        let command = body.command();
        if let Some(pending) = self.pending_requests.take(sequence) {
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
            self.handler.on_event(SessionEvent::UnmatchedResponse { command, status, sequence });
        }
        None
    }

    pub(super) fn on_outbound_request(&mut self, OutboundRequest { request, response_sender }: OutboundRequest) {
        let command = request.command();
        let sequence = self.sequence.next();
        let written = self.writer.write_pdu(&Pdu::request(sequence, request));
        match (written, response_sender) {
            (Ok(()), Some(response_sender)) => {
                let deadline = Instant::now() + self.config.response_timeout;
                self.pending_requests.push(PendingRequest { sequence, command, deadline, response_sender });
            }
            (Err(error), Some(response_sender)) => {
                let _ = response_sender.send(Err(RequestError::Encode(error)));
            }
            (_, None) => {}
        }
    }

    pub(super) fn on_unbind(&mut self, waiter: oneshot::Sender<()>) {
        self.unbind_waiters.push(waiter);
        if matches!(self.phase, Phase::Open) {
            self.phase = Phase::Draining;
        }
    }

    /// Sends `unbind` if the session is draining and nothing is pending.
    pub(super) fn unbind_if_drained(&mut self, handler_is_idle: bool) {
        let idle = handler_is_idle && self.parked.is_none() && self.pending_requests.len() == 0;
        if idle && matches!(self.phase, Phase::Draining) {
            let sequence = self.send_request(Request::Unbind);
            self.phase = Phase::Unbinding { sequence, deadline: Instant::now() + self.config.response_timeout };
        }
    }

    /// Sends the handler's response to the peer.
    pub(super) fn on_completed(&mut self, CompletedRequest { sequence, command, response }: CompletedRequest) {
        let Some(MessageResponse { status, body }) = response else {
            self.reject_temporarily(sequence, command);
            self.handler.on_event(SessionEvent::HandlerTimedOut { command, sequence });
            return;
        };
        let response = Pdu::response(sequence, status, message_response_body(command, body));
        if let Err(error) = self.writer.write_pdu(&response) {
            self.send_response(sequence, CommandStatus::SYSTEM_ERROR, ResponseBody::empty_for(command));
            self.handler.on_event(SessionEvent::ResponseEncodingFailed { command, sequence, error });
        }
    }

    /// Earliest deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let unbinding = match self.phase {
            Phase::Unbinding { deadline, .. } => Some(deadline),
            Phase::Open | Phase::Draining => None,
        };
        [self.pending_requests.next_deadline(), self.enquire_link.next_deadline(), unbinding]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn on_deadline(&mut self) -> Option<SessionEnd> {
        let now = Instant::now();
        while let Some(pending) = self.pending_requests.take_expired(now) {
            let (command, sequence) = (pending.command, pending.sequence);
            pending.complete(Err(RequestError::TimedOut));
            self.handler.on_event(SessionEvent::ResponseTimedOut { command, sequence });
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
    pub(super) fn extend_deadlines_after_pause(&mut self) {
        match (&self.parked, self.parked_since) {
            (Some(_), None) => self.parked_since = Some(Instant::now()),
            (None, Some(since)) => {
                let pause: Duration = since.elapsed();
                self.parked_since = None;
                self.pending_requests.extend_deadlines(pause);
                self.enquire_link.extend_deadline(pause);
                if let Phase::Unbinding { deadline, .. } = &mut self.phase {
                    *deadline += pause;
                }
            }
            _ => {}
        }
    }

    pub(super) fn is_unbinding(&self) -> bool {
        matches!(self.phase, Phase::Unbinding { .. })
    }

    /// Fails all pending requests with [`RequestError::Closed`].
    pub(super) fn drop_pending_requests(&mut self) {
        self.pending_requests.clear();
    }

    /// Rejects a message request with a status that makes the peer retry.
    pub(super) fn reject_temporarily(&mut self, sequence: u32, command: CommandId) {
        let is_to_smsc = command == CommandId::SUBMIT_SM;
        let status =
            if is_to_smsc { CommandStatus::MESSAGE_QUEUE_FULL } else { CommandStatus::RECEIVER_TEMPORARY_ERROR };
        self.send_response(sequence, status, ResponseBody::empty_for(command));
    }

    /// Sends a response that always encodes.
    pub(super) fn send_response(&mut self, sequence: u32, status: CommandStatus, body: ResponseBody) {
        let written = self.writer.write_pdu(&Pdu::response(sequence, status, body));
        debug_assert_eq!(written, Ok(()));
    }

    /// Sends a request without a body.
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
