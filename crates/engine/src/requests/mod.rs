//! The log of requests: what a project's callers asked for lately, and what they were answered.
//!
//! It must not cost the callers anything. The door asks a gate first, which lets a few requests of each project and
//! second through and counts the others; what is let through goes into a bounded queue, and is lost and counted when
//! that is full. One task writes down what has gathered, about once a second and in one statement.
//!
//! Nothing secret gets in: see [`mask`]. Calls of the Management API are not here: what they change is in the audit log.

mod gate;
pub mod mask;

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    page::{Page, PageRequest},
    tenancy::ProjectId,
};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    Engine,
    control_plane::Map,
    ports::{KeptRequests, RequestFilter, RequestRecord, StatusClass, StoreError},
};
use gate::Gate;

/// How often what has gathered is written down.
const PAUSE: Duration = Duration::from_secs(1);
/// How many requests wait to be written at most.
const QUEUE: usize = 4_096;
/// How many are written in one statement.
const BATCH: usize = 1_000;
/// Unauthenticated requests are not written while more than so many wait: the rest of the queue is for the others.
const UNAUTHENTICATED_QUEUE: usize = QUEUE / 4;
/// How many requests of a project are kept, and how many more may come before the oldest go.
const KEPT: KeptRequests = KeptRequests { authenticated: 10_000, unauthenticated: 500 };
const STEP: u32 = 1_000;

/// Lets requests into the log, or counts them.
#[derive(Debug)]
pub struct RequestLog {
    /// `None`: there is no log.
    keep: Option<SignedDuration>,
    gates: Map<ProjectId, Gate>,
    queue: mpsc::Sender<RequestRecord>,
    writer: Mutex<Writer>,
    skipped: AtomicU64,
    lost: AtomicU64,
}

#[derive(Debug)]
struct Writer {
    queue: mpsc::Receiver<RequestRecord>,
    /// How many were written since a project was last trimmed. A project that is not here is due.
    untrimmed: HashMap<ProjectId, u32>,
}

/// What did not get into the log, since this node began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omissions {
    /// There were too many in a second.
    pub skipped: u64,
    /// The database was too slow, or away.
    pub lost: u64,
}

impl RequestLog {
    pub(crate) fn new(keep: Option<SignedDuration>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        RequestLog {
            keep,
            gates: Map::default(),
            queue: sender,
            writer: Mutex::new(Writer { queue: receiver, untrimmed: HashMap::new() }),
            skipped: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Whether there is a log at all.
    pub fn is_kept(&self) -> bool {
        self.keep.is_some()
    }

    /// Whether a request that was answered with this status is to be put into the log; and how many like it were not,
    /// since the last that was. Whoever is let in puts it there. `authenticated`: its sender has proved to be the client.
    pub fn admits(&self, project: ProjectId, authenticated: bool, status: u16, at: Timestamp) -> Option<u32> {
        let gates = self.gates.pin();
        let gate = gates.get_or_insert_with(project, Gate::default);
        let skipped = gate.admits(authenticated, StatusClass::of(status), at)?;
        if skipped > 0 {
            self.skipped.fetch_add(skipped.into(), Ordering::Relaxed);
        }
        Some(skipped)
    }

    /// Never waits.
    pub fn put(&self, request: RequestRecord) {
        let waiting = self.queue.max_capacity() - self.queue.capacity();
        let is_crowded = !request.authenticated && waiting >= UNAUTHENTICATED_QUEUE;
        if is_crowded || self.queue.try_send(request).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn omissions(&self) -> Omissions {
        Omissions { skipped: self.skipped.load(Ordering::Relaxed), lost: self.lost.load(Ordering::Relaxed) }
    }
}

impl Engine {
    /// The requests of a project, newest first.
    pub async fn requests(
        &self,
        project: ProjectId,
        filter: &RequestFilter,
        page: PageRequest,
    ) -> Result<Page<RequestRecord>, StoreError> {
        self.store().requests(project, filter, page).await
    }

    /// For how long requests are kept. `None`: not at all.
    pub fn requests_are_kept_for(&self) -> Option<SignedDuration> {
        self.request_log().keep
    }

    /// Writes down what has gathered. Gives how many there were.
    pub async fn write_requests(&self) -> Result<usize, StoreError> {
        let log = self.request_log();
        let mut writer = log.writer.lock().await;
        let mut written = 0;
        loop {
            let batch: Vec<_> = std::iter::from_fn(|| writer.queue.try_recv().ok()).take(BATCH).collect();
            if batch.is_empty() {
                return Ok(written);
            }
            written += batch.len();
            for request in &batch {
                let untrimmed = writer.untrimmed.entry(request.project).or_insert(STEP);
                *untrimmed = untrimmed.saturating_add(1);
            }
            let count = batch.len() as u64;
            if let Err(error) = self.store().keep_requests(batch).await {
                log.lost.fetch_add(count, Ordering::Relaxed);
                return Err(error);
            }
            let due: Vec<_> =
                writer.untrimmed.iter().filter(|(_, count)| **count > STEP).map(|(project, _)| *project).collect();
            for project in due {
                self.store().trim_requests(project, KEPT).await?;
                writer.untrimmed.insert(project, 0);
            }
        }
    }

    /// Writes until `shutdown`, and what has come until then.
    pub async fn keep_writing_requests(&self, shutdown: CancellationToken) {
        loop {
            let goes_on = shutdown.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some();
            if let Err(error) = self.write_requests().await {
                tracing::warn!(%error, "requests could not be written into their log");
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Forgets requests that are older than they are kept for.
    pub(crate) async fn forget_old_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        let keep = self.requests_are_kept_for().unwrap_or_default();
        let before = now.saturating_sub(keep).unwrap_or(Timestamp::MIN);
        let mut forgotten = 0;
        loop {
            match self.store().forget_requests(before).await? {
                0 => return Ok(forgotten),
                some => forgotten += some,
            }
        }
    }
}
