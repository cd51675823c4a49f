//! What came in by a webhook, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a request, or of one of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The inbox has the message.
    Accepted,
    /// The message was dealt with before.
    Duplicate,
    /// The message went to a number that is not ours.
    UnknownReceiver,
    /// Authentic, but no SMS: a delivery report, for instance.
    Ignored,
    /// Part of a longer message whose others are to come.
    PartHeld,
    /// Part of a longer message that was never completed.
    PartAbandoned,
    /// There was no room for part of a longer message.
    PartRefused,
    /// From an address, or to a path, that the vendor does not use.
    Stranger,
    /// Without a valid signature.
    Forged,
    /// Signed too long ago, or in the future.
    Stale,
    /// A nonce that was used for another request.
    Replayed,
    /// Nothing that the vendor's documentation describes.
    Unreadable,
    /// The inbox could not take the message.
    StoreDown,
}

impl Outcome {
    pub const ALL: [Outcome; 13] = [
        Outcome::Accepted,
        Outcome::Duplicate,
        Outcome::UnknownReceiver,
        Outcome::Ignored,
        Outcome::PartHeld,
        Outcome::PartAbandoned,
        Outcome::PartRefused,
        Outcome::Stranger,
        Outcome::Forged,
        Outcome::Stale,
        Outcome::Replayed,
        Outcome::Unreadable,
        Outcome::StoreDown,
    ];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Accepted => "accepted",
            Outcome::Duplicate => "duplicate",
            Outcome::UnknownReceiver => "unknown_receiver",
            Outcome::Ignored => "ignored",
            Outcome::PartHeld => "part_held",
            Outcome::PartAbandoned => "part_abandoned",
            Outcome::PartRefused => "part_refused",
            Outcome::Stranger => "stranger",
            Outcome::Forged => "forged",
            Outcome::Stale => "stale",
            Outcome::Replayed => "replayed",
            Outcome::Unreadable => "unreadable",
            Outcome::StoreDown => "store_down",
        }
    }
}

impl Outcome {
    /// What is wrong with a call that ended so, in a sentence. `None`: nothing.
    pub fn complaint(self) -> Option<&'static str> {
        match self {
            Outcome::Accepted
            | Outcome::Duplicate
            | Outcome::UnknownReceiver
            | Outcome::Ignored
            | Outcome::PartHeld
            | Outcome::PartAbandoned => None,
            Outcome::PartRefused => Some("there was no room for part of a longer message"),
            Outcome::Stranger => Some("a call came from an address, or to a path, that the vendor does not use"),
            Outcome::Forged => Some("a call had no valid signature"),
            Outcome::Stale => Some("a call was signed too long ago, or in the future"),
            Outcome::Replayed => Some("a call repeated the nonce of another one"),
            Outcome::Unreadable => Some("a call was nothing that the vendor's documentation describes"),
            Outcome::StoreDown => Some("a message could not be stored, and must come again"),
        }
    }
}

/// One counter per outcome.
#[derive(Debug, Default)]
pub struct Tally([AtomicU64; Outcome::ALL.len()]);

impl Tally {
    pub(super) fn add(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_counter() {
        let tally = Tally::default();
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
            tally.add(outcome);
        }
        assert!(Outcome::ALL.into_iter().all(|outcome| tally.get(outcome) == 1));
    }
}
