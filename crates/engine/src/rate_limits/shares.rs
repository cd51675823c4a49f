//! Division of a rate limit among nodes.
//!
//! Every node admits the whole limit, unless all nodes together are known to have received more than the limit in one
//! and the same second. Nodes publish the calls of the last seconds by second, and their clocks agree. What they know of
//! a second is therefore never more than what was received in it, however late they learn it: a client below its limit
//! is not refused, also when it moves between nodes.
//!
//! While the calls exceed the limit, the nodes that receive them divide it in proportion to their calls. A node without
//! calls in the last seconds admits the whole limit for a second: it cannot know which of the others have lost the calls
//! that it receives now.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::ports::node::{NodeId, PublishedDemand};

/// Each node publishes only its busiest subjects, so many of each group.
pub const MAX_PUBLISHED: usize = 1_000;
/// Busy nodes together admit this fraction more than the limit. Calls of a client close to its limit are irregular, and
/// the clocks of nodes differ by milliseconds.
const TOLERANCE_DIVISOR: u32 = 10;
/// The calls of less than this part of a second do not tell their rate.
const MIN_BURST_MILLIS: u64 = 100;

/// What a limit counts, as nodes publish it: a keyed hash.
pub type SubjectKey = u64;

/// Calls that a node received in the window before the last one, the last one and the current one, admitted or not.
pub type RecentCalls = [u32; 3];

/// Calls that another node has published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedCalls {
    pub node: NodeId,
    pub at: Timestamp,
    pub calls: HashMap<SubjectKey, RecentCalls>,
}

impl PublishedCalls {
    /// Skips invalid lines.
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

    fn report(&self, key: SubjectKey, is_before: bool) -> Option<NodeReport> {
        let calls = *self.calls.get(&key)?;
        Some(NodeReport { window: window_number(self.at, 1), millis: self.at.subsec_millisecond(), calls, is_before })
    }

    /// Calls in a window of `seconds` if it was the current one.
    pub fn calls_in_current(&self, key: SubjectKey, window: u64, seconds: i64) -> u32 {
        let is_current = window_number(self.at, seconds) == window;
        self.calls.get(&key).filter(|_| is_current).map_or(0, |[.., current]| *current)
    }
}

/// One line for each subject.
pub fn encode_calls(calls: impl IntoIterator<Item = (SubjectKey, RecentCalls)>) -> String {
    let line =
        |(key, [before, last, current]): (SubjectKey, RecentCalls)| format!("{key:x} {before} {last} {current}\n");
    calls.into_iter().map(line).collect()
}

/// Number of the window that contains an instant.
pub fn window_number(now: Timestamp, seconds: i64) -> u64 {
    u64::try_from(now.as_second() / seconds).unwrap_or(0)
}

/// What a node has published of one subject.
#[derive(Clone, Copy, Debug)]
struct NodeReport {
    /// The current second at the time of publication, and the milliseconds of it that had passed.
    window: u64,
    millis: i32,
    calls: RecentCalls,
    /// Whether the node comes before this one when nodes divide a limit.
    is_before: bool,
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

    /// Calls per second at the time of publication, if those of the last second were evenly spread, or those of a
    /// growing burst continue.
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

/// Calls of one subject on all nodes, as this node knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedCalls {
    /// The most calls that all nodes are known to have received in one second: the last one that is known of all nodes,
    /// or a later one.
    peak: u32,
    /// Calls per second on the nodes before this one, and on all others.
    before: u64,
    others: u64,
}

impl SharedCalls {
    /// From the calls of this node at `now`, and what others have published. `None` if they have no calls of the subject.
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
        let own = NodeReport { window, millis: 0, calls: own, is_before: false };
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
            before: rate(&|report| report.is_before),
            others: rate(&|_| true),
        })
    }

    /// This node's part of a limit in `window`, if it received `own` calls in the last second in which it received any,
    /// or zero if that was long ago. The parts of all nodes add up to the limit with its tolerance; their rounding rotates.
    pub fn part_of(&self, limit: u32, own: u32, window: u64) -> u32 {
        let budget = limit.saturating_add(limit / TOLERANCE_DIVISOR);
        let (own, total) = (u64::from(own), u64::from(own) + self.others);
        if own == 0 || self.peak <= budget || total <= u64::from(budget) {
            return limit;
        }
        // A different offset in each window, below `total`.
        let offset = window.wrapping_mul(0x9E37_79B9) % total;
        let up_to = |calls: u64| (u64::from(budget) * calls + offset) / total;
        let part = up_to(self.before + own) - up_to(self.before);
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
        // A client that has moved to this node, in the view of the last publication of the node that it left.
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
        /// Nodes with the same view of a second.
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
                let shared = SharedCalls { peak: total, before: before.into(), others: others.into() };
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
