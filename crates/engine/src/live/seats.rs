//! How many windows are open: in all, for each workspace and for each account; and which session each belongs to.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringtrue_domain::{account::AccountId, tenancy::WorkspaceId};
use tokio_util::sync::CancellationToken;

use super::WatchError;
use crate::ports::{SessionAccess, TokenHash};

/// Enough for some tabs. Browsers open six connections to a host, and a page needs one of them.
const PER_ACCOUNT: usize = 5;
/// Each holds a connection and little else.
const IN_ALL: usize = 200;
/// Of these for administrators alone.
const FOR_ADMINISTRATORS: usize = 20;
/// The share of one workspace's members.
const PER_WORKSPACE: usize = IN_ALL / 4;

/// Who opens a window, and on which workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewer {
    pub account: AccountId,
    pub is_admin: bool,
    pub workspace: WorkspaceId,
    pub session: TokenHash,
}

impl Viewer {
    /// Whether a session may still see the workspace.
    fn is_admitted(&self, access: &SessionAccess) -> bool {
        access.token == self.session && (access.is_admin || access.workspaces.contains(&self.workspace))
    }
}

#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    /// What each account holds, the oldest first.
    held: HashMap<AccountId, VecDeque<Held>>,
    last: u64,
}

#[derive(Debug)]
struct Held {
    number: u64,
    viewer: Viewer,
    /// A later window of the same account has taken the place.
    replaced: CancellationToken,
    /// The session has ended, or its account may not see the workspace any more.
    ended: CancellationToken,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    account: AccountId,
    number: u64,
    replaced: CancellationToken,
    ended: CancellationToken,
}

impl Taken {
    fn count(&self, is_wanted: impl Fn(&Viewer) -> bool) -> usize {
        self.held.values().flatten().filter(|held| is_wanted(&held.viewer)).count()
    }

    /// Whether there is room for one more window besides those that are held.
    fn has_room_for(&self, viewer: &Viewer) -> bool {
        if viewer.is_admin {
            return self.count(|_| true) < IN_ALL;
        }
        self.count(|other| !other.is_admin) < IN_ALL - FOR_ADMINISTRATORS
            && self.count(|other| !other.is_admin && other.workspace == viewer.workspace) < PER_WORKSPACE
            && self.count(|_| true) < IN_ALL
    }
}

impl Seats {
    /// Takes a seat. Whoever has as many as may be loses the oldest: a window that was closed is noticed late, and must
    /// not keep its place from the next.
    pub(super) fn take(self: &Arc<Self>, viewer: Viewer) -> Result<Seat, WatchError> {
        let mut taken = self.taken();
        let own = taken.held.entry(viewer.account).or_default();
        let oldest = if own.len() >= PER_ACCOUNT { own.pop_front() } else { None };
        if !taken.has_room_for(&viewer) {
            let own = taken.held.entry(viewer.account).or_default();
            own.extend(oldest);
            own.make_contiguous().sort_by_key(|held| held.number);
            if own.is_empty() {
                taken.held.remove(&viewer.account);
            }
            return Err(WatchError::TooMany);
        }
        if let Some(oldest) = oldest {
            oldest.replaced.cancel();
        }
        taken.last += 1;
        let number = taken.last;
        let (replaced, ended) = (CancellationToken::new(), CancellationToken::new());
        let held = Held { number, viewer, replaced: replaced.clone(), ended: ended.clone() };
        taken.held.entry(viewer.account).or_default().push_back(held);
        Ok(Seat { seats: Arc::clone(self), account: viewer.account, number, replaced, ended })
    }

    /// The viewers of all windows.
    pub(super) fn viewers(&self) -> Vec<Viewer> {
        self.taken().held.values().flatten().map(|held| held.viewer).collect()
    }

    /// Ends the windows of those viewers that `access` does not admit.
    pub(super) fn end_all_but(&self, viewers: &[Viewer], access: &[SessionAccess]) {
        // A window that was opened after the question is not part of the answer.
        let was_asked = |viewer: &Viewer| {
            viewers.iter().any(|asked| (asked.session, asked.workspace) == (viewer.session, viewer.workspace))
        };
        for held in self.taken().held.values().flatten() {
            let is_admitted = access.iter().any(|access| held.viewer.is_admitted(access));
            if was_asked(&held.viewer) && !is_admitted {
                held.ended.cancel();
            }
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Resolves when a later window of the same account has taken the seat.
    pub(super) async fn replaced(&self) {
        self.replaced.cancelled().await;
    }

    /// Resolves when the viewer may not watch any more.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(own) = taken.held.get_mut(&self.account) {
            own.retain(|held| held.number != self.number);
            if own.is_empty() {
                taken.held.remove(&self.account);
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

    fn replaced(held: &[Seat]) -> Vec<bool> {
        held.iter().map(|seat| seat.replaced.is_cancelled()).collect()
    }

    #[test]
    fn seats_are_limited_for_each_account_and_come_back() {
        let seats = Arc::<Seats>::default();
        let mut held: Vec<_> = (0..5).map(|_| seats.take(member(1, 1)).unwrap()).collect();
        assert_eq!(replaced(&held), [false; 5]);
        held.pop();
        held.push(seats.take(member(1, 1)).unwrap());
        assert_eq!(replaced(&held), [false; 5]);
        held.push(seats.take(member(1, 1)).unwrap());
        assert_eq!(replaced(&held), [true, false, false, false, false, false]);
        // What was lost is not given back a second time.
        held.remove(0);
        held.push(seats.take(member(1, 1)).unwrap());
        assert_eq!(replaced(&held), [true, false, false, false, false, false]);
        drop(held);
        assert!(seats.taken().held.is_empty());
    }

    #[test]
    fn a_workspace_has_a_quarter_and_administrators_keep_a_tenth() {
        let seats = Arc::<Seats>::default();
        let mut held: Vec<_> = (0..50).map(|number| seats.take(member(number, 1)).unwrap()).collect();
        assert!(matches!(seats.take(member(99, 1)), Err(WatchError::TooMany)));
        assert!(!seats.taken().held.contains_key(&member(99, 1).account));
        // Windows of administrators on that workspace do not count for its share, nor are they limited by it.
        held.push(seats.take(admin(100)).unwrap());
        held.extend((200..330).map(|number| seats.take(member(number, 2 + number % 3)).unwrap()));
        assert!(matches!(seats.take(member(400, 9)), Err(WatchError::TooMany)), "180 are for members");
        held.extend((500..519).map(|number| seats.take(admin(number)).unwrap()));
        assert!(matches!(seats.take(admin(600)), Err(WatchError::TooMany)), "200 in all");
        // An account with five windows exchanges its oldest for a new one even when all seats are taken.
        drop(held.drain(..4));
        held.extend((0..4).map(|_| seats.take(member(49, 1)).unwrap()));
        held.push(seats.take(member(49, 1)).unwrap());
        assert_eq!(replaced(&held).into_iter().filter(|replaced| *replaced).count(), 1);
        // And keeps its oldest if the new one is for a workspace without room.
        drop(held);
        let full: Vec<_> = (0..50).map(|number| seats.take(member(number, 1)).unwrap()).collect();
        let own: Vec<_> = (0..5).map(|_| seats.take(member(99, 2)).unwrap()).collect();
        assert!(matches!(seats.take(member(99, 1)), Err(WatchError::TooMany)));
        assert_eq!(replaced(&own), [false; 5]);
        drop((full, own));
        assert!(seats.taken().held.is_empty());
    }

    #[test]
    fn windows_end_with_the_access_of_their_session() {
        let seats = Arc::<Seats>::default();
        let viewers = [member(1, 1), member(2, 1), member(3, 2), admin(4), admin(5)];
        let held: Vec<_> = viewers.iter().map(|viewer| seats.take(*viewer).unwrap()).collect();
        let asked = seats.viewers();
        let late = seats.take(member(6, 1)).unwrap();
        let access = |viewer: &Viewer, is_admin, workspaces: &[u128]| SessionAccess {
            token: viewer.session,
            is_admin,
            workspaces: workspaces.iter().map(|number| WorkspaceId(Uuid::from_u128(*number))).collect(),
        };
        let [first, _, third, fourth, fifth] = &viewers;
        seats.end_all_but(
            &asked,
            &[
                access(first, false, &[1]),
                access(third, false, &[1]),
                access(fourth, true, &[]),
                access(fifth, false, &[]),
            ],
        );
        let ended: Vec<_> = held.iter().chain([&late]).map(|seat| seat.ended.is_cancelled()).collect();
        assert_eq!(ended, [false, true, true, false, true, false]);
    }
}
