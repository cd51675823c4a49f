//! Processes the messages that an SMSC delivers.

use std::{collections::HashSet, sync::Arc};

use ringtrue_domain::{
    phone::{self, Country, Msisdn, SmsAddressKind},
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    clock::Clock,
    node::NodeId,
    sms::{Inbox, PartOutcome, PartialSms, Reassembly, SmsOutcome, SmsPart},
};
use ringtrue_smpp::{
    content::MessageContent,
    esm_class::MessageType,
    pdu::{Address, CommandStatus, Ton},
    session::{MessageRequest, MessageResponse, RequestHandler, SessionAnomaly},
    text::{DataCoding, TextCoding},
    udh::Segment,
};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{ProjectScope, SmppConfig, SmppCounters, SmppOutcome};
use crate::{
    breaker::HealthRecorder,
    sms_parts::{decode_sms, encode_part, is_part},
};

/// State shared by the binds of a connector.
pub(super) struct InboundContext {
    pub(super) config: Arc<SmppConfig>,
    pub(super) receivers: HashSet<Msisdn>,
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) reassembly: Arc<dyn Reassembly>,
    pub(super) node: NodeId,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<SmppCounters>,
    pub(super) health: HealthRecorder,
    /// Cancelled when the connector stops.
    pub(super) stop: CancellationToken,
}

/// Handles the requests of one bind.
pub(super) struct BindHandler<'a>(pub(super) &'a InboundContext);

#[derive(Clone, Debug)]
struct Envelope {
    environment: SmsEnvironment,
    from: SmsSender,
    to: Msisdn,
}

impl RequestHandler for BindHandler<'_> {
    async fn on_request(&self, request: MessageRequest) -> MessageResponse {
        let status = self.process(&request).await;
        if status == CommandStatus::RECEIVER_TEMPORARY_ERROR {
            self.0.counters.increment(SmppOutcome::TemporaryError);
        }
        status.into()
    }

    fn on_anomaly(&self, event: SessionAnomaly) {
        match event {
            SessionAnomaly::MalformedPdu(_) => self.0.counters.increment(SmppOutcome::Malformed),
            SessionAnomaly::HandlerTimedOut { .. } => self.0.counters.increment(SmppOutcome::TemporaryError),
            _ => {}
        }
        tracing::debug!(connector.name = %self.0.config.name, link.event = ?event, "SMPP link event");
    }
}

impl BindHandler<'_> {
    async fn process(&self, request: &MessageRequest) -> CommandStatus {
        if matches!(request, MessageRequest::SubmitSm(_)) {
            return CommandStatus::INCORRECT_BIND_STATUS;
        }
        let InboundContext { config, receivers, counters, clock, health, .. } = self.0;
        counters.increment(SmppOutcome::Received);
        health.record_success(clock.now());
        if request.esm_class().message_type() != MessageType::Ordinary {
            counters.increment(SmppOutcome::NotAnSms);
            return CommandStatus::OK;
        }
        let number = |address| parse_msisdn(address, config.country);
        let Some(to) = number(request.destination()).filter(|number| receivers.contains(number)) else {
            counters.increment(SmppOutcome::OtherReceiver);
            return CommandStatus::OK;
        };
        let Some(environment) = config.project_scope.environment(request) else {
            counters.increment(SmppOutcome::NotAnSms);
            return CommandStatus::OK;
        };
        let envelope = Envelope {
            environment,
            from: number(request.source()).map_or(SmsSender::Unattributed, SmsSender::Number),
            to,
        };
        let content = request.content();
        let octets = content.unpacked_octets(config.default_alphabet);
        let content = MessageContent { octets: &octets, ..content };
        if let Some(segment) = content.segment.filter(|segment| is_part(*segment, &octets)) {
            return self.process_part(request, &content, segment, envelope).await;
        }
        let text = content.decode_text(config.default_alphabet);
        self.0.deliver_to_inbox(envelope, text, content.data_coding).await
    }

    async fn process_part(
        &self,
        request: &MessageRequest,
        content: &MessageContent<'_>,
        segment: Segment,
        envelope: Envelope,
    ) -> CommandStatus {
        let InboundContext { config, counters, reassembly, node, .. } = self.0;
        let Segment { reference, total, sequence } = segment;
        let part = SmsPart {
            environment: envelope.environment,
            connector: Arc::clone(&config.name),
            from: sender_key(envelope.environment, request.source(), *node),
            to: address_key(request.destination()),
            reference: reference.to_octets(),
            total,
            sequence,
            content: encode_part(content.data_coding, content.octets),
            lifetime: config.concatenation_deadline,
        };
        let report_until = Instant::now() + config.answer_timeout / 2;
        match reassembly.add_part(part).await {
            Ok(PartOutcome::Complete(sms)) => {
                let text = decode_sms(&sms, config.default_alphabet);
                let status = self.0.deliver_to_inbox(envelope, text, content.data_coding).await;
                if status.is_ok()
                    && let Err(error) = reassembly.mark_processed(&sms).await
                {
                    tracing::debug!(connector.name = %config.name, %error, "failed to mark a concatenated SMS as processed");
                }
                status
            }
            Ok(PartOutcome::Stored { first }) => {
                if first {
                    self.0.report_partial(envelope, report_until).await;
                }
                counters.increment(SmppOutcome::PartAcknowledged);
                CommandStatus::OK
            }
            Ok(PartOutcome::AlreadyProcessed) => {
                counters.increment(SmppOutcome::PartAcknowledged);
                CommandStatus::OK
            }
            Ok(PartOutcome::LimitReached) => CommandStatus::RECEIVER_TEMPORARY_ERROR,
            Err(error) => {
                tracing::debug!(connector.name = %config.name, %error, "failed to store a part of an SMS; the SMSC will resend it");
                CommandStatus::RECEIVER_TEMPORARY_ERROR
            }
        }
    }
}

impl InboundContext {
    /// Passes a complete SMS to the inbox, and returns the status for the SMSC.
    async fn deliver_to_inbox(&self, envelope: Envelope, text: String, data_coding: DataCoding) -> CommandStatus {
        let coding = data_coding.text_coding(self.config.default_alphabet);
        if coding == TextCoding::Other && !text.contains(|character: char| character.is_ascii_alphanumeric()) {
            self.counters.increment(SmppOutcome::Unreadable);
            return CommandStatus::OK;
        }
        let Envelope { environment, from, to } = envelope;
        let received_at = self.clock.now();
        let sms = InboundSms { environment, connector: Arc::clone(&self.config.name), from, to, text, received_at };
        match self.inbox.receive(sms).await {
            Ok(outcome) => {
                self.counters.increment(outcome.into());
                if outcome == SmsOutcome::Concluded {
                    self.health.record_conclusion_lag(received_at, self.clock.now());
                }
                CommandStatus::OK
            }
            Err(error) => {
                tracing::debug!(connector.name = %self.config.name, %error, "failed to process SMS; the SMSC will resend it");
                CommandStatus::RECEIVER_TEMPORARY_ERROR
            }
        }
    }

    /// Reports the first part of an SMS to the inbox, which marks the checks that expect it as pending. A failure is
    /// only logged, because it does not change the result of a check.
    async fn report_partial(&self, envelope: Envelope, until: Instant) {
        let Envelope { environment, from, to } = envelope;
        let connector = Arc::clone(&self.config.name);
        let partial = PartialSms { environment, connector, from, to, received_at: self.clock.now() };
        if let Ok(Err(error)) = timeout_at(until, self.inbox.receive_partial(partial)).await {
            tracing::debug!(connector.name = %self.config.name, %error, "failed to record the first part of an SMS");
        }
    }
}

impl ProjectScope {
    /// Returns the environment of a message. `None`: a simulated message that names no project.
    fn environment(self, request: &MessageRequest) -> Option<SmsEnvironment> {
        match self {
            ProjectScope::LiveProjects => Some(SmsEnvironment::Operator),
            ProjectScope::SandboxProject { tag } => {
                let project = request.tlvs().get(tag)?.try_into().ok()?;
                Some(SmsEnvironment::Sandbox(ProjectId::from_octets(project)))
            }
        }
    }
}

/// Returns the sender by which the parts of an SMS are joined. In the sandbox it includes the node: each node has its
/// own simulated SMSC, and these number their concatenated SMS independently.
fn sender_key(environment: SmsEnvironment, source: &Address, node: NodeId) -> String {
    match environment {
        SmsEnvironment::Operator => address_key(source),
        SmsEnvironment::Sandbox(_) => format!("{}@{}", address_key(source), node.0),
    }
}

fn address_key(address: &Address) -> String {
    format!("{}/{}/{}", address.ton.0, address.npi.0, address.value)
}

/// Parses an address. `None`: it is not an unambiguous phone number.
pub(super) fn parse_msisdn(address: &Address, country: Option<Country>) -> Option<Msisdn> {
    phone::SmsAddress { text: &address.value, kind: address_kind(address.ton), country }.to_msisdn()
}

fn address_kind(ton: Ton) -> SmsAddressKind {
    match ton {
        Ton::INTERNATIONAL => SmsAddressKind::International,
        Ton::NATIONAL => SmsAddressKind::National,
        Ton::UNKNOWN => SmsAddressKind::Unknown,
        _ => SmsAddressKind::NoSubscriber,
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
