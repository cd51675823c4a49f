//! Division of rate limits among nodes: engines on one database, with a manual clock and scripted load.
//!
//! Nodes exchange their demand at different phases of the second. Each case runs with several phases.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

use std::{
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
    ports::{Clock, ManualClock, OutboundRequest, OutboundResponse, Store, SystemEntropy, Transport, TransportError},
    rate_limit::{DefaultRateLimits, RateLimitClass, RateLimiter},
};
use ringtrue_sandbox::access::SandboxAccess;
use ringtrue_test_support::{database::Database, engine::engine_settings};
use uuid::Uuid;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
const NODES: usize = 3;
/// Limit of the workspace, in calls per second.
const LIMIT: u32 = 60;
/// The contract's bound for busy nodes: 1.2 times the limit.
const BOUND: u32 = 72;
/// More calls per second than all nodes together may admit.
const FLOOD: u32 = 500;

const STEP_MILLIS: u32 = 10;
const EXCHANGE_MILLIS: u32 = 500;
const HEARTBEAT_MILLIS: u32 = 1_000;
/// Milliseconds by which the exchanges of each node follow the whole second.
const PHASES: [[u32; NODES]; 4] = [[0, 0, 0], [0, 170, 340], [490, 10, 250], [120, 130, 110]];

struct Case {
    name: &'static str,
    /// Calls per second on each node, from a time in milliseconds.
    load: &'static [(u32, [u32; NODES])],
    /// A node that dies without a word, and when.
    killed: Option<(usize, u32)>,
    /// Calls admitted by all nodes together in each of these seconds.
    admitted: &'static [(Range<u32>, RangeInclusive<u32>)],
}

const CASES: &[Case] = &[
    Case { name: "client on one node", load: &[(0, [FLOOD, 0, 0])], killed: None, admitted: &[(0..6, LIMIT..=LIMIT)] },
    Case {
        name: "client on the last node",
        load: &[(0, [0, 0, FLOOD])],
        killed: None,
        admitted: &[(0..6, LIMIT..=LIMIT)],
    },
    Case {
        name: "bursts on one node, with idle seconds",
        load: &[(0, [0, FLOOD, 0]), (1_000, [0, 0, 0]), (4_000, [0, FLOOD, 0])],
        killed: None,
        admitted: &[(0..1, LIMIT..=LIMIT), (1..4, 0..=0), (4..6, LIMIT..=LIMIT)],
    },
    Case {
        name: "three busy nodes",
        load: &[(0, [FLOOD, FLOOD, FLOOD])],
        killed: None,
        // In the first second no node knows of the others.
        admitted: &[(1..8, LIMIT..=BOUND)],
    },
    Case {
        name: "one flooded node among two with little load",
        load: &[(0, [FLOOD, 20, 7])],
        killed: None,
        admitted: &[(1..8, LIMIT - 2..=BOUND)],
    },
    Case { name: "total load below the limit", load: &[(0, [20, 30, 5])], killed: None, admitted: &[(0..6, 55..=55)] },
    Case {
        name: "load spreads from one node to all",
        load: &[(0, [FLOOD, 0, 0]), (3_000, [FLOOD, FLOOD, FLOOD])],
        killed: None,
        admitted: &[(0..3, LIMIT..=LIMIT), (3..8, 20..=BOUND), (6..8, LIMIT..=BOUND)],
    },
    Case {
        name: "load spreads late in a second",
        load: &[(0, [FLOOD, 0, 0]), (3_900, [FLOOD, FLOOD, FLOOD])],
        killed: None,
        admitted: &[(0..3, LIMIT..=LIMIT), (3..8, 20..=BOUND), (6..8, LIMIT..=BOUND)],
    },
    Case {
        name: "client moves to another node",
        load: &[(0, [FLOOD, 0, 0]), (4_000, [0, 0, FLOOD])],
        killed: None,
        admitted: &[(0..4, LIMIT..=LIMIT), (4..8, 3..=BOUND), (7..9, LIMIT..=LIMIT)],
    },
    Case {
        name: "two of three busy nodes become idle",
        load: &[(0, [FLOOD, FLOOD, FLOOD]), (4_000, [0, FLOOD, 0])],
        killed: None,
        admitted: &[(1..4, LIMIT..=BOUND), (4..7, 20..=BOUND), (7..9, LIMIT..=LIMIT)],
    },
    Case {
        name: "busy node dies at the start of a second",
        load: &[(0, [FLOOD, FLOOD, FLOOD])],
        killed: Some((2, 4_000)),
        // The other two have the whole limit from two seconds after its death.
        admitted: &[(1..4, LIMIT..=BOUND), (4..6, 40..=BOUND), (6..9, LIMIT..=BOUND)],
    },
    Case {
        name: "busy node dies within a second",
        load: &[(0, [FLOOD, FLOOD, FLOOD])],
        killed: Some((0, 4_480)),
        admitted: &[(1..4, LIMIT..=BOUND), (5..6, 40..=BOUND), (7..9, LIMIT..=BOUND)],
    },
    Case {
        name: "only busy node dies and its client moves",
        load: &[(0, [0, FLOOD, 0]), (4_000, [FLOOD, 0, 0])],
        killed: Some((1, 4_000)),
        admitted: &[(0..4, LIMIT..=LIMIT), (4..6, 3..=BOUND), (6..9, LIMIT..=LIMIT)],
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

/// The token limit of a client is divided like that of a workspace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_on_one_node_has_its_whole_token_limit() {
    let case = &CASES[0];
    assert_eq!(simulate(case, PHASES[1], 4, count_token_call).await, [LIMIT; 4]);
    let all_busy = Case { load: &[(0, [FLOOD, FLOOD, FLOOD])], ..CASES[0] };
    let admitted = simulate(&all_busy, PHASES[1], 5, count_token_call).await;
    assert!(admitted[1..].iter().all(|calls| (LIMIT..=BOUND).contains(calls)), "{admitted:?}");
}

/// While no exchange succeeds, nodes keep their shares and decide on every call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_are_kept_without_the_database() {
    let mut simulation = Simulation::start(PHASES[1]).await;
    let load = [FLOOD, FLOOD, FLOOD];
    simulation.run_second(load, count_workspace_call).await;
    simulation.run_second(load, count_workspace_call).await;
    simulation.can_exchange = false;
    for second in 0..5 {
        assert_eq!(simulation.run_second(load, count_workspace_call).await, LIMIT, "second {second}");
    }
}

type Call = fn(&RateLimiter, Timestamp) -> bool;

fn count_workspace_call(limiter: &RateLimiter, now: Timestamp) -> bool {
    limiter.limit_workspace(RateLimitClass::Create, workspace(), &RateLimits::default(), now).admitted
}

fn count_token_call(limiter: &RateLimiter, now: Timestamp) -> bool {
    limiter.limit_client(&"prj_1".parse().unwrap(), workspace(), &RateLimits::default(), now).admitted
}

fn workspace() -> WorkspaceId {
    WorkspaceId(Uuid::from_u128(7))
}

/// Admitted calls in each second.
async fn simulate(case: &Case, phases: [u32; NODES], seconds: u32, call: Call) -> Vec<u32> {
    let mut simulation = Simulation::start(phases).await;
    simulation.killed = case.killed;
    let mut admitted = vec![];
    for second in 0..seconds {
        let mut in_second = 0;
        for millis in (second * 1_000..(second + 1) * 1_000).step_by(STEP_MILLIS as usize) {
            let load = case.load.iter().rev().find(|(from, _)| *from <= millis).map_or([0; NODES], |(_, load)| *load);
            in_second += simulation.step(load, call).await;
        }
        admitted.push(in_second);
    }
    admitted
}

struct Simulation {
    nodes: Vec<Engine>,
    clock: Arc<ManualClock>,
    phases: [u32; NODES],
    killed: Option<(usize, u32)>,
    can_exchange: bool,
    /// Since the start.
    millis: u32,
    /// Hundredths of calls that are due on each node.
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
        // Nodes that start together find each other with the next heartbeat.
        for node in nodes.iter().chain(&nodes) {
            node.node.send_heartbeat().await.unwrap();
        }
        Simulation {
            nodes,
            clock,
            phases,
            killed: None,
            can_exchange: true,
            millis: 0,
            due: [0; NODES],
            _database: database,
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
            if self.killed.is_some_and(|(killed, at)| killed == index && at <= self.millis) {
                continue;
            }
            if self.can_exchange {
                // A phase lies between two steps of other nodes at most.
                let since_phase = (self.millis + HEARTBEAT_MILLIS - self.phases[index]) % HEARTBEAT_MILLIS;
                match since_phase {
                    0 => node.node.send_heartbeat().await.unwrap(),
                    EXCHANGE_MILLIS => node.node.exchange_demand().await.unwrap(),
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
    let rate_limits = DefaultRateLimits { create: LIMIT, token: LIMIT, ..DefaultRateLimits::default() };
    Engine::start(dependencies, EngineSettings { rate_limits, ..engine_settings() }).await.unwrap()
}

struct NoTransport;

#[async_trait]
impl Transport for NoTransport {
    async fn post(&self, _: OutboundRequest) -> Result<OutboundResponse, TransportError> {
        Err(TransportError::Connection)
    }
}
