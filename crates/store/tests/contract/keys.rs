use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    audit::Action,
    key_schedule::{KeySchedule, RotationPolicy, rotate_at_once},
    tenancy::{Credential, SecretDigest},
};
use ringtrue_engine::ports::{KeyId, KeyPurpose, SealedKey, Store, Version};

use crate::{bench::Bench, sample};

const POLICY: RotationPolicy =
    RotationPolicy { announce: SignedDuration::from_hours(24), keep: SignedDuration::from_hours(24) };

async fn add(store: &dyn Store, key: &SealedKey) -> bool {
    store.add_first_key(key, &sample::event(None, Action::KeyCreated)).await.unwrap()
}

/// Rotates `current` at an instant some hours from now.
async fn rotate(store: &dyn Store, current: &SealedKey, hours: i64) -> (bool, SealedKey, KeySchedule) {
    let (next, relieved) = POLICY.rotate(current.schedule, sample::later(hours * 3600));
    let successor = SealedKey { schedule: next, ..sample::key(current.purpose) };
    let relieved_keys = [SealedKey { schedule: relieved, sealed: sample::random::<40>().to_vec(), ..current.clone() }];
    let event = sample::event(None, Action::KeyRotated);
    let done = store.rotate_key(current.id, &successor, &relieved_keys, &event).await.unwrap();
    (done, successor, relieved)
}

pub async fn a_key_comes_back_as_it_was_stored(bench: &Bench) {
    let store = &*bench.store;
    assert_eq!(store.all_keys().await.unwrap(), []);
    let mut keys = Vec::new();
    for purpose in KeyPurpose::ALL {
        let key = sample::key(purpose);
        assert!(add(store, &key).await);
        keys.push(key);
    }
    assert_eq!(store.all_keys().await.unwrap(), keys);
}

pub async fn the_first_key_of_a_purpose_is_added_once(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let attempts = (0..8).map(|number| {
        let store = stores[number % 2].clone();
        async move {
            let key = sample::key(KeyPurpose::Token);
            add(&*store, &key).await.then_some(key)
        }
    });
    let added: Vec<_> = join_all(attempts).await.into_iter().flatten().collect();
    assert_eq!(added.len(), 1);
    assert_eq!(bench.store.all_keys().await.unwrap(), added);
}

pub async fn a_key_is_rotated(bench: &Bench) {
    let store = &*bench.store;
    let (first, other) = (sample::key(KeyPurpose::Callback), sample::key(KeyPurpose::Seal));
    assert!(add(store, &first).await && add(store, &other).await);
    let (done, second, relieved) = rotate(store, &first, 1).await;
    assert!(done);
    let keys = store.all_keys().await.unwrap();
    assert_eq!((keys[0].id, keys[0].schedule), (first.id, relieved));
    assert_ne!(keys[0].sealed, first.sealed, "it is sealed with its schedule");
    assert_eq!(keys[1..], [other, second]);
}

pub async fn a_rotation_of_an_old_reading_does_nothing(bench: &Bench) {
    let store = &*bench.store;
    let first = sample::key(KeyPurpose::Callback);
    add(store, &first).await;
    // Within the same instant: it is not the clock that says which key is the newest.
    let (next, relieved) = rotate_at_once(first.schedule, sample::now());
    let second = SealedKey { id: KeyId(uuid::Uuid::nil()), schedule: next, ..sample::key(KeyPurpose::Callback) };
    let event = sample::event(None, Action::KeyRotated);
    let relieved = [SealedKey { schedule: relieved, ..first.clone() }];
    assert!(store.rotate_key(first.id, &second, &relieved, &event).await.unwrap());

    let keys = store.all_keys().await.unwrap();
    assert!(!rotate(store, &first, 2).await.0);
    let foreign = SealedKey { purpose: KeyPurpose::Token, ..sample::key(KeyPurpose::Token) };
    assert!(!rotate(store, &SealedKey { id: second.id, ..foreign }, 2).await.0, "that key is of another purpose");
    assert_eq!(store.all_keys().await.unwrap(), keys);
    assert!(rotate(store, &second, 2).await.0);
}

pub async fn of_many_who_rotate_a_key_one_does(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let first = sample::key(KeyPurpose::Token);
    add(&*bench.store, &first).await;
    let attempts = (0..8).map(|number| rotate(&*stores[number % 2], &first, 1));
    let rotated = join_all(attempts).await;
    assert_eq!(rotated.iter().filter(|(done, ..)| *done).count(), 1);
    assert_eq!(bench.store.all_keys().await.unwrap().len(), 2);
}

pub async fn keys_that_were_gone_are_deleted(bench: &Bench) {
    let store = &*bench.store;
    let first = sample::key(KeyPurpose::Callback);
    add(store, &first).await;
    let (_, second, _) = rotate(store, &first, 0).await;
    // The first is used until hour 24 and published until hour 48.
    let (_, third, _) = rotate(store, &second, 47).await;
    assert_eq!(store.all_keys().await.unwrap().len(), 3);
    let (_, fourth, _) = rotate(store, &third, 48).await;
    let ids: Vec<_> = store.all_keys().await.unwrap().iter().map(|key| key.id).collect();
    assert_eq!(ids, [second.id, third.id, fourth.id]);
}

pub async fn keys_and_digests_are_replaced_as_they_were_read(bench: &Bench) {
    let store = &*bench.store;
    let workspace = sample::stored_workspace(store).await;
    let key = sample::key(KeyPurpose::Token);
    assert!(add(store, &key).await);
    let read = store.changes_since(Version(0), sample::now()).await.unwrap();
    let credential = read.credentials[0].clone();
    assert_eq!(credential.owner.workspace(), workspace.id);
    let resealed = SealedKey { sealed: sample::random::<40>().to_vec(), ..key.clone() };
    let digests = [(credential.client_id.clone(), SecretDigest(sample::random()))];
    let reseal = async |read_at| {
        let event = sample::event(None, Action::KeysResealed);
        store.reseal(read_at, std::slice::from_ref(&resealed), &digests, &event).await.unwrap()
    };
    assert!(!reseal(Version(read.version.0 - 1)).await, "something has changed since");
    assert_eq!(store.all_keys().await.unwrap(), [key]);

    assert!(reseal(read.version).await);
    assert!(!reseal(read.version).await);
    let changes = store.changes_since(read.version, sample::now()).await.unwrap();
    assert_eq!(changes.keys, Some(vec![resealed]));
    let digest = |credential: &Credential| (credential.client_id.clone(), credential.secret_digest);
    assert_eq!(changes.credentials.iter().map(digest).collect::<Vec<_>>(), digests);
}
