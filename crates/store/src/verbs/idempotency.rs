//! Idempotency keys: who claimed one, and what the answer was.

use async_trait::async_trait;
use ringtrue_engine::ports::{ClaimOutcome, ClaimRequest, Completion, IdempotencyStore, StoreError};
use uuid::Uuid;

use super::SqlStore;
use crate::driver::{Abandoned, Database, Tx, values};

/// Changes no row if the claim was taken over.
macro_rules! complete_sql {
    () => {
        "update idempotency_keys set answer = $1
          where tenant = $2 and key_digest = $3 and claim = $4 and answer is null"
    };
}
pub(crate) use complete_sql;

/// Writes the answer of a request into the transaction of what it did. A request whose claim was taken over, because it
/// was slower than its lease, must not do anything: someone else is doing it.
pub(crate) async fn complete(tx: &mut dyn Tx, completion: Option<&Completion>) -> Result<(), StoreError> {
    let Some(completion) = completion else { return Ok(()) };
    let completed = tx
        .first(
            concat!(complete_sql!(), " returning 1"),
            values![completion.sealed_answer.as_slice(), completion.tenant, completion.key_digest, completion.claim],
        )
        .await?;
    match completed {
        Some(_) => Ok(()),
        None => Err(claim_was_lost()),
    }
}

pub(crate) fn claim_was_lost() -> StoreError {
    StoreError::Unavailable("another attempt has taken over this idempotency key".to_owned())
}

/// An idempotency key as it stands after a claim was tried.
#[derive(Debug)]
pub(crate) struct Standing {
    pub claim: Uuid,
    pub fingerprint: [u8; 32],
    pub answer: Option<Vec<u8>>,
}

impl Standing {
    /// What this means for one of the requests that tried.
    pub(crate) fn outcome(&self, request: &ClaimRequest) -> ClaimOutcome {
        if self.claim == request.claim {
            ClaimOutcome::Claimed
        } else if self.fingerprint != request.fingerprint {
            ClaimOutcome::Reused
        } else {
            self.answer.clone().map_or(ClaimOutcome::InProgress, ClaimOutcome::Answered)
        }
    }
}

#[async_trait]
impl<D: Database> IdempotencyStore for SqlStore<D> {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.database.claim(request.clone()).await
    }

    async fn abandon(&self, tenant: Uuid, key_digest: [u8; 32], claim: Uuid) -> Result<(), StoreError> {
        self.database.abandon(Abandoned { tenant, key_digest, claim }).await
    }
}
