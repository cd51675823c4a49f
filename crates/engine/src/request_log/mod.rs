//! Log of a project's recent API requests and responses.
//!
//! Logging must not slow requests down. For each project, a sampler selects a limited number of requests per second,
//! and counts the others. Selected requests go into a bounded queue. If the queue is full, they are dropped and
//! counted. One task writes the queue to the database once a second, in batches.
//!
//! The log contains no secrets: see [`redaction`]. It omits requests to the Management API, whose changes are in the
//! audit log.

pub mod redaction;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
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
    control_plane::ConcurrentMap,
    ports::{
        request_log::{RequestLogEntry, RequestLogFilter, RequestLogLimits, RequestLogStore, StatusClass},
        store::StoreError,
    },
};

const WRITE_INTERVAL: Duration = Duration::from_secs(1);
const QUEUE_CAPACITY: usize = 4_096;
const MAX_BATCH_ROWS: usize = 1_000;
/// Queue length from which unauthenticated requests are dropped, so that they cannot displace authenticated ones.
const MAX_QUEUED_UNAUTHENTICATED: usize = QUEUE_CAPACITY / 4;
/// How many of a project's newest requests are kept when its log is trimmed.
const RETAINED_REQUESTS: RequestLogLimits = RequestLogLimits { authenticated: 10_000, unauthenticated: 500 };
/// Number of rows written for a project after which its log is trimmed again.
const TRIM_EVERY_ROWS: u32 = 1_000;

/// This node's request log: samples requests, and queues them for writing.
#[derive(derive_more::Debug)]
#[debug("RequestLog")]
pub struct RequestLog {
    store: Arc<dyn RequestLogStore>,
    /// How long requests are kept. `None`: the log is disabled.
    retention: Option<SignedDuration>,
    samplers: ConcurrentMap<ProjectId, RequestSampler>,
    queue: mpsc::Sender<RequestLogEntry>,
    writer: Mutex<Writer>,
    skipped: AtomicU64,
    lost: AtomicU64,
}

#[derive(Debug)]
struct Writer {
    queue: mpsc::Receiver<RequestLogEntry>,
    /// Number of rows written for a project since its last trim. A project without an entry is trimmed after its first
    /// write.
    untrimmed: HashMap<ProjectId, u32>,
}

/// Numbers of requests that are missing in the log, since this node started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingRequests {
    /// Requests that the sampler did not select.
    pub skipped: u64,
    /// Requests dropped because the queue was full or the database failed.
    pub lost: u64,
}

impl RequestLog {
    pub(crate) fn new(store: Arc<dyn RequestLogStore>, retention: Option<SignedDuration>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        RequestLog {
            store,
            retention,
            samplers: ConcurrentMap::default(),
            queue: sender,
            writer: Mutex::new(Writer { queue: receiver, untrimmed: HashMap::new() }),
            skipped: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    pub fn is_enabled(&self) -> bool {
        self.retention.is_some()
    }

    /// Decides whether to log a request with this response status. `Some`: enqueue it, with the number of requests of
    /// the same kind (successful, failed or unauthenticated) that were skipped since the last logged one. `None`: skip
    /// it.
    pub fn sample(&self, project: ProjectId, authenticated: bool, status: u16, at: Timestamp) -> Option<u32> {
        let samplers = self.samplers.pin();
        let sampler = samplers.get_or_insert_with(project, RequestSampler::default);
        let skipped = sampler.sample(authenticated, StatusClass::from_status(status), at)?;
        if skipped > 0 {
            self.skipped.fetch_add(skipped.into(), Ordering::Relaxed);
        }
        Some(skipped)
    }

    /// Queues a sampled request without blocking.
    pub fn enqueue(&self, request: RequestLogEntry) {
        let queued = self.queue.max_capacity() - self.queue.capacity();
        let is_over_limit = !request.authenticated && queued >= MAX_QUEUED_UNAUTHENTICATED;
        if is_over_limit || self.queue.try_send(request).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn missing_requests(&self) -> MissingRequests {
        MissingRequests { skipped: self.skipped.load(Ordering::Relaxed), lost: self.lost.load(Ordering::Relaxed) }
    }

    /// Lists the logged requests of a project, newest first.
    pub async fn list_requests(
        &self,
        project: ProjectId,
        filter: &RequestLogFilter,
        page: PageRequest,
    ) -> Result<Page<RequestLogEntry>, StoreError> {
        self.store.list_requests(project, filter, page).await
    }

    /// Returns how long requests are kept. `None`: the log is disabled.
    pub fn retention(&self) -> Option<SignedDuration> {
        self.retention
    }

    /// Writes the queued requests to the database. Returns the number of written requests.
    pub async fn write_queued_requests(&self) -> Result<usize, StoreError> {
        let mut writer = self.writer.lock().await;
        let mut written = 0;
        loop {
            let batch: Vec<_> = std::iter::from_fn(|| writer.queue.try_recv().ok()).take(MAX_BATCH_ROWS).collect();
            if batch.is_empty() {
                return Ok(written);
            }
            written += batch.len();
            for request in &batch {
                let untrimmed = writer.untrimmed.entry(request.project).or_insert(TRIM_EVERY_ROWS);
                *untrimmed = untrimmed.saturating_add(1);
            }
            let count = batch.len() as u64;
            if let Err(error) = self.store.append_requests(batch).await {
                self.lost.fetch_add(count, Ordering::Relaxed);
                return Err(error);
            }
            let due: Vec<_> = writer
                .untrimmed
                .iter()
                .filter(|(_, count)| **count > TRIM_EVERY_ROWS)
                .map(|(project, _)| *project)
                .collect();
            for project in due {
                self.store.trim_requests(project, RETAINED_REQUESTS).await?;
                writer.untrimmed.insert(project, 0);
            }
        }
    }

    /// Writes queued requests periodically until `shutdown`, and once more afterwards.
    pub async fn run_writer(&self, shutdown: CancellationToken) {
        loop {
            let is_running = shutdown.run_until_cancelled(tokio::time::sleep(WRITE_INTERVAL)).await.is_some();
            if let Err(error) = self.write_queued_requests().await {
                tracing::warn!(%error, "failed to write the request log; requests dropped");
            }
            if !is_running {
                return;
            }
        }
    }

    /// Deletes requests older than the retention. Returns the number of deleted requests.
    pub(crate) async fn delete_old_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        let retention = self.retention.unwrap_or_default();
        let before = now.saturating_sub(retention).unwrap_or(Timestamp::MIN);
        let mut deleted = 0;
        loop {
            match self.store.delete_requests_before(before).await? {
                0 => return Ok(deleted),
                rows => deleted += rows,
            }
        }
    }
}

/// Selects the requests of one project to be logged by this node.
#[derive(Debug, Default)]
struct RequestSampler {
    served: SecondCounter,
    failed: SecondCounter,
    unauthenticated: SecondCounter,
}

/// Limit for successful requests. Lower than the limit for failed ones, because successful requests resemble each
/// other.
const MAX_LOGGED_SUCCESSES_PER_SECOND: u32 = 20;
const MAX_LOGGED_FAILURES_PER_SECOND: u32 = 50;
/// Limit for requests that name a client without proving its identity. It is separate, because anybody can send them.
const MAX_LOGGED_UNAUTHENTICATED_PER_SECOND: u32 = 2;

/// Counts the requests of one second. The upper 32 bits are the second, the lower 32 bits are the count.
#[derive(Debug, Default)]
struct SecondCounter(AtomicU64);

impl RequestSampler {
    /// Decides whether to log a request. `Some`: log it, with the number of requests of the same kind (successful,
    /// failed or unauthenticated) that were skipped since the last logged one. `None`: skip it.
    fn sample(&self, authenticated: bool, class: StatusClass, at: Timestamp) -> Option<u32> {
        if !authenticated {
            return self.unauthenticated.sample(MAX_LOGGED_UNAUTHENTICATED_PER_SECOND, at);
        }
        match class {
            StatusClass::Success => self.served.sample(MAX_LOGGED_SUCCESSES_PER_SECOND, at),
            StatusClass::ClientError | StatusClass::ServerError => {
                self.failed.sample(MAX_LOGGED_FAILURES_PER_SECOND, at)
            }
        }
    }
}

impl SecondCounter {
    fn sample(&self, max: u32, at: Timestamp) -> Option<u32> {
        // The second in 32 bits wraps around after more than a century.
        let second = at.as_second().cast_unsigned() & u64::from(u32::MAX);
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen >> 32 != second {
            match self.0.compare_exchange_weak(seen, (second << 32) + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(before) => return Some(count(before).saturating_sub(max)),
                Err(now) => seen = now,
            }
        }
        // A second never has enough requests to overflow the lower 32 bits.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (count(before) < max).then_some(0)
    }
}

fn count(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + number).unwrap()
    }

    #[test]
    fn sample_is_limited_per_second_and_reports_skipped_requests() {
        let sampler = RequestSampler::default();
        for (class, max) in [(StatusClass::Success, 20), (StatusClass::ClientError, 50)] {
            let sampled = (0..100).filter(|_| sampler.sample(true, class, second(1)).is_some()).count();
            assert_eq!(sampled, max, "{class:?}");
            assert_eq!(sampler.sample(true, class, second(2)), Some(100 - u32::try_from(max).unwrap()), "{class:?}");
            assert_eq!(sampler.sample(true, class, second(2)), Some(0), "{class:?}");
            assert_eq!(sampler.sample(true, class, second(3)), Some(0), "nothing was skipped: {class:?}");
        }
        assert_eq!(
            sampler.sample(true, StatusClass::ServerError, second(3)),
            Some(0),
            "server errors share the limit of client errors"
        );
    }

    #[test]
    fn unauthenticated_requests_have_their_own_limit() {
        let sampler = RequestSampler::default();
        let sampled = |authenticated| {
            (0..100).filter(|_| sampler.sample(authenticated, StatusClass::ClientError, second(1)).is_some()).count()
        };
        assert_eq!((sampled(false), sampled(true)), (2, 50));
        assert_eq!(sampler.sample(false, StatusClass::ClientError, second(2)), Some(98));
        assert_eq!(sampler.sample(true, StatusClass::ClientError, second(2)), Some(50));
    }
}
