//! A database restored from a backup: later revocations stay effective, and the restore is detected.

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_engine::{
    Engine, EngineDependencies,
    ports::{
        clock::{Clock, ManualClock},
        entropy::SystemEntropy,
    },
};
use ringtrue_operators::outbound::{Outbound, OutboundSettings};
use ringtrue_sandbox::operator_access::SandboxAccess;
use ringtrue_server::wiring::{OwnEndpoints, engine_settings};
use serde_json::json;

use crate::{
    client::Request,
    node::keys::master,
    on_both_stores,
    products::reverse_sms::{CHECKS, EVEN, ReverseSmsClient},
    receiver::Receiver,
    world::World,
};

const BROKEN: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";
/// Age of the backup. Longer than callbacks are retried, shorter than the lifetime of a token.
const BACKUP_AGE: SignedDuration = SignedDuration::from_mins(20);

async fn restored_database_revives_no_tokens_or_links(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with([BROKEN]);
    let with_callback = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    backend.text(EVEN, &with_callback.receiver, &with_callback.body).await;
    receiver.next().await;
    world.wait_for_callback_results().await;
    let open = backend.create(json!({"phone_number": "+990123456702", "callback_url": receiver.url("/")})).await;
    let revoked = world.management_token().await;
    let restored = world.database.restored_copy();

    let revoke = Request::post("/oauth2/revoke")
        .basic(&world.acme.client_id, &world.acme.client_secret)
        .form(&[("token", &revoked)]);
    world.send(revoke).await.assert(200);
    world.advance(SignedDuration::from_secs(10));
    assert_eq!(receiver.next().await.header("x-service-callback-attempt"), "2");
    // Sends one heartbeat for each of the ten seconds. Each heartbeat raises the database generation, which so exceeds
    // that of the restored database: the node there has sent only one heartbeat, at its start.
    for _ in 0..10 {
        world.node.engine.node.send_heartbeat().await.unwrap();
    }

    let clock = Arc::new(ManualClock::at(world.clock.now() + BACKUP_AGE));
    let store = restored.open().await;
    let dependencies = EngineDependencies {
        store: Arc::clone(&store),
        clock: Arc::clone(&clock) as _,
        entropy: Arc::new(SystemEntropy::default()),
        transport: Arc::new(Outbound::new(OutboundSettings::default()).unwrap()),
        master_key: master(),
        sandbox: Arc::new(SandboxAccess::default()),
    };
    let engine = Engine::start(
        dependencies,
        engine_settings(world.config(), world.node.base_url.clone(), OwnEndpoints::default()),
    )
    .await
    .unwrap();
    assert_eq!(store.database_history().await.unwrap().rollback_detected_at, None);
    // A SQLite file has no identity, so only the generation that a server has recorded reveals the restore.
    let has_identity = store.database_identity().await.unwrap().is_some();
    let recorded_generation = (!has_identity).then(|| world.node.engine.node.database_generation());
    engine.node.detect_rollback(recorded_generation).await.unwrap();
    assert!(store.database_history().await.unwrap().rollback_detected_at.is_some(), "the rollback is detected");

    let done = engine.node.repair_restored_database().await.unwrap();
    engine.node.deregister_node().await;
    assert_eq!((done.callbacks, done.checks), (2, 1));
    assert_eq!(store.database_history().await.unwrap().rollback_detected_at, None);

    let after = World::at(restored, store, clock, |_| {}).await;
    assert_eq!(after.node.engine.store().database_history().await.unwrap().rollback_detected_at, None);
    assert!(
        !after.accepts_token(&revoked).await && !after.accepts_token(&backend.token).await,
        "all earlier tokens are invalid"
    );
    let token = after.token(&backend.project.client_id, &backend.project.client_secret, "reverse_sms").await;
    assert!(after.accepts_token(&token).await, "credentials are still valid");
    let read = after.send(Request::get(&format!("{CHECKS}/{}", open.id)).bearer(&token)).await.assert(200).json();
    assert_eq!(read["status"], "EXPIRED");
    assert!(receiver.is_quiet(), "no callback is sent after the restore");
}

on_both_stores!(restored_database_revives_no_tokens_or_links);
