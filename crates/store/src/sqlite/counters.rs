//! The counters of a batch: each is changed once, however many have counted.

use ringtrue_engine::ports::{StoreError, UsageCount};
use rusqlite::Connection;

use super::connection::execute;
use crate::{
    driver::values,
    verbs::usage::{self, change_sql},
};

/// What a batch has counted. Which counters that changes is found when they are written: most counts are alike.
#[derive(Debug, Default)]
pub(super) struct Counters(Vec<UsageCount>);

impl Counters {
    pub(super) fn add(&mut self, counts: &mut Vec<UsageCount>) {
        self.0.append(counts);
    }

    pub(super) fn write(self, connection: &Connection) -> Result<(), StoreError> {
        let hours = usage::merged(&self.0)?;
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
