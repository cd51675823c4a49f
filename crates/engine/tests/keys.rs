//! Rotating keys again and again, over a real store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{audit::AuditEvent, id::time_ordered, key_schedule::KeyState, page::PageRequest};
use ringtrue_engine::{
    keys::{MasterKey, RotateError, Rotation, ensure_keys, key_summaries, policy, rotate},
    ports::{AuditFilter, Clock, Entropy, KeyPurpose, ManualClock, Store, SystemEntropy},
};
use ringtrue_store::{StoreOptions, StoreUrl};

async fn active(store: &dyn Store, clock: &ManualClock, purpose: KeyPurpose) -> usize {
    let keys = key_summaries(store, clock).await.unwrap();
    keys.iter().filter(|key| key.purpose == purpose && key.state == KeyState::Active).count()
}

/// Planned rotations and emergencies in any order, also an emergency while a planned one is under way.
#[tokio::test]
async fn a_key_can_always_be_rotated_again() {
    let folder = tempfile::tempdir().unwrap();
    let url: StoreUrl = format!("sqlite:{}", folder.path().join("keys.db").display()).parse().unwrap();
    ringtrue_store::migrate(&url, Timestamp::UNIX_EPOCH).await.unwrap();
    let store = ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap();
    let entropy = SystemEntropy::default();
    let master = MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap();
    let clock = ManualClock::at("2026-01-01T00:00:00Z".parse().unwrap());
    ensure_keys(&*store, &master, &clock, &entropy).await.unwrap();

    for purpose in KeyPurpose::ROTATING {
        let rotate = async |emergency| {
            let rotation = Rotation::by_operator(purpose, emergency);
            rotate(rotation, &*store, &master, &clock, &entropy).await
        };
        for emergency in [false, true, true, false, true, false] {
            let made = rotate(emergency).await.unwrap();
            assert_eq!(made.state == KeyState::Active, emergency, "{purpose}");
            assert_eq!(active(&*store, &clock, purpose).await, 1, "{purpose}");
            if !emergency {
                let again = rotate(false).await;
                assert!(matches!(again, Err(RotateError::UnderWay(_))), "{purpose}: {again:?}");
            }
            clock.advance(SignedDuration::from_secs(1));
        }
        clock.advance(policy(purpose).announce);
        assert_eq!(active(&*store, &clock, purpose).await, 1, "{purpose} at {}", clock.now());
    }
    let hash = rotate(Rotation::by_operator(KeyPurpose::Hash, true), &*store, &master, &clock, &entropy).await;
    assert!(matches!(hash, Err(RotateError::Fixed(KeyPurpose::Hash))), "{hash:?}");
}

/// Databases of earlier releases have no key for sandbox callbacks.
#[tokio::test]
async fn a_missing_key_is_added_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let entropy = SystemEntropy::default();
    let master = MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap();
    let clock = ManualClock::at("2026-01-01T00:00:00Z".parse().unwrap());
    let open = async |name: &str| {
        let url: StoreUrl = format!("sqlite:{}", folder.path().join(name).display()).parse().unwrap();
        ringtrue_store::migrate(&url, Timestamp::UNIX_EPOCH).await.unwrap();
        ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap()
    };
    let (complete, earlier) = (open("complete.db").await, open("earlier.db").await);
    ensure_keys(&*complete, &master, &clock, &entropy).await.unwrap();
    let audit = complete.all_audit_events(&AuditFilter::default(), PageRequest::new(1, 1).unwrap()).await.unwrap();
    for key in complete.all_keys().await.unwrap() {
        if key.purpose != KeyPurpose::SandboxCallback {
            let id = time_ordered(clock.now(), (&entropy as &dyn Entropy).bytes());
            let event = AuditEvent { id, ..audit.items[0].clone() };
            assert!(earlier.add_first_key(&key, &event).await.unwrap());
        }
    }
    assert_eq!(active(&*earlier, &clock, KeyPurpose::SandboxCallback).await, 0);
    ensure_keys(&*earlier, &master, &clock, &entropy).await.unwrap();
    for purpose in KeyPurpose::ALL {
        assert_eq!(active(&*earlier, &clock, purpose).await, 1, "{purpose}");
    }
}
