//! The transaction in which the writer runs a batch of write ops.

use std::ptr;

use ringtrue_engine::ports::{activity::UsageDelta, store::StoreError};
use rusqlite::{CachedStatement, Connection, Statement, params_from_iter};

use super::{
    concluded_check_rows::ConcludedCheckRows,
    connection::{collect_rows, execute, store_error},
};
use crate::{
    driver::TransactionEnd,
    operation::{InsertCheck, Operation},
    queries::usage,
    row::{Row, Value},
};

/// A frequent write of the data plane.
///
/// The write ops of a batch run without savepoints. An op that rolls back should do so before its first write:
/// otherwise the whole batch is repeated with a savepoint for each op.
pub(super) trait WriteOp: Operation {
    /// Whether the caller gets the result only after the fsync. `false` suits an intermediate step whose result does
    /// not leave the process: a later write can become durable only together with this one.
    fn waits_for_sync(&self) -> bool {
        true
    }

    /// Runs the op. Called again if the batch is rolled back.
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<Self::Output>, StoreError>;
}

/// The transaction of a batch of write ops. The ops share prepared statements. Inserts of concluded checks and updates
/// of counters are deferred, and written together at the end.
pub(super) struct BatchTransaction<'c> {
    connection: &'c Connection,
    statements: Vec<(&'static str, CachedStatement<'c>)>,
    concluded: ConcludedCheckRows,
    counts: Vec<UsageDelta>,
}

/// A position in the deferred writes. If an op is undone, the writes that were deferred after this position are
/// dropped.
#[derive(Clone, Copy)]
pub(super) struct DeferredMark {
    concluded: usize,
    counts: usize,
}

impl<'c> BatchTransaction<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        BatchTransaction {
            connection,
            statements: Vec::new(),
            concluded: ConcludedCheckRows::default(),
            counts: Vec::new(),
        }
    }

    pub(super) fn deferred_mark(&self) -> DeferredMark {
        DeferredMark { concluded: self.concluded.len(), counts: self.counts.len() }
    }

    pub(super) fn discard_deferred_since(&mut self, mark: DeferredMark) {
        self.concluded.truncate(mark.concluded);
        self.counts.truncate(mark.counts);
    }

    pub(super) fn write_deferred(self) -> Result<(), StoreError> {
        self.concluded.write(self.connection)?;
        for (sql, values) in usage::upsert_counters(&self.counts)? {
            execute(self.connection, sql, &values)?;
        }
        Ok(())
    }

    /// Runs a statement and returns the number of changed rows. Cheaper than `returning`, for which `SQLite` builds a
    /// temporary table.
    pub(super) fn execute(&mut self, sql: &'static str, values: &[Value]) -> Result<usize, StoreError> {
        let changed = self.statement(sql).and_then(|statement| statement.execute(params_from_iter(values)));
        changed.map_err(|error| store_error(&error))
    }

    pub(super) fn query(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let found = self.statement(sql).and_then(|statement| collect_rows(statement, values));
        found.map_err(|error| store_error(&error))
    }

    pub(super) fn query_first(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    pub(super) fn defer_insert(&mut self, new: &InsertCheck) {
        self.concluded.add(new);
    }

    pub(super) fn defer_counts(&mut self, counts: impl IntoIterator<Item = UsageDelta>) {
        self.counts.extend(counts);
    }

    fn statement(&mut self, sql: &'static str) -> rusqlite::Result<&mut Statement<'c>> {
        // Compares addresses, because comparing the texts would cost more than some statements.
        let known = self.statements.iter().position(|(known, _)| ptr::eq(*known, sql));
        let index = known.unwrap_or(self.statements.len());
        if known.is_none() {
            self.statements.push((sql, self.connection.prepare_cached(sql)?));
        }
        Ok(&mut self.statements[index].1)
    }
}
