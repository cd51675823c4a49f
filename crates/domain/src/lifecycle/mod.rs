//! The lifecycle of checks of all products.
//!
//! A check is open until it is concluded, exactly once. Only this module creates a [`Concluded`]. Stores and callbacks
//! take a [`CheckConclusion`], which can only be created from a `Concluded`, so an open check cannot have a callback.

mod check_values;
mod conclusion;
mod error_code;

use jiff::Timestamp;
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::{
    id::identifier,
    network::NetworkId,
    parse_error::default_error,
    product::Product,
    tenancy::{Mode, ProjectId},
};

pub use check_values::{ClaimedNumber, DiscoveredNumber, InvalidReference, NumberHash, Reference, Sealed};
pub use conclusion::{AnyCheck, AnyVerdict, CheckConclusion, Verdict, WrongProduct};
pub use error_code::{ErrorCode, InvalidErrorCode};

identifier!(
    /// Identifier of a check.
    CheckId
);

/// Chooses the shard of a check in a distributed database: twelve bits of its id, and of the hash of its SMS code. Both
/// lead to the same shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket(u16);

impl Bucket {
    /// The bucket in the last twelve bits.
    pub fn of(bytes: [u8; 2]) -> Self {
        Bucket(u16::from_be_bytes(bytes) & 0x0fff)
    }

    pub fn number(self) -> i16 {
        self.0.cast_signed()
    }
}

impl CheckId {
    pub fn bucket(self) -> Bucket {
        let [.., high, low] = *self.0.as_bytes();
        Bucket::of([high, low])
    }

    /// Replaces twelve of the random bits.
    #[must_use]
    pub fn in_bucket(self, bucket: Bucket) -> Self {
        CheckId(uuid::Uuid::from_u128(self.0.as_u128() & !0x0fff | u128::from(bucket.0)))
    }
}

/// The state of a check. `V` is the verdict type of its product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle<V> {
    Open(OpenState),
    Concluded { outcome: CheckOutcome<V>, at: Timestamp },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenState {
    Accepted,
    /// The end-user has started: an SMS without a valid code arrived, or the device was redirected.
    Pending {
        since: Timestamp,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome<V> {
    Completed(V),
    Expired,
    Error(ErrorCode),
}

/// The status in the API.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumString, IntoStaticStr, VariantArray, VariantNames,
)]
#[strum(serialize_all = "UPPERCASE", const_into_str, parse_err_ty = InvalidStatus, parse_err_fn = default_error)]
pub enum CheckStatus {
    Accepted,
    Pending,
    Completed,
    Expired,
    Error,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown status")]
pub struct InvalidStatus;

/// A check of a product whose verdict is `V`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check<V> {
    pub id: CheckId,
    pub project: ProjectId,
    pub product: Product,
    pub mode: Mode,
    /// The verification whose step this check is.
    pub verification: Option<CheckId>,
    pub network: Option<NetworkId>,
    /// `None` in products without a claimed number, and after erasure.
    pub claimed: Option<ClaimedNumber>,
    pub reference: Option<Reference>,
    pub callback_url: Option<Sealed>,
    /// Final redirect of the device (Secure SNA and Discovery).
    pub redirect_url: Option<Sealed>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub state: Lifecycle<V>,
}

/// Another request or node has concluded the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the check is already concluded")]
pub struct AlreadyConcluded;

impl<V: Clone> Check<V> {
    pub fn status(&self) -> CheckStatus {
        match &self.state {
            Lifecycle::Open(OpenState::Accepted) => CheckStatus::Accepted,
            Lifecycle::Open(OpenState::Pending { .. }) => CheckStatus::Pending,
            Lifecycle::Concluded { outcome, .. } => outcome.status(),
        }
    }

    pub fn updated_at(&self) -> Option<Timestamp> {
        match self.state {
            Lifecycle::Open(OpenState::Accepted) => None,
            Lifecycle::Open(OpenState::Pending { since }) => Some(since),
            Lifecycle::Concluded { at, .. } => Some(at),
        }
    }

    pub fn error_code(&self) -> Option<ErrorCode> {
        match self.state {
            Lifecycle::Concluded { outcome: CheckOutcome::Error(code), .. } => Some(code),
            _ => None,
        }
    }

    pub fn verdict(&self) -> Option<&V> {
        match &self.state {
            Lifecycle::Concluded { outcome: CheckOutcome::Completed(verdict), .. } => Some(verdict),
            _ => None,
        }
    }

    /// Whether the check is past its deadline and not concluded yet.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        matches!(self.state, Lifecycle::Open(_)) && self.expires_at <= now
    }

    /// Concludes the check as expired at its deadline, regardless of the current time.
    pub fn expire(self) -> Result<Concluded<V>, AlreadyConcluded> {
        let deadline = self.expires_at;
        self.conclude(CheckOutcome::Expired, deadline)
    }

    /// Concludes the check with an outcome, or as expired if `at` is past the deadline.
    pub(crate) fn conclude_unless_expired(
        self,
        outcome: CheckOutcome<V>,
        at: Timestamp,
    ) -> Result<Concluded<V>, AlreadyConcluded> {
        if self.expires_at <= at { self.expire() } else { self.conclude(outcome, at) }
    }

    /// The check as pending, unless it is pending or concluded already.
    #[must_use]
    pub fn into_pending(mut self, at: Timestamp) -> Self {
        if matches!(self.state, Lifecycle::Open(OpenState::Accepted)) {
            self.state = Lifecycle::Open(OpenState::Pending { since: at.max(self.created_at) });
        }
        self
    }

    /// Concludes a step of a verification that the caller or the end-user gave up.
    pub fn give_up(self, at: Timestamp) -> Result<Concluded<V>, AlreadyConcluded> {
        self.conclude_unless_expired(CheckOutcome::Error(ErrorCode::GivenUp), at)
    }

    /// Clocks of nodes may differ by milliseconds, so `at` is clamped to the previous update.
    pub(crate) fn conclude(
        mut self,
        outcome: CheckOutcome<V>,
        at: Timestamp,
    ) -> Result<Concluded<V>, AlreadyConcluded> {
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
    /// Converts the verdict.
    pub fn map<W>(self, convert: impl FnOnce(V) -> W) -> Check<W> {
        let Ok(check) = self.try_map(|verdict| Ok::<_, std::convert::Infallible>(convert(verdict)));
        check
    }

    /// Converts the verdict; fails if the conversion fails.
    pub fn try_map<W, E>(self, convert: impl FnOnce(V) -> Result<W, E>) -> Result<Check<W>, E> {
        let state = match self.state {
            Lifecycle::Open(open) => Lifecycle::Open(open),
            Lifecycle::Concluded { outcome, at } => {
                let outcome = match outcome {
                    CheckOutcome::Completed(verdict) => CheckOutcome::Completed(convert(verdict)?),
                    CheckOutcome::Expired => CheckOutcome::Expired,
                    CheckOutcome::Error(code) => CheckOutcome::Error(code),
                };
                Lifecycle::Concluded { outcome, at }
            }
        };
        let Check { id, project, product, mode, verification, network, claimed, reference, .. } = self;
        let Check { callback_url, redirect_url, created_at, expires_at, .. } = self;
        Ok(Check {
            id,
            project,
            product,
            mode,
            verification,
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

impl<V> CheckOutcome<V> {
    pub fn status(&self) -> CheckStatus {
        match self {
            CheckOutcome::Completed(_) => CheckStatus::Completed,
            CheckOutcome::Expired => CheckStatus::Expired,
            CheckOutcome::Error(_) => CheckStatus::Error,
        }
    }
}

/// A check that is concluded in memory and not stored yet.
#[must_use = "a conclusion must be stored"]
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

    /// Converts the verdict.
    pub fn map<W>(self, convert: impl FnOnce(V) -> W) -> Concluded<W> {
        Concluded { check: self.check.map(convert) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_is_part_of_the_id() {
        let id = CheckId(uuid::Uuid::from_u128(0x019a_0000_0000_7abc_8def_0123_4567_89ab));
        assert_eq!(id.bucket(), Bucket::of([0xf9, 0xab]));
        let moved = id.in_bucket(Bucket::of([0x01, 0x23]));
        assert_eq!(moved.0.as_u128(), 0x019a_0000_0000_7abc_8def_0123_4567_8123);
        assert_eq!(moved.bucket().number(), 0x123);
    }
}
