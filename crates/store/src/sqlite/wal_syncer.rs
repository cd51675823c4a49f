//! Makes commits durable on a second thread, while the writer continues.
//!
//! The writer's commits append to the write-ahead log in order. The sync thread fsyncs the log, and then completes the
//! jobs of the synced batches. Meanwhile the writer runs the next batch. Batches that are committed during an fsync
//! share the next fsync.
//!
//! Readers can see a commit before it is durable. A read whose result leaves the process therefore waits until every
//! commit that it may have seen is durable ([`DurabilityWatch`]). The log has no gaps: if a commit is durable, all
//! earlier ones are.
//!
//! After a failed fsync the state of the disk is unknown, so every later job and read fails until the process restarts.

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

use ringtrue_engine::ports::store::StoreError;
use tokio::sync::watch;

use super::job::QueuedJob;

const SYNC_FAILED: &str = "WAL fsync failed; restart the process to recover";

/// A committed transaction and the jobs that wait for it to become durable.
pub(super) struct CommittedBatch {
    pub number: u64,
    pub jobs: Vec<Box<dyn QueuedJob>>,
}

/// Tracks which commits are visible to readers, and which are durable.
#[derive(Clone, Debug)]
pub(super) struct DurabilityWatch {
    last_visible: Arc<AtomicU64>,
    last_durable: watch::Receiver<u64>,
}

impl DurabilityWatch {
    /// Waits until every commit that is visible now is durable.
    pub(super) async fn wait_durable(&self) -> Result<(), StoreError> {
        let seen = self.last_visible.load(Ordering::SeqCst);
        if *self.last_durable.borrow() >= seen {
            return Ok(());
        }
        let mut last_durable = self.last_durable.clone();
        let waited = last_durable.wait_for(|durable| *durable >= seen).await.map(drop);
        waited.map_err(|_| StoreError::Unavailable(SYNC_FAILED.to_owned()))
    }
}

/// The writer's handle to the sync thread.
#[derive(Debug)]
pub(super) struct WalSyncer {
    queue: mpsc::Sender<CommittedBatch>,
    last_visible: Arc<AtomicU64>,
    last_number: u64,
}

impl WalSyncer {
    /// Starts the sync thread. `database` must be open already, because the log file does not exist before.
    pub(super) fn start(database: &Path) -> Result<(Self, DurabilityWatch), StoreError> {
        let unavailable = |error| StoreError::Unavailable(format!("cannot open the write-ahead log: {error}"));
        let mut log: OsString = database.canonicalize().map_err(unavailable)?.into_os_string();
        log.push("-wal");
        let log = OpenOptions::new().read(true).write(true).open(log).map_err(unavailable)?;
        Self::with_sync(move || log.sync_data())
    }

    fn with_sync(sync: impl Fn() -> io::Result<()> + Send + 'static) -> Result<(Self, DurabilityWatch), StoreError> {
        let (queue, commits) = mpsc::channel();
        let (durable, last_durable) = watch::channel(0);
        let work = move || run_syncer(sync, &commits, durable);
        let spawned = thread::Builder::new().name("sqlite-wal-sync".to_owned()).spawn(work);
        spawned.map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        let last_visible = Arc::default();
        let watch = DurabilityWatch { last_visible: Arc::clone(&last_visible), last_durable };
        Ok((WalSyncer { queue, last_visible, last_number: 0 }, watch))
    }

    /// Announces a commit and returns its number. Called before the commit, because readers may see the commit as soon
    /// as it is made.
    pub(super) fn announce_commit(&mut self) -> u64 {
        self.last_number += 1;
        self.last_visible.store(self.last_number, Ordering::SeqCst);
        self.last_number
    }

    /// Queues a batch for the next fsync. A batch that failed to commit is queued without jobs, because reads wait for
    /// its announced number.
    pub(super) fn enqueue(&self, batch: CommittedBatch) {
        if let Err(mpsc::SendError(batch)) = self.queue.send(batch) {
            complete_jobs(batch.jobs, &Err(SYNC_FAILED.to_owned()));
        }
    }
}

/// Syncs batches until the writer is dropped or an fsync fails.
fn run_syncer(
    sync: impl Fn() -> io::Result<()>,
    commits: &mpsc::Receiver<CommittedBatch>,
    last_durable: watch::Sender<u64>,
) {
    while let Ok(first) = commits.recv() {
        let mut batches = vec![first];
        batches.extend(commits.try_iter());
        if let Err(error) = sync() {
            tracing::error!(%error, "WAL fsync failed; refusing writes until restart");
            drop(last_durable);
            for batch in batches.into_iter().chain(commits) {
                complete_jobs(batch.jobs, &Err(SYNC_FAILED.to_owned()));
            }
            return;
        }
        if let Some(last) = batches.last() {
            last_durable.send_replace(last.number);
        }
        for batch in batches {
            complete_jobs(batch.jobs, &Ok(()));
        }
    }
}

pub(super) fn complete_jobs(jobs: Vec<Box<dyn QueuedJob>>, outcome: &Result<(), String>) {
    for job in jobs {
        job.complete(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use tokio::sync::oneshot;

    use super::*;

    struct TestJob(oneshot::Sender<Result<(), String>>);

    impl QueuedJob for TestJob {
        fn is_awaited(&self) -> bool {
            true
        }

        fn waits_for_sync(&self) -> bool {
            true
        }

        fn complete(self: Box<Self>, batch: &Result<(), String>) {
            // Sending fails if the test no longer waits.
            let _ = self.0.send(batch.clone());
        }
    }

    async fn commit_succeeds(syncer: &mut WalSyncer) -> bool {
        let (reply, result) = oneshot::channel();
        let number = syncer.announce_commit();
        syncer.enqueue(CommittedBatch { number, jobs: vec![Box::new(TestJob(reply))] });
        result.await.unwrap().is_ok()
    }

    #[tokio::test]
    async fn failed_sync_fails_all_later_commits_and_reads() {
        let fails = Arc::new(AtomicBool::new(false));
        let is_failing = Arc::clone(&fails);
        let sync = move || if is_failing.load(Ordering::SeqCst) { Err(io::Error::other("no")) } else { Ok(()) };
        let (mut syncer, watch) = WalSyncer::with_sync(sync).unwrap();
        assert!(commit_succeeds(&mut syncer).await && watch.wait_durable().await.is_ok());

        fails.store(true, Ordering::SeqCst);
        assert!(!commit_succeeds(&mut syncer).await);
        let unavailable = |result| matches!(result, Err(StoreError::Unavailable(reason)) if reason == SYNC_FAILED);
        assert!(unavailable(watch.wait_durable().await));

        // Later fsyncs succeed, but prove nothing: the kernel reports a failed fsync only once, and may have dropped
        // the pages.
        fails.store(false, Ordering::SeqCst);
        for _ in 0..3 {
            assert!(!commit_succeeds(&mut syncer).await);
            assert!(unavailable(watch.wait_durable().await));
        }
    }

    #[tokio::test]
    async fn reads_wait_until_visible_commits_are_durable() {
        let (finish_sync, sync_finished) = mpsc::channel();
        let sync = move || sync_finished.recv().map_err(io::Error::other);
        let (mut syncer, watch) = WalSyncer::with_sync(sync).unwrap();
        watch.wait_durable().await.unwrap();
        let (reply, mut result) = oneshot::channel();
        let number = syncer.announce_commit();
        let mut read = std::pin::pin!(watch.wait_durable());
        assert!(futures_util::poll!(read.as_mut()).is_pending(), "an announced commit may be visible");
        syncer.enqueue(CommittedBatch { number, jobs: vec![Box::new(TestJob(reply))] });
        assert!(futures_util::poll!(read.as_mut()).is_pending());
        assert!(result.try_recv().is_err());
        finish_sync.send(()).unwrap();
        read.await.unwrap();
        assert_eq!(result.await, Ok(Ok(())));
    }
}
