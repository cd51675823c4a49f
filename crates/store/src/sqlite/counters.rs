//! The counters of a batch: each is changed once, however many have counted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ringtrue_engine::ports::{StoreError, UsageCount};
use rusqlite::Connection;

use super::connection::execute;
use crate::{
    driver::values,
    verbs::usage::{self, change_sql},
};

/// How much each has changed. A counter is named by a count without a change, at the beginning of its hour: its key as it
/// is written is made once for a batch.
#[derive(Debug, Default)]
pub(super) struct Counters(BTreeMap<UsageCount, i64>);

impl Counters {
    /// Adds all of them, or none if one would overflow.
    pub(super) fn add(&mut self, counts: &[UsageCount]) -> Result<(), StoreError> {
        for (added, count) in counts.iter().enumerate() {
            let sum = self.0.entry(counter(count)).or_default();
            if let Some(changed) = sum.checked_add(count.change) {
                *sum = changed;
                continue;
            }
            for count in &counts[..added] {
                let sum = self.0.entry(counter(count)).or_default();
                *sum = sum.wrapping_sub(count.change);
            }
            return Err(usage::overflow());
        }
        Ok(())
    }

    pub(super) fn write(self, connection: &Connection) -> Result<(), StoreError> {
        let counts: Vec<_> = self.0.into_iter().map(|(counter, change)| UsageCount { change, ..counter }).collect();
        let hours = usage::merged(&counts)?;
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
}

fn counter(count: &UsageCount) -> UsageCount {
    let hour = count.at.as_second().div_euclid(3_600) * 3_600;
    UsageCount { at: Timestamp::from_second(hour).unwrap_or(count.at), change: 0, ..count.clone() }
}
