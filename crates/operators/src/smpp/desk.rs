//! What is done with each message that comes.

use std::{collections::HashSet, sync::Arc, time::Duration};

use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{InboundSms, Origin, Sender},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{Clock, Disposition, Glimpse, Inbox};
use ringtrue_smpp::{
    content::Content,
    pdu::{Address, CommandStatus, MessageType},
    session::{Answer, Application, Event, Incoming, Link},
    text::{Coding, DataCoding},
    udh::Segment,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Counters, Outcome, Reach, SmppConfig, address,
    long::{LongMessages, Stage, Step, Waiting},
};
use crate::vital_signs::VitalSigns;

/// What the binds of a connector share.
pub(super) struct Desk {
    pub(super) config: Arc<SmppConfig>,
    pub(super) receivers: HashSet<Msisdn>,
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<Counters>,
    pub(super) long: Arc<LongMessages>,
    pub(super) signs: VitalSigns,
    /// Cancelled when the connector stops: from then on nothing is waited for.
    pub(super) stop: CancellationToken,
}

/// One bind's share of the desk.
pub(super) struct Line<'a> {
    desk: &'a Desk,
    link: Link,
    /// How many parts may wait at once: a part of the window, so that unfinished SMS cannot stop the others.
    waiting_room: Semaphore,
}

/// Who sent an SMS to whom.
#[derive(Clone, Debug)]
struct Envelope {
    origin: Origin,
    from: Sender,
    to: Msisdn,
}

impl<'a> Line<'a> {
    pub(super) fn new(desk: &'a Desk, link: Link) -> Self {
        Self { desk, link, waiting_room: Semaphore::new((desk.config.window / 2).max(1)) }
    }
}

impl Application for Line<'_> {
    async fn on_request(&self, request: Incoming) -> Answer {
        let status = self.take(&request).await;
        if status == CommandStatus::RECEIVER_TEMPORARY_ERROR {
            self.desk.counters.count(Outcome::TemporaryError);
        }
        status.into()
    }

    fn on_event(&self, event: Event) {
        match event {
            Event::Malformed(_) => self.desk.counters.count(Outcome::Malformed),
            Event::AnswerTimedOut { .. } => self.desk.counters.count(Outcome::TemporaryError),
            _ => {}
        }
        tracing::debug!(connector.name = %self.desk.config.name, link.event = ?event, "something happened on a link");
    }
}

impl Line<'_> {
    async fn take(&self, request: &Incoming) -> CommandStatus {
        if matches!(request, Incoming::SubmitSm(_)) {
            return CommandStatus::INCORRECT_BIND_STATUS;
        }
        let Desk { config, receivers, counters, .. } = self.desk;
        counters.count(Outcome::Received);
        self.desk.signs.heard(self.desk.clock.now());
        if request.esm_class().message_type() != MessageType::Ordinary {
            counters.count(Outcome::NotAnSms);
            return CommandStatus::OK;
        }
        let number = |address| address::number(address, config.country);
        let Some(to) = number(request.destination()).filter(|number| receivers.contains(number)) else {
            counters.count(Outcome::OtherReceiver);
            return CommandStatus::OK;
        };
        let Some(origin) = config.reach.origin(request) else {
            counters.count(Outcome::NotAnSms);
            return CommandStatus::OK;
        };
        let envelope =
            Envelope { origin, from: number(request.source()).map_or(Sender::Unattributed, Sender::Number), to };
        let content = request.content();
        let octets = content.unpacked(config.default_alphabet);
        let content = Content { octets: &octets, ..content };
        if let Some(segment) = content.segment.filter(|segment| is_one_of_several(*segment)) {
            return self.take_part(request, &content, segment, envelope).await;
        }
        let text = content.text(config.default_alphabet);
        self.desk.hand_over(envelope, text, content.data_coding).await
    }

    async fn take_part(
        &self,
        request: &Incoming,
        content: &Content<'_>,
        segment: Segment,
        envelope: Envelope,
    ) -> CommandStatus {
        let Desk { config, counters, long, .. } = self.desk;
        let patience_ends = Instant::now() + patience(config.answer_timeout);
        let source = part_source(envelope.origin, request.source());
        match long.take(&source, request.destination(), segment, content, Instant::now()) {
            Step::Deliver(whole) => {
                let status = self.desk.hand_over(envelope, whole.text.to_string(), content.data_coding).await;
                if status.is_ok() {
                    whole.conclude();
                }
                status
            }
            Step::Wait(waiting) => {
                if waiting.first {
                    self.desk.glimpse(envelope, patience_ends).await;
                }
                self.wait(waiting, patience_ends).await
            }
            Step::Trust { first } => {
                if first {
                    self.desk.glimpse(envelope, patience_ends).await;
                }
                counters.count(Outcome::PartOnTrust);
                CommandStatus::OK
            }
            Step::Acknowledge => {
                counters.count(Outcome::PartTaken);
                CommandStatus::OK
            }
            Step::Refuse => CommandStatus::RECEIVER_TEMPORARY_ERROR,
        }
    }

    /// Waits until the SMS of a part has been dealt with, or cannot be for now.
    async fn wait(&self, waiting: Waiting, patience_ends: Instant) -> CommandStatus {
        let place = self.waiting_room.try_acquire();
        let patience_ends = if place.is_ok() { patience_ends } else { Instant::now() };
        let mut stage = waiting.stage.clone();
        let is_alone = tokio::select! {
            biased;
            _ = stage.wait_for(|stage| *stage != Stage::Gathering) => false,
            () = sleep_until(patience_ends) => true,
            () = self.desk.stop.cancelled() => return CommandStatus::RECEIVER_TEMPORARY_ERROR,
            // There is nobody to answer.
            () = self.link.closed() => return CommandStatus::RECEIVER_TEMPORARY_ERROR,
        };
        if is_alone {
            self.desk.long.put_off(&waiting);
            return CommandStatus::RECEIVER_TEMPORARY_ERROR;
        }
        match stage.wait_for(|stage| matches!(stage, Stage::Concluded | Stage::Failed)).await.as_deref() {
            Ok(Stage::Concluded) => {
                self.desk.counters.count(Outcome::PartTaken);
                CommandStatus::OK
            }
            // It failed, or made way for another under the same reference.
            _ => CommandStatus::RECEIVER_TEMPORARY_ERROR,
        }
    }
}

impl Desk {
    /// Brings a whole SMS to the inbox.
    async fn hand_over(&self, envelope: Envelope, text: String, data_coding: DataCoding) -> CommandStatus {
        let coding = data_coding.coding(self.config.default_alphabet);
        if coding == Coding::Other && !text.contains(|character: char| character.is_ascii_alphanumeric()) {
            self.counters.count(Outcome::Unreadable);
            return CommandStatus::OK;
        }
        let Envelope { origin, from, to } = envelope;
        let received_at = self.clock.now();
        let sms = InboundSms { origin, connector: Arc::clone(&self.config.name), from, to, text, received_at };
        match self.inbox.receive(sms).await {
            Ok(disposition) => {
                self.counters.count(disposition.into());
                if disposition == Disposition::Concluded {
                    self.signs.concluded(received_at, self.clock.now());
                }
                CommandStatus::OK
            }
            Err(error) => {
                tracing::debug!(connector.name = %self.config.name, %error, "an SMS could not be dealt with");
                CommandStatus::RECEIVER_TEMPORARY_ERROR
            }
        }
    }

    /// Tells the inbox of an SMS that has begun. It is no loss if it does not hear.
    async fn glimpse(&self, envelope: Envelope, until: Instant) {
        let Envelope { origin, from, to } = envelope;
        let connector = Arc::clone(&self.config.name);
        let glimpse = Glimpse { origin, connector, from, to, seen_at: self.clock.now() };
        if let Ok(Err(error)) = timeout_at(until, self.inbox.glimpse(glimpse)).await {
            tracing::debug!(connector.name = %self.config.name, %error, "the beginning of an SMS could not be noted");
        }
    }
}

impl Reach {
    /// Where a message comes from. `None`: no project is named whose handset could have sent it.
    fn origin(self, request: &Incoming) -> Option<Origin> {
        match self {
            Reach::LiveProjects => Some(Origin::Operator),
            Reach::SandboxProject { tag } => {
                let project = request.tlvs().get(tag)?.try_into().ok()?;
                Some(Origin::Sandbox(ProjectId::from_octets(project)))
            }
        }
    }
}

/// The sender by which the parts of an SMS are told from others'. Handsets of two sandbox projects may have one number.
fn part_source(origin: Origin, source: &Address) -> Address {
    match origin {
        Origin::Operator => source.clone(),
        Origin::Sandbox(project) => Address { value: format!("{}@{project}", source.value), ..source.clone() },
    }
}

/// How long a part waits for the others; what is left of the time is for the inbox.
fn patience(answer_timeout: Duration) -> Duration {
    answer_timeout / 2
}

/// A number that cannot be is none: the message is then taken as it is.
fn is_one_of_several(segment: Segment) -> bool {
    segment.total > 1 && (1..=segment.total).contains(&segment.sequence)
}
