//! A connector as its owner sees it: started, asked how it is, stopped.

use std::{fmt, sync::Arc, time::Duration};

use ringtrue_engine::{
    networks::Networks,
    ports::{Clock, Condition, ConnectorReport, Counts, Entropy, Inbox, Links, Mishap, Reporting, Signs},
};
use tokio::time::{Instant, interval};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Counters, LastError, Outcome, SmppConfig, Status, bind, desk::Desk, long::LongMessages, presence::Presence,
};
use crate::vital_signs::VitalSigns;

/// How often unfinished SMS are looked through.
const SWEEP: Duration = Duration::from_secs(1);

/// What a connector needs of the rest of the house.
#[derive(Clone)]
pub struct Surroundings {
    pub inbox: Arc<dyn Inbox>,
    pub networks: Arc<Networks>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub counters: Arc<Counters>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// A message centre's SMS, on their way to the inbox. It stops when it is dropped; [`shutdown`](Self::shutdown) also
/// waits until it has.
///
/// It tells the networks whether its receivers are heard. When it is not to come back, its owner tells them to
/// [`forget`](Networks::forget) it.
pub struct Connector {
    running: Arc<Running>,
    tasks: TaskTracker,
}

/// What the tasks of a connector share.
pub(super) struct Running {
    pub(super) desk: Desk,
    pub(super) presence: Presence,
    pub(super) entropy: Arc<dyn Entropy>,
    networks: Arc<Networks>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("name", &self.running.desk.config.name)
            .field("presence", &self.running.presence)
            .finish_non_exhaustive()
    }
}

impl Connector {
    /// Begins to bind. To be called within the runtime.
    pub fn start(config: SmppConfig, surroundings: Surroundings) -> Self {
        let Surroundings { inbox, networks, clock, entropy, counters } = surroundings;
        let long = LongMessages::new(config.succession, config.concatenation_deadline, config.default_alphabet);
        let running = Arc::new(Running {
            presence: Presence::new(config.binds.max(1), Arc::clone(&clock), Arc::clone(&counters)),
            desk: Desk {
                receivers: config.receivers.iter().cloned().collect(),
                config: Arc::new(config),
                inbox,
                clock,
                counters,
                long,
                signs: VitalSigns::default(),
                stop: CancellationToken::new(),
            },
            entropy,
            networks,
        });
        let tasks = TaskTracker::new();
        for number in 1..=running.presence.status().binds {
            let running = Arc::clone(&running);
            tasks.spawn(async move { bind::keep(&running, number).await });
        }
        let background = Arc::clone(&running);
        tasks.spawn(async move {
            background.desk.stop.run_until_cancelled(background.look_after()).await;
        });
        tasks.close();
        Self { running, tasks }
    }

    pub fn status(&self) -> Status {
        self.running.presence.status()
    }

    /// Waits until it is as wished.
    pub async fn wait_until(&self, wished: impl FnMut(&Status) -> bool) -> Status {
        self.running.presence.wait_until(wished).await
    }

    /// Answers what it has taken, unbinds, and waits until nothing of it is left. Takes no longer than an answer and a
    /// response may.
    pub async fn shutdown(&self) {
        self.running.desk.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Reporting for Connector {
    fn report(&self) -> ConnectorReport {
        let Desk { config, counters, signs, .. } = &self.running.desk;
        let Status { binds, binds_up, since, hears, last_error } = self.status();
        let mishap = last_error.map(|LastError { what, at }| Mishap { what, at });
        ConnectorReport {
            name: Arc::clone(&config.name),
            kind: "SMPP",
            mode: config.reach.mode(),
            condition: match binds_up {
                0 if hears => Condition::Impaired,
                0 => Condition::Down,
                up if up < binds => Condition::Impaired,
                _ => Condition::Up,
            },
            networks: vec![],
            receivers: config.receivers.clone(),
            links: Some(Links { up: binds_up, wanted: binds, since }),
            breakers: vec![],
            counts: Some(Counts {
                taken: counters.get(Outcome::Received),
                refused: counters.get(Outcome::TemporaryError) + counters.get(Outcome::Malformed),
            }),
            signs: Signs { mishap, ..signs.read() },
        }
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        self.running.desk.stop.cancel();
    }
}

impl Running {
    /// Tells the networks how things are, and sweeps up unfinished SMS.
    async fn look_after(&self) {
        let SmppConfig { name, receivers, grace, .. } = &*self.desk.config;
        tokio::join!(self.presence.tell(&self.networks, name, receivers, *grace), self.sweep());
    }

    async fn sweep(&self) {
        let mut sweeps = interval(SWEEP);
        loop {
            sweeps.tick().await;
            let missing = self.desk.long.expire(Instant::now());
            if missing > 0 {
                self.desk.counters.add(Outcome::PartsMissing, u64::try_from(missing).unwrap_or(u64::MAX));
                let name = &self.desk.config.name;
                tracing::info!(connector.name = %name, sms.count = missing, "the parts of some SMS did not all come");
            }
        }
    }
}
