//! The keys of every world: made once, since an RSA key takes a while.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::time_ordered,
};
use ringtrue_engine::{
    keys::{MasterKey, ensure_keys},
    ports::{Entropy, ManualClock, SealedKey, Store, SystemEntropy},
};
use tokio::sync::OnceCell;

use crate::{database::Database, world::BEGINNING};

/// Opens the keys of every world.
pub fn master() -> MasterKey {
    MasterKey::from_base64(&BASE64_STANDARD.encode([7; 32])).expect("a master key")
}

/// Puts the keys into a database that has none.
pub async fn furnish(store: &dyn Store) {
    static KEYS: OnceCell<Vec<SealedKey>> = OnceCell::const_new();
    let keys = KEYS.get_or_init(|| async {
        let database = Database::sqlite().await;
        let store = database.open().await;
        let (clock, entropy) = (ManualClock::at(BEGINNING), SystemEntropy::default());
        ensure_keys(&*store, &master(), &clock, &entropy).await.expect("keys");
        store.all_keys().await.expect("keys")
    });
    for key in keys.await {
        let audit = AuditEvent {
            id: time_ordered(BEGINNING, (&SystemEntropy::default() as &dyn Entropy).bytes()),
            workspace: None,
            at: BEGINNING,
            actor: Actor::System,
            action: Action::KeyCreated,
            target: key.id.0.to_string(),
            changes: vec![],
            request_id: None,
        };
        assert!(store.add_first_key(key, &audit).await.expect("a key"), "the database had none");
    }
}
