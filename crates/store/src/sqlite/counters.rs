//! The counters of a batch: each is changed once, however many have counted.

use std::collections::BTreeMap;

use ringtrue_engine::ports::{StoreError, UsageCount};
use rusqlite::Connection;

use super::connection::execute;
use crate::{
    driver::values,
    verbs::usage::{self, CounterKey, change_sql},
};

#[derive(Debug, Default)]
pub(super) struct Counters(BTreeMap<CounterKey, i64>);

impl Counters {
    /// Adds all of them, or none if one would overflow.
    pub(super) fn add(&mut self, counts: &[UsageCount]) -> Result<(), StoreError> {
        let changes = usage::merged(counts)?;
        let sum = |key: &CounterKey, change: i64| self.0.get(key).copied().unwrap_or_default().checked_add(change);
        if changes.iter().any(|(key, change)| sum(key, *change).is_none()) {
            return Err(usage::overflow());
        }
        for (key, change) in changes {
            *self.0.entry(key).or_default() += change;
        }
        Ok(())
    }

    pub(super) fn write(mut self, connection: &Connection) -> Result<(), StoreError> {
        self.0.retain(|_, change| *change != 0);
        let days = usage::by_day(&self.0);
        for (sql, changes) in [
            (change_sql!("usage_counters", "hour", "values ($1, $2, $3, $4, $5, $6, $7, 0)"), self.0),
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
