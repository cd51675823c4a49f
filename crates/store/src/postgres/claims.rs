//! Claims idempotency keys in batches.

use std::collections::{BTreeMap, HashMap};

use ringtrue_engine::ports::idempotency::{ClaimOutcome, IdempotencyClaim};
use uuid::Uuid;

use super::{
    BatchQueues,
    batch_queue::{BatchError, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction, to_rows},
};
use crate::queries::idempotency::{IdempotencyKey, idempotency_key_columns};

impl BatchedOperation for IdempotencyClaim {
    const NAME: &'static str = "claim";

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.claim
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<ClaimOutcome>, BatchError> {
        // If several requests of the batch have the same key, only the first one tries to claim it.
        let mut first = BTreeMap::<(Uuid, [u8; 32]), &IdempotencyClaim>::new();
        for request in batch {
            first.entry((request.tenant, request.key_digest)).or_insert(request);
        }
        let tried: Vec<&IdempotencyClaim> = first.into_values().collect();
        let rows = tx.commit(&[insert_claims(&tried), select_keys(&tried)]).await?;
        let mut keys = HashMap::<(Uuid, [u8; 32]), IdempotencyKey>::new();
        for row in to_rows(rows.iter().skip(1).flatten())? {
            let key = IdempotencyKey::from_row(row).map_err(BatchError::Server)?;
            keys.insert((key.tenant, key.digest), key);
        }
        let outcome = |request: &&IdempotencyClaim| {
            let key = keys.get(&(request.tenant, request.key_digest));
            key.map(|key| key.outcome_for(request)).ok_or_else(BatchError::wrong_results)
        };
        batch.iter().map(outcome).collect()
    }
}

/// Claims the idempotency keys that are free. Also locks the rows of all other keys until the commit, so that the next
/// statement reads the same rows as this one.
fn insert_claims<'a>(claims: &[&'a IdempotencyClaim]) -> BatchStatement<'a> {
    BatchStatement::new(
        "insert into idempotency_keys as held
                (tenant, key_digest, fingerprint, claim, claimed_at, lease_until, expires_at)
         select * from unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[])
         on conflict (tenant, key_digest) do update
            set fingerprint = excluded.fingerprint, claim = excluded.claim, claimed_at = excluded.claimed_at,
                lease_until = excluded.lease_until, expires_at = excluded.expires_at, response = null
          where held.expires_at <= excluded.claimed_at
             or (held.response is null and held.lease_until <= excluded.claimed_at
                 and held.fingerprint = excluded.fingerprint)",
    )
    .column(claims, |request| request.tenant)
    .column(claims, |request| &request.key_digest[..])
    .column(claims, |request| &request.fingerprint[..])
    .column(claims, |request| request.claim_id)
    .column(claims, |request| request.now.as_millisecond())
    .column(claims, |request| request.lease_until.as_millisecond())
    .column(claims, |request| request.expires_at.as_millisecond())
}

fn select_keys<'a>(claims: &[&'a IdempotencyClaim]) -> BatchStatement<'a> {
    BatchStatement::new(concat!(
        "select ",
        idempotency_key_columns!(),
        " from unnest($1::uuid[], $2::bytea[]) as requested (tenant, key_digest)
               join idempotency_keys using (tenant, key_digest)
         where key_digest = any($2)"
    ))
    .column(claims, |request| request.tenant)
    .column(claims, |request| &request.key_digest[..])
}
