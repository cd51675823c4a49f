use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    audit::Action,
    key_schedule::{KeySchedule, RotationPolicy, schedule_immediate_rotation},
};
use ringtrue_engine::ports::{
    combined::Store,
    keys::{KeyId, KeyPurpose, SealedKey},
    store::ControlPlaneVersion,
};
use strum::VariantArray as _;

use crate::{fixture::StoreFixture, sample};

const POLICY: RotationPolicy =
    RotationPolicy { announce: SignedDuration::from_hours(24), keep: SignedDuration::from_hours(24) };

async fn add(store: &dyn Store, key: &SealedKey) -> bool {
    store.add_first_key(key, &sample::event(None, Action::KeyCreated)).await.unwrap()
}

/// Rotates the key `current`, `hours` from now.
async fn rotate(store: &dyn Store, current: &SealedKey, hours: i64) -> (bool, SealedKey, KeySchedule) {
    let (next, relieved) = POLICY.schedule_rotation(current.schedule, sample::later(hours * 3600));
    let successor = SealedKey { schedule: next, ..sample::key(current.purpose) };
    let relieved_keys = [SealedKey { schedule: relieved, sealed: sample::random::<40>().to_vec(), ..current.clone() }];
    let event = sample::event(None, Action::KeyRotated);
    let done = store.rotate_key(current.id, &successor, &relieved_keys, &event).await.unwrap();
    (done, successor, relieved)
}

pub async fn key_round_trips(fixture: &StoreFixture) {
    let store = &*fixture.store;
    assert_eq!(store.list_keys().await.unwrap(), []);
    let mut keys = Vec::new();
    for &purpose in KeyPurpose::VARIANTS {
        let key = sample::key(purpose);
        assert!(add(store, &key).await);
        keys.push(key);
    }
    assert_eq!(store.list_keys().await.unwrap(), keys);
}

pub async fn first_key_of_a_purpose_is_added_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let attempts = (0..8).map(|number| {
        let store = stores[number % 2].clone();
        async move {
            let key = sample::key(KeyPurpose::Token);
            add(&*store, &key).await.then_some(key)
        }
    });
    let added: Vec<_> = join_all(attempts).await.into_iter().flatten().collect();
    assert_eq!(added.len(), 1);
    assert_eq!(fixture.store.list_keys().await.unwrap(), added);
}

pub async fn key_is_rotated(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, other) = (sample::key(KeyPurpose::Callback), sample::key(KeyPurpose::Seal));
    assert!(add(store, &first).await && add(store, &other).await);
    let (done, second, relieved) = rotate(store, &first, 1).await;
    assert!(done);
    let keys = store.list_keys().await.unwrap();
    assert_eq!((keys[0].id, keys[0].schedule), (first.id, relieved));
    assert_ne!(keys[0].sealed, first.sealed, "sealed again with its new schedule");
    assert_eq!(keys[1..], [other, second]);
}

pub async fn rotation_of_a_superseded_key_does_nothing(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = sample::key(KeyPurpose::Callback);
    add(store, &first).await;
    // Both keys have the same time: the order of keys must not depend on the clock.
    let (next, relieved) = schedule_immediate_rotation(first.schedule, sample::now());
    let second = SealedKey { id: KeyId(uuid::Uuid::nil()), schedule: next, ..sample::key(KeyPurpose::Callback) };
    let event = sample::event(None, Action::KeyRotated);
    let relieved = [SealedKey { schedule: relieved, ..first.clone() }];
    assert!(store.rotate_key(first.id, &second, &relieved, &event).await.unwrap());

    let keys = store.list_keys().await.unwrap();
    assert!(!rotate(store, &first, 2).await.0);
    let foreign = SealedKey { purpose: KeyPurpose::Token, ..sample::key(KeyPurpose::Token) };
    assert!(!rotate(store, &SealedKey { id: second.id, ..foreign }, 2).await.0, "a key of another purpose");
    assert_eq!(store.list_keys().await.unwrap(), keys);
    assert!(rotate(store, &second, 2).await.0);
}

pub async fn concurrent_rotations_succeed_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let first = sample::key(KeyPurpose::Token);
    add(&*fixture.store, &first).await;
    let attempts = (0..8).map(|number| rotate(&*stores[number % 2], &first, 1));
    let rotated = join_all(attempts).await;
    assert_eq!(rotated.iter().filter(|(done, ..)| *done).count(), 1);
    assert_eq!(fixture.store.list_keys().await.unwrap().len(), 2);
}

pub async fn rotation_deletes_expired_keys(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = sample::key(KeyPurpose::Callback);
    add(store, &first).await;
    let (_, second, _) = rotate(store, &first, 0).await;
    // The first key is active until hour 24 and published until hour 48.
    let (_, third, _) = rotate(store, &second, 47).await;
    assert_eq!(store.list_keys().await.unwrap().len(), 3);
    let (_, fourth, _) = rotate(store, &third, 48).await;
    let ids: Vec<_> = store.list_keys().await.unwrap().iter().map(|key| key.id).collect();
    assert_eq!(ids, [second.id, third.id, fourth.id]);
}

pub async fn stale_reseal_is_rejected(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let key = sample::key(KeyPurpose::Token);
    assert!(add(store, &key).await);
    let read = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
    let resealed = SealedKey { sealed: sample::random::<40>().to_vec(), ..key.clone() };
    let reseal = async |read_at| {
        let event = sample::event(None, Action::KeysResealed);
        store.reseal_keys(read_at, std::slice::from_ref(&resealed), &event).await.unwrap()
    };
    assert!(!reseal(ControlPlaneVersion(read.version.0 - 1)).await, "the control plane has changed");
    assert_eq!(store.list_keys().await.unwrap(), [key]);

    assert!(reseal(read.version).await);
    assert!(!reseal(read.version).await);
    let changes = store.changes_since(read.version, sample::now()).await.unwrap();
    assert_eq!(changes.keys, Some(vec![resealed]));
}
