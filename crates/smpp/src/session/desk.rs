//! What a running session knows, and what it does about each thing that happens. No waiting in here.

use std::time::Duration;

use tokio::{io::AsyncWrite, sync::oneshot, time::Instant};

use super::{
    Answer, Application, Config, Event, Fault, Incoming, RequestError, Sequence,
    link::Order,
    outstanding::{Outstanding, Waiting},
    pulse::{Diagnosis, Pulse},
    wire::Writer,
};
use crate::pdu::{Body, CommandId, CommandStatus, DecodeError, Header, MessageReply, Pdu, Reply, Request, Response};

/// A message for the application.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) sequence: u32,
    pub(super) request: Incoming,
}

/// What came of it; no answer when the application took too long.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) sequence: u32,
    pub(super) command: CommandId,
    pub(super) answer: Option<Answer>,
}

/// Why a session stops.
#[derive(Debug)]
pub(super) enum End {
    Unbound,
    UnboundByPeer { sequence: u32 },
    Fault(Fault),
}

/// Our own way out: first everything is answered, then we unbind.
#[derive(Debug)]
enum Phase {
    Open,
    Draining,
    Unbinding { sequence: u32, deadline: Instant },
}

pub(super) struct Desk<'a, A, S> {
    config: &'a Config,
    application: &'a A,
    pub(super) writer: Writer<S>,
    sequence: Sequence,
    outstanding: Outstanding,
    pulse: Pulse,
    phase: Phase,
    /// Those who wait for the end, and learn of it when this is dropped.
    awaiting_end: Vec<oneshot::Sender<()>>,
    /// A message that the application has no room for. While there is one, nothing is read.
    pub(super) parked: Option<Job>,
    parked_since: Option<Instant>,
}

impl<'a, A: Application, S: AsyncWrite> Desk<'a, A, S> {
    pub(super) fn new(config: &'a Config, application: &'a A, writer: Writer<S>, sequence: Sequence) -> Self {
        Self {
            config,
            application,
            writer,
            sequence,
            outstanding: Outstanding::default(),
            pulse: Pulse::new(config.enquire_link_interval, config.response_timeout, Instant::now()),
            phase: Phase::Open,
            awaiting_end: vec![],
            parked: None,
            parked_since: None,
        }
    }

    pub(super) fn may_read(&self) -> bool {
        self.parked.is_none() && !self.writer.is_full()
    }

    pub(super) fn may_send(&self) -> bool {
        let open = matches!(self.phase, Phase::Open);
        open && self.outstanding.len() < self.config.request_window && !self.writer.is_full()
    }

    pub(super) fn on_life(&mut self) {
        self.pulse.beat(Instant::now());
    }

    /// Takes one PDU. A message for the application is parked.
    pub(super) fn on_pdu(&mut self, header: Header, body: &[u8]) -> Option<End> {
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
                self.application.on_event(Event::UnmatchedResponse { command, status, sequence });
            }
            Body::Unknown(unknown) => {
                self.reply(sequence, CommandStatus::INVALID_COMMAND_ID, Reply::GenericNack);
                self.application.on_event(Event::UnknownCommand { command: unknown.command, sequence });
            }
        }
        None
    }

    fn on_malformed(&mut self, error: DecodeError) {
        let DecodeError { command, sequence, .. } = error;
        if command.is_response() {
            if let Some(waiting) = self.outstanding.take(sequence) {
                waiting.settle(Err(RequestError::Malformed(error.clone())));
            }
        } else if command != CommandId::OUTBIND && command != CommandId::ALERT_NOTIFICATION {
            self.reply(sequence, error.what.status(), Reply::to(command));
        }
        self.application.on_event(Event::Malformed(error));
    }

    fn on_request(&mut self, sequence: u32, request: Request) -> Option<End> {
        match request {
            Request::SubmitSm(message) => self.park(sequence, Incoming::SubmitSm(message)),
            Request::DeliverSm(message) => self.park(sequence, Incoming::DeliverSm(message)),
            Request::DataSm(message) => self.park(sequence, Incoming::DataSm(message)),
            Request::EnquireLink => self.reply(sequence, CommandStatus::OK, Reply::EnquireLink),
            Request::Bind(..) => self.reply(sequence, CommandStatus::ALREADY_BOUND, Reply::to(request.command())),
            Request::Unbind => return Some(End::UnboundByPeer { sequence }),
            Request::Outbind(outbind) => self.application.on_event(Event::Outbind(outbind)),
            Request::AlertNotification(alert) => self.application.on_event(Event::Alert(alert)),
        }
        None
    }

    fn park(&mut self, sequence: u32, request: Incoming) {
        if matches!(self.phase, Phase::Open) {
            self.parked = Some(Job { sequence, request });
        } else {
            self.put_off(sequence, request.command());
        }
    }

    fn on_response(&mut self, sequence: u32, response: Response) -> Option<End> {
        let Response { status, ref reply } = response;
        let command = reply.command();
        if let Some(waiting) = self.outstanding.take(sequence) {
            let suits = *reply == Reply::GenericNack || Reply::to(waiting.command).command() == command;
            waiting.settle(if suits { Ok(response) } else { Err(RequestError::Unexpected(command)) });
        } else if matches!(self.phase, Phase::Unbinding { sequence: ours, .. } if ours == sequence) {
            return Some(End::Unbound);
        } else if *reply != Reply::EnquireLink {
            self.application.on_event(Event::UnmatchedResponse { command, status, sequence });
        }
        None
    }

    /// Sends a request of ours.
    pub(super) fn on_order(&mut self, Order { request, caller }: Order) {
        let command = request.command();
        let sequence = self.sequence.next();
        let written = self.writer.push(&Pdu::request(sequence, request));
        match (written, caller) {
            (Ok(()), Some(caller)) => {
                let deadline = Instant::now() + self.config.response_timeout;
                self.outstanding.push(Waiting { sequence, command, deadline, caller });
            }
            (Err(what), Some(caller)) => {
                let _ = caller.send(Err(RequestError::Unwritable(what)));
            }
            (_, None) => {}
        }
    }

    pub(super) fn on_unbind(&mut self, caller: oneshot::Sender<()>) {
        self.awaiting_end.push(caller);
        if matches!(self.phase, Phase::Open) {
            self.phase = Phase::Draining;
        }
    }

    /// Unbinds once nothing is left to do.
    pub(super) fn go_on(&mut self, application_is_idle: bool) {
        let idle = application_is_idle && self.parked.is_none() && self.outstanding.len() == 0;
        if idle && matches!(self.phase, Phase::Draining) {
            let sequence = self.send(Request::Unbind);
            self.phase = Phase::Unbinding { sequence, deadline: Instant::now() + self.config.response_timeout };
        }
    }

    /// Answers the peer.
    pub(super) fn on_done(&mut self, Done { sequence, command, answer }: Done) {
        let Some(Answer { status, reply }) = answer else {
            self.put_off(sequence, command);
            self.application.on_event(Event::AnswerTimedOut { command, sequence });
            return;
        };
        let response = Pdu::response(sequence, status, message_reply(command, reply));
        if let Err(what) = self.writer.push(&response) {
            self.reply(sequence, CommandStatus::SYSTEM_ERROR, Reply::to(command));
            self.application.on_event(Event::UnwritableAnswer { command, sequence, what });
        }
    }

    /// When to look at the clock again; not while nobody listens.
    pub(super) fn due(&self) -> Option<Instant> {
        let unbinding = match self.phase {
            Phase::Unbinding { deadline, .. } => Some(deadline),
            Phase::Open | Phase::Draining => None,
        };
        [self.outstanding.due(), self.pulse.due(), unbinding].into_iter().flatten().min()
    }

    pub(super) fn on_time(&mut self) -> Option<End> {
        let now = Instant::now();
        while let Some(waiting) = self.outstanding.take_overdue(now) {
            let (command, sequence) = (waiting.command, waiting.sequence);
            waiting.settle(Err(RequestError::TimedOut));
            self.application.on_event(Event::ResponseTimedOut { command, sequence });
        }
        if matches!(self.phase, Phase::Unbinding { deadline, .. } if deadline <= now) {
            return Some(End::Unbound);
        }
        match self.pulse.look(now) {
            Diagnosis::Fine => {}
            Diagnosis::Ask => drop(self.send(Request::EnquireLink)),
            Diagnosis::Dead => return Some(End::Fault(Fault::Silent)),
        }
        None
    }

    /// Keeps account of the time in which nothing is read, and gives it back to the peer.
    pub(super) fn mind_the_pause(&mut self) {
        match (&self.parked, self.parked_since) {
            (Some(_), None) => self.parked_since = Some(Instant::now()),
            (None, Some(since)) => {
                let pause: Duration = since.elapsed();
                self.parked_since = None;
                self.outstanding.postpone(pause);
                self.pulse.postpone(pause);
                if let Phase::Unbinding { deadline, .. } = &mut self.phase {
                    *deadline += pause;
                }
            }
            _ => {}
        }
    }

    /// Whether the peer's leaving is what we asked for.
    pub(super) fn is_unbinding(&self) -> bool {
        matches!(self.phase, Phase::Unbinding { .. })
    }

    /// Lets go of everyone who waits for a response.
    pub(super) fn abandon_requests(&mut self) {
        self.outstanding.abandon();
    }

    /// Tells the peer that a message was not taken, and may be sent again.
    pub(super) fn put_off(&mut self, sequence: u32, command: CommandId) {
        let to_centre = command == CommandId::SUBMIT_SM;
        let status =
            if to_centre { CommandStatus::MESSAGE_QUEUE_FULL } else { CommandStatus::RECEIVER_TEMPORARY_ERROR };
        self.reply(sequence, status, Reply::to(command));
    }

    /// Sends an answer that has nothing in it that could be wrong.
    pub(super) fn reply(&mut self, sequence: u32, status: CommandStatus, reply: Reply) {
        let written = self.writer.push(&Pdu::response(sequence, status, reply));
        debug_assert_eq!(written, Ok(()));
    }

    /// Sends a request of the session's own, which has no body.
    fn send(&mut self, request: Request) -> u32 {
        let sequence = self.sequence.next();
        let written = self.writer.push(&Pdu::request(sequence, request));
        debug_assert_eq!(written, Ok(()));
        sequence
    }
}

fn message_reply(command: CommandId, reply: MessageReply) -> Reply {
    match command {
        CommandId::SUBMIT_SM => Reply::SubmitSm(reply),
        CommandId::DATA_SM => Reply::DataSm(reply),
        _ => Reply::DeliverSm(reply),
    }
}
