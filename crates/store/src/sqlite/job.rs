//! Jobs that callers queue for the writer, and the way in which callers get the results.

use std::mem;

use ringtrue_engine::ports::store::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    batch_transaction::{BatchTransaction, WriteOp},
    connection::{SqliteTx, poll_once},
};
use crate::driver::{TransactionEnd, Work};

/// A job in the writer's queue, or in a batch.
pub(super) trait QueuedJob: Send {
    /// Whether the caller still waits for the result.
    fn is_awaited(&self) -> bool;
    fn waits_for_sync(&self) -> bool;
    /// Sends the caller its result. `batch` tells whether the batch was committed.
    fn complete(self: Box<Self>, batch: &Result<(), String>);
}

pub(super) trait QueuedWriteOp: QueuedJob {
    fn run(&mut self, tx: &mut BatchTransaction<'_>) -> JobEnd;
    /// Replaces the result by an error, if the op succeeded but its deferred writes failed.
    fn fail(&mut self, error: StoreError);
}

pub(super) trait QueuedClosure: QueuedJob {
    fn run(&mut self, connection: &mut Connection) -> JobEnd;
}

pub(super) enum WriterJob {
    WriteOp(Box<dyn QueuedWriteOp>),
    Closure(Box<dyn QueuedClosure>),
}

/// Whether the writes of a job are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobEnd {
    Keep,
    Discard,
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub(super) struct WriteOpJob<O: WriteOp> {
    op: O,
    result: Option<Result<O::Output, StoreError>>,
    reply: Reply<O::Output>,
}

impl<O: WriteOp> WriteOpJob<O> {
    pub(super) fn new(op: O, reply: Reply<O::Output>) -> Self {
        WriteOpJob { op, result: None, reply }
    }
}

impl<O: WriteOp> QueuedJob for WriteOpJob<O> {
    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    fn waits_for_sync(&self) -> bool {
        self.op.waits_for_sync()
    }

    fn complete(self: Box<Self>, batch: &Result<(), String>) {
        send_reply(self.reply, batch, self.result);
    }
}

impl<O: WriteOp> QueuedWriteOp for WriteOpJob<O> {
    fn run(&mut self, tx: &mut BatchTransaction<'_>) -> JobEnd {
        self.result = None;
        let (end, result) = split_end(self.op.run(tx));
        self.result = Some(result);
        end
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }
}

pub(super) struct ClosureJob<W, T> {
    state: ClosureState<W, T>,
    reply: Reply<T>,
}

enum ClosureState<W, T> {
    Queued(W),
    Done(Result<T, StoreError>),
    /// The closure is running, or has panicked.
    Running,
}

impl<W, T> ClosureJob<W, T> {
    pub(super) fn new(work: W, reply: Reply<T>) -> Self {
        ClosureJob { state: ClosureState::Queued(work), reply }
    }
}

impl<T, W> QueuedJob for ClosureJob<W, T>
where
    T: Send + 'static,
    W: Work<TransactionEnd<T>>,
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
    W: Work<TransactionEnd<T>>,
{
    fn run(&mut self, connection: &mut Connection) -> JobEnd {
        let ClosureState::Queued(work) = mem::replace(&mut self.state, ClosureState::Running) else {
            return JobEnd::Discard;
        };
        let (end, result) = split_end(poll_once(work(&mut SqliteTx { connection })));
        self.state = ClosureState::Done(result);
        end
    }
}

fn split_end<T>(end: Result<TransactionEnd<T>, StoreError>) -> (JobEnd, Result<T, StoreError>) {
    match end {
        Ok(TransactionEnd::Commit(output)) => (JobEnd::Keep, Ok(output)),
        Ok(TransactionEnd::Rollback(output)) => (JobEnd::Discard, Ok(output)),
        Err(error) => (JobEnd::Discard, Err(error)),
    }
}

fn send_reply<T>(reply: Reply<T>, batch: &Result<(), String>, result: Option<Result<T, StoreError>>) {
    let result = match (batch, result) {
        (Err(reason), _) => Err(StoreError::Unavailable(reason.clone())),
        (Ok(()), Some(result)) => result,
        (Ok(()), None) => Err(StoreError::Refused("the write panicked".to_owned())),
    };
    // Sending fails if the caller no longer waits.
    drop(reply.send(result));
}
