//! Delivers callbacks: the HTTP requests that notify a customer's server that a check has concluded.
//!
//! The body is rendered once ([`payload`]), when the check is concluded, and stored in the same transaction. The
//! [`Courier`] signs it ([`ringtrue_callback_signature`]) and posts it until the receiver responds with 200. The
//! courier gives up after seven failed attempts, or later if the project configures a longer retry period
//! ([`RetryFor`]). URL, body, and the request and response of each attempt are stored encrypted ([`sealing`]).
//!
//! The transaction that concludes a check also writes its callback row, already leased to the node that concludes the
//! check: for 30 seconds, no other node sends the callback. The concluding node passes the callback to
//! [`Courier::enqueue_committed`], so the first attempt needs no database read. [`Courier::send_due`] leases callbacks
//! that are due for a retry, and those whose node died.
//!
//! Callbacks are leased, not locked: a request may take ten seconds, too long to keep a transaction open. A queued
//! callback with too little lease time left is dropped from memory and leased again later, by any node.
//!
//! Delivery is at least once: after a crash between sending a request and storing its result, the attempt is repeated.
//! Receivers deduplicate by `check_id`. Callbacks of different checks are sent in any order. Retries have no jitter,
//! because the API contract fixes the retry intervals.

mod attempt;
mod exchange;
mod metrics;
mod outbox;
pub mod payload;
mod scheduler;
pub mod sealing;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::{
    callback::RetryFor,
    tenancy::{ProjectId, WorkspaceId},
    web_url::CallbackUrl,
};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use attempt::AttemptSlot;
pub use attempt::{TestCallbackResult, UNREADABLE_FAILURE};
pub use exchange::{Exchange, ReceivedResponse, SentRequest};
use metrics::{CourierCounters, add};
pub use metrics::{CourierMetrics, LATENCY_BOUNDS_MILLIS};
pub(crate) use outbox::Outbox;
pub use scheduler::CourierLimits;
use scheduler::{AttemptResult, Scheduler, Tenant};

use crate::{
    activity::ActivityRecorder,
    control_plane::ControlPlane,
    keys::KeyRing,
    ports::{
        callbacks::{CallbackStore, LeasedCallback},
        clock::Clock,
        entropy::Entropy,
        store::StoreError,
        transport::Transport,
    },
    signing_pool::SigningPool,
};

/// How long a node has the exclusive right to send a callback. If the node dies, other nodes send the callback after
/// this time.
pub const LEASE_DURATION: SignedDuration = SignedDuration::from_secs(30);
/// Minimum lease time left to start an attempt: ten seconds for the request, plus time to sign it and store its result.
const MIN_LEASE_LEFT: SignedDuration = SignedDuration::from_secs(15);
/// Maximum duration of a request. A safety net: the transport's own timeouts are shorter.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(11);
/// If an attempt runs for longer than this, its destination is treated as slow, even before the attempt ends. Fewer
/// attempts to slow destinations run at the same time.
const SLOW_ATTEMPT_THRESHOLD: Duration = Duration::from_secs(1);
/// Maximum time between two polls for due callbacks. Applies even if no callback is known to be due, because another
/// node may die, and this node then has to send its callbacks.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between two polls, so that a node does not poll in a tight loop while its queues are full.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Minimum time until the next poll if a poll skipped projects, because their queues are full.
const BACKLOG_POLL_INTERVAL: SignedDuration = SignedDuration::from_millis(250);
/// How long polls skip a project after most of its leased callbacks found no room in the queues. This happens if the
/// queues of single destinations are full, although the project as a whole may queue more.
const REFUSED_PROJECT_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// Maximum number of callbacks that one query leases.
const MAX_PAGE_ROWS: usize = 512;
/// Maximum number of projects that one query for due callbacks excludes, because their queues are full.
const MAX_SKIPPED_PROJECTS: usize = 256;
/// How long shutdown waits for running attempts to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(13);

/// Provides the current keys, which rotate while the courier runs.
pub trait KeySource: Send + Sync {
    fn key_ring(&self) -> Arc<KeyRing>;
}

impl KeySource for ControlPlane {
    fn key_ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.keys())
    }
}

impl KeySource for Arc<KeyRing> {
    fn key_ring(&self) -> Arc<KeyRing> {
        Arc::clone(self)
    }
}

/// Looks up the workspace and the retry setting of a project.
pub trait ProjectLookup: Send + Sync {
    /// Returns the workspace of a project. `None`: this node has not loaded the project yet.
    fn workspace_of(&self, project: ProjectId) -> Option<WorkspaceId>;

    fn retry_for(&self, project: ProjectId) -> RetryFor;
}

impl ProjectLookup for ControlPlane {
    fn workspace_of(&self, project: ProjectId) -> Option<WorkspaceId> {
        ControlPlane::workspace_of(self, project)
    }

    fn retry_for(&self, project: ProjectId) -> RetryFor {
        self.project(project).and_then(|project| project.configuration.callbacks.retry_for).unwrap_or_default()
    }
}

#[derive(derive_more::Debug)]
#[debug("CourierDependencies({limits:?})")]
pub struct CourierDependencies {
    pub store: Arc<dyn CallbackStore>,
    pub transport: Arc<dyn Transport>,
    pub keys: Arc<dyn KeySource>,
    pub projects: Arc<dyn ProjectLookup>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub activity: Arc<ActivityRecorder>,
    pub limits: CourierLimits,
    pub signing_pool: SigningPool,
}

/// Delivers callbacks. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("Courier({:?})", self.metrics())]
pub struct Courier(Arc<Inner>);

struct Inner {
    dependencies: CourierDependencies,
    scheduler: Mutex<Scheduler<Job>>,
    /// For each project that polls skip, the time until which they skip it (see [`REFUSED_PROJECT_PAUSE`]). At most
    /// [`MAX_SKIPPED_PROJECTS`].
    paused_projects: Mutex<HashMap<ProjectId, Timestamp>>,
    counters: CourierCounters,
    tasks: TaskTracker,
    /// Notified to poll for due callbacks at once.
    wake_signal: Notify,
    is_closing: AtomicBool,
}

/// A leased callback in this node's queues.
struct Job {
    callback: LeasedCallback,
    url: CallbackUrl,
    lease_until: Timestamp,
}

/// How many callbacks of one project a query leased, and how many of them found no room in the queues.
#[derive(Clone, Copy, Debug, Default)]
struct ProjectPageCounts {
    leased: usize,
    refused: usize,
}

impl Courier {
    pub fn new(dependencies: CourierDependencies) -> Self {
        let tasks = TaskTracker::new();
        // `wait` returns only if the tracker is closed. A closed tracker still accepts new tasks.
        tasks.close();
        Courier(Arc::new(Inner {
            scheduler: Mutex::new(Scheduler::new(dependencies.limits)),
            paused_projects: Mutex::default(),
            dependencies,
            counters: CourierCounters::default(),
            tasks,
            wake_signal: Notify::new(),
            is_closing: AtomicBool::new(false),
        }))
    }

    /// Returns the due time for a new callback row. If this node's queues have room for the project, the due time is
    /// the end of the lease under which this node sends the callback. Otherwise it is `now`, so that the next poll of
    /// any node leases the callback.
    pub fn initial_due_at(&self, project: ProjectId, now: Timestamp) -> Timestamp {
        let has_room = !self.is_closing() && self.scheduler().has_room(self.tenant(project));
        if has_room { lease_end(now) } else { now }
    }

    /// Queues a callback whose row is committed. `lease_until` is the row's due time, from
    /// [`initial_due_at`](Courier::initial_due_at). Never blocks. If the queues are full, a poll sends the callback
    /// after its lease has expired.
    pub fn enqueue_committed(&self, callback: LeasedCallback, lease_until: Timestamp) {
        if lease_until <= self.now() {
            // The project had no room in the queues when the row was written, so the row has no lease. The next poll
            // leases it.
            return;
        }
        let _ = self.enqueue(callback, lease_until);
        self.start_attempts();
    }

    /// Leases as many due callbacks as the queues have room for, and starts to send them. Returns when to poll next, or
    /// `None` if no callback waits.
    pub async fn send_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let page = (self.0.dependencies.limits.queue / 8).clamp(1, MAX_PAGE_ROWS);
        let mut earliest = Timestamp::MIN;
        loop {
            let now = self.now();
            // Skips projects with full queues, so that their due callbacks do not crowd out those of other projects.
            let (room, mut skipped) = {
                let scheduler = self.scheduler();
                (scheduler.free_capacity().min(page), scheduler.projects_without_room(page, MAX_SKIPPED_PROJECTS))
            };
            if room == 0 || self.is_closing() {
                break;
            }
            skipped.extend(self.paused_projects(now));
            skipped.sort_unstable();
            skipped.dedup();
            skipped.truncate(MAX_SKIPPED_PROJECTS);
            if !skipped.is_empty() {
                earliest = now.saturating_add(BACKLOG_POLL_INTERVAL).unwrap_or(Timestamp::MAX);
            }
            let lease_until = lease_end(now);
            let limit = u32::try_from(room).unwrap_or(u32::MAX);
            let leased = self.0.dependencies.store.lease_due_callbacks(now, lease_until, limit, &skipped).await?;
            let count = leased.len();
            let mut enqueued = 0;
            let mut by_project: HashMap<ProjectId, ProjectPageCounts> = HashMap::new();
            for callback in leased {
                let share = by_project.entry(callback.project).or_default();
                share.leased += 1;
                if self.enqueue(callback, lease_until).is_some() {
                    enqueued += 1;
                } else {
                    share.refused += 1;
                }
            }
            self.pause_refused(&by_project, now);
            self.start_attempts();
            // If most of the leased callbacks found no room, the queues of their destinations are full. Each further
            // lease would cost a database write without an attempt.
            if count < room || enqueued == 0 || enqueued < count / 2 {
                break;
            }
        }
        Ok(self.0.dependencies.store.next_callback_due_at().await?.map(|due| due.max(earliest)))
    }

    /// Triggers a poll for due callbacks.
    pub fn wake(&self) {
        self.0.wake_signal.notify_one();
    }

    /// Waits until no attempt is running.
    pub async fn wait_until_idle(&self) {
        self.0.tasks.wait().await;
    }

    /// Sends due callbacks until `shutdown`, then waits for running attempts, and releases the leases of queued
    /// callbacks.
    pub async fn run(&self, shutdown: CancellationToken) {
        let mut was_ok = true;
        while !shutdown.is_cancelled() {
            // A shutdown does not cancel a running poll. Callbacks that the poll has leased but not queued yet could
            // not be released, and no node would send them until their leases expire.
            let polled = self.send_due().await;
            match &polled {
                Err(error) if was_ok => tracing::warn!(%error, "failed to query due callbacks"),
                Ok(_) if !was_ok => tracing::info!("query of due callbacks recovered"),
                _ => {}
            }
            was_ok = polled.is_ok();
            let pause = polled.ok().flatten().map_or(MAX_POLL_INTERVAL, |due| {
                duration_until(due, self.now()).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
            });
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = self.0.wake_signal.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.close().await;
    }

    pub fn metrics(&self) -> CourierMetrics {
        let (waiting, in_flight) = {
            let scheduler = self.scheduler();
            (scheduler.waiting(), scheduler.in_flight())
        };
        self.0.counters.snapshot(waiting, in_flight)
    }

    /// Makes this node start no more attempts. Other nodes send the remaining callbacks.
    pub fn stop_sending(&self) {
        self.0.is_closing.store(true, Ordering::SeqCst);
    }

    async fn close(&self) {
        self.stop_sending();
        self.release_leases().await;
        if tokio::time::timeout(DRAIN_TIMEOUT, self.wait_until_idle()).await.is_err() {
            tracing::warn!(
                callbacks = self.scheduler().in_flight(),
                "shutdown drain timed out; callbacks will be retried"
            );
        }
        // Checks that were concluded while the running attempts ended may have queued more callbacks.
        self.release_leases().await;
    }

    /// Releases the leases of queued callbacks, so that other nodes can send them at once. Checks that are concluded
    /// after [`run`](Courier::run) has ended may queue more callbacks, so call this again after the last such check.
    pub async fn release_leases(&self) {
        let waiting = self.scheduler().drain();
        let waiting: Vec<_> = waiting.into_iter().map(|job| (job.callback.check, job.lease_until)).collect();
        if waiting.is_empty() {
            return;
        }
        let callbacks = waiting.len();
        if let Err(error) = self.0.dependencies.store.release_leases(waiting, self.now()).await {
            tracing::warn!(%error, callbacks, "failed to release callback leases; they will expire");
        }
    }

    /// Queues a callback. `None`: the queues have no room for it. If its URL cannot be decrypted, records a failed
    /// attempt instead and returns `Some`.
    fn enqueue(&self, callback: LeasedCallback, lease_until: Timestamp) -> Option<()> {
        let keys = self.0.dependencies.keys.key_ring();
        let Some(url) = sealing::unseal_url(&keys, callback.check, &callback.url) else {
            let courier = self.clone();
            self.0.tasks.spawn(async move { courier.settle_unreadable(&callback).await });
            return Some(());
        };
        let destination = destination_name(callback.project, &url);
        let has_failed = callback.failed_attempts > callback.earlier_attempts;
        let tenant = self.tenant(callback.project);
        let refused = self.scheduler().push(tenant, &destination, has_failed, Job { callback, url, lease_until });
        if refused.is_err() {
            add(&self.0.counters.deferred, 1);
        }
        refused.ok()
    }

    fn paused_projects(&self, now: Timestamp) -> Vec<ProjectId> {
        let mut paused = self.0.paused_projects.lock();
        paused.retain(|_, until| *until > now);
        paused.keys().copied().collect()
    }

    /// Makes polls skip the projects for which most of the leased callbacks found no room in the queues.
    fn pause_refused(&self, by_project: &HashMap<ProjectId, ProjectPageCounts>, now: Timestamp) {
        let until = now.saturating_add(REFUSED_PROJECT_PAUSE).unwrap_or(Timestamp::MAX);
        let mut paused = self.0.paused_projects.lock();
        for (project, share) in by_project {
            if share.refused > share.leased / 2 && paused.len() < MAX_SKIPPED_PROJECTS {
                paused.insert(*project, until);
            }
        }
    }

    /// Starts attempts until the scheduler has no slot or no queued callback left. Drops callbacks whose lease is about
    /// to expire. A later poll of any node leases them again.
    fn start_attempts(&self) {
        loop {
            if self.is_closing() {
                return;
            }
            let Some((grant, job)) = self.scheduler().next() else { return };
            let slot = AttemptSlot { courier: self.clone(), grant, result: AttemptResult::NotAttempted };
            if job.lease_until.duration_since(self.now()) < MIN_LEASE_LEFT {
                add(&self.0.counters.deferred, 1);
                continue;
            }
            let courier = self.clone();
            self.0.tasks.spawn(async move {
                let mut slot = slot;
                courier.attempt(job, &mut slot).await;
                drop(slot);
                courier.start_attempts();
            });
        }
    }

    /// Returns the workspace and project whose queued callbacks and running attempts the scheduler limits together. A
    /// project that this node has not loaded yet counts as a workspace of its own.
    fn tenant(&self, project: ProjectId) -> Tenant {
        let workspace = self.0.dependencies.projects.workspace_of(project);
        Tenant { workspace: workspace.unwrap_or(WorkspaceId(project.0)), project }
    }

    fn scheduler(&self) -> MutexGuard<'_, Scheduler<Job>> {
        // A panic does not poison a `parking_lot` lock. That is safe here, because the scheduler does not panic
        // half-way.
        self.0.scheduler.lock()
    }

    fn now(&self) -> Timestamp {
        self.0.dependencies.clock.now()
    }

    fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::SeqCst)
    }
}

fn lease_end(now: Timestamp) -> Timestamp {
    now.saturating_add(LEASE_DURATION).unwrap_or(Timestamp::MAX)
}

fn duration_until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// Names the destination of a callback by project, scheme, host and port. The name includes the project, so that
/// projects with the same host do not share a queue.
fn destination_name(project: ProjectId, url: &CallbackUrl) -> String {
    let scheme = if url.is_https() { "https" } else { "http" };
    format!("{project} {scheme}://{}", url.authority())
}
