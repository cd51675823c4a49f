//! Implements [`Tx`] for `PostgreSQL`.

use std::time::{Duration, Instant};

use deadpool_postgres::Transaction;
use futures_util::{FutureExt, future::BoxFuture};
use ringtrue_domain::lifecycle::ShardBucket;
use ringtrue_engine::ports::store::StoreError;
use tokio_postgres::{error::SqlState, types::ToSql};

use super::{connect::store_error, counter_slots, pipelining::await_in_order, value_mapping::to_row};
use crate::{
    driver::{Sql, Tx},
    row::{Row, Value},
};

pub(super) struct PostgresTx<'c> {
    transaction: Transaction<'c>,
    /// Whether a statement has failed. If so, `commit` must not be sent: the server would roll back and report success.
    has_failed: bool,
    deadline: Option<Deadline>,
    counter_bucket: Option<ShardBucket>,
}

#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    limit: Duration,
}

impl<'c> PostgresTx<'c> {
    /// `limit` is the time limit for all statements together. The session's `statement_timeout` has the same value, and
    /// limits each statement.
    pub(super) fn new(transaction: Transaction<'c>, limit: Option<Duration>) -> Self {
        let deadline = limit.map(|limit| Deadline { at: Instant::now() + limit, limit });
        PostgresTx { transaction, has_failed: false, deadline, counter_bucket: None }
    }

    /// Counts usage in a bucket of this server.
    pub(super) fn counting_in(self, counter_bucket: Option<ShardBucket>) -> Self {
        PostgresTx { counter_bucket, ..self }
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        if self.has_failed {
            return Err(StoreError::Refused("a statement of the transaction failed".to_owned()));
        }
        self.transaction.commit().await.map_err(|error| store_error(&error))
    }

    pub(super) async fn rollback(self) -> Result<(), StoreError> {
        self.transaction.rollback().await.map_err(|error| store_error(&error))
    }

    /// Sets the timeout of the next statement to the time that the transaction has left. Does nothing during the first
    /// tenth of the transaction's time limit: the session's timeout, which is the whole limit, is accurate enough then,
    /// and a round trip to the server is saved.
    async fn set_statement_timeout(&self) -> Result<(), tokio_postgres::Error> {
        let Some(Deadline { at, limit }) = self.deadline else { return Ok(()) };
        let left = at.saturating_duration_since(Instant::now());
        if left > limit * 9 / 10 {
            return Ok(());
        }
        let millis = left.as_millis().max(1);
        self.transaction.batch_execute(&format!("set local statement_timeout = {millis}")).await
    }

    async fn run_pipelined(&self, statements: &[(&'static str, Vec<Value>)]) -> Result<(), tokio_postgres::Error> {
        self.set_statement_timeout().await?;
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, _) in statements {
            prepared.push(self.transaction.prepare_cached(sql).await?);
        }
        let mut executions = Vec::with_capacity(statements.len());
        for (statement, (_, values)) in prepared.iter().zip(statements) {
            let execution = async move {
                let parameters: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
                self.transaction.execute(statement, &parameters).await
            };
            executions.push(execution.boxed());
        }
        await_in_order(executions).await.map(drop)
    }

    /// Returns `result` with the error of the store. A transaction whose statement failed is not committed.
    fn note_failure<T>(&mut self, result: Result<T, tokio_postgres::Error>) -> Result<T, StoreError> {
        self.has_failed |= result.is_err();
        result.map_err(|error| match self.deadline {
            Some(Deadline { limit, .. }) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                StoreError::DeadlineExceeded(limit)
            }
            _ => store_error(&error),
        })
    }

    async fn query_rows(&self, sql: Sql, values: &[Value]) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.set_statement_timeout().await?;
        let statement = match &sql {
            Sql::Cached(sql) => self.transaction.prepare_cached(sql).await?,
            Sql::Composed(sql) => self.transaction.prepare(sql).await?,
        };
        let parameters: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let rows = self.transaction.query(&statement, &parameters).await?;
        rows.iter().map(to_row).collect()
    }
}

impl Tx for PostgresTx<'_> {
    fn query<'a>(&'a mut self, sql: Sql, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let rows = self.query_rows(sql, values).await;
            self.note_failure(rows)
        })
    }

    fn run_all<'a>(
        &'a mut self,
        statements: &'a [(&'static str, Vec<Value>)],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let run = self.run_pipelined(statements).await;
            self.note_failure(run)
        })
    }

    fn counter_bucket(&self) -> Option<ShardBucket> {
        self.counter_bucket
    }

    fn counter_slot(&self) -> i16 {
        counter_slots::of_transaction()
    }
}
