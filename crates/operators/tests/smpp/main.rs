//! The SMPP connector over loopback sockets, with the sandbox's message centre or one that a test plays by hand.
//!
//! Time stands still unless a test moves it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod centre;
mod delivery;
mod health;
mod inbox;
mod links;
mod parts;
mod stopping;
mod tls;

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
    networks::Networks,
    ports::{ManualClock, SystemEntropy},
};
use ringtrue_operators::smpp::{Connector, Counters, Outcome, SmppConfig, Succession, Surroundings};
use ringtrue_sandbox::smsc::{Behaviour, Sms, Smsc, SmscConfig, Ticket};
use tokio::task::spawn_blocking;

use self::inbox::FakeInbox;

const SECOND: Duration = Duration::from_secs(1);
const HANDSET: &str = "+447700900001";
const SERVICE: &str = "+447700900999";

/// Holds the clock: it does not move by itself while blocking work is under way. A test that waits for something that
/// never comes is let go after a while; then the clock runs, all patience ends, and the test fails.
struct HeldClock {
    _held: Sender<()>,
}

impl HeldClock {
    fn new() -> Self {
        let (held, released) = channel::<()>();
        drop(spawn_blocking(move || released.recv_timeout(Duration::from_secs(20))));
        Self { _held: held }
    }
}

/// Everything around a connector.
struct World {
    inbox: Arc<FakeInbox>,
    networks: Arc<Networks>,
    counters: Arc<Counters>,
    clock: Arc<ManualClock>,
    network: Network,
    _held: HeldClock,
}

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Sandbox).unwrap()
}

impl World {
    fn new() -> Self {
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
            clock: Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH)),
            network,
            _held: HeldClock::new(),
        }
    }

    fn config(port: u16) -> SmppConfig {
        let config = SmppConfig::new("test", "127.0.0.1", port, vec![number(SERVICE)]);
        SmppConfig { system_id: "sandbox".to_owned(), password: "sandbox".into(), country: "GB".parse().ok(), ..config }
    }

    fn start(&self, config: SmppConfig) -> Connector {
        let surroundings = Surroundings {
            inbox: self.inbox.clone(),
            networks: self.networks.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(SystemEntropy::default()),
            counters: self.counters.clone(),
        };
        Connector::start(config, surroundings)
    }

    /// Whether anybody would be told to text the receiver.
    fn hears(&self) -> bool {
        self.networks.receiver(&self.network).is_some()
    }

    fn count(&self, outcome: Outcome) -> u64 {
        self.counters.get(outcome)
    }

    /// Lets everyone have their turns until so many have been counted.
    async fn counted(&self, outcome: Outcome, count: u64) {
        for _ in 0..1_000_000 {
            if self.count(outcome) >= count {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{outcome:?}: {} instead of {count}", self.count(outcome));
    }
}

/// A world with the sandbox's message centre in it.
struct Sandbox {
    world: World,
    smsc: Smsc,
    connector: Connector,
}

impl Sandbox {
    async fn start() -> Self {
        Self::with(|config| config).await
    }

    async fn with(change: impl FnOnce(SmppConfig) -> SmppConfig) -> Self {
        let world = World::new();
        let smsc = Smsc::start(SmscConfig::default()).await.unwrap();
        let config = World::config(smsc.address().port());
        // This message centre sends a part after the one before was acknowledged.
        let config = change(SmppConfig { succession: Succession::OneByOne, ..config });
        let binds = config.binds;
        let connector = world.start(config);
        smsc.observer().wait_until(|counts| counts.binds == binds).await;
        Self { world, smsc, connector }
    }

    fn send(&self, text: &str, behaviour: Behaviour) -> Ticket {
        self.smsc.send(Sms::new(HANDSET, SERVICE, text).behaving(behaviour)).unwrap()
    }
}
