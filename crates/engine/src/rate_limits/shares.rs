//! Divides a rate limit among nodes.
//!
//! By default, every node admits the whole limit. A limit is divided only if all nodes together are known to have
//! received more calls than the limit within the same second. Nodes publish their calls of the last seconds separately
//! for each second, and their clocks agree. Therefore a node never adds calls of different seconds, and never refuses a
//! client below its limit, even if the client moves between nodes.
//!
//! While the calls exceed the limit, the nodes that receive them divide the limit in proportion to their calls. A node
//! that has received no calls in the last seconds admits the whole limit for one second, because it cannot know from
//! which other nodes the calls have moved to it.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::ports::node::{NodeId, PublishedDemand};

/// Maximum number of subjects that a node publishes for each of its two counter caches. It publishes the busiest ones.
pub const MAX_PUBLISHED: usize = 1_000;
/// Nodes that divide a limit admit this fraction (1/10) more than the limit in total. The tolerance is needed because a
/// client close to its limit sends irregularly, and the clocks of nodes differ by milliseconds.
const TOLERANCE_DIVISOR: u32 = 10;
/// Minimum duration from which a rate is extrapolated. A shorter part of a second has too few calls to estimate the
/// rate.
const MIN_BURST_MILLIS: u64 = 100;

/// Keyed hash of a [`LimitSubject`](super::LimitSubject), under which nodes publish its calls.
pub type SubjectKey = u64;

/// Calls that a node received in each of the two previous windows and in the current one, oldest first, admitted or
/// not.
pub type RecentCalls = [u32; 3];

/// Calls that another node has published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedCalls {
    pub node: NodeId,
    pub at: Timestamp,
    pub calls: HashMap<SubjectKey, RecentCalls>,
}

impl PublishedCalls {
    /// Decodes the output of [`encode_calls`]. Skips invalid lines.
    pub fn decode(published: &PublishedDemand) -> Self {
        let line = |line: &str| {
            let mut words = line.split(' ');
            let key = u64::from_str_radix(words.next()?, 16).ok()?;
            let mut next = || words.next()?.parse().ok();
            Some((key, [next()?, next()?, next()?]))
        };
        let calls = published.demand.lines().take(2 * MAX_PUBLISHED).filter_map(line).collect();
        PublishedCalls { node: published.node, at: published.published_at, calls }
    }

    fn report(&self, key: SubjectKey, has_smaller_id: bool) -> Option<NodeReport> {
        let calls = *self.calls.get(&key)?;
        Some(NodeReport {
            window: window_number(self.at, 1),
            millis: self.at.subsec_millisecond(),
            calls,
            has_smaller_id,
        })
    }

    /// Returns the calls in `window`, of length `seconds`, if it was the current window when the node published.
    /// Otherwise returns zero.
    pub fn calls_in_current(&self, key: SubjectKey, window: u64, seconds: i64) -> u32 {
        let is_current = window_number(self.at, seconds) == window;
        self.calls.get(&key).filter(|_| is_current).map_or(0, |[.., current]| *current)
    }
}

/// Encodes calls as text, one line per subject.
pub fn encode_calls(calls: impl IntoIterator<Item = (SubjectKey, RecentCalls)>) -> String {
    let line =
        |(key, [before, last, current]): (SubjectKey, RecentCalls)| format!("{key:x} {before} {last} {current}\n");
    calls.into_iter().map(line).collect()
}

/// Returns the number of the window, of length `seconds`, that contains an instant.
pub fn window_number(now: Timestamp, seconds: i64) -> u64 {
    u64::try_from(now.as_second() / seconds).unwrap_or(0)
}

/// The calls of one subject that a node has published.
#[derive(Clone, Copy, Debug)]
struct NodeReport {
    /// The second in which the node published, and how many milliseconds of it had passed.
    window: u64,
    millis: i32,
    calls: RecentCalls,
    /// Whether the reporting node has a smaller id than this node. Nodes divide a limit in the order of their ids.
    has_smaller_id: bool,
}

impl NodeReport {
    fn calls_in(&self, window: u64) -> u32 {
        let [before, last, current] = self.calls;
        match self.window.checked_sub(window) {
            Some(0) => current,
            Some(1) => last,
            Some(2) => before,
            _ => 0,
        }
    }

    /// Estimates the calls per second at the time of publication. If calls increase, assumes that the current burst
    /// continues. Otherwise assumes that the calls of the last second were evenly spread.
    fn rate(&self) -> u64 {
        let [_, last, current] = self.calls.map(u64::from);
        let millis = u64::from(self.millis.unsigned_abs().min(1_000));
        if current > last {
            current * 1_000 / millis.max(MIN_BURST_MILLIS)
        } else {
            current + last * (1_000 - millis) / 1_000
        }
    }
}

/// The calls of one subject on all nodes, as far as this node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedCalls {
    /// The largest known number of calls on all nodes within one second. Considers the last second that all nodes have
    /// completely reported, and later seconds.
    peak: u32,
    /// Estimated calls per second on the nodes with smaller ids than this one.
    with_smaller_ids: u64,
    /// Estimated calls per second on all nodes but this one.
    others: u64,
}

impl SharedCalls {
    /// Combines this node's calls at `now` with those that other nodes have published for the same subject of rate
    /// limits. `None`: no other node has published any.
    pub fn new(
        (node, key): (NodeId, SubjectKey),
        own: RecentCalls,
        others: &[PublishedCalls],
        now: Timestamp,
    ) -> Option<Self> {
        let reports: Vec<NodeReport> = others.iter().filter_map(|other| other.report(key, other.node < node)).collect();
        if reports.is_empty() {
            return None;
        }
        let window = window_number(now, 1);
        let own = NodeReport { window, millis: 0, calls: own, has_smaller_id: false };
        let oldest = others.iter().map(|other| window_number(other.at, 1)).fold(window, u64::min);
        let known = oldest.max(window.saturating_sub(1)).saturating_sub(1)..=window;
        let received = |window: u64| {
            reports.iter().chain([&own]).fold(0_u32, |sum, report| sum.saturating_add(report.calls_in(window)))
        };
        let rate = |nodes: &dyn Fn(&NodeReport) -> bool| {
            reports.iter().filter(|report| nodes(report)).map(NodeReport::rate).sum::<u64>()
        };
        Some(SharedCalls {
            peak: known.map(received).max().unwrap_or(0),
            with_smaller_ids: rate(&|report| report.has_smaller_id),
            others: rate(&|_| true),
        })
    }

    /// Returns the part of `limit` that this node may admit in `window`. `own` is the number of calls in the last
    /// second in which this node received any, or zero if it received none in the last three seconds. If all nodes know
    /// the same numbers of calls, their parts add up to at most the limit plus the tolerance.
    pub fn part_of(&self, limit: u32, own: u32, window: u64) -> u32 {
        let budget = limit.saturating_add(limit / TOLERANCE_DIVISOR);
        let (own, total) = (u64::from(own), u64::from(own) + self.others);
        if own == 0 || self.peak <= budget || total <= u64::from(budget) {
            return limit;
        }
        // An offset below `total` that differs from window to window, so that no node always gains from rounding.
        let offset = window.wrapping_mul(0x9E37_79B9) % total;
        let up_to = |calls: u64| (u64::from(budget) * calls + offset) / total;
        let part = up_to(self.with_smaller_ids + own) - up_to(self.with_smaller_ids);
        u32::try_from(part).unwrap_or(u32::MAX).min(limit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const SECOND: i64 = 1_800_000_000;

    fn published(node: u128, millis: i64, calls: RecentCalls) -> PublishedCalls {
        let at = Timestamp::from_millisecond(SECOND * 1_000 + millis).unwrap();
        PublishedCalls { node: NodeId(Uuid::from_u128(node)), at, calls: HashMap::from([(7, calls)]) }
    }

    fn shared(millis: i64, own: RecentCalls, others: &[PublishedCalls]) -> Option<SharedCalls> {
        let now = Timestamp::from_millisecond(SECOND * 1_000 + millis).unwrap();
        SharedCalls::new((NodeId(Uuid::from_u128(5)), 7), own, others, now)
    }

    #[test]
    fn calls_of_different_seconds_are_not_added() {
        // A client has moved from the other node to this one. The cases differ in when the other node last published.
        for (case, own, other) in [
            ("published in the second before", [0, 0, 99], published(1, -300, [99, 99, 60])),
            ("published before the move", [0, 60, 99], published(1, -900, [99, 99, 9])),
            ("published in this second", [0, 0, 99], published(1, 100, [99, 99, 0])),
            ("moved within the second", [0, 50, 99], published(1, 300, [99, 49, 0])),
        ] {
            let shared = shared(900, own, &[other]).unwrap();
            assert_eq!(shared.part_of(100, 60, 1), 100, "{case}: {shared:?}");
        }
    }

    #[test]
    fn excess_of_one_second_divides_the_limit() {
        for (case, own, others, part) in [
            ("in the last second", [0, 90, 0], published(1, 500, [0, 90, 45]), 55),
            ("in the current second", [0, 40, 90], published(1, 500, [0, 40, 60]), 27),
            ("known of a second before the last", [90, 90, 0], published(1, -10, [90, 90, 90]), 55),
            ("one node has nearly all", [0, 900, 900], published(1, 500, [0, 6, 3]), 100),
            ("within the tolerance", [0, 60, 30], published(1, 500, [0, 50, 25]), 100),
            ("the others have stopped", [0, 400, 400], published(1, 999, [400, 400, 0]), 100),
        ] {
            let shared = shared(500, own, &[others]).unwrap();
            let own = own[1];
            let parts: Vec<u32> = (0..50).map(|window| shared.part_of(100, own, window)).collect();
            assert!(parts.iter().all(|other| other.abs_diff(part) <= 1), "{case}: {parts:?} {shared:?}");
        }
    }

    #[test]
    fn idle_node_admits_the_whole_limit() {
        let shared = shared(500, [0, 0, 200], &[published(1, 400, [500, 500, 200])]).unwrap();
        assert_eq!(shared.part_of(60, 0, 1), 60);
        assert!(shared.part_of(60, 200, 1) < 30);
    }

    #[test]
    fn subject_that_no_other_node_has_published_is_not_shared() {
        let mut other = published(1, 0, [9, 9, 9]);
        other.calls = HashMap::from([(8, [900, 900, 900])]);
        assert_eq!(shared(0, [900, 900, 900], &[other]), None);
        assert_eq!(shared(0, [900, 900, 900], &[]), None);
    }

    #[test]
    fn published_calls_round_trip() {
        let calls = HashMap::from([(7, [1, 2, 3]), (u64::MAX, [0, 0, u32::MAX])]);
        let (node, at) = (NodeId(Uuid::from_u128(1)), Timestamp::UNIX_EPOCH);
        let decode = |demand: String| PublishedCalls::decode(&PublishedDemand { node, published_at: at, demand }).calls;
        assert_eq!(decode(encode_calls(calls.clone())), calls);
        assert_eq!(decode("\nx 1 2 3\n7 1 2\n7 1 2 -3\n".to_owned()), HashMap::new());
        let many = (0..5_000).map(|key| (key, [1, 1, 1]));
        assert_eq!(decode(encode_calls(many)).len(), 2 * MAX_PUBLISHED);
    }

    proptest! {
        /// Assumes that all nodes know the same numbers of calls in a second.
        #[test]
        fn parts_add_up_to_the_limit_with_its_tolerance(
            limit in 1u32..2_000,
            calls in proptest::collection::vec(1u32..3_000, 2..12),
            window in any::<u32>(),
        ) {
            let total: u32 = calls.iter().sum();
            let part = |rank: usize| {
                let before = calls[..rank].iter().sum::<u32>();
                let others = total - calls[rank];
                let shared = SharedCalls { peak: total, with_smaller_ids: before.into(), others: others.into() };
                shared.part_of(limit, calls[rank], window.into())
            };
            let parts: Vec<u32> = (0..calls.len()).map(part).collect();
            let budget = limit + limit / TOLERANCE_DIVISOR;
            if total <= budget {
                prop_assert!(parts.iter().all(|part| *part == limit), "{:?}", parts);
            } else {
                prop_assert!(parts.iter().sum::<u32>() <= budget, "{:?}", parts);
                prop_assert!(parts.iter().all(|part| *part <= limit), "{:?}", parts);
            }
        }
    }
}
