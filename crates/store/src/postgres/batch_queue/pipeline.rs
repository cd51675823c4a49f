//! The pipelined transaction of a batch, and its statements.

use std::{collections::HashMap, future::poll_fn, task::Poll};

use futures_util::{FutureExt, future::BoxFuture};
use tokio_postgres::{Client, Row, Statement, types::ToSql};

use super::BatchError;

/// A constant statement and its parameters, usually arrays with a value for each operation.
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
}

/// Proof that a batch is committed and durable.
#[derive(Debug)]
pub struct CommitProof(());

/// The transaction of a batch. Statements that are passed together are sent together, without waiting for results.
pub struct PipelinedTransaction<'a> {
    session: &'a mut BatchSession,
    has_begun: bool,
}

impl<'a> PipelinedTransaction<'a> {
    pub(super) fn new(session: &'a mut BatchSession) -> Self {
        PipelinedTransaction { session, has_begun: false }
    }

    /// The counter slot of this connection.
    pub fn slot(&self) -> i16 {
        self.session.slot
    }

    /// Runs the only statement of a batch, which is its own transaction.
    pub async fn run_single(self, call: &BatchStatement<'_>) -> Result<(Vec<Row>, CommitProof), BatchError> {
        let statement = self.session.prepare(call.sql).await?;
        let rows = query(&self.session.client, call, statement).await?;
        Ok((rows, CommitProof(())))
    }

    /// Runs statements. Returns the rows of each.
    pub async fn run(&mut self, calls: &[BatchStatement<'_>]) -> Result<Vec<Vec<Row>>, BatchError> {
        self.send(calls, None).await
    }

    /// Runs the last statements and commits.
    pub async fn commit(mut self, calls: &[BatchStatement<'_>]) -> Result<(Vec<Vec<Row>>, CommitProof), BatchError> {
        self.try_commit(calls).await
    }

    /// As [`commit`](Self::commit), for statements that may store nothing: another transaction can follow.
    pub async fn try_commit(
        &mut self,
        calls: &[BatchStatement<'_>],
    ) -> Result<(Vec<Vec<Row>>, CommitProof), BatchError> {
        // After a failed statement `commit` rolls back and succeeds, but `send` returns the statement's error. If a
        // statement cannot be sent, neither is `commit`.
        let rows = self.send(calls, Some("commit")).await?;
        self.has_begun = false;
        Ok((rows, CommitProof(())))
    }

    async fn send(
        &mut self,
        calls: &[BatchStatement<'_>],
        last: Option<&'static str>,
    ) -> Result<Vec<Vec<Row>>, BatchError> {
        let mut statements = Vec::with_capacity(calls.len());
        for call in calls {
            statements.push(self.session.prepare(call.sql).await?);
        }
        let client = &self.session.client;
        let first = if self.has_begun { None } else { Some("begin") };
        self.has_begun = true;

        let command = |sql: &'static str| async move { client.batch_execute(sql).await.map(|()| Vec::new()) }.boxed();
        let query = |(call, statement)| query(client, call, statement).boxed();
        let sent: Vec<BoxFuture<'_, Result<Vec<Row>, tokio_postgres::Error>>> = first
            .map(command)
            .into_iter()
            .chain(calls.iter().zip(statements).map(query))
            .chain(last.map(command))
            .collect();
        let mut results = await_in_order(sent).await?;
        if first.is_some() {
            results.remove(0);
        }
        if last.is_some() {
            results.pop();
        }
        Ok(results)
    }
}

async fn query(
    client: &Client,
    call: &BatchStatement<'_>,
    statement: Statement,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let parameters: Vec<&(dyn ToSql + Sync)> = call.parameters.iter().map(|parameter| &**parameter as _).collect();
    client.query(&statement, &parameters).await
}

/// Polls all futures once, in order, which sends them in that order; then waits for the results, which arrive in the
/// same order.
///
/// A future that fails on its first poll was not sent, because a value did not fit its parameter. Then the later ones,
/// `commit` among them, are not sent either, and the caller rolls back.
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

/// A connection with its prepared statements.
pub(super) struct BatchSession {
    pub(super) client: Client,
    /// The counter slot of this connection.
    slot: i16,
    statements: HashMap<&'static str, PreparedStatement>,
}

struct PreparedStatement {
    statement: Statement,
    uses: u32,
}

impl BatchSession {
    pub(super) fn new(client: Client, slot: i16) -> Self {
        BatchSession { client, slot, statements: HashMap::new() }
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

/// The server keeps a prepared statement's first plan. On small tables it may choose the wrong index, which becomes
/// expensive as the table grows. A statement is therefore prepared again after 4, 16, 64, ... uses.
fn is_replan_due(uses: u32) -> bool {
    uses.is_power_of_two() && uses.trailing_zeros().is_multiple_of(2)
}
