//! The threads that read, each with a connection of its own that cannot write.

use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ringtrue_engine::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    connection::{Access, SqliteTx, at_once, execute, open},
    error::store_error,
    stopped,
};
use crate::driver::{Reading, Tx};

const QUEUE: usize = 8_192;
/// Steps of SQLite's virtual machine between two looks at the deadline: less than a millisecond.
const STEPS_PER_DEADLINE_CHECK: c_int = 1_000;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

#[derive(Debug)]
pub(super) struct Readers {
    queue: mpsc::Sender<Job>,
    /// Work that runs longer is stopped, and so is work whose caller has gone away. `None`: it runs to its end.
    time_limit: Option<Duration>,
}

impl Readers {
    /// `purpose` is part of the threads' names.
    pub(super) async fn start(
        path: &Path,
        purpose: &str,
        threads: usize,
        time_limit: Option<Duration>,
    ) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel::<Job>(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 1..=threads {
            let (jobs, path) = (Arc::clone(&jobs), path.to_owned());
            let (opened, is_open) = oneshot::channel();
            let work = move || match open(&path, Access::Read) {
                Ok(connection) => {
                    drop(opened.send(Ok(())));
                    serve(connection, &jobs);
                }
                Err(error) => drop(opened.send(Err(error))),
            };
            let spawned = thread::Builder::new().name(format!("sqlite-{purpose}-{number}")).spawn(work);
            spawned.map_err(|error| StoreError::Unavailable(format!("no thread can be started: {error}")))?;
            is_open.await.map_err(|_| stopped())??;
        }
        Ok(Readers { queue, time_limit })
    }

    pub(super) async fn run<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        self.run_holding((), work).await
    }

    /// As [`run`](Readers::run). `permit` is dropped when the work has ended, even if the caller has gone away before.
    pub(super) async fn run_holding<P, T, W>(&self, permit: P, work: W) -> Result<T, StoreError>
    where
        P: Send + 'static,
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let time_limit = self.time_limit;
        let job: Job = Box::new(move |connection| {
            // A caller that has gone away does not need its answer.
            if reply.is_closed() {
                return;
            }
            let reply = Arc::new(reply);
            let read = match time_limit {
                None => read(connection, work),
                Some(limit) => {
                    let caller = Arc::downgrade(&reply);
                    let is_waiting = move || caller.upgrade().is_some_and(|reply| !reply.is_closed());
                    read_within(connection, limit, is_waiting, work)
                }
            };
            // Before the answer: the caller's next search needs it.
            drop(permit);
            if let Some(reply) = Arc::into_inner(reply) {
                drop(reply.send(read));
            }
        });
        self.queue.send(job).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// One thread waits in the queue and the others for their turn to, until nobody is left who could send a job.
fn serve(mut connection: Connection, jobs: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(job) = job else { return };
        // A panic is the verb's: its caller finds its answer gone, and the next one must not.
        let finished = catch_unwind(AssertUnwindSafe(|| job(&mut connection)));
        if finished.is_err() {
            // Before the rollback, which it would interrupt.
            drop(connection.progress_handler(0, None::<fn() -> bool>));
            leave_transaction(&connection);
        }
    }
}

/// Ends what an earlier job left open.
fn leave_transaction(connection: &Connection) {
    if !connection.is_autocommit() {
        drop(connection.execute_batch("rollback"));
    }
}

/// As [`read`]. Interrupts the statement that is running when `limit` has passed or nobody waits for the answer.
fn read_within<T, W>(
    connection: &mut Connection,
    limit: Duration,
    is_waiting: impl Fn() -> bool + Send + 'static,
    work: W,
) -> Result<T, StoreError>
where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T>,
{
    let stop_at = Instant::now() + limit;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&is_stopped);
    let interrupts = move || {
        let interrupts = Instant::now() >= stop_at || !is_waiting();
        stops.fetch_or(interrupts, Ordering::Relaxed);
        interrupts
    };
    let failed = |error: rusqlite::Error| store_error(&error);
    // Neither the beginning nor the end may be interrupted: the connection would stay in the transaction.
    begin(connection)?;
    let answer = match connection.progress_handler(STEPS_PER_DEADLINE_CHECK, Some(interrupts)) {
        Ok(()) => at_once(work(&mut SqliteTx { connection: &mut *connection })),
        Err(error) => Err(failed(error)),
    };
    connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
    execute(connection, "rollback", &[])?;
    match answer {
        Err(StoreError::Unavailable(_)) if is_stopped.load(Ordering::Relaxed) => {
            Err(StoreError::DeadlineExceeded(limit))
        }
        answer => answer,
    }
}

/// Between `begin` and its end every statement sees the same state.
fn read<T, W>(connection: &mut Connection, work: W) -> Result<T, StoreError>
where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T>,
{
    begin(connection)?;
    let answer = at_once(work(&mut SqliteTx { connection: &mut *connection }));
    execute(connection, "rollback", &[])?;
    answer
}

fn begin(connection: &Connection) -> Result<(), StoreError> {
    leave_transaction(connection);
    execute(connection, "begin", &[])?;
    Ok(())
}
