//! Tests how nodes divide a rate limit among themselves, with a manual clock and scripted load.
//!
//! Nodes exchange their call counts several times a second, each at its own offset (phase) from the full second. Each
//! case runs with several combinations of phases.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    ops::{Range, RangeInclusive},
    sync::Arc,
};

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::tenancy::{RateLimits, WorkspaceId};
use ringtrue_engine::{
    Engine, EngineDependencies, EngineSettings,
    keys::MasterKey,
    ports::{
        clock::{Clock, ManualClock},
        combined::Store,
        entropy::SystemEntropy,
        node::{NodeId, PublishedDemand},
        transport::{OutboundRequest, OutboundResponse, Transport, TransportError},
    },
    rate_limits::{
        DefaultRateLimits, LimitSubject, RateLimitClass, RateLimiter,
        shares::{PublishedCalls, encode_calls},
    },
};
use ringtrue_sandbox::operator_access::SandboxAccess;
use ringtrue_test_support::{database::Database, engine::engine_settings};
use uuid::Uuid;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
const NODES: usize = 3;
/// Rate limit of the workspace, in calls per second.
const LIMIT: u32 = 60;
/// Maximum number of calls per second that several busy nodes may admit together: 1.2 times the limit
/// (docs/decisions/0005).
const BOUND: u32 = 72;
/// Maximum number of calls that all nodes together may admit in the first second of a burst, when each still applies
/// the full limit.
const BURST: u32 = 180;
/// More calls per second than all nodes together may admit.
const FLOOD: u32 = 500;

const STEP_MILLIS: u32 = 10;
const EXCHANGE_MILLIS: u32 = 250;
const HEARTBEAT_MILLIS: u32 = 1_000;
/// Offsets in milliseconds from the full second at which each node begins its exchanges. One row per run.
const PHASES: [[u32; NODES]; 4] = [[0, 0, 0], [0, 170, 340], [490, 10, 250], [120, 130, 110]];

struct Case {
    name: &'static str,
    /// Start time in milliseconds, and the calls per second on each node from then on.
    load: &'static [(u32, [u32; NODES])],
    /// Time in milliseconds, index of the node, and what happens to it.
    events: &'static [(u32, usize, Event)],
    /// Range of seconds, and how many calls all nodes together must admit in each of them.
    admitted: &'static [(Range<u32>, RangeInclusive<u32>)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The node dies without deregistering.
    Kill,
    Stop,
    Start,
}

const CASES: &[Case] = &[
    Case { name: "client on one node", load: &[(0, [FLOOD, 0, 0])], events: &[], admitted: &[(0..6, LIMIT..=LIMIT)] },
    Case {
        name: "client on the last node",
        load: &[(0, [0, 0, FLOOD])],
        events: &[],
        admitted: &[(0..6, LIMIT..=LIMIT)],
    },
    Case {
        name: "bursts on one node, with idle seconds",
        load: &[(0, [0, FLOOD, 0]), (1_000, [0, 0, 0]), (4_000, [0, FLOOD, 0])],
        events: &[],
        admitted: &[(0..1, LIMIT..=LIMIT), (1..4, 0..=0), (4..6, LIMIT..=LIMIT)],
    },
    Case {
        name: "three busy nodes",
        load: &[(0, [FLOOD, FLOOD, FLOOD])],
        events: &[],
        // In the first second, no node knows about the calls of the others.
        admitted: &[(0..1, LIMIT..=BURST), (1..8, LIMIT..=BOUND)],
    },
    Case {
        name: "three nodes that exceed the limit only together",
        load: &[(0, [30, 28, 29])],
        events: &[],
        admitted: &[(2..8, LIMIT..=BOUND)],
    },
    Case {
        name: "one flooded node among two with little load",
        load: &[(0, [FLOOD, 20, 7])],
        events: &[],
        admitted: &[(1..8, LIMIT - 2..=BOUND)],
    },
    Case { name: "total load below the limit", load: &[(0, [20, 30, 5])], events: &[], admitted: &[(0..6, 55..=55)] },
    Case {
        name: "load spreads from one node to all",
        load: &[(0, [FLOOD, 0, 0]), (3_000, [FLOOD, FLOOD, FLOOD])],
        events: &[],
        admitted: &[(0..3, LIMIT..=LIMIT), (3..4, LIMIT..=BURST), (4..8, LIMIT - 2..=BOUND)],
    },
    Case {
        name: "load spreads late in a second",
        load: &[(0, [FLOOD, 0, 0]), (3_900, [FLOOD, FLOOD, FLOOD])],
        events: &[],
        admitted: &[(0..3, LIMIT..=LIMIT), (3..5, LIMIT..=BURST), (5..8, LIMIT - 2..=BOUND)],
    },
    Case {
        name: "second busy node that pauses every other second",
        load: &[
            (0, [FLOOD, FLOOD, 0]),
            (2_000, [FLOOD, 0, 0]),
            (3_000, [FLOOD, FLOOD, 0]),
            (4_000, [FLOOD, 0, 0]),
            (5_000, [FLOOD, FLOOD, 0]),
            (6_000, [FLOOD, 0, 0]),
        ],
        events: &[],
        // A single second may be below or above the limit. Over two seconds, the nodes admit about the limit.
        admitted: &[(1..7, 30..=LIMIT * 8 / 5)],
    },
    Case {
        name: "client above the limit moves to another node",
        load: &[(0, [FLOOD, 0, 0]), (4_000, [0, 0, FLOOD])],
        events: &[],
        admitted: &[(0..5, LIMIT..=LIMIT), (5..6, 40..=LIMIT), (6..9, LIMIT..=LIMIT)],
    },
    Case {
        name: "two of three busy nodes become idle",
        load: &[(0, [FLOOD, FLOOD, FLOOD]), (4_000, [0, FLOOD, 0])],
        events: &[],
        admitted: &[(1..4, LIMIT..=BOUND), (4..6, 20..=BOUND), (6..9, LIMIT..=LIMIT)],
    },
    Case {
        name: "busy node dies at the start of a second",
        load: &[(0, [FLOOD, FLOOD, FLOOD])],
        events: &[(4_000, 2, Event::Kill)],
        // At the latest two seconds after the node's death, the other two nodes share the whole limit.
        admitted: &[(1..4, LIMIT..=BOUND), (4..6, 40..=BOUND), (6..9, LIMIT..=BOUND)],
    },
    Case {
        name: "busy node dies within a second",
        load: &[(0, [FLOOD, FLOOD, FLOOD])],
        events: &[(4_480, 0, Event::Kill)],
        admitted: &[(1..4, LIMIT..=BOUND), (5..6, 40..=BOUND), (7..9, LIMIT..=BOUND)],
    },
    Case {
        name: "only busy node dies and its client moves",
        load: &[(0, [0, FLOOD, 0]), (4_000, [FLOOD, 0, 0])],
        events: &[(4_000, 1, Event::Kill)],
        admitted: &[(0..5, LIMIT..=LIMIT), (5..6, 20..=LIMIT), (6..9, LIMIT..=LIMIT)],
    },
    Case {
        name: "only node of a client below its limit dies",
        load: &[(0, [0, 54, 0]), (4_480, [54, 0, 0])],
        events: &[(4_480, 1, Event::Kill)],
        admitted: &[(0..9, 53..=55)],
    },
    Case {
        name: "rolling restart, with clients below the limit",
        load: &[
            (0, [18, 18, 18]),
            (2_300, [0, 54, 0]),
            (4_100, [0, 0, 54]),
            (6_400, [54, 0, 0]),
            (8_200, [18, 18, 18]),
        ],
        events: &[
            (2_300, 0, Event::Stop),
            (3_600, 0, Event::Start),
            (4_100, 1, Event::Stop),
            (5_600, 1, Event::Start),
            (6_400, 2, Event::Kill),
            (7_600, 2, Event::Start),
        ],
        admitted: &[(0..10, 52..=56)],
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_follows_demand() {
    for case in CASES {
        let seconds = case.admitted.iter().map(|(seconds, _)| seconds.end).max().unwrap();
        let runs = PHASES.map(|phases| simulate(case, phases, seconds, count_workspace_call));
        for (phases, admitted) in PHASES.into_iter().zip(join_all(runs).await) {
            for (range, expected) in case.admitted {
                for second in range.clone() {
                    assert!(
                        expected.contains(&admitted[second as usize]),
                        "{}: expected {expected:?} in second {second}; phases {phases:?}; admitted {admitted:?}",
                        case.name
                    );
                }
            }
        }
    }
}

/// No node refuses a client below its limit, even if the client moves between nodes and the nodes learn of its calls
/// late.
#[test]
fn client_below_its_limit_is_never_refused() {
    let kinds: [(&str, Call); 3] =
        [("workspace", count_workspace_call), ("client", count_token_call), ("address", count_address_call)];
    for (kind, call) in kinds {
        for rate in [LIMIT * 45 / 100, LIMIT * 8 / 10, LIMIT * 99 / 100] {
            for move_millis in [130, 310, 500, 730, 1_000, 1_430, 2_500, 4_330] {
                for phases in PHASES {
                    // Time between two exchanges, and the age of the data that an exchange reads about other nodes.
                    for (exchange_millis, lag_millis) in [(250, 0), (250, 400), (1_000, 200), (3_000, 0)] {
                        let mut nodes = MemoryNodes::new(phases, exchange_millis, lag_millis);
                        let refused = nodes.count_refused(20_000, call, |millis| {
                            let mut load = [0; NODES];
                            load[(millis / move_millis) as usize % NODES] = rate;
                            load
                        });
                        assert_eq!(
                            refused, 0,
                            "{kind} with {rate} calls per second, moved every {move_millis} ms; phases {phases:?}; \
                             exchange every {exchange_millis} ms, {lag_millis} ms late"
                        );
                    }
                }
            }
        }
    }
}

/// The total load stays below the limit while it moves from several nodes to one and back.
#[test]
fn clients_below_the_limit_that_meet_on_a_node_are_not_refused() {
    for phases in PHASES {
        let mut nodes = MemoryNodes::new(phases, EXCHANGE_MILLIS, 100);
        let refused = nodes.count_refused(20_000, count_workspace_call, |millis| match millis / 1_700 % 4 {
            0 => [19, 19, 19],
            1 => [0, 57, 0],
            2 => [30, 0, 27],
            _ => [0, 0, 57],
        });
        assert_eq!(refused, 0, "phases {phases:?}");
    }
}

/// Nodes divide the limits of clients and of addresses in the same way as the limit of a workspace.
#[test]
fn busy_nodes_divide_each_kind_of_limit() {
    for call in [count_workspace_call, count_token_call, count_address_call] {
        for phases in PHASES {
            let mut nodes = MemoryNodes::new(phases, EXCHANGE_MILLIS, 50);
            nodes.count_refused(2_000, call, |_| [FLOOD; NODES]);
            let refused = nodes.count_refused(10_000, call, |_| [FLOOD; NODES]);
            let admitted = 10 * 3 * FLOOD - refused;
            assert!((10 * LIMIT..=10 * BOUND).contains(&admitted), "{admitted} in ten seconds; phases {phases:?}");
        }
    }
}

/// The failed logins on all nodes count together towards the delay of further logins.
#[test]
fn failed_logins_of_all_nodes_are_counted() {
    let mut nodes = MemoryNodes::new(PHASES[1], EXCHANGE_MILLIS, 0);
    let delayed = |limiter: &RateLimiter, now| limiter.failed_login_delay("prj_1", address(), now).is_some();
    let fail = |limiter: &RateLimiter, now| limiter.record_failed_login("prj_1", address(), now);
    for _ in 0..3 {
        for limiter in &nodes.limiters {
            assert!(!delayed(limiter, nodes.now()), "fewer than ten failed");
            fail(limiter, nodes.now());
        }
    }
    nodes.count_refused(1_000, count_workspace_call, |_| [0; NODES]);
    assert!(nodes.limiters.iter().all(|limiter| !delayed(limiter, nodes.now())), "nine failed");
    fail(&nodes.limiters[1], nodes.now());
    nodes.count_refused(1_000, count_workspace_call, |_| [0; NODES]);
    assert!(nodes.limiters.iter().all(|limiter| delayed(limiter, nodes.now())), "ten failed");
    nodes.count_refused(60_000, count_workspace_call, |_| [0; NODES]);
    assert!(nodes.limiters.iter().all(|limiter| !delayed(limiter, nodes.now())), "in the next minute");
}

/// Nodes divide a client's limit of token requests in the same way as the limit of a workspace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_on_one_node_has_its_whole_token_limit() {
    let case = &CASES[0];
    assert_eq!(simulate(case, PHASES[1], 4, count_token_call).await, [LIMIT; 4]);
    let all_busy = Case { load: &[(0, [FLOOD, FLOOD, FLOOD])], ..CASES[0] };
    let admitted = simulate(&all_busy, PHASES[1], 5, count_token_call).await;
    assert!(admitted[1..].iter().all(|calls| (LIMIT..=BOUND).contains(calls)), "{admitted:?}");
}

/// While the database is unavailable, nodes cannot exchange call counts. Each node keeps its part of the limit and
/// still decides on every call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_kept_without_the_database() {
    let mut simulation = Simulation::start(PHASES[1]).await;
    let load = [FLOOD, FLOOD, FLOOD];
    simulation.run_second(load, count_workspace_call).await;
    simulation.run_second(load, count_workspace_call).await;
    simulation.can_exchange = false;
    for second in 0..5 {
        let admitted = simulation.run_second(load, count_workspace_call).await;
        assert!((LIMIT..=BOUND).contains(&admitted), "{admitted} in second {second}");
    }
}

type Call = fn(&RateLimiter, Timestamp) -> bool;

fn count_workspace_call(limiter: &RateLimiter, now: Timestamp) -> bool {
    limiter.limit_workspace(RateLimitClass::Create, workspace(), &RateLimits::default(), now).admitted
}

fn count_token_call(limiter: &RateLimiter, now: Timestamp) -> bool {
    limiter.limit_client(&"prj_1".parse().unwrap(), workspace(), &RateLimits::default(), now).admitted
}

fn count_address_call(limiter: &RateLimiter, now: Timestamp) -> bool {
    limiter.limit_by_ip(RateLimitClass::Console, address(), now).admitted
}

fn workspace() -> WorkspaceId {
    WorkspaceId(Uuid::from_u128(7))
}

fn address() -> IpAddr {
    "203.0.113.7".parse().unwrap()
}

fn rate_limits() -> DefaultRateLimits {
    DefaultRateLimits { create: LIMIT, token: LIMIT, console: LIMIT, ..DefaultRateLimits::default() }
}

/// Rate limiters that exchange their call counts in memory. Their clocks differ by a few milliseconds.
struct MemoryNodes {
    limiters: Vec<RateLimiter>,
    phases: [u32; NODES],
    exchange_millis: u32,
    /// Minimum age of the data that an exchange reads about other nodes.
    lag_millis: u32,
    /// The call counts that each node has published, with the time in milliseconds, latest last.
    published: [Vec<(u32, PublishedDemand)>; NODES],
    millis: u32,
    due: [u32; NODES],
}

impl MemoryNodes {
    fn new(phases: [u32; NODES], exchange_millis: u32, lag_millis: u32) -> Self {
        MemoryNodes {
            limiters: (0..NODES).map(|_| RateLimiter::new(rate_limits())).collect(),
            phases,
            exchange_millis,
            lag_millis,
            published: Default::default(),
            millis: 0,
            due: [0; NODES],
        }
    }

    fn now(&self) -> Timestamp {
        START + SignedDuration::from_millis(self.millis.into())
    }

    /// Runs for `millis` milliseconds. `load` returns the calls per second on each node at a given time. Returns the
    /// number of refused calls.
    fn count_refused(&mut self, millis: u32, call: Call, load: impl Fn(u32) -> [u32; NODES]) -> u32 {
        let mut refused = 0;
        for _ in 0..millis / STEP_MILLIS {
            let load = load(self.millis);
            for index in 0..NODES {
                let skew = SignedDuration::from_millis([0, 3, -2][index]);
                let now = self.now() + skew;
                if (self.millis + 3_000 - self.phases[index]).is_multiple_of(self.exchange_millis) {
                    self.exchange(index, now);
                }
                self.due[index] += load[index] * STEP_MILLIS;
                while self.due[index] >= 1_000 {
                    self.due[index] -= 1_000;
                    refused += u32::from(!call(&self.limiters[index], now));
                }
            }
            self.millis += STEP_MILLIS;
        }
        refused
    }

    fn exchange(&mut self, index: usize, now: Timestamp) {
        let id = |index: usize| NodeId(Uuid::from_u128(index as u128));
        let key = |subject: &LimitSubject| {
            let mut hasher = DefaultHasher::new();
            subject.encode().hash(&mut hasher);
            hasher.finish()
        };
        let limiter = &self.limiters[index];
        let recent = limiter.recent_calls(now).into_iter();
        let own: Vec<_> = recent.map(|(subject, calls)| (subject, key(&subject), calls)).collect();
        let demand = encode_calls(own.iter().map(|(_, key, calls)| (*key, *calls)));
        let visible = self.published.iter().enumerate().filter(|(other, _)| *other != index);
        let visible = visible.filter_map(|(_, published)| {
            published.iter().rev().find(|(at, _)| at + self.lag_millis <= self.millis).map(|(_, demand)| demand)
        });
        let others: Vec<_> = visible.map(PublishedCalls::decode).collect();
        limiter.apply_exchange(id(index), &own, &others, now);
        self.published[index].push((self.millis, PublishedDemand { node: id(index), published_at: now, demand }));
    }
}

/// Runs a case. Returns the number of admitted calls in each second.
async fn simulate(case: &Case, phases: [u32; NODES], seconds: u32, call: Call) -> Vec<u32> {
    let mut simulation = Simulation::start(phases).await;
    let mut admitted = vec![];
    for second in 0..seconds {
        let mut in_second = 0;
        for millis in (second * 1_000..(second + 1) * 1_000).step_by(STEP_MILLIS as usize) {
            for (_, node, event) in case.events.iter().filter(|(at, ..)| *at == millis) {
                simulation.apply(*node, *event).await;
            }
            let load = case.load.iter().rev().find(|(from, _)| *from <= millis).map_or([0; NODES], |(_, load)| *load);
            in_second += simulation.step(load, call).await;
        }
        admitted.push(in_second);
    }
    admitted
}

struct Simulation {
    /// `None`: the node does not run.
    nodes: Vec<Option<Engine>>,
    store: Arc<dyn Store>,
    master_key: String,
    clock: Arc<ManualClock>,
    phases: [u32; NODES],
    can_exchange: bool,
    /// Time since the start, in milliseconds.
    millis: u32,
    /// Calls that are due on each node, in thousandths of a call.
    due: [u32; NODES],
    _database: Database,
}

impl Simulation {
    async fn start(phases: [u32; NODES]) -> Self {
        let database = Database::sqlite().await;
        let store = database.open().await;
        let clock = Arc::new(ManualClock::at(START));
        let master = MasterKey::generate(&SystemEntropy::default()).to_string();
        let mut nodes = vec![];
        for _ in 0..NODES {
            nodes.push(start_node(&store, &clock, &master).await);
        }
        // Nodes that start at the same time find each other only with their next heartbeats.
        for node in nodes.iter().chain(&nodes) {
            node.node.send_heartbeat().await.unwrap();
        }
        Simulation {
            nodes: nodes.into_iter().map(Some).collect(),
            store,
            master_key: master,
            clock,
            phases,
            can_exchange: true,
            millis: 0,
            due: [0; NODES],
            _database: database,
        }
    }

    async fn apply(&mut self, index: usize, event: Event) {
        let stopped = self.nodes[index].take();
        match event {
            Event::Kill => {}
            Event::Stop => stopped.unwrap().node.deregister_node().await,
            Event::Start => {
                self.nodes[index] = Some(start_node(&self.store, &self.clock, &self.master_key).await);
            }
        }
    }

    async fn run_second(&mut self, load: [u32; NODES], call: Call) -> u32 {
        let mut admitted = 0;
        for _ in 0..1_000 / STEP_MILLIS {
            admitted += self.step(load, call).await;
        }
        admitted
    }

    /// Makes the calls and exchanges that are due, and advances the clock. Returns the number of admitted calls.
    async fn step(&mut self, load: [u32; NODES], call: Call) -> u32 {
        let mut admitted = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else {
                self.due[index] = 0;
                continue;
            };
            if self.can_exchange {
                // Milliseconds since this node's last heartbeat was due.
                let since_phase = (self.millis + HEARTBEAT_MILLIS - self.phases[index]) % HEARTBEAT_MILLIS;
                match since_phase {
                    0 => node.node.send_heartbeat().await.unwrap(),
                    since if since.is_multiple_of(EXCHANGE_MILLIS) => node.node.exchange_demand().await.unwrap(),
                    _ => {}
                }
            }
            self.due[index] += load[index] * STEP_MILLIS;
            while self.due[index] >= 1_000 {
                self.due[index] -= 1_000;
                admitted += u32::from(call(node.rate_limiter(), self.clock.now()));
            }
        }
        self.millis += STEP_MILLIS;
        self.clock.advance(SignedDuration::from_millis(STEP_MILLIS.into()));
        admitted
    }
}

async fn start_node(store: &Arc<dyn Store>, clock: &Arc<ManualClock>, master: &str) -> Engine {
    let dependencies = EngineDependencies {
        store: Arc::clone(store),
        clock: Arc::clone(clock) as _,
        entropy: Arc::new(SystemEntropy::default()),
        transport: Arc::new(NoTransport),
        master_key: MasterKey::from_base64(master).unwrap(),
        sandbox: Arc::new(SandboxAccess::default()),
    };
    Engine::start(dependencies, EngineSettings { rate_limits: rate_limits(), ..engine_settings() }).await.unwrap()
}

struct NoTransport;

#[async_trait]
impl Transport for NoTransport {
    async fn get(&self, _: &ringtrue_domain::web_url::CallbackUrl) -> Result<OutboundResponse, TransportError> {
        Err(TransportError::Connection)
    }

    async fn post(&self, _: OutboundRequest) -> Result<OutboundResponse, TransportError> {
        Err(TransportError::Connection)
    }
}
