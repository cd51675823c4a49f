//! Delivering callbacks.
//!
//! A callback is a row written in the transaction that ends its check, so a check cannot end without one. The node
//! that ends a check writes the row leased to itself and hands it to [`Courier::deliver`]: the first attempt needs no
//! read. Retries, and what a dead node held, are leased by [`Courier::tick`].
//!
//! A lease, not a lock: a receiver may take ten seconds, and no transaction should live that long. What waits in
//! memory until too little of its lease is left is dropped there and leased again later, by whoever comes first.
//!
//! Delivery is at least once. A crash between sending and settling sends again; receivers deduplicate by `check_id`.
//!
//! Deliberately absent: order between checks, jitter (the gaps are part of the contract), and any knowledge of
//! products (see [`payload`](super::payload)).

mod attempt;
mod scheduler;
mod signing;
mod tally;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool, atomic::Ordering},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    tenancy::{ProjectId, WorkspaceId},
    web_url::CallbackUrl,
};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use attempt::Slot;
pub use attempt::UNREADABLE;
pub use scheduler::Limits;
use scheduler::{Ended, Scheduler, Tenant};
use signing::SigningDesk;
pub use tally::{Figures, LATENCY_BOUNDS};
use tally::{Tally, add};

use super::sealing;
use crate::{
    activity::Activity,
    control_plane::ControlPlane,
    keys::KeyRing,
    ports::{CallbackStore, Clock, Entropy, LeasedCallback, StoreError, Transport},
};

/// How long a callback is held by the node that sends it. A node that dies delays what it held by so much.
pub const LEASE: SignedDuration = SignedDuration::from_secs(30);
/// What must be left of a lease when an attempt starts: the attempt's ten seconds, and time to sign and to settle.
const NEEDED: SignedDuration = SignedDuration::from_secs(15);
/// How long the longest attempt may take; the transport's own bounds are tighter.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(11);
/// An attempt that takes longer marks its destination as slow.
const SLOW_ATTEMPT: Duration = Duration::from_secs(1);
/// How often rows are looked for when nothing says when the next is due: other nodes' rows become due, too.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest pause between two looks, for when more is due than there is room for.
const BREATH: Duration = Duration::from_millis(20);
/// The shortest pause while due rows of some projects wait in the store because their tenants' memory is full.
const BACKLOG_POLL_INTERVAL: SignedDuration = SignedDuration::from_millis(250);
/// How long a project's rows stay in the store after most of those that were leased found no room: its tenant's memory
/// may have some while the queues of its receivers are full.
const REFUSED_PROJECT_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// Rows leased at once, at most.
const MAX_PAGE_ROWS: usize = 512;
/// Projects that one query passes over.
const MAX_SKIPPED_PROJECTS: usize = 256;
/// How long shutdown waits for attempts under way.
const FAREWELL: Duration = Duration::from_secs(13);

/// Where the courier finds the keys of the moment.
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

/// The owner of a project. `None`: this node has not heard of the project yet.
pub trait WorkspaceLookup: Send + Sync {
    fn workspace_of(&self, project: ProjectId) -> Option<WorkspaceId>;
}

impl WorkspaceLookup for ControlPlane {
    fn workspace_of(&self, project: ProjectId) -> Option<WorkspaceId> {
        ControlPlane::workspace_of(self, project)
    }
}

/// What a courier is made of.
pub struct CourierParts {
    pub store: Arc<dyn CallbackStore>,
    pub transport: Arc<dyn Transport>,
    pub keys: Arc<dyn KeySource>,
    pub workspaces: Arc<dyn WorkspaceLookup>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub activity: Arc<Activity>,
    pub limits: Limits,
}

/// Delivers callbacks. Cheap to clone.
#[derive(Clone)]
pub struct Courier(Arc<Inner>);

struct Inner {
    parts: CourierParts,
    scheduler: Mutex<Scheduler<Job>>,
    /// Projects whose rows are not leased until then. At most [`MAX_SKIPPED_PROJECTS`].
    paused_projects: Mutex<HashMap<ProjectId, Timestamp>>,
    desk: SigningDesk,
    tally: Tally,
    tasks: TaskTracker,
    /// Something may be due, or there is room again.
    nudge: Notify,
    is_closing: AtomicBool,
}

/// A callback in memory.
struct Job {
    callback: LeasedCallback,
    url: CallbackUrl,
    lease_until: Timestamp,
}

/// What became of one project's rows of a page.
#[derive(Clone, Copy, Debug, Default)]
struct PageShare {
    leased: usize,
    refused: usize,
}

impl Courier {
    pub fn new(parts: CourierParts) -> Self {
        let tasks = TaskTracker::new();
        // Tasks can still be spawned: closed means that `wait` ends when there are none.
        tasks.close();
        Courier(Arc::new(Inner {
            scheduler: Mutex::new(Scheduler::new(parts.limits)),
            paused_projects: Mutex::default(),
            parts,
            desk: SigningDesk::new(),
            tally: Tally::default(),
            tasks,
            nudge: Notify::new(),
            is_closing: AtomicBool::new(false),
        }))
    }

    /// When the row of a callback that is written now is due: at the end of a lease if this node will send it from
    /// memory, at once if the project has no room in it.
    pub fn first_due(&self, project: ProjectId, now: Timestamp) -> Timestamp {
        let has_room = !self.is_closing() && self.scheduler().has_room(self.tenant(project));
        if has_room { end_of_lease(now) } else { now }
    }

    /// Sends a callback whose row was written with [`first_due`](Courier::first_due), and has been committed. Never
    /// waits. What there is no room for is sent when its lease has run out.
    pub fn deliver(&self, callback: LeasedCallback, lease_until: Timestamp) {
        if lease_until <= self.now() {
            // Its project has no room: the next look at the store finds it.
            return;
        }
        let _ = self.take(callback, lease_until);
        self.start();
    }

    /// Leases what is due, as far as there is room, and starts sending it. Says when more will be due.
    pub async fn tick(&self) -> Result<Option<Timestamp>, StoreError> {
        let page = (self.0.parts.limits.queued / 8).clamp(1, MAX_PAGE_ROWS);
        let mut earliest = Timestamp::MIN;
        loop {
            let now = self.now();
            // Projects without memory for a page are passed over, so that a backlog hides nobody else's rows.
            let (room, mut skipped) = {
                let scheduler = self.scheduler();
                (scheduler.room().min(page), scheduler.projects_without_room(page, MAX_SKIPPED_PROJECTS))
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
            let lease_until = end_of_lease(now);
            let limit = u32::try_from(room).unwrap_or(u32::MAX);
            let leased = self.0.parts.store.lease_due(now, lease_until, limit, &skipped).await?;
            let count = leased.len();
            let mut taken = 0;
            let mut by_project: HashMap<ProjectId, PageShare> = HashMap::new();
            for callback in leased {
                let share = by_project.entry(callback.project).or_default();
                share.leased += 1;
                if self.take(callback, lease_until).is_some() {
                    taken += 1;
                } else {
                    share.refused += 1;
                }
            }
            self.pause_refused(&by_project, now);
            self.start();
            // A page that finds no room belongs to receivers that are behind: more of theirs would fare no better, and
            // would only be written for nothing.
            if count < room || taken == 0 || taken < count / 2 {
                break;
            }
        }
        Ok(self.0.parts.store.next_due().await?.map(|due| due.max(earliest)))
    }

    /// Has the courier look for what is due, now.
    pub fn look(&self) {
        self.0.nudge.notify_one();
    }

    /// Waits until nothing is being sent.
    pub async fn idle(&self) {
        self.0.tasks.wait().await;
    }

    /// Ticks whenever something is due, until `shutdown`. Then finishes what is under way, and gives the rest back.
    pub async fn run(&self, shutdown: CancellationToken) {
        let mut was_well = true;
        while !shutdown.is_cancelled() {
            // Not broken off by the shutdown: nobody would give back what it is about to lease.
            let ticked = self.tick().await;
            match &ticked {
                Err(error) if was_well => tracing::warn!(%error, "callbacks that are due cannot be read"),
                Ok(_) if !was_well => tracing::info!("callbacks that are due can be read again"),
                _ => {}
            }
            was_well = ticked.is_ok();
            let pause = ticked.ok().flatten().map_or(LOOK, |due| until(due, self.now()).clamp(BREATH, LOOK));
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = self.0.nudge.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.close().await;
    }

    /// What was sent so far, and what is on its way.
    pub fn figures(&self) -> Figures {
        let (waiting, in_flight) = {
            let scheduler = self.scheduler();
            (scheduler.waiting(), scheduler.in_flight())
        };
        self.0.tally.figures(waiting, in_flight)
    }

    /// Leaves all callbacks to other nodes from now on.
    pub fn stop_sending(&self) {
        self.0.is_closing.store(true, Ordering::SeqCst);
    }

    async fn close(&self) {
        self.stop_sending();
        self.give_back().await;
        if tokio::time::timeout(FAREWELL, self.idle()).await.is_err() {
            tracing::warn!(callbacks = self.scheduler().in_flight(), "callbacks are left to other nodes, half sent");
        }
        // What was handed in meanwhile.
        self.give_back().await;
    }

    /// Gives back what nobody will send any more. Whoever ends checks after [`run`](Courier::run) has ended, with a row
    /// that was written before, hands in more: this is for when the last of them is done.
    pub async fn give_back(&self) {
        let waiting = self.scheduler().drain();
        let waiting: Vec<_> = waiting.into_iter().map(|job| (job.callback.check, job.lease_until)).collect();
        if waiting.is_empty() {
            return;
        }
        let callbacks = waiting.len();
        if let Err(error) = self.0.parts.store.release(waiting, self.now()).await {
            tracing::warn!(%error, callbacks, "leases could not be given back; they run out by themselves");
        }
    }

    /// Puts a callback into its queue, if there is room in it.
    fn take(&self, callback: LeasedCallback, lease_until: Timestamp) -> Option<()> {
        let keys = self.0.parts.keys.key_ring();
        let Some(url) = sealing::open_url(&keys, callback.check, &callback.url) else {
            let courier = self.clone();
            self.0.tasks.spawn(async move { courier.fail_unread(&callback).await });
            return Some(());
        };
        let destination = destination(callback.project, &url);
        let has_failed = callback.failed_attempts > callback.earlier_attempts;
        let tenant = self.tenant(callback.project);
        let refused = self.scheduler().push(tenant, &destination, has_failed, Job { callback, url, lease_until });
        if refused.is_err() {
            add(&self.0.tally.put_off, 1);
        }
        refused.ok()
    }

    /// Projects whose rows are not to be leased now.
    fn paused_projects(&self, now: Timestamp) -> Vec<ProjectId> {
        let mut paused = self.0.paused_projects.lock().unwrap_or_else(PoisonError::into_inner);
        paused.retain(|_, until| *until > now);
        paused.keys().copied().collect()
    }

    /// Leaves the rows of those projects in the store for a while of whose rows most were refused.
    fn pause_refused(&self, by_project: &HashMap<ProjectId, PageShare>, now: Timestamp) {
        let until = now.saturating_add(REFUSED_PROJECT_PAUSE).unwrap_or(Timestamp::MAX);
        let mut paused = self.0.paused_projects.lock().unwrap_or_else(PoisonError::into_inner);
        for (project, share) in by_project {
            if share.refused > share.leased / 2 && paused.len() < MAX_SKIPPED_PROJECTS {
                paused.insert(*project, until);
            }
        }
    }

    /// Starts what may be started.
    fn start(&self) {
        loop {
            if self.is_closing() {
                return;
            }
            let Some((grant, job)) = self.scheduler().next() else { return };
            let slot = Slot { courier: self.clone(), grant, ended: Ended::NotMade };
            if job.lease_until.duration_since(self.now()) < NEEDED {
                add(&self.0.tally.put_off, 1);
                continue;
            }
            let courier = self.clone();
            self.0.tasks.spawn(async move {
                let mut slot = slot;
                courier.attempt(job, &mut slot).await;
                drop(slot);
                courier.start();
            });
        }
    }

    /// A project that this node has not heard of shares as a workspace of its own until then.
    fn tenant(&self, project: ProjectId) -> Tenant {
        let workspace = self.0.parts.workspaces.workspace_of(project);
        Tenant { workspace: workspace.unwrap_or(WorkspaceId(project.0)), project }
    }

    fn scheduler(&self) -> MutexGuard<'_, Scheduler<Job>> {
        // No invariant of the scheduler is broken half-way through by a panic elsewhere.
        self.0.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.0.parts.clock.now()
    }

    fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::SeqCst)
    }
}

fn end_of_lease(now: Timestamp) -> Timestamp {
    now.saturating_add(LEASE).unwrap_or(Timestamp::MAX)
}

fn until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// What shares slots: what one project has at one scheme, host and port. Another project's trouble there is its own.
fn destination(project: ProjectId, url: &CallbackUrl) -> String {
    let scheme = if url.is_https() { "https" } else { "http" };
    format!("{project} {scheme}://{}", url.authority())
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courier").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CourierParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CourierParts").field("limits", &self.limits).finish_non_exhaustive()
    }
}
