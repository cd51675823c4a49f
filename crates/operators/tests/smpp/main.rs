//! The SMPP connector over loopback sockets, with the sandbox's SMSC or one controlled by the test.
//!
//! Time is paused; tests advance it.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod delivery;
mod exclusive;
mod health;
mod parts;
mod peers;
mod reconnect;

use std::{
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    time::Duration,
};

use jiff::Timestamp;
use ringtrue_domain::{
    network::{Network, NetworkDirectory},
    phone::Msisdn,
    tenancy::Mode,
};
use ringtrue_engine::{
    lookups::networks::Networks,
    ports::{clock::ManualClock, entropy::SystemEntropy, node::NodeId},
};
use ringtrue_operators::smpp::{SmppConfig, SmppConnector, SmppCounters, SmppDependencies, SmppOutcome};
use ringtrue_sandbox::smsc::{DeliveryHandle, FaultScript, Sms, Smsc, SmscConfig};
use ringtrue_test_support::{leases::InMemoryLeases, reassembly::InMemoryReassembly};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use self::peers::{FakeInbox, ManualSmsc};

const SECOND: Duration = Duration::from_secs(1);
const HANDSET: &str = "+447700900001";
const SERVICE: &str = "+447700900999";

/// Keeps tokio's paused clock from advancing automatically, with a pending blocking task. The task ends after 20
/// seconds, so that a stuck test runs into its timeouts and fails.
struct PausedClock {
    _guard: Sender<()>,
}

impl PausedClock {
    fn new() -> Self {
        let (held, released) = channel::<()>();
        drop(spawn_blocking(move || released.recv_timeout(Duration::from_secs(20))));
        Self { _guard: held }
    }
}

/// Dependencies of a connector on one node.
struct Fixture {
    inbox: Arc<FakeInbox>,
    networks: Arc<Networks>,
    counters: Arc<SmppCounters>,
    node: NodeId,
    network: Network,
    deployment: Arc<Deployment>,
}

/// State that the nodes of a deployment share.
struct Deployment {
    reassembly: Arc<InMemoryReassembly>,
    leases: Arc<InMemoryLeases>,
    clock: Arc<ManualClock>,
    _guard: PausedClock,
}

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Sandbox).unwrap()
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        Self::on(Arc::new(Deployment {
            reassembly: Arc::new(InMemoryReassembly::new(clock.clone())),
            leases: Arc::default(),
            clock,
            _guard: PausedClock::new(),
        }))
    }

    /// Creates another node of the same deployment.
    fn another_node(&self) -> Self {
        Self::on(Arc::clone(&self.deployment))
    }

    fn on(deployment: Arc<Deployment>) -> Self {
        let network = Network {
            id: "23410".parse().unwrap(),
            name: "Test".to_owned(),
            aliases: vec![],
            country: "GB".parse().unwrap(),
            prefixes: vec![],
            receivers: vec![number(SERVICE)],
        };
        let networks = Networks::default();
        networks.replace(NetworkDirectory::new(vec![network.clone()], vec![], vec![]).unwrap());
        Self {
            inbox: Arc::default(),
            networks: Arc::new(networks),
            counters: Arc::default(),
            node: NodeId(Uuid::from_u128(Arc::strong_count(&deployment) as u128)),
            network,
            deployment,
        }
    }

    fn config(port: u16) -> SmppConfig {
        let config = SmppConfig::new("test", "127.0.0.1", port, vec![number(SERVICE)]);
        SmppConfig { system_id: "sandbox".to_owned(), password: "sandbox".into(), country: "GB".parse().ok(), ..config }
    }

    fn start(&self, config: SmppConfig) -> SmppConnector {
        let dependencies = SmppDependencies {
            inbox: self.inbox.clone(),
            reassembly: self.deployment.reassembly.clone(),
            leases: self.deployment.leases.clone(),
            node: self.node,
            networks: self.networks.clone(),
            clock: self.deployment.clock.clone(),
            entropy: Arc::new(SystemEntropy::default()),
            counters: self.counters.clone(),
        };
        SmppConnector::start(config, dependencies)
    }

    /// Whether new checks would use the receiver.
    fn receivers_available(&self) -> bool {
        self.networks.next_receiver(&self.network).is_some()
    }

    fn count(&self, outcome: SmppOutcome) -> u64 {
        self.counters.get(outcome)
    }

    /// Yields until the counter reaches `count`.
    async fn wait_for_count(&self, outcome: SmppOutcome, count: u64) {
        for _ in 0..1_000_000 {
            if self.count(outcome) >= count {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{outcome:?}: {} instead of {count}", self.count(outcome));
    }
}

/// Starts a connector, and an SMSC that the test controls.
async fn start_with_manual_smsc(change: impl FnOnce(SmppConfig) -> SmppConfig) -> (Fixture, ManualSmsc, SmppConnector) {
    let (fixture, smsc) = (Fixture::new(), ManualSmsc::start().await);
    let connector = fixture.start(change(Fixture::config(smsc.port())));
    (fixture, smsc, connector)
}

/// A fixture with the sandbox's SMSC.
struct Sandbox {
    fixture: Fixture,
    smsc: Smsc,
    connector: SmppConnector,
}

impl Sandbox {
    async fn start() -> Self {
        Self::with(|config| config).await
    }

    async fn with(change: impl FnOnce(SmppConfig) -> SmppConfig) -> Self {
        let fixture = Fixture::new();
        let smsc = Smsc::start(SmscConfig::default()).await.unwrap();
        let config = Fixture::config(smsc.address().port());
        let config = change(config);
        let binds = config.binds;
        let connector = fixture.start(config);
        smsc.observer().wait_until(|counts| counts.binds == binds).await;
        Self { fixture, smsc, connector }
    }

    fn send(&self, text: &str, behaviour: FaultScript) -> DeliveryHandle {
        self.smsc.send(Sms::new(HANDSET, SERVICE, text).with_faults(behaviour)).unwrap()
    }
}
