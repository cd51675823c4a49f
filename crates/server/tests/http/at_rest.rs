//! Data written to the database without the master key is rejected.

use aws_lc_rs::digest::{SHA256, digest};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use ringtrue_callback_signature::CallbackSigner;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
    key_schedule::KeySchedule,
    product::Scope,
    region::Region,
    tenancy::{Credential, CredentialOwner, RateLimits, SecretDigest, Workspace, WorkspaceId},
};
use ringtrue_engine::{
    keys::{self, KeyRing, MasterKey, has_legacy_seals},
    ports::{CredentialLimits, Entropy, KeyId, KeyPurpose, SealedKey, SystemEntropy},
};
use serde_json::json;
use strum::VariantArray as _;

use crate::{
    database::Database,
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

/// Keys sealed without their schedules, and a credential with a plain digest.
async fn upgrade_database_of_an_earlier_release(database: Database) {
    let store = database.open().await;
    for &purpose in KeyPurpose::VARIANTS {
        let id = KeyId(uuid_v7(START_TIME, random()));
        let plain = match purpose {
            KeyPurpose::Token | KeyPurpose::Seal | KeyPurpose::Hash => random::<32>().to_vec(),
            KeyPurpose::Callback | KeyPurpose::SandboxCallback => CallbackSigner::generate().to_vec(),
        };
        let sealed = master().seal(&SystemEntropy::default(), format!("{purpose}:{}", id.0).as_bytes(), &plain);
        let key = SealedKey { id, purpose, schedule: KeySchedule::active_immediately(START_TIME), sealed };
        assert!(store.add_first_key(&key, &event(Action::KeyCreated)).await.unwrap());
    }
    let id = WorkspaceId(uuid_v7(START_TIME, random()));
    let workspace = Workspace {
        id,
        name: "Old".parse().unwrap(),
        data_residency: Region::Eu,
        rate_limits: RateLimits::default(),
        created_at: START_TIME,
        updated_at: START_TIME,
    };
    let credential = Credential {
        client_id: "wsp_old".parse().unwrap(),
        owner: CredentialOwner::Workspace(id),
        secret_digest: sha256(SECRET),
        scopes: vec![Scope::Management],
        label: None,
        created_at: START_TIME,
        created_by: None,
        expires_at: None,
        retires_at: None,
        deleted_at: None,
        last_used_at: None,
    };
    store.create_workspace(&workspace, Some(&credential), &[event(Action::WorkspaceCreated)]).await.unwrap();
    assert!(has_legacy_seals(&store.list_keys().await.unwrap(), &master()));

    let world = World::on(database, store, |_| {}).await;
    let token = world.token("wsp_old", SECRET, "management").await;
    assert!(world.accepts_token(&token).await);
    let stored = world.node.engine.store().list_keys().await.unwrap();
    assert!(!has_legacy_seals(&stored, &master()));
    assert!(KeyRing::from_sealed(&stored, &master(), &KeyRing::default()).is_ok());
    let late = world.second_node().await;
    assert!(crate::world::is_token_accepted(late.address, &token).await);
}

#[tokio::test]
async fn sqlite_database_of_an_earlier_release_is_upgraded() {
    upgrade_database_of_an_earlier_release(Database::sqlite().await).await;
}

#[tokio::test]
async fn postgres_database_of_an_earlier_release_is_upgraded() {
    upgrade_database_of_an_earlier_release(Database::postgres().await).await;
}
