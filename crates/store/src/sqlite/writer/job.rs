//! Jobs of the writer thread: arbitrary closures, and [`WriteOp`]s, which share a savepoint.

use std::{mem, ptr};

use ringtrue_engine::ports::{StoreError, UsageDelta};
use rusqlite::{CachedStatement, Connection, Statement, params_from_iter};
use tokio::sync::oneshot;

use super::super::{
    concluded_checks::ConcludedCheckRows,
    connection::{SqliteTx, collect_rows, poll_ready},
    counters,
    error::store_error,
};
use crate::{
    driver::{NewConcludedCheck, TransactionEnd, TransactionFuture, Tx, Value},
    row::Row,
};

/// A frequent write of the data plane.
///
/// The write ops of a batch run without a savepoint each. An op should roll back before its first write: otherwise the
/// whole batch runs again, with savepoints.
pub trait WriteOp: Send + 'static {
    type Output: Send + 'static;

    /// Whether the caller gets the result only after the fsync. `false` suits an intermediate step whose result is not
    /// reported outside: the write that follows it is durable only together with it.
    const WAIT_FOR_SYNC: bool = true;

    /// Runs again if the batch is rolled back.
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<Self::Output>, StoreError>;
}

/// The transaction of a batch of write ops. It shares prepared statements between them, and defers inserts of concluded
/// checks and counter updates to one write at the end.
pub struct BatchTransaction<'c> {
    connection: &'c Connection,
    statements: Vec<(&'static str, CachedStatement<'c>)>,
    concluded: ConcludedCheckRows,
    counts: Vec<UsageDelta>,
}

/// Lengths of the deferred writes.
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
        counters::write(&self.counts, self.connection)
    }

    /// Returns the number of changed rows. Cheaper than `returning`, for which `SQLite` builds a temporary table.
    pub fn execute(&mut self, sql: &'static str, values: &[Value]) -> Result<usize, StoreError> {
        let changed = self.statement(sql).and_then(|statement| statement.execute(params_from_iter(values)));
        changed.map_err(|error| store_error(&error))
    }

    pub fn query(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let found = self.statement(sql).and_then(|statement| collect_rows(statement, values));
        found.map_err(|error| store_error(&error))
    }

    pub fn query_first(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    pub fn defer_insert(&mut self, new: &NewConcludedCheck) {
        self.concluded.add(new);
    }

    pub fn defer_counts(&mut self, counts: impl IntoIterator<Item = UsageDelta>) {
        self.counts.extend(counts);
    }

    fn statement(&mut self, sql: &'static str) -> rusqlite::Result<&mut Statement<'c>> {
        // Compares addresses: comparing the texts would cost more than some statements.
        let known = self.statements.iter().position(|(known, _)| ptr::eq(*known, sql));
        let index = known.unwrap_or(self.statements.len());
        if known.is_none() {
            self.statements.push((sql, self.connection.prepare_cached(sql)?));
        }
        Ok(&mut self.statements[index].1)
    }
}

/// A job in the writer's queue or in a batch.
pub trait QueuedJob: Send {
    /// Whether the caller still waits for the result.
    fn is_awaited(&self) -> bool;
    fn waits_for_sync(&self) -> bool;
    /// Sends the result to the caller, given the outcome of the batch.
    fn complete(self: Box<Self>, batch: &Result<(), String>);
}

pub(super) trait QueuedWriteOp: QueuedJob {
    fn run(&mut self, tx: &mut BatchTransaction<'_>) -> Effect;
    /// Replaces the result of an op that ran, but whose deferred writes failed.
    fn fail(&mut self, error: StoreError);
}

pub(super) trait QueuedClosure: QueuedJob {
    fn run(&mut self, connection: &mut Connection) -> Effect;
}

pub(super) enum WriterJob {
    WriteOp(Box<dyn QueuedWriteOp>),
    Closure(Box<dyn QueuedClosure>),
}

/// What to do with the writes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Keep,
    Discard,
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub(super) struct WriteOpJob<O: WriteOp> {
    pub op: O,
    pub result: Option<Result<O::Output, StoreError>>,
    pub reply: Reply<O::Output>,
}

impl<O: WriteOp> QueuedJob for WriteOpJob<O> {
    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    fn waits_for_sync(&self) -> bool {
        O::WAIT_FOR_SYNC
    }

    fn complete(self: Box<Self>, batch: &Result<(), String>) {
        send_reply(self.reply, batch, self.result);
    }
}

impl<O: WriteOp> QueuedWriteOp for WriteOpJob<O> {
    fn run(&mut self, tx: &mut BatchTransaction<'_>) -> Effect {
        self.result = None;
        let (effect, result) = split_end(self.op.run(tx));
        self.result = Some(result);
        effect
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }
}

pub(super) struct ClosureJob<W, T> {
    pub state: ClosureState<W, T>,
    pub reply: Reply<T>,
}

pub(super) enum ClosureState<W, T> {
    Queued(W),
    Done(Result<T, StoreError>),
    /// Also the state after a panic.
    Running,
}

impl<T, W> QueuedJob for ClosureJob<W, T>
where
    T: Send + 'static,
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> TransactionFuture<'t, T> + Send + 'static,
{
    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    fn waits_for_sync(&self) -> bool {
        true
    }

    fn complete(self: Box<Self>, batch: &Result<(), String>) {
        let result = match self.state {
            ClosureState::Done(result) => Some(result),
            ClosureState::Queued(_) | ClosureState::Running => None,
        };
        send_reply(self.reply, batch, result);
    }
}

impl<T, W> QueuedClosure for ClosureJob<W, T>
where
    T: Send + 'static,
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> TransactionFuture<'t, T> + Send + 'static,
{
    fn run(&mut self, connection: &mut Connection) -> Effect {
        let ClosureState::Queued(work) = mem::replace(&mut self.state, ClosureState::Running) else {
            return Effect::Discard;
        };
        let (effect, result) = split_end(poll_ready(work(&mut SqliteTx { connection })));
        self.state = ClosureState::Done(result);
        effect
    }
}

fn split_end<T>(end: Result<TransactionEnd<T>, StoreError>) -> (Effect, Result<T, StoreError>) {
    match end {
        Ok(TransactionEnd::Commit(output)) => (Effect::Keep, Ok(output)),
        Ok(TransactionEnd::Rollback(output)) => (Effect::Discard, Ok(output)),
        Err(error) => (Effect::Discard, Err(error)),
    }
}

fn send_reply<T>(reply: Reply<T>, batch: &Result<(), String>, result: Option<Result<T, StoreError>>) {
    let result = match (batch, result) {
        (Err(reason), _) => Err(StoreError::Unavailable(reason.clone())),
        (Ok(()), Some(result)) => result,
        (Ok(()), None) => Err(StoreError::Refused("the write panicked".to_owned())),
    };
    // The caller may have dropped its future.
    drop(reply.send(result));
}
