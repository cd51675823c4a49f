use ringtrue_engine::ports::{Condition, Reporting as _};
use ringtrue_operators::smpp::SmppConfig;
use ringtrue_smpp::pdu::CommandStatus;
use tokio::time::advance;

use crate::{SECOND, Sandbox, World, centre::Centre};

#[tokio::test(start_paused = true)]
async fn receivers_are_deaf_after_a_while_without_a_bind() {
    let sandbox = Sandbox::with(|config| SmppConfig { binds: 2, ..config }).await;
    let (world, connector) = (&sandbox.world, &sandbox.connector);
    let status = connector.wait_until(|status| status.binds_up == 2).await;
    assert!(world.hears() && status.hears && status.last_error.is_none());
    assert_eq!(world.counters.binds_up(), 2);
    let report = connector.report();
    assert_eq!((report.condition, report.links.map(|links| (links.up, links.wanted))), (Condition::Up, Some((2, 2))));

    sandbox.smsc.refuse_binds(true);
    sandbox.smsc.drop_links();
    connector.wait_until(|status| status.binds_up == 0).await;
    assert!(world.hears());
    advance(29 * SECOND).await;
    tokio::task::yield_now().await;
    assert!(world.hears());
    advance(SECOND).await;
    connector.wait_until(|status| !status.hears).await;
    assert!(!world.hears());
    assert_eq!(connector.report().condition, Condition::Down);
    assert!(connector.report().signs.mishap.is_some());

    sandbox.smsc.refuse_binds(false);
    advance(60 * SECOND).await;
    connector.wait_until(|status| status.hears && status.binds_up > 0).await;
    assert!(world.hears());
}

#[tokio::test(start_paused = true)]
async fn a_short_loss_is_not_noticed() {
    let sandbox = Sandbox::start().await;
    sandbox.smsc.drop_links();
    sandbox.connector.wait_until(|status| status.binds_up == 0 && status.last_error.is_some()).await;
    advance(SECOND).await;
    sandbox.connector.wait_until(|status| status.binds_up == 1).await;
    advance(29 * SECOND).await;
    assert!(sandbox.world.hears() && sandbox.connector.status().hears);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_noticed_at_once_and_tried_again_slowly() {
    let world = World::new();
    let centre = Centre::start().await;
    let config = SmppConfig { password: "guessed!".into(), ..World::config(centre.port()) };
    let connector = world.start(config);
    centre.refuse(CommandStatus::INVALID_PASSWORD).await;
    let status = connector.wait_until(|status| !status.hears).await;
    assert!(!world.hears());
    let what = status.last_error.unwrap().what;
    assert!(what.contains("ESME_RINVPASWD") && !what.contains("guessed"), "{what}");
    assert!(!format!("{connector:?}").contains("guessed"));
    // The longest pause, less what chance takes.
    advance(29 * SECOND).await;
    assert_eq!(connector.status().binds_up, 0);
    advance(31 * SECOND).await;
    centre.bind().await;
    connector.wait_until(|status| status.hears && status.binds_up == 1).await;
    assert!(world.hears());
}

#[tokio::test(start_paused = true)]
async fn one_bind_of_several_is_enough() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(SmppConfig { binds: 2, ..World::config(centre.port()) });
    let _bound = centre.bind().await;
    centre.refuse(CommandStatus::ALREADY_BOUND).await;
    connector.wait_until(|status| status.binds_up == 1 && status.last_error.is_some()).await;
    advance(60 * SECOND).await;
    assert!(world.hears() && connector.status().hears);
}

#[test]
fn nothing_secret_is_shown() {
    let config = SmppConfig { password: "hush".into(), ..World::config(2775) };
    let shown = format!("{config:?}");
    assert!(!shown.contains("hush") && !shown.contains("7700900999"), "{shown}");
}
