use std::collections::BTreeSet;

use futures_util::future::join_all;
use ringtrue_domain::lifecycle::Sealed;
use ringtrue_engine::ports::{
    combined::Store,
    sms::{AddPartOutcome, ConcatenatedSmsKey, ReceivedSmsPart, SmsPartLimits},
};
use uuid::Uuid;

use crate::{fixture::StoreFixture, sample};

const STORED: AddPartOutcome = AddPartOutcome::Stored { first: false };
const FIRST: AddPartOutcome = AddPartOutcome::Stored { first: true };

/// Returns a part of an SMS with one octet of content, received `seconds` from now.
pub fn part(key: u8, total_parts: u8, sequence: u8, content: u8, seconds: i64) -> ReceivedSmsPart {
    ReceivedSmsPart {
        key: ConcatenatedSmsKey([key; 32]),
        sms: sample::uuid(),
        connector: "o2".into(),
        sender: [1; 32],
        total_parts,
        sequence,
        content_hash: [content; 32],
        content: Sealed(vec![content]),
        now: sample::later(seconds),
        expires_at: sample::later(seconds + 60),
        limits: SmsPartLimits { per_sender: 8, per_connector: 100 },
    }
}

async fn add(store: &dyn Store, part: &ReceivedSmsPart) -> AddPartOutcome {
    store.add_sms_part(part).await.unwrap()
}

/// Returns the id and the content of an SMS that is complete. Panics if it is incomplete.
#[track_caller]
fn complete(outcome: AddPartOutcome) -> (Uuid, Vec<u8>) {
    let AddPartOutcome::Complete { sms, contents } = outcome else { panic!("{outcome:?}") };
    (sms, contents.into_iter().flat_map(|content| content.0).collect())
}

pub async fn parts_complete_an_sms_in_any_order(fixture: &StoreFixture) {
    let (store, other) = (&*fixture.store, fixture.database.open().await);
    let third = part(1, 3, 3, b'c', 0);
    assert_eq!(add(store, &third).await, FIRST);
    assert_eq!(add(&*other, &part(1, 3, 1, b'a', 1)).await, STORED);
    assert_eq!(add(store, &part(1, 3, 1, b'a', 2)).await, STORED, "a resent part");
    assert_eq!(add(store, &part(2, 3, 2, b'x', 2)).await, FIRST, "another SMS");
    let (sms, contents) = complete(add(&*other, &part(1, 3, 2, b'b', 3)).await);
    assert_eq!((sms, &*contents), (third.sms, &b"abc"[..]));
    // The SMS is not marked as processed yet, so a repeated part completes it again.
    assert_eq!(complete(add(store, &part(1, 3, 2, b'b', 4)).await), (sms, contents));
}

pub async fn processed_sms_is_not_completed_again(fixture: &StoreFixture) {
    let store = &*fixture.store;
    add(store, &part(1, 2, 1, b'a', 0)).await;
    let (sms, _) = complete(add(store, &part(1, 2, 2, b'b', 1)).await);
    store.mark_sms_processed(ConcatenatedSmsKey([1; 32]), sms, sample::later(2)).await.unwrap();
    for (sequence, content) in [(1, b'a'), (2, b'b')] {
        assert_eq!(add(store, &part(1, 2, sequence, content, 3)).await, AddPartOutcome::AlreadyProcessed);
    }
    assert_eq!(fixture.database.count("select count(*) from sms_parts where content is not null").await, 0);
    // After the SMS has expired, the same parts begin a new SMS.
    assert_eq!(add(store, &part(1, 2, 1, b'a', 61)).await, FIRST);
}

pub async fn different_content_begins_a_new_sms(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = part(1, 2, 1, b'a', 0);
    assert_eq!(add(store, &first).await, FIRST);
    let newer = part(1, 2, 1, b'A', 1);
    assert_eq!(add(store, &newer).await, FIRST, "it replaces the incomplete SMS");
    let (sms, contents) = complete(add(store, &part(1, 2, 2, b'B', 2)).await);
    assert_eq!((sms, &*contents), (newer.sms, &b"AB"[..]));
    // A node that still processes the older SMS does not affect the newer one.
    store.mark_sms_processed(ConcatenatedSmsKey([1; 32]), first.sms, sample::later(3)).await.unwrap();
    complete(add(store, &part(1, 2, 2, b'B', 4)).await);
    store.mark_sms_processed(ConcatenatedSmsKey([1; 32]), sms, sample::later(5)).await.unwrap();
    assert_eq!(add(store, &part(1, 2, 2, b'b', 6)).await, FIRST, "it replaces the processed SMS");
    assert_eq!(complete(add(store, &part(1, 2, 1, b'a', 7)).await).1, b"ab");
}

pub async fn expired_parts_do_not_complete_an_sms(fixture: &StoreFixture) {
    let store = &*fixture.store;
    add(store, &part(1, 2, 1, b'a', 0)).await;
    assert_eq!(add(store, &part(1, 2, 2, b'b', 60)).await, FIRST);
    assert_eq!(complete(add(store, &part(1, 2, 1, b'a', 119)).await).1, b"ab", "the expiry counts from the first part");
}

/// Two nodes receive parts of the same SMS at the same time.
pub async fn concurrent_parts_complete_an_sms_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    for key in 1..=20 {
        let parts: Vec<_> = (1..=4).map(|sequence| part(key, 4, sequence, b'a' + sequence, 0)).collect();
        let parts = parts.into_iter().map(|part| ReceivedSmsPart { sender: [key; 32], ..part }).collect::<Vec<_>>();
        let added = parts.iter().zip(stores.iter().cycle()).map(|(part, store)| add(&**store, part));
        let outcomes = join_all(added).await;
        let first = outcomes.iter().filter(|outcome| **outcome == FIRST).count();
        let completed: Vec<_> =
            outcomes.into_iter().filter(|outcome| matches!(outcome, AddPartOutcome::Complete { .. })).collect();
        assert_eq!((first, completed.len()), (1, 1), "SMS {key}");
        assert_eq!(complete(completed[0].clone()).1, b"bcde");
    }
}

pub async fn incomplete_sms_are_limited(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let limited = |key: u8, sender: u8, connector: &str| ReceivedSmsPart {
        sender: [sender; 32],
        connector: connector.into(),
        limits: SmsPartLimits { per_sender: 2, per_connector: 3 },
        ..part(key, 2, 1, b'a', 0)
    };
    for (key, sender, connector, outcome) in [
        (1, 1, "o2", FIRST),
        (2, 1, "o2", FIRST),
        (3, 1, "o2", AddPartOutcome::LimitReached),
        (4, 2, "o2", FIRST),
        (5, 3, "o2", AddPartOutcome::LimitReached),
        (6, 3, "ee", FIRST),
    ] {
        assert_eq!(add(store, &limited(key, sender, connector)).await, outcome, "SMS {key}");
    }
    assert_eq!(fixture.database.count("select count(*) from concatenated_sms").await, 4, "rejected parts leave no row");
    // Further parts of an accepted SMS are accepted, and a processed SMS makes room for another.
    let (sms, _) = complete(add(store, &ReceivedSmsPart { sequence: 2, ..limited(1, 1, "o2") }).await);
    assert_eq!(add(store, &limited(3, 1, "o2")).await, AddPartOutcome::LimitReached, "not processed yet");
    store.mark_sms_processed(ConcatenatedSmsKey([1; 32]), sms, sample::now()).await.unwrap();
    assert_eq!(add(store, &limited(3, 1, "o2")).await, FIRST);
    // Expired SMS no longer count towards the limits.
    let later = ReceivedSmsPart { now: sample::later(60), expires_at: sample::later(120), ..limited(7, 1, "o2") };
    assert_eq!(add(store, &later).await, FIRST);
}

pub async fn expired_sms_are_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    add(store, &part(1, 2, 1, b'a', 0)).await;
    add(store, &part(2, 2, 1, b'a', 0)).await;
    let (sms, _) = complete(add(store, &part(2, 2, 2, b'b', 0)).await);
    store.mark_sms_processed(ConcatenatedSmsKey([2; 32]), sms, sample::now()).await.unwrap();
    add(store, &part(3, 2, 1, b'a', 30)).await;
    add(store, &ReceivedSmsPart { connector: "ee".into(), ..part(4, 2, 1, b'a', 0) }).await;
    assert_eq!(store.delete_expired_sms("o2", sample::later(59)).await.unwrap(), 0);
    assert_eq!(store.delete_expired_sms("o2", sample::later(60)).await.unwrap(), 1, "processed SMS are not counted");
    assert_eq!(store.delete_expired_sms("o2", sample::later(60)).await.unwrap(), 0);
    assert_eq!(fixture.database.count("select count(*) from concatenated_sms").await, 2);
    assert_eq!(fixture.database.count("select count(*) from sms_parts").await, 2);
    // Housekeeping deletes expired SMS an hour later, in case their connector no longer exists.
    let an_hour_later = |seconds: i64| sample::later(3_600 + seconds);
    store.delete_expired(an_hour_later(59)).await.unwrap();
    assert_eq!(fixture.database.count("select count(*) from concatenated_sms").await, 2);
    store.delete_expired(an_hour_later(60)).await.unwrap();
    assert_eq!(fixture.database.count("select count(*) from concatenated_sms").await, 1);
}

/// A part that was acknowledged survives a crash of the node.
pub async fn stored_parts_survive_a_reopen(fixture: &StoreFixture) {
    add(&*fixture.store, &part(1, 2, 1, b'a', 0)).await;
    fixture.database.cut_connections().await;
    let other = fixture.database.open().await;
    assert_eq!(complete(add(&*other, &part(1, 2, 2, b'b', 1)).await).1, b"ab");
}

/// Several nodes add parts, expire SMS and complete them at the same time.
pub async fn concurrent_parts_and_expiry_do_not_deadlock(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let run = |worker: u8| {
        let store = &*stores[usize::from(worker) % 2];
        async move {
            for round in 0..40_u8 {
                let key = round % 5 + 1;
                let seconds = i64::from(round) * 20;
                let outcome = add(store, &part(key, 2, worker % 2 + 1, b'a', seconds)).await;
                if let AddPartOutcome::Complete { sms, .. } = outcome {
                    store.mark_sms_processed(ConcatenatedSmsKey([key; 32]), sms, sample::later(seconds)).await.unwrap();
                }
                store.delete_expired_sms("o2", sample::later(seconds)).await.unwrap();
            }
            worker
        }
    };
    let finished: BTreeSet<_> = join_all((0..6).map(run)).await.into_iter().collect();
    assert_eq!(finished.len(), 6);
    assert_eq!(fixture.database.deadlocks().await, 0);
}
