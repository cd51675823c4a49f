//! What is to be known of a message centre to bind to it.

use std::{fmt, sync::Arc, time::Duration};

use ringtrue_domain::{
    phone::{Country, Msisdn},
    tenancy::Mode,
};
use ringtrue_smpp::{
    pdu::{Bind, BindMode, Npi, Tag, Ton, VERSION_3_4, VERSION_5_0},
    session,
    text::DefaultAlphabet,
};
use tokio_rustls::rustls::{ClientConfig, pki_types::ServerName};

#[derive(Clone, Debug)]
pub struct SmppConfig {
    /// Tells this connector from others, in logs, in metrics and to the networks.
    pub name: Arc<str>,
    pub reach: Reach,
    pub host: String,
    pub port: u16,
    pub tls: Option<Tls>,
    pub system_id: String,
    pub password: Password,
    pub system_type: String,
    pub direction: Direction,
    pub interface_version: InterfaceVersion,
    pub address_range: AddressRange,
    /// The numbers whose SMS come here.
    pub receivers: Vec<Msisdn>,
    /// Where national numbers are meant.
    pub country: Option<Country>,
    /// What the message centre means by `data_coding` 0.
    pub default_alphabet: DefaultAlphabet,
    /// How many binds there are to be; at least one.
    pub binds: usize,
    /// How many messages are worked on at once per bind; at least one.
    pub window: usize,
    /// How long the message centre may be silent before it is asked whether it is there.
    pub enquire_link_interval: Duration,
    /// How long the message centre may take to connect, and to respond.
    pub response_timeout: Duration,
    /// How long we may take to answer, which must be less than the message centre waits. A part of a longer SMS waits
    /// for the others for half of it.
    pub answer_timeout: Duration,
    pub reconnect_min: Duration,
    /// Also how long a link must have lived to count as stable.
    pub reconnect_max: Duration,
    /// How long the parts of an SMS may take.
    pub concatenation_deadline: Duration,
    pub succession: Succession,
    /// How long there may be no bind before the receivers count as deaf. The message centre keeps what comes meanwhile.
    pub grace: Duration,
}

impl SmppConfig {
    /// With what most message centres expect.
    pub fn new(name: impl Into<Arc<str>>, host: impl Into<String>, port: u16, receivers: Vec<Msisdn>) -> Self {
        Self {
            name: name.into(),
            reach: Reach::LiveProjects,
            host: host.into(),
            port,
            tls: None,
            system_id: String::new(),
            password: Password::default(),
            system_type: String::new(),
            direction: Direction::default(),
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
            succession: Succession::default(),
            grace: Duration::from_secs(30),
        }
    }

    pub(super) fn bind(&self) -> (BindMode, Bind) {
        let mode = match self.direction {
            Direction::Receiver => BindMode::Receiver,
            Direction::Transceiver => BindMode::Transceiver,
        };
        let interface_version = match self.interface_version {
            InterfaceVersion::V3_4 => VERSION_3_4,
            InterfaceVersion::V5_0 => VERSION_5_0,
        };
        let bind = Bind {
            system_id: self.system_id.clone(),
            password: self.password.0.to_string(),
            system_type: self.system_type.clone(),
            interface_version,
            addr_ton: Ton(self.address_range.ton),
            addr_npi: Npi(self.address_range.npi),
            address_range: self.address_range.pattern.clone(),
        };
        (mode, bind)
    }

    pub(super) fn session(&self) -> session::Config {
        session::Config {
            answer_window: self.window,
            bind_timeout: self.response_timeout,
            response_timeout: self.response_timeout,
            answer_timeout: self.answer_timeout,
            enquire_link_interval: Some(self.enquire_link_interval),
            ..session::Config::default()
        }
    }
}

/// Whose checks the SMS of a message centre can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    LiveProjects,
    /// The message centre is simulated, and each message names the sandbox project whose handset has sent it: sixteen
    /// octets under this tag.
    SandboxProject {
        tag: Tag,
    },
}

impl Reach {
    pub fn mode(self) -> Mode {
        match self {
            Reach::LiveProjects => Mode::Live,
            Reach::SandboxProject { .. } => Mode::Sandbox,
        }
    }
}

/// Shown to the message centre, and to nobody else.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(Box<str>);

impl<T: Into<Box<str>>> From<T> for Password {
    fn from(password: T) -> Self {
        Self(password.into())
    }
}

/// Masked, and as long as any other.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// TLS, and whose certificate is expected.
#[derive(Clone)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    pub server_name: ServerName<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// What the bind is for. Nothing is ever sent, but some message centres know transceivers only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
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

/// Which numbers the bind is to serve. Most message centres know by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRange {
    pub ton: u8,
    pub npi: u8,
    pub pattern: String,
}

/// How the message centre sends the parts of an SMS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Succession {
    /// The next part does not wait for the answer to the one before: each is answered once all are safe.
    #[default]
    Together,
    /// The next part comes after the one before was acknowledged: each is acknowledged as it comes, and what is kept
    /// of an unfinished SMS is lost in a crash.
    OneByOne,
}
