//! Batched leases and settlements of callbacks.

use std::collections::{BTreeMap, HashMap, HashSet};

use ringtrue_engine::ports::{AttemptSettlement, LeasedCallback, MAX_LOGGED_ATTEMPTS, StoreError};
use uuid::Uuid;

use super::{
    batch_queue::{BatchError, BatchFuture, BatchStatement, BatchedOperation, PipelinedTransaction},
    checks::column_values,
    transaction::to_row,
};
use crate::{
    check_row_mapping::{self, leased_columns},
    driver::LeaseCallbacks,
};

/// Leases run one at a time, because each must see the result of the previous one.
impl BatchedOperation for LeaseCallbacks {
    type Output = Result<Vec<LeasedCallback>, StoreError>;
    const NAME: &'static str = "lease";
    const MAX_BATCH_SIZE: usize = 1;

    fn run<'a>(batch: &'a [Self], mut tx: PipelinedTransaction<'a>) -> BatchFuture<'a, Self::Output> {
        Box::pin(async move {
            let [lease] = batch else {
                return Err(BatchError::Rows(StoreError::Refused("leases must run one at a time".to_owned())));
            };
            let due = tx.run(&[select_due(lease)]).await?;
            let mut order = HashMap::<Uuid, usize>::new();
            for (position, row) in due.iter().flatten().enumerate() {
                order.insert(row.try_get(0)?, position);
            }
            let mut ids: Vec<Uuid> = order.keys().copied().collect();
            ids.sort_unstable();
            // Another node may have leased or settled some of them since the select. Those are not due any more.
            let update = BatchStatement::new(concat!(
                "update callbacks set due_at = $2
                   from unnest($1::uuid[]) as due (id)
                  where check_id = due.id and due_at <= $3
                 returning ",
                leased_columns!()
            ));
            let update = update.with(ids).with(lease.until.as_millisecond()).with(lease.now.as_millisecond());
            let (rows, committed) = tx.commit(&[update]).await?;
            let rows = rows.iter().flatten().map(to_row).collect::<Result<Vec<_>, _>>()?;
            let leased =
                rows.into_iter().map(check_row_mapping::leased_callback_from_row).collect::<Result<Vec<_>, _>>().map(
                    |mut leased| {
                        leased.sort_by_key(|callback| order.get(&callback.check.0).copied());
                        leased
                    },
                );
            Ok((vec![leased], committed))
        })
    }
}

fn select_due(lease: &LeaseCallbacks) -> BatchStatement<'static> {
    BatchStatement::new(
        "select check_id from callbacks
          where state = 'waiting' and due_at <= $1 and project_id <> all ($3::uuid[])
          order by due_at, check_id limit $2",
    )
    .with(lease.now.as_millisecond())
    .with(i64::from(lease.limit))
    .with(lease.skip.clone())
}

impl BatchedOperation for AttemptSettlement {
    type Output = bool;
    const NAME: &'static str = "settle";

    fn run<'a>(batch: &'a [Self], mut tx: PipelinedTransaction<'a>) -> BatchFuture<'a, bool> {
        Box::pin(async move {
            let mut outcomes = vec![false; batch.len()];
            let mut queues = BTreeMap::<Uuid, Vec<usize>>::new();
            for (position, settlement) in batch.iter().enumerate().rev() {
                queues.entry(settlement.check.0).or_default().push(position);
            }
            // One round, unless a callback has several attempts in the batch: those run one after the other.
            while !queues.is_empty() {
                let round: Vec<usize> = queues.values_mut().filter_map(Vec::pop).collect();
                queues.retain(|_, queue| !queue.is_empty());
                let settlements: Vec<&AttemptSettlement> = round.iter().map(|position| &batch[*position]).collect();
                let mut settled = HashSet::<Uuid>::new();
                for row in tx.run(&[update_settled(&settlements)]).await?.iter().flatten() {
                    settled.insert(row.try_get(0)?);
                }
                for position in round {
                    outcomes[position] = settled.contains(&batch[position].check.0);
                }
            }
            let mut settled: Vec<_> = batch
                .iter()
                .zip(&outcomes)
                .filter(|(_, settled)| **settled)
                .map(|(settlement, _)| settlement)
                .collect();
            settled.sort_unstable_by_key(|settlement| (settlement.check, settlement.attempt));
            let mut statements = vec![insert_attempts(&settled)];
            settled.retain(|settlement| settlement.attempt > MAX_LOGGED_ATTEMPTS);
            if !settled.is_empty() {
                statements.push(delete_oldest_attempts(&settled));
            }
            let (_, committed) = tx.commit(&statements).await?;
            Ok((outcomes, committed))
        })
    }
}

/// Selects waiting callbacks by `due_at is not null`. With a condition on `state`, a plan made while few were waiting
/// would use the partial index.
fn update_settled(settlements: &[&AttemptSettlement]) -> BatchStatement<'static> {
    let after = |settlement: &AttemptSettlement| {
        check_row_mapping::columns_after_attempt(settlement.attempt, settlement.outcome)
    };
    BatchStatement::new(
        "update callbacks set state = new.state, failed_attempts = new.failed_attempts, due_at = new.due_at
           from unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])
                as new (check_id, attempt, state, failed_attempts, due_at)
          where callbacks.check_id = new.check_id and callbacks.due_at is not null
            and callbacks.failed_attempts = new.attempt - 1
         returning callbacks.check_id",
    )
    .with(column_values(settlements, |settlement| settlement.check.0))
    .with(column_values(settlements, |settlement| i64::from(settlement.attempt)))
    .with(column_values(settlements, |settlement| after(settlement).0))
    .with(column_values(settlements, |settlement| after(settlement).1))
    .with(column_values(settlements, |settlement| after(settlement).2))
}

fn insert_attempts(settlements: &[&AttemptSettlement]) -> BatchStatement<'static> {
    BatchStatement::new(
        "insert into callback_attempts (check_id, attempt, started_at, ended_at, status, failure, exchange)
         select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::text[], $7::bytea[])",
    )
    .with(column_values(settlements, |settlement| settlement.check.0))
    .with(column_values(settlements, |settlement| i64::from(settlement.attempt)))
    .with(column_values(settlements, |settlement| settlement.log.started_at.as_millisecond()))
    .with(column_values(settlements, |settlement| settlement.log.ended_at.as_millisecond()))
    .with(column_values(settlements, |settlement| settlement.log.status.map(i32::from)))
    .with(column_values(settlements, |settlement| settlement.log.failure.clone()))
    .with(column_values(settlements, |settlement| settlement.log.exchange.as_ref().map(|exchange| exchange.0.clone())))
}

fn delete_oldest_attempts(settlements: &[&AttemptSettlement]) -> BatchStatement<'static> {
    BatchStatement::new(
        "delete from callback_attempts using unnest($1::uuid[], $2::bigint[]) as old (check_id, attempt)
          where callback_attempts.check_id = old.check_id and callback_attempts.attempt <= old.attempt",
    )
    .with(column_values(settlements, |settlement| settlement.check.0))
    .with(column_values(settlements, |settlement| i64::from(settlement.attempt.saturating_sub(MAX_LOGGED_ATTEMPTS))))
}
