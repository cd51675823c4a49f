//! In-memory activity counters.
//!
//! Every event of every check is counted, so counting has to be cheap: it takes one short lock and one lookup, and it
//! allocates only when the table grows.

use std::{
    collections::HashMap,
    mem,
    sync::atomic::{AtomicU64, Ordering},
};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::{
    activity::{ActivityCounts, LATENCY_BOUNDS_MILLIS},
    lifecycle::{Check, CheckStatus, Provenance, Verdict},
    network::NetworkId,
    product::Product,
    silent::{SilentWay, WalletFailure},
    tenancy::ProjectId,
    verification::funnel::FunnelEvent,
};
use strum::VariantArray as _;
use uuid::Uuid;

use crate::ports::{
    activity::{ActivityDelta, FunnelDelta},
    callbacks::AttemptOutcome,
    checks::MarkedPending,
};

/// Maximum number of counters in memory, some tens of megabytes. Reached only if the store is unavailable for long.
/// Then events that need a new counter are not counted.
const MAX_COUNTERS: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CounterKey {
    project: Uuid,
    /// Unix time in minutes.
    minute: i64,
    product: Product,
    network: PackedNetworkId,
    is_step: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FunnelKey {
    project: Uuid,
    /// Unix time in minutes.
    minute: i64,
    event: FunnelEvent,
}

/// An optional network id in a fixed-size array, to avoid heap allocation. All zeros: no network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct PackedNetworkId([u8; 6]);

impl From<Option<&NetworkId>> for PackedNetworkId {
    fn from(id: Option<&NetworkId>) -> Self {
        let mut network = PackedNetworkId::default();
        let digits = id.map_or(&[][..], |id| id.as_str().as_bytes());
        for (slot, digit) in network.0.iter_mut().zip(digits) {
            *slot = *digit;
        }
        network
    }
}

impl PackedNetworkId {
    fn id(self) -> Option<NetworkId> {
        std::str::from_utf8(&self.0).ok()?.trim_end_matches('\0').parse().ok()
    }
}

impl CounterKey {
    fn new(project: ProjectId, product: Product, network: Option<&NetworkId>, at: Timestamp) -> Self {
        CounterKey { project: project.0, minute: minute_of(at), product, network: network.into(), is_step: false }
    }

    fn of<V>(check: &Check<V>) -> Self {
        let key = CounterKey::new(check.project, check.product, check.network.as_ref(), check.created_at);
        CounterKey { is_step: check.verification.is_some(), ..key }
    }
}

fn minute_of(at: Timestamp) -> i64 {
    at.as_second().div_euclid(60)
}

fn start_of_minute(minute: i64) -> Timestamp {
    Timestamp::from_second(minute.saturating_mul(60)).unwrap_or(Timestamp::UNIX_EPOCH)
}

type Counters = HashMap<CounterKey, ActivityCounts>;
type FunnelCounters = HashMap<FunnelKey, i64>;

/// Counts the events of checks and callbacks on this node.
#[derive(Debug, Default)]
pub struct ActivityRecorder {
    counters: Mutex<Counters>,
    funnel: Mutex<FunnelCounters>,
    totals: CheckTotals,
    way_totals: WayTotals,
    /// Held during a flush. A second caller waits, and then finds all counts in the store.
    pub(super) flushing: tokio::sync::Mutex<()>,
}

/// Identifies the counter of a check. It allows an event to be counted after the check was passed on by value.
#[derive(Clone, Copy, Debug)]
pub struct ActivityKey(CounterKey);

impl ActivityRecorder {
    pub fn key_of<V>(check: &Check<V>) -> ActivityKey {
        ActivityKey(CounterKey::of(check))
    }

    pub fn record_created(&self, key: ActivityKey) {
        self.totals.add_created(key.0.product);
        self.update(key.0, |counts| counts.created += 1);
    }

    /// Records a check that was created and concluded at the same time. It also counts as seen.
    pub fn record_created_and_concluded<V: Verdict + Clone>(&self, check: &Check<V>) {
        self.totals.add_created(check.product);
        self.totals.add_concluded(check);
        self.update(CounterKey::of(check), |counts| {
            counts.created += 1;
            counts.seen += 1;
            add_outcome(counts, check);
        });
    }

    /// Records that the end-user has acted for the first time: an SMS arrived, or the device opened the URL.
    pub fn record_seen(&self, key: ActivityKey) {
        self.update(key.0, |counts| counts.seen += 1);
    }

    /// Counts checks as seen that have just become pending: an SMS without a valid code has arrived from their phone
    /// number.
    pub fn record_pending(&self, marked: &[MarkedPending]) {
        for check in marked {
            let key = CounterKey::new(check.project, check.product, check.network.as_ref(), check.created_at);
            self.update(CounterKey { is_step: check.verification.is_some(), ..key }, |counts| counts.seen += 1);
        }
    }

    /// Records events of a verification in the funnel of its project.
    pub fn record_funnel<V>(&self, verification: &Check<V>, events: &[FunnelEvent]) {
        let (project, minute) = (verification.project.0, minute_of(verification.created_at));
        let mut funnel = self.funnel.lock();
        for &event in events {
            let key = FunnelKey { project, minute, event };
            if funnel.len() < MAX_COUNTERS || funnel.contains_key(&key) {
                *funnel.entry(key).or_default() += 1;
            }
        }
    }

    /// Records that a device was redirected to its operator, whose network is `network`. `check` is the check before
    /// the redirect.
    pub fn record_redirect<V: Clone>(&self, check: &Check<V>, network: &NetworkId) {
        let was_seen = i64::from(check.status() != CheckStatus::Accepted);
        let before = CounterKey::of(check);
        let after = CounterKey { network: Some(network).into(), ..before };
        if before == after {
            self.update(after, |counts| counts.seen += 1 - was_seen);
            return;
        }
        // The redirect changed the network of the check. Moves the check from the old network's counter to the new
        // one's.
        self.update(before, |counts| {
            counts.created -= 1;
            counts.seen -= was_seen;
        });
        self.update(after, |counts| {
            counts.created += 1;
            counts.seen += 1;
        });
    }

    /// Counts the way that a concluded silent check took, and what it led to.
    pub fn record_way<V: Verdict + Clone>(&self, check: &Check<V>, provenance: &Provenance) {
        if let Some(way) = provenance.way {
            self.way_totals.add(way, WayResult::of(check, provenance.wallet_failure));
        }
    }

    /// Returns how many silent checks each way has ended on this node since its start, by result.
    pub fn way_totals(&self) -> Vec<(SilentWay, &'static str, u64)> {
        self.way_totals.snapshot()
    }

    pub fn record_concluded<V: Verdict + Clone>(&self, check: &Check<V>) {
        self.totals.add_concluded(check);
        self.update(CounterKey::of(check), |counts| add_outcome(counts, check));
    }

    /// Records the result of a callback attempt.
    pub fn record_attempt(&self, project: ProjectId, product: Product, ended_at: Timestamp, then: AttemptOutcome) {
        self.update(CounterKey::new(project, product, None, ended_at), |counts| match then {
            AttemptOutcome::Delivered => counts.attempts_delivered += 1,
            AttemptOutcome::RetryAt(_) => counts.attempts_failed += 1,
            AttemptOutcome::GivenUp => {
                counts.attempts_failed += 1;
                counts.given_up += 1;
            }
        });
    }

    /// Returns the totals of this node since its start, by product.
    pub fn totals(&self) -> Vec<ProductTotals> {
        self.totals.snapshot()
    }

    fn update(&self, key: CounterKey, change: impl FnOnce(&mut ActivityCounts)) {
        let mut counters = self.counters();
        if counters.len() < MAX_COUNTERS || counters.contains_key(&key) {
            change(counters.entry(key).or_default());
        }
    }

    /// Removes and returns all counts, sorted by key. The new table gets the same capacity, so that it need not grow
    /// until it has as many counters.
    pub(super) fn drain(&self) -> Vec<(CounterKey, ActivityCounts)> {
        let capacity = self.counters().len();
        let empty = Counters::with_capacity(capacity);
        let taken = mem::replace(&mut *self.counters(), empty);
        let mut taken: Vec<_> = taken.into_iter().filter(|(_, counts)| !counts.is_zero()).collect();
        taken.sort_unstable_by_key(|(key, _)| *key);
        taken
    }

    /// Adds counts back to the counters after [`drain`](Self::drain) has removed them and the store has failed.
    pub(super) fn add_back(&self, counts: &[(CounterKey, ActivityCounts)]) {
        for (key, unstored) in counts {
            self.update(*key, |counts| *counts += unstored);
        }
    }

    /// Removes and returns the counts of all funnels, sorted by key.
    pub(super) fn drain_funnel(&self) -> Vec<(FunnelKey, i64)> {
        let mut taken: Vec<_> = mem::take(&mut *self.funnel.lock()).into_iter().collect();
        taken.sort_unstable();
        taken
    }

    /// Adds counts back after [`drain_funnel`](Self::drain_funnel) has removed them and the store has failed.
    pub(super) fn add_funnel_back(&self, counts: &[(FunnelKey, i64)]) {
        let mut funnel = self.funnel.lock();
        for (key, unstored) in counts {
            if funnel.len() < MAX_COUNTERS || funnel.contains_key(key) {
                *funnel.entry(*key).or_default() += unstored;
            }
        }
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        // A panic does not poison a `parking_lot` lock. That is safe here, because no update can panic half-way.
        self.counters.lock()
    }
}

fn add_outcome<V: Verdict + Clone>(counts: &mut ActivityCounts, check: &Check<V>) {
    match check.status() {
        CheckStatus::Accepted | CheckStatus::Pending => {}
        CheckStatus::Expired => counts.expired += 1,
        CheckStatus::Error => counts.failed += 1,
        CheckStatus::Completed => {
            counts.completed += 1;
            counts.matched += i64::from(check.verdict().and_then(Verdict::matched) != Some(false));
            counts.latency[ActivityCounts::latency_bucket(duration_millis(check))] += 1;
        }
    }
}

impl From<&(CounterKey, ActivityCounts)> for ActivityDelta {
    fn from((key, counts): &(CounterKey, ActivityCounts)) -> Self {
        ActivityDelta {
            project: ProjectId(key.project),
            minute: start_of_minute(key.minute),
            product: key.product,
            network: key.network.id(),
            is_step: key.is_step,
            counts: *counts,
        }
    }
}

impl From<&(FunnelKey, i64)> for FunnelDelta {
    fn from((key, count): &(FunnelKey, i64)) -> Self {
        let (project, minute) = (ProjectId(key.project), start_of_minute(key.minute));
        FunnelDelta { project, minute, event: key.event, count: *count }
    }
}

/// Values of the `outcome` label in metrics.
const OUTCOMES: [&str; 4] = ["match", "no_match", "expired", "error"];

/// Checks created and concluded on this node since its start, by product, for metrics.
#[derive(Debug, Default)]
struct CheckTotals([ProductCounters; Product::VARIANTS.len()]);

#[derive(Debug, Default)]
struct ProductCounters {
    created: AtomicU64,
    concluded: [AtomicU64; OUTCOMES.len()],
    duration_buckets: [AtomicU64; LATENCY_BOUNDS_MILLIS.len() + 1],
    duration_millis: AtomicU64,
}

/// Totals of one product on this node since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductTotals {
    pub product: Product,
    pub created: u64,
    /// Number of concluded checks by outcome.
    pub concluded: [(&'static str, u64); OUTCOMES.len()],
    /// Completed checks by duration, in the buckets of [`LATENCY_BOUNDS_MILLIS`] (not cumulative).
    pub duration_buckets: [u64; LATENCY_BOUNDS_MILLIS.len() + 1],
    pub duration_millis: u64,
}

impl CheckTotals {
    fn add_created(&self, product: Product) {
        if let Some(counters) = self.product_counters(product) {
            counters.created.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn add_concluded<V: Verdict + Clone>(&self, check: &Check<V>) {
        let Some(outcome) = outcome_of(check) else { return };
        let Some(counters) = self.product_counters(check.product) else { return };
        counters.concluded[outcome].fetch_add(1, Ordering::Relaxed);
        if check.status() == CheckStatus::Completed {
            let millis = duration_millis(check);
            counters.duration_buckets[ActivityCounts::latency_bucket(millis)].fetch_add(1, Ordering::Relaxed);
            counters.duration_millis.fetch_add(millis.max(0).unsigned_abs(), Ordering::Relaxed);
        }
    }

    fn snapshot(&self) -> Vec<ProductTotals> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let total = |(&product, counters): (&Product, &ProductCounters)| ProductTotals {
            product,
            created: count(&counters.created),
            concluded: std::array::from_fn(|outcome| (OUTCOMES[outcome], count(&counters.concluded[outcome]))),
            duration_buckets: std::array::from_fn(|bucket| count(&counters.duration_buckets[bucket])),
            duration_millis: count(&counters.duration_millis),
        };
        Product::VARIANTS.iter().zip(&self.0).map(total).collect()
    }

    fn product_counters(&self, product: Product) -> Option<&ProductCounters> {
        Product::VARIANTS.iter().zip(&self.0).find_map(|(&other, counters)| (other == product).then_some(counters))
    }
}

/// What a way of a silent check led to: an outcome of the check, or a failure of the phone's wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WayResult {
    Outcome(&'static str),
    Wallet(WalletFailure),
}

impl WayResult {
    fn of<V: Verdict + Clone>(check: &Check<V>, failure: Option<WalletFailure>) -> Self {
        failure.map_or_else(|| WayResult::Outcome(OUTCOMES[outcome_of(check).unwrap_or_default()]), WayResult::Wallet)
    }

    fn all() -> impl Iterator<Item = WayResult> {
        let outcomes = OUTCOMES.into_iter().map(WayResult::Outcome);
        outcomes.chain(WalletFailure::VARIANTS.iter().copied().map(WayResult::Wallet))
    }

    fn into_str(self) -> &'static str {
        match self {
            WayResult::Outcome(outcome) => outcome,
            WayResult::Wallet(failure) => failure.into_str(),
        }
    }
}

/// Silent checks ended on this node since its start, by way and result, for metrics.
#[derive(Debug, Default)]
struct WayTotals([[AtomicU64; OUTCOMES.len() + WalletFailure::VARIANTS.len()]; SilentWay::VARIANTS.len()]);

impl WayTotals {
    fn add(&self, way: SilentWay, result: WayResult) {
        let counters = SilentWay::VARIANTS.iter().zip(&self.0).find(|(other, _)| **other == way);
        let counter =
            counters.and_then(|(_, counters)| WayResult::all().zip(counters).find(|(other, _)| *other == result));
        if let Some((_, counter)) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn snapshot(&self) -> Vec<(SilentWay, &'static str, u64)> {
        let of_way = |(&way, counters): (&SilentWay, &[AtomicU64; _])| {
            let counts: Vec<_> = WayResult::all()
                .zip(counters)
                .map(|(result, counter)| (way, result.into_str(), counter.load(Ordering::Relaxed)))
                .collect();
            counts
        };
        SilentWay::VARIANTS.iter().zip(&self.0).flat_map(of_way).collect()
    }
}

/// Returns the index of a concluded check's outcome in [`OUTCOMES`]. `None`: the check is open.
fn outcome_of<V: Verdict + Clone>(check: &Check<V>) -> Option<usize> {
    match check.status() {
        CheckStatus::Accepted | CheckStatus::Pending => None,
        CheckStatus::Completed if check.verdict().and_then(Verdict::matched) == Some(false) => Some(1),
        CheckStatus::Completed => Some(0),
        CheckStatus::Expired => Some(2),
        CheckStatus::Error => Some(3),
    }
}

/// Returns the time from the creation of a check to its conclusion, in milliseconds.
fn duration_millis<V: Clone>(check: &Check<V>) -> i64 {
    let concluded_at = check.updated_at().unwrap_or(check.created_at);
    concluded_at.as_millisecond() - check.created_at.as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_network_id_round_trips() {
        for id in ["23410", "310004"] {
            let id: NetworkId = id.parse().unwrap();
            assert_eq!(PackedNetworkId::from(Some(&id)).id(), Some(id));
        }
        assert_eq!(PackedNetworkId::from(None).id(), None);
    }

    #[test]
    fn added_back_counts_are_summed_with_newer_ones() {
        let activity = ActivityRecorder::default();
        let (project, product) = (ProjectId(Uuid::from_u128(1)), Product::ReverseSms);
        let at: Timestamp = "2026-11-15T02:30:59.999Z".parse().unwrap();
        let attempted = |then| activity.record_attempt(project, product, at, then);
        attempted(AttemptOutcome::Delivered);
        let taken = activity.drain();
        assert!(activity.drain().is_empty());
        attempted(AttemptOutcome::RetryAt(at));
        attempted(AttemptOutcome::GivenUp);
        activity.add_back(&taken);
        let [(key, counts)] = activity.drain()[..] else { panic!("one minute") };
        assert_eq!(
            counts,
            ActivityCounts { attempts_delivered: 1, attempts_failed: 2, given_up: 1, ..ActivityCounts::default() }
        );
        assert_eq!(ActivityDelta::from(&(key, counts)).minute, "2026-11-15T02:30:00Z".parse().unwrap());
    }

    #[test]
    fn counters_are_bounded() {
        let activity = ActivityRecorder::default();
        let (project, product) = (ProjectId(Uuid::from_u128(1)), Product::ReverseSms);
        let minutes = i64::try_from(MAX_COUNTERS).unwrap() + 10;
        for minute in (0..minutes).chain([0]) {
            let at = Timestamp::from_second(60 * minute).unwrap();
            activity.record_attempt(project, product, at, AttemptOutcome::Delivered);
        }
        let taken = activity.drain();
        assert_eq!(taken.len(), MAX_COUNTERS);
        assert_eq!(taken[0].1.attempts_delivered, 2, "existing counters still count");
    }
}
