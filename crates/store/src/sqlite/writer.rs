//! The one thread that writes, and its group commit.
//!
//! Whoever comes while a transaction is being made durable goes with the next one. Each verb runs in a savepoint of its
//! own, so that one that fails, or that decides to write nothing, takes nobody with it. All are answered after the
//! commit. If the commit itself fails, nothing of the batch has happened, and everybody is told so.
//!
//! The queue is bounded. A verb whose caller has gone away before its turn is left out.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use ringtrue_engine::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    connection::{Access, SqliteTx, at_once, open},
    error::store_error,
    stopped,
};
use crate::{
    driver::{Ended, Ending, Tx},
    gathering::Gathering,
};

const QUEUE: usize = 8_192;
const MAX_BATCH: usize = 1_024;
/// Between two looks at whether more have come.
const GATHERING_PAUSE: Duration = Duration::from_micros(20);

#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Box<dyn Job>>,
}

impl Writer {
    pub(super) async fn start(path: PathBuf) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let (opened, is_open) = oneshot::channel();
        let work = move || match open(&path, Access::Write) {
            Ok(connection) => {
                let someone_waits = opened.send(Ok(())).is_ok();
                if someone_waits {
                    serve(connection, jobs);
                }
            }
            // Whoever waits hears it; if nobody does, there is nothing to be done.
            Err(error) => drop(opened.send(Err(error))),
        };
        let spawned = thread::Builder::new().name("sqlite-writer".to_owned()).spawn(work);
        spawned.map_err(|error| StoreError::Unavailable(format!("no thread can be started: {error}")))?;
        is_open.await.map_err(|_| stopped())??;
        Ok(Writer { queue })
    }

    /// Runs `work` in one of the next transactions, and answers when that is durable.
    pub(super) async fn run<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(VerbJob { state: State::Waiting(work), reply });
        self.queue.send(job).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// A verb on its way through the writer.
trait Job: Send {
    fn is_wanted(&self) -> bool;
    fn run(&mut self, connection: &mut Connection) -> Keep;
    /// Tells the caller, once it is known what became of the batch.
    fn answer(self: Box<Self>, batch: &Result<(), String>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    All,
    Nothing,
}

struct VerbJob<W, T> {
    state: State<W, T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

enum State<W, T> {
    Waiting(W),
    Done(Result<T, StoreError>),
    /// While it runs, and for good if it panics.
    Running,
}

impl<T, W> Job for VerbJob<W, T>
where
    T: Send + 'static,
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
{
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, connection: &mut Connection) -> Keep {
        let State::Waiting(work) = mem::replace(&mut self.state, State::Running) else { return Keep::Nothing };
        let (keep, answer) = match at_once(work(&mut SqliteTx { connection })) {
            Ok(Ending::Commit(answer)) => (Keep::All, Ok(answer)),
            Ok(Ending::Rollback(answer)) => (Keep::Nothing, Ok(answer)),
            Err(error) => (Keep::Nothing, Err(error)),
        };
        self.state = State::Done(answer);
        keep
    }

    fn answer(self: Box<Self>, batch: &Result<(), String>) {
        let answer = match (batch, self.state) {
            (Err(reason), _) => Err(StoreError::Unavailable(reason.clone())),
            (Ok(()), State::Done(answer)) => answer,
            (Ok(()), State::Waiting(_) | State::Running) => {
                Err(StoreError::Refused("the verb broke off in a panic".to_owned()))
            }
        };
        // A caller that has gone away does not need its answer.
        drop(self.reply.send(answer));
    }
}

/// Until nobody is left who could send a job.
fn serve(mut connection: Connection, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
    let mut gathering = Gathering::default();
    loop {
        let mut batch = gather(&mut jobs, &mut gathering);
        if batch.is_empty() {
            return;
        }
        batch.retain(|job| job.is_wanted());
        let begun = Instant::now();
        let outcome = commit_together(&mut connection, &mut batch);
        if let Err(reason) = &outcome {
            tracing::error!(batch.verbs = batch.len(), reason, "a batch of writes has failed");
            if !connection.is_autocommit() {
                // If this fails too, the next `begin` says so.
                drop(connection.execute_batch("rollback"));
            }
        }
        gathering.ended(batch.len(), jobs.len(), begun.elapsed());
        for job in batch {
            job.answer(&outcome);
        }
    }
}

/// Waits for the next batch. It is empty when nobody is left who could ask.
fn gather(jobs: &mut mpsc::Receiver<Box<dyn Job>>, gathering: &mut Gathering) -> Vec<Box<dyn Job>> {
    let mut batch = Vec::new();
    jobs.blocking_recv_many(&mut batch, MAX_BATCH);
    let opened = Instant::now();
    while !batch.is_empty() && batch.len() < MAX_BATCH && gathering.goes_on(batch.len(), opened) {
        thread::sleep(GATHERING_PAUSE);
        while batch.len() < MAX_BATCH
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
    }
    gathering.closed(batch.len());
    batch
}

fn commit_together(connection: &mut Connection, batch: &mut [Box<dyn Job>]) -> Result<(), String> {
    if batch.is_empty() {
        return Ok(());
    }
    execute(connection, "begin immediate")?;
    for job in batch {
        execute(connection, "savepoint verb")?;
        let keep = catch_unwind(AssertUnwindSafe(|| job.run(connection))).unwrap_or(Keep::Nothing);
        if connection.is_autocommit() {
            // Some errors, a full disk among them, make SQLite give up the whole transaction.
            return Err("the database has given up the transaction, for want of disk or memory".to_owned());
        }
        if keep == Keep::Nothing {
            execute(connection, "rollback to verb")?;
        }
        execute(connection, "release verb")?;
    }
    execute(connection, "commit")
}

fn execute(connection: &Connection, sql: &str) -> Result<(), String> {
    let done = connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    done.map(drop).map_err(|error| match store_error(&error) {
        StoreError::Unavailable(reason) | StoreError::Refused(reason) => reason,
        inconsistent @ StoreError::Inconsistent { .. } => inconsistent.to_string(),
    })
}
