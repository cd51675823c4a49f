//! Counter updates of a batch, merged so that each counter is written once.

use ringtrue_engine::ports::{StoreError, UsageDelta};
use rusqlite::Connection;

use super::connection::execute;
use crate::{
    driver::values,
    queries::usage::{self, upsert_counters_sql},
};

pub(super) fn write(counts: &[UsageDelta], connection: &Connection) -> Result<(), StoreError> {
    let hours = usage::merge_counts(counts)?;
    let days = usage::roll_up_to_days(&hours);
    for (sql, changes) in [
        (upsert_counters_sql!("usage_counters", "hour", "values ($1, $2, $3, $4, $5, $6, $7, 0)"), hours),
        (upsert_counters_sql!("usage_days", "day", "values ($1, $2, $3, $4, $5, $6, $7, 0)"), days),
    ] {
        for (key, change) in changes {
            let matched = i64::from(key.matched);
            let values = values![key.project, key.hour, key.product, key.status, matched, key.network, change];
            execute(connection, sql, values)?;
        }
    }
    Ok(())
}
