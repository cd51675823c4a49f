//! Slots of usage counters. A counter is the sum of its slots, each with a row of its own, so that transactions that
//! count at the same time do not wait for each other's commits.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU8, Ordering},
    },
};

/// Slots of one node: those of the batch queues' connections, and then those of other transactions.
const SLOTS_PER_NODE: u8 = 16;
/// The first slot that no batch queue uses.
const FIRST_OF_TRANSACTIONS: u8 = 9;
/// Few, because each slot that a node has used leaves rows behind.
const NODES: u8 = 16;

/// This node's place, chosen at random. Nodes that choose the same place still count correctly, but wait for each other.
static PLACE: LazyLock<u8> = LazyLock::new(|| {
    let [place, ..] = RandomState::new().hash_one(()).to_be_bytes();
    place % NODES
});

/// Returns the slot of a batch queue's connection.
pub(super) fn of_queue(number: i16) -> i16 {
    i16::from(*PLACE) * i16::from(SLOTS_PER_NODE) + number
}

/// Returns a slot for a transaction outside the batch queues. The transactions use several slots by turns.
pub(super) fn of_transaction() -> i16 {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let turn = NEXT.fetch_add(1, Ordering::Relaxed) % (SLOTS_PER_NODE - FIRST_OF_TRANSACTIONS);
    of_queue((FIRST_OF_TRANSACTIONS + turn).into())
}
