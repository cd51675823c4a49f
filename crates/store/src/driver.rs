//! The interface between the queries and a database.
//!
//! Most queries are written once, against [`Tx`], with SQL that works in both databases. The parameters of a statement
//! (`$1`, `$2`) are numbered in the order of their first use. Frequent operations run in batches, which each database
//! implements in its own way: see [`operation`](crate::operation).
//!
//! Statements return only rows. A query that needs the number of changed rows uses `returning`.

use std::{borrow::Cow, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use ringtrue_domain::lifecycle::ShardBucket;
use ringtrue_engine::ports::{
    callbacks::AttemptSettlement,
    idempotency::IdempotencyClaim,
    search_limit::SearchPermit,
    store::{Completeness, StoreError},
};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{
    list_turns::ListTurn,
    migration::Migration,
    operation::{ConcludeCheck, FindCheck, InsertCheck, RedirectOperation, Run, SignInOperation},
    row::{Row, Value},
};

#[derive(Debug)]
pub(crate) enum Sql {
    /// A text from a limited set, which is used repeatedly. Each connection keeps the prepared statement.
    Cached(Cow<'static, str>),
    /// A text that was composed for one call, such as from a filter. The connection discards the prepared statement.
    Composed(String),
}

impl Sql {
    /// A text that was composed of constant parts.
    pub(crate) fn cached(sql: String) -> Self {
        Sql::Cached(sql.into())
    }
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

/// An open transaction in either database.
pub(crate) trait Tx: Send {
    fn query<'a>(&'a mut self, sql: Sql, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// Runs statements that do not depend on each other's results, and that return no rows.
    fn run_all<'a>(
        &'a mut self,
        statements: &'a [(&'static str, Vec<Value>)],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            for (sql, values) in statements {
                self.query((*sql).into(), values).await?;
            }
            Ok(())
        })
    }

    /// Returns the bucket in which this server of a cluster counts usage. `None`: the project determines the bucket.
    fn counter_bucket(&self) -> Option<ShardBucket> {
        None
    }

    /// Distinguishes the counter rows of concurrent transactions, so that they do not wait for each other.
    fn counter_slot(&self) -> i16 {
        0
    }
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

    /// Runs a constant statement and returns whether it has a result row.
    pub(crate) async fn exists(&mut self, sql: &'static str, values: &[Value]) -> Result<bool, StoreError> {
        Ok(!self.run(sql, values).await?.is_empty())
    }

    /// Runs a statement and returns the number in its first row, or 0 if there is no row.
    pub(crate) async fn number(&mut self, sql: impl Into<Sql>, values: &[Value]) -> Result<i64, StoreError> {
        self.query(sql.into(), values).await?.into_iter().next().map_or(Ok(0), Row::into_int)
    }
}

/// How a transaction without an error ends, and the value that it returns.
#[derive(Debug)]
pub(crate) enum TransactionEnd<T> {
    Commit(T),
    /// Discards the writes, but still returns the value.
    Rollback(T),
}

/// A closure that runs the statements of a transaction.
pub(crate) trait Work<T>:
    for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static
{
}

impl<T, W> Work<T> for W where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static
{
}

/// Turns `|tx| { statements }` into a closure that implements [`Work`]. The closure returns a boxed future, because a
/// trait bound cannot require that the future of an `async` closure is `Send`.
macro_rules! work {
    (|$($parameter:pat_param),+| $statements:expr) => {
        move |$($parameter),+| Box::pin(async move { $statements })
    };
}
pub(crate) use work;

/// A database that runs transactions and batched operations.
pub(crate) trait Database:
    Run<InsertCheck>
    + Run<ConcludeCheck>
    + Run<FindCheck>
    + Run<RedirectOperation>
    + Run<SignInOperation>
    + Run<AttemptSettlement>
    + Run<IdempotencyClaim>
{
    const MIGRATIONS: &'static [Migration];

    /// Increments the control-plane version and returns it. The row of the version stays locked until the commit. In
    /// `PostgreSQL`, the commit also notifies the nodes that listen for changes.
    const INCREMENT_VERSION_SQL: &'static str;

    /// The SQL expression that aggregates rows to the smallest `id`. `PostgreSQL` has no `min` for UUIDs.
    const MIN_ID_SQL: &'static str;

    /// Creates the missing monthly partitions between two times, and returns their number. `None`: the database does
    /// not partition its tables.
    const CREATE_PARTITIONS_SQL: Option<&'static str>;

    /// Drops the partitions of the months before a given time, except months with an open check or a waiting callback.
    /// `None`: the database does not partition its tables.
    const DROP_PARTITIONS_SQL: Option<&'static str>;

    /// Deletes the recorded creation times of a phone number's checks. The store uses these times to limit how many
    /// checks are created for the number. `None`: the database counts rows of `checks` instead.
    const DELETE_NUMBER_LIMITS_SQL: Option<&'static str>;

    /// Deletes recorded creation times that are too old to count towards the limit of checks for a phone number.
    /// `None`: the database records no creation times.
    const DELETE_EXPIRED_NUMBER_LIMITS_SQL: Option<&'static str>;

    /// Whether `checks` and the tables that belong to it have the column `bucket`, by which Citus distributes rows.
    const HAS_BUCKETS: bool;

    /// Returns an additional SQL condition for joins by check id: equal buckets, so that Citus joins rows within one
    /// shard. Empty if the database has no buckets.
    fn same_bucket_condition(left: &str, right: &str) -> String;

    /// Returns a condition that a column is none of these ids, and adds its parameters to `values`.
    fn none_of_condition(column: &str, ids: &[Uuid], values: &mut Vec<Value>) -> String {
        let placeholders: Vec<_> = (values.len() + 1..).take(ids.len()).map(|number| format!("${number}")).collect();
        values.extend(ids.iter().map(|id| Value::Uuid(*id)));
        format!("{column} not in ({})", placeholders.join(", "))
    }

    /// Reads the latest time that a node has recorded, and the clock of the database server, in milliseconds since
    /// 1970. The clock is null for `SQLite`, which has no server.
    const READ_TIME_SQL: &'static str;

    /// Reads a text that identifies this copy of the database, so that a restored or copied database is detected.
    /// `None`: the database has no such text.
    const READ_IDENTITY_SQL: Option<&'static str>;

    /// Runs `work` as one transaction. Returns when its commit is durable.
    fn transact<T: Send + 'static>(
        &self,
        work: impl Work<TransactionEnd<T>>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `work` against one snapshot, without writes.
    fn read<T: Send + 'static>(&self, work: impl Work<T>) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Returns the first row of a statement that reads a recently written row by its key. The row may not be durable
    /// yet, so this is only for callers that write next, and report nothing before that write is durable.
    fn look_up<const N: usize>(
        &self,
        sql: &'static str,
        values: [Value; N],
    ) -> impl Future<Output = Result<Option<Row>, StoreError>> + Send;

    /// As [`transact`](Database::transact), on the server of a cluster that has the rows of `bucket`.
    fn transact_at_bucket<T: Send + 'static>(
        &self,
        _bucket: ShardBucket,
        work: impl Work<TransactionEnd<T>>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        self.transact(work)
    }

    /// As [`read`](Database::read), on the server of a cluster that has the rows of `bucket`.
    fn read_at_bucket<T: Send + 'static>(
        &self,
        _bucket: ShardBucket,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        self.read(work)
    }

    /// Runs a statement on all shards, at once on all servers of a cluster, and returns the rows of all. The statement
    /// encloses names of tables with buckets in braces. `completeness` says what to do if a server does not respond.
    fn read_shards(
        &self,
        sql: String,
        values: Vec<Value>,
        _completeness: Completeness,
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send {
        let sql = sql.replace(['{', '}'], "");
        self.read(work!(|tx| tx.query(sql.into(), &values).await))
    }

    /// Whether one server has all rows, so that one statement may select and lock rows of all buckets.
    fn has_one_server(&self) -> bool {
        true
    }

    /// Returns a number for the server of a cluster that has the rows of `bucket`. A transaction on rows of one server is
    /// faster than one on several.
    fn server_index(&self, _bucket: ShardBucket) -> usize {
        0
    }

    /// As [`transact`](Database::transact), on capacity reserved for the node itself. Heartbeats use it: other nodes
    /// consider a node dead if its heartbeats are late, so requests of tenants must not delay them.
    fn transact_reserved<T: Send + 'static>(
        &self,
        work: impl Work<TransactionEnd<T>>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`read`](Database::read), on capacity reserved for the node itself. The node reads token revocations with it,
    /// so that requests of tenants do not delay these reads.
    fn read_reserved<T: Send + 'static>(
        &self,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`read`](Database::read), on connections or threads for lists, and within the search timeout. Holds `turn`,
    /// the right of a workspace to read one list, until the statements have ended, even if the future is dropped
    /// earlier.
    fn read_for_list<T: Send + 'static>(
        &self,
        turn: ListTurn,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`read_for_list`](Database::read_for_list), on connections or threads for searches. Holds `permit` until the
    /// statements have ended, even if the future is dropped earlier.
    fn search<T: Send + 'static>(
        &self,
        permit: SearchPermit,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Returns the clause to append to a `select` that locks its rows and skips rows locked by other transactions.
    /// Empty if the database does not support this.
    fn skip_locked_sql(&self) -> &'static str;

    /// Copies the pages of a bulk write from the write-ahead log to the database file. Otherwise a later write would
    /// have to wait for the copying. Only `SQLite` needs this: a database server copies in the background.
    fn checkpoint(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Fails if the disk of the database is full. On a full disk, a small transaction may still succeed, because the
    /// log file has unused space.
    fn probe_disk(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    fn change_notification(&self) -> &Arc<Notify>;

    /// Notifies this node's listeners of a control-plane change that this node has committed.
    fn notify_change(&self);
}
