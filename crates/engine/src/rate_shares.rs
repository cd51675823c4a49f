//! Divides a workspace's rate limit among nodes by their demand: the calls that each received in the last second.
//!
//! A node that alone receives calls has the whole limit. While the total demand is within the limit, each node has its
//! own demand plus an even part of the rest, idle nodes too. When the demand exceeds the limit, the nodes with the
//! least demand are satisfied first and the others divide the rest evenly; idle nodes then share a reserve of a tenth
//! of the limit, at least one call each, until the next heartbeat. Busy nodes together therefore admit at most about
//! 1.1 times the limit. In the second in which calls spread from a single node to others, the excess can be as large as
//! the limit that the node left unused in the second before.

use std::collections::HashMap;

use ringtrue_domain::tenancy::WorkspaceId;

use crate::rate_limit::RateLimitClass;

/// Each node publishes only its busiest workspaces.
const MAX_PUBLISHED: usize = 1_000;
/// Idle nodes share the limit divided by this number.
const RESERVE_DIVISOR: u32 = 10;

/// The classes that are counted by workspace, with their names in published demand.
const CLASS_NAMES: [(RateLimitClass, &str); 5] = [
    (RateLimitClass::Create, "create"),
    (RateLimitClass::Read, "read"),
    (RateLimitClass::Eligibility, "eligibility"),
    (RateLimitClass::Management, "management"),
    (RateLimitClass::Token, "token"),
];

/// Calls that a node received in a second, admitted or rejected.
pub type Demand = HashMap<(RateLimitClass, WorkspaceId), u32>;

/// Encodes a demand as text: one line per class and workspace, busiest first.
pub fn encode_demand(demand: &Demand) -> String {
    let mut busiest: Vec<_> = demand.iter().filter(|(_, calls)| **calls > 0).collect();
    busiest.sort_unstable_by_key(|(_, calls)| std::cmp::Reverse(**calls));
    busiest.truncate(MAX_PUBLISHED);
    let line = |((kind, workspace), calls): (&(RateLimitClass, WorkspaceId), &u32)| {
        let name = CLASS_NAMES.iter().find(|(known, _)| known == kind)?.1;
        Some(format!("{name} {workspace} {calls}\n"))
    };
    busiest.into_iter().filter_map(line).collect()
}

/// Skips lines that this release cannot parse.
pub fn decode_demand(text: &str) -> Demand {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (name, workspace, calls) = (words.next()?, words.next()?, words.next()?);
        let kind = CLASS_NAMES.iter().find(|(_, known)| *known == name)?.0;
        Some(((kind, workspace.parse().ok()?), calls.parse().ok()?))
    };
    text.lines().take(MAX_PUBLISHED).filter_map(line).collect()
}

/// Demand of each node, ordered by rank, for subjects with demand on a node other than `rank`.
pub fn contested_demands(nodes: &[Demand], rank: usize) -> HashMap<(RateLimitClass, WorkspaceId), Box<[u32]>> {
    let others = nodes.iter().enumerate().filter(|(position, _)| *position != rank);
    let subjects = others.flat_map(|(_, demand)| demand.keys());
    let calls = |subject| nodes.iter().map(|demand| demand.get(subject).copied().unwrap_or(0)).collect();
    subjects.map(|subject| (*subject, calls(subject))).collect()
}

/// Part of a limit for the node at `rank` in one window, by the demand of all nodes. The remainder of a division
/// rotates: in each window other nodes get one call more.
pub fn demand_share(limit: u32, demands: &[u32], rank: usize, window: u64) -> u32 {
    let own = demands.get(rank).copied().unwrap_or(0);
    let mut busy: Vec<u32> = demands.iter().copied().filter(|calls| *calls > 0).collect();
    if busy.len() == usize::from(own > 0) {
        return limit;
    }
    // Divides evenly among the nodes whose demand satisfies `shares`.
    let divide = |amount: u32, shares: &dyn Fn(u32) -> bool| {
        let (mut sharers, mut position) = (0_u32, 0);
        for (node, _) in demands.iter().enumerate().filter(|(_, calls)| shares(**calls)) {
            position += u32::from(node < rank);
            sharers += 1;
        }
        let turn = (u64::from(position) + window) % u64::from(sharers.max(1));
        amount / sharers.max(1) + u32::from(turn < u64::from(amount % sharers.max(1)))
    };
    // No node rejects all calls of a workspace that is new to it.
    let min = limit.min(1);
    let total = busy.iter().fold(0_u32, |sum, calls| sum.saturating_add(*calls));
    if let Some(unused) = limit.checked_sub(total) {
        return (own + divide(unused, &|_| true)).max(min);
    }
    if own == 0 {
        return divide(limit / RESERVE_DIVISOR, &|calls| calls == 0).max(min);
    }
    busy.sort_unstable();
    let (mut rest, mut unsatisfied) = (limit, u32::try_from(busy.len()).unwrap_or(u32::MAX));
    for calls in busy {
        let even = rest / unsatisfied;
        if calls > even {
            // Nodes with more demand than an even part of the rest divide the rest.
            return if own > even { divide(rest, &|calls| calls > even) } else { own };
        }
        (rest, unsatisfied) = (rest - calls, unsatisfied - 1);
    }
    own
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn limit_is_divided_by_demand() {
        for (case, demands, parts) in [
            ("no demand", &[0, 0][..], &[50, 50][..]),
            ("one busy node", &[70, 0, 0], &[50, 3, 2]),
            ("all exceed an even share", &[70, 80], &[25, 25]),
            ("one below an even share", &[70, 5], &[45, 5]),
            ("two below an even share", &[3, 90, 4], &[3, 43, 4]),
            ("demand below the limit", &[10, 20], &[20, 30]),
            ("demand below the limit, one node idle", &[10, 20, 0], &[17, 27, 6]),
            ("one node with low demand", &[10, 0, 0], &[50, 13, 13]),
            ("two exceed an even share, one node idle", &[70, 80, 0], &[25, 25, 5]),
        ] {
            let of = |rank| demand_share(50, demands, rank, 0);
            assert_eq!((0..demands.len()).map(of).collect::<Vec<_>>(), parts, "{case}");
        }
    }

    #[test]
    fn idle_nodes_admit_a_call_of_a_small_limit() {
        for demands in [[2, 0, 0, 0], [70, 80, 0, 0], [3, 2, 0, 0]] {
            assert!(demand_share(5, &demands, 2, 0) >= 1 && demand_share(5, &demands, 3, 0) >= 1, "{demands:?}");
        }
        assert_eq!(demand_share(0, &[70, 0], 1, 0), 0, "a limit of zero admits nothing");
    }

    #[test]
    fn published_demand_round_trips() {
        let subject = |kind, id| (kind, WorkspaceId(Uuid::from_u128(id)));
        let demand: Demand =
            CLASS_NAMES.iter().zip(1..).map(|((kind, _), calls)| (subject(*kind, calls.into()), calls)).collect();
        assert_eq!(decode_demand(&encode_demand(&demand)), demand);
        assert_eq!(decode_demand("later 1 2\ncreate x 1\nread\n\n"), Demand::new());
        let many: Demand = (1..=5_000).map(|id| (subject(RateLimitClass::Read, id.into()), id)).collect();
        let published = decode_demand(&encode_demand(&many));
        assert_eq!((published.len(), published.values().min()), (MAX_PUBLISHED, Some(&4_001)));

        let one = Demand::from([(subject(RateLimitClass::Read, 1), 7)]);
        let nodes = [one.clone(), Demand::new(), one];
        assert_eq!(contested_demands(&nodes[..2], 0), HashMap::new(), "no demand on other nodes");
        assert_eq!(contested_demands(&nodes, 1)[&subject(RateLimitClass::Read, 1)][..], [7, 0, 7]);
    }

    proptest! {
        #[test]
        fn nodes_together_stay_near_the_limit(
            limit in 1u32..2_000,
            demands in proptest::collection::vec(prop_oneof![Just(0), 1u32..3_000], 1..12),
            window in any::<u32>(),
        ) {
            let parts: Vec<u32> =
                (0..demands.len()).map(|rank| demand_share(limit, &demands, rank, u64::from(window))).collect();
            let nodes = u32::try_from(demands.len()).unwrap();
            let (total, sum): (u32, u32) = (demands.iter().sum(), parts.iter().sum());
            let busy = demands.iter().filter(|calls| **calls > 0).count();
            let reserve = limit / RESERVE_DIVISOR;
            if busy > 1 {
                prop_assert!(sum <= limit + reserve + nodes, "{:?}", parts);
            } else if busy == 1 {
                prop_assert!(sum <= limit + reserve.max(limit.saturating_sub(total)) + nodes, "{:?}", parts);
            }
            for (part, calls) in parts.iter().zip(&demands) {
                prop_assert!(*calls > 0 || *part > 0, "{:?}", parts);
                prop_assert!(total > limit || part >= calls, "{:?}", parts);
            }
            if total > limit {
                let of_busy: u32 = parts.iter().zip(&demands).filter(|(_, calls)| **calls > 0).map(|(part, _)| part).sum();
                prop_assert_eq!(of_busy, limit, "{:?}", parts);
            }
        }
    }
}
