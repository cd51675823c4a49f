//! Batched counter updates.

use std::collections::BTreeMap;

use ringtrue_engine::ports::UsageDelta;

use super::batch_queue::{BatchError, BatchFuture, BatchStatement, BatchedOperation, PipelinedTransaction};
use crate::queries::usage::{self, CounterKey, upsert_counters_sql};

/// The changes of one caller are one operation: all or none are stored.
impl BatchedOperation for Vec<UsageDelta> {
    type Output = ();
    const NAME: &'static str = "count";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, ()> {
        Box::pin(async move {
            let change = update_counters(batch.iter().flatten(), tx.slot())?;
            let (_, committed) = tx.run_single(&change).await?;
            Ok((vec![(); batch.len()], committed))
        })
    }
}

/// Updates each counter once, in the order of keys. Hours are written before days, as everywhere: `PostgreSQL` runs a
/// data-modifying `with` after the main statement.
pub(super) fn update_counters<'a>(
    counts: impl IntoIterator<Item = &'a UsageDelta>,
    slot: i16,
) -> Result<BatchStatement<'static>, BatchError> {
    let statement = BatchStatement::new(concat!(
        "with days as (",
        upsert_counters_sql!(
            "usage_days",
            "day",
            "select *, $15::smallint from unnest($8::uuid[], $9::text[], $10::text[], $11::text[], $12::smallint[], $13::text[],
                                  $14::bigint[])"
        ),
        ") ",
        upsert_counters_sql!(
            "usage_counters",
            "hour",
            "select *, $15::smallint from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[],
                                  $7::bigint[])"
        )
    ));
    Ok(bind_counters(statement, counts)?.with(slot))
}

/// Binds counter changes: seven arrays for the hours, then seven for the days.
pub(super) fn bind_counters<'a, 'b>(
    statement: BatchStatement<'a>,
    counts: impl IntoIterator<Item = &'b UsageDelta>,
) -> Result<BatchStatement<'a>, BatchError> {
    let hours = usage::merge_counts(counts).map_err(BatchError::Rows)?;
    let days = usage::roll_up_to_days(&hours);
    Ok(bind_changes(bind_changes(statement, hours), days))
}

fn bind_changes(statement: BatchStatement<'_>, changes: BTreeMap<CounterKey, i64>) -> BatchStatement<'_> {
    let (keys, changes): (Vec<CounterKey>, Vec<i64>) = changes.into_iter().unzip();
    statement
        .with(keys.iter().map(|key| key.project.0).collect::<Vec<_>>())
        .with(keys.iter().map(|key| key.hour.clone()).collect::<Vec<_>>())
        .with(keys.iter().map(|key| key.product).collect::<Vec<_>>())
        .with(keys.iter().map(|key| key.status).collect::<Vec<_>>())
        .with(keys.iter().map(|key| key.matched).collect::<Vec<_>>())
        .with(keys.into_iter().map(|key| key.network).collect::<Vec<_>>())
        .with(changes)
}
