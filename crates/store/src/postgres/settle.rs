//! Records the results of callback attempts in batches.

use ringtrue_domain::lifecycle::{CheckId, ShardBucket};
use ringtrue_engine::ports::callbacks::{AttemptSettlement, MAX_LOGGED_ATTEMPTS};

use super::{
    BatchQueues,
    batch_queue::{BatchError, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction, rows_by_id},
};
use crate::check_row_mapping;

/// Takes two round trips: the first updates the callbacks whose attempt has no recorded result yet, the second logs
/// these attempts.
impl BatchedOperation for AttemptSettlement {
    const NAME: &'static str = "settle";

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.settle
    }

    fn bucket(&self) -> Option<ShardBucket> {
        Some(self.check.bucket())
    }

    fn changed_check(&self) -> Option<CheckId> {
        Some(self.check)
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<bool>, BatchError> {
        let bucket = |settlement: &&AttemptSettlement| settlement.check.bucket();
        let rows = tx.run(&tx.statements_by_shard(batch.iter().copied(), bucket, update_callbacks)).await?.concat();
        let settled = rows_by_id(&rows)?;
        let outcomes: Vec<bool> = batch.iter().map(|settlement| settled.contains_key(&settlement.check.0)).collect();
        let mut logged: Vec<&AttemptSettlement> = batch
            .iter()
            .zip(&outcomes)
            .filter_map(|(settlement, is_settled)| is_settled.then_some(*settlement))
            .collect();
        let mut statements = tx.statements_by_shard(logged.iter().copied(), bucket, insert_attempts);
        logged.retain(|settlement| settlement.attempt > MAX_LOGGED_ATTEMPTS);
        statements.extend(tx.statements_by_shard(logged, bucket, delete_oldest_attempts));
        tx.commit(&statements).await?;
        Ok(outcomes)
    }
}

fn checks(settlements: &[&AttemptSettlement]) -> impl Iterator<Item = CheckId> {
    settlements.iter().map(|settlement| settlement.check)
}

/// Updates the waiting callbacks, selected by `due_at is not null`. With a condition on `state` instead, a plan made
/// while few callbacks were waiting would still scan the partial index when many are.
fn update_callbacks(settlements: &[&AttemptSettlement]) -> BatchStatement<'static> {
    let after = |settlement: &&AttemptSettlement| {
        check_row_mapping::columns_after_attempt(settlement.attempt, settlement.outcome)
    };
    BatchStatement::new(
        "update {callbacks} callbacks set state = new.state, failed_attempts = new.failed_attempts, due_at = new.due_at
           from unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
                as new (check_id, bucket, attempt, state, failed_attempts, due_at)
          where callbacks.check_id = new.check_id and callbacks.bucket = new.bucket and callbacks.bucket = any($2)
            and callbacks.due_at is not null and callbacks.failed_attempts = new.attempt - 1
         returning callbacks.check_id",
    )
    .keys(checks(settlements))
    .column(settlements, |settlement| i64::from(settlement.attempt))
    .column(settlements, |settlement| after(settlement).0)
    .column(settlements, |settlement| after(settlement).1)
    .column(settlements, |settlement| after(settlement).2)
}

fn insert_attempts<'a>(settlements: &[&'a AttemptSettlement]) -> BatchStatement<'a> {
    BatchStatement::new(
        "insert into {callback_attempts} (check_id, attempt, started_at, ended_at, status, failure, exchange, bucket)
         select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::text[], $7::bytea[],
                              $8::smallint[])",
    )
    .column(settlements, |settlement| settlement.check.0)
    .column(settlements, |settlement| i64::from(settlement.attempt))
    .column(settlements, |settlement| settlement.log.started_at.as_millisecond())
    .column(settlements, |settlement| settlement.log.ended_at.as_millisecond())
    .column(settlements, |settlement| settlement.log.status.map(i32::from))
    .column(settlements, |settlement| settlement.log.failure.as_deref())
    .column(settlements, |settlement| settlement.log.exchange.as_ref().map(|exchange| &exchange.0[..]))
    .column(settlements, |settlement| settlement.check.bucket().number())
}

fn delete_oldest_attempts(settlements: &[&AttemptSettlement]) -> BatchStatement<'static> {
    BatchStatement::new(
        "delete from {callback_attempts} callback_attempts
          using unnest($1::uuid[], $2::smallint[], $3::bigint[]) as old (check_id, bucket, attempt)
          where callback_attempts.check_id = old.check_id and callback_attempts.bucket = old.bucket
            and callback_attempts.bucket = any($2) and callback_attempts.attempt <= old.attempt",
    )
    .keys(checks(settlements))
    .column(settlements, |settlement| i64::from(settlement.attempt.saturating_sub(MAX_LOGGED_ATTEMPTS)))
}
