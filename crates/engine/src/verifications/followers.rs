//! Notifies the hosted pages that are open at this node when their verifications change.
//!
//! Once a second, one query reads the [`PageVersion`] of every verification that has an open page. A page reloads its
//! verification only if this version has changed. Changes that other nodes make are noticed too, because the version
//! comes from the database.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::{lifecycle::CheckId, tenancy::WorkspaceId};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{PageView, Verifications};
use crate::ports::{store::StoreError, verifications::PageVersion};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of open pages that this node notifies. Each keeps an HTTP connection open.
const MAX_FOLLOWERS: usize = 500;
/// Maximum number of open pages for the verifications of one workspace, so that one workspace cannot use up
/// [`MAX_FOLLOWERS`].
const MAX_PER_WORKSPACE: usize = MAX_FOLLOWERS / 4;
/// Maximum number of open pages for one verification, for example in several tabs.
const MAX_PER_VERIFICATION: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many pages follow verifications")]
pub struct TooManyFollowers;

/// The hosted pages that are open at this node, by verification.
#[derive(Debug, Default)]
pub(crate) struct PageFollowers {
    followed: Mutex<HashMap<CheckId, Followed>>,
    follower_added: Notify,
}

/// A verification whose hosted page is open at least once.
#[derive(Debug)]
struct Followed {
    workspace: WorkspaceId,
    /// Last polled version. `None`: not polled yet.
    version: watch::Sender<Option<PageVersion>>,
}

/// Subscription of an open hosted page to changes of its verification. Dropping it ends the subscription.
#[derive(Debug)]
pub struct PageFollower {
    version: watch::Receiver<Option<PageVersion>>,
    verification: CheckId,
    followers: Arc<PageFollowers>,
}

impl PageFollower {
    /// Waits until the verification may have changed.
    pub async fn wait_for_change(&mut self) {
        if self.version.changed().await.is_err() {
            // Not reached: `PageFollowers` keeps the sender of a verification until its last follower is dropped.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for PageFollower {
    fn drop(&mut self) {
        let mut followed = self.followers.lock();
        // `receiver_count` still includes this follower.
        if followed.get(&self.verification).is_some_and(|followed| followed.version.receiver_count() <= 1) {
            followed.remove(&self.verification);
        }
    }
}

impl PageFollowers {
    fn follow(
        self: &Arc<Self>,
        verification: CheckId,
        workspace: WorkspaceId,
    ) -> Result<PageFollower, TooManyFollowers> {
        let mut followed = self.lock();
        let count = |is_counted: &dyn Fn(&CheckId, &Followed) -> bool| {
            let counted = followed.iter().filter(|(id, other)| is_counted(id, other));
            counted.map(|(_, other)| other.version.receiver_count()).sum::<usize>()
        };
        let has_room = count(&|_, _| true) < MAX_FOLLOWERS
            && count(&|_, other| other.workspace == workspace) < MAX_PER_WORKSPACE
            && count(&|id, _| *id == verification) < MAX_PER_VERIFICATION;
        if !has_room {
            return Err(TooManyFollowers);
        }
        let new = || Followed { workspace, version: watch::Sender::new(None) };
        let version = followed.entry(verification).or_insert_with(new).version.subscribe();
        self.follower_added.notify_one();
        Ok(PageFollower { version, verification, followers: Arc::clone(self) })
    }

    fn verifications(&self) -> Vec<CheckId> {
        let mut followed = self.lock();
        // When the last two followers of a verification are dropped at the same time, each still sees the other in
        // `receiver_count`, and neither removes the verification. It is removed here.
        followed.retain(|_, followed| followed.version.receiver_count() > 0);
        followed.keys().copied().collect()
    }

    fn update(&self, verification: CheckId, version: PageVersion) {
        if let Some(followed) = self.lock().get(&verification) {
            followed.version.send_if_modified(|before| before.replace(version) != Some(version));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CheckId, Followed>> {
        self.followed.lock()
    }
}

impl Verifications {
    /// Subscribes an open hosted page to changes of its verification.
    pub fn follow_page(&self, view: &PageView) -> Result<PageFollower, TooManyFollowers> {
        let project = self.context.control_plane.project(view.project);
        // If this node does not know the project, the limit per workspace applies to the project instead.
        let workspace = project.map_or(WorkspaceId(view.project.0), |project| project.workspace);
        self.followers.follow(view.verification, workspace)
    }

    /// Polls the database for changed verifications and notifies their open pages, until `shutdown`.
    pub async fn run_followers(&self, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await.is_some() {
            let followed = self.followers.verifications();
            if followed.is_empty() {
                shutdown.run_until_cancelled(self.followers.follower_added.notified()).await;
            } else if let Err(error) = self.poll_marks(followed).await {
                tracing::debug!(%error, "failed to read followed verifications; retrying");
            }
        }
    }

    async fn poll_marks(&self, followed: Vec<CheckId>) -> Result<(), StoreError> {
        for (verification, version) in self.store.page_versions(followed).await? {
            self.followers.update(verification, version);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::lifecycle::CheckStatus;
    use uuid::Uuid;

    use super::*;

    fn id(number: usize) -> CheckId {
        CheckId(Uuid::from_u128(number as u128))
    }

    fn workspace(number: u128) -> WorkspaceId {
        WorkspaceId(Uuid::from_u128(number))
    }

    #[test]
    fn one_workspace_or_verification_does_not_take_all_places() {
        let followers = Arc::<PageFollowers>::default();
        let follow = |verification, number| followers.follow(id(verification), workspace(number)).ok();
        let mut open: Vec<_> = (0..MAX_FOLLOWERS).map_while(|number| follow(number, 1)).collect();
        assert_eq!(open.len(), MAX_PER_WORKSPACE);
        let other: Vec<_> = (0..MAX_FOLLOWERS).map_while(|_| follow(MAX_FOLLOWERS, 2)).collect();
        assert_eq!(other.len(), MAX_PER_VERIFICATION);
        open.pop();
        assert!(follow(MAX_FOLLOWERS + 1, 1).is_some(), "a dropped follower frees its place");
        drop((open, other));
        assert!(followers.verifications().is_empty());
    }

    #[tokio::test]
    async fn followers_are_notified_of_new_versions_only() {
        let followers = Arc::<PageFollowers>::default();
        let mut both = [1, 2].map(|_| followers.follow(id(1), workspace(1)).unwrap());
        let version = PageVersion { step: id(2), status: CheckStatus::Accepted, step_status: None, has_verdict: false };
        let has_changed = |follower: &mut PageFollower| follower.version.has_changed().unwrap();
        for (version, is_change) in
            [(version, true), (version, false), (PageVersion { has_verdict: true, ..version }, true)]
        {
            followers.update(id(1), version);
            for follower in &mut both {
                assert_eq!(has_changed(follower), is_change);
                follower.version.mark_unchanged();
            }
        }
        followers.update(id(9), version);
    }
}
