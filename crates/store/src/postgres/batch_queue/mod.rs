//! Group commit: a batch queue collects operations of one kind, and runs them in one transaction.
//!
//! Operations that arrive while a batch commits join the next batch. Each caller gets its result after its own batch is
//! durable. A batch costs about one round trip, whatever its size: `begin`, the statements and `commit` are pipelined,
//! and each parameter is an array with a value for each operation (`unnest`).
//!
//! An invalid row fails only its own caller. If a batch fails because of its rows, it is split into halves, each with
//! its own transaction, until the invalid operation is alone. If a row is locked for long, each operation gets its own
//! transaction. If the server is unavailable, the whole batch fails.
//!
//! The length of the queue and the time that a caller waits are limited. If a caller stops waiting before its batch has
//! started, its operation is skipped. If the caller stops waiting later, the operation is still completed, unless its
//! transaction fails and has to be repeated.
//!
//! # Servers
//!
//! Each server of a Citus cluster has its own queues. A queue has the operations on the buckets of its server, and its
//! transactions use the shards of these buckets by name: see [`placement`](super::placement). Some operations cannot be
//! run like this, and are in batches of their own, which use the distributed tables and leave it to Citus to find the
//! rows. Those that also write rows of another server run on the queue's server, in a batch for each other server, so
//! that a server that does not respond fails only the operations that need it. Those whose rows are not there any more
//! run on the coordinator, because the server may have left the cluster. All run there while the server cannot be
//! reached.
//!
//! Operations that also write rows of another server have a queue of their own. If that server does not respond, they
//! do not hold up those that do not need it.
//!
//! # Adding an operation
//!
//! Implement [`BatchedOperation`]. If later statements depend on the rows of a statement, pass it to
//! [`run`](PipelinedTransaction::run). Pass the last statements to [`commit`](PipelinedTransaction::commit). Each of
//! the two calls is one round trip, including `begin` and `commit`. A statement writes one table, as
//! `insert ... select from unnest`, `update ... from unnest` or `delete ... using unnest`. Enclose the names of tables in
//! braces, and let [`statements_by_shard`](PipelinedTransaction::statements_by_shard) divide the rows.
//!
//! Batches of several nodes cannot deadlock. Every operation writes its tables in the same order (`number_limits`,
//! `idempotency_keys`, `checks`, `callbacks`, `callback_attempts`, `deadlines`, `redirect_sessions`, `verifications`,
//! `sign_ins`, `used_assertions`, `sign_in_sessions`, `usage_counters`, `usage_days`), and the rows of a table in the
//! order of their keys. A statement visits rows in the order of its arrays, because batch sessions allow only nested
//! loops over `unnest`. Operations on the same check run in separate transactions: `PostgreSQL` does not update a row
//! twice in one statement, and a second statement would lock rows out of order. If a batch deadlocks with a statement
//! outside the queue, it is repeated.

pub(super) mod error;
pub(super) mod pipeline;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use ringtrue_domain::lifecycle::{CheckId, ShardBucket};
use ringtrue_engine::ports::store::StoreError;
use tokio::{
    sync::{Mutex, Notify, mpsc, oneshot},
    task::yield_now,
    time::{sleep, timeout},
};

use super::{
    BatchQueues, TRANSACTION_TIMEOUT, counter_slots,
    placement::{Placement, ServerKey},
    server_link::ServerLink,
};
use crate::{batch_delay::BatchDelay, operation::Operation};
pub(super) use error::BatchError;
use pipeline::{BatchSession, TableNaming};
pub(super) use pipeline::{BatchStatement, PipelinedTransaction, rows_by_id, to_rows, update_counters};

const QUEUE_CAPACITY: usize = 8_192;
/// Maximum number of attempts for a batch whose transaction conflicts with concurrent ones.
const MAX_ATTEMPTS: u32 = 6;
/// Delay before the third attempt, doubled before each further attempt. The delays are needed while Citus distributes
/// the tables: a conflict can then last longer than a few transactions.
const CONFLICT_DELAY: Duration = Duration::from_millis(25);
/// Time limit of a call, from entering the queue to the durable commit.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Defines how a batch of operations runs. Each kind of operation has its own queue.
pub(super) trait BatchedOperation: Operation + Sized {
    const NAME: &'static str;
    const MAX_BATCH_SIZE: usize = 1_024;
    /// Number of workers, each with its own connection. With two, one prepares the next batch while the other commits.
    const CONNECTIONS: usize = 1;
    /// Number of the counter slot of the queue's first connection among those of the node. Each further connection uses
    /// the next slot: two connections with the same slot would update the same counter rows and wait for each other's
    /// commits.
    const FIRST_COUNTER_SLOT: i16 = 0;

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self>;

    /// Returns the queue for operations that also write rows of another server.
    fn queue_for_two_servers(queues: &BatchQueues) -> &BatchQueue<Self> {
        Self::queue(queues)
    }

    /// Returns the bucket of the operation's rows. It determines the server. `None`: the rows are in no bucket, and the
    /// configured server has them.
    fn bucket(&self) -> Option<ShardBucket>;

    /// Returns the buckets of other rows that the operation changes. They may be on another server.
    fn other_buckets(&self) -> Vec<ShardBucket> {
        Vec::new()
    }

    /// Returns the check whose rows the operation changes. `None`: no other operation changes the same rows.
    fn changed_check(&self) -> Option<CheckId> {
        None
    }

    /// Runs the non-empty `batch` in one transaction, and commits it. Returns one output for each operation, in the
    /// same order.
    ///
    /// The batch is sorted by [`changed_check`](Self::changed_check), and contains each check at most once.
    fn run(
        batch: &[&Self],
        tx: &mut PipelinedTransaction<'_>,
    ) -> impl Future<Output = Result<Vec<Self::Output>, BatchError>> + Send;
}

type Reply<O> = oneshot::Sender<Result<<O as Operation>::Output, StoreError>>;

struct QueuedOperation<O: BatchedOperation> {
    operation: O,
    reply: Reply<O>,
}

/// Collects operations of one kind, and runs them in batches.
#[derive(derive_more::Debug)]
#[debug("BatchQueue({})", O::NAME)]
pub(super) struct BatchQueue<O: BatchedOperation> {
    queue: mpsc::Sender<QueuedOperation<O>>,
}

impl<O: BatchedOperation> BatchQueue<O> {
    /// Starts the workers, each on its own connection. They end when the queue is dropped and empty.
    pub(super) fn start(server: &Arc<ServerLink>) -> Self {
        Self::start_with(server, O::CONNECTIONS, O::FIRST_COUNTER_SLOT)
    }

    /// As [`start`](Self::start), with another number of connections and other counter slots.
    #[expect(clippy::disallowed_methods, reason = "the workers end when the queue is dropped")]
    pub(super) fn start_with(server: &Arc<ServerLink>, connections: usize, first_slot: i16) -> Self {
        let (queue, operations) = mpsc::channel(QUEUE_CAPACITY);
        let operations = Arc::new(Mutex::new(operations));
        let in_flight = Arc::<InFlight>::default();
        for slot in (first_slot..).take(connections).map(counter_slots::of_queue) {
            let (server, in_flight) = (Arc::clone(server), Arc::clone(&in_flight));
            let worker = BatchWorker { server, slot, session: None, in_flight };
            tokio::spawn(worker.run::<O>(Arc::clone(&operations)));
        }
        BatchQueue { queue }
    }

    /// Adds an operation to the next batch. Returns its output when the batch is durable.
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

/// Counts the operations in running batches.
#[derive(Default)]
struct InFlight {
    operations: AtomicUsize,
    decreased: Notify,
}

/// Waits for operations and returns them as the next batch. The batch is empty if the queue was dropped.
///
/// Concurrent small batches cost more than they gain. While another batch runs, the next one is therefore collected
/// until it is as large as the running one.
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
        // Yields instead of sleeping: a timer is too coarse for delays of microseconds.
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

/// Splits a batch into parts, so that no part contains a check twice. Each part is sorted by check id. The first
/// operation on a check is in the first part, the second one in the second part, and so on.
fn separate_repeated_checks<'o, O: BatchedOperation>(mut sorted: Vec<(usize, &'o O)>) -> Vec<Vec<(usize, &'o O)>> {
    sorted.sort_by_key(|(_, operation)| operation.changed_check());
    let mut parts = Vec::<Vec<(usize, &'o O)>>::new();
    let is_same = |left: &O, right: &O| left.changed_check().is_some() && left.changed_check() == right.changed_check();
    for same in sorted.chunk_by(|(_, left), (_, right)| is_same(left, right)) {
        for (number, operation) in same.iter().enumerate() {
            if parts.len() == number {
                parts.push(Vec::new());
            }
            parts[number].push(*operation);
        }
    }
    parts
}

/// The callers of a batch that wait for their results.
struct Replies<O: BatchedOperation>(Vec<Option<Reply<O>>>);

impl<O: BatchedOperation> Replies<O> {
    fn is_awaited(&self, position: usize) -> bool {
        self.0[position].as_ref().is_some_and(|reply| !reply.is_closed())
    }

    fn send(&mut self, position: usize, result: Result<O::Output, StoreError>) {
        if let Some(reply) = self.0[position].take() {
            // Sending fails if the caller no longer waits.
            drop(reply.send(result));
        }
    }

    /// Fails the operations that have no result yet.
    fn fail_remaining(self, unavailable: &str) {
        for reply in self.0.into_iter().flatten() {
            drop(reply.send(Err(StoreError::Unavailable(unavailable.to_owned()))));
        }
    }
}

/// Where a part of a batch runs, and how it finds its rows.
#[derive(Clone, Debug)]
enum Route {
    /// The server of the queue has all rows, in these shards.
    Shards(Arc<Placement>),
    /// The server of the queue has some of the rows, in these shards, and leaves it to Citus to find the others, which
    /// are on these servers.
    SomeShards(Arc<Placement>, BTreeSet<ServerKey>),
    /// The coordinator finds all rows. One `PostgreSQL` is its own coordinator.
    Coordinator,
}

impl Route {
    /// Returns the shards of the queue's server that a batch uses.
    fn shards<O: BatchedOperation>(&self, key: &ServerKey, batch: &[&O]) -> Vec<u16> {
        let (Route::Shards(placement) | Route::SomeShards(placement, _)) = self else { return Vec::new() };
        let buckets =
            batch.iter().flat_map(|operation| operation.bucket().into_iter().chain(operation.other_buckets()));
        let here = buckets.filter(|bucket| placement.server(*bucket) == key);
        here.filter_map(|bucket| placement.shard_index(bucket)).collect()
    }
}

/// Runs batches on one connection, which it opens on first use.
struct BatchWorker {
    server: Arc<ServerLink>,
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
                awaited.map(|queued| (queued.operation, Some(queued.reply))).unzip();
            let started = Instant::now();
            self.in_flight.operations.fetch_add(operations.len(), Ordering::AcqRel);
            self.run_batch(&operations, Replies(replies)).await;
            self.in_flight.operations.fetch_sub(operations.len(), Ordering::AcqRel);
            self.in_flight.decreased.notify_one();
            let queued = queue.try_lock().map_or(0, |queue| queue.len());
            delay.record_commit(operations.len(), queued, started.elapsed());
        }
    }

    /// Runs a batch in parts with at most one operation for each check. Halves a part that fails, until each invalid
    /// operation is alone. Sends each caller its result when its part is done.
    async fn run_batch<O: BatchedOperation>(&mut self, operations: &[O], mut replies: Replies<O>) {
        let mut unavailable = "the batch did not run".to_owned();
        let mut parts: Vec<_> = self.divide_by_route(operations).into_iter().rev().collect();
        while let Some((route, part)) = parts.pop() {
            if let Route::SomeShards(_, others) = &route
                && let Some(server) = others.iter().find(|server| self.server.workers.is_isolated(server))
            {
                let unavailable = format!("worker {server} cannot be reached");
                for (position, _) in part {
                    replies.send(position, Err(StoreError::Unavailable(unavailable.clone())));
                }
                continue;
            }
            match self.run_with_retries(&route, &part).await {
                Ok(outputs) => {
                    for ((position, _), output) in part.into_iter().zip(outputs) {
                        replies.send(position, Ok(output));
                    }
                }
                Err(BatchError::Misplaced(error)) if !matches!(route, Route::Coordinator) => {
                    tracing::debug!(queue = O::NAME, batch.size = part.len(), %error, "a shard has moved");
                    self.server.placement.report_stale();
                    parts.push((Route::Coordinator, part));
                }
                Err(BatchError::Rows(error) | BatchError::Outage(error) | BatchError::Misplaced(error))
                    if part.len() > 1 =>
                {
                    tracing::debug!(queue = O::NAME, batch.size = part.len(), %error, "splitting a batch that failed");
                    let awaited: Vec<_> =
                        part.into_iter().filter(|(position, _)| replies.is_awaited(*position)).collect();
                    let (left, right) = awaited.split_at(awaited.len() / 2);
                    let halves = [(route.clone(), right.to_vec()), (route, left.to_vec())];
                    parts.extend(halves.into_iter().filter(|(_, half)| !half.is_empty()));
                }
                Err(BatchError::Locked(error)) if part.len() > 1 => {
                    tracing::debug!(queue = O::NAME, batch.size = part.len(), %error, "dividing a batch with a lock");
                    let awaited = part.into_iter().rev().filter(|(position, _)| replies.is_awaited(*position));
                    // Each half with a locked row would wait for it again.
                    parts.extend(awaited.map(|operation| (route.clone(), vec![operation])));
                }
                Err(
                    BatchError::Rows(error)
                    | BatchError::Locked(error)
                    | BatchError::Outage(error)
                    | BatchError::Misplaced(error),
                ) => {
                    if let [(position, _)] = part[..] {
                        replies.send(position, Err(error));
                    }
                }
                Err(error) => {
                    let error = error.into_store_error();
                    tracing::warn!(queue = O::NAME, batch.size = part.len(), %error, "batch failed");
                    unavailable = match error {
                        StoreError::Unavailable(reason) => reason,
                        other => other.to_string(),
                    };
                    if !matches!(route, Route::SomeShards(..)) {
                        // The server does not respond, or conflicts persist. The remaining parts would fail as well.
                        break;
                    }
                    for (position, _) in part {
                        replies.send(position, Err(StoreError::Unavailable(unavailable.clone())));
                    }
                }
            }
        }
        replies.fail_remaining(&unavailable);
    }

    /// Divides operations by their route, and each route's operations into parts with each check at most once.
    fn divide_by_route<'o, O: BatchedOperation>(&self, operations: &'o [O]) -> Vec<(Route, Vec<(usize, &'o O)>)> {
        let placement = self.server.placement.get();
        let is_here = |bucket| !placement.is_unsharded() && placement.server(bucket) == &self.server.key;
        let (mut shards, mut coordinator) = (Vec::new(), Vec::new());
        let mut some_shards = BTreeMap::<_, Vec<_>>::new();
        for operation in operations.iter().enumerate() {
            if !operation.1.bucket().is_some_and(is_here) {
                coordinator.push(operation);
                continue;
            }
            let others = placement.other_servers(&self.server.key, operation.1.other_buckets());
            if others.is_empty() {
                shards.push(operation);
            } else {
                some_shards.entry(others).or_default().push(operation);
            }
        }
        let some_shards =
            some_shards.into_iter().map(|(others, part)| (Route::SomeShards(Arc::clone(&placement), others), part));
        let routes = [(Route::Shards(Arc::clone(&placement)), shards)]
            .into_iter()
            .chain(some_shards)
            .chain([(Route::Coordinator, coordinator)]);
        let parts = |(route, operations): (Route, Vec<(usize, &'o O)>)| {
            separate_repeated_checks(operations).into_iter().map(move |part| (route.clone(), part))
        };
        routes.flat_map(parts).collect()
    }

    /// Runs a part of a batch, and repeats it if its transaction conflicts with another one.
    async fn run_with_retries<O: BatchedOperation>(
        &mut self,
        route: &Route,
        part: &[(usize, &O)],
    ) -> Result<Vec<O::Output>, BatchError> {
        let batch: Vec<&O> = part.iter().map(|(_, operation)| *operation).collect();
        let mut attempt = 1;
        loop {
            match self.run_transaction(route, &batch).await {
                Err(BatchError::Conflict(error)) if attempt < MAX_ATTEMPTS => {
                    tracing::debug!(queue = O::NAME, batch.size = batch.len(), %error, "repeating a batch");
                    if attempt > 1 {
                        sleep(CONFLICT_DELAY * 2_u32.pow(attempt - 2)).await;
                    }
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Returns the session of the last batch, or a new one if it cannot be used. The second value is whether it is a
    /// session with the coordinator in place of the queue's server.
    ///
    /// A session that works is kept when the server is avoided, because another connection has failed.
    async fn take_session(&mut self, route: &Route) -> Result<(BatchSession, bool), BatchError> {
        if !matches!(route, Route::Coordinator) || !self.server.has_detour() {
            let needs_generic_plans = matches!(route, Route::Shards(_));
            let is_unusable = |session: &BatchSession| {
                session.client.is_closed() || (needs_generic_plans && session.has_custom_plans)
            };
            let session = self.session.take().filter(|session| !is_unusable(session));
            let session = match session {
                Some(session) => Some(session),
                None => self.server.open_session(self.slot).await?,
            };
            if let Some(session) = session {
                return Ok((session, false));
            }
        }
        Ok((self.server.take_detour_session(self.slot).await?, true))
    }

    /// Keeps a session that works for the next batch.
    fn keep_session(&mut self, session: BatchSession, is_detour: bool) {
        if is_detour { self.server.keep_detour(session) } else { self.session = Some(session) }
    }

    /// Has the servers probed that may have caused a failure: the other servers of the operations, unless the
    /// connection to this one has failed.
    fn suspect(&self, route: &Route, is_detour: bool, is_closed: bool) {
        match route {
            _ if is_detour => {}
            Route::SomeShards(_, others) if !is_closed => {
                for server in others {
                    self.server.workers.suspect(server);
                }
            }
            _ => self.server.reachability.suspect(),
        }
    }

    /// Runs one transaction. Closes the connection after an error, unless the error is [`BatchError::Rows`] or
    /// [`BatchError::Locked`] and the rollback succeeds.
    async fn run_transaction<O: BatchedOperation>(
        &mut self,
        route: &Route,
        batch: &[&O],
    ) -> Result<Vec<O::Output>, BatchError> {
        let (mut session, is_detour) = self.take_session(route).await?;
        let key = &self.server.key;
        let placement = self.server.placement.get();
        let (table_naming, shards, counter_bucket) = match route {
            _ if is_detour => (TableNaming::Unsharded, Vec::new(), None),
            Route::Coordinator => (TableNaming::Unsharded, Vec::new(), placement.counter_bucket(key)),
            Route::SomeShards(known, _) => {
                let shards = route.shards(key, batch).into_iter().map(|index| known.shard(index).id).collect();
                (TableNaming::Unsharded, shards, known.counter_bucket(key))
            }
            Route::Shards(known) => {
                let counter_bucket = known.counter_bucket(key);
                let mut shards = route.shards(key, batch);
                shards.extend(counter_bucket.and_then(|bucket| known.shard_index(bucket)));
                let shards = shards.into_iter().map(|index| known.shard(index).id).collect();
                (TableNaming::Shards(Arc::clone(known)), shards, counter_bucket)
            }
        };
        let mut tx = PipelinedTransaction::new(&mut session, table_naming, shards, counter_bucket);
        let run = AssertUnwindSafe(O::run(batch, &mut tx)).catch_unwind();
        let outcome = match timeout(TRANSACTION_TIMEOUT, run).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                return Err(BatchError::Rows(StoreError::Refused("the operation panicked".to_owned())));
            }
            Err(_) => {
                self.suspect(route, is_detour, session.client.is_closed());
                return Err(BatchError::Server(StoreError::Unavailable("the transaction timed out".to_owned())));
            }
        };
        let is_open = tx.is_open();
        match outcome {
            Ok(outputs) if outputs.len() == batch.len() && !is_open => {
                self.keep_session(session, is_detour);
                Ok(outputs)
            }
            Ok(_) => {
                let problem = format!("{} did not commit, or returned a wrong number of outputs", O::NAME);
                Err(BatchError::Server(StoreError::Refused(problem)))
            }
            Err(error) => {
                let is_closed = session.client.is_closed();
                // A server that has failed may not respond to `rollback` either.
                if matches!(error, BatchError::Rows(_) | BatchError::Locked(_)) {
                    let rolled_back = timeout(TRANSACTION_TIMEOUT, session.client.batch_execute("rollback")).await;
                    if matches!(rolled_back, Ok(Ok(()))) {
                        self.keep_session(session, is_detour);
                    }
                }
                Err(match error {
                    // All operations of the batch need the worker that could not be reached directly either.
                    BatchError::Outage(error) if is_detour && matches!(route, Route::Shards(_)) => {
                        BatchError::Server(error)
                    }
                    BatchError::Server(error) => {
                        // Another server may have taken over.
                        self.server.placement.report_stale();
                        self.suspect(route, is_detour, is_closed);
                        BatchError::Server(error)
                    }
                    error => error,
                })
            }
        }
    }
}
