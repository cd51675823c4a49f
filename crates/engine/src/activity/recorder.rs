//! The counters in memory.
//!
//! Counting is on the way of every check, so it must cost next to nothing: one short lock and one look-up, and an
//! allocation only where the table of a node's busiest seconds has to grow.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use ringtrue_domain::{
    activity::Counts,
    lifecycle::{Check, Status, Verdict},
    network::NetworkId,
    product::Product,
    tenancy::ProjectId,
};
use uuid::Uuid;

use super::totals::{Total, Totals, duration_millis};
use crate::ports::{ActivityCount, MarkedPending, Then};

/// How many counters are kept while the store is away: some tens of megabytes.
const MOST_COUNTERS: usize = 100_000;

/// What counts are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    project: Uuid,
    /// Whole minutes since 1970.
    minute: i64,
    product: Product,
    network: Network,
}

/// A network's digits, or nothing: an id without a place of its own in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Network([u8; 6]);

impl From<Option<&NetworkId>> for Network {
    fn from(id: Option<&NetworkId>) -> Self {
        let mut network = Network::default();
        let digits = id.map_or(&[][..], |id| id.as_str().as_bytes());
        for (place, digit) in network.0.iter_mut().zip(digits) {
            *place = *digit;
        }
        network
    }
}

impl Network {
    fn id(self) -> Option<NetworkId> {
        std::str::from_utf8(&self.0).ok()?.trim_end_matches('\0').parse().ok()
    }
}

impl Key {
    fn new(project: ProjectId, product: Product, network: Option<&NetworkId>, at: Timestamp) -> Self {
        let minute = at.as_second().div_euclid(60);
        Key { project: project.0, minute, product, network: network.into() }
    }

    fn of<V>(check: &Check<V>) -> Self {
        Key::new(check.project, check.product, check.network.as_ref(), check.created_at)
    }
}

type Counters = HashMap<Key, Counts>;

/// Counts what happens on this node.
#[derive(Debug, Default)]
pub struct Activity {
    counters: Mutex<Counters>,
    totals: Totals,
    /// Held while counts are on their way to the store, so that whoever comes next finds them there.
    pub(super) flushing: tokio::sync::Mutex<()>,
}

/// Where a check is counted, to be remembered while the check is given away.
#[derive(Clone, Copy, Debug)]
pub struct Place(Key);

impl Activity {
    pub fn place_of<V>(check: &Check<V>) -> Place {
        Place(Key::of(check))
    }

    /// A check was created.
    pub fn created(&self, place: Place) {
        self.totals.created(place.0.product);
        self.count(place.0, |counts| counts.created += 1);
    }

    /// A check was created that ended at once. Nobody else was needed, so everybody has done their part.
    pub fn created_and_ended<V: Verdict + Clone>(&self, check: &Check<V>) {
        self.totals.created(check.product);
        self.totals.ended(check);
        self.count(Key::of(check), |counts| {
            counts.created += 1;
            counts.seen += 1;
            end(counts, check);
        });
    }

    /// The end-user of a check has texted, or their device has come, for the first time.
    pub fn seen(&self, place: Place) {
        self.count(place.0, |counts| counts.seen += 1);
    }

    /// The same of checks that have become pending by it.
    pub fn marked_pending(&self, marked: &[MarkedPending]) {
        for check in marked {
            let key = Key::new(check.project, check.product, check.network.as_ref(), check.created_at);
            self.count(key, |counts| counts.seen += 1);
        }
    }

    /// The device of a check, as it was before, sets out to its operator's network.
    pub fn set_out<V: Clone>(&self, check: &Check<V>, network: &NetworkId) {
        let was_seen = i64::from(check.status() != Status::Accepted);
        let before = Key::of(check);
        let after = Key { network: Some(network).into(), ..before };
        if before == after {
            self.count(after, |counts| counts.seen += 1 - was_seen);
            return;
        }
        // The network was not known before, or the device has changed it.
        self.count(before, |counts| {
            counts.created -= 1;
            counts.seen -= was_seen;
        });
        self.count(after, |counts| {
            counts.created += 1;
            counts.seen += 1;
        });
    }

    /// A check has ended.
    pub fn ended<V: Verdict + Clone>(&self, check: &Check<V>) {
        self.totals.ended(check);
        self.count(Key::of(check), |counts| end(counts, check));
    }

    /// An attempt at a callback was settled.
    pub fn attempted(&self, project: ProjectId, product: Product, ended_at: Timestamp, then: Then) {
        self.count(Key::new(project, product, None, ended_at), |counts| match then {
            Then::Delivered => counts.attempts_delivered += 1,
            Then::RetryAt(_) => counts.attempts_failed += 1,
            Then::GivenUp => {
                counts.attempts_failed += 1;
                counts.given_up += 1;
            }
        });
    }

    /// What has happened on this node since it started, by product.
    pub fn totals(&self) -> Vec<Total> {
        self.totals.read()
    }

    fn count(&self, key: Key, change: impl FnOnce(&mut Counts)) {
        let mut counters = self.counters();
        if counters.len() < MOST_COUNTERS || counters.contains_key(&key) {
            change(counters.entry(key).or_default());
        }
    }

    /// Takes what was counted, in the order of the keys. New counts begin in a table that has room for as many.
    pub(super) fn take(&self) -> Vec<(Key, Counts)> {
        let room = self.counters().len();
        let empty = Counters::with_capacity(room);
        let taken = mem::replace(&mut *self.counters(), empty);
        let mut taken: Vec<_> = taken.into_iter().filter(|(_, counts)| !counts.is_nothing()).collect();
        taken.sort_unstable_by_key(|(key, _)| *key);
        taken
    }

    /// Keeps for later what could not be stored.
    pub(super) fn put_back(&self, counts: &[(Key, Counts)]) {
        for (key, later) in counts {
            self.count(*key, |counts| *counts += later);
        }
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        // A panic elsewhere leaves no count half changed.
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end<V: Verdict + Clone>(counts: &mut Counts, check: &Check<V>) {
    match check.status() {
        Status::Accepted | Status::Pending => {}
        Status::Expired => counts.expired += 1,
        Status::Error => counts.failed += 1,
        Status::Completed => {
            counts.completed += 1;
            counts.matched += i64::from(check.verdict().and_then(Verdict::matched) != Some(false));
            counts.latency[Counts::bucket(duration_millis(check))] += 1;
        }
    }
}

impl From<&(Key, Counts)> for ActivityCount {
    fn from((key, counts): &(Key, Counts)) -> Self {
        ActivityCount {
            project: ProjectId(key.project),
            minute: Timestamp::from_second(key.minute.saturating_mul(60)).unwrap_or(Timestamp::UNIX_EPOCH),
            product: key.product,
            network: key.network.id(),
            counts: *counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_networks_digits_lead_back_to_it() {
        for id in ["23410", "310004"] {
            let id: NetworkId = id.parse().unwrap();
            assert_eq!(Network::from(Some(&id)).id(), Some(id));
        }
        assert_eq!(Network::from(None).id(), None);
    }

    #[test]
    fn what_is_put_back_adds_up_with_what_has_come_since() {
        let activity = Activity::default();
        let (project, product) = (ProjectId(Uuid::from_u128(1)), Product::ReverseSms);
        let at: Timestamp = "2026-11-15T02:30:59.999Z".parse().unwrap();
        let attempted = |then| activity.attempted(project, product, at, then);
        attempted(Then::Delivered);
        let taken = activity.take();
        assert!(activity.take().is_empty());
        attempted(Then::RetryAt(at));
        attempted(Then::GivenUp);
        activity.put_back(&taken);
        let [(key, counts)] = activity.take()[..] else { panic!("one minute") };
        assert_eq!(counts, Counts { attempts_delivered: 1, attempts_failed: 2, given_up: 1, ..Counts::default() });
        assert_eq!(ActivityCount::from(&(key, counts)).minute, "2026-11-15T02:30:00Z".parse().unwrap());
    }

    #[test]
    fn counters_are_bounded() {
        let activity = Activity::default();
        let (project, product) = (ProjectId(Uuid::from_u128(1)), Product::ReverseSms);
        let minutes = i64::try_from(MOST_COUNTERS).unwrap() + 10;
        for minute in (0..minutes).chain([0]) {
            let at = Timestamp::from_second(60 * minute).unwrap();
            activity.attempted(project, product, at, Then::Delivered);
        }
        let taken = activity.take();
        assert_eq!(taken.len(), MOST_COUNTERS);
        assert_eq!(taken[0].1.attempts_delivered, 2, "what is there is counted on");
    }
}
