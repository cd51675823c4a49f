//! Data written to the database without the master key is rejected.

use aws_lc_rs::digest::{SHA256, digest};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
    tenancy::{Credential, SecretDigest},
};
use ringtrue_engine::{
    keys::{self, KeyRing, MasterKey},
    ports::{CredentialLimits, Entropy, SystemEntropy},
};
use serde_json::json;

use crate::{
    keys::master,
    on_both_stores,
    world::{START_TIME, World},
};

const SECRET: &str = "rts_written-by-hand";

fn sha256(text: &str) -> SecretDigest {
    SecretDigest(digest(&SHA256, text.as_bytes()).as_ref().try_into().unwrap())
}

fn random<const N: usize>() -> [u8; N] {
    (&SystemEntropy::default() as &dyn Entropy).bytes()
}

fn event(action: Action) -> AuditEvent {
    AuditEvent {
        id: uuid_v7(START_TIME, random()),
        workspace: None,
        at: START_TIME,
        actor: Actor::System,
        action,
        target: "by hand".to_owned(),
        changes: vec![],
        request_id: None,
    }
}

/// Inserts credentials directly: with a plain digest, and with a digest copied from another row.
async fn credential_inserted_by_sql_is_rejected(world: World) {
    let project = world.project("Shop", json!({})).await;
    let engine = &world.node.engine;
    let real = engine.control_plane().credential(&project.client_id).unwrap();
    for (client_id, secret_digest, secret) in [
        ("prj_plain-digest", sha256(SECRET), SECRET),
        ("prj_copied-digest", real.secret_digest, &project.client_secret),
    ] {
        let credential = Credential { client_id: client_id.parse().unwrap(), secret_digest, ..(*real).clone() };
        let limits = CredentialLimits { max_live: 100, max_dead: 100 };
        engine.store().create_credential(&credential, &event(Action::CredentialCreated), None, limits).await.unwrap();
        engine.node.refresh().await.unwrap();
        assert!(engine.control_plane().credential(client_id).is_some());
        world.token_request(client_id, secret, "sim_swap").await.assert(401);
    }
    world.token_request(&project.client_id, &project.client_secret, "sim_swap").await.assert(200);
}

on_both_stores!(credential_inserted_by_sql_is_rejected, rewrapped_keys_open_with_the_new_master_key);

async fn rewrapped_keys_open_with_the_new_master_key(world: World) {
    let engine = &world.node.engine;
    let token = world.management_token().await;
    let new = MasterKey::from_base64(&BASE64_STANDARD.encode([8; 32])).unwrap();
    let count = keys::rewrap_keys(&master(), &new, engine.store(), engine.clock(), engine.entropy()).await.unwrap();
    let stored = engine.store().list_keys().await.unwrap();
    assert_eq!(stored.len(), count);
    assert!(KeyRing::from_sealed(&stored, &new, &KeyRing::default()).is_ok());
    let refusal = world.start_error(|_| {}).await;
    assert!(refusal.contains("the master key cannot unseal"), "{refusal}");
    engine.node.refresh().await.unwrap();
    assert!(world.accepts_token(&token).await, "a running server is not affected");
}
