//! Callbacks, many at a time.

use std::collections::{BTreeMap, HashMap, HashSet};

use ringtrue_engine::ports::{LeasedCallback, MAX_ATTEMPTS_KEPT, Settlement, StoreError};
use uuid::Uuid;

use super::{
    checks::column,
    lane::{Batch, BatchError, Call, Running, Verb},
    transaction::row_of,
};
use crate::{
    check_rows::{self, leased_columns},
    driver::Lease,
};

/// Leases are taken one after the other: each must see what the one before has left.
impl Verb for Lease {
    type Answer = Result<Vec<LeasedCallback>, StoreError>;
    const NAME: &'static str = "lease";
    const MAX_BATCH: usize = 1;

    fn run<'a>(batch: &'a [Self], mut tx: Batch<'a>) -> Running<'a, Self::Answer> {
        Box::pin(async move {
            let [lease] = batch else {
                return Err(BatchError::Rows(StoreError::Refused("leases are taken one by one".to_owned())));
            };
            let due = tx.step(&[select_due(lease)]).await?;
            let mut order = HashMap::<Uuid, usize>::new();
            for (place, row) in due.iter().flatten().enumerate() {
                order.insert(row.try_get(0)?, place);
            }
            let mut ids: Vec<Uuid> = order.keys().copied().collect();
            ids.sort_unstable();
            // Another node may have taken some of them in between. Then they are not due any more. What does not wait is
            // never due.
            let take = Call::new(concat!(
                "update callbacks set due_at = $2
                   from unnest($1::uuid[]) as due (id)
                  where check_id = due.id and due_at <= $3
                 returning ",
                leased_columns!()
            ));
            let take = take.with(ids).with(lease.until.as_millisecond()).with(lease.now.as_millisecond());
            let (rows, committed) = tx.commit(&[take]).await?;
            let rows = rows.iter().flatten().map(row_of).collect::<Result<Vec<_>, _>>()?;
            let leased = rows.into_iter().map(check_rows::leased).collect::<Result<Vec<_>, _>>().map(|mut leased| {
                leased.sort_by_key(|callback| order.get(&callback.check.0).copied());
                leased
            });
            Ok((vec![leased], committed))
        })
    }
}

fn select_due(lease: &Lease) -> Call<'static> {
    Call::new(
        "select check_id from callbacks
          where state = 'waiting' and due_at <= $1 and project_id <> all ($3::uuid[])
          order by due_at, check_id limit $2",
    )
    .with(lease.now.as_millisecond())
    .with(i64::from(lease.limit))
    .with(lease.skip.clone())
}

impl Verb for Settlement {
    type Answer = bool;
    const NAME: &'static str = "settle";

    fn run<'a>(batch: &'a [Self], mut tx: Batch<'a>) -> Running<'a, bool> {
        Box::pin(async move {
            let mut answers = vec![false; batch.len()];
            let mut queues = BTreeMap::<Uuid, Vec<usize>>::new();
            for (position, settlement) in batch.iter().enumerate().rev() {
                queues.entry(settlement.check.0).or_default().push(position);
            }
            // One round, unless there are several attempts of one callback: then each sees what the one before has left.
            while !queues.is_empty() {
                let round: Vec<usize> = queues.values_mut().filter_map(Vec::pop).collect();
                queues.retain(|_, queue| !queue.is_empty());
                let settlements: Vec<&Settlement> = round.iter().map(|position| &batch[*position]).collect();
                let mut settled = HashSet::<Uuid>::new();
                for row in tx.step(&[settle(&settlements)]).await?.iter().flatten() {
                    settled.insert(row.try_get(0)?);
                }
                for position in round {
                    answers[position] = settled.contains(&batch[position].check.0);
                }
            }
            let mut settled: Vec<_> =
                batch.iter().zip(&answers).filter(|(_, settled)| **settled).map(|(settlement, _)| settlement).collect();
            settled.sort_unstable_by_key(|settlement| (settlement.check, settlement.attempt));
            let mut calls = vec![log(&settled)];
            settled.retain(|settlement| settlement.attempt > MAX_ATTEMPTS_KEPT);
            if !settled.is_empty() {
                calls.push(forget_oldest(&settled));
            }
            let (_, committed) = tx.commit(&calls).await?;
            Ok((answers, committed))
        })
    }
}

/// What waits has a `due_at`. It is not asked for by its state: a plan that was made while few were waiting would look for
/// it among those.
fn settle(settlements: &[&Settlement]) -> Call<'static> {
    let after = |settlement: &Settlement| check_rows::after_attempt(settlement.attempt, settlement.then);
    Call::new(
        "update callbacks set state = new.state, failed_attempts = new.failed_attempts, due_at = new.due_at
           from unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])
                as new (check_id, attempt, state, failed_attempts, due_at)
          where callbacks.check_id = new.check_id and callbacks.due_at is not null
            and callbacks.failed_attempts = new.attempt - 1
         returning callbacks.check_id",
    )
    .with(column(settlements, |settlement| settlement.check.0))
    .with(column(settlements, |settlement| i64::from(settlement.attempt)))
    .with(column(settlements, |settlement| after(settlement).0))
    .with(column(settlements, |settlement| after(settlement).1))
    .with(column(settlements, |settlement| after(settlement).2))
}

fn log(settlements: &[&Settlement]) -> Call<'static> {
    Call::new(
        "insert into callback_attempts (check_id, attempt, started_at, ended_at, status, failure, exchange)
         select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::text[], $7::bytea[])",
    )
    .with(column(settlements, |settlement| settlement.check.0))
    .with(column(settlements, |settlement| i64::from(settlement.attempt)))
    .with(column(settlements, |settlement| settlement.log.started_at.as_millisecond()))
    .with(column(settlements, |settlement| settlement.log.ended_at.as_millisecond()))
    .with(column(settlements, |settlement| settlement.log.status.map(i32::from)))
    .with(column(settlements, |settlement| settlement.log.failure.clone()))
    .with(column(settlements, |settlement| settlement.log.exchange.as_ref().map(|exchange| exchange.0.clone())))
}

/// Deletes the attempts that are not among the newest any more.
fn forget_oldest(settlements: &[&Settlement]) -> Call<'static> {
    Call::new(
        "delete from callback_attempts using unnest($1::uuid[], $2::bigint[]) as old (check_id, attempt)
          where callback_attempts.check_id = old.check_id and callback_attempts.attempt <= old.attempt",
    )
    .with(column(settlements, |settlement| settlement.check.0))
    .with(column(settlements, |settlement| i64::from(settlement.attempt.saturating_sub(MAX_ATTEMPTS_KEPT))))
}
