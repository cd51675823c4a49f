//! Pipelined transactions for batches, their statements, and helpers that several operations share.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    task::Poll,
};

use futures_util::{FutureExt, future::BoxFuture};
use ringtrue_domain::lifecycle::CheckId;
use ringtrue_engine::ports::activity::UsageDelta;
use tokio_postgres::{Client, Row as PostgresRow, Statement, types::ToSql};
use uuid::Uuid;

use super::{super::transaction::to_row, BatchError};
use crate::{
    queries::usage::{self, CounterKey, upsert_counters_sql},
    row::Row,
};

/// A constant SQL text and its parameters. Most parameters are arrays with a value for each operation.
pub struct BatchStatement<'a> {
    sql: &'static str,
    parameters: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

impl<'a> BatchStatement<'a> {
    pub fn new(sql: &'static str) -> Self {
        BatchStatement { sql, parameters: Vec::new() }
    }

    /// Adds the next parameter.
    pub fn with(mut self, parameter: impl ToSql + Sync + Send + 'a) -> Self {
        self.parameters.push(Box::new(parameter));
        self
    }

    /// Adds the next parameter: an array with one value for each row.
    pub fn column<R, T>(self, rows: impl IntoIterator<Item = R>, value: impl Fn(R) -> T) -> Self
    where
        T: ToSql + Sync + Send + 'a,
    {
        self.with(rows.into_iter().map(value).collect::<Vec<T>>())
    }

    /// Adds an array of check ids and an array of their buckets, for a statement that joins a table with `unnest`. The
    /// buckets determine the shards, and each id determines its partition.
    ///
    /// Does not add a range of ids: the planner would expect few rows in the range, read all of them, and compare each
    /// row with every id.
    pub fn keys(self, ids: impl IntoIterator<Item = CheckId>) -> Self {
        let ids: Vec<CheckId> = ids.into_iter().collect();
        self.column(&ids, |id| id.0).column(&ids, |id| id.bucket().number())
    }

    /// Adds the parameters of [`keys`](Self::keys), the first id and the last id, for a statement with `id = any(...)`.
    /// Such a condition does not restrict the partitions, but the range of ids does. `ids` must be sorted.
    pub fn keys_and_range(self, ids: &[CheckId]) -> Self {
        let (first, last) = (ids.first().map(|id| id.0), ids.last().map(|id| id.0));
        self.keys(ids.iter().copied()).with(first).with(last)
    }
}

/// The transaction of a batch. The statements of one call are sent together, without waiting for the result of each.
pub struct PipelinedTransaction<'a> {
    session: &'a mut BatchSession,
    is_open: bool,
}

impl<'a> PipelinedTransaction<'a> {
    pub(super) fn new(session: &'a mut BatchSession) -> Self {
        PipelinedTransaction { session, is_open: false }
    }

    /// Whether the transaction has run statements that are not committed.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the counter slot of this connection.
    pub fn slot(&self) -> CounterSlot {
        CounterSlot { number: self.session.slot, is_distributed: self.session.is_distributed }
    }

    /// Runs each statement in its own transaction. Returns the rows of each statement.
    pub async fn run_single(&mut self, calls: &[BatchStatement<'_>]) -> Result<Vec<Vec<PostgresRow>>, BatchError> {
        self.send(None, calls, None).await
    }

    /// Runs statements in the transaction, which begins with the first call. Returns the rows of each statement.
    pub async fn run(&mut self, calls: &[BatchStatement<'_>]) -> Result<Vec<Vec<PostgresRow>>, BatchError> {
        let begin = if self.is_open { None } else { Some("begin") };
        self.is_open = true;
        self.send(begin, calls, None).await
    }

    /// Runs the last statements and commits. Another transaction may follow only if this one has written nothing,
    /// because a conflict repeats the whole batch.
    pub async fn commit(&mut self, calls: &[BatchStatement<'_>]) -> Result<Vec<Vec<PostgresRow>>, BatchError> {
        let begin = if self.is_open { None } else { Some("begin") };
        self.is_open = true;
        // After a failed statement, the server rolls back on `commit` without an error, but `send` returns the error of
        // the statement. If a statement cannot be sent, `commit` is not sent either.
        let rows = self.send(begin, calls, Some("commit")).await?;
        self.is_open = false;
        Ok(rows)
    }

    /// Rolls the transaction back. Another transaction may follow.
    pub async fn rollback(&mut self) -> Result<(), BatchError> {
        self.session.client.batch_execute("rollback").await?;
        self.is_open = false;
        Ok(())
    }

    async fn send(
        &mut self,
        first: Option<&'static str>,
        calls: &[BatchStatement<'_>],
        last: Option<&'static str>,
    ) -> Result<Vec<Vec<PostgresRow>>, BatchError> {
        let mut statements = Vec::with_capacity(calls.len());
        for call in calls {
            statements.push(self.session.prepare(call.sql).await?);
        }
        let client = &self.session.client;
        let command = |sql: &'static str| async move { client.batch_execute(sql).await.map(|()| Vec::new()) }.boxed();
        let query = |(call, statement)| query(client, call, statement).boxed();
        let sent: Vec<BoxFuture<'_, Result<Vec<PostgresRow>, tokio_postgres::Error>>> = first
            .map(command)
            .into_iter()
            .chain(calls.iter().zip(statements).map(query))
            .chain(last.map(command))
            .collect();
        let mut results = await_in_order(sent).await?;
        if first.is_some() {
            results.remove(0);
        }
        results.truncate(calls.len());
        Ok(results)
    }
}

async fn query(
    client: &Client,
    call: &BatchStatement<'_>,
    statement: Statement,
) -> Result<Vec<PostgresRow>, tokio_postgres::Error> {
    let parameters: Vec<&(dyn ToSql + Sync)> = call.parameters.iter().map(|parameter| &**parameter as _).collect();
    client.query(&statement, &parameters).await
}

/// Polls all futures once, in order, so that their requests are sent in this order. Then waits for the results, which
/// arrive in the same order.
///
/// A future that fails on its first poll has sent nothing, because a value did not fit its parameter. In this case the
/// later requests, including `commit`, are not sent, and the caller rolls back.
async fn await_in_order<T: Unpin, E: Unpin>(mut pending: Vec<BoxFuture<'_, Result<T, E>>>) -> Result<Vec<T>, E> {
    let mut results: Vec<Option<T>> = pending.iter().map(|_| None).collect();
    let (mut is_sent, mut finished) = (false, 0);
    poll_fn(|context| {
        if !is_sent {
            is_sent = true;
            for (future, result) in pending.iter_mut().zip(&mut results) {
                if let Poll::Ready(early) = future.poll_unpin(context)? {
                    *result = Some(early);
                }
            }
        }
        while finished < pending.len() {
            if results[finished].is_none() {
                match pending[finished].poll_unpin(context)? {
                    Poll::Ready(result) => results[finished] = Some(result),
                    Poll::Pending => return Poll::Pending,
                }
            }
            finished += 1;
        }
        Poll::Ready(Ok(results.drain(..).flatten().collect()))
    })
    .await
}

/// A connection for batches, with its prepared statements.
pub(super) struct BatchSession {
    pub(super) client: Client,
    /// Number of the counter rows that this connection updates: see [`CounterSlot`].
    slot: i16,
    is_distributed: bool,
    statements: HashMap<&'static str, PreparedStatement>,
}

struct PreparedStatement {
    statement: Statement,
    uses: u32,
}

impl BatchSession {
    pub(super) async fn start(client: Client, slot: i16, is_distributed: bool) -> Result<Self, tokio_postgres::Error> {
        // Citus can plan a distributed statement only with the values of its parameters, so it needs custom plans.
        let plans = if is_distributed { "force_custom_plan" } else { "force_generic_plan" };
        client.batch_execute(&format!("set plan_cache_mode = {plans}")).await?;
        Ok(BatchSession { client, slot, is_distributed, statements: HashMap::new() })
    }

    async fn prepare(&mut self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let mut uses = 1;
        if let Some(known) = self.statements.get_mut(sql) {
            known.uses = known.uses.saturating_add(1);
            if !is_replan_due(known.uses) {
                return Ok(known.statement.clone());
            }
            uses = known.uses;
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, PreparedStatement { statement: statement.clone(), uses });
        Ok(statement)
    }
}

/// Whether a statement is due to be prepared again: after 4, 16, 64, ... uses. The server keeps the first plan of a
/// prepared statement. A plan for a small table may use the wrong index, which becomes expensive when the table grows.
fn is_replan_due(uses: u32) -> bool {
    uses.is_power_of_two() && uses.trailing_zeros().is_multiple_of(2)
}

/// Maps the UUID in the first column of each row to the row.
pub fn rows_by_id(rows: &[PostgresRow]) -> Result<HashMap<Uuid, &PostgresRow>, BatchError> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row))).collect()
}

pub fn to_rows<'r>(rows: impl IntoIterator<Item = &'r PostgresRow>) -> Result<Vec<Row>, BatchError> {
    rows.into_iter().map(|row| to_row(row).map_err(BatchError::from)).collect()
}

macro_rules! update_counters_sql {
    ($table:literal, $period:literal) => {
        CounterStatements {
            of_many: upsert_counters_sql!(
                $table,
                $period,
                "select *, $8::smallint
                   from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[], $7::bigint[])"
            ),
            of_one: upsert_counters_sql!($table, $period, "values ($1, $2, $3, $4, $5, $6, $7, $8)"),
        }
    };
}

const UPDATE_COUNTERS: [CounterStatements; 2] =
    [update_counters_sql!("usage_counters", "hour"), update_counters_sql!("usage_days", "day")];

/// Up to this number of counters, Citus gets a statement for each counter. Such a statement takes a sixth of the time
/// of a statement with arrays. It is forwarded to one worker as it is, whereas the rows of arrays are first sent to the
/// workers as intermediate results.
const MAX_SINGLE_COUNTERS: usize = 6;

struct CounterStatements {
    of_many: &'static str,
    of_one: &'static str,
}

/// Identifies the counter rows that a connection updates. Each connection has its own rows, so that connections do not
/// wait for each other's locks.
#[derive(Clone, Copy)]
pub struct CounterSlot {
    number: i16,
    is_distributed: bool,
}

/// Returns the statements that update the hourly and the daily counters.
pub fn update_counters<'a>(
    counts: impl IntoIterator<Item = &'a UsageDelta>,
    slot: CounterSlot,
) -> Result<Vec<BatchStatement<'static>>, BatchError> {
    let hours = usage::merge_counts(counts).map_err(BatchError::Rows)?;
    let days = usage::roll_up_to_days(&hours);
    let mut statements = Vec::new();
    for (CounterStatements { of_many, of_one }, changes) in UPDATE_COUNTERS.into_iter().zip([hours, days]) {
        if slot.is_distributed && changes.len() <= MAX_SINGLE_COUNTERS {
            statements.extend(changes.into_iter().map(|change| update_counter(of_one, change, slot.number)));
        } else if !changes.is_empty() {
            statements.push(update_counter_table(of_many, changes, slot.number));
        }
    }
    Ok(statements)
}

fn update_counter(sql: &'static str, (key, change): (CounterKey, i64), slot: i16) -> BatchStatement<'static> {
    let CounterKey { project, hour, product, status, matched, network } = key;
    BatchStatement::new(sql)
        .with(project.0)
        .with(hour)
        .with(product)
        .with(status)
        .with(matched)
        .with(network)
        .with(change)
        .with(slot)
}

fn update_counter_table(sql: &'static str, changes: BTreeMap<CounterKey, i64>, slot: i16) -> BatchStatement<'static> {
    let (keys, changes): (Vec<CounterKey>, Vec<i64>) = changes.into_iter().unzip();
    BatchStatement::new(sql)
        .column(&keys, |key| key.project.0)
        .column(&keys, |key| key.hour.clone())
        .column(&keys, |key| key.product)
        .column(&keys, |key| key.status)
        .column(&keys, |key| key.matched)
        .column(&keys, |key| key.network.clone())
        .with(changes)
        .with(slot)
}
