//! Processing of received messages.

use std::{collections::HashSet, sync::Arc, time::Duration};

use ringtrue_domain::{
    phone::{self, AddressKind, Country, Msisdn},
    reverse_sms::{InboundSms, SmsOrigin, SmsSender},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{Clock, Inbox, PartialSms, SmsOutcome};
use ringtrue_smpp::{
    content::MessageContent,
    pdu::{Address, CommandStatus, MessageType, Ton},
    session::{Link, MessageRequest, MessageResponse, RequestHandler, SessionEvent},
    text::{DataCoding, TextCoding},
    udh::Segment,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    ProjectScope, SmppConfig, SmppCounters, SmppOutcome,
    concatenation::{ConcatenatedMessages, PartAction, ReassemblyStage, WaitingPart},
};
use crate::breaker::HealthRecorder;

/// State shared by the binds of a connector.
pub(super) struct InboundContext {
    pub(super) config: Arc<SmppConfig>,
    pub(super) receivers: HashSet<Msisdn>,
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<SmppCounters>,
    pub(super) concatenation: Arc<ConcatenatedMessages>,
    pub(super) health: HealthRecorder,
    /// Cancelled when the connector stops; waiting parts are then rejected.
    pub(super) stop: CancellationToken,
}

/// Handles the requests of one bind.
pub(super) struct BindHandler<'a> {
    context: &'a InboundContext,
    link: Link,
    /// Limits waiting parts to half of the window, so that incomplete SMS cannot block others.
    waiting_parts: Semaphore,
}

#[derive(Clone, Debug)]
struct Envelope {
    origin: SmsOrigin,
    from: SmsSender,
    to: Msisdn,
}

impl<'a> BindHandler<'a> {
    pub(super) fn new(context: &'a InboundContext, link: Link) -> Self {
        Self { context, link, waiting_parts: Semaphore::new((context.config.window / 2).max(1)) }
    }
}

impl RequestHandler for BindHandler<'_> {
    async fn on_request(&self, request: MessageRequest) -> MessageResponse {
        let status = self.process(&request).await;
        if status == CommandStatus::RECEIVER_TEMPORARY_ERROR {
            self.context.counters.increment(SmppOutcome::TemporaryError);
        }
        status.into()
    }

    fn on_event(&self, event: SessionEvent) {
        match event {
            SessionEvent::MalformedPdu(_) => self.context.counters.increment(SmppOutcome::Malformed),
            SessionEvent::HandlerTimedOut { .. } => self.context.counters.increment(SmppOutcome::TemporaryError),
            _ => {}
        }
        tracing::debug!(connector.name = %self.context.config.name, link.event = ?event, "SMPP link event");
    }
}

impl BindHandler<'_> {
    async fn process(&self, request: &MessageRequest) -> CommandStatus {
        if matches!(request, MessageRequest::SubmitSm(_)) {
            return CommandStatus::INCORRECT_BIND_STATUS;
        }
        let InboundContext { config, receivers, counters, .. } = self.context;
        counters.increment(SmppOutcome::Received);
        self.context.health.record_success(self.context.clock.now());
        if request.esm_class().message_type() != MessageType::Ordinary {
            counters.increment(SmppOutcome::NotAnSms);
            return CommandStatus::OK;
        }
        let number = |address| parse_msisdn(address, config.country);
        let Some(to) = number(request.destination()).filter(|number| receivers.contains(number)) else {
            counters.increment(SmppOutcome::OtherReceiver);
            return CommandStatus::OK;
        };
        let Some(origin) = config.project_scope.origin(request) else {
            counters.increment(SmppOutcome::NotAnSms);
            return CommandStatus::OK;
        };
        let envelope =
            Envelope { origin, from: number(request.source()).map_or(SmsSender::Unattributed, SmsSender::Number), to };
        let content = request.content();
        let octets = content.unpack_septets(config.default_alphabet);
        let content = MessageContent { octets: &octets, ..content };
        if let Some(segment) = content.segment.filter(|segment| is_concatenated(*segment)) {
            return self.process_part(request, &content, segment, envelope).await;
        }
        let text = content.decode_text(config.default_alphabet);
        self.context.deliver_to_inbox(envelope, text, content.data_coding).await
    }

    async fn process_part(
        &self,
        request: &MessageRequest,
        content: &MessageContent<'_>,
        segment: Segment,
        envelope: Envelope,
    ) -> CommandStatus {
        let InboundContext { config, counters, concatenation, .. } = self.context;
        let wait_until = Instant::now() + part_wait_timeout(config.answer_timeout);
        let source = reassembly_source(envelope.origin, request.source());
        match concatenation.add_part(&source, request.destination(), segment, content, Instant::now()) {
            PartAction::Deliver(complete) => {
                let status =
                    self.context.deliver_to_inbox(envelope, complete.text.to_string(), content.data_coding).await;
                if status.is_ok() {
                    complete.mark_delivered();
                }
                status
            }
            PartAction::Wait(waiting) => {
                if waiting.first {
                    self.context.report_partial(envelope, wait_until).await;
                }
                self.wait_for_other_parts(waiting, wait_until).await
            }
            PartAction::AcknowledgeEarly { first } => {
                if first {
                    self.context.report_partial(envelope, wait_until).await;
                }
                counters.increment(SmppOutcome::PartAcknowledgedEarly);
                CommandStatus::OK
            }
            PartAction::Acknowledge => {
                counters.increment(SmppOutcome::PartAcknowledged);
                CommandStatus::OK
            }
            PartAction::Reject => CommandStatus::RECEIVER_TEMPORARY_ERROR,
        }
    }

    /// Waits until the SMS of a part is delivered or fails.
    async fn wait_for_other_parts(&self, waiting: WaitingPart, wait_until: Instant) -> CommandStatus {
        let permit = self.waiting_parts.try_acquire();
        let wait_until = if permit.is_ok() { wait_until } else { Instant::now() };
        let mut stage = waiting.stage.clone();
        let timed_out = tokio::select! {
            biased;
            _ = stage.wait_for(|stage| *stage != ReassemblyStage::Incomplete) => false,
            () = sleep_until(wait_until) => true,
            () = self.context.stop.cancelled() => return CommandStatus::RECEIVER_TEMPORARY_ERROR,
            // The response can no longer be sent.
            () = self.link.closed() => return CommandStatus::RECEIVER_TEMPORARY_ERROR,
        };
        if timed_out {
            self.context.concatenation.mark_deferred(&waiting);
            return CommandStatus::RECEIVER_TEMPORARY_ERROR;
        }
        match stage
            .wait_for(|stage| matches!(stage, ReassemblyStage::Delivered | ReassemblyStage::Failed))
            .await
            .as_deref()
        {
            Ok(ReassemblyStage::Delivered) => {
                self.context.counters.increment(SmppOutcome::PartAcknowledged);
                CommandStatus::OK
            }
            // It failed, or another SMS with the same reference replaced it.
            _ => CommandStatus::RECEIVER_TEMPORARY_ERROR,
        }
    }
}

impl InboundContext {
    /// Passes a complete SMS to the inbox.
    async fn deliver_to_inbox(&self, envelope: Envelope, text: String, data_coding: DataCoding) -> CommandStatus {
        let coding = data_coding.text_coding(self.config.default_alphabet);
        if coding == TextCoding::Other && !text.contains(|character: char| character.is_ascii_alphanumeric()) {
            self.counters.increment(SmppOutcome::Unreadable);
            return CommandStatus::OK;
        }
        let Envelope { origin, from, to } = envelope;
        let received_at = self.clock.now();
        let sms = InboundSms { origin, connector: Arc::clone(&self.config.name), from, to, text, received_at };
        match self.inbox.receive(sms).await {
            Ok(outcome) => {
                self.counters.increment(outcome.into());
                if outcome == SmsOutcome::Concluded {
                    self.health.record_conclusion(received_at, self.clock.now());
                }
                CommandStatus::OK
            }
            Err(error) => {
                tracing::debug!(connector.name = %self.config.name, %error, "failed to process SMS; the SMSC will resend it");
                CommandStatus::RECEIVER_TEMPORARY_ERROR
            }
        }
    }

    /// Reports the first part of an SMS to the inbox. A failure has no effect on the check's result.
    async fn report_partial(&self, envelope: Envelope, until: Instant) {
        let Envelope { origin, from, to } = envelope;
        let connector = Arc::clone(&self.config.name);
        let partial = PartialSms { origin, connector, from, to, received_at: self.clock.now() };
        if let Ok(Err(error)) = timeout_at(until, self.inbox.receive_partial(partial)).await {
            tracing::debug!(connector.name = %self.config.name, %error, "failed to record the first part of an SMS");
        }
    }
}

impl ProjectScope {
    /// `None`: a simulated message that names no project.
    fn origin(self, request: &MessageRequest) -> Option<SmsOrigin> {
        match self {
            ProjectScope::LiveProjects => Some(SmsOrigin::Operator),
            ProjectScope::SandboxProject { tag } => {
                let project = request.tlvs().get(tag)?.try_into().ok()?;
                Some(SmsOrigin::Sandbox(ProjectId::from_octets(project)))
            }
        }
    }
}

/// Sender address used as the reassembly key. Handsets of two sandbox projects may share a number.
fn reassembly_source(origin: SmsOrigin, source: &Address) -> Address {
    match origin {
        SmsOrigin::Operator => source.clone(),
        SmsOrigin::Sandbox(project) => Address { value: format!("{}@{project}", source.value), ..source.clone() },
    }
}

/// Time that a part waits for the others; the rest is for the inbox.
fn part_wait_timeout(answer_timeout: Duration) -> Duration {
    answer_timeout / 2
}

/// Invalid part numbers are ignored: the message is then complete by itself.
fn is_concatenated(segment: Segment) -> bool {
    segment.total > 1 && (1..=segment.total).contains(&segment.sequence)
}

/// `None`: the address is not an unambiguous phone number.
pub(super) fn parse_msisdn(address: &Address, country: Option<Country>) -> Option<Msisdn> {
    phone::SmsAddress { text: &address.value, kind: address_kind(address.ton), country }.to_msisdn()
}

fn address_kind(ton: Ton) -> AddressKind {
    match ton {
        Ton::INTERNATIONAL => AddressKind::International,
        Ton::NATIONAL => AddressKind::National,
        Ton::UNKNOWN => AddressKind::Unknown,
        _ => AddressKind::NoSubscriber,
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_smpp::pdu::Npi;

    use super::*;

    #[test]
    fn type_of_number_determines_the_format() {
        for (ton, value, expected) in [
            (1, "447700900123", Some("+447700900123")),
            (2, "07700900123", Some("+447700900123")),
            (0, "+447700900123", Some("+447700900123")),
            (0, "00447700900123", Some("+447700900123")),
            (0, "447700900123", Some("+447700900123")),
            (0, "60999", None),
            (3, "447700900123", None),
            (4, "447700900123", None),
            (5, "447700900123", None),
            (5, "Bank", None),
            (6, "447700900123", None),
            (7, "447700900123", None),
            (255, "447700900123", None),
        ] {
            let address = Address { ton: Ton(ton), npi: Npi::ISDN, value: value.to_owned() };
            let parsed = parse_msisdn(&address, "GB".parse().ok());
            assert_eq!(parsed.as_ref().map(Msisdn::as_str), expected, "{ton} {value}");
        }
    }
}
