//! Group commit: a batch queue collects operations of one kind and runs them as one transaction.
//!
//! Operations that arrive while a batch commits join the next one. Each caller gets its result after its own batch is
//! durable. A batch costs about one round trip, whatever its size: `begin`, the statements and `commit` are pipelined,
//! with an array of values for each parameter (`unnest`).
//!
//! A bad row fails only its own caller: a batch that fails because of its rows is split in halves, each in its own
//! transaction, until the bad operation is alone. If the server is unavailable, the whole batch fails.
//!
//! The queue is bounded, and so is the time that a caller waits. An operation whose caller has gone is skipped if its
//! batch has not started, and completed otherwise.
//!
//! # Adding an operation
//!
//! An operation is a value with all parameters of one caller, and a [`run`](BatchedOperation::run) for a batch of them.
//! Statements whose rows decide about later ones go into [`run`](PipelinedTransaction::run); the last statements go
//! with [`commit`](PipelinedTransaction::commit), which returns the proof that the operation must return:
//!
//! ```text
//! struct Conclude { check: Uuid, at: i64, callback: Vec<u8>, counts: Vec<UsageCount> }
//!
//! impl BatchedOperation for Conclude {
//!     type Output = ConcludeOutcome;
//!     const NAME: &'static str = "conclude";
//!
//!     fn run<'a>(batch: &'a [Self], mut tx: PipelinedTransaction<'a>) -> BatchFuture<'a, ConcludeOutcome> {
//!         Box::pin(async move {
//!             // One round trip, `begin` included: concludes the checks that are open.
//!             let ids: Vec<Uuid> = batch.iter().map(|operation| operation.check).collect();
//!             let concluded = tx.run(&[BatchStatement::new(CONCLUDE_CHECKS).with(ids)]).await?;
//!             let winners = /* the operations whose check is in `concluded` */;
//!             // One more, `commit` included: the callbacks and counters of those checks.
//!             let counters = update_counters(winners.iter().flat_map(|operation| &operation.counts))?;
//!             let (_, committed) = tx.commit(&[callbacks(&winners), counters]).await?;
//!             Ok((outcomes, committed))
//!         })
//!     }
//! }
//! ```
//!
//! Two rules prevent deadlocks between batches of several nodes: every operation writes tables in the same order, and
//! rows in the order of their keys. Operations with the same key in a batch are merged beforehand, because `PostgreSQL`
//! updates no row twice in one statement. The queues start in `data_plane`.

mod pipeline;

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::BoxFuture};
use ringtrue_engine::ports::StoreError;
use tokio::{
    sync::{Mutex, Notify, mpsc, oneshot},
    task::yield_now,
    time::timeout,
};

use super::{
    TRANSACTION_TIMEOUT,
    connect::PostgresConnector,
    error::{ErrorOrigin, error_origin, store_error},
};
use crate::batch_delay::BatchDelay;
use pipeline::BatchSession;
pub(super) use pipeline::{BatchStatement, CommitProof, PipelinedTransaction};

const QUEUE_CAPACITY: usize = 8_192;
/// Limit of a call, from the queue to the durable commit.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// An operation that is frequent enough to run in batches.
pub(super) trait BatchedOperation: Send + Sync + Sized + 'static {
    type Output: Send + 'static;
    const NAME: &'static str;
    const MAX_BATCH_SIZE: usize = 1_024;
    /// Counter slot of the queue's first connection. Further connections use the next slots: two connections with the
    /// same slot would wait for each other's commits.
    const FIRST_COUNTER_SLOT: i16 = 0;

    /// Runs the non-empty `batch` in one transaction. Returns the outputs in the order of the batch.
    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, Self::Output>;
}

pub(super) type BatchFuture<'a, Output> = BoxFuture<'a, Result<(Vec<Output>, CommitProof), BatchError>>;

#[derive(Debug)]
pub(super) enum BatchError {
    /// One of the operations is invalid. The others may succeed without it.
    Rows(StoreError),
    /// The server failed, and the outcome may be unknown.
    Server(StoreError),
}

impl From<tokio_postgres::Error> for BatchError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error_origin(&error) {
            ErrorOrigin::Server => BatchError::Server(store_error(&error)),
            ErrorOrigin::Statement => BatchError::Rows(store_error(&error)),
        }
    }
}

struct QueuedOperation<O: BatchedOperation> {
    operation: O,
    reply: oneshot::Sender<Result<O::Output, StoreError>>,
}

/// The queue of one kind of operation.
pub(super) struct BatchQueue<O: BatchedOperation> {
    queue: mpsc::Sender<QueuedOperation<O>>,
}

impl<O: BatchedOperation> std::fmt::Debug for BatchQueue<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BatchQueue({})", O::NAME)
    }
}

impl<O: BatchedOperation> BatchQueue<O> {
    /// Starts workers on their own connections. They end when the queue is dropped and empty.
    #[expect(clippy::disallowed_methods, reason = "the workers end when the queue is dropped")]
    pub(super) fn start(connector: &PostgresConnector, connections: usize) -> Self {
        let (queue, operations) = mpsc::channel(QUEUE_CAPACITY);
        let operations = Arc::new(Mutex::new(operations));
        let in_flight = Arc::<InFlight>::default();
        for slot in (O::FIRST_COUNTER_SLOT..).take(connections) {
            let worker =
                BatchWorker { connector: connector.clone(), slot, session: None, in_flight: Arc::clone(&in_flight) };
            tokio::spawn(worker.run::<O>(Arc::clone(&operations)));
        }
        BatchQueue { queue }
    }

    /// Runs an operation with the next batch, and returns when the batch is durable.
    pub(super) async fn submit(&self, operation: O) -> Result<O::Output, StoreError> {
        let stopped = || StoreError::Unavailable("the batch worker stopped".to_owned());
        let (reply, result) = oneshot::channel();
        let call = async {
            self.queue.send(QueuedOperation { operation, reply }).await.map_err(|_| stopped())?;
            result.await.map_err(|_| stopped())?
        };
        match timeout(CALL_TIMEOUT, call).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::Unavailable(format!("timed out after {} s", CALL_TIMEOUT.as_secs()))),
        }
    }
}

/// Number of operations in batches that are running.
#[derive(Default)]
struct InFlight {
    operations: AtomicUsize,
    decreased: Notify,
}

/// Waits for the next batch. It is empty when the queue is dropped.
///
/// Concurrent small batches cost more than they gain, so a second batch starts only if it is as large as the running
/// one.
async fn collect_batch<O: BatchedOperation>(
    queue: &mut mpsc::Receiver<QueuedOperation<O>>,
    delay: &mut BatchDelay,
    in_flight: &InFlight,
) -> Vec<QueuedOperation<O>> {
    let mut batch = Vec::new();
    queue.recv_many(&mut batch, O::MAX_BATCH_SIZE).await;
    while (1..O::MAX_BATCH_SIZE.min(in_flight.operations.load(Ordering::Acquire))).contains(&batch.len()) {
        let room = O::MAX_BATCH_SIZE - batch.len();
        tokio::select! {
            () = in_flight.decreased.notified() => {}
            received = queue.recv_many(&mut batch, room) => if received == 0 { break },
        }
    }
    let opened = Instant::now();
    while !batch.is_empty() && batch.len() < O::MAX_BATCH_SIZE && delay.should_wait(batch.len(), opened) {
        // A timer is too coarse for microseconds.
        yield_now().await;
        while batch.len() < O::MAX_BATCH_SIZE
            && let Ok(queued) = queue.try_recv()
        {
            batch.push(queued);
        }
    }
    delay.record_close(batch.len());
    batch
}

/// Runs the batches of a queue on one connection, which is opened on first use.
struct BatchWorker {
    connector: PostgresConnector,
    slot: i16,
    session: Option<BatchSession>,
    in_flight: Arc<InFlight>,
}

impl BatchWorker {
    async fn run<O: BatchedOperation>(mut self, queue: Arc<Mutex<mpsc::Receiver<QueuedOperation<O>>>>) {
        let mut delay = BatchDelay::default();
        loop {
            let batch = collect_batch(&mut *queue.lock().await, &mut delay, &self.in_flight).await;
            if batch.is_empty() {
                return;
            }
            let awaited = batch.into_iter().filter(|queued| !queued.reply.is_closed());
            let (operations, replies): (Vec<O>, Vec<_>) =
                awaited.map(|queued| (queued.operation, queued.reply)).unzip();
            let started = Instant::now();
            self.in_flight.operations.fetch_add(operations.len(), Ordering::AcqRel);
            let results = self.run_batch(&operations).await;
            self.in_flight.operations.fetch_sub(operations.len(), Ordering::AcqRel);
            self.in_flight.decreased.notify_one();
            let queued = queue.try_lock().map_or(0, |queue| queue.len());
            delay.record_commit(operations.len(), queued, started.elapsed());
            for (reply, result) in replies.into_iter().zip(results) {
                // The caller may have dropped its future.
                drop(reply.send(result));
            }
        }
    }

    /// Returns a result for each operation, after splitting the batch as often as necessary.
    async fn run_batch<O: BatchedOperation>(&mut self, operations: &[O]) -> Vec<Result<O::Output, StoreError>> {
        let mut results = Vec::with_capacity(operations.len());
        let mut parts = vec![operations];
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.run_transaction(part).await {
                Ok(outputs) => results.extend(outputs.into_iter().map(Ok)),
                Err(BatchError::Rows(error)) if part.len() == 1 => results.push(Err(error)),
                Err(BatchError::Rows(error)) => {
                    tracing::debug!(queue = O::NAME, batch.size = part.len(), %error, "splitting a batch that failed");
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.extend([right, left]);
                }
                Err(BatchError::Server(error)) => {
                    tracing::warn!(queue = O::NAME, batch.size = part.len(), %error, "batch failed");
                    // The remaining parts would fail as well.
                    let reason = match error {
                        StoreError::Unavailable(reason) => reason,
                        other => other.to_string(),
                    };
                    let remaining = operations.len() - results.len();
                    results.extend((0..remaining).map(|_| Err(StoreError::Unavailable(reason.clone()))));
                    return results;
                }
            }
        }
        results
    }

    /// Runs one transaction. After an error the connection is kept only if its rollback succeeded.
    async fn run_transaction<O: BatchedOperation>(&mut self, batch: &[O]) -> Result<Vec<O::Output>, BatchError> {
        let mut session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => {
                let (client, _) = self.connector.connect().await.map_err(BatchError::Server)?;
                BatchSession::new(client, self.slot)
            }
        };
        let run = AssertUnwindSafe(O::run(batch, PipelinedTransaction::new(&mut session))).catch_unwind();
        let outcome = match timeout(TRANSACTION_TIMEOUT, run).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                return Err(BatchError::Rows(StoreError::Refused("the operation panicked".to_owned())));
            }
            Err(_) => {
                return Err(BatchError::Server(StoreError::Unavailable("the transaction timed out".to_owned())));
            }
        };
        match outcome {
            Ok((outputs, _proof)) if outputs.len() == batch.len() => {
                self.session = Some(session);
                Ok(outputs)
            }
            Ok(_) => {
                Err(BatchError::Server(StoreError::Refused(format!("{} returned a wrong number of outputs", O::NAME))))
            }
            Err(error) => {
                let rolled_back = timeout(TRANSACTION_TIMEOUT, session.client.batch_execute("rollback")).await;
                if matches!((&error, rolled_back), (BatchError::Rows(_), Ok(Ok(())))) {
                    self.session = Some(session);
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
