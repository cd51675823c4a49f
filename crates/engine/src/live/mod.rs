//! Watching a project's checks as they come and change.
//!
//! Windows share what is read. For each project that somebody watches here, the newest checks are read about once a
//! second, by the verb that lists them, and compared with what was there before; what is new goes to every window. The
//! database is asked, so checks of all nodes are seen, and the way of a check is not touched. Nothing is read for a
//! project that nobody watches.
//!
//! A window belongs to a session. Once a second, one question to the store finds the sessions that have ended and the
//! accounts that may not see the workspace any more, and their windows end.
//!
//! Deliberately absent: changes of checks that are no longer among the newest. They are in the list of checks.

mod newest;
mod seats;
#[cfg(test)]
mod tests;

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
    accounts::{Person, SessionToken},
    ports::StoreError,
};
use newest::Newest;
pub use newest::News;
use seats::{Seat, Seats, Viewer};

/// How often is looked.
const PAUSE: Duration = Duration::from_secs(1);
/// How many checks of each product are looked at, and how many a window begins with.
pub const NEWEST: u32 = 50;
/// How far a window may fall behind.
const BEHIND: usize = 256;
/// How many projects are looked at together.
const TOGETHER: usize = 8;

/// The projects that are watched on this node.
#[derive(Debug, Default)]
pub(crate) struct Live {
    feeds: Mutex<HashMap<ProjectId, Arc<Feed>>>,
    seats: Arc<Seats>,
    somebody_came: Notify,
}

/// What windows of one project share.
#[derive(Debug)]
struct Feed {
    project: ProjectId,
    news: broadcast::Sender<Arc<News>>,
    /// Held while looking, so that nobody is told old news. Windows never wait for it: one that stalls would keep it
    /// from the others.
    looking: tokio::sync::Mutex<()>,
    /// What was there at the last look.
    newest: Mutex<Option<Arc<Newest>>>,
}

/// Somebody who watches a project.
#[derive(Debug)]
pub struct Window {
    feed: Arc<Feed>,
    news: broadcast::Receiver<Arc<News>>,
    seat: Seat,
}

/// What a window sees.
#[derive(Clone, Debug)]
pub enum Seen {
    News(Arc<News>),
    /// It was too slow for so many, and should look at everything again.
    Missed(u64),
    /// The same account has opened another, and may not have so many.
    Replaced,
    /// The session has ended, or its account may not see the workspace any more.
    Ended,
}

#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("too many live windows are open; try again later")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Window {
    /// What comes next. `None`: nobody looks any more.
    pub async fn next(&mut self) -> Option<Seen> {
        let news = tokio::select! {
            biased;
            () = self.seat.ended() => return Some(Seen::Ended),
            () = self.seat.replaced() => return Some(Seen::Replaced),
            news = self.news.recv() => news,
        };
        match news {
            Ok(news) => Some(Seen::News(news)),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(Seen::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// What is there now, what changed last first. What comes next may tell some of it again.
    pub fn present(&self) -> Vec<Arc<AnyCheck>> {
        self.feed.newest().map(|newest| newest.by_change()).unwrap_or_default()
    }
}

impl Feed {
    fn newest(&self) -> Option<Arc<Newest>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, newest: Newest) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(newest));
    }
}

impl Live {
    fn feeds(&self) -> MutexGuard<'_, HashMap<ProjectId, Arc<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, project: ProjectId) -> (Arc<Feed>, broadcast::Receiver<Arc<News>>) {
        let mut feeds = self.feeds();
        let feed = feeds.entry(project).or_insert_with(|| {
            let news = broadcast::Sender::new(BEHIND);
            Arc::new(Feed { project, news, looking: tokio::sync::Mutex::default(), newest: Mutex::default() })
        });
        (Arc::clone(feed), feed.news.subscribe())
    }

    /// Feeds that somebody watches. The others go.
    fn watched(&self) -> Vec<Arc<Feed>> {
        let mut feeds = self.feeds();
        feeds.retain(|_, feed| feed.news.receiver_count() > 0);
        feeds.values().cloned().collect()
    }
}

impl Engine {
    /// Opens a window on a project that the person may see. The first one reads what is there.
    pub async fn watch(&self, person: &Person, token: &SessionToken, project: &Project) -> Result<Window, WatchError> {
        let seat = self.live().seats.take(Viewer {
            account: person.account.id,
            is_admin: person.account.is_admin,
            workspace: project.workspace,
            session: self.session_hash(token)?,
        })?;
        let project = project.id;
        let (feed, news) = self.live().join(project);
        let looking = feed.looking.lock().await;
        if feed.newest().is_none() {
            feed.remember(self.newest(project).await?);
        }
        drop(looking);
        self.live().somebody_came.notify_one();
        Ok(Window { feed, news, seat })
    }

    /// The newest checks of a project, what changed last first.
    pub async fn newest_checks(&self, project: ProjectId) -> Result<Vec<Arc<AnyCheck>>, StoreError> {
        Ok(self.newest(project).await?.by_change())
    }

    /// How many projects are watched on this node.
    pub fn watched_projects(&self) -> usize {
        self.live().watched().len()
    }

    /// Looks at every project that is watched, once, and tells what is new.
    pub async fn look(&self) {
        let look = async |feed: Arc<Feed>| {
            if let Err(error) = self.look_at(&feed).await {
                tracing::debug!(%error, "what is new is told later");
            }
        };
        stream::iter(self.live().watched()).for_each_concurrent(TOGETHER, look).await;
    }

    /// Ends the windows whose session has ended, or whose account may not see their workspace any more.
    pub async fn end_stale_windows(&self) {
        let viewers = self.live().seats.viewers();
        let tokens: BTreeSet<_> = viewers.iter().map(|viewer| viewer.session).collect();
        let workspaces: BTreeSet<_> = viewers.iter().map(|viewer| viewer.workspace).collect();
        let (tokens, workspaces) = (Vec::from_iter(tokens), Vec::from_iter(workspaces));
        match self.store().session_access(&tokens, &workspaces, self.clock().now()).await {
            Ok(access) => self.live().seats.end_all_but(&viewers, &access),
            // Without the store, windows learn nothing new either.
            Err(error) => tracing::debug!(%error, "sessions of live windows not checked; retrying"),
        }
    }

    /// Feeds and ends windows until `shutdown`.
    pub async fn keep_looking(&self, shutdown: CancellationToken) {
        tokio::join!(self.keep_feeding(&shutdown), self.keep_ending_stale_windows(&shutdown));
    }

    async fn keep_ending_stale_windows(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
            if !self.live().seats.viewers().is_empty() {
                self.end_stale_windows().await;
            }
        }
    }

    async fn keep_feeding(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
            if self.live().watched().is_empty() {
                shutdown.run_until_cancelled(self.live().somebody_came.notified()).await;
            } else {
                self.look().await;
            }
        }
    }

    async fn look_at(&self, feed: &Feed) -> Result<(), StoreError> {
        let _looking = feed.looking.lock().await;
        // Whoever opens the first window is about to read it.
        let Some(before) = feed.newest() else { return Ok(()) };
        let now = self.newest(feed.project).await?;
        let news = now.since(&before);
        feed.remember(now);
        for news in news {
            // Nobody is left to hear it, perhaps.
            let _ = feed.news.send(Arc::new(news));
        }
        Ok(())
    }

    async fn newest(&self, project: ProjectId) -> Result<Newest, StoreError> {
        let products = |project: Arc<Project>| project.products.clone();
        let products = self.control_plane().project(project).map(products).unwrap_or_default();
        let page = PageRequest::new(NEWEST, 1).unwrap_or_default();
        let mut newest = Newest::default();
        for product in products.into_iter().filter(|product| Product::asks_an_operator(*product)) {
            newest.add(product, self.any_checks(project, product, None, page).await?.items);
        }
        Ok(newest)
    }
}
