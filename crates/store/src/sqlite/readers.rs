//! Read-only connections: [`ReaderPool`] runs queries on its own threads, and [`LookupPool`] looks up rows of open
//! checks and sign-ins on the calling thread, which is faster than waking a reader.

use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use ringtrue_engine::ports::store::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    connection::{Access, SqliteTx, execute, open, poll_once, query_cached, store_error},
    thread_stopped_error,
};
use crate::{
    driver::Work,
    row::{Row, Value},
};

const QUEUE_CAPACITY: usize = 8_192;
/// Number of virtual-machine instructions that SQLite runs between two deadline checks. Takes less than a millisecond.
const INSTRUCTIONS_PER_DEADLINE_CHECK: c_int = 1_000;

type ReadJob = Box<dyn FnOnce(&mut Connection) + Send>;

/// Reader threads, each with its own connection.
#[derive(Debug)]
pub(super) struct ReaderPool {
    queue: mpsc::Sender<ReadJob>,
    /// Time after which a statement is interrupted. It is also interrupted if the caller stops waiting. `None`:
    /// statements are never interrupted.
    time_limit: Option<Duration>,
}

impl ReaderPool {
    /// Starts the threads. `purpose` is part of their names.
    pub(super) async fn start(
        path: &Path,
        purpose: &str,
        threads: usize,
        time_limit: Option<Duration>,
    ) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel::<ReadJob>(QUEUE_CAPACITY);
        let jobs = Arc::new(Mutex::new(jobs));
        let mut starting = Vec::new();
        for number in 1..=threads {
            let (jobs, path) = (Arc::clone(&jobs), path.to_owned());
            let (opened, is_open) = oneshot::channel();
            let work = move || match open(&path, Access::Read) {
                Ok(connection) => {
                    drop(opened.send(Ok(())));
                    run_reader(connection, &jobs);
                }
                Err(error) => drop(opened.send(Err(error))),
            };
            let spawned = thread::Builder::new().name(format!("sqlite-{purpose}-{number}")).spawn(work);
            spawned.map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
            starting.push(is_open);
        }
        // Waits only after all threads have started, so that they open their connections concurrently.
        for is_open in starting {
            is_open.await.map_err(|_| thread_stopped_error())??;
        }
        Ok(ReaderPool { queue, time_limit })
    }

    pub(super) async fn run<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.run_with_permit((), work).await
    }

    /// As [`run`](ReaderPool::run). Drops `permit` when the work has ended, even if the caller stops waiting earlier.
    pub(super) async fn run_with_permit<T: Send + 'static>(
        &self,
        permit: impl Send + 'static,
        work: impl Work<T>,
    ) -> Result<T, StoreError> {
        let (reply, result) = oneshot::channel();
        let time_limit = self.time_limit;
        let job: ReadJob = Box::new(move |connection| {
            if reply.is_closed() {
                return;
            }
            let reply = Arc::new(reply);
            let read = match time_limit {
                None => read(connection, work),
                Some(limit) => {
                    let caller = Arc::downgrade(&reply);
                    let is_awaited = move || caller.upgrade().is_some_and(|reply| !reply.is_closed());
                    read_with_deadline(connection, limit, is_awaited, work)
                }
            };
            // The permit is released before the reply, because the caller may start its next search immediately.
            drop(permit);
            if let Some(reply) = Arc::into_inner(reply) {
                drop(reply.send(read));
            }
        });
        self.queue.send(job).await.map_err(|_| thread_stopped_error())?;
        result.await.map_err(|_| thread_stopped_error())?
    }
}

/// Runs jobs until every sender is dropped. One thread waits for the queue, the others wait for the mutex around it.
fn run_reader(mut connection: Connection, jobs: &Mutex<mpsc::Receiver<ReadJob>>) {
    loop {
        let job = jobs.lock().blocking_recv();
        let Some(job) = job else { return };
        // A panic drops the reply, so the caller gets an error. The thread continues with the next job.
        let finished = catch_unwind(AssertUnwindSafe(|| job(&mut connection)));
        if finished.is_err() {
            // Removes the deadline handler first, because it would interrupt the rollback.
            drop(connection.progress_handler(0, None::<fn() -> bool>));
            rollback_open_transaction(&connection);
        }
    }
}

fn rollback_open_transaction(connection: &Connection) {
    if !connection.is_autocommit() {
        drop(connection.execute_batch("rollback"));
    }
}

/// As [`read`]. Interrupts the running statement after `limit`, or when the caller stops waiting.
fn read_with_deadline<T>(
    connection: &mut Connection,
    limit: Duration,
    is_awaited: impl Fn() -> bool + Send + 'static,
    work: impl Work<T>,
) -> Result<T, StoreError> {
    let stop_at = Instant::now() + limit;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&is_stopped);
    let interrupts = move || {
        let interrupts = Instant::now() >= stop_at || !is_awaited();
        stops.fetch_or(interrupts, Ordering::Relaxed);
        interrupts
    };
    let failed = |error: rusqlite::Error| store_error(&error);
    // The deadline handler is installed only between `begin` and `rollback`: if one of these were interrupted, the
    // transaction would stay open.
    begin(connection)?;
    let result = match connection.progress_handler(INSTRUCTIONS_PER_DEADLINE_CHECK, Some(interrupts)) {
        Ok(()) => poll_once(work(&mut SqliteTx { connection: &mut *connection })),
        Err(error) => Err(failed(error)),
    };
    connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
    execute(connection, "rollback", &[])?;
    match result {
        Err(StoreError::Unavailable(_)) if is_stopped.load(Ordering::Relaxed) => {
            Err(StoreError::DeadlineExceeded(limit))
        }
        result => result,
    }
}

/// Runs `work` in a transaction, so that its statements see one snapshot.
fn read<T>(connection: &mut Connection, work: impl Work<T>) -> Result<T, StoreError> {
    begin(connection)?;
    let result = poll_once(work(&mut SqliteTx { connection: &mut *connection }));
    execute(connection, "rollback", &[])?;
    result
}

fn begin(connection: &Connection) -> Result<(), StoreError> {
    rollback_open_transaction(connection);
    execute(connection, "begin", &[])?;
    Ok(())
}

/// Connections for lookups by primary key on the calling thread.
///
/// Use it only for rows of open checks and sign-ins. They are at most minutes old, so their pages are in memory, and a
/// lookup does not block on the disk.
#[derive(Debug)]
pub(super) struct LookupPool(Mutex<Vec<Connection>>);

impl LookupPool {
    pub(super) async fn open(path: PathBuf, connections: usize) -> Result<Self, StoreError> {
        let open_all = move || (0..connections).map(|_| open_without_busy_wait(&path)).collect::<Result<Vec<_>, _>>();
        let idle = tokio::task::spawn_blocking(open_all).await.map_err(|_| thread_stopped_error())??;
        Ok(LookupPool(Mutex::new(idle)))
    }

    /// Returns the first row of a statement. Fails if no connection is idle or the database is locked. The caller then
    /// uses a reader thread.
    pub(super) fn first(&self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        let busy = || StoreError::Unavailable("no idle connection".to_owned());
        let connection = self.idle().pop().ok_or_else(busy)?;
        let found = query_cached(&connection, sql, values);
        self.idle().push(connection);
        Ok(found?.into_iter().next())
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.lock()
    }
}

fn open_without_busy_wait(path: &Path) -> Result<Connection, StoreError> {
    let connection = open(path, Access::Read)?;
    connection.busy_timeout(Duration::ZERO).map_err(|error| store_error(&error))?;
    Ok(connection)
}
