//! Live feed of a project's checks for the console.
//!
//! For each watched project, a node polls the newest checks once a second and sends the differences to all
//! subscriptions. Polling the database covers the checks of all nodes and adds no work to check processing. Projects
//! without a subscription are not polled.
//!
//! A subscription belongs to a session. Once a second, one query finds the sessions that have ended or lost access to
//! the workspace, and their subscriptions end.
//!
//! The feed omits changes of checks that are no longer among the newest.

mod newest;
#[cfg(test)]
mod tests;
mod viewer_limit;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::stream::{self, StreamExt};
use ringtrue_domain::{
    lifecycle::AnyCheck,
    page::PageRequest,
    product::Product,
    tenancy::{Project, ProjectId},
};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::{
    Engine,
    accounts::{ConsoleUser, SessionToken},
    ports::StoreError,
};
pub use newest::CheckUpdate;
use newest::NewestChecks;
use viewer_limit::{Viewer, ViewerLimit, ViewerPermit};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Checks polled for each product, and checks shown when a subscription begins.
pub const MAX_NEWEST_CHECKS: u32 = 50;
/// Updates buffered for a slow subscription.
const MAX_BUFFERED_UPDATES: usize = 256;
const MAX_CONCURRENT_POLLS: usize = 8;

/// The live feeds of this node.
#[derive(Debug, Default)]
pub(crate) struct LiveFeeds {
    feeds: Mutex<HashMap<ProjectId, Arc<ProjectFeed>>>,
    viewer_limit: Arc<ViewerLimit>,
    subscription_opened: Notify,
}

/// Feed shared by the subscriptions of one project.
#[derive(Debug)]
struct ProjectFeed {
    project: ProjectId,
    updates: broadcast::Sender<Arc<CheckUpdate>>,
    /// Held while polling, so that updates are sent in order. Subscriptions never wait for it: one that stalls would
    /// block the others.
    polling: tokio::sync::Mutex<()>,
    /// Result of the last poll.
    newest: Mutex<Option<Arc<NewestChecks>>>,
}

/// A session that watches a project.
#[derive(Debug)]
pub struct LiveSubscription {
    feed: Arc<ProjectFeed>,
    updates: broadcast::Receiver<Arc<CheckUpdate>>,
    permit: ViewerPermit,
}

#[derive(Clone, Debug)]
pub enum LiveEvent {
    Updated(Arc<CheckUpdate>),
    /// The subscription was too slow and lost this many updates. Reload the snapshot.
    Missed(u64),
    /// Ended by a later subscription of the same account, which is at its limit.
    Replaced,
    /// The session has ended or lost access to the workspace.
    Ended,
}

#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("too many live views are open; close one or try again later")]
    TooManyViewers,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LiveSubscription {
    /// Waits for the next event. Returns `None` after the feed has stopped.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        let update = tokio::select! {
            biased;
            () = self.permit.ended() => return Some(LiveEvent::Ended),
            () = self.permit.replaced() => return Some(LiveEvent::Replaced),
            update = self.updates.recv() => update,
        };
        match update {
            Ok(update) => Some(LiveEvent::Updated(update)),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(LiveEvent::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// The newest checks, most recently changed first. Later events may repeat some of them.
    pub fn snapshot(&self) -> Vec<Arc<AnyCheck>> {
        self.feed.newest().map(|newest| newest.most_recently_changed()).unwrap_or_default()
    }
}

impl ProjectFeed {
    fn newest(&self) -> Option<Arc<NewestChecks>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_newest(&self, newest: NewestChecks) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(newest));
    }
}

impl LiveFeeds {
    fn feeds(&self) -> MutexGuard<'_, HashMap<ProjectId, Arc<ProjectFeed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(&self, project: ProjectId) -> (Arc<ProjectFeed>, broadcast::Receiver<Arc<CheckUpdate>>) {
        let mut feeds = self.feeds();
        let feed = feeds.entry(project).or_insert_with(|| {
            let updates = broadcast::Sender::new(MAX_BUFFERED_UPDATES);
            Arc::new(ProjectFeed { project, updates, polling: tokio::sync::Mutex::default(), newest: Mutex::default() })
        });
        (Arc::clone(feed), feed.updates.subscribe())
    }

    /// Removes feeds without subscriptions and returns the others.
    fn watched_feeds(&self) -> Vec<Arc<ProjectFeed>> {
        let mut feeds = self.feeds();
        feeds.retain(|_, feed| feed.updates.receiver_count() > 0);
        feeds.values().cloned().collect()
    }
}

impl Engine {
    /// Subscribes to a project that the user may access. The first subscription reads the newest checks.
    pub async fn watch_project(
        &self,
        user: &ConsoleUser,
        token: &SessionToken,
        project: &Project,
    ) -> Result<LiveSubscription, WatchError> {
        let permit = self.live_feeds().viewer_limit.acquire(Viewer {
            account: user.account.id,
            is_admin: user.account.is_admin,
            workspace: project.workspace,
            session: self.hash_session_token(token)?,
        })?;
        let project = project.id;
        let (feed, updates) = self.live_feeds().subscribe(project);
        let polling = feed.polling.lock().await;
        if feed.newest().is_none() {
            feed.set_newest(self.read_newest_checks(project).await?);
        }
        drop(polling);
        self.live_feeds().subscription_opened.notify_one();
        Ok(LiveSubscription { feed, updates, permit })
    }

    /// The newest checks of a project, most recently changed first.
    pub async fn newest_checks(&self, project: ProjectId) -> Result<Vec<Arc<AnyCheck>>, StoreError> {
        Ok(self.read_newest_checks(project).await?.most_recently_changed())
    }

    /// Number of projects watched on this node.
    pub fn watched_projects(&self) -> usize {
        self.live_feeds().watched_feeds().len()
    }

    /// Polls every watched project once and sends the updates.
    pub async fn poll_live_feeds(&self) {
        let poll = async |feed: Arc<ProjectFeed>| {
            if let Err(error) = self.poll_feed(&feed).await {
                tracing::debug!(%error, "live feed poll failed; retrying");
            }
        };
        stream::iter(self.live_feeds().watched_feeds()).for_each_concurrent(MAX_CONCURRENT_POLLS, poll).await;
    }

    /// Ends the subscriptions whose session has ended or lost access to the workspace.
    pub async fn end_stale_subscriptions(&self) {
        let viewers = self.live_feeds().viewer_limit.viewers();
        let tokens: BTreeSet<_> = viewers.iter().map(|viewer| viewer.session).collect();
        let workspaces: BTreeSet<_> = viewers.iter().map(|viewer| viewer.workspace).collect();
        let (tokens, workspaces) = (Vec::from_iter(tokens), Vec::from_iter(workspaces));
        match self.store().session_access(&tokens, &workspaces, self.clock().now()).await {
            Ok(access) => self.live_feeds().viewer_limit.end_without_access(&viewers, &access),
            // Without the store, no subscription receives updates either.
            Err(error) => tracing::debug!(%error, "failed to query the access of live subscriptions; retrying"),
        }
    }

    /// Polls feeds and ends subscriptions without access until `shutdown`.
    pub async fn run_live_feed(&self, shutdown: CancellationToken) {
        tokio::join!(self.run_feed_polling(&shutdown), self.run_access_expiry(&shutdown));
    }

    async fn run_access_expiry(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await.is_some() {
            if !self.live_feeds().viewer_limit.viewers().is_empty() {
                self.end_stale_subscriptions().await;
            }
        }
    }

    async fn run_feed_polling(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await.is_some() {
            if self.live_feeds().watched_feeds().is_empty() {
                shutdown.run_until_cancelled(self.live_feeds().subscription_opened.notified()).await;
            } else {
                self.poll_live_feeds().await;
            }
        }
    }

    async fn poll_feed(&self, feed: &ProjectFeed) -> Result<(), StoreError> {
        let _polling = feed.polling.lock().await;
        // The first subscription is about to read it.
        let Some(before) = feed.newest() else { return Ok(()) };
        let now = self.read_newest_checks(feed.project).await?;
        let updates = now.updates_since(&before);
        feed.set_newest(now);
        for update in updates {
            // Fails only if the last subscription has ended.
            let _ = feed.updates.send(Arc::new(update));
        }
        Ok(())
    }

    async fn read_newest_checks(&self, project: ProjectId) -> Result<NewestChecks, StoreError> {
        let products = |project: Arc<Project>| project.products.clone();
        let products = self.control_plane().project(project).map(products).unwrap_or_default();
        let page = PageRequest::new(MAX_NEWEST_CHECKS, 1).unwrap_or_default();
        let mut newest = NewestChecks::default();
        for product in products.into_iter().filter(|product| Product::requires_operator(*product)) {
            newest.add(product, self.list_any_checks(project, product, None, page).await?.items);
        }
        Ok(newest)
    }
}
