//! Configuration of a connection to a message centre.

use std::{fmt, sync::Arc, time::Duration};

use ringtrue_domain::{
    phone::{Country, Msisdn},
    tenancy::Mode,
};
use ringtrue_smpp::{
    pdu::{Bind, BindMode, Npi, TlvTag, Ton, VERSION_3_4, VERSION_5_0},
    session,
    text::DefaultAlphabet,
};
use tokio_rustls::rustls::{ClientConfig, pki_types::ServerName};

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
    pub direction: BindDirection,
    pub interface_version: InterfaceVersion,
    pub address_range: AddressRange,
    /// Our numbers at this message centre.
    pub receivers: Vec<Msisdn>,
    /// Country of numbers in national format.
    pub country: Option<Country>,
    /// Meaning of `data_coding` 0.
    pub default_alphabet: DefaultAlphabet,
    /// Number of binds; at least one.
    pub binds: usize,
    /// Messages processed concurrently per bind; at least one.
    pub window: usize,
    /// Silence after which an `enquire_link` is sent.
    pub enquire_link_interval: Duration,
    /// For connecting, and for each response of the message centre.
    pub response_timeout: Duration,
    /// Limit for our own responses; must be shorter than the message centre's timeout. A part of a concatenated SMS
    /// waits half of it for the other parts.
    pub answer_timeout: Duration,
    pub reconnect_min: Duration,
    /// A link that lived this long is stable: it resets the backoff.
    pub reconnect_max: Duration,
    /// Time to receive all parts of an SMS.
    pub concatenation_deadline: Duration,
    pub part_order: PartOrder,
    /// Time without a bind before the receivers are out of service. The message centre queues messages meanwhile.
    pub grace: Duration,
}

impl SmppConfig {
    /// Uses defaults that suit most message centres.
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
            direction: BindDirection::default(),
            interface_version: InterfaceVersion::default(),
            address_range: AddressRange::default(),
            receivers,
            country: None,
            default_alphabet: DefaultAlphabet::default(),
            binds: 1,
            window: 256,
            enquire_link_interval: Duration::from_secs(30),
            response_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(8),
            reconnect_min: Duration::from_secs(1),
            reconnect_max: Duration::from_mins(1),
            concatenation_deadline: Duration::from_mins(5),
            part_order: PartOrder::default(),
            grace: Duration::from_secs(30),
        }
    }

    pub(super) fn bind_request(&self) -> (BindMode, Bind) {
        let mode = match self.direction {
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

    pub(super) fn session_config(&self) -> session::SessionConfig {
        session::SessionConfig {
            handler_window: self.window,
            bind_timeout: self.response_timeout,
            response_timeout: self.response_timeout,
            handler_timeout: self.answer_timeout,
            enquire_link_interval: Some(self.enquire_link_interval),
            ..session::SessionConfig::default()
        }
    }
}

/// Projects whose checks the SMS of a message centre can conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectScope {
    LiveProjects,
    /// The message centre is simulated. The TLV with this tag holds the id (16 octets) of the sandbox project that sent
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

/// Masked in `Debug` output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SmppPassword(Box<str>);

impl<T: Into<Box<str>>> From<T> for SmppPassword {
    fn from(password: T) -> Self {
        Self(password.into())
    }
}

impl fmt::Debug for SmppPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SmppPassword(…)")
    }
}

/// TLS settings and the expected server name.
#[derive(Clone)]
pub struct SmppTls {
    pub config: Arc<ClientConfig>,
    pub server_name: ServerName<'static>,
}

impl fmt::Debug for SmppTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmppTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// Bind mode. Nothing is ever sent, but some message centres accept only transceivers.
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

/// Address range of the bind. Most message centres ignore it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRange {
    pub ton: u8,
    pub npi: u8,
    pub pattern: String,
}

/// How the message centre sends the parts of a concatenated SMS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartOrder {
    /// Without waiting for responses. All parts are acknowledged after the whole SMS is stored.
    #[default]
    Together,
    /// Each part after the previous one was acknowledged. Parts are acknowledged on arrival, so a crash loses the parts
    /// of an incomplete SMS.
    OneByOne,
}
