//! Reverse SMS: the end-user sends a code by SMS from the number to verify.

mod code;
mod inbound;
mod link;

use jiff::Timestamp;
use strum::VariantNames as _;

pub use code::{SmsCode, find_code_candidates};
pub use inbound::{InboundSms, SmsEnvironment, SmsSender};
pub use link::{Platform, sms_link};

use crate::{
    lifecycle::{AlreadyConcluded, Check, CheckOutcome, CheckStatus, Concluded, ErrorCode, NumberHash, Verdict},
    search::{Field, FieldKind},
};

/// The verdict of a Reverse SMS check: whether the SMS came from the claimed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderMatch(pub bool);

impl Verdict for SenderMatch {
    fn matched(&self) -> Option<bool> {
        Some(self.0)
    }
}

pub type ReverseSmsCheck = Check<SenderMatch>;

/// Fields by which lists of Reverse SMS, Secure SNA and Discovery checks can be filtered.
pub static SEARCH_FIELDS: [Field; 7] = [
    Field { name: "status", kind: FieldKind::Keyword(CheckStatus::VARIANTS) },
    Field { name: "verified", kind: FieldKind::Boolean },
    Field { name: "network_id", kind: FieldKind::Text },
    Field { name: "error_code", kind: FieldKind::Text },
    Field { name: "reference_id", kind: FieldKind::Text },
    Field { name: "created_at", kind: FieldKind::Instant },
    Field { name: "updated_at", kind: FieldKind::Instant },
];

/// Maximum number of checks of one number in a project within a time window. It protects subscribers from abuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberLimit {
    pub max_checks: u32,
    pub window_seconds: u32,
}

impl Default for NumberLimit {
    fn default() -> Self {
        NumberLimit { max_checks: 5, window_seconds: 600 }
    }
}

/// The sender of an SMS with a valid code, hashed for comparison with the claimed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashedSender {
    Number(NumberHash),
    /// The sender does not identify a subscriber.
    Unattributed,
}

impl Check<SenderMatch> {
    /// Concludes the check with an SMS that contains its code.
    ///
    /// If the SMS arrives at or after the deadline, the check expires instead, even if the background job that expires
    /// checks has not reached it yet.
    pub fn evaluate_sms(self, from: HashedSender, at: Timestamp) -> Result<Concluded<SenderMatch>, AlreadyConcluded> {
        let outcome = match from {
            HashedSender::Unattributed => CheckOutcome::Error(ErrorCode::InternalError),
            HashedSender::Number(sender) => {
                CheckOutcome::Completed(SenderMatch(self.claimed.is_some_and(|claimed| claimed.hash == sender)))
            }
        };
        self.conclude_unless_expired(outcome, at)
    }
}

#[cfg(test)]
mod tests;
