//! A database restored from a backup: what was revoked and sent since is not revived, and the restore is noticed.

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_engine::{
    Engine, Parts,
    ports::{Clock, ManualClock, SystemEntropy},
};
use ringtrue_operators::outbound::{Outbound, OutboundSettings};
use ringtrue_server::wiring::{OwnPlaces, settings};
use serde_json::json;

use crate::{
    client::Request,
    keys::master,
    on_both_stores,
    receiver::Receiver,
    reverse_sms::{Asker, CHECKS, EVEN},
    world::{World, basic, eventually},
};

const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";
/// Longer than callbacks are tried, shorter than a token lives.
const SINCE_THE_BACKUP: SignedDuration = SignedDuration::from_mins(20);

async fn a_restored_database_revives_nothing(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.answer([BROKEN]);
    let told = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    asker.text(EVEN, &told.receiver, &told.body).await;
    receiver.next().await;
    let failed = async || {
        let figures = world.node.engine.courier().figures();
        figures.in_flight == 0 && figures.attempts.values().sum::<u64>() == 1
    };
    eventually("the first attempt has failed", failed).await;
    let open = asker.create(json!({"phone_number": "+990123456702", "callback_url": receiver.url("/")})).await;
    let revoked = world.manager().await;
    let restored = world.database.restored_copy();

    let revoke = Request::post("/oauth2/revoke")
        .header("Authorization", basic(&world.acme.client_id, &world.acme.client_secret))
        .form(&[("token", &revoked)]);
    world.send(revoke).await.assert(200);
    world.advance(SignedDuration::from_secs(10));
    assert_eq!(receiver.next().await.header("x-service-callback-attempt"), "2");
    world.node.engine.beat().await.unwrap();

    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(world.clock.now() + SINCE_THE_BACKUP));
    let store = restored.open().await;
    let parts = Parts {
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
        entropy: Arc::new(SystemEntropy::default()),
        transport: Arc::new(Outbound::new(OutboundSettings::default()).unwrap()),
        master: master(),
    };
    let engine = Engine::start(parts, settings(world.config(), world.node.base_url.clone(), OwnPlaces::default()))
        .await
        .unwrap();
    assert_eq!(store.database_history().await.unwrap().went_back_at, None);
    // A file has no identity: there a server must have remembered how far the database had come.
    let has_identity = store.database_identity().await.unwrap().is_some();
    let remembered = (!has_identity).then(|| world.node.engine.database_generation());
    engine.recognise_database(remembered).await.unwrap();
    assert!(store.database_history().await.unwrap().went_back_at.is_some(), "it is noticed");

    let done = engine.accept_restored_database().await.unwrap();
    engine.leave().await;
    assert_eq!((done.callbacks, done.checks), (2, 1));
    assert_eq!(store.database_history().await.unwrap().went_back_at, None);

    let after = World::at(restored, store, clock, |_| {}).await;
    assert_eq!(after.node.engine.store().database_history().await.unwrap().went_back_at, None);
    assert!(!after.accepts(&revoked).await && !after.accepts(&asker.token).await, "every token is void");
    let token = after.token(&asker.project.client_id, &asker.project.client_secret, "reverse_sms").await;
    assert!(after.accepts(&token).await, "credentials are as they were");
    let read = after.send(Request::get(&format!("{CHECKS}/{}", open.id)).bearer(&token)).await.assert(200).json();
    assert_eq!(read["status"], "EXPIRED");
    assert!(receiver.is_quiet(), "receivers were told something else long ago, or get nothing now");
}

on_both_stores!(a_restored_database_revives_nothing);
