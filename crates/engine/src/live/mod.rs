//! Live feeds: the console shows a project's checks as they are created and change.
//!
//! For each project with a subscription, a node polls the newest checks once a second and sends the differences to all
//! subscriptions. Polling the database finds the checks of all nodes and adds no work to check processing.
//!
//! A subscription belongs to a console session. Once a second, one query finds the sessions that have ended or lost
//! access to the project's workspace, and their subscriptions end.
//!
//! The feed does not report changes of checks that are no longer among the newest.

mod viewer_limit;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckId},
    page::PageRequest,
    product::Product,
    tenancy::{Project, ProjectId},
};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::{
    accounts::{Accounts, ConsoleUser, SessionToken},
    checks::Checks,
    context::Context,
    ports::{accounts::SessionStore, store::StoreError},
};
use viewer_limit::{Viewer, ViewerLimit, ViewerPermit};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of newest checks that a poll reads for each product. Also the number of checks, of all products, in a
/// snapshot.
pub const MAX_NEWEST_CHECKS: u32 = 50;
/// Maximum number of updates buffered for a slow subscription. Beyond it, the subscription loses the oldest ones.
const MAX_BUFFERED_UPDATES: usize = 256;
const MAX_CONCURRENT_POLLS: usize = 8;

/// Sends created and changed checks to subscriptions of the console.
#[derive(derive_more::Debug)]
#[debug("LiveFeeds")]
pub struct LiveFeeds {
    pub(crate) context: Arc<Context>,
    pub(crate) sessions: Arc<dyn SessionStore>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) open: OpenFeeds,
}

/// The feeds and subscriptions that are open on this node.
#[derive(Debug, Default)]
pub(crate) struct OpenFeeds {
    feeds: Mutex<HashMap<ProjectId, Arc<ProjectFeed>>>,
    viewer_limit: Arc<ViewerLimit>,
    subscription_opened: Notify,
}

/// The feed of one project, shared by all its subscriptions.
#[derive(Debug)]
struct ProjectFeed {
    project: ProjectId,
    updates: broadcast::Sender<Arc<CheckUpdate>>,
    /// Held while the newest checks are read, so that updates are sent in order. Open subscriptions never hold it, so a
    /// stalled subscription cannot block the others.
    polling: tokio::sync::Mutex<()>,
    /// The newest checks at the last poll. `None`: no subscription has read them yet.
    newest: Mutex<Option<Arc<NewestChecks>>>,
}

/// Subscription of a console session to a project's feed.
#[derive(Debug)]
pub struct LiveSubscription {
    feed: Arc<ProjectFeed>,
    updates: broadcast::Receiver<Arc<CheckUpdate>>,
    permit: ViewerPermit,
}

#[derive(Clone, Debug)]
pub enum LiveEvent {
    Updated(Arc<CheckUpdate>),
    /// The subscription was too slow and lost this many updates. The receiver has to reload the snapshot.
    Missed(u64),
    /// The account has opened more subscriptions than its limit, and the newest one has replaced this one.
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
            () = self.permit.wait_until_ended() => return Some(LiveEvent::Ended),
            () = self.permit.wait_until_replaced() => return Some(LiveEvent::Replaced),
            update = self.updates.recv() => update,
        };
        match update {
            Ok(update) => Some(LiveEvent::Updated(update)),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(LiveEvent::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// Returns the newest checks, most recently changed first. Later events may repeat changes that the snapshot
    /// already contains.
    pub fn snapshot(&self) -> Vec<Arc<AnyCheck>> {
        self.feed.newest().map(|newest| newest.most_recently_changed()).unwrap_or_default()
    }
}

impl ProjectFeed {
    fn newest(&self) -> Option<Arc<NewestChecks>> {
        self.newest.lock().clone()
    }

    fn set_newest(&self, newest: NewestChecks) {
        *self.newest.lock() = Some(Arc::new(newest));
    }
}

impl OpenFeeds {
    fn feeds(&self) -> MutexGuard<'_, HashMap<ProjectId, Arc<ProjectFeed>>> {
        self.feeds.lock()
    }

    fn subscribe(&self, project: ProjectId) -> (Arc<ProjectFeed>, broadcast::Receiver<Arc<CheckUpdate>>) {
        let mut feeds = self.feeds();
        let feed = feeds.entry(project).or_insert_with(|| {
            let updates = broadcast::Sender::new(MAX_BUFFERED_UPDATES);
            Arc::new(ProjectFeed { project, updates, polling: tokio::sync::Mutex::default(), newest: Mutex::default() })
        });
        (Arc::clone(feed), feed.updates.subscribe())
    }

    /// Removes the feeds without subscriptions, and returns the others.
    fn watched_feeds(&self) -> Vec<Arc<ProjectFeed>> {
        let mut feeds = self.feeds();
        feeds.retain(|_, feed| feed.updates.receiver_count() > 0);
        feeds.values().cloned().collect()
    }
}

impl LiveFeeds {
    /// Subscribes to a project. The caller must have checked that the user may access it. The first subscription of a
    /// project reads its newest checks from the store.
    pub async fn watch_project(
        &self,
        user: &ConsoleUser,
        token: &SessionToken,
        project: &Project,
    ) -> Result<LiveSubscription, WatchError> {
        let permit = self.open.viewer_limit.acquire(Viewer {
            account: user.account.id,
            is_admin: user.account.is_admin,
            workspace: project.workspace,
            session: self.accounts.hash_session_token(token)?,
        })?;
        let project = project.id;
        let (feed, updates) = self.open.subscribe(project);
        let polling = feed.polling.lock().await;
        if feed.newest().is_none() {
            feed.set_newest(self.read_newest_checks(project).await?);
        }
        drop(polling);
        self.open.subscription_opened.notify_one();
        Ok(LiveSubscription { feed, updates, permit })
    }

    /// Reads the newest checks of a project, most recently changed first.
    pub async fn newest_checks(&self, project: ProjectId) -> Result<Vec<Arc<AnyCheck>>, StoreError> {
        Ok(self.read_newest_checks(project).await?.most_recently_changed())
    }

    /// Returns the number of projects with a subscription on this node.
    pub fn watched_projects(&self) -> usize {
        self.open.watched_feeds().len()
    }

    /// Polls every project with a subscription once, and sends the updates.
    async fn poll_live_feeds(&self) {
        let poll = async |feed: Arc<ProjectFeed>| {
            if let Err(error) = self.poll_feed(&feed).await {
                tracing::debug!(%error, "live feed poll failed; retrying");
            }
        };
        stream::iter(self.open.watched_feeds()).for_each_concurrent(MAX_CONCURRENT_POLLS, poll).await;
    }

    /// Ends the subscriptions whose session has ended or lost access to the project's workspace.
    async fn end_stale_subscriptions(&self) {
        let viewers = self.open.viewer_limit.viewers();
        let tokens: BTreeSet<_> = viewers.iter().map(|viewer| viewer.session).collect();
        let workspaces: BTreeSet<_> = viewers.iter().map(|viewer| viewer.workspace).collect();
        let (tokens, workspaces) = (Vec::from_iter(tokens), Vec::from_iter(workspaces));
        match self.sessions.session_access(&tokens, &workspaces, self.context.now()).await {
            Ok(access) => self.open.viewer_limit.end_without_access(&viewers, &access),
            // Subscriptions may stay open: while the store is unavailable, they receive no updates.
            Err(error) => tracing::debug!(%error, "failed to query the access of live subscriptions; retrying"),
        }
    }

    /// Polls the feeds, and ends subscriptions whose session has ended or lost access, until `shutdown` is cancelled.
    pub async fn run(&self, shutdown: CancellationToken) {
        tokio::join!(self.run_feed_polling(&shutdown), self.run_access_expiry(&shutdown));
    }

    async fn run_access_expiry(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await.is_some() {
            if !self.open.viewer_limit.viewers().is_empty() {
                self.end_stale_subscriptions().await;
            }
        }
    }

    async fn run_feed_polling(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await.is_some() {
            if self.open.watched_feeds().is_empty() {
                shutdown.run_until_cancelled(self.open.subscription_opened.notified()).await;
            } else {
                self.poll_live_feeds().await;
            }
        }
    }

    async fn poll_feed(&self, feed: &ProjectFeed) -> Result<(), StoreError> {
        let _polling = feed.polling.lock().await;
        // `None`: no subscription has read the newest checks yet, so there is nothing to compare with.
        let Some(before) = feed.newest() else { return Ok(()) };
        let now = self.read_newest_checks(feed.project).await?;
        let updates = now.updates_since(&before);
        feed.set_newest(now);
        for update in updates {
            // Sending fails only if the last subscription has ended.
            let _ = feed.updates.send(Arc::new(update));
        }
        Ok(())
    }

    async fn read_newest_checks(&self, project: ProjectId) -> Result<NewestChecks, StoreError> {
        let products = |project: Arc<Project>| project.products.clone();
        let products = self.context.control_plane.project(project).map(products).unwrap_or_default();
        let page = PageRequest::new(MAX_NEWEST_CHECKS, 1).unwrap_or_default();
        let mut newest = NewestChecks::default();
        for product in products.into_iter().filter(|product| product.facts().has_checks) {
            newest.add(product, self.checks.list_any_checks(project, product, None, page).await?.items);
        }
        Ok(newest)
    }
}

/// A created or changed check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckUpdate {
    pub check: Arc<AnyCheck>,
    pub is_new: bool,
}

/// The newest checks of each product, newest first.
#[derive(Clone, Debug, Default)]
struct NewestChecks(BTreeMap<Product, Vec<Arc<AnyCheck>>>);

impl NewestChecks {
    fn add(&mut self, product: Product, checks: Vec<AnyCheck>) {
        self.0.insert(product, checks.into_iter().map(Arc::new).collect());
    }

    /// Returns the most recently changed checks of all products, latest change first.
    fn most_recently_changed(&self) -> Vec<Arc<AnyCheck>> {
        let mut all: Vec<_> = self.0.values().flatten().cloned().collect();
        all.sort_by_key(|check| Reverse(change_order(check)));
        all.truncate(usize::try_from(MAX_NEWEST_CHECKS).unwrap_or(usize::MAX));
        all
    }

    /// Returns the checks that were created or changed since `before`, earliest change first.
    fn updates_since(&self, before: &NewestChecks) -> Vec<CheckUpdate> {
        let mut updates: Vec<_> = self
            .0
            .iter()
            // A product that is not in `before` was just enabled. Its existing checks are not updates.
            .filter_map(|(product, checks)| Some((before.0.get(product)?, checks)))
            .flat_map(|(before, checks)| checks.iter().filter_map(|check| diff_check(before, check)))
            .collect();
        updates.sort_by_key(|update| change_order(&update.check));
        updates
    }
}

fn diff_check(before: &[Arc<AnyCheck>], check: &Arc<AnyCheck>) -> Option<CheckUpdate> {
    let previous = before.iter().find(|previous| previous.id == check.id);
    let is_unchanged = previous.is_some_and(|old| old.state == check.state && old.network == check.network);
    (!is_unchanged).then(|| CheckUpdate { check: Arc::clone(check), is_new: previous.is_none() })
}

/// Sort key: the time of the last change, then the id.
fn change_order(check: &AnyCheck) -> (Timestamp, CheckId) {
    (check.updated_at().unwrap_or(check.created_at), check.id)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use ringtrue_domain::{
        account::AccountId,
        lifecycle::{Check, CheckId, CheckOutcome, Lifecycle, OpenState},
        tenancy::{Mode, WorkspaceId},
    };
    use uuid::Uuid;

    use super::*;
    use crate::ports::hashes::TokenHash;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + number).unwrap()
    }

    fn check(number: u128, product: Product) -> AnyCheck {
        Check {
            id: CheckId(Uuid::from_u128(number)),
            project: ProjectId(Uuid::from_u128(1)),
            product,
            mode: Mode::Sandbox,
            network: None,
            claimed: None,
            reference: None,
            callback_url: None,
            verification: None,
            redirect_url: None,
            created_at: second(i64::try_from(number).unwrap()),
            expires_at: second(1_000),
            state: Lifecycle::Open(OpenState::Accepted),
        }
    }

    fn expired(number: u128, product: Product, at: i64) -> AnyCheck {
        let state = Lifecycle::Concluded { outcome: CheckOutcome::Expired, at: second(at) };
        AnyCheck { state, ..check(number, product) }
    }

    fn newest(products: Vec<(Product, Vec<AnyCheck>)>) -> NewestChecks {
        let mut newest = NewestChecks::default();
        for (product, checks) in products {
            newest.add(product, checks);
        }
        newest
    }

    #[test]
    fn updates_are_ordered_by_change() {
        const SMS: Product = Product::ReverseSms;
        const SNA: Product = Product::SecureSna;
        let before = newest(vec![(SMS, vec![check(3, SMS), check(2, SMS), check(1, SMS)])]);
        let now = newest(vec![
            (SMS, vec![check(5, SMS), expired(3, SMS, 4), expired(2, SMS, 6), check(1, SMS)]),
            (SNA, vec![check(4, SNA)]),
        ]);
        let updates: Vec<_> =
            now.updates_since(&before).iter().map(|update| (update.check.id.0.as_u128(), update.is_new)).collect();
        assert_eq!(
            updates,
            [(3, false), (5, true), (2, false)],
            "checks of a product that was just enabled are not updates"
        );
        let shown: Vec<_> = now.most_recently_changed().iter().map(|check| check.id.0.as_u128()).collect();
        assert_eq!(shown, [2, 5, 4, 3, 1]);
        assert!(now.updates_since(&now).is_empty());
    }

    #[tokio::test]
    async fn slow_subscription_receives_the_number_of_missed_updates() {
        let live = OpenFeeds::default();
        let project = ProjectId(Uuid::from_u128(1));
        let (feed, updates) = live.subscribe(project);
        let permit = live
            .viewer_limit
            .acquire(Viewer {
                account: AccountId(Uuid::from_u128(2)),
                is_admin: false,
                workspace: WorkspaceId(Uuid::from_u128(3)),
                session: TokenHash([4; 32]),
            })
            .unwrap();
        let mut subscription = LiveSubscription { feed: Arc::clone(&feed), updates, permit };
        assert_eq!(live.watched_feeds().len(), 1);
        for number in 0..300 {
            let check = Arc::new(check(number, Product::Discovery));
            feed.updates.send(Arc::new(CheckUpdate { check, is_new: true })).unwrap();
        }
        assert!(matches!(subscription.next().await, Some(LiveEvent::Missed(44))));
        let Some(LiveEvent::Updated(update)) = subscription.next().await else { panic!("no update is queued") };
        assert_eq!(update.check.id.0.as_u128(), 44);
        drop(subscription);
        assert!(live.watched_feeds().is_empty(), "no subscription remains");
    }
}
