//! Divides a workspace's rate limit among nodes by their demand: the calls that each received in the last second.
//!
//! A node that alone receives calls has the whole limit. While the total demand is within the limit, each node has its own
//! demand plus an even part of the rest, idle nodes too. When the demand exceeds the limit, the nodes with the least
//! demand are satisfied first and the others divide the rest evenly; idle nodes then share a reserve of a tenth of the
//! limit, at least one call each, until the next heartbeat. Busy nodes together therefore admit about 1.1 times the limit
//! at most. In the second in which calls spread from a single node to others, the excess can reach what that node left
//! unused in the second before.

use std::collections::HashMap;

use ringtrue_domain::tenancy::WorkspaceId;

use crate::rate_limit::CallKind;

/// Only the busiest workspaces of a node are published.
const MAX_PUBLISHED: usize = 1_000;
/// Idle nodes together have the limit divided by this.
const RESERVE_DIVISOR: u32 = 10;

/// Kinds of calls that are counted by workspace, and their names in what nodes publish.
const KINDS: [(CallKind, &str); 5] = [
    (CallKind::Create, "create"),
    (CallKind::Read, "read"),
    (CallKind::Eligibility, "eligibility"),
    (CallKind::Management, "management"),
    (CallKind::Token, "token"),
];

/// Calls that a node received in a second, admitted or rejected.
pub type Demand = HashMap<(CallKind, WorkspaceId), u32>;

/// A demand as text: a line for each kind and workspace, the busiest first.
pub fn encode(demand: &Demand) -> String {
    let mut busiest: Vec<_> = demand.iter().filter(|(_, calls)| **calls > 0).collect();
    busiest.sort_unstable_by_key(|(_, calls)| std::cmp::Reverse(**calls));
    busiest.truncate(MAX_PUBLISHED);
    let line = |((kind, workspace), calls): (&(CallKind, WorkspaceId), &u32)| {
        let name = KINDS.iter().find(|(known, _)| known == kind)?.1;
        Some(format!("{name} {workspace} {calls}\n"))
    };
    busiest.into_iter().filter_map(line).collect()
}

/// Lines that this release does not understand are left out.
pub fn decode(text: &str) -> Demand {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (name, workspace, calls) = (words.next()?, words.next()?, words.next()?);
        let kind = KINDS.iter().find(|(_, known)| *known == name)?.0;
        Some(((kind, workspace.parse().ok()?), calls.parse().ok()?))
    };
    text.lines().take(MAX_PUBLISHED).filter_map(line).collect()
}

/// What each node was asked for, in the order of the nodes, wherever another node than the one at `rank` was.
pub fn contested(nodes: &[Demand], rank: usize) -> HashMap<(CallKind, WorkspaceId), Box<[u32]>> {
    let others = nodes.iter().enumerate().filter(|(place, _)| *place != rank);
    let subjects = others.flat_map(|(_, demand)| demand.keys());
    let calls = |subject| nodes.iter().map(|demand| demand.get(subject).copied().unwrap_or(0)).collect();
    subjects.map(|subject| (*subject, calls(subject))).collect()
}

/// The part of the node at `rank` of a limit in one window, by what all nodes were asked for. What does not divide
/// evenly goes round: in each window other nodes have one call more.
pub fn part(limit: u32, demands: &[u32], rank: usize, window: u64) -> u32 {
    let own = demands.get(rank).copied().unwrap_or(0);
    let mut busy: Vec<u32> = demands.iter().copied().filter(|calls| *calls > 0).collect();
    if busy.len() == usize::from(own > 0) {
        return limit;
    }
    // Divides evenly among the nodes that `shares` names.
    let divided = |amount: u32, shares: &dyn Fn(u32) -> bool| {
        let (mut sharers, mut place) = (0_u32, 0);
        for (node, _) in demands.iter().enumerate().filter(|(_, calls)| shares(**calls)) {
            place += u32::from(node < rank);
            sharers += 1;
        }
        let turn = (u64::from(place) + window) % u64::from(sharers.max(1));
        amount / sharers.max(1) + u32::from(turn < u64::from(amount % sharers.max(1)))
    };
    // No node turns away all calls of a workspace that it does not know yet.
    let least = limit.min(1);
    let asked = busy.iter().fold(0_u32, |sum, calls| sum.saturating_add(*calls));
    if let Some(unused) = limit.checked_sub(asked) {
        return (own + divided(unused, &|_| true)).max(least);
    }
    if own == 0 {
        return divided(limit / RESERVE_DIVISOR, &|calls| calls == 0).max(least);
    }
    busy.sort_unstable();
    let (mut rest, mut unsatisfied) = (limit, u32::try_from(busy.len()).unwrap_or(u32::MAX));
    for calls in busy {
        let even = rest / unsatisfied;
        if calls > even {
            // Whoever was asked for more than an even share of the rest has that.
            return if own > even { divided(rest, &|calls| calls > even) } else { own };
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
    fn a_limit_is_divided_by_demand() {
        for (case, demands, parts) in [
            ("nobody is asked", &[0, 0][..], &[50, 50][..]),
            ("one alone is asked", &[70, 0, 0], &[50, 3, 2]),
            ("all are asked for too much", &[70, 80], &[25, 25]),
            ("one is asked for little", &[70, 5], &[45, 5]),
            ("two are asked for little", &[3, 90, 4], &[3, 43, 4]),
            ("all are satisfied", &[10, 20], &[20, 30]),
            ("all are satisfied, and one is idle", &[10, 20, 0], &[17, 27, 6]),
            ("one alone is asked, for little", &[10, 0, 0], &[50, 13, 13]),
            ("two are asked for too much, and one is idle", &[70, 80, 0], &[25, 25, 5]),
        ] {
            let of = |rank| part(50, demands, rank, 0);
            assert_eq!((0..demands.len()).map(of).collect::<Vec<_>>(), parts, "{case}");
        }
    }

    #[test]
    fn idle_nodes_admit_a_call_of_a_small_limit() {
        for demands in [[2, 0, 0, 0], [70, 80, 0, 0], [3, 2, 0, 0]] {
            assert!(part(5, &demands, 2, 0) >= 1 && part(5, &demands, 3, 0) >= 1, "{demands:?}");
        }
        assert_eq!(part(0, &[70, 0], 1, 0), 0, "what is not allowed is not allowed anywhere");
    }

    #[test]
    fn what_is_published_is_read_back() {
        let subject = |kind, id| (kind, WorkspaceId(Uuid::from_u128(id)));
        let demand: Demand =
            KINDS.iter().zip(1..).map(|((kind, _), calls)| (subject(*kind, calls.into()), calls)).collect();
        assert_eq!(decode(&encode(&demand)), demand);
        assert_eq!(decode("later 1 2\ncreate x 1\nread\n\n"), Demand::new());
        let many: Demand = (1..=5_000).map(|id| (subject(CallKind::Read, id.into()), id)).collect();
        let published = decode(&encode(&many));
        assert_eq!((published.len(), published.values().min()), (MAX_PUBLISHED, Some(&4_001)));

        let one = Demand::from([(subject(CallKind::Read, 1), 7)]);
        let nodes = [one.clone(), Demand::new(), one];
        assert_eq!(contested(&nodes[..2], 0), HashMap::new(), "no other node is asked");
        assert_eq!(contested(&nodes, 1)[&subject(CallKind::Read, 1)][..], [7, 0, 7]);
    }

    proptest! {
        #[test]
        fn nodes_together_stay_near_the_limit(
            limit in 1u32..2_000,
            demands in proptest::collection::vec(prop_oneof![Just(0), 1u32..3_000], 1..12),
            window in any::<u32>(),
        ) {
            let parts: Vec<u32> =
                (0..demands.len()).map(|rank| part(limit, &demands, rank, u64::from(window))).collect();
            let nodes = u32::try_from(demands.len()).unwrap();
            let (asked, sum): (u32, u32) = (demands.iter().sum(), parts.iter().sum());
            let busy = demands.iter().filter(|calls| **calls > 0).count();
            let reserve = limit / RESERVE_DIVISOR;
            if busy > 1 {
                prop_assert!(sum <= limit + reserve + nodes, "{:?}", parts);
            } else if busy == 1 {
                prop_assert!(sum <= limit + reserve.max(limit.saturating_sub(asked)) + nodes, "{:?}", parts);
            }
            for (part, calls) in parts.iter().zip(&demands) {
                prop_assert!(*calls > 0 || *part > 0, "{:?}", parts);
                prop_assert!(asked > limit || part >= calls, "{:?}", parts);
            }
            if asked > limit {
                let of_busy: u32 = parts.iter().zip(&demands).filter(|(_, calls)| **calls > 0).map(|(part, _)| part).sum();
                prop_assert_eq!(of_busy, limit, "{:?}", parts);
            }
        }
    }
}
