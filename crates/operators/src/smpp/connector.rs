//! The SMPP connector: start, status and shutdown.

use std::{fmt, sync::Arc, time::Duration};

use ringtrue_engine::{
    networks::Networks,
    ports::{
        Clock, ConnectorHealth, ConnectorState, ConnectorStatus, Entropy, Inbox, LastError, LinkStatus, MessageCounts,
        MonitoredConnector,
    },
};
use tokio::time::{Instant, interval};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    LastBindError, SmppConfig, SmppCounters, SmppOutcome, SmppStatus, bind, bind_status::BindStatus,
    concatenation::ConcatenatedMessages, inbound::InboundContext,
};
use crate::health::HealthRecorder;

/// Interval for expiring incomplete SMS.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct SmppDependencies {
    pub inbox: Arc<dyn Inbox>,
    pub networks: Arc<Networks>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub counters: Arc<SmppCounters>,
}

impl fmt::Debug for SmppDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmppDependencies").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// Receives SMS from a message centre and passes them to the inbox. Dropping it stops it;
/// [`shutdown`](Self::shutdown) also waits for its tasks.
///
/// It reports the availability of its receivers to [`Networks`]. After a permanent removal, the owner calls
/// [`remove_connector`](Networks::remove_connector).
pub struct SmppConnector {
    shared: Arc<SharedState>,
    tasks: TaskTracker,
}

/// State shared by the tasks of a connector.
pub(super) struct SharedState {
    pub(super) context: InboundContext,
    pub(super) bind_status: BindStatus,
    pub(super) entropy: Arc<dyn Entropy>,
    networks: Arc<Networks>,
}

impl fmt::Debug for SmppConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmppConnector")
            .field("name", &self.shared.context.config.name)
            .field("status", &self.shared.bind_status)
            .finish_non_exhaustive()
    }
}

impl SmppConnector {
    /// Starts binding. Must be called within a tokio runtime.
    pub fn start(config: SmppConfig, dependencies: SmppDependencies) -> Self {
        let SmppDependencies { inbox, networks, clock, entropy, counters } = dependencies;
        let concatenation =
            ConcatenatedMessages::new(config.part_order, config.concatenation_deadline, config.default_alphabet);
        let shared = Arc::new(SharedState {
            bind_status: BindStatus::new(config.binds.max(1), Arc::clone(&clock), Arc::clone(&counters)),
            context: InboundContext {
                receivers: config.receivers.iter().cloned().collect(),
                config: Arc::new(config),
                inbox,
                clock,
                counters,
                concatenation,
                health: HealthRecorder::default(),
                stop: CancellationToken::new(),
            },
            entropy,
            networks,
        });
        let tasks = TaskTracker::new();
        for number in 1..=shared.bind_status.status().binds {
            let shared = Arc::clone(&shared);
            tasks.spawn(async move { bind::maintain_bind(&shared, number).await });
        }
        let background = Arc::clone(&shared);
        tasks.spawn(async move {
            background.context.stop.run_until_cancelled(background.run_background()).await;
        });
        tasks.close();
        Self { shared, tasks }
    }

    pub fn status(&self) -> SmppStatus {
        self.shared.bind_status.status()
    }

    /// Waits until the status satisfies the predicate.
    pub async fn wait_until(&self, predicate: impl FnMut(&SmppStatus) -> bool) -> SmppStatus {
        self.shared.bind_status.wait_until(predicate).await
    }

    /// Answers pending messages, unbinds, and waits for all tasks. Takes at most `answer_timeout` plus
    /// `response_timeout`.
    pub async fn shutdown(&self) {
        self.shared.context.stop.cancel();
        self.tasks.wait().await;
    }
}

impl MonitoredConnector for SmppConnector {
    fn connector_status(&self) -> ConnectorStatus {
        let InboundContext { config, counters, health, .. } = &self.shared.context;
        let SmppStatus { binds, binds_up, since, receivers_available, last_error } = self.status();
        let last_error = last_error.map(|LastBindError { message, at }| LastError { message, at });
        ConnectorStatus {
            name: Arc::clone(&config.name),
            kind: "SMPP",
            mode: config.project_scope.mode(),
            state: match binds_up {
                0 if receivers_available => ConnectorState::Degraded,
                0 => ConnectorState::Down,
                up if up < binds => ConnectorState::Degraded,
                _ => ConnectorState::Up,
            },
            networks: vec![],
            receivers: config.receivers.clone(),
            links: Some(LinkStatus { up: binds_up, configured: binds, since }),
            breakers: vec![],
            counts: Some(MessageCounts {
                accepted: counters.get(SmppOutcome::Received),
                rejected: counters.get(SmppOutcome::TemporaryError) + counters.get(SmppOutcome::Malformed),
            }),
            health: ConnectorHealth { last_error, ..health.snapshot() },
        }
    }
}

impl Drop for SmppConnector {
    fn drop(&mut self) {
        self.shared.context.stop.cancel();
    }
}

impl SharedState {
    /// Publishes receiver availability and expires incomplete SMS.
    async fn run_background(&self) {
        let SmppConfig { name, receivers, grace, .. } = &*self.context.config;
        tokio::join!(
            self.bind_status.publish_availability(&self.networks, name, receivers, *grace),
            self.expire_incomplete()
        );
    }

    async fn expire_incomplete(&self) {
        let mut ticks = interval(EXPIRY_INTERVAL);
        loop {
            ticks.tick().await;
            let expired = self.context.concatenation.expire(Instant::now());
            if expired > 0 {
                self.context.counters.add(SmppOutcome::PartsMissing, u64::try_from(expired).unwrap_or(u64::MAX));
                let name = &self.context.config.name;
                tracing::info!(connector.name = %name, sms.count = expired, "incomplete concatenated SMS expired");
            }
        }
    }
}
