//! Limits the live subscriptions on this node: in total, per workspace and per account.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::{account::AccountId, tenancy::WorkspaceId};
use tokio_util::sync::CancellationToken;

use super::WatchError;
use crate::ports::{accounts::SessionAccess, hashes::TokenHash};

/// Maximum number of subscriptions of one account. Browsers open at most six connections to a host, and loading pages
/// needs one of them.
const MAX_PER_ACCOUNT: usize = 5;
const MAX_TOTAL: usize = 200;
/// Part of [`MAX_TOTAL`] that only administrators can use.
const RESERVED_FOR_ADMINISTRATORS: usize = 20;
/// Maximum number of subscriptions to one workspace. Those of administrators do not count.
const MAX_PER_WORKSPACE: usize = MAX_TOTAL / 4;

/// The session of a live subscription, and the workspace of the project that it watches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewer {
    pub account: AccountId,
    pub is_admin: bool,
    pub workspace: WorkspaceId,
    pub session: TokenHash,
}

impl Viewer {
    fn has_access(&self, access: &SessionAccess) -> bool {
        access.token == self.session && (access.is_admin || access.workspaces.contains(&self.workspace))
    }
}

/// Counts the live subscriptions of this node.
#[derive(Debug, Default)]
pub(super) struct ViewerLimit(Mutex<PermitTable>);

#[derive(Debug, Default)]
struct PermitTable {
    /// The permits of each account, oldest first.
    held: HashMap<AccountId, VecDeque<HeldPermit>>,
    last_number: u64,
}

#[derive(Debug)]
struct HeldPermit {
    number: u64,
    viewer: Viewer,
    /// Cancelled when the account is at its limit and a later subscription replaces this one.
    replaced: CancellationToken,
    /// Cancelled when the session has ended, or has lost access to the workspace.
    ended: CancellationToken,
}

/// Permit of one live subscription, released on drop.
#[derive(Debug)]
pub(super) struct ViewerPermit {
    limit: Arc<ViewerLimit>,
    account: AccountId,
    number: u64,
    replaced: CancellationToken,
    ended: CancellationToken,
}

impl PermitTable {
    fn count(&self, filter: impl Fn(&Viewer) -> bool) -> usize {
        self.held.values().flatten().filter(|held| filter(&held.viewer)).count()
    }

    fn has_room_for(&self, viewer: &Viewer) -> bool {
        if viewer.is_admin {
            return self.count(|_| true) < MAX_TOTAL;
        }
        self.count(|other| !other.is_admin) < MAX_TOTAL - RESERVED_FOR_ADMINISTRATORS
            && self.count(|other| !other.is_admin && other.workspace == viewer.workspace) < MAX_PER_WORKSPACE
            && self.count(|_| true) < MAX_TOTAL
    }
}

impl ViewerLimit {
    /// Acquires a permit for a subscription. If the account is at its limit, its oldest subscription ends. The server
    /// notices late that a page was closed, so the oldest subscription may belong to a closed page.
    pub(super) fn acquire(self: &Arc<Self>, viewer: Viewer) -> Result<ViewerPermit, WatchError> {
        let mut permits = self.lock();
        let own = permits.held.entry(viewer.account).or_default();
        let oldest = if own.len() >= MAX_PER_ACCOUNT { own.pop_front() } else { None };
        if !permits.has_room_for(&viewer) {
            let own = permits.held.entry(viewer.account).or_default();
            own.extend(oldest);
            own.make_contiguous().sort_by_key(|held| held.number);
            if own.is_empty() {
                permits.held.remove(&viewer.account);
            }
            return Err(WatchError::TooManyViewers);
        }
        if let Some(oldest) = oldest {
            oldest.replaced.cancel();
        }
        permits.last_number += 1;
        let number = permits.last_number;
        let (replaced, ended) = (CancellationToken::new(), CancellationToken::new());
        let held = HeldPermit { number, viewer, replaced: replaced.clone(), ended: ended.clone() };
        permits.held.entry(viewer.account).or_default().push_back(held);
        Ok(ViewerPermit { limit: Arc::clone(self), account: viewer.account, number, replaced, ended })
    }

    /// Returns the viewers of all subscriptions.
    pub(super) fn viewers(&self) -> Vec<Viewer> {
        self.lock().held.values().flatten().map(|held| held.viewer).collect()
    }

    /// Ends the subscriptions of those `viewers` that have no access. `access` is what the store returned for them.
    pub(super) fn end_without_access(&self, viewers: &[Viewer], access: &[SessionAccess]) {
        // Subscriptions that were opened after the query are not in `access`, and must not end.
        let is_covered = |viewer: &Viewer| {
            viewers.iter().any(|other| (other.session, other.workspace) == (viewer.session, viewer.workspace))
        };
        for held in self.lock().held.values().flatten() {
            let has_access = access.iter().any(|access| held.viewer.has_access(access));
            if is_covered(&held.viewer) && !has_access {
                held.ended.cancel();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PermitTable> {
        self.0.lock()
    }
}

impl ViewerPermit {
    /// Resolves when a later subscription of the same account has replaced this one.
    pub(super) async fn wait_until_replaced(&self) {
        self.replaced.cancelled().await;
    }

    /// Resolves when the session has ended, or has lost access to the workspace.
    pub(super) async fn wait_until_ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for ViewerPermit {
    fn drop(&mut self) {
        let mut permits = self.limit.lock();
        if let Some(own) = permits.held.get_mut(&self.account) {
            own.retain(|held| held.number != self.number);
            if own.is_empty() {
                permits.held.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn member(account: u128, workspace: u128) -> Viewer {
        Viewer {
            account: AccountId(Uuid::from_u128(account)),
            is_admin: false,
            workspace: WorkspaceId(Uuid::from_u128(workspace)),
            session: TokenHash([u8::try_from(account % 251).unwrap(); 32]),
        }
    }

    fn admin(account: u128) -> Viewer {
        Viewer { is_admin: true, ..member(account, 1) }
    }

    fn replaced(held: &[ViewerPermit]) -> Vec<bool> {
        held.iter().map(|permit| permit.replaced.is_cancelled()).collect()
    }

    #[test]
    fn account_limit_replaces_the_oldest_subscription() {
        let limit = Arc::<ViewerLimit>::default();
        let mut held: Vec<_> = (0..5).map(|_| limit.acquire(member(1, 1)).unwrap()).collect();
        assert_eq!(replaced(&held), [false; 5]);
        held.pop();
        held.push(limit.acquire(member(1, 1)).unwrap());
        assert_eq!(replaced(&held), [false; 5]);
        held.push(limit.acquire(member(1, 1)).unwrap());
        assert_eq!(replaced(&held), [true, false, false, false, false, false]);
        // The replaced subscription no longer counts, so dropping its permit does not make room for another one.
        held.remove(0);
        held.push(limit.acquire(member(1, 1)).unwrap());
        assert_eq!(replaced(&held), [true, false, false, false, false, false]);
        drop(held);
        assert!(limit.lock().held.is_empty());
    }

    #[test]
    fn workspace_and_administrator_limits_apply() {
        let limit = Arc::<ViewerLimit>::default();
        let mut held: Vec<_> = (0..50).map(|number| limit.acquire(member(number, 1)).unwrap()).collect();
        assert!(matches!(limit.acquire(member(99, 1)), Err(WatchError::TooManyViewers)));
        assert!(!limit.lock().held.contains_key(&member(99, 1).account));
        // Subscriptions of administrators do not count towards the workspace limit, and are not subject to it.
        held.push(limit.acquire(admin(100)).unwrap());
        held.extend((200..330).map(|number| limit.acquire(member(number, 2 + number % 3)).unwrap()));
        assert!(matches!(limit.acquire(member(400, 9)), Err(WatchError::TooManyViewers)), "180 are for members");
        held.extend((500..519).map(|number| limit.acquire(admin(number)).unwrap()));
        assert!(matches!(limit.acquire(admin(600)), Err(WatchError::TooManyViewers)), "200 in all");
        // An account at its limit replaces its oldest subscription even when all permits are taken.
        drop(held.drain(..4));
        held.extend((0..4).map(|_| limit.acquire(member(49, 1)).unwrap()));
        held.push(limit.acquire(member(49, 1)).unwrap());
        assert_eq!(replaced(&held).into_iter().filter(|replaced| *replaced).count(), 1);
        // An account at its limit keeps its oldest subscription if the new one is rejected. Here the workspace of the
        // new one is at its limit.
        drop(held);
        let full: Vec<_> = (0..50).map(|number| limit.acquire(member(number, 1)).unwrap()).collect();
        let own: Vec<_> = (0..5).map(|_| limit.acquire(member(99, 2)).unwrap()).collect();
        assert!(matches!(limit.acquire(member(99, 1)), Err(WatchError::TooManyViewers)));
        assert_eq!(replaced(&own), [false; 5]);
        drop((full, own));
        assert!(limit.lock().held.is_empty());
    }

    #[test]
    fn subscriptions_end_when_their_session_loses_access() {
        let limit = Arc::<ViewerLimit>::default();
        let viewers = [member(1, 1), member(2, 1), member(3, 2), admin(4), admin(5)];
        let held: Vec<_> = viewers.iter().map(|viewer| limit.acquire(*viewer).unwrap()).collect();
        let queried = limit.viewers();
        let late = limit.acquire(member(6, 1)).unwrap();
        let access = |viewer: &Viewer, is_admin, workspaces: &[u128]| SessionAccess {
            token: viewer.session,
            is_admin,
            workspaces: workspaces.iter().map(|number| WorkspaceId(Uuid::from_u128(*number))).collect(),
        };
        let [first, _, third, fourth, fifth] = &viewers;
        limit.end_without_access(
            &queried,
            &[
                access(first, false, &[1]),
                access(third, false, &[1]),
                access(fourth, true, &[]),
                access(fifth, false, &[]),
            ],
        );
        let ended: Vec<_> = held.iter().chain([&late]).map(|permit| permit.ended.is_cancelled()).collect();
        assert_eq!(ended, [false, true, true, false, true, false]);
    }
}
