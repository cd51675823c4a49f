//! SMPP client that binds to an operator's message centre (SMSC) and receives SMS from handsets.
//!
//! A [`SmppConnector`] maintains several binds. With a [`lease`], only one node of the deployment binds at a time. For
//! every received message, [`inbound`] separates SMS from receipts and parses the addresses, the engine's
//! [`Reassembly`] joins the parts of longer SMS, and its inbox processes the result. Messages are acknowledged after
//! they are stored, many concurrently and in any order, so that the store can batch its commits.
//!
//! Acknowledged messages are never lost, and no unusable message is resent for ever:
//!
//! - the inbox failed: `ESME_RX_T_APPN`, so that the SMSC resends;
//! - not an SMS, not to one of our numbers, or in an unsupported coding: acknowledged and counted;
//! - a part of an incomplete SMS: see `docs/decisions/0008-acknowledging-sms-parts.md`.
//!
//! Deliberately absent: sending SMS, and interpreting their text.

mod bind;
mod inbound;
mod lease;
mod status;

use std::{sync::Arc, time::Duration};

use ringtrue_domain::{
    phone::{Country, Msisdn},
    tenancy::Mode,
};
use ringtrue_engine::{
    lookups::networks::Networks,
    ports::{
        clock::Clock,
        connectors::{
            ConnectorHealth, ConnectorState, ConnectorStatus, LinkSummary, MessageCounts, MonitoredConnector,
        },
        entropy::Entropy,
        leases::LeaseStore,
        node::NodeId,
        sms::{Inbox, Reassembly},
    },
};
pub use ringtrue_smpp::{pdu::TlvTag, text::DefaultAlphabet};
use ringtrue_smpp::{
    pdu::{Bind, BindMode, Npi, Ton, VERSION_3_4, VERSION_5_0},
    session::SessionConfig,
};
use tokio::time::interval;
use tokio_rustls::rustls::{ClientConfig, pki_types::ServerName};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{inbound::InboundContext, lease::BindLease, status::BindStatus};
pub use self::{
    lease::lease_name,
    status::{SmppCounters, SmppOutcome, SmppStatus},
};
use crate::breaker::HealthRecorder;

#[derive(Clone, Debug)]
pub struct SmppConfig {
    /// Identifies this connector in logs and metrics.
    pub name: Arc<str>,
    pub project_scope: ProjectScope,
    pub host: String,
    pub port: u16,
    pub tls: Option<SmppTls>,
    pub system_id: String,
    pub password: SmppPassword,
    pub system_type: String,
    pub bind: BindDirection,
    pub interface_version: InterfaceVersion,
    pub address_range: AddressRange,
    /// Our numbers that receive SMS from this SMSC.
    pub receivers: Vec<Msisdn>,
    /// Country of numbers in national format. `None`: national numbers are not recognised.
    pub country: Option<Country>,
    /// Alphabet of messages with `data_coding` 0, which differs between SMSCs.
    pub default_alphabet: DefaultAlphabet,
    /// Number of binds; at least one.
    pub binds: usize,
    /// Whether only one node of the deployment binds at a time.
    pub is_exclusive: bool,
    /// Messages processed concurrently per bind; at least one.
    pub window: usize,
    /// Silence after which an `enquire_link` is sent.
    pub enquire_link_interval: Duration,
    /// Timeout for connecting, and for each response of the SMSC.
    pub response_timeout: Duration,
    /// Timeout for our own responses. Must be shorter than the SMSC's timeout.
    pub answer_timeout: Duration,
    pub reconnect_min: Duration,
    /// Longest delay before a reconnect. A link that lasted this long counts as stable and resets the delay.
    pub reconnect_max: Duration,
    /// Time limit for all parts of an SMS, from the arrival of the first. An SMS that is still incomplete then is
    /// discarded and counted.
    pub concatenation_deadline: Duration,
    /// Time without a bind after which the receivers are out of service. The SMSC queues messages meanwhile.
    pub grace: Duration,
}

impl SmppConfig {
    /// Creates a configuration with defaults that suit most SMSCs.
    pub fn new(name: impl Into<Arc<str>>, host: impl Into<String>, port: u16, receivers: Vec<Msisdn>) -> Self {
        Self {
            name: name.into(),
            project_scope: ProjectScope::LiveProjects,
            host: host.into(),
            port,
            tls: None,
            system_id: String::new(),
            password: SmppPassword::default(),
            system_type: String::new(),
            bind: BindDirection::default(),
            interface_version: InterfaceVersion::default(),
            address_range: AddressRange::default(),
            receivers,
            country: None,
            default_alphabet: DefaultAlphabet::default(),
            binds: 1,
            is_exclusive: false,
            window: 256,
            enquire_link_interval: Duration::from_secs(30),
            response_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(8),
            reconnect_min: Duration::from_secs(1),
            reconnect_max: Duration::from_mins(1),
            concatenation_deadline: Duration::from_mins(5),
            grace: Duration::from_secs(30),
        }
    }

    fn bind_request(&self) -> (BindMode, Bind) {
        let mode = match self.bind {
            BindDirection::Receiver => BindMode::Receiver,
            BindDirection::Transceiver => BindMode::Transceiver,
        };
        let interface_version = match self.interface_version {
            InterfaceVersion::V3_4 => VERSION_3_4,
            InterfaceVersion::V5_0 => VERSION_5_0,
        };
        let bind_request = Bind {
            system_id: self.system_id.clone(),
            password: self.password.0.to_string(),
            system_type: self.system_type.clone(),
            interface_version,
            addr_ton: Ton(self.address_range.ton),
            addr_npi: Npi(self.address_range.npi),
            address_range: self.address_range.pattern.clone(),
        };
        (mode, bind_request)
    }

    fn session_config(&self) -> SessionConfig {
        SessionConfig {
            handler_window: self.window,
            bind_timeout: self.response_timeout,
            response_timeout: self.response_timeout,
            handler_timeout: self.answer_timeout,
            enquire_link_interval: Some(self.enquire_link_interval),
            ..SessionConfig::default()
        }
    }
}

/// Which projects' checks the SMS from this SMSC can conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectScope {
    LiveProjects,
    /// The SMSC is simulated. The TLV with this tag holds the id (16 octets) of the sandbox project that sent
    /// the message.
    SandboxProject {
        tag: TlvTag,
    },
}

impl ProjectScope {
    pub fn mode(self) -> Mode {
        match self {
            ProjectScope::LiveProjects => Mode::Live,
            ProjectScope::SandboxProject { .. } => Mode::Sandbox,
        }
    }
}

/// Password of the bind. Masked in `Debug` output.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
#[debug("SmppPassword(…)")]
pub struct SmppPassword(Box<str>);

impl<T: Into<Box<str>>> From<T> for SmppPassword {
    fn from(password: T) -> Self {
        Self(password.into())
    }
}

/// TLS settings and the expected server name.
#[derive(Clone, derive_more::Debug)]
pub struct SmppTls {
    #[debug(skip)]
    pub config: Arc<ClientConfig>,
    pub server_name: ServerName<'static>,
}

/// Bind mode. The connector never sends SMS, but some SMSCs accept only transceivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindDirection {
    Receiver,
    #[default]
    Transceiver,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterfaceVersion {
    #[default]
    V3_4,
    V5_0,
}

/// The numbers whose SMS the bind asks for (`address_range` in SMPP). Most SMSCs ignore them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRange {
    pub ton: u8,
    pub npi: u8,
    pub pattern: String,
}

/// Interval at which incomplete SMS that have expired are discarded.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, derive_more::Debug)]
#[debug("SmppDependencies")]
pub struct SmppDependencies {
    pub inbox: Arc<dyn Inbox>,
    pub reassembly: Arc<dyn Reassembly>,
    /// Stores the leases of exclusive connectors, which `node` acquires.
    pub leases: Arc<dyn LeaseStore>,
    pub node: NodeId,
    pub networks: Arc<Networks>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub counters: Arc<SmppCounters>,
}

/// Receives SMS from an SMSC and passes them to the inbox. Dropping the connector stops it.
/// [`shutdown`](Self::shutdown) also waits for its tasks.
///
/// It reports the availability of its receivers to [`Networks`]. After a permanent removal, the owner calls
/// [`remove_connector`](Networks::remove_connector).
#[derive(derive_more::Debug)]
#[debug("SmppConnector({}, {:?})", shared.context.config.name, shared.bind_status)]
pub struct SmppConnector {
    shared: Arc<SharedState>,
    tasks: TaskTracker,
}

/// State shared by the tasks of a connector.
struct SharedState {
    context: InboundContext,
    bind_status: BindStatus,
    /// Lease of an exclusive connector. `None`: every node binds.
    lease: Option<BindLease>,
    entropy: Arc<dyn Entropy>,
    networks: Arc<Networks>,
}

impl SmppConnector {
    /// Starts the connector, which begins to bind. Must be called within a tokio runtime.
    pub fn start(config: SmppConfig, dependencies: SmppDependencies) -> Self {
        let SmppDependencies { inbox, reassembly, leases, node, networks, clock, entropy, counters } = dependencies;
        let lease = config.is_exclusive.then(|| BindLease::new(&config.name, node, leases, Arc::clone(&clock)));
        let shared = Arc::new(SharedState {
            bind_status: BindStatus::new(config.binds.max(1), Arc::clone(&clock), Arc::clone(&counters)),
            context: InboundContext {
                receivers: config.receivers.iter().cloned().collect(),
                config: Arc::new(config),
                inbox,
                reassembly,
                node,
                clock,
                counters,
                health: HealthRecorder::default(),
                stop: CancellationToken::new(),
            },
            lease,
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
        if shared.lease.is_some() {
            let shared = Arc::clone(&shared);
            tasks.spawn(async move { shared.run_lease().await });
        }
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

    /// Answers pending messages, unbinds, releases the lease, and waits for all tasks. Takes at most `answer_timeout`
    /// plus `response_timeout`, and a few seconds if the database does not respond.
    pub async fn shutdown(&self) {
        self.shared.context.stop.cancel();
        self.tasks.wait().await;
    }
}

impl MonitoredConnector for SmppConnector {
    fn connector_status(&self) -> ConnectorStatus {
        let InboundContext { config, counters, health, .. } = &self.shared.context;
        let status = self.status();
        let is_standby = status.is_standby();
        let SmppStatus { binds, binds_up, since, receivers_available, last_error, .. } = status;
        ConnectorStatus {
            name: Arc::clone(&config.name),
            kind: "SMPP",
            mode: config.project_scope.mode(),
            state: match binds_up {
                0 if is_standby => ConnectorState::Standby,
                0 if receivers_available => ConnectorState::Degraded,
                0 => ConnectorState::Down,
                up if up < binds => ConnectorState::Degraded,
                _ => ConnectorState::Up,
            },
            networks: vec![],
            receivers: config.receivers.clone(),
            link_summary: Some(LinkSummary { up: binds_up, configured: binds, since }),
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

    async fn run_lease(&self) {
        if let Some(lease) = &self.lease {
            lease.run(&self.bind_status, &self.context.stop).await;
        }
    }

    async fn expire_incomplete(&self) {
        let InboundContext { config, counters, reassembly, .. } = &self.context;
        let mut ticks = interval(EXPIRY_INTERVAL);
        loop {
            ticks.tick().await;
            match reassembly.discard_expired(&config.name).await {
                Ok(0) => {}
                Ok(expired) => {
                    counters.add(SmppOutcome::PartsMissing, expired);
                    tracing::info!(connector.name = %config.name, sms.count = expired, "incomplete concatenated SMS expired");
                }
                Err(error) => {
                    tracing::debug!(connector.name = %config.name, %error, "failed to discard expired parts; retrying");
                }
            }
        }
    }
}
