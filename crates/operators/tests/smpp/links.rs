use ringtrue_operators::smpp::{Direction, InterfaceVersion, Outcome, SmppConfig};
use ringtrue_sandbox::smsc::{Behaviour, Outcome as Fate};
use ringtrue_smpp::pdu::{BindMode, CommandStatus, VERSION_3_4, VERSION_5_0};
use tokio::{io::AsyncReadExt, time::advance};

use crate::{
    SECOND, Sandbox, World,
    centre::{Centre, part, sms},
};

#[tokio::test(start_paused = true)]
async fn a_bind_says_who_we_are() {
    for (direction, mode, interface_version, version) in [
        (Direction::Receiver, BindMode::Receiver, InterfaceVersion::V3_4, VERSION_3_4),
        (Direction::Transceiver, BindMode::Transceiver, InterfaceVersion::V5_0, VERSION_5_0),
    ] {
        let world = World::new();
        let centre = Centre::start().await;
        let mut config = SmppConfig { direction, interface_version, ..World::config(centre.port()) };
        config.system_type = "VMA".to_owned();
        (config.address_range.ton, config.address_range.npi) = (1, 1);
        config.address_range.pattern = "^4477".to_owned();
        let _connector = world.start(config);
        let (bound_as, bind) = centre.bind().await.offer;
        assert_eq!((bound_as, bind.interface_version), (mode, version));
        assert_eq!((&*bind.system_id, &*bind.password, &*bind.system_type), ("sandbox", "sandbox", "VMA"));
        assert_eq!((bind.addr_ton.0, bind.addr_npi.0, &*bind.address_range), (1, 1, "^4477"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_link_is_made_again_and_what_was_not_acknowledged_comes_again() {
    let sandbox = Sandbox::start().await;
    let ticket = sandbox.send("hello", Behaviour::new().losing_links(1));
    sandbox.connector.wait_until(|status| status.last_error.is_some()).await;
    sandbox.smsc.observer().wait_until(|counts| counts.setbacks == 1 && counts.binds == 0).await;
    advance(SECOND).await;
    assert_eq!(ticket.delivered().await, Fate::Acknowledged);
    // The inbox has seen it twice: that an SMS is dealt with once is the store's to see to.
    assert_eq!(sandbox.world.inbox.texts(), ["hello", "hello"]);
    assert_eq!(sandbox.connector.status().binds_up, 1);
}

#[tokio::test(start_paused = true)]
async fn the_pauses_grow_until_a_link_has_been_stable() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(World::config(centre.port()));
    for longest in [1, 2, 4, 8] {
        let bound = centre.bind().await;
        connector.wait_until(|status| status.binds_up == 1).await;
        bound.session.abort();
        connector.wait_until(|status| status.binds_up == 0).await;
        let connection = centre.connection();
        tokio::pin!(connection);
        // Chance takes at most half of a pause.
        advance(longest * SECOND * 49 / 100).await;
        assert!(futures_are_idle(&mut connection).await);
        advance(longest * SECOND * 52 / 100).await;
    }
    let bound = centre.bind().await;
    connector.wait_until(|status| status.binds_up == 1).await;
    advance(20 * SECOND).await;
    assert_eq!(bound.deliver(sms("alive")).await, CommandStatus::OK);
    advance(20 * SECOND).await;
    assert_eq!(bound.deliver(sms("alive")).await, CommandStatus::OK);
    advance(20 * SECOND).await;
    bound.session.abort();
    connector.wait_until(|status| status.binds_up == 0).await;
    advance(SECOND).await;
    centre.bind().await;
}

/// Whether nothing comes of something, however often everyone else has had a turn.
async fn futures_are_idle<F: Future>(future: &mut std::pin::Pin<&mut F>) -> bool {
    for _ in 0..100 {
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending()));
        if !polled.await {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}

#[tokio::test(start_paused = true)]
async fn a_silent_message_centre_is_left() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(World::config(centre.port()));
    let mut stream = centre.bind_by_hand().await;
    connector.wait_until(|status| status.binds_up == 1).await;
    advance(30 * SECOND).await;
    // It asks whether anybody is there, and nobody says a word.
    let mut asked = [0; 16];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(asked[4..8], [0, 0, 0, 0x15]);
    advance(10 * SECOND).await;
    let status = connector.wait_until(|status| status.binds_up == 0 && status.last_error.is_some()).await;
    assert!(status.last_error.unwrap().what.contains("enquire_link"));
}

#[tokio::test(start_paused = true)]
async fn parts_that_wait_do_not_delay_the_next_link() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(World::config(centre.port()));
    let bound = centre.bind().await;
    let link = bound.link.clone();
    let unanswered = async { link.deliver_sm(part(7, 2, 1, "one ")).await.is_err() };
    let cut = async {
        world.counted(Outcome::Received, 1).await;
        bound.session.abort();
        connector.wait_until(|status| status.binds_up == 0 && status.last_error.is_some()).await;
    };
    assert!(tokio::join!(unanswered, cut).0);
    advance(SECOND).await;
    let again = centre.bind().await;
    // Nobody was asked to send it again, so it waits as before.
    let first = again.send(part(7, 2, 1, "one "));
    world.counted(Outcome::Received, 2).await;
    assert!(!first.is_finished());
    assert_eq!(again.deliver(part(7, 2, 2, "two")).await, CommandStatus::OK);
    assert_eq!(first.await.unwrap(), CommandStatus::OK);
    assert_eq!(world.inbox.texts(), ["one two"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_centre_that_unbinds_is_bound_to_again() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(World::config(centre.port()));
    centre.bind().await.link.unbind().await;
    connector.wait_until(|status| status.binds_up == 0 && status.last_error.is_some()).await;
    advance(SECOND).await;
    assert_eq!(centre.bind().await.deliver(sms("hello")).await, CommandStatus::OK);
}
