//! The transaction of a batch, and the statements that it consists of.

use std::{collections::HashMap, future::poll_fn, task::Poll};

use futures_util::{FutureExt, future::BoxFuture};
use tokio_postgres::{Client, Row, Statement, types::ToSql};

use super::BatchError;

/// One statement, the same at each use, and its columns of values.
pub struct Call<'a> {
    sql: &'static str,
    parameters: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

impl<'a> Call<'a> {
    pub fn new(sql: &'static str) -> Self {
        Call { sql, parameters: Vec::new() }
    }

    /// Adds the next parameter.
    pub fn with(mut self, parameter: impl ToSql + Sync + Send + 'a) -> Self {
        self.parameters.push(Box::new(parameter));
        self
    }
}

/// Proof that a batch is durable. Only what commits gives it.
#[derive(Debug)]
pub struct Committed(());

/// The transaction of a batch.
pub struct Batch<'a> {
    session: &'a mut Session,
    has_begun: bool,
}

impl<'a> Batch<'a> {
    pub(super) fn new(session: &'a mut Session) -> Self {
        Batch { session, has_begun: false }
    }

    /// The slot of counters that is this connection's own.
    pub fn slot(&self) -> i16 {
        self.session.slot
    }

    /// Runs the only statement of a batch, which is a transaction by itself.
    pub async fn only(self, call: &Call<'_>) -> Result<(Vec<Row>, Committed), BatchError> {
        let statement = self.session.prepared(call.sql).await?;
        let rows = query(&self.session.client, call, statement).await?;
        Ok((rows, Committed(())))
    }

    /// Runs statements, all sent at once. Gives the rows of each.
    pub async fn step(&mut self, calls: &[Call<'_>]) -> Result<Vec<Vec<Row>>, BatchError> {
        self.send(calls, None).await
    }

    /// Runs the last statements and commits, all sent at once.
    pub async fn commit(mut self, calls: &[Call<'_>]) -> Result<(Vec<Vec<Row>>, Committed), BatchError> {
        self.try_commit(calls).await
    }

    /// The same, when the rows may say that it has to be done in another way, by a transaction after this one.
    pub async fn try_commit(&mut self, calls: &[Call<'_>]) -> Result<(Vec<Vec<Row>>, Committed), BatchError> {
        // After a statement that the server refused this commits nothing and succeeds; but then that statement's error
        // is what counts. After one that could not even be sent it is not sent either.
        let rows = self.send(calls, Some("commit")).await?;
        self.has_begun = false;
        Ok((rows, Committed(())))
    }

    async fn send(&mut self, calls: &[Call<'_>], last: Option<&'static str>) -> Result<Vec<Vec<Row>>, BatchError> {
        let mut statements = Vec::with_capacity(calls.len());
        for call in calls {
            statements.push(self.session.prepared(call.sql).await?);
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
        let mut answers = in_order(sent).await?;
        if first.is_some() {
            answers.remove(0);
        }
        if last.is_some() {
            answers.pop();
        }
        Ok(answers)
    }
}

async fn query(client: &Client, call: &Call<'_>, statement: Statement) -> Result<Vec<Row>, tokio_postgres::Error> {
    let parameters: Vec<&(dyn ToSql + Sync)> = call.parameters.iter().map(|parameter| &**parameter as _).collect();
    client.query(&statement, &parameters).await
}

/// Polls all once, in their order, which is the order that they are sent in; then waits for the answers, which come in
/// the same order.
///
/// One that fails before all are sent was not sent itself: a value did not fit. Then those after it, `commit` among
/// them, are not sent either, and the caller rolls back.
async fn in_order<T: Unpin, E: Unpin>(mut pending: Vec<BoxFuture<'_, Result<T, E>>>) -> Result<Vec<T>, E> {
    let mut answers: Vec<Option<T>> = pending.iter().map(|_| None).collect();
    let (mut all_were_sent, mut answered) = (false, 0);
    poll_fn(|context| {
        if !all_were_sent {
            all_were_sent = true;
            for (future, answer) in pending.iter_mut().zip(&mut answers) {
                if let Poll::Ready(early) = future.poll_unpin(context)? {
                    *answer = Some(early);
                }
            }
        }
        while answered < pending.len() {
            if answers[answered].is_none() {
                match pending[answered].poll_unpin(context)? {
                    Poll::Ready(answer) => answers[answered] = Some(answer),
                    Poll::Pending => return Poll::Pending,
                }
            }
            answered += 1;
        }
        Poll::Ready(Ok(answers.drain(..).flatten().collect()))
    })
    .await
}

/// A connection and the statements that it has prepared.
pub(super) struct Session {
    pub(super) client: Client,
    /// Where this connection counts, beside others that count the same.
    slot: i16,
    statements: HashMap<&'static str, Prepared>,
}

struct Prepared {
    statement: Statement,
    uses: u32,
}

impl Session {
    pub(super) fn over(client: Client, slot: i16) -> Self {
        Session { client, slot, statements: HashMap::new() }
    }

    async fn prepared(&mut self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let mut uses = 1;
        if let Some(known) = self.statements.get_mut(sql) {
            known.uses = known.uses.saturating_add(1);
            if !is_planned_anew(known.uses) {
                return Ok(known.statement.clone());
            }
            uses = known.uses;
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, Prepared { statement: statement.clone(), uses });
        Ok(statement)
    }
}

/// The server keeps the plan that it made at first. Between small indexes it may choose the wrong one, which costs nothing
/// until the table has grown: with a hundred checks or so it looks for a number among all checks of its project. So a
/// statement is planned anew after 4, 16, 64 uses, and so on.
fn is_planned_anew(uses: u32) -> bool {
    uses.is_power_of_two() && uses.trailing_zeros().is_multiple_of(2)
}
