//! Claims idempotency keys in batches.

use std::collections::{BTreeMap, HashMap};

use ringtrue_domain::lifecycle::ShardBucket;
use ringtrue_engine::ports::idempotency::{ClaimOutcome, IdempotencyClaim};
use uuid::Uuid;

use super::{
    BatchQueues,
    batch_queue::{BatchError, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction, to_rows},
};
use crate::queries::{
    bucket::digest_bucket,
    idempotency::{IdempotencyKey, idempotency_key_columns},
};

impl BatchedOperation for IdempotencyClaim {
    const NAME: &'static str = "claim";

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.claim
    }

    fn bucket(&self) -> Option<ShardBucket> {
        Some(digest_bucket(&self.key_digest))
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<ClaimOutcome>, BatchError> {
        // If several requests of the batch have the same key, only the first one tries to claim it.
        let mut first = BTreeMap::<(Uuid, [u8; 32]), &IdempotencyClaim>::new();
        for request in batch {
            first.entry((request.tenant, request.key_digest)).or_insert(request);
        }
        let tried: Vec<&IdempotencyClaim> = first.into_values().collect();
        let bucket = |claim: &&IdempotencyClaim| digest_bucket(&claim.key_digest);
        let mut statements = tx.statements_by_shard(tried.iter().copied(), bucket, insert_claims);
        let inserts = statements.len();
        statements.extend(tx.statements_by_shard(tried, bucket, select_keys));
        let rows = tx.commit(&statements).await?;
        let mut keys = HashMap::<(Uuid, [u8; 32]), IdempotencyKey>::new();
        for row in to_rows(rows.iter().skip(inserts).flatten())? {
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
        "insert into {idempotency_keys} as held
                (tenant, key_digest, fingerprint, claim, claimed_at, lease_until, expires_at, bucket)
         select * from unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[],
                              $8::smallint[])
         on conflict (tenant, key_digest, bucket) do update
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
    .column(claims, |request| digest_bucket(&request.key_digest).number())
}

fn select_keys<'a>(claims: &[&'a IdempotencyClaim]) -> BatchStatement<'a> {
    BatchStatement::new(concat!(
        "select ",
        idempotency_key_columns!(),
        " from unnest($1::uuid[], $2::bytea[], $3::smallint[]) as requested (tenant, key_digest, bucket)
               join {idempotency_keys} held using (tenant, key_digest, bucket)
         where bucket = any($3)"
    ))
    .column(claims, |request| request.tenant)
    .column(claims, |request| &request.key_digest[..])
    .column(claims, |request| digest_bucket(&request.key_digest).number())
}
