//! The lifecycle that checks of all products share.
//!
//! A check is open until it is concluded, which happens exactly once. Only this module can create a [`Concluded`].
//! Stores and callbacks take a [`CheckConclusion`], which can only be created from a `Concluded`. An open check
//! therefore cannot have a callback.

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

pub use check_values::{DiscoveredNumber, InvalidReference, NumberHash, Reference, Sealed, StoredNumber};
pub use conclusion::{AnyCheck, AnyVerdict, CheckConclusion, Provenance, Verdict, WrongProduct};
pub use error_code::{ErrorCode, InvalidErrorCode};

identifier!(
    /// Identifier of a check.
    CheckId
);

/// Selects the shard of a check in a distributed database. A bucket is twelve bits of the check's id. The hash of a
/// check's SMS code has the same twelve bits, so both lead to the same shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShardBucket(u16);

impl ShardBucket {
    /// Takes the bucket from the last twelve bits of two bytes.
    pub fn of(bytes: [u8; 2]) -> Self {
        ShardBucket(u16::from_be_bytes(bytes) & 0x0fff)
    }

    pub fn number(self) -> i16 {
        self.0.cast_signed()
    }
}

impl CheckId {
    /// Returns the creation time of the check, with which the id begins. An id of another form than ours has an
    /// arbitrary time.
    pub fn created_at(self) -> Timestamp {
        let millis = i64::try_from(self.0.as_u128() >> 80).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }

    pub fn bucket(self) -> ShardBucket {
        let [.., high, low] = *self.0.as_bytes();
        ShardBucket::of([high, low])
    }

    /// Returns the id in another bucket. Replaces twelve of its random bits.
    #[must_use]
    pub fn with_bucket(self, bucket: ShardBucket) -> Self {
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

/// The status of a check in the API.
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

/// A check of a product whose verdict type is `V`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check<V> {
    pub id: CheckId,
    pub project: ProjectId,
    pub product: Product,
    pub mode: Mode,
    /// The verification of which this check is a step. `None`: the check is not a step.
    pub verification: Option<CheckId>,
    pub network: Option<NetworkId>,
    /// The number to verify. `None` for products without a claimed number, and after erasure.
    pub claimed: Option<StoredNumber>,
    pub reference: Option<Reference>,
    pub callback_url: Option<Sealed>,
    /// The client's URL to which the device is finally redirected. Secure SNA, Discovery and verifications only.
    pub redirect_url: Option<Sealed>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub state: Lifecycle<V>,
}

/// The check was already concluded, for example by another request or node.
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

    /// Whether the deadline of an open check has passed.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        matches!(self.state, Lifecycle::Open(_)) && self.expires_at <= now
    }

    /// Concludes the check as expired. The time of conclusion is the deadline, regardless of the current time.
    pub fn expire(self) -> Result<Concluded<V>, AlreadyConcluded> {
        let deadline = self.expires_at;
        self.conclude(CheckOutcome::Expired, deadline)
    }

    /// Concludes the check with an outcome. If `at` is at or after the deadline, the check expires instead.
    pub(crate) fn conclude_unless_expired(
        self,
        outcome: CheckOutcome<V>,
        at: Timestamp,
    ) -> Result<Concluded<V>, AlreadyConcluded> {
        if self.expires_at <= at { self.expire() } else { self.conclude(outcome, at) }
    }

    /// Returns the check with the status pending, unless it is already pending or concluded.
    #[must_use]
    pub fn into_pending(mut self, at: Timestamp) -> Self {
        if matches!(self.state, Lifecycle::Open(OpenState::Accepted)) {
            self.state = Lifecycle::Open(OpenState::Pending { since: at.max(self.created_at) });
        }
        self
    }

    /// Concludes a check that is a step of a verification, because the client or the end-user gave up the step.
    pub fn give_up(self, at: Timestamp) -> Result<Concluded<V>, AlreadyConcluded> {
        self.conclude_unless_expired(CheckOutcome::Error(ErrorCode::GivenUp), at)
    }

    /// Concludes the check with an outcome. The time of conclusion is never before the previous update, even if another
    /// node with a faster clock made that update.
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
    /// Converts the verdict to another type. An open check stays as it is.
    pub fn map<W>(self, convert: impl FnOnce(V) -> W) -> Check<W> {
        let Ok(check) = self.try_map(|verdict| Ok::<_, std::convert::Infallible>(convert(verdict)));
        check
    }

    /// Converts the verdict to another type, with a conversion that can fail.
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

/// A concluded check. If it was concluded in memory, it must still be stored.
#[must_use = "a conclusion must be stored"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concluded<V> {
    check: Check<V>,
}

impl<V> Concluded<V> {
    /// Wraps a check whose conclusion is stored. `None`: the check is open.
    pub fn of_stored(check: Check<V>) -> Option<Self> {
        matches!(check.state, Lifecycle::Concluded { .. }).then_some(Concluded { check })
    }

    pub fn check(&self) -> &Check<V> {
        &self.check
    }

    pub fn into_check(self) -> Check<V> {
        self.check
    }

    /// Converts the verdict to another type.
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
        assert_eq!(id.bucket(), ShardBucket::of([0xf9, 0xab]));
        let moved = id.with_bucket(ShardBucket::of([0x01, 0x23]));
        assert_eq!(moved.0.as_u128(), 0x019a_0000_0000_7abc_8def_0123_4567_8123);
        assert_eq!(moved.bucket().number(), 0x123);
    }
}
