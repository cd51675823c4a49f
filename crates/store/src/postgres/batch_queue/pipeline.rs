//! Pipelined transactions for batches, their statements, and helpers that several operations share.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use ringtrue_domain::lifecycle::{CheckId, ShardBucket};
use ringtrue_engine::ports::activity::UsageDelta;
use tokio_postgres::{Client, Row as PostgresRow, Statement, types::ToSql};
use uuid::Uuid;

use super::{
    super::{
        pipelining::await_in_order,
        placement::{LOCAL_GROUP, LOCK_SHARDS, Placement, TEST_SHARDS, with_tables},
        value_mapping::to_row,
    },
    error::BatchError,
};
use crate::{
    queries::usage::{self, CounterKey, upsert_counters_sql},
    row::Row,
};

/// A constant SQL text and its parameters. Most parameters are arrays with a value for each operation. In the text,
/// `{checks}` stands for the table `checks` or the shard of it that the statement is for.
pub struct BatchStatement<'a> {
    sql: &'static str,
    /// Index of the shard in the placement. `None`: the tables have their own names.
    shard: Option<u16>,
    parameters: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

impl<'a> BatchStatement<'a> {
    pub fn new(sql: &'static str) -> Self {
        BatchStatement { sql, shard: None, parameters: Vec::new() }
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

/// How a transaction names the tables.
#[derive(Clone)]
pub(super) enum TableNaming {
    /// By their own names: the only server has them, or Citus finds the rows.
    Unsharded,
    /// By the names of their shards, which are all on the session's server.
    Shards(Arc<Placement>),
}

/// Begins a transaction in a session that uses generic plans. Citus needs the values of parameters.
const BEGIN_FOR_CITUS: &str = "begin; set local plan_cache_mode = force_custom_plan";

/// The transaction of a batch. The statements of one call are sent together, without waiting for the result of each.
pub struct PipelinedTransaction<'a> {
    session: &'a mut BatchSession,
    table_naming: TableNaming,
    /// Ids of the shards of this server that the transaction uses. Empty if Citus finds all rows, or there is no Citus.
    shards: Vec<i64>,
    counter_bucket: Option<ShardBucket>,
    is_open: bool,
}

impl<'a> PipelinedTransaction<'a> {
    /// `shards` are the ids of the shards of this server that the transaction uses. It locks them, and fails if the
    /// server does not have them.
    pub(super) fn new(
        session: &'a mut BatchSession,
        table_naming: TableNaming,
        mut shards: Vec<i64>,
        counter_bucket: Option<ShardBucket>,
    ) -> Self {
        shards.sort_unstable();
        shards.dedup();
        PipelinedTransaction { session, table_naming, shards, counter_bucket, is_open: false }
    }

    /// Whether the transaction has run statements that are not committed.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the counters that this transaction updates.
    pub fn counters(&self) -> Counters<'_> {
        Counters {
            slot: self.session.slot,
            bucket: self.counter_bucket,
            table_naming: &self.table_naming,
            needs_single_rows: self.session.is_distributed && matches!(self.table_naming, TableNaming::Unsharded),
        }
    }

    /// Groups rows by the shard of their bucket, and returns a statement for each group. Without shards, there is one
    /// group, unless there are no rows.
    pub fn statements_by_shard<'s, R>(
        &self,
        rows: impl IntoIterator<Item = R>,
        bucket: impl Fn(&R) -> ShardBucket,
        statement: impl Fn(&[R]) -> BatchStatement<'s>,
    ) -> Vec<BatchStatement<'s>> {
        let mut groups = BTreeMap::<Option<u16>, Vec<R>>::new();
        match &self.table_naming {
            TableNaming::Unsharded => {
                let rows: Vec<R> = rows.into_iter().collect();
                if !rows.is_empty() {
                    groups.insert(None, rows);
                }
            }
            TableNaming::Shards(placement) => {
                for row in rows {
                    groups.entry(placement.shard_index(bucket(&row))).or_default().push(row);
                }
            }
        }
        groups.into_iter().map(|(shard, rows)| BatchStatement { shard, ..statement(&rows) }).collect()
    }

    /// Runs each statement in its own transaction. If Citus needs custom plans, the statements share one transaction.
    /// Returns the rows of each statement.
    pub async fn run_autocommitted(
        &mut self,
        calls: &[BatchStatement<'_>],
    ) -> Result<Vec<Vec<PostgresRow>>, BatchError> {
        if self.needs_custom_plans() {
            return self.send(Some(BEGIN_FOR_CITUS), calls, Some("commit")).await;
        }
        self.send(None, calls, None).await
    }

    /// Runs statements in the transaction, which begins with the first call. Returns the rows of each statement.
    pub async fn run(&mut self, calls: &[BatchStatement<'_>]) -> Result<Vec<Vec<PostgresRow>>, BatchError> {
        let begin = self.begin_statement();
        self.send(begin, calls, None).await
    }

    /// Runs the last statements and commits. Another transaction may follow only if this one has written nothing,
    /// because a conflict repeats the whole batch.
    pub async fn commit(&mut self, calls: &[BatchStatement<'_>]) -> Result<Vec<Vec<PostgresRow>>, BatchError> {
        let begin = self.begin_statement();
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

    /// Returns the statement that begins the transaction, and notes that it is open. `None`: it was open before.
    fn begin_statement(&mut self) -> Option<&'static str> {
        if self.is_open {
            return None;
        }
        self.is_open = true;
        Some(if self.needs_custom_plans() { BEGIN_FOR_CITUS } else { "begin" })
    }

    /// Whether Citus plans the statements, in a session for statements on shards.
    fn needs_custom_plans(&self) -> bool {
        matches!(self.table_naming, TableNaming::Unsharded)
            && self.session.is_distributed
            && !self.session.has_custom_plans
    }

    /// Sends the statements of one round trip. Statements on shards come after the lock and the test of the shards, if
    /// they write; reads come before the test.
    async fn send(
        &mut self,
        first: Option<&'static str>,
        calls: &[BatchStatement<'_>],
        last: Option<&'static str>,
    ) -> Result<Vec<Vec<PostgresRow>>, BatchError> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if !self.shards.is_empty() {
            let test = BatchStatement::new(TEST_SHARDS).with(self.shards.clone()).with(self.session.group);
            match (first, last) {
                (Some(_), _) => before = vec![BatchStatement::new(LOCK_SHARDS).with(self.shards.clone()), test],
                (None, None) if !self.is_open => after = vec![test],
                (None, _) => {}
            }
        }
        let all: Vec<&BatchStatement<'_>> = before.iter().chain(calls).chain(&after).collect();
        let mut statements = Vec::with_capacity(all.len());
        for call in &all {
            statements.push(self.session.prepare(call, &self.table_naming).await?);
        }
        let client = &self.session.client;
        let command = |sql: &'static str| async move { client.batch_execute(sql).await.map(|()| Vec::new()) }.boxed();
        let query = |(call, statement)| query(client, call, statement).boxed();
        let sent: Vec<BoxFuture<'_, Result<Vec<PostgresRow>, tokio_postgres::Error>>> = first
            .map(command)
            .into_iter()
            .chain(all.iter().copied().zip(statements).map(query))
            .chain(last.map(command))
            .collect();
        let skipped = usize::from(first.is_some()) + before.len();
        let results = await_in_order(sent).await?;
        Ok(results.into_iter().skip(skipped).take(calls.len()).collect())
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

/// A connection for batches, with its prepared statements.
pub struct BatchSession {
    pub client: Client,
    /// Number of the counter rows that this connection updates: see [`Counters`].
    pub slot: i16,
    /// The number by which Citus knows the server.
    group: i32,
    /// Whether Citus has distributed tables.
    is_distributed: bool,
    /// Whether plans are made with the values of parameters.
    pub has_custom_plans: bool,
    /// By SQL text and shard: 0 for statements on the tables themselves.
    statements: HashMap<(&'static str, i64), PreparedStatement>,
}

struct PreparedStatement {
    statement: Statement,
    uses: u32,
}

impl BatchSession {
    /// `is_for_shards`: most statements will be on shards of distributed tables.
    pub async fn start(
        client: Client,
        slot: i16,
        is_distributed: bool,
        is_for_shards: bool,
    ) -> Result<Self, tokio_postgres::Error> {
        // Citus can plan a distributed statement only with the values of its parameters, so it needs custom plans.
        let has_custom_plans = is_distributed && !is_for_shards;
        let plans = if has_custom_plans { "force_custom_plan" } else { "force_generic_plan" };
        client.batch_execute(&format!("set plan_cache_mode = {plans}")).await?;
        let group = if is_distributed { client.query_one(LOCAL_GROUP, &[]).await?.try_get(0)? } else { 0 };
        Ok(BatchSession { client, slot, group, is_distributed, has_custom_plans, statements: HashMap::new() })
    }

    async fn prepare(
        &mut self,
        call: &BatchStatement<'_>,
        table_naming: &TableNaming,
    ) -> Result<Statement, tokio_postgres::Error> {
        let shard = match table_naming {
            TableNaming::Unsharded => None,
            TableNaming::Shards(placement) => call.shard.map(|index| placement.shard(index)),
        };
        let key = (call.sql, shard.map_or(0, |shard| shard.id));
        let mut uses = 1;
        if let Some(known) = self.statements.get_mut(&key) {
            known.uses = known.uses.saturating_add(1);
            if !is_replan_due(known.uses) {
                return Ok(known.statement.clone());
            }
            uses = known.uses;
        }
        let statement = self.client.prepare(&with_tables(call.sql, shard)).await?;
        self.statements.insert(key, PreparedStatement { statement: statement.clone(), uses });
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
    ($shard:literal, $table:literal, $period:literal) => {
        CounterStatements {
            of_many: upsert_counters_sql!(
                $shard,
                $period,
                ", bucket",
                "select *, $10::smallint
                   from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[], $7::text[],
                               $8::bigint[], $9::smallint[])"
            ),
            of_one: upsert_counters_sql!($table, $period, ", bucket", "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
        }
    };
}

const UPDATE_COUNTERS: [CounterStatements; 2] = [
    update_counters_sql!("{usage_counters}", "usage_counters", "hour"),
    update_counters_sql!("{usage_days}", "usage_days", "day"),
];

/// Up to this number of counters, Citus gets a statement for each counter. Such a statement takes a sixth of the time
/// of a statement with arrays. It is forwarded to one worker as it is, whereas the rows of arrays are first sent to the
/// workers as intermediate results.
const MAX_SINGLE_COUNTERS: usize = 6;

struct CounterStatements {
    of_many: &'static str,
    of_one: &'static str,
}

/// Identifies the counter rows that a transaction updates. Each connection has its own rows, so that connections do not
/// wait for each other's locks. Each server of a cluster has its own rows too, in one of its buckets.
#[derive(Clone, Copy)]
pub struct Counters<'t> {
    slot: i16,
    /// `None`: the project determines the bucket.
    bucket: Option<ShardBucket>,
    table_naming: &'t TableNaming,
    needs_single_rows: bool,
}

/// Returns the statements that update the hourly and the daily counters.
pub fn update_counters<'a>(
    counts: impl IntoIterator<Item = &'a UsageDelta>,
    counters: Counters<'_>,
) -> Result<Vec<BatchStatement<'static>>, BatchError> {
    let hours = usage::merge_counts(counts).map_err(BatchError::Rows)?;
    let days = usage::roll_up_to_days(&hours);
    let shard = match counters.table_naming {
        TableNaming::Unsharded => None,
        TableNaming::Shards(placement) => counters.bucket.and_then(|bucket| placement.shard_index(bucket)),
    };
    let mut statements = Vec::new();
    for (CounterStatements { of_many, of_one }, changes) in UPDATE_COUNTERS.into_iter().zip([hours, days]) {
        if counters.needs_single_rows && changes.len() <= MAX_SINGLE_COUNTERS {
            statements.extend(changes.into_iter().map(|change| update_counter(of_one, change, counters)));
        } else if !changes.is_empty() {
            statements.push(BatchStatement { shard, ..update_counter_table(of_many, changes, counters) });
        }
    }
    Ok(statements)
}

impl Counters<'_> {
    fn bucket_of(self, key: &CounterKey) -> i16 {
        self.bucket.unwrap_or_else(|| usage::project_bucket(key.project)).number()
    }
}

fn update_counter(
    sql: &'static str,
    (key, change): (CounterKey, i64),
    counters: Counters<'_>,
) -> BatchStatement<'static> {
    let bucket = counters.bucket_of(&key);
    let CounterKey { project, hour, product, status, matched, network, via } = key;
    BatchStatement::new(sql)
        .with(project.0)
        .with(hour)
        .with(product)
        .with(status)
        .with(matched)
        .with(network)
        .with(via)
        .with(change)
        .with(bucket)
        .with(counters.slot)
}

fn update_counter_table(
    sql: &'static str,
    changes: BTreeMap<CounterKey, i64>,
    counters: Counters<'_>,
) -> BatchStatement<'static> {
    let (keys, changes): (Vec<CounterKey>, Vec<i64>) = changes.into_iter().unzip();
    BatchStatement::new(sql)
        .column(&keys, |key| key.project.0)
        .column(&keys, |key| key.hour.clone())
        .column(&keys, |key| key.product)
        .column(&keys, |key| key.status)
        .column(&keys, |key| key.matched)
        .column(&keys, |key| key.network.clone())
        .column(&keys, |key| key.via)
        .with(changes)
        .column(&keys, |key| counters.bucket_of(key))
        .with(counters.slot)
}
