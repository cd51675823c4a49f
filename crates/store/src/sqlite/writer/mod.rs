//! The one thread that writes, and its group commit.
//!
//! Whoever comes while a transaction is being made goes with the next one. Those of a batch are told after their commit is
//! durable, which the [`disk`](super::disk) sees to while the next batch is made. If the commit itself fails, nothing of
//! the batch has happened, and everybody is told so.
//!
//! One that fails, or that decides to write nothing, takes nobody with it. Verbs run in a savepoint each. [`Step`]s seldom
//! need one, and savepoints are not cheap: they run together, and if one of them has to be taken back, all are, and run
//! once more with a savepoint each.
//!
//! The queue is bounded. A verb whose caller has gone away before its turn is left out.

mod job;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use ringtrue_engine::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    connection::{Access, execute, open},
    disk::{Committed, Disk, Tide, answer},
    stopped,
};
use crate::{
    driver::{Ended, Tx},
    gathering::Gathering,
};

pub(super) use job::{Job, Step, Turn};
use job::{Keep, Run, State, StepJob, Taken, VerbJob, Work};

const QUEUE: usize = 8_192;
const MAX_BATCH: usize = 1_024;
/// Between two looks at whether more have come.
const GATHERING_PAUSE: Duration = Duration::from_micros(20);

#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Work>,
}

impl Writer {
    pub(super) async fn start(path: PathBuf) -> Result<(Self, Tide), StoreError> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let (opened, is_open) = oneshot::channel();
        let set_up = move || {
            let connection = open(&path, Access::Write)?;
            let (disk, tide) = Disk::start(&path)?;
            Ok((connection, disk, tide))
        };
        let work = move || match set_up() {
            Ok((connection, disk, tide)) => {
                let someone_waits = opened.send(Ok(tide)).is_ok();
                if someone_waits {
                    serve(connection, jobs, disk);
                }
            }
            // Whoever waits hears it; if nobody does, there is nothing to be done.
            Err(error) => drop(opened.send(Err(error))),
        };
        let spawned = thread::Builder::new().name("sqlite-writer".to_owned()).spawn(work);
        spawned.map_err(|error| StoreError::Unavailable(format!("no thread can be started: {error}")))?;
        let tide = is_open.await.map_err(|_| stopped())??;
        Ok((Writer { queue }, tide))
    }

    /// Runs `work` in one of the next transactions, and answers when that is durable.
    pub(super) async fn run<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.submit(Work::Verb(Box::new(VerbJob { state: State::Waiting(work), reply })), answer).await
    }

    /// Takes a step in one of the next transactions, and answers when that is durable, if the step is a promise.
    ///
    /// It is put into its box here, and not carried along by those who wait.
    pub(super) fn step<S: Step>(&self, step: S) -> impl Future<Output = Result<S::Answer, StoreError>> + use<'_, S> {
        let (reply, answer) = oneshot::channel();
        self.submit(Work::Step(Box::new(StepJob { step, done: None, reply })), answer)
    }

    async fn submit<T>(&self, work: Work, answer: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
        self.queue.send(work).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// Until nobody is left who could send a job.
fn serve(mut connection: Connection, mut works: mpsc::Receiver<Work>, mut disk: Disk) {
    let mut gathering = Gathering::default();
    loop {
        let gathered = gather(&mut works, &mut gathering);
        if gathered.is_empty() {
            return;
        }
        let mut batch = Batch::of(gathered);
        let begun = Instant::now();
        let size = batch.steps.len() + batch.verbs.len();
        let outcome = write_together(&mut connection, &mut batch);
        let number = disk.expect();
        let outcome = outcome.and_then(|()| run(&connection, "commit"));
        if let Err(reason) = &outcome {
            tracing::error!(batch.verbs = size, reason, "a batch of writes has failed");
            if !connection.is_autocommit() {
                // If this fails too, the next `begin` says so.
                drop(connection.execute_batch("rollback"));
            }
        }
        gathering.ended(size, works.len(), begun.elapsed());
        let (promises, rest): (Vec<_>, Vec<_>) =
            batch.into_jobs().partition(|job| outcome.is_ok() && job.is_a_promise());
        disk.keep(Committed { number, jobs: promises });
        answer(rest, &outcome);
    }
}

/// What goes into one transaction: the steps first.
struct Batch {
    steps: Vec<Box<dyn Taken>>,
    verbs: Vec<Box<dyn Run>>,
}

impl Batch {
    /// Those whose callers still wait.
    fn of(gathered: Vec<Work>) -> Self {
        let mut batch = Batch { steps: Vec::with_capacity(gathered.len()), verbs: Vec::new() };
        for work in gathered {
            match work {
                Work::Step(step) if step.is_wanted() => batch.steps.push(step),
                Work::Verb(verb) if verb.is_wanted() => batch.verbs.push(verb),
                Work::Step(_) | Work::Verb(_) => {}
            }
        }
        batch
    }

    fn into_jobs(self) -> impl Iterator<Item = Box<dyn Job>> {
        let steps = self.steps.into_iter().map(|step| step as Box<dyn Job>);
        steps.chain(self.verbs.into_iter().map(|verb| verb as Box<dyn Job>))
    }
}

/// Waits for the next batch. It is empty when nobody is left who could ask.
fn gather(works: &mut mpsc::Receiver<Work>, gathering: &mut Gathering) -> Vec<Work> {
    let mut batch = Vec::new();
    works.blocking_recv_many(&mut batch, MAX_BATCH);
    let opened = Instant::now();
    while !batch.is_empty() && batch.len() < MAX_BATCH && gathering.goes_on(batch.len(), opened) {
        thread::sleep(GATHERING_PAUSE);
        while batch.len() < MAX_BATCH
            && let Ok(work) = works.try_recv()
        {
            batch.push(work);
        }
    }
    gathering.closed(batch.len());
    batch
}

/// Begins a transaction, and does everything but commit it.
fn write_together(connection: &mut Connection, batch: &mut Batch) -> Result<(), String> {
    run(connection, "begin immediate")?;
    if !take_together(connection, &mut batch.steps)? {
        run(connection, "rollback")?;
        run(connection, "begin immediate")?;
        for step in &mut batch.steps {
            take_alone(connection, &mut **step)?;
        }
    }
    for verb in &mut batch.verbs {
        run_alone(connection, &mut **verb)?;
    }
    Ok(())
}

/// Takes steps without savepoints. `false`: something has to be taken back.
fn take_together(connection: &Connection, steps: &mut [Box<dyn Taken>]) -> Result<bool, String> {
    let mut turn = Turn::over(connection);
    for step in steps {
        let (before, mark) = (connection.total_changes(), turn.mark());
        let keep = attempt(|| step.run(&mut turn));
        is_alive(connection)?;
        if keep == Keep::Nothing {
            if connection.total_changes() != before {
                return Ok(false);
            }
            turn.back_to(mark);
        }
    }
    let is_written = turn.write().is_ok();
    is_alive(connection).map(|()| is_written)
}

/// Takes a step whose failure is nobody else's.
fn take_alone(connection: &Connection, step: &mut dyn Taken) -> Result<(), String> {
    run(connection, "savepoint verb")?;
    let mut turn = Turn::over(connection);
    let mut keep = attempt(|| step.run(&mut turn));
    is_alive(connection)?;
    if keep == Keep::All
        && let Err(error) = turn.write()
    {
        is_alive(connection)?;
        step.fail(error);
        keep = Keep::Nothing;
    }
    end_alone(connection, keep)
}

/// Runs a verb whose failure is nobody else's.
fn run_alone(connection: &mut Connection, verb: &mut dyn Run) -> Result<(), String> {
    run(connection, "savepoint verb")?;
    let keep = attempt(|| verb.run(connection));
    is_alive(connection)?;
    end_alone(connection, keep)
}

fn end_alone(connection: &Connection, keep: Keep) -> Result<(), String> {
    if keep == Keep::Nothing {
        run(connection, "rollback to verb")?;
    }
    run(connection, "release verb")
}

/// One that panics has done nothing.
fn attempt(job: impl FnOnce() -> Keep) -> Keep {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or(Keep::Nothing)
}

/// Some errors, a full disk among them, make `SQLite` give up the whole transaction.
fn is_alive(connection: &Connection) -> Result<(), String> {
    if connection.is_autocommit() {
        return Err("the database has given up the transaction, for want of disk or memory".to_owned());
    }
    Ok(())
}

fn run(connection: &Connection, sql: &'static str) -> Result<(), String> {
    execute(connection, sql, &[]).map(drop).map_err(|error| match error {
        StoreError::Unavailable(reason) | StoreError::Refused(reason) => reason,
        other => other.to_string(),
    })
}
