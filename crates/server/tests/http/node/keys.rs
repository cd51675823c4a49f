//! Keys shared by all tests, as generating RSA keys is slow.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
};
use ringtrue_engine::{
    keys::{MasterKey, create_missing_keys},
    ports::{
        clock::ManualClock,
        combined::Store,
        entropy::{Entropy, SystemEntropy},
        keys::SealedKey,
    },
};
use tokio::sync::OnceCell;

use crate::{database::Database, world::START_TIME};

/// Returns the master key with which the shared keys are encrypted.
pub fn master() -> MasterKey {
    MasterKey::from_base64(&BASE64_STANDARD.encode([7; 32])).expect("a master key")
}

/// Inserts the shared keys into an empty database.
pub async fn insert_keys(store: &dyn Store) {
    static KEYS: OnceCell<Vec<SealedKey>> = OnceCell::const_new();
    let keys = KEYS.get_or_init(|| async {
        let database = Database::sqlite().await;
        let store = database.open().await;
        let (clock, entropy) = (ManualClock::at(START_TIME), SystemEntropy::default());
        create_missing_keys(&*store, &master(), &clock, &entropy).await.expect("keys");
        store.list_keys().await.expect("keys")
    });
    for key in keys.await {
        let audit = AuditEvent {
            id: uuid_v7(START_TIME, (&SystemEntropy::default() as &dyn Entropy).bytes()),
            workspace: None,
            at: START_TIME,
            actor: Actor::System,
            action: Action::KeyCreated,
            target: key.id.0.to_string(),
            changes: vec![],
            request_id: None,
        };
        assert!(store.add_first_key(key, &audit).await.expect("a key"), "the database had none");
    }
}
