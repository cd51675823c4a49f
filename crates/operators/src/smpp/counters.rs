//! How many of everything, for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ringtrue_engine::ports::Disposition;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A message came, whatever became of it.
    Received,
    /// A whole SMS, and what the inbox made of it.
    Concluded,
    TooLate,
    Pending,
    Unmatched,
    Unusable,
    /// Dropped: a receipt, or another thing that is not an SMS.
    NotAnSms,
    /// Dropped: not to a number of ours.
    OtherReceiver,
    /// Dropped: in a coding of which nothing can be read.
    Unreadable,
    /// A part was acknowledged after its SMS was dealt with.
    PartTaken,
    /// A part was acknowledged while others were missing.
    PartOnTrust,
    /// An SMS was given up because its parts did not come.
    PartsMissing,
    /// Answered with a temporary error, to come again.
    TemporaryError,
    /// Could not be read as a PDU.
    Malformed,
}

impl Outcome {
    pub const ALL: [Self; 14] = [
        Self::Received,
        Self::Concluded,
        Self::TooLate,
        Self::Pending,
        Self::Unmatched,
        Self::Unusable,
        Self::NotAnSms,
        Self::OtherReceiver,
        Self::Unreadable,
        Self::PartTaken,
        Self::PartOnTrust,
        Self::PartsMissing,
        Self::TemporaryError,
        Self::Malformed,
    ];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Concluded => Disposition::Concluded.as_str(),
            Self::TooLate => Disposition::TooLate.as_str(),
            Self::Pending => Disposition::Pending.as_str(),
            Self::Unmatched => Disposition::Unmatched.as_str(),
            Self::Unusable => Disposition::Unusable.as_str(),
            Self::NotAnSms => "not_an_sms",
            Self::OtherReceiver => "other_receiver",
            Self::Unreadable => "unreadable",
            Self::PartTaken => "part_taken",
            Self::PartOnTrust => "part_on_trust",
            Self::PartsMissing => "parts_missing",
            Self::TemporaryError => "temporary_error",
            Self::Malformed => "malformed",
        }
    }
}

impl From<Disposition> for Outcome {
    fn from(disposition: Disposition) -> Self {
        match disposition {
            Disposition::Concluded => Self::Concluded,
            Disposition::TooLate => Self::TooLate,
            Disposition::Pending => Self::Pending,
            Disposition::Unmatched => Self::Unmatched,
            Disposition::Unusable => Self::Unusable,
        }
    }
}

/// The counts of a connector. They outlive it, so that a new one can go on counting.
#[derive(Debug, Default)]
pub struct Counters {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    binds_up: AtomicUsize,
}

impl Counters {
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    pub fn binds_up(&self) -> usize {
        self.binds_up.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, outcome: Outcome) {
        self.add(outcome, 1);
    }

    pub(super) fn add(&self, outcome: Outcome, count: u64) {
        self.outcomes[outcome as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn set_binds_up(&self, binds: usize) {
        self.binds_up.store(binds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_outcome_has_a_place_and_a_word() {
        let counters = Counters::default();
        for (times, outcome) in (1..).zip(Outcome::ALL) {
            counters.add(outcome, times);
            assert_eq!(counters.get(outcome), times);
        }
        assert_eq!(HashSet::from(Outcome::ALL.map(Outcome::as_str)).len(), Outcome::ALL.len());
    }
}
