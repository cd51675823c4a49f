//! Watching a project's checks as they come and change.
//!
//! Windows share what is read. For each project that somebody watches here, the newest checks are read about once a
//! second, by the verb that lists them, and compared with what was there before; what is new goes to every window. The
//! database is asked, so checks of all nodes are seen, and the way of a check is not touched. Nothing is read for a
//! project that nobody watches.
//!
//! Deliberately absent: changes of checks that are no longer among the newest. They are in the list of checks.

mod newest;
mod seats;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::stream::{self, StreamExt};
use ringtrue_domain::{
    account::AccountId,
    lifecycle::AnyCheck,
    page::PageRequest,
    product::Product,
    tenancy::{Project, ProjectId},
};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::{Engine, ports::StoreError};
use newest::Newest;
pub use newest::News;
use seats::{Seat, Seats};

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
            () = self.seat.lost() => return Some(Seen::Replaced),
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
    /// Opens a window on a project. The first one reads what is there.
    pub async fn watch(&self, account: AccountId, project: ProjectId) -> Result<Window, WatchError> {
        let seat = self.live().seats.take(account)?;
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

    /// Looks until `shutdown`, as long as there is anybody to tell.
    pub async fn keep_looking(&self, shutdown: CancellationToken) {
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
