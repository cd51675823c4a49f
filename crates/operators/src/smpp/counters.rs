//! Counters for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ringtrue_engine::ports::SmsOutcome;

/// Outcome of a received message or part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SmppOutcome {
    /// Every message, whatever its outcome.
    Received,
    /// Outcomes of complete SMS, as the inbox reports them.
    Concluded,
    TooLate,
    Pending,
    Unmatched,
    Unusable,
    /// Dropped: a delivery receipt, or another message that is not an SMS.
    NotAnSms,
    /// Dropped: not to one of our numbers.
    OtherReceiver,
    /// Dropped: unsupported coding.
    Unreadable,
    /// A part was acknowledged after its SMS was processed.
    PartAcknowledged,
    /// A part was acknowledged while others were missing.
    PartAcknowledgedEarly,
    /// An SMS expired before all parts arrived.
    PartsMissing,
    /// Answered with a temporary error; the message centre resends it.
    TemporaryError,
    /// Not a valid PDU.
    Malformed,
}

impl SmppOutcome {
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
        Self::PartAcknowledged,
        Self::PartAcknowledgedEarly,
        Self::PartsMissing,
        Self::TemporaryError,
        Self::Malformed,
    ];

    /// Label value in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Concluded => SmsOutcome::Concluded.as_str(),
            Self::TooLate => SmsOutcome::TooLate.as_str(),
            Self::Pending => SmsOutcome::Pending.as_str(),
            Self::Unmatched => SmsOutcome::Unmatched.as_str(),
            Self::Unusable => SmsOutcome::Unusable.as_str(),
            Self::NotAnSms => "not_an_sms",
            Self::OtherReceiver => "other_receiver",
            Self::Unreadable => "unreadable",
            Self::PartAcknowledged => "part_taken",
            Self::PartAcknowledgedEarly => "part_on_trust",
            Self::PartsMissing => "parts_missing",
            Self::TemporaryError => "temporary_error",
            Self::Malformed => "malformed",
        }
    }
}

impl From<SmsOutcome> for SmppOutcome {
    fn from(outcome: SmsOutcome) -> Self {
        match outcome {
            SmsOutcome::Concluded => Self::Concluded,
            SmsOutcome::TooLate => Self::TooLate,
            SmsOutcome::Pending => Self::Pending,
            SmsOutcome::Unmatched => Self::Unmatched,
            SmsOutcome::Unusable => Self::Unusable,
        }
    }
}

/// Counters of a connector. They outlive it, so that its replacement continues them.
#[derive(Debug, Default)]
pub struct SmppCounters {
    outcomes: [AtomicU64; SmppOutcome::ALL.len()],
    binds_up: AtomicUsize,
}

impl SmppCounters {
    pub fn get(&self, outcome: SmppOutcome) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    pub fn binds_up(&self) -> usize {
        self.binds_up.load(Ordering::Relaxed)
    }

    pub(super) fn increment(&self, outcome: SmppOutcome) {
        self.add(outcome, 1);
    }

    pub(super) fn add(&self, outcome: SmppOutcome, amount: u64) {
        self.outcomes[outcome as usize].fetch_add(amount, Ordering::Relaxed);
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
    fn every_outcome_has_a_counter_and_a_label() {
        let counters = SmppCounters::default();
        for (times, outcome) in (1..).zip(SmppOutcome::ALL) {
            counters.add(outcome, times);
            assert_eq!(counters.get(outcome), times);
        }
        assert_eq!(HashSet::from(SmppOutcome::ALL.map(SmppOutcome::as_str)).len(), SmppOutcome::ALL.len());
    }
}
