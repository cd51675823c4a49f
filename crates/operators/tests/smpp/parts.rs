use ringtrue_domain::reverse_sms::SmsSender;
use ringtrue_operators::smpp::{PartOrder, SmppConfig, SmppConnector, SmppOutcome};
use ringtrue_sandbox::smsc::{Alphabet, ConcatenationMode, DeliveryOutcome, FaultScript};
use ringtrue_smpp::pdu::{Address, CommandStatus};
use tokio::time::advance;

use crate::{
    Fixture, HANDSET, SECOND, Sandbox, number,
    peers::{Bound, ManualSmsc, part},
};

const RESEND: CommandStatus = CommandStatus::RECEIVER_TEMPORARY_ERROR;

/// An SMSC that sends parts in parallel over two binds.
struct ParallelParts {
    fixture: Fixture,
    one: Bound,
    other: Bound,
    _connector: SmppConnector,
    _smsc: ManualSmsc,
}

impl ParallelParts {
    async fn start() -> Self {
        Self::with(|config| config).await
    }

    async fn with(change: impl FnOnce(SmppConfig) -> SmppConfig) -> Self {
        let fixture = Fixture::new();
        let smsc = ManualSmsc::start().await;
        let connector = fixture.start(change(SmppConfig { binds: 2, ..Fixture::config(smsc.port()) }));
        let (one, other) = (smsc.bind().await, smsc.bind().await);
        connector.wait_until(|status| status.binds_up == 2).await;
        Self { fixture, one, other, _connector: connector, _smsc: smsc }
    }

    async fn wait_received(&self, count: u64) {
        self.fixture.wait_for_count(SmppOutcome::Received, count).await;
    }
}

#[tokio::test(start_paused = true)]
async fn parts_are_acknowledged_after_the_sms_is_stored() {
    let peer = ParallelParts::start().await;
    let third = peer.one.send(part(7, 3, 3, "three"));
    peer.wait_received(1).await;
    let first = peer.other.send(part(7, 3, 1, "one "));
    peer.wait_received(2).await;
    assert!(!third.is_finished() && !first.is_finished() && peer.fixture.inbox.texts().is_empty());
    peer.fixture.inbox.set_blocked(true);
    let second = peer.one.send(part(7, 3, 2, "two "));
    peer.fixture.inbox.wait_for_deliveries(1).await;
    assert!(!third.is_finished() && !first.is_finished());
    peer.fixture.inbox.set_blocked(false);
    for response in [first, second, third] {
        assert_eq!(response.await.unwrap(), CommandStatus::OK);
    }
    assert_eq!(peer.fixture.inbox.texts(), ["one two three"]);
    let partials = peer.fixture.inbox.partials();
    assert_eq!(partials.len(), 1);
    assert_eq!(partials[0].from, SmsSender::Number(number(HANDSET)));
    assert_eq!(&*partials[0].connector, "test");
    assert_eq!(peer.fixture.count(SmppOutcome::PartAcknowledged), 2);
}

#[tokio::test(start_paused = true)]
async fn after_an_inbox_failure_one_resent_part_redelivers_the_sms() {
    let peer = ParallelParts::start().await;
    peer.fixture.inbox.fail_next(2);
    let first = peer.one.send(part(7, 2, 1, "one "));
    peer.wait_received(1).await;
    assert_eq!(peer.other.deliver(part(7, 2, 2, "two")).await, RESEND);
    assert_eq!(first.await.unwrap(), RESEND);
    assert_eq!(peer.one.deliver(part(7, 2, 2, "two")).await, RESEND);
    assert_eq!(peer.one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    assert_eq!(peer.fixture.inbox.texts(), ["one two"]);
    // The other part is acknowledged without a second delivery.
    assert_eq!(peer.other.deliver(part(7, 2, 2, "two")).await, CommandStatus::OK);
    assert_eq!(peer.fixture.inbox.texts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lone_part_is_rejected_once_then_acknowledged_early() {
    let peer = ParallelParts::start().await;
    let first = peer.one.send(part(7, 3, 1, "one "));
    peer.wait_received(1).await;
    advance(4 * SECOND).await;
    assert_eq!(first.await.unwrap(), RESEND);
    // Resent without the others: the SMSC waits for its acknowledgement.
    assert_eq!(peer.other.deliver(part(7, 3, 1, "one ")).await, CommandStatus::OK);
    assert_eq!(peer.one.deliver(part(7, 3, 2, "two ")).await, CommandStatus::OK);
    assert_eq!(peer.fixture.count(SmppOutcome::PartAcknowledgedEarly), 2);
    // The last part is acknowledged only after the SMS is stored; resending it redelivers the whole text.
    peer.fixture.inbox.fail_next(1);
    assert_eq!(peer.one.deliver(part(7, 3, 3, "three")).await, RESEND);
    assert_eq!(peer.one.deliver(part(7, 3, 3, "three")).await, CommandStatus::OK);
    assert_eq!(peer.fixture.inbox.texts(), ["one two three"]);
}

#[tokio::test(start_paused = true)]
async fn deferred_part_is_acknowledged_after_the_sms_is_complete() {
    let peer = ParallelParts::start().await;
    let first = peer.one.send(part(7, 2, 1, "one "));
    peer.wait_received(1).await;
    advance(4 * SECOND).await;
    assert_eq!(first.await.unwrap(), RESEND);
    assert_eq!(peer.one.deliver(part(7, 2, 2, "two")).await, CommandStatus::OK);
    assert_eq!(peer.fixture.inbox.texts(), ["one two"]);
    assert_eq!(peer.one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    assert_eq!((peer.fixture.inbox.texts().len(), peer.fixture.count(SmppOutcome::PartAcknowledgedEarly)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn incomplete_sms_expires() {
    let peer = ParallelParts::with(|config| SmppConfig { concatenation_deadline: 60 * SECOND, ..config }).await;
    let first = peer.one.send(part(7, 2, 1, "one "));
    peer.wait_received(1).await;
    advance(4 * SECOND).await;
    assert_eq!(first.await.unwrap(), RESEND);
    assert_eq!(peer.one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    advance(57 * SECOND).await;
    peer.fixture.wait_for_count(SmppOutcome::PartsMissing, 1).await;
    let second = peer.one.send(part(7, 2, 2, "two"));
    peer.wait_received(3).await;
    advance(4 * SECOND).await;
    assert_eq!(second.await.unwrap(), RESEND);
    assert!(peer.fixture.inbox.texts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reference_can_be_reused() {
    let peer = ParallelParts::start().await;
    for text in ["one ", "other "] {
        let first = peer.one.send(part(7, 2, 1, text));
        peer.wait_received(peer.fixture.count(SmppOutcome::Received) + 1).await;
        assert_eq!(peer.other.deliver(part(7, 2, 2, text)).await, CommandStatus::OK);
        assert_eq!(first.await.unwrap(), CommandStatus::OK);
    }
    assert_eq!(peer.fixture.inbox.texts(), ["one one ", "other other "]);
}

#[tokio::test(start_paused = true)]
async fn incomplete_sms_do_not_block_others() {
    let peer = ParallelParts::with(|config| SmppConfig { window: 4, ..config }).await;
    let from = |last: u8, mut message: ringtrue_smpp::pdu::ShortMessage| {
        message.source = Address::international(format!("4477009000{last:02}"));
        message
    };
    let held = [peer.one.send(from(10, part(1, 2, 1, "a"))), peer.one.send(from(11, part(1, 2, 1, "a")))];
    peer.wait_received(2).await;
    // Half of the window is waiting: another part is rejected, a complete SMS is accepted.
    assert_eq!(peer.one.deliver(from(12, part(1, 2, 1, "a"))).await, RESEND);
    assert_eq!(peer.one.deliver(crate::peers::sms("whole")).await, CommandStatus::OK);
    assert!(held.iter().all(|response| !response.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn invalid_part_number_is_ignored() {
    let peer = ParallelParts::start().await;
    for (total, sequence) in [(0, 0), (1, 1), (2, 0), (2, 3)] {
        assert_eq!(peer.one.deliver(part(7, total, sequence, "whole")).await, CommandStatus::OK);
    }
    assert_eq!(peer.fixture.inbox.texts(), ["whole"; 4]);
}

#[tokio::test(start_paused = true)]
async fn sequential_parts_are_joined_in_every_encoding() {
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
async fn sequential_parts_are_joined_without_configuration() {
    let sandbox = Sandbox::with(|config| SmppConfig { part_order: PartOrder::Together, ..config }).await;
    let delivery = sandbox.send("VERIFY 4F7K2Q", FaultScript::new().split_into(3));
    sandbox.fixture.wait_for_count(SmppOutcome::Received, 1).await;
    advance(4 * SECOND).await;
    sandbox.smsc.observer().wait_until(|counts| counts.failed_attempts == 1).await;
    advance(SECOND).await;
    assert_eq!(delivery.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(sandbox.fixture.inbox.texts(), ["VERIFY 4F7K2Q"]);
    assert_eq!(sandbox.smsc.counts().failed_attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn sms_with_a_lost_part_is_not_delivered() {
    let sandbox = Sandbox::start().await;
    let delivery = sandbox.send("VERIFY 4F7K2Q", FaultScript::new().split_into(3).without_part(2));
    assert_eq!(delivery.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    advance(301 * SECOND).await;
    sandbox.fixture.wait_for_count(SmppOutcome::PartsMissing, 1).await;
    assert!(sandbox.fixture.inbox.texts().is_empty());
}
