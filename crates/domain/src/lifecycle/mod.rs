//! Where a check stands, whatever its product.
//!
//! A check is open until it ends, and it ends once. Only this module makes a [`Concluded`], the one thing that a store
//! records an end from, and a callback is rendered from an [`Ending`], so a callback for an open check cannot be written.

mod ending;
mod error_code;
mod kept;

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use crate::{
    id::identifier,
    network::NetworkId,
    product::Product,
    tenancy::{Mode, ProjectId},
};

pub use ending::{AnyCheck, AnyVerdict, Ending, OtherProduct, Verdict};
pub use error_code::{ErrorCode, NotAnErrorCode};
pub use kept::{ClaimedNumber, DiscoveredNumber, InvalidReference, NumberHash, Reference, Sealed};

identifier!(
    /// Names a check of any product.
    CheckId
);

/// Where a check stands. `V` is what its product says once it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle<V> {
    Open(Open),
    Concluded { outcome: Outcome<V>, at: Timestamp },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    Accepted,
    /// Part of what the check waits for has been seen.
    Pending {
        since: Timestamp,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<V> {
    Completed(V),
    Expired,
    Error(ErrorCode),
}

/// The status as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    Accepted,
    Pending,
    Completed,
    Expired,
    Error,
}

impl Status {
    pub const ALL: [Status; 5] = [Status::Accepted, Status::Pending, Status::Completed, Status::Expired, Status::Error];
    /// The names, for filters.
    pub const NAMES: [&'static str; 5] = ["ACCEPTED", "PENDING", "COMPLETED", "EXPIRED", "ERROR"];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Accepted => "ACCEPTED",
            Status::Pending => "PENDING",
            Status::Completed => "COMPLETED",
            Status::Expired => "EXPIRED",
            Status::Error => "ERROR",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a status")]
pub struct NotAStatus;

impl FromStr for Status {
    type Err = NotAStatus;

    fn from_str(text: &str) -> Result<Self, NotAStatus> {
        Status::ALL.into_iter().find(|status| status.as_str() == text).ok_or(NotAStatus)
    }
}

/// A check of a product whose verdict is `V`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check<V> {
    pub id: CheckId,
    pub project: ProjectId,
    pub product: Product,
    pub mode: Mode,
    pub network: Option<NetworkId>,
    /// `None` once it has been erased.
    pub claimed: Option<ClaimedNumber>,
    pub reference: Option<Reference>,
    /// Where the callback goes.
    pub callback_url: Option<Sealed>,
    /// Where the device is sent at the end, in products that send it anywhere.
    pub redirect_url: Option<Sealed>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub state: Lifecycle<V>,
}

/// Someone else was first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the check has ended already")]
pub struct AlreadyConcluded;

impl<V: Clone> Check<V> {
    pub fn status(&self) -> Status {
        match &self.state {
            Lifecycle::Open(Open::Accepted) => Status::Accepted,
            Lifecycle::Open(Open::Pending { .. }) => Status::Pending,
            Lifecycle::Concluded { outcome, .. } => outcome.status(),
        }
    }

    pub fn updated_at(&self) -> Option<Timestamp> {
        match self.state {
            Lifecycle::Open(Open::Accepted) => None,
            Lifecycle::Open(Open::Pending { since }) => Some(since),
            Lifecycle::Concluded { at, .. } => Some(at),
        }
    }

    pub fn error_code(&self) -> Option<ErrorCode> {
        match self.state {
            Lifecycle::Concluded { outcome: Outcome::Error(code), .. } => Some(code),
            _ => None,
        }
    }

    pub fn verdict(&self) -> Option<&V> {
        match &self.state {
            Lifecycle::Concluded { outcome: Outcome::Completed(verdict), .. } => Some(verdict),
            _ => None,
        }
    }

    /// Open, though its time is up: nobody has recorded its end yet.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        matches!(self.state, Lifecycle::Open(_)) && self.expires_at <= now
    }

    /// Ends the check because its time is up. Its end is the deadline, whenever somebody comes to record it.
    pub fn expire(self) -> Result<Concluded<V>, AlreadyConcluded> {
        let deadline = self.expires_at;
        self.conclude(Outcome::Expired, deadline)
    }

    /// Ends the check with an outcome that came `at` an instant, unless its time was up by then.
    pub(crate) fn end(self, outcome: Outcome<V>, at: Timestamp) -> Result<Concluded<V>, AlreadyConcluded> {
        if self.expires_at <= at { self.expire() } else { self.conclude(outcome, at) }
    }

    /// Nodes may differ by milliseconds, so an end never lies before what it follows.
    fn conclude(mut self, outcome: Outcome<V>, at: Timestamp) -> Result<Concluded<V>, AlreadyConcluded> {
        let at = at.max(self.updated_at().unwrap_or(self.created_at));
        match self.state {
            Lifecycle::Concluded { .. } => Err(AlreadyConcluded),
            Lifecycle::Open(_) => {
                self.state = Lifecycle::Concluded { outcome, at };
                Ok(Concluded { check: self })
            }
        }
    }
}

impl<V> Check<V> {
    /// The same check with its verdict, if it has one, said in another way.
    pub fn map<W>(self, say: impl FnOnce(V) -> W) -> Check<W> {
        let Ok(check) = self.try_map(|verdict| Ok::<_, std::convert::Infallible>(say(verdict)));
        check
    }

    /// As [`map`](Check::map), for verdicts that cannot always be said in the other way.
    pub fn try_map<W, E>(self, say: impl FnOnce(V) -> Result<W, E>) -> Result<Check<W>, E> {
        let state = match self.state {
            Lifecycle::Open(open) => Lifecycle::Open(open),
            Lifecycle::Concluded { outcome, at } => {
                let outcome = match outcome {
                    Outcome::Completed(verdict) => Outcome::Completed(say(verdict)?),
                    Outcome::Expired => Outcome::Expired,
                    Outcome::Error(code) => Outcome::Error(code),
                };
                Lifecycle::Concluded { outcome, at }
            }
        };
        let Check { id, project, product, mode, network, claimed, reference, .. } = self;
        let Check { callback_url, redirect_url, created_at, expires_at, .. } = self;
        Ok(Check {
            id,
            project,
            product,
            mode,
            network,
            claimed,
            reference,
            callback_url,
            redirect_url,
            created_at,
            expires_at,
            state,
        })
    }
}

impl<V> Outcome<V> {
    pub fn status(&self) -> Status {
        match self {
            Outcome::Completed(_) => Status::Completed,
            Outcome::Expired => Status::Expired,
            Outcome::Error(_) => Status::Error,
        }
    }
}

/// A check that has just reached its end, still to be recorded.
#[must_use = "a conclusion that is not recorded never reaches the caller"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concluded<V> {
    check: Check<V>,
}

impl<V> Concluded<V> {
    pub fn check(&self) -> &Check<V> {
        &self.check
    }

    pub fn into_check(self) -> Check<V> {
        self.check
    }

    /// The same end with its verdict said in another way.
    pub fn map<W>(self, say: impl FnOnce(V) -> W) -> Concluded<W> {
        Concluded { check: self.check.map(say) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for (status, name) in Status::ALL.into_iter().zip(Status::NAMES) {
            assert_eq!(status.as_str(), name);
            assert_eq!(name.parse(), Ok(status));
        }
    }
}
