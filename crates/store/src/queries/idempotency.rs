//! Stores claims on idempotency keys, and the responses to their requests.

use async_trait::async_trait;
use ringtrue_engine::ports::{
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotencyStore, IdempotentResponse},
    store::StoreError,
};
use uuid::Uuid;

use super::{
    SqlStore,
    bucket::{bucket_condition, digest_bucket},
};
use crate::{
    driver::{Database, Sql, TransactionEnd, Tx, work},
    row::{Row, values},
};

/// Stores the response of a request with an idempotency key. Updates no row if another request has taken over the claim
/// on the key.
macro_rules! store_response_sql {
    () => {
        "update idempotency_keys set response = $1
          where tenant = $2 and key_digest = $3 and claim = $4 and response is null"
    };
}
pub(crate) use store_response_sql;

/// Stores the response of a request in the same transaction as its changes. Fails if the request took longer than its
/// lease, and another request has taken over the claim on the idempotency key. Only one of the two may make changes.
pub(crate) async fn store_response<D: Database>(
    tx: &mut dyn Tx,
    response: Option<&IdempotentResponse>,
) -> Result<(), StoreError> {
    let Some(response) = response else { return Ok(()) };
    let IdempotentResponse { tenant, key_digest, claim_id, sealed_response, .. } = response;
    let mut values = values![sealed_response.as_slice(), *tenant, *key_digest, *claim_id].to_vec();
    let bucket_condition = bucket_condition::<D>(digest_bucket(key_digest), &mut values);
    let update = format!(concat!(store_response_sql!(), " {} returning 1"), bucket_condition);
    match tx.query(Sql::cached(update), &values).await?.pop() {
        Some(_) => Ok(()),
        None => Err(claim_lost_error()),
    }
}

pub(crate) fn claim_lost_error() -> StoreError {
    StoreError::Unavailable("another request has taken over this idempotency key".to_owned())
}

macro_rules! idempotency_key_columns {
    () => {
        "tenant, key_digest, claim, fingerprint, response"
    };
}
pub(crate) use idempotency_key_columns;

/// The row of an idempotency key, read after an attempt to claim it.
#[derive(Debug)]
pub(crate) struct IdempotencyKey {
    pub tenant: Uuid,
    pub digest: [u8; 32],
    claim: Uuid,
    fingerprint: [u8; 32],
    response: Option<Vec<u8>>,
}

impl IdempotencyKey {
    pub(crate) fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut row = row.reader("idempotency_keys");
        Ok(IdempotencyKey {
            tenant: row.uuid("tenant")?,
            digest: row.digest("key_digest")?,
            claim: row.uuid("claim")?,
            fingerprint: row.digest("fingerprint")?,
            response: row.bytes_or_null("response")?,
        })
    }

    pub(crate) fn outcome_for(&self, request: &IdempotencyClaim) -> ClaimOutcome {
        if self.claim == request.claim_id {
            ClaimOutcome::Claimed
        } else if self.fingerprint != request.fingerprint {
            ClaimOutcome::KeyReused
        } else {
            self.response.clone().map_or(ClaimOutcome::InProgress, ClaimOutcome::Completed)
        }
    }
}

#[async_trait]
impl<D: Database> IdempotencyStore for SqlStore<D> {
    async fn claim_idempotency_key(&self, request: &IdempotencyClaim) -> Result<ClaimOutcome, StoreError> {
        self.database.run(request.clone()).await
    }

    async fn release_idempotency_key(&self, tenant: Uuid, key_digest: [u8; 32], claim: Uuid) -> Result<(), StoreError> {
        let (bucket, mut values) = (digest_bucket(&key_digest), values![tenant, key_digest, claim].to_vec());
        let delete = format!(
            "delete from idempotency_keys
              where tenant = $1 and key_digest = $2 and claim = $3 and response is null {}",
            bucket_condition::<D>(bucket, &mut values)
        );
        self.execute_at_bucket(bucket, Sql::cached(delete), values).await.map(drop)
    }

    async fn complete_idempotency_key(&self, response: IdempotentResponse) -> Result<(), StoreError> {
        self.database
            .transact_at_bucket(
                digest_bucket(&response.key_digest),
                work!(|tx| {
                    store_response::<D>(tx, Some(&response)).await?;
                    Ok(TransactionEnd::Commit(()))
                }),
            )
            .await
    }
}
