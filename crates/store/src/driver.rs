//! The interface between the queries and a database.
//!
//! Most queries are written once, against [`Tx`]: one SQL text, with parameters numbered in the order of their first
//! use, that both databases understand, and one row mapping. Frequent operations are batched, and each database
//! implements them in its own way: see [`operation`](crate::operation).
//!
//! Statements return only rows. A query that needs the number of changed rows uses `returning`.

use std::{borrow::Cow, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use ringtrue_engine::ports::{
    callbacks::AttemptSettlement, idempotency::IdempotencyClaim, search_limit::SearchPermit, store::StoreError,
};
use tokio::sync::Notify;

use crate::{
    list_turns::ListTurn,
    migration::Migration,
    operation::{ConcludeCheck, FindCheck, InsertCheck, RedirectOperation, Run},
    row::{Row, Value},
};

#[derive(Debug)]
pub(crate) enum Sql {
    /// One of a few texts. Stays prepared.
    Cached(Cow<'static, str>),
    /// Composed for one call.
    Composed(String),
}

impl From<&'static str> for Sql {
    fn from(sql: &'static str) -> Self {
        Sql::Cached(sql.into())
    }
}

impl From<String> for Sql {
    fn from(sql: String) -> Self {
        Sql::Composed(sql)
    }
}

/// An open transaction.
pub(crate) trait Tx: Send {
    fn query<'a>(&'a mut self, sql: Sql, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;
}

impl dyn Tx + '_ {
    /// Runs a constant statement.
    pub(crate) async fn run(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.query(sql.into(), values).await
    }

    /// Runs a constant statement and returns its first row.
    pub(crate) async fn first(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.run(sql, values).await?.into_iter().next())
    }

    /// Runs a constant statement and tells whether it returned a row.
    pub(crate) async fn exists(&mut self, sql: &'static str, values: &[Value]) -> Result<bool, StoreError> {
        Ok(!self.run(sql, values).await?.is_empty())
    }

    /// Runs a statement that returns a number.
    pub(crate) async fn number(&mut self, sql: impl Into<Sql>, values: &[Value]) -> Result<i64, StoreError> {
        self.query(sql.into(), values).await?.into_iter().next().map_or(Ok(0), Row::into_int)
    }
}

/// The end of a transaction that did not fail, with its result.
#[derive(Debug)]
pub(crate) enum TransactionEnd<T> {
    Commit(T),
    /// Discards the writes, and still returns a result.
    Rollback(T),
}

/// The statements of a transaction.
pub(crate) trait Work<T>:
    for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static
{
}

impl<T, W> Work<T> for W where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static
{
}

/// Turns `|tx| { statements }` into [`Work`], whose futures must be boxed: a bound on closures cannot require that the
/// futures of an `async` closure are `Send`.
macro_rules! work {
    (|$($parameter:pat_param),+| $statements:expr) => {
        move |$($parameter),+| Box::pin(async move { $statements })
    };
}
pub(crate) use work;

/// Runs transactions and batched operations.
pub(crate) trait Database:
    Run<InsertCheck>
    + Run<ConcludeCheck>
    + Run<FindCheck>
    + Run<RedirectOperation>
    + Run<AttemptSettlement>
    + Run<IdempotencyClaim>
{
    const MIGRATIONS: &'static [Migration];

    /// Increments the control-plane version, locks its row, returns it, and notifies listening nodes with the commit.
    const INCREMENT_VERSION_SQL: &'static str;

    /// The aggregate for the smallest `id`.
    const MIN_ID_SQL: &'static str;

    /// Creates the missing partitions between two times, and returns their number. `None`: tables are not partitioned.
    const CREATE_PARTITIONS_SQL: Option<&'static str>;

    /// Drops the partitions of months before a time in which no check is open and no callback is waiting.
    const DROP_PARTITIONS_SQL: Option<&'static str>;

    /// Deletes the counted creation times of a number. `None`: the database counts checks.
    const DELETE_NUMBER_LIMITS_SQL: Option<&'static str>;

    /// Deletes the creation times that do not count any more.
    const DELETE_EXPIRED_NUMBER_LIMITS_SQL: Option<&'static str>;

    /// Whether tables of checks have the column `bucket`.
    const HAS_BUCKETS: bool;

    /// The condition that rows of two tables belong to the same check, besides equal ids. Empty if ids suffice.
    fn same_bucket(left: &str, right: &str) -> String;

    /// Reads the latest recorded time and the server's clock, in milliseconds since 1970. The clock is null for a
    /// database without a server.
    const READ_TIME_SQL: &'static str;

    /// Reads a text that differs between copies of a database. `None`: the database has none.
    const READ_IDENTITY_SQL: Option<&'static str>;

    /// Runs `work` as one transaction, and returns when it is durable.
    fn transact<T: Send + 'static>(
        &self,
        work: impl Work<TransactionEnd<T>>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `work` against one snapshot.
    fn read<T: Send + 'static>(&self, work: impl Work<T>) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`transact`](Database::transact), on capacity reserved for the node: tenants must not delay heartbeats, or
    /// the node counts as dead.
    fn transact_reserved<T: Send + 'static>(
        &self,
        work: impl Work<TransactionEnd<T>>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`read`](Database::read), on capacity reserved for the node: tenants must not delay revocations.
    fn read_reserved<T: Send + 'static>(
        &self,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`read`](Database::read), on connections for lists. Statements end at the search timeout. Holds the turn until
    /// they have ended, even if the future is dropped earlier.
    fn read_list<T: Send + 'static>(
        &self,
        turn: ListTurn,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`read_list`](Database::read_list), on connections for searches. Holds the permit until the statements have
    /// ended, even if the future is dropped earlier.
    fn search<T: Send + 'static>(
        &self,
        permit: SearchPermit,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Ends a select that locks its rows, and omits those that others have locked. Empty if the database does not
    /// support it.
    fn skip_locked_sql(&self) -> &'static str;

    /// Writes back what a bulk write has changed, so that no later write has to. Nothing waits for it. A database server
    /// does it by itself.
    fn checkpoint(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Fails if the disk of the database is full, as far as a small transaction does not tell: a file may have room for
    /// it.
    fn probe_disk(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    fn change_notification(&self) -> &Arc<Notify>;

    /// Notifies this node's listeners of a control-plane change that it has committed.
    fn notify_change(&self);
}
