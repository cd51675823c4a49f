//! Trait with which verifications conclude and expire the checks that are their steps.

use async_trait::async_trait;
use ringtrue_domain::lifecycle::{AnyCheck, AnyVerdict, Concluded, Provenance};

use crate::ports::{checks::ConcludeOutcome, store::StoreError};

/// Ends checks of one kind instead of [`Checks`](super::Checks). Implemented for the steps of verifications: the end of
/// a step begins the next step or ends the verification, in the same transaction.
///
/// A check has at most one handler. A handler stores the end of a check with one conditional write, so that only the
/// first of two concurrent requests or nodes ends the check.
#[async_trait]
pub(crate) trait CheckEndHandler: Send + Sync {
    /// Returns whether this handler ends the check.
    fn handles(&self, check: &AnyCheck) -> bool;

    /// Stores the conclusion of a check and its consequences.
    async fn conclude(
        &self,
        concluded: Concluded<AnyVerdict>,
        provenance: Provenance,
    ) -> Result<ConcludeOutcome, StoreError>;

    /// Expires an overdue check. Does nothing if the check has ended meanwhile, or if its verification has moved to
    /// another step.
    async fn expire(&self, check: AnyCheck) -> Result<(), StoreError>;
}
