use jiff::SignedDuration;
use ringtrue_domain::reverse_sms::SmsSender;
use ringtrue_operators::smpp::{ProjectScope, SmppConfig, SmppConnector, SmppOutcome, TlvTag};
use ringtrue_sandbox::smsc::{Alphabet, ConcatenationMode, DeliveryOutcome, FaultScript};
use ringtrue_smpp::{
    pdu::{Address, CommandStatus, ShortMessage, Tlvs},
    udh::ConcatenationReference,
};
use tokio::time::advance;

use crate::{
    Fixture, HANDSET, SECOND, Sandbox, number,
    peers::{Bound, ManualSmsc, part, part_with, sms},
};

const RESEND: CommandStatus = CommandStatus::RECEIVER_TEMPORARY_ERROR;

/// Two nodes of a deployment. The test distributes the parts of an SMS over their binds.
struct TwoNodes {
    one: Node,
    other: Node,
}

/// A node, with the bind as its SMSC sees it.
struct Node {
    fixture: Fixture,
    bound: Bound,
    _connector: SmppConnector,
    _smsc: ManualSmsc,
}

impl Node {
    async fn start(fixture: Fixture) -> Self {
        let smsc = ManualSmsc::start().await;
        let config = SmppConfig { concatenation_deadline: 60 * SECOND, ..Fixture::config(smsc.port()) };
        let connector = fixture.start(config);
        let bound = smsc.bind().await;
        connector.wait_until(|status| status.binds_up == 1).await;
        Node { fixture, bound, _connector: connector, _smsc: smsc }
    }

    async fn deliver(&self, message: ShortMessage) -> CommandStatus {
        self.bound.deliver(message).await
    }

    fn texts(&self) -> Vec<String> {
        self.fixture.inbox.texts()
    }
}

impl TwoNodes {
    async fn start() -> Self {
        let one = Fixture::new();
        let other = one.another_node();
        TwoNodes { one: Node::start(one).await, other: Node::start(other).await }
    }
}

const NONE: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn parts_on_two_nodes_are_joined() {
    let TwoNodes { one, other } = TwoNodes::start().await;
    assert_eq!(one.deliver(part(7, 3, 3, "three")).await, CommandStatus::OK);
    assert_eq!(other.deliver(part(7, 3, 1, "one ")).await, CommandStatus::OK);
    assert!(one.texts().is_empty() && other.texts().is_empty());
    assert_eq!(one.deliver(part(7, 3, 2, "two ")).await, CommandStatus::OK);
    assert_eq!(one.texts(), ["one two three"]);
    assert_eq!(other.texts(), NONE);
    let partials = one.fixture.inbox.partials();
    assert_eq!((partials.len(), other.fixture.inbox.partials().len()), (1, 0), "the first part is reported once");
    assert_eq!(partials[0].from, SmsSender::Number(number(HANDSET)));
    assert_eq!(&*partials[0].connector, "test");
    assert_eq!(one.fixture.count(SmppOutcome::PartAcknowledged), 1);
    // Resent parts are acknowledged on both nodes without another delivery.
    assert_eq!(other.deliver(part(7, 3, 2, "two ")).await, CommandStatus::OK);
    assert_eq!(one.deliver(part(7, 3, 1, "one ")).await, CommandStatus::OK);
    assert_eq!((one.texts().len(), other.texts().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn last_part_is_acknowledged_after_the_sms_is_processed() {
    let TwoNodes { one, other } = TwoNodes::start().await;
    assert_eq!(one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    other.fixture.inbox.set_blocked(true);
    let second = other.bound.send(part(7, 2, 2, "two"));
    other.fixture.inbox.wait_for_deliveries(1).await;
    assert!(!second.is_finished());
    other.fixture.inbox.set_blocked(false);
    assert_eq!(second.await.unwrap(), CommandStatus::OK);
    assert_eq!(other.texts(), ["one two"]);
}

#[tokio::test(start_paused = true)]
async fn after_an_inbox_failure_the_resent_part_redelivers_the_sms() {
    let TwoNodes { one, other } = TwoNodes::start().await;
    assert_eq!(one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    other.fixture.inbox.fail_next(1);
    assert_eq!(other.deliver(part(7, 2, 2, "two")).await, RESEND);
    assert_eq!(other.texts(), NONE);
    // The SMSC may resend the part to any node.
    assert_eq!(one.deliver(part(7, 2, 2, "two")).await, CommandStatus::OK);
    assert_eq!((one.texts(), other.texts()), (vec!["one two".to_owned()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn part_that_is_not_stored_is_not_acknowledged() {
    let TwoNodes { one, other } = TwoNodes::start().await;
    one.fixture.deployment.reassembly.set_down(true);
    assert_eq!(one.deliver(part(7, 2, 1, "one ")).await, RESEND);
    assert_eq!(one.fixture.count(SmppOutcome::TemporaryError), 1);
    one.fixture.deployment.reassembly.set_down(false);
    assert_eq!(other.deliver(part(7, 2, 2, "two")).await, CommandStatus::OK);
    assert_eq!(one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    assert_eq!(one.texts(), ["one two"]);
}

#[tokio::test(start_paused = true)]
async fn incomplete_sms_expires() {
    let TwoNodes { one, other } = TwoNodes::start().await;
    assert_eq!(one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    one.fixture.deployment.clock.advance(SignedDuration::from_secs(60));
    advance(30 * SECOND).await;
    let missing = || one.fixture.count(SmppOutcome::PartsMissing) + other.fixture.count(SmppOutcome::PartsMissing);
    while missing() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(missing(), 1, "one node counts it");
    assert_eq!(other.deliver(part(7, 2, 2, "two")).await, CommandStatus::OK);
    assert!(one.texts().is_empty() && other.texts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reference_can_be_reused() {
    let TwoNodes { one, other } = TwoNodes::start().await;
    for text in ["one ", "other "] {
        assert_eq!(one.deliver(part(7, 2, 1, text)).await, CommandStatus::OK);
        assert_eq!(other.deliver(part(7, 2, 2, text)).await, CommandStatus::OK);
    }
    assert_eq!(other.texts(), ["one one ", "other other "]);
}

#[tokio::test(start_paused = true)]
async fn references_of_different_widths_are_different() {
    let TwoNodes { one, other } = TwoNodes::start().await;
    let sixteen = |sequence, text| part_with(ConcatenationReference::SixteenBit(7), 2, sequence, text);
    let sar = |sequence: u8, text| ShortMessage {
        tlvs: Tlvs::default()
            .with(TlvTag::SAR_MSG_REF_NUM, [0, 7])
            .with(TlvTag::SAR_TOTAL_SEGMENTS, [2])
            .with(TlvTag::SAR_SEGMENT_SEQNUM, [sequence]),
        ..sms(text)
    };
    for (eight, wide) in [(part(7, 2, 1, "one "), sixteen(2, "four")), (part(7, 2, 1, "five "), sar(2, "eight"))] {
        assert_eq!(one.deliver(eight).await, CommandStatus::OK);
        assert_eq!(other.deliver(wide).await, CommandStatus::OK);
    }
    assert!(one.texts().is_empty() && other.texts().is_empty(), "{:?} {:?}", one.texts(), other.texts());
    assert_eq!(one.deliver(part(7, 2, 2, "six")).await, CommandStatus::OK);
    assert_eq!(one.deliver(sar(1, "seven ")).await, CommandStatus::OK);
    assert_eq!(one.texts(), ["five six", "seven eight"]);
}

/// SMPP 3.4, 5.3.2.32, specifies this precedence.
#[tokio::test(start_paused = true)]
async fn payload_takes_precedence_over_short_message() {
    let TwoNodes { one, .. } = TwoNodes::start().await;
    let with_payload = |payload: &[u8], text| ShortMessage {
        tlvs: Tlvs::default().with(TlvTag::MESSAGE_PAYLOAD, payload),
        ..sms(text)
    };
    for message in
        [with_payload(b"VERIFY 1", "truncated"), with_payload(b"VERIFY 2", ""), with_payload(b"", "VERIFY 3")]
    {
        assert_eq!(one.deliver(message).await, CommandStatus::OK);
    }
    assert_eq!(one.texts(), ["VERIFY 1", "VERIFY 2", "VERIFY 3"]);
}

#[tokio::test(start_paused = true)]
async fn incomplete_sms_of_a_sender_are_limited() {
    let TwoNodes { one, other } = TwoNodes::start().await;
    for reference in 0..8 {
        assert_eq!(one.deliver(part(reference, 2, 1, "a")).await, CommandStatus::OK);
    }
    assert_eq!(other.deliver(part(8, 2, 1, "a")).await, RESEND);
    let mut of_another = part(8, 2, 1, "a");
    of_another.source = Address::international("447700900010");
    assert_eq!(other.deliver(of_another).await, CommandStatus::OK);
    assert_eq!(one.deliver(sms("whole")).await, CommandStatus::OK);
    assert_eq!(one.deliver(part(0, 2, 2, "b")).await, CommandStatus::OK);
    assert_eq!(one.texts(), ["whole", "ab"]);
    assert_eq!(other.deliver(part(8, 2, 1, "a")).await, CommandStatus::OK, "one of the eight is complete");
}

/// Simulated SMSCs of two nodes use the same references for different SMS.
#[tokio::test(start_paused = true)]
async fn simulated_parts_of_two_nodes_are_separate() {
    let one = Fixture::new();
    let other = one.another_node();
    let tag = TlvTag(0x1400);
    let mut bound = vec![];
    for fixture in [&one, &other] {
        let smsc = ManualSmsc::start().await;
        let config = Fixture::config(smsc.port());
        let connector = fixture.start(SmppConfig { project_scope: ProjectScope::SandboxProject { tag }, ..config });
        bound.push((smsc.bind().await, connector, smsc));
    }
    let simulated = |sequence, text| {
        let message = part(1, 2, sequence, text);
        ShortMessage { tlvs: message.tlvs.clone().with(tag, [7; 16]), ..message }
    };
    for (index, texts) in [(0, ["a", "b"]), (1, ["c", "d"])] {
        assert_eq!(bound[index].0.deliver(simulated(1, texts[0])).await, CommandStatus::OK);
    }
    for (index, text) in [(0, "b"), (1, "d")] {
        assert_eq!(bound[index].0.deliver(simulated(2, text)).await, CommandStatus::OK);
    }
    assert_eq!((one.inbox.texts(), other.inbox.texts()), (vec!["ab".to_owned()], vec!["cd".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn invalid_part_number_is_ignored() {
    let TwoNodes { one, .. } = TwoNodes::start().await;
    for (total, sequence) in [(0, 0), (1, 1), (2, 0), (2, 3)] {
        assert_eq!(one.deliver(part(7, total, sequence, "whole")).await, CommandStatus::OK);
    }
    assert_eq!(one.texts(), ["whole"; 4]);
}

#[tokio::test(start_paused = true)]
async fn parts_are_joined_in_every_encoding() {
    let sandbox = Sandbox::with(|config| SmppConfig { binds: 2, ..config }).await;
    for carriage in [ConcatenationMode::Udh8Bit, ConcatenationMode::Udh16Bit, ConcatenationMode::SarTlvs] {
        for alphabet in [Alphabet::Gsm, Alphabet::Ucs2] {
            let split = FaultScript::new().encoded_in(alphabet).concatenated_by(carriage).split_into(4);
            for behaviour in [
                split.clone(),
                split.clone().parts_reversed().spread_over_binds(),
                split.clone().parts_shuffled().spread_over_binds().by_data_sm(),
                split.clone().duplicated(1),
            ] {
                let before = sandbox.fixture.inbox.texts().len();
                assert_eq!(
                    sandbox.send("VERIFY 4F7K2Q", behaviour).wait_for_outcome().await,
                    DeliveryOutcome::Acknowledged
                );
                assert_eq!(sandbox.fixture.inbox.texts()[before..], ["VERIFY 4F7K2Q"], "{carriage:?} {alphabet:?}");
            }
        }
    }
    assert_eq!(sandbox.fixture.inbox.partials().len(), sandbox.fixture.inbox.texts().len());
}

#[tokio::test(start_paused = true)]
async fn sms_with_a_lost_part_is_not_delivered() {
    let sandbox = Sandbox::start().await;
    let delivery = sandbox.send("VERIFY 4F7K2Q", FaultScript::new().split_into(3).without_part(2));
    assert_eq!(delivery.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    sandbox.fixture.deployment.clock.advance(SignedDuration::from_secs(300));
    advance(30 * SECOND).await;
    sandbox.fixture.wait_for_count(SmppOutcome::PartsMissing, 1).await;
    assert!(sandbox.fixture.inbox.texts().is_empty());
}
