//! A database restored from a backup: later revocations stay effective, and the restore is detected.

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_engine::{
    Engine, EngineDependencies,
    ports::{Clock, ManualClock, SystemEntropy},
};
use ringtrue_operators::outbound::{Outbound, OutboundSettings};
use ringtrue_server::wiring::{OwnEndpoints, engine_settings};
use serde_json::json;

use crate::{
    client::Request,
    keys::master,
    on_both_stores,
    receiver::Receiver,
    reverse_sms::{CHECKS, EVEN, ReverseSmsClient},
    world::{World, basic, eventually},
};

const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";
/// Longer than callbacks are retried, shorter than the lifetime of a token.
const SINCE_THE_BACKUP: SignedDuration = SignedDuration::from_mins(20);

async fn restored_database_revives_no_tokens_or_links(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN]);
    let told = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    backend.text(EVEN, &told.receiver, &told.body).await;
    receiver.next().await;
    let failed = async || {
        let figures = world.node.engine.courier().metrics();
        figures.in_flight == 0 && figures.attempts.values().sum::<u64>() == 1
    };
    eventually("the first attempt has failed", failed).await;
    let open = backend.create(json!({"phone_number": "+990123456702", "callback_url": receiver.url("/")})).await;
    let revoked = world.management_token().await;
    let restored = world.database.restored_copy();

    let revoke = Request::post("/oauth2/revoke")
        .header("Authorization", basic(&world.acme.client_id, &world.acme.client_secret))
        .form(&[("token", &revoked)]);
    world.send(revoke).await.assert(200);
    world.advance(SignedDuration::from_secs(10));
    assert_eq!(receiver.next().await.header("x-service-callback-attempt"), "2");
    world.node.engine.send_heartbeat().await.unwrap();

    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(world.clock.now() + SINCE_THE_BACKUP));
    let store = restored.open().await;
    let parts = EngineDependencies {
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
        entropy: Arc::new(SystemEntropy::default()),
        transport: Arc::new(Outbound::new(OutboundSettings::default()).unwrap()),
        master_key: master(),
    };
    let engine =
        Engine::start(parts, engine_settings(world.config(), world.node.base_url.clone(), OwnEndpoints::default()))
            .await
            .unwrap();
    assert_eq!(store.database_history().await.unwrap().rollback_detected_at, None);
    // A SQLite file has no identity: a server must have recorded its generation.
    let has_identity = store.database_identity().await.unwrap().is_some();
    let remembered = (!has_identity).then(|| world.node.engine.database_generation());
    engine.detect_rollback(remembered).await.unwrap();
    assert!(store.database_history().await.unwrap().rollback_detected_at.is_some(), "it is noticed");

    let done = engine.accept_restored_database().await.unwrap();
    engine.deregister_node().await;
    assert_eq!((done.callbacks, done.checks), (2, 1));
    assert_eq!(store.database_history().await.unwrap().rollback_detected_at, None);

    let after = World::at(restored, store, clock, |_| {}).await;
    assert_eq!(after.node.engine.store().database_history().await.unwrap().rollback_detected_at, None);
    assert!(!after.accepts_token(&revoked).await && !after.accepts_token(&backend.token).await, "every token is void");
    let token = after.token(&backend.project.client_id, &backend.project.client_secret, "reverse_sms").await;
    assert!(after.accepts_token(&token).await, "credentials are as they were");
    let read = after.send(Request::get(&format!("{CHECKS}/{}", open.id)).bearer(&token)).await.assert(200).json();
    assert_eq!(read["status"], "EXPIRED");
    assert!(receiver.is_quiet(), "no callback is sent after the restore");
}

on_both_stores!(restored_database_revives_no_tokens_or_links);
