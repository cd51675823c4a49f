//! The threads that read, each with a connection of its own that cannot write.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use ringtrue_engine::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    connection::{Access, SqliteTx, at_once, execute, open},
    stopped,
};
use crate::driver::{Reading, Tx};

const QUEUE: usize = 8_192;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

#[derive(Debug)]
pub(super) struct Readers {
    queue: mpsc::Sender<Job>,
}

impl Readers {
    pub(super) async fn start(path: &Path, threads: usize) -> Result<Self, StoreError> {
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
            let spawned = thread::Builder::new().name(format!("sqlite-reader-{number}")).spawn(work);
            spawned.map_err(|error| StoreError::Unavailable(format!("no thread can be started: {error}")))?;
            is_open.await.map_err(|_| stopped())??;
        }
        Ok(Readers { queue })
    }

    pub(super) async fn run<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            if !reply.is_closed() {
                // A caller that has gone away does not need its answer.
                drop(reply.send(read(connection, work)));
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
        if finished.is_err() && !connection.is_autocommit() {
            drop(connection.execute_batch("rollback"));
        }
    }
}

/// Between `begin` and its end every statement sees the same state.
fn read<T, W>(connection: &mut Connection, work: W) -> Result<T, StoreError>
where
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T>,
{
    execute(connection, "begin", &[])?;
    let answer = at_once(work(&mut SqliteTx { connection: &mut *connection }));
    execute(connection, "rollback", &[])?;
    answer
}
