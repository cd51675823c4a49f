//! The writer thread, which commits jobs in groups.
//!
//! Jobs that arrive while a transaction runs form the next batch. The jobs of a batch complete after their commit is
//! durable, which [`wal_syncer`](super::wal_syncer) ensures while the next batch runs. If the commit fails, nothing of
//! the batch is stored and every job gets the error.
//!
//! A job that fails or rolls back does not affect the other jobs. Each closure runs in a savepoint. Savepoints are not
//! cheap and [`WriteOp`]s rarely roll back, so ops run together without savepoints. If an op has to be undone after it
//! wrote, the whole transaction is rolled back, and runs again with a savepoint for each op.
//!
//! The queue is bounded. A job is skipped if its caller stops waiting before its batch starts.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use ringtrue_engine::ports::store::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    batch_transaction::{BatchTransaction, WriteOp},
    connection::{Access, execute, open},
    job::{ClosureJob, JobEnd, QueuedClosure, QueuedJob, QueuedWriteOp, WriteOpJob, WriterJob},
    thread_stopped_error,
    wal_syncer::{CommittedBatch, DurabilityWatch, WalSyncer, complete_jobs},
};
use crate::{
    batch_delay::BatchDelay,
    driver::{TransactionEnd, Work},
};

const QUEUE_CAPACITY: usize = 8_192;
const MAX_BATCH_SIZE: usize = 1_024;
/// Interval at which the writer looks for more jobs while a batch stays open.
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
        self.submit(WriterJob::Closure(Box::new(ClosureJob::new(work, reply))), result).await
    }

    /// Runs a write op in one of the next batches. Returns when its commit is durable. If the op does not [wait for the
    /// sync](WriteOp::waits_for_sync), returns when it is committed.
    ///
    /// Boxes the op before the future is built, to keep the caller's future small.
    pub(super) fn run_op<O: WriteOp>(&self, op: O) -> impl Future<Output = Result<O::Output, StoreError>> + use<'_, O> {
        let (reply, result) = oneshot::channel();
        self.submit(WriterJob::WriteOp(Box::new(WriteOpJob::new(op, reply))), result)
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

/// Runs batches until every sender is dropped.
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
                // If the rollback fails too, the next `begin` reports it.
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

/// The jobs of one transaction. Write ops run before closures.
struct Batch {
    ops: Vec<Box<dyn QueuedWriteOp>>,
    closures: Vec<Box<dyn QueuedClosure>>,
}

impl Batch {
    /// Builds a batch without the jobs whose callers no longer wait.
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

/// Waits for jobs and returns them as the next batch. The batch is empty if every sender was dropped.
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

/// Begins a transaction and runs the batch in it. Does not commit.
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

/// Runs write ops without savepoints. Returns `false` if one of them has to be undone.
fn run_ops_together(connection: &Connection, ops: &mut [Box<dyn QueuedWriteOp>]) -> Result<bool, String> {
    let mut tx = BatchTransaction::new(connection);
    for op in ops {
        let (changes_before, mark) = (connection.total_changes(), tx.deferred_mark());
        let end = catch_panic(|| op.run(&mut tx));
        ensure_in_transaction(connection)?;
        if end == JobEnd::Discard {
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
    let mut end = catch_panic(|| op.run(&mut tx));
    ensure_in_transaction(connection)?;
    if end == JobEnd::Keep
        && let Err(error) = tx.write_deferred()
    {
        ensure_in_transaction(connection)?;
        op.fail(error);
        end = JobEnd::Discard;
    }
    end_savepoint(connection, end)
}

fn run_closure_in_savepoint(connection: &mut Connection, closure: &mut dyn QueuedClosure) -> Result<(), String> {
    execute_sql(connection, "savepoint job")?;
    let end = catch_panic(|| closure.run(connection));
    ensure_in_transaction(connection)?;
    end_savepoint(connection, end)
}

fn end_savepoint(connection: &Connection, end: JobEnd) -> Result<(), String> {
    if end == JobEnd::Discard {
        execute_sql(connection, "rollback to job")?;
    }
    execute_sql(connection, "release job")
}

fn catch_panic(job: impl FnOnce() -> JobEnd) -> JobEnd {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or(JobEnd::Discard)
}

/// Fails if `SQLite` has rolled back the whole transaction, as it does after some errors, such as a full disk.
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
