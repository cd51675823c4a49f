use ringtrue_domain::reverse_sms::Sender;
use ringtrue_operators::smpp::{Connector, Outcome, SmppConfig, Succession};
use ringtrue_sandbox::smsc::{Alphabet, Behaviour, Carriage, Outcome as Fate};
use ringtrue_smpp::pdu::{Address, CommandStatus};
use tokio::time::advance;

use crate::{
    HANDSET, SECOND, Sandbox, World,
    centre::{Bound, Centre, part},
    number,
};

const AGAIN: CommandStatus = CommandStatus::RECEIVER_TEMPORARY_ERROR;

/// A message centre that sends the parts of an SMS together, over two binds.
struct Together {
    world: World,
    one: Bound,
    other: Bound,
    _connector: Connector,
    _centre: Centre,
}

impl Together {
    async fn start() -> Self {
        Self::with(|config| config).await
    }

    async fn with(change: impl FnOnce(SmppConfig) -> SmppConfig) -> Self {
        let world = World::new();
        let centre = Centre::start().await;
        let connector = world.start(change(SmppConfig { binds: 2, ..World::config(centre.port()) }));
        let (one, other) = (centre.bind().await, centre.bind().await);
        connector.wait_until(|status| status.binds_up == 2).await;
        Self { world, one, other, _connector: connector, _centre: centre }
    }

    /// Waits until so many messages have been taken in.
    async fn taken(&self, count: u64) {
        self.world.counted(Outcome::Received, count).await;
    }
}

#[tokio::test(start_paused = true)]
async fn parts_are_answered_when_the_whole_is_safe() {
    let peer = Together::start().await;
    let third = peer.one.send(part(7, 3, 3, "three"));
    peer.taken(1).await;
    let first = peer.other.send(part(7, 3, 1, "one "));
    peer.taken(2).await;
    assert!(!third.is_finished() && !first.is_finished() && peer.world.inbox.texts().is_empty());
    peer.world.inbox.shut(true);
    let second = peer.one.send(part(7, 3, 2, "two "));
    peer.world.inbox.arrivals(1).await;
    assert!(!third.is_finished() && !first.is_finished());
    peer.world.inbox.shut(false);
    for answer in [first, second, third] {
        assert_eq!(answer.await.unwrap(), CommandStatus::OK);
    }
    assert_eq!(peer.world.inbox.texts(), ["one two three"]);
    let glimpses = peer.world.inbox.glimpses();
    assert_eq!(glimpses.len(), 1);
    assert_eq!(glimpses[0].from, Sender::Number(number(HANDSET)));
    assert_eq!(&*glimpses[0].connector, "test");
    assert_eq!(peer.world.count(Outcome::PartTaken), 2);
}

#[tokio::test(start_paused = true)]
async fn when_the_inbox_fails_all_parts_come_again_and_one_is_enough() {
    let peer = Together::start().await;
    peer.world.inbox.fail(2);
    let first = peer.one.send(part(7, 2, 1, "one "));
    peer.taken(1).await;
    assert_eq!(peer.other.deliver(part(7, 2, 2, "two")).await, AGAIN);
    assert_eq!(first.await.unwrap(), AGAIN);
    assert_eq!(peer.one.deliver(part(7, 2, 2, "two")).await, AGAIN);
    assert_eq!(peer.one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    assert_eq!(peer.world.inbox.texts(), ["one two"]);
    // The other finds it done.
    assert_eq!(peer.other.deliver(part(7, 2, 2, "two")).await, CommandStatus::OK);
    assert_eq!(peer.world.inbox.texts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_part_alone_is_asked_for_again_and_then_trusted() {
    let peer = Together::start().await;
    let first = peer.one.send(part(7, 3, 1, "one "));
    peer.taken(1).await;
    advance(4 * SECOND).await;
    assert_eq!(first.await.unwrap(), AGAIN);
    // It comes again without the others: they wait for its acknowledgement.
    assert_eq!(peer.other.deliver(part(7, 3, 1, "one ")).await, CommandStatus::OK);
    assert_eq!(peer.one.deliver(part(7, 3, 2, "two ")).await, CommandStatus::OK);
    assert_eq!(peer.world.count(Outcome::PartOnTrust), 2);
    // The last one is not answered before the whole is safe, and its repetition has all of the text.
    peer.world.inbox.fail(1);
    assert_eq!(peer.one.deliver(part(7, 3, 3, "three")).await, AGAIN);
    assert_eq!(peer.one.deliver(part(7, 3, 3, "three")).await, CommandStatus::OK);
    assert_eq!(peer.world.inbox.texts(), ["one two three"]);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_was_put_off_is_acknowledged_when_the_others_have_come() {
    let peer = Together::start().await;
    let first = peer.one.send(part(7, 2, 1, "one "));
    peer.taken(1).await;
    advance(4 * SECOND).await;
    assert_eq!(first.await.unwrap(), AGAIN);
    assert_eq!(peer.one.deliver(part(7, 2, 2, "two")).await, CommandStatus::OK);
    assert_eq!(peer.world.inbox.texts(), ["one two"]);
    assert_eq!(peer.one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    assert_eq!((peer.world.inbox.texts().len(), peer.world.count(Outcome::PartOnTrust)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_sms_whose_parts_do_not_come_is_forgotten() {
    let peer = Together::with(|config| SmppConfig { concatenation_deadline: 60 * SECOND, ..config }).await;
    let first = peer.one.send(part(7, 2, 1, "one "));
    peer.taken(1).await;
    advance(4 * SECOND).await;
    assert_eq!(first.await.unwrap(), AGAIN);
    assert_eq!(peer.one.deliver(part(7, 2, 1, "one ")).await, CommandStatus::OK);
    advance(57 * SECOND).await;
    peer.world.counted(Outcome::PartsMissing, 1).await;
    let second = peer.one.send(part(7, 2, 2, "two"));
    peer.taken(3).await;
    advance(4 * SECOND).await;
    assert_eq!(second.await.unwrap(), AGAIN);
    assert!(peer.world.inbox.texts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reference_is_used_again() {
    let peer = Together::start().await;
    for text in ["one ", "other "] {
        let first = peer.one.send(part(7, 2, 1, text));
        peer.taken(peer.world.count(Outcome::Received) + 1).await;
        assert_eq!(peer.other.deliver(part(7, 2, 2, text)).await, CommandStatus::OK);
        assert_eq!(first.await.unwrap(), CommandStatus::OK);
    }
    assert_eq!(peer.world.inbox.texts(), ["one one ", "other other "]);
}

#[tokio::test(start_paused = true)]
async fn unfinished_sms_leave_room_for_others() {
    let peer = Together::with(|config| SmppConfig { window: 4, ..config }).await;
    let from = |last: u8, mut message: ringtrue_smpp::pdu::ShortMessage| {
        message.source = Address::international(format!("4477009000{last:02}"));
        message
    };
    let held = [peer.one.send(from(10, part(1, 2, 1, "a"))), peer.one.send(from(11, part(1, 2, 1, "a")))];
    peer.taken(2).await;
    // Half of the window waits. Another part has to come again at once, and a whole SMS goes through.
    assert_eq!(peer.one.deliver(from(12, part(1, 2, 1, "a"))).await, AGAIN);
    assert_eq!(peer.one.deliver(crate::centre::sms("whole")).await, CommandStatus::OK);
    assert!(held.iter().all(|answer| !answer.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn a_number_that_cannot_be_is_none() {
    let peer = Together::start().await;
    for (total, sequence) in [(0, 0), (1, 1), (2, 0), (2, 3)] {
        assert_eq!(peer.one.deliver(part(7, total, sequence, "whole")).await, CommandStatus::OK);
    }
    assert_eq!(peer.world.inbox.texts(), ["whole"; 4]);
}

#[tokio::test(start_paused = true)]
async fn one_by_one_however_they_are_carried() {
    let sandbox = Sandbox::with(|config| SmppConfig { binds: 2, ..config }).await;
    for carriage in [Carriage::Header, Carriage::WideHeader, Carriage::SarTlvs] {
        for alphabet in [Alphabet::Gsm, Alphabet::Ucs2] {
            let split = Behaviour::new().coded(alphabet).carried_by(carriage).split_into(4);
            for behaviour in [
                split.clone(),
                split.clone().parts_reversed().scattered(),
                split.clone().parts_shuffled().scattered().by_data_sm(),
                split.clone().duplicated(1),
            ] {
                let before = sandbox.world.inbox.texts().len();
                assert_eq!(sandbox.send("VERIFY 4F7K2Q", behaviour).delivered().await, Fate::Acknowledged);
                assert_eq!(sandbox.world.inbox.texts()[before..], ["VERIFY 4F7K2Q"], "{carriage:?} {alphabet:?}");
            }
        }
    }
    assert_eq!(sandbox.world.inbox.glimpses().len(), sandbox.world.inbox.texts().len());
}

#[tokio::test(start_paused = true)]
async fn a_message_centre_that_sends_one_by_one_gets_through_without_being_configured() {
    let sandbox = Sandbox::with(|config| SmppConfig { succession: Succession::Together, ..config }).await;
    let ticket = sandbox.send("VERIFY 4F7K2Q", Behaviour::new().split_into(3));
    sandbox.world.counted(Outcome::Received, 1).await;
    advance(4 * SECOND).await;
    sandbox.smsc.observer().wait_until(|counts| counts.setbacks == 1).await;
    advance(SECOND).await;
    assert_eq!(ticket.delivered().await, Fate::Acknowledged);
    assert_eq!(sandbox.world.inbox.texts(), ["VERIFY 4F7K2Q"]);
    assert_eq!(sandbox.smsc.counts().setbacks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_part_is_missed_and_nothing_is_made_up() {
    let sandbox = Sandbox::start().await;
    let ticket = sandbox.send("VERIFY 4F7K2Q", Behaviour::new().split_into(3).without_part(2));
    assert_eq!(ticket.delivered().await, Fate::Acknowledged);
    advance(301 * SECOND).await;
    sandbox.world.counted(Outcome::PartsMissing, 1).await;
    assert!(sandbox.world.inbox.texts().is_empty());
}
