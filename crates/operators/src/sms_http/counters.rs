//! Counters of webhook requests by outcome.

use std::sync::atomic::{AtomicU64, Ordering};

/// Outcome of a webhook request or of one of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WebhookOutcome {
    /// The inbox stored the message.
    Accepted,
    /// The message was processed before.
    Duplicate,
    /// The destination is not one of our numbers.
    UnknownReceiver,
    /// Not an SMS, such as a delivery report.
    Ignored,
    /// A part of an incomplete concatenated message.
    PartHeld,
    /// A part of a concatenated message that expired.
    PartAbandoned,
    /// No capacity for another part.
    PartRejected,
    /// Wrong source address or path secret.
    UntrustedSource,
    InvalidSignature,
    /// Signature too old, or in the future.
    Stale,
    /// Nonce of another request.
    Replayed,
    /// Not in the vendor's documented format.
    Malformed,
    /// The inbox failed to store the message.
    StoreUnavailable,
}

impl WebhookOutcome {
    pub const ALL: [WebhookOutcome; 13] = [
        WebhookOutcome::Accepted,
        WebhookOutcome::Duplicate,
        WebhookOutcome::UnknownReceiver,
        WebhookOutcome::Ignored,
        WebhookOutcome::PartHeld,
        WebhookOutcome::PartAbandoned,
        WebhookOutcome::PartRejected,
        WebhookOutcome::UntrustedSource,
        WebhookOutcome::InvalidSignature,
        WebhookOutcome::Stale,
        WebhookOutcome::Replayed,
        WebhookOutcome::Malformed,
        WebhookOutcome::StoreUnavailable,
    ];

    /// Label value in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            WebhookOutcome::Accepted => "accepted",
            WebhookOutcome::Duplicate => "duplicate",
            WebhookOutcome::UnknownReceiver => "unknown_receiver",
            WebhookOutcome::Ignored => "ignored",
            WebhookOutcome::PartHeld => "part_held",
            WebhookOutcome::PartAbandoned => "part_abandoned",
            WebhookOutcome::PartRejected => "part_refused",
            WebhookOutcome::UntrustedSource => "stranger",
            WebhookOutcome::InvalidSignature => "forged",
            WebhookOutcome::Stale => "stale",
            WebhookOutcome::Replayed => "replayed",
            WebhookOutcome::Malformed => "unreadable",
            WebhookOutcome::StoreUnavailable => "store_down",
        }
    }
}

impl WebhookOutcome {
    /// Error text for the console. `None`: not an error.
    pub fn error_message(self) -> Option<&'static str> {
        match self {
            WebhookOutcome::Accepted
            | WebhookOutcome::Duplicate
            | WebhookOutcome::UnknownReceiver
            | WebhookOutcome::Ignored
            | WebhookOutcome::PartHeld
            | WebhookOutcome::PartAbandoned => None,
            WebhookOutcome::PartRejected => Some("no capacity for another part of a concatenated message"),
            WebhookOutcome::UntrustedSource => Some("request from an unknown address or with a wrong path secret"),
            WebhookOutcome::InvalidSignature => Some("invalid signature"),
            WebhookOutcome::Stale => Some("signature timestamp out of range"),
            WebhookOutcome::Replayed => Some("nonce reused by a different request"),
            WebhookOutcome::Malformed => Some("malformed request"),
            WebhookOutcome::StoreUnavailable => Some("failed to store a message; the vendor must resend it"),
        }
    }
}

#[derive(Debug, Default)]
pub struct WebhookCounters([AtomicU64; WebhookOutcome::ALL.len()]);

impl WebhookCounters {
    pub(super) fn increment(&self, outcome: WebhookOutcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self, outcome: WebhookOutcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_counter() {
        let counters = WebhookCounters::default();
        for (index, outcome) in WebhookOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index);
            counters.increment(outcome);
        }
        assert!(WebhookOutcome::ALL.into_iter().all(|outcome| counters.get(outcome) == 1));
    }
}
