//! Making commits durable, one thread behind the writer.
//!
//! The writer's commits end in the write-ahead log, in their order. This thread has the system bring the log to the disk,
//! and only then are those told who were in them; meanwhile the writer goes on. Whoever comes while the disk is busy goes
//! with its next turn.
//!
//! Others could see what is committed before it is safe. So whoever has read for an answer waits until what it may have
//! seen is. What came before a commit that is safe is safe too: a log has no gaps.
//!
//! After a failure nobody can know what the disk has. Then nothing is promised any more, until the process is started
//! again and reads what is there.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use ringtrue_engine::ports::StoreError;
use tokio::sync::watch;

use super::writer::Job;

const FAILED: &str = "the disk has failed to keep what was written";

/// What one transaction has promised.
pub(super) struct Committed {
    pub number: u64,
    pub jobs: Vec<Box<dyn Job>>,
}

/// How far the disk is behind.
#[derive(Clone, Debug)]
pub(super) struct Tide {
    /// The last transaction that others may see.
    visible: Arc<AtomicU64>,
    /// The last one that the disk has.
    safe: watch::Receiver<u64>,
}

impl Tide {
    /// Waits until everything is safe that can have been seen.
    pub(super) async fn has_come(&self) -> Result<(), StoreError> {
        let seen = self.visible.load(Ordering::SeqCst);
        if *self.safe.borrow() >= seen {
            return Ok(());
        }
        let mut safe = self.safe.clone();
        let came = safe.wait_for(|safe| *safe >= seen).await.map(drop);
        came.map_err(|_| StoreError::Unavailable(FAILED.to_owned()))
    }
}

/// The writer's end.
#[derive(Debug)]
pub(super) struct Disk {
    queue: mpsc::Sender<Committed>,
    visible: Arc<AtomicU64>,
    number: u64,
}

impl Disk {
    /// `database` is open, so that its log is there.
    pub(super) fn start(database: &Path) -> Result<(Self, Tide), StoreError> {
        let unavailable = |error| StoreError::Unavailable(format!("the log of the database cannot be opened: {error}"));
        let mut log: OsString = database.canonicalize().map_err(unavailable)?.into_os_string();
        log.push("-wal");
        let log = OpenOptions::new().read(true).write(true).open(log).map_err(unavailable)?;
        let (queue, commits) = mpsc::channel();
        let (safe, is_safe) = watch::channel(0);
        let spawned = thread::Builder::new().name("sqlite-disk".to_owned()).spawn(move || serve(&log, &commits, safe));
        spawned.map_err(|error| StoreError::Unavailable(format!("no thread can be started: {error}")))?;
        let visible = Arc::default();
        let tide = Tide { visible: Arc::clone(&visible), safe: is_safe };
        Ok((Disk { queue, visible, number: 0 }, tide))
    }

    /// Before a commit: from now on others may see it.
    pub(super) fn expect(&mut self) -> u64 {
        self.number += 1;
        self.visible.store(self.number, Ordering::SeqCst);
        self.number
    }

    /// After a commit, or after one that failed and promises nothing.
    pub(super) fn keep(&self, committed: Committed) {
        if let Err(mpsc::SendError(committed)) = self.queue.send(committed) {
            answer(committed.jobs, &Err(FAILED.to_owned()));
        }
    }
}

/// Until the writer is gone, or the disk fails.
fn serve(log: &File, commits: &mpsc::Receiver<Committed>, safe: watch::Sender<u64>) {
    while let Ok(first) = commits.recv() {
        let mut batch = vec![first];
        batch.extend(commits.try_iter());
        if let Err(error) = log.sync_data() {
            tracing::error!(%error, "the disk does not keep what is written: nothing is promised before a restart");
            drop(safe);
            for committed in batch.into_iter().chain(commits) {
                answer(committed.jobs, &Err(FAILED.to_owned()));
            }
            return;
        }
        if let Some(last) = batch.last() {
            safe.send_replace(last.number);
        }
        for committed in batch {
            answer(committed.jobs, &Ok(()));
        }
    }
}

pub(super) fn answer(jobs: Vec<Box<dyn Job>>, outcome: &Result<(), String>) {
    for job in jobs {
        job.answer(outcome);
    }
}
