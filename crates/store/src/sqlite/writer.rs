//! The writer thread and its group commit.
//!
//! Jobs that arrive while a transaction runs form the next batch. The jobs of a batch complete after their commit is
//! durable, which [`wal_syncer`](super::wal_syncer) ensures while the next batch runs. If the commit fails, nothing of
//! the batch is stored and every job gets the error.
//!
//! A job that fails or rolls back does not affect the others. Closures run in a savepoint each. [`WriteOp`]s rarely
//! roll back, and savepoints are not cheap, so they run together without one. If an op has to be undone after it wrote,
//! the whole transaction is rolled back and runs again with a savepoint for each op.
//!
//! The queue is bounded. A job whose caller has gone before its batch starts is skipped.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    ptr, thread,
    time::{Duration, Instant},
};

use ringtrue_engine::ports::{activity::UsageDelta, store::StoreError};
use rusqlite::{CachedStatement, Connection, Statement, params_from_iter};
use tokio::sync::{mpsc, oneshot};

use super::{
    connection::{Access, SqliteTx, collect_rows, execute, open, poll_ready, store_error},
    operations::ConcludedCheckRows,
    thread_stopped_error,
    wal_syncer::{CommittedBatch, DurabilityWatch, WalSyncer, complete_jobs},
};
use crate::{
    batch_delay::BatchDelay,
    driver::{TransactionEnd, Work},
    operation::{InsertCheck, Operation},
    queries::usage,
    row::{Row, Value},
};

const QUEUE_CAPACITY: usize = 8_192;
const MAX_BATCH_SIZE: usize = 1_024;
/// Pause between two looks at the queue while a batch stays open.
const BATCH_POLL_INTERVAL: Duration = Duration::from_micros(20);

#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<WriterJob>,
}

impl Writer {
    pub(super) async fn start(path: PathBuf) -> Result<(Self, DurabilityWatch), StoreError> {
        let (queue, jobs) = mpsc::channel(QUEUE_CAPACITY);
        let (opened, is_open) = oneshot::channel();
        let set_up = move || {
            let connection = open(&path, Access::Write)?;
            let (syncer, watch) = WalSyncer::start(&path)?;
            Ok((connection, syncer, watch))
        };
        let work = move || match set_up() {
            Ok((connection, syncer, watch)) => {
                let is_awaited = opened.send(Ok(watch)).is_ok();
                if is_awaited {
                    run_writer(connection, jobs, syncer);
                }
            }
            Err(error) => drop(opened.send(Err(error))),
        };
        let spawned = thread::Builder::new().name("sqlite-writer".to_owned()).spawn(work);
        spawned.map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        let watch = is_open.await.map_err(|_| thread_stopped_error())??;
        Ok((Writer { queue }, watch))
    }

    /// Runs `work` in one of the next batches, and returns when its commit is durable.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl Work<TransactionEnd<T>>) -> Result<T, StoreError> {
        let (reply, result) = oneshot::channel();
        let job = ClosureJob { state: ClosureState::Queued(work), reply };
        self.submit(WriterJob::Closure(Box::new(job)), result).await
    }

    /// Runs a write op in one of the next batches. Returns when its commit is durable, or when it is committed if the
    /// op does not [wait for the sync](WriteOp::waits_for_sync).
    ///
    /// Boxes the op before the future is built, which keeps the caller's future small.
    pub(super) fn run_op<O: WriteOp>(&self, op: O) -> impl Future<Output = Result<O::Output, StoreError>> + use<'_, O> {
        let (reply, result) = oneshot::channel();
        self.submit(WriterJob::WriteOp(Box::new(WriteOpJob { op, result: None, reply })), result)
    }

    async fn submit<T>(
        &self,
        job: WriterJob,
        result: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.queue.send(job).await.map_err(|_| thread_stopped_error())?;
        result.await.map_err(|_| thread_stopped_error())?
    }
}

/// Runs until every sender is dropped.
fn run_writer(mut connection: Connection, mut jobs: mpsc::Receiver<WriterJob>, mut syncer: WalSyncer) {
    let mut delay = BatchDelay::default();
    loop {
        let collected = collect_batch(&mut jobs, &mut delay);
        if collected.is_empty() {
            return;
        }
        let mut batch = Batch::of_awaited(collected);
        let started = Instant::now();
        let size = batch.ops.len() + batch.closures.len();
        let outcome = run_batch(&mut connection, &mut batch);
        let number = syncer.announce_commit();
        let outcome = outcome.and_then(|()| execute_sql(&connection, "commit"));
        if let Err(reason) = &outcome {
            tracing::error!(batch.size = size, reason, "batch of writes failed");
            if !connection.is_autocommit() {
                // If this fails too, the next `begin` reports it.
                drop(connection.execute_batch("rollback"));
            }
        }
        delay.record_commit(size, jobs.len(), started.elapsed());
        let (waiting, rest): (Vec<_>, Vec<_>) =
            batch.into_jobs().partition(|job| outcome.is_ok() && job.waits_for_sync());
        syncer.enqueue(CommittedBatch { number, jobs: waiting });
        complete_jobs(rest, &outcome);
    }
}

/// The jobs of one transaction. The write ops run first.
struct Batch {
    ops: Vec<Box<dyn QueuedWriteOp>>,
    closures: Vec<Box<dyn QueuedClosure>>,
}

impl Batch {
    /// Keeps the jobs whose callers still wait.
    fn of_awaited(collected: Vec<WriterJob>) -> Self {
        let mut batch = Batch { ops: Vec::with_capacity(collected.len()), closures: Vec::new() };
        for job in collected {
            match job {
                WriterJob::WriteOp(op) if op.is_awaited() => batch.ops.push(op),
                WriterJob::Closure(closure) if closure.is_awaited() => batch.closures.push(closure),
                WriterJob::WriteOp(_) | WriterJob::Closure(_) => {}
            }
        }
        batch
    }

    fn into_jobs(self) -> impl Iterator<Item = Box<dyn QueuedJob>> {
        let ops = self.ops.into_iter().map(|op| op as Box<dyn QueuedJob>);
        ops.chain(self.closures.into_iter().map(|closure| closure as Box<dyn QueuedJob>))
    }
}

/// Waits for the next batch. It is empty when every sender is dropped.
fn collect_batch(jobs: &mut mpsc::Receiver<WriterJob>, delay: &mut BatchDelay) -> Vec<WriterJob> {
    let mut batch = Vec::new();
    jobs.blocking_recv_many(&mut batch, MAX_BATCH_SIZE);
    let opened = Instant::now();
    while !batch.is_empty() && batch.len() < MAX_BATCH_SIZE && delay.should_wait(batch.len(), opened) {
        thread::sleep(BATCH_POLL_INTERVAL);
        while batch.len() < MAX_BATCH_SIZE
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
    }
    delay.record_close(batch.len());
    batch
}

/// Begins a transaction and runs the batch in it, without the commit.
fn run_batch(connection: &mut Connection, batch: &mut Batch) -> Result<(), String> {
    execute_sql(connection, "begin immediate")?;
    if !run_ops_together(connection, &mut batch.ops)? {
        execute_sql(connection, "rollback")?;
        execute_sql(connection, "begin immediate")?;
        for op in &mut batch.ops {
            run_op_in_savepoint(connection, &mut **op)?;
        }
    }
    for closure in &mut batch.closures {
        run_closure_in_savepoint(connection, &mut **closure)?;
    }
    Ok(())
}

/// Runs write ops without savepoints. `false`: one of them has to be undone.
fn run_ops_together(connection: &Connection, ops: &mut [Box<dyn QueuedWriteOp>]) -> Result<bool, String> {
    let mut tx = BatchTransaction::new(connection);
    for op in ops {
        let (changes_before, mark) = (connection.total_changes(), tx.deferred_mark());
        let effect = catch_panic(|| op.run(&mut tx));
        ensure_in_transaction(connection)?;
        if effect == Effect::Discard {
            if connection.total_changes() != changes_before {
                return Ok(false);
            }
            tx.discard_deferred_since(mark);
        }
    }
    let is_written = tx.write_deferred().is_ok();
    ensure_in_transaction(connection).map(|()| is_written)
}

fn run_op_in_savepoint(connection: &Connection, op: &mut dyn QueuedWriteOp) -> Result<(), String> {
    execute_sql(connection, "savepoint job")?;
    let mut tx = BatchTransaction::new(connection);
    let mut effect = catch_panic(|| op.run(&mut tx));
    ensure_in_transaction(connection)?;
    if effect == Effect::Keep
        && let Err(error) = tx.write_deferred()
    {
        ensure_in_transaction(connection)?;
        op.fail(error);
        effect = Effect::Discard;
    }
    end_savepoint(connection, effect)
}

fn run_closure_in_savepoint(connection: &mut Connection, closure: &mut dyn QueuedClosure) -> Result<(), String> {
    execute_sql(connection, "savepoint job")?;
    let effect = catch_panic(|| closure.run(connection));
    ensure_in_transaction(connection)?;
    end_savepoint(connection, effect)
}

fn end_savepoint(connection: &Connection, effect: Effect) -> Result<(), String> {
    if effect == Effect::Discard {
        execute_sql(connection, "rollback to job")?;
    }
    execute_sql(connection, "release job")
}

fn catch_panic(job: impl FnOnce() -> Effect) -> Effect {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or(Effect::Discard)
}

/// Some errors, a full disk among them, make `SQLite` roll back the whole transaction.
fn ensure_in_transaction(connection: &Connection) -> Result<(), String> {
    if connection.is_autocommit() {
        return Err("SQLite rolled back the transaction: the disk or the memory is full".to_owned());
    }
    Ok(())
}

fn execute_sql(connection: &Connection, sql: &'static str) -> Result<(), String> {
    execute(connection, sql, &[]).map(drop).map_err(|error| match error {
        StoreError::Unavailable(reason) | StoreError::Refused(reason) => reason,
        other => other.to_string(),
    })
}

/// A frequent write of the data plane.
///
/// The write ops of a batch run without a savepoint each. An op should roll back before its first write: otherwise the
/// whole batch runs again, with savepoints.
pub(super) trait WriteOp: Operation {
    /// Whether the caller gets the result only after the fsync. `false` suits an intermediate step whose result is not
    /// reported outside: the write that follows it is durable only together with it.
    fn waits_for_sync(&self) -> bool {
        true
    }

    /// Runs again if the batch is rolled back.
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<Self::Output>, StoreError>;
}

/// The transaction of a batch of write ops. It shares prepared statements between them, and defers inserts of concluded
/// checks and counter updates to one write at the end.
pub(super) struct BatchTransaction<'c> {
    connection: &'c Connection,
    statements: Vec<(&'static str, CachedStatement<'c>)>,
    concluded: ConcludedCheckRows,
    counts: Vec<UsageDelta>,
}

/// Lengths of the deferred writes.
#[derive(Clone, Copy)]
struct DeferredMark {
    concluded: usize,
    counts: usize,
}

impl<'c> BatchTransaction<'c> {
    fn new(connection: &'c Connection) -> Self {
        BatchTransaction {
            connection,
            statements: Vec::new(),
            concluded: ConcludedCheckRows::default(),
            counts: Vec::new(),
        }
    }

    fn deferred_mark(&self) -> DeferredMark {
        DeferredMark { concluded: self.concluded.len(), counts: self.counts.len() }
    }

    fn discard_deferred_since(&mut self, mark: DeferredMark) {
        self.concluded.truncate(mark.concluded);
        self.counts.truncate(mark.counts);
    }

    fn write_deferred(self) -> Result<(), StoreError> {
        self.concluded.write(self.connection)?;
        for (sql, values) in usage::upsert_counters(&self.counts)? {
            execute(self.connection, sql, &values)?;
        }
        Ok(())
    }

    /// Returns the number of changed rows. Cheaper than `returning`, for which `SQLite` builds a temporary table.
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
pub(super) trait QueuedJob: Send {
    /// Whether the caller still waits for the result.
    fn is_awaited(&self) -> bool;
    fn waits_for_sync(&self) -> bool;
    /// Sends the result to the caller, given the outcome of the batch.
    fn complete(self: Box<Self>, batch: &Result<(), String>);
}

trait QueuedWriteOp: QueuedJob {
    fn run(&mut self, tx: &mut BatchTransaction<'_>) -> Effect;
    /// Replaces the result of an op that ran, but whose deferred writes failed.
    fn fail(&mut self, error: StoreError);
}

trait QueuedClosure: QueuedJob {
    fn run(&mut self, connection: &mut Connection) -> Effect;
}

enum WriterJob {
    WriteOp(Box<dyn QueuedWriteOp>),
    Closure(Box<dyn QueuedClosure>),
}

/// What to do with the writes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Keep,
    Discard,
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

struct WriteOpJob<O: WriteOp> {
    op: O,
    result: Option<Result<O::Output, StoreError>>,
    reply: Reply<O::Output>,
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

struct ClosureJob<W, T> {
    state: ClosureState<W, T>,
    reply: Reply<T>,
}

enum ClosureState<W, T> {
    Queued(W),
    Done(Result<T, StoreError>),
    /// Also the state after a panic.
    Running,
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
