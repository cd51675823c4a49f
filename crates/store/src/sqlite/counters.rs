//! The counters of a batch: each is changed once, however many have counted.

use ringtrue_engine::ports::{StoreError, UsageCount};
use rusqlite::Connection;

use super::connection::execute;
use crate::{
    driver::values,
    verbs::usage::{self, change_sql},
};

/// Writes what a batch has counted. Which counters that changes is found here: most counts are alike.
pub(super) fn write(counts: &[UsageCount], connection: &Connection) -> Result<(), StoreError> {
    let hours = usage::merged(counts)?;
    let days = usage::by_day(&hours);
    for (sql, changes) in [
        (change_sql!("usage_counters", "hour", "values ($1, $2, $3, $4, $5, $6, $7, 0)"), hours),
        (change_sql!("usage_days", "day", "values ($1, $2, $3, $4, $5, $6, $7, 0)"), days),
    ] {
        for (key, change) in changes {
            let matched = i64::from(key.matched);
            let values = values![key.project, key.hour, key.product, key.status, matched, key.network, change];
            execute(connection, sql, values)?;
        }
    }
    Ok(())
}
