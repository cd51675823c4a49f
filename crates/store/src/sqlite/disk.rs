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
    fs::OpenOptions,
    io,
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
        Self::over(move || log.sync_data())
    }

    /// `sync` brings the log to the disk.
    fn over(sync: impl Fn() -> io::Result<()> + Send + 'static) -> Result<(Self, Tide), StoreError> {
        let (queue, commits) = mpsc::channel();
        let (safe, is_safe) = watch::channel(0);
        let work = move || serve(sync, &commits, safe);
        let spawned = thread::Builder::new().name("sqlite-disk".to_owned()).spawn(work);
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
fn serve(sync: impl Fn() -> io::Result<()>, commits: &mpsc::Receiver<Committed>, safe: watch::Sender<u64>) {
    while let Ok(first) = commits.recv() {
        let mut batch = vec![first];
        batch.extend(commits.try_iter());
        if let Err(error) = sync() {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use tokio::sync::oneshot;

    use super::*;

    /// Somebody who has written, and waits to hear that it is safe.
    struct Waiting(oneshot::Sender<Result<(), String>>);

    impl Job for Waiting {
        fn is_wanted(&self) -> bool {
            true
        }

        fn is_a_promise(&self) -> bool {
            true
        }

        fn answer(self: Box<Self>, batch: &Result<(), String>) {
            // Whoever waits may have gone.
            let _ = self.0.send(batch.clone());
        }
    }

    /// Commits something, and says whether that was promised.
    async fn is_kept(disk: &mut Disk) -> bool {
        let (reply, answer) = oneshot::channel();
        let number = disk.expect();
        disk.keep(Committed { number, jobs: vec![Box::new(Waiting(reply))] });
        answer.await.unwrap().is_ok()
    }

    #[tokio::test]
    async fn after_a_failure_nothing_is_promised_any_more_even_if_the_disk_recovers() {
        let fails = Arc::new(AtomicBool::new(false));
        let is_failing = Arc::clone(&fails);
        let sync = move || if is_failing.load(Ordering::SeqCst) { Err(io::Error::other("no")) } else { Ok(()) };
        let (mut disk, tide) = Disk::over(sync).unwrap();
        assert!(is_kept(&mut disk).await && tide.has_come().await.is_ok());

        fails.store(true, Ordering::SeqCst);
        assert!(!is_kept(&mut disk).await);
        // What may be lost is not told to those who read it, either.
        let unavailable = |answer| matches!(answer, Err(StoreError::Unavailable(reason)) if reason == FAILED);
        assert!(unavailable(tide.has_come().await));

        // The system may have thrown away what it could not write, and says so once only.
        fails.store(false, Ordering::SeqCst);
        for _ in 0..3 {
            assert!(!is_kept(&mut disk).await);
            assert!(unavailable(tide.has_come().await));
        }
    }

    #[tokio::test]
    async fn who_reads_waits_until_what_may_have_been_seen_is_safe() {
        let (go_on, wait) = mpsc::channel();
        let (mut disk, tide) = Disk::over(move || wait.recv().map_err(io::Error::other)).unwrap();
        tide.has_come().await.unwrap();
        let (reply, mut answer) = oneshot::channel();
        let number = disk.expect();
        let mut reading = std::pin::pin!(tide.has_come());
        assert!(futures_util::poll!(reading.as_mut()).is_pending(), "it may be seen from now on");
        disk.keep(Committed { number, jobs: vec![Box::new(Waiting(reply))] });
        assert!(futures_util::poll!(reading.as_mut()).is_pending());
        assert!(answer.try_recv().is_err());
        go_on.send(()).unwrap();
        reading.await.unwrap();
        assert_eq!(answer.await, Ok(Ok(())));
    }
}
