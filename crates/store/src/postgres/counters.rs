//! Counters, many at a time.

use std::collections::BTreeMap;

use ringtrue_engine::ports::UsageCount;

use super::lane::{Batch, BatchError, Call, Running, Verb};
use crate::verbs::usage::{self, CounterKey, change_sql};

/// All changes of one caller go together, as one verb.
impl Verb for Vec<UsageCount> {
    type Answer = ();
    const NAME: &'static str = "count";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, ()> {
        Box::pin(async move {
            let change = change_counters(batch.iter().flatten(), tx.slot())?;
            let (_, committed) = tx.only(&change).await?;
            Ok((vec![(); batch.len()], committed))
        })
    }
}

/// The statement that changes counters: each counter once, in the order of their keys. Hours come before days, as
/// everywhere: what stands in `with` is done when the rest has been.
pub(super) fn change_counters<'a>(
    counts: impl IntoIterator<Item = &'a UsageCount>,
    slot: i16,
) -> Result<Call<'static>, BatchError> {
    let call = Call::new(concat!(
        "with days as (",
        change_sql!(
            "usage_days",
            "day",
            "select *, $15::smallint from unnest($8::uuid[], $9::text[], $10::text[], $11::text[], $12::smallint[], $13::text[],
                                  $14::bigint[])"
        ),
        ") ",
        change_sql!(
            "usage_counters",
            "hour",
            "select *, $15::smallint from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[],
                                  $7::bigint[])"
        )
    ));
    Ok(with_counters(call, counts)?.with(slot))
}

/// Adds the changes of counters to a statement: seven columns for the hours, then seven for the days.
pub(super) fn with_counters<'a, 'b>(
    call: Call<'a>,
    counts: impl IntoIterator<Item = &'b UsageCount>,
) -> Result<Call<'a>, BatchError> {
    let hours = usage::merged(counts).map_err(BatchError::Rows)?;
    let days = usage::by_day(&hours);
    Ok(with_changes(with_changes(call, hours), days))
}

fn with_changes(call: Call<'_>, changes: BTreeMap<CounterKey, i64>) -> Call<'_> {
    let (keys, by): (Vec<CounterKey>, Vec<i64>) = changes.into_iter().unzip();
    call.with(keys.iter().map(|key| key.project.0).collect::<Vec<_>>())
        .with(keys.iter().map(|key| key.hour.clone()).collect::<Vec<_>>())
        .with(keys.iter().map(|key| key.product).collect::<Vec<_>>())
        .with(keys.iter().map(|key| key.status).collect::<Vec<_>>())
        .with(keys.iter().map(|key| key.matched).collect::<Vec<_>>())
        .with(keys.into_iter().map(|key| key.network).collect::<Vec<_>>())
        .with(by)
}
