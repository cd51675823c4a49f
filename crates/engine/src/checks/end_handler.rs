//! The seam between checks and those who wait for their ends.

use std::sync::Arc;

use async_trait::async_trait;
use ringtrue_domain::lifecycle::{AnyCheck, AnyVerdict, Concluded};

use crate::ports::{checks::ConcludeOutcome, store::StoreError};

/// Ends checks of one kind in place of [`Checks`](super::Checks): something else waits for their ends, and stores what
/// follows in the same transaction.
///
/// Each check has one handler at most. A handler stores each end with one conditional write, so that a check that is
/// ended twice, by two requests or nodes, ends once.
#[async_trait]
pub(crate) trait CheckEndHandler: Send + Sync {
    /// Whether the check is of the handler's kind.
    fn handles(&self, check: &AnyCheck) -> bool;

    /// Stores the conclusion of a check, its callback if it has one, and what follows. `connector` is the one whose
    /// message concluded the check.
    async fn conclude(
        &self,
        concluded: Concluded<AnyVerdict>,
        connector: Option<Arc<str>>,
    ) -> Result<ConcludeOutcome, StoreError>;

    /// Ends an overdue check, unless it has ended or moved on meanwhile.
    async fn expire(&self, check: AnyCheck) -> Result<(), StoreError>;
}
