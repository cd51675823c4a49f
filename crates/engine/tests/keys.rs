//! Creates and rotates keys on a SQLite store.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{audit::AuditEvent, id::uuid_v7, key_schedule::KeyState, page::PageRequest};
use ringtrue_engine::{
    keys::{KeyRotation, MasterKey, RotateError, create_missing_keys, list_key_summaries, rotate_key, rotation_policy},
    ports::{
        audit::AuditFilter,
        clock::{Clock, ManualClock},
        combined::Store,
        entropy::{Entropy, SystemEntropy},
        keys::KeyPurpose,
    },
};
use ringtrue_store::{StoreOptions, StoreUrl};
use strum::VariantArray as _;

async fn count_active(store: &dyn Store, clock: &ManualClock, purpose: KeyPurpose) -> usize {
    let keys = list_key_summaries(store, clock).await.unwrap();
    keys.iter().filter(|key| key.purpose == purpose && key.state == KeyState::Active).count()
}

/// Mixes planned and emergency rotations, including an emergency while a planned successor is not active yet.
#[tokio::test]
async fn key_can_be_rotated_repeatedly() {
    let folder = tempfile::tempdir().unwrap();
    let url: StoreUrl = format!("sqlite:{}", folder.path().join("keys.db").display()).parse().unwrap();
    ringtrue_store::migrate(&url, Timestamp::UNIX_EPOCH).await.unwrap();
    let store = ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap();
    let entropy = SystemEntropy::default();
    let master = MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap();
    let clock = ManualClock::at("2026-01-01T00:00:00Z".parse().unwrap());
    create_missing_keys(&*store, &master, &clock, &entropy).await.unwrap();

    for purpose in KeyPurpose::ROTATABLE {
        let rotate = async |emergency| {
            let rotation = KeyRotation::by_command_line(purpose, emergency);
            rotate_key(rotation, &*store, &master, &clock, &entropy).await
        };
        for emergency in [false, true, true, false, true, false] {
            let successor = rotate(emergency).await.unwrap();
            assert_eq!(successor.state == KeyState::Active, emergency, "{purpose}");
            assert_eq!(count_active(&*store, &clock, purpose).await, 1, "{purpose}");
            if !emergency {
                let again = rotate(false).await;
                assert!(matches!(again, Err(RotateError::RotationPending(_))), "{purpose}: {again:?}");
            }
            clock.advance(SignedDuration::from_secs(1));
        }
        clock.advance(rotation_policy(purpose).announce);
        assert_eq!(count_active(&*store, &clock, purpose).await, 1, "{purpose} at {}", clock.now());
    }
    let hash =
        rotate_key(KeyRotation::by_command_line(KeyPurpose::Hash, true), &*store, &master, &clock, &entropy).await;
    assert!(matches!(hash, Err(RotateError::NotRotatable(KeyPurpose::Hash))), "{hash:?}");
}

/// A new release may introduce a key purpose. Databases of earlier releases have no key for it.
#[tokio::test]
async fn missing_key_is_added_at_startup() {
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
    create_missing_keys(&*complete, &master, &clock, &entropy).await.unwrap();
    let audit = complete.list_all_audit_events(&AuditFilter::default(), PageRequest::new(1, 1).unwrap()).await.unwrap();
    for key in complete.list_keys().await.unwrap() {
        if key.purpose != KeyPurpose::SandboxCallback {
            let id = uuid_v7(clock.now(), (&entropy as &dyn Entropy).bytes());
            let event = AuditEvent { id, ..audit.items[0].clone() };
            assert!(earlier.add_first_key(&key, &event).await.unwrap());
        }
    }
    assert_eq!(count_active(&*earlier, &clock, KeyPurpose::SandboxCallback).await, 0);
    create_missing_keys(&*earlier, &master, &clock, &entropy).await.unwrap();
    for &purpose in KeyPurpose::VARIANTS {
        assert_eq!(count_active(&*earlier, &clock, purpose).await, 1, "{purpose}");
    }
}
