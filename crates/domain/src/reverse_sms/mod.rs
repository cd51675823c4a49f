//! Reverse SMS: the end-user texts us a code from the number that is to be verified.

mod code;
mod inbound;
mod link;

use jiff::Timestamp;

pub use code::{Code, candidates};
pub use inbound::{InboundSms, Origin, Sender};
pub use link::{Platform, sms_link};

use crate::{
    lifecycle::{AlreadyConcluded, Check, Concluded, ErrorCode, NumberHash, Outcome, Verdict},
    sandbox::Script,
    search::{Field, Kind},
    tenancy::Mode,
};

/// Whether the SMS came from the claimed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderMatch(pub bool);

impl Verdict for SenderMatch {
    fn matched(&self) -> Option<bool> {
        Some(self.0)
    }
}

pub type ReverseSmsCheck = Check<SenderMatch>;

/// What lists of checks can be filtered by.
pub static SEARCH_FIELDS: [Field; 7] = [
    Field { name: "status", kind: Kind::Keyword(&crate::lifecycle::Status::NAMES) },
    Field { name: "verified", kind: Kind::Boolean },
    Field { name: "network_id", kind: Kind::Text },
    Field { name: "error_code", kind: Kind::Text },
    Field { name: "reference_id", kind: Kind::Text },
    Field { name: "created_at", kind: Kind::Instant },
    Field { name: "updated_at", kind: Kind::Instant },
];

/// How often a project may ask about one number, to keep a stranger from being pestered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberGuard {
    pub creates: u32,
    pub within_seconds: u32,
}

impl Default for NumberGuard {
    fn default() -> Self {
        NumberGuard { creates: 5, within_seconds: 600 }
    }
}

/// Who sent an SMS that carried a check's code, as it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedFrom {
    Number(NumberHash),
    /// The sender cannot be attributed to a subscriber.
    Unattributed,
}

impl Check<SenderMatch> {
    /// Judges an SMS that carried this check's code.
    ///
    /// An SMS that arrives at or after the deadline expires the check, whether or not the sweeper has come by: time
    /// ends a check, not the sweeper. `None`: the number is a simulated one whose script is to stay silent.
    pub fn receive(
        self,
        from: ReceivedFrom,
        at: Timestamp,
    ) -> Result<Option<Concluded<SenderMatch>>, AlreadyConcluded> {
        let script = match (self.mode, self.claimed) {
            (Mode::Sandbox, Some(claimed)) => Some(Script::of(claimed.tail)),
            _ => None,
        };
        let outcome = match (script, from) {
            (Some(Script::Silence), _) => return Ok(None),
            (Some(Script::OperatorFault), _) | (_, ReceivedFrom::Unattributed) => {
                Outcome::Error(ErrorCode::InternalError)
            }
            (Some(Script::Odd | Script::OperatorTimeout), _) => Outcome::Completed(SenderMatch(false)),
            (_, ReceivedFrom::Number(sender)) => {
                Outcome::Completed(SenderMatch(self.claimed.is_some_and(|claimed| claimed.hash == sender)))
            }
        };
        self.end(outcome, at).map(Some)
    }
}

#[cfg(test)]
mod tests;
