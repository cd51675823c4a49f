//! Divides the rate limit of a workspace or client among nodes by their demand: the calls that each received in the
//! last second.
//!
//! A node that alone receives calls has the whole limit. While the total demand is within the limit, each node has its
//! own demand plus an even part of the rest, idle nodes too. When the demand exceeds the limit, the nodes with the
//! least demand are satisfied first and the others divide the rest evenly; idle nodes then share a reserve of a tenth
//! of the limit, at least one call each, until the next exchange. Busy nodes together therefore admit at most about
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
const CLASS_NAMES: [(RateLimitClass, &str); 6] = [
    (RateLimitClass::Create, "create"),
    (RateLimitClass::Read, "read"),
    (RateLimitClass::Eligibility, "eligibility"),
    (RateLimitClass::Management, "management"),
    (RateLimitClass::Token, "token"),
    (RateLimitClass::ConsolePage, "console_page"),
];

/// Name of the token limit of a client in published demand.
const CLIENT: &str = "client";

/// What has a limit that nodes divide by demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitOwner {
    Workspace(RateLimitClass, WorkspaceId),
    /// Hash of a client id, the same on all nodes.
    Client(u64),
}

impl LimitOwner {
    /// The format of [`encode_demand`]: name and id.
    fn encode(self) -> Option<String> {
        match self {
            LimitOwner::Workspace(class, id) => {
                let name = CLASS_NAMES.iter().find(|(known, _)| *known == class)?.1;
                Some(format!("{name} {id}"))
            }
            LimitOwner::Client(hash) => Some(format!("{CLIENT} {hash:016x}")),
        }
    }

    fn decode(name: &str, id: &str) -> Option<Self> {
        if name == CLIENT {
            return u64::from_str_radix(id, 16).ok().map(LimitOwner::Client);
        }
        let class = CLASS_NAMES.iter().find(|(_, known)| *known == name)?.0;
        Some(LimitOwner::Workspace(class, id.parse().ok()?))
    }
}

/// Calls that a node received in a second, admitted or rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    pub last_second: u32,
    /// In the last second, or in the current one if they are more already.
    pub latest: u32,
}

pub type Demand = HashMap<LimitOwner, Calls>;

/// Calls that each node received, ordered by rank.
#[derive(Debug, PartialEq, Eq)]
pub struct NodeCalls {
    last_second: Box<[u32]>,
    latest: Box<[u32]>,
}

impl NodeCalls {
    /// Part of a limit for the node at `rank`. The current second counts only if it exceeds the limit already: less does
    /// not tell how many calls are still to come.
    pub fn share(&self, limit: u32, rank: usize, window: u64) -> u32 {
        let latest = self.latest.iter().fold(0_u32, |sum, calls| sum.saturating_add(*calls));
        let demands = if latest > limit { &self.latest } else { &self.last_second };
        demand_share(limit, demands, rank, window)
    }
}

/// Encodes a demand as text: one line per owner, busiest first.
pub fn encode_demand(demand: &Demand) -> String {
    let mut busiest: Vec<_> = demand.iter().filter(|(_, calls)| calls.latest > 0).collect();
    busiest.sort_unstable_by_key(|(_, calls)| std::cmp::Reverse(calls.latest));
    busiest.truncate(MAX_PUBLISHED);
    let line = |(owner, Calls { last_second, latest }): (&LimitOwner, &Calls)| {
        Some(format!("{} {last_second} {latest}\n", owner.encode()?))
    };
    busiest.into_iter().filter_map(line).collect()
}

/// Skips lines that this release cannot parse.
pub fn decode_demand(text: &str) -> Demand {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let owner = LimitOwner::decode(words.next()?, words.next()?)?;
        let last_second = words.next()?.parse().ok()?;
        let latest = words.next()?.parse().ok()?;
        Some((owner, Calls { last_second, latest }))
    };
    text.lines().take(MAX_PUBLISHED).filter_map(line).collect()
}

/// Demand of each node, ordered by rank, for owners with demand on a node other than `rank`.
pub fn contested_demands(nodes: &[Demand], rank: usize) -> HashMap<LimitOwner, NodeCalls> {
    let others = nodes.iter().enumerate().filter(|(position, _)| *position != rank);
    let owners = others.flat_map(|(_, demand)| demand.keys());
    let calls = |owner| {
        let of_nodes = nodes.iter().map(|demand| demand.get(owner).copied().unwrap_or_default());
        let (last_second, latest): (Vec<_>, Vec<_>) = of_nodes.map(|calls| (calls.last_second, calls.latest)).unzip();
        NodeCalls { last_second: last_second.into(), latest: latest.into() }
    };
    owners.map(|owner| (*owner, calls(owner))).collect()
}

/// Part of a limit for the node at `rank` in one window, by the demand of all nodes. The remainder of a division
/// rotates: in each window other nodes get one call more.
fn demand_share(limit: u32, demands: &[u32], rank: usize, window: u64) -> u32 {
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
        let owner = |class, id| LimitOwner::Workspace(class, WorkspaceId(Uuid::from_u128(id)));
        let calls = |last_second, latest| Calls { last_second, latest };
        let mut demand: Demand = CLASS_NAMES
            .iter()
            .zip(1..)
            .map(|((class, _), number)| (owner(*class, number.into()), calls(number, number + 1)))
            .collect();
        demand.insert(LimitOwner::Client(7), calls(0, 3));
        demand.insert(LimitOwner::Client(u64::MAX), calls(4, 4));
        assert_eq!(decode_demand(&encode_demand(&demand)), demand);
        assert_eq!(decode_demand("later 1 2\ncreate x 1\nclient ? 1\nclient 7 5\nread\n\n"), Demand::new());
        let many: Demand = (1..=5_000).map(|id| (owner(RateLimitClass::Read, id.into()), calls(0, id))).collect();
        let published = decode_demand(&encode_demand(&many));
        let least = published.values().map(|calls| calls.latest).min();
        assert_eq!((published.len(), least), (MAX_PUBLISHED, Some(4_001)));

        let one = Demand::from([(owner(RateLimitClass::Read, 1), calls(7, 8))]);
        let nodes = [one.clone(), Demand::new(), one];
        assert_eq!(contested_demands(&nodes[..2], 0), HashMap::new(), "no demand on other nodes");
        let contested = &contested_demands(&nodes, 1)[&owner(RateLimitClass::Read, 1)];
        assert_eq!((&contested.last_second[..], &contested.latest[..]), (&[7, 0, 7][..], &[8, 0, 8][..]));
    }

    #[test]
    fn current_second_counts_once_it_exceeds_the_limit() {
        let share = |last_second: [u32; 2], latest: [u32; 2]| {
            NodeCalls { last_second: last_second.into(), latest: latest.into() }.share(50, 0, 0)
        };
        assert_eq!(share([0, 0], [20, 30]), 50, "new calls, within the limit");
        assert_eq!(share([0, 0], [21, 30]), 21);
        assert_eq!(share([0, 0], [30, 40]), 25);
        assert_eq!(share([10, 20], [20, 30]), 20);
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
