//! Group commit: a lane gathers verbs of one kind and runs them as one transaction.
//!
//! Whoever comes while a batch is being made durable goes with the next one, and is answered after that one is durable.
//! A batch costs about one round trip, however many callers are in it: `begin`, the statements and `commit` are sent
//! together, with a column of values for each parameter (`unnest`).
//!
//! One caller's bad row fails nobody else: a batch that fails for a reason that lies in its rows is cut in halves, each
//! with a transaction of its own, until the culprit is alone. If the server is away, everybody in the batch is told.
//!
//! The queue is bounded, and so is the time that a caller waits. A caller that goes away leaves its verb to its fate:
//! it is left out if its turn has not come, and done otherwise.
//!
//! # Adding a verb
//!
//! A verb is a value that says all there is to do, for any number of tables, and a [`run`](Verb::run) for many of them.
//! What is not known beforehand is asked in a [`step`](Batch::step); the last statements go with the
//! [`commit`](Batch::commit), which gives the proof that `run` must return:
//!
//! ```text
//! struct Conclude { check: Uuid, at: i64, callback: Vec<u8>, counts: Vec<UsageCount> }
//!
//! impl Verb for Conclude {
//!     type Answer = Recorded;
//!     const NAME: &'static str = "conclude";
//!
//!     fn run<'a>(batch: &'a [Self], mut tx: Batch<'a>) -> Running<'a, Recorded> {
//!         Box::pin(async move {
//!             // One round trip, `begin` included: who was first?
//!             let ids: Vec<Uuid> = batch.iter().map(|verb| verb.check).collect();
//!             let won = tx.step(&[Call::new(END_CHECKS).with(ids)]).await?;
//!             let winners = /* the verbs whose check is in `won` */;
//!             // One more, `commit` included: the callbacks and the counters of those that were.
//!             let counts = count::call(winners.iter().flat_map(|verb| &verb.counts))?;
//!             let (_, committed) = tx.commit(&[callbacks(&winners), counts]).await?;
//!             Ok((answers, committed))
//!         })
//!     }
//! }
//! ```
//!
//! Three rules keep batches of several nodes from waiting for each other: rows are written in the order of their keys,
//! tables in the same order by every verb, and a key that occurs twice in a batch is merged beforehand, since `PostgreSQL`
//! changes no row twice in one statement. The lane starts in `data_plane`.

mod batch;

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
    connect::Connector,
    error::{Fault, fault, store_error},
};
use crate::gathering::Gathering;
use batch::Session;
pub(super) use batch::{Batch, Call, Committed};

const QUEUE: usize = 8_192;
/// How long a caller waits for its answer, from the queue to the commit.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something that many callers want at once.
pub(super) trait Verb: Send + Sync + Sized + 'static {
    type Answer: Send + 'static;
    const NAME: &'static str;
    const MAX_BATCH: usize = 1_024;
    /// Where the first connection of the lane counts; the next one does so in the next slot. Two connections with one slot
    /// wait for each other's commits.
    const FIRST_SLOT: i16 = 0;

    /// Does all of `batch`, which is not empty, in one transaction. Answers in the order of the batch.
    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, Self::Answer>;
}

pub(super) type Running<'a, Answer> = BoxFuture<'a, Result<(Vec<Answer>, Committed), BatchError>>;

/// Why a batch did not happen.
#[derive(Debug)]
pub(super) enum BatchError {
    /// Something in it is wrong: without that, the rest may well work.
    Rows(StoreError),
    /// The server is at fault, and the outcome may be unknown.
    Server(StoreError),
}

impl From<tokio_postgres::Error> for BatchError {
    fn from(error: tokio_postgres::Error) -> Self {
        match fault(&error) {
            Fault::Server => BatchError::Server(store_error(&error)),
            Fault::Statement => BatchError::Rows(store_error(&error)),
        }
    }
}

struct Envelope<V: Verb> {
    verb: V,
    reply: oneshot::Sender<Result<V::Answer, StoreError>>,
}

/// Where verbs of one kind are gathered.
pub(super) struct Lane<V: Verb> {
    queue: mpsc::Sender<Envelope<V>>,
}

impl<V: Verb> std::fmt::Debug for Lane<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane({})", V::NAME)
    }
}

impl<V: Verb> Lane<V> {
    /// Starts a lane on connections of its own. It ends, and closes them, when it is dropped and its queue is empty.
    #[expect(clippy::disallowed_methods, reason = "nobody waits for a lane: it ends when its last caller has gone")]
    pub(super) fn start(connector: &Connector, connections: usize) -> Self {
        let (queue, envelopes) = mpsc::channel(QUEUE);
        let envelopes = Arc::new(Mutex::new(envelopes));
        let under_way = Arc::<UnderWay>::default();
        for slot in (V::FIRST_SLOT..).take(connections) {
            let worker =
                Worker { connector: connector.clone(), slot, session: None, under_way: Arc::clone(&under_way) };
            tokio::spawn(worker.serve::<V>(Arc::clone(&envelopes)));
        }
        Lane { queue }
    }

    /// Does `verb` with the next batch, and answers when that is durable.
    pub(super) async fn submit(&self, verb: V) -> Result<V::Answer, StoreError> {
        let stopped = || StoreError::Unavailable("the lane has stopped".to_owned());
        let (reply, answer) = oneshot::channel();
        let exchange = async {
            self.queue.send(Envelope { verb, reply }).await.map_err(|_| stopped())?;
            answer.await.map_err(|_| stopped())?
        };
        match timeout(PATIENCE, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unavailable(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }
}

/// How many verbs are in batches that are being made durable.
#[derive(Default)]
struct UnderWay {
    verbs: AtomicUsize,
    is_less: Notify,
}

/// Waits for the next batch. It is empty when nobody is left who could ask.
///
/// Small batches side by side cost more than they gain. So beside what is under way one sets out only if it is as large.
async fn gather<V: Verb>(
    queue: &mut mpsc::Receiver<Envelope<V>>,
    gathering: &mut Gathering,
    under_way: &UnderWay,
) -> Vec<Envelope<V>> {
    let mut batch = Vec::new();
    queue.recv_many(&mut batch, V::MAX_BATCH).await;
    while (1..V::MAX_BATCH.min(under_way.verbs.load(Ordering::Acquire))).contains(&batch.len()) {
        let room = V::MAX_BATCH - batch.len();
        tokio::select! {
            () = under_way.is_less.notified() => {}
            came = queue.recv_many(&mut batch, room) => if came == 0 { break },
        }
    }
    let opened = Instant::now();
    while !batch.is_empty() && batch.len() < V::MAX_BATCH && gathering.goes_on(batch.len(), opened) {
        // A timer would be too coarse: this is about microseconds.
        yield_now().await;
        while batch.len() < V::MAX_BATCH
            && let Ok(envelope) = queue.try_recv()
        {
            batch.push(envelope);
        }
    }
    gathering.closed(batch.len());
    batch
}

/// Runs the batches of a lane on one connection, which is made when it is first needed.
struct Worker {
    connector: Connector,
    slot: i16,
    session: Option<Session>,
    under_way: Arc<UnderWay>,
}

impl Worker {
    async fn serve<V: Verb>(mut self, queue: Arc<Mutex<mpsc::Receiver<Envelope<V>>>>) {
        let mut gathering = Gathering::default();
        loop {
            let envelopes = gather(&mut *queue.lock().await, &mut gathering, &self.under_way).await;
            if envelopes.is_empty() {
                return;
            }
            let wanted = envelopes.into_iter().filter(|envelope| !envelope.reply.is_closed());
            let (verbs, replies): (Vec<V>, Vec<_>) = wanted.map(|envelope| (envelope.verb, envelope.reply)).unzip();
            let begun = Instant::now();
            self.under_way.verbs.fetch_add(verbs.len(), Ordering::AcqRel);
            let answers = self.settle(&verbs).await;
            self.under_way.verbs.fetch_sub(verbs.len(), Ordering::AcqRel);
            self.under_way.is_less.notify_one();
            let waiting = queue.try_lock().map_or(0, |queue| queue.len());
            gathering.ended(verbs.len(), waiting, begun.elapsed());
            for (reply, answer) in replies.into_iter().zip(answers) {
                // A caller that has gone away does not need its answer.
                drop(reply.send(answer));
            }
        }
    }

    /// An answer for each verb.
    async fn settle<V: Verb>(&mut self, verbs: &[V]) -> Vec<Result<V::Answer, StoreError>> {
        let mut answers = Vec::with_capacity(verbs.len());
        let mut parts = vec![verbs];
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.attempt(part).await {
                Ok(done) => answers.extend(done.into_iter().map(Ok)),
                Err(BatchError::Rows(error)) if part.len() == 1 => answers.push(Err(error)),
                Err(BatchError::Rows(error)) => {
                    tracing::debug!(lane = V::NAME, batch.verbs = part.len(), %error, "a batch is cut in halves");
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.extend([right, left]);
                }
                Err(BatchError::Server(error)) => {
                    tracing::warn!(lane = V::NAME, batch.verbs = part.len(), %error, "a batch has failed");
                    // Those that were not tried would fare no better.
                    let reason = match error {
                        StoreError::Unavailable(reason) => reason,
                        other => other.to_string(),
                    };
                    let untold = verbs.len() - answers.len();
                    answers.extend((0..untold).map(|_| Err(StoreError::Unavailable(reason.clone()))));
                    return answers;
                }
            }
        }
        answers
    }

    /// Runs one transaction. After an error the connection is used again only if it is certain to be clean.
    async fn attempt<V: Verb>(&mut self, batch: &[V]) -> Result<Vec<V::Answer>, BatchError> {
        let mut session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => {
                let (client, _) = self.connector.connect().await.map_err(BatchError::Server)?;
                Session::over(client, self.slot)
            }
        };
        let run = AssertUnwindSafe(V::run(batch, Batch::new(&mut session))).catch_unwind();
        let outcome = match timeout(TRANSACTION_TIMEOUT, run).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                return Err(BatchError::Rows(StoreError::Refused("the verb broke off in a panic".to_owned())));
            }
            Err(_) => {
                return Err(BatchError::Server(StoreError::Unavailable("the transaction took too long".to_owned())));
            }
        };
        match outcome {
            Ok((answers, _durable)) if answers.len() == batch.len() => {
                self.session = Some(session);
                Ok(answers)
            }
            Ok(_) => Err(BatchError::Server(StoreError::Refused(format!("{} answers amiss", V::NAME)))),
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
