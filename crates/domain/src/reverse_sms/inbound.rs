//! SMS received from operators.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    phone::Msisdn,
    tenancy::{Mode, Project, ProjectId},
};

/// The sender of an SMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmsSender {
    Number(Msisdn),
    /// The sender does not identify a subscriber: it is withheld, alphanumeric, a short code, or malformed.
    Unattributed,
}

/// The environment that an SMS comes from. It decides which checks the SMS can conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmsEnvironment {
    /// A real operator. The SMS can conclude checks of live projects.
    Operator,
    /// A simulated handset. The SMS can conclude checks of this sandbox project.
    Sandbox(ProjectId),
}

impl SmsEnvironment {
    /// Returns the environment from which a project's checks accept SMS.
    pub fn for_project(project: &Project) -> Self {
        Self::for_mode(project.mode, project.id)
    }

    /// Returns the environment from which checks of a project accept SMS, by the mode in which they were created.
    pub fn for_mode(mode: Mode, project: ProjectId) -> Self {
        match mode {
            Mode::Live => SmsEnvironment::Operator,
            Mode::Sandbox => SmsEnvironment::Sandbox(project),
        }
    }

    pub fn mode(self) -> Mode {
        match self {
            SmsEnvironment::Operator => Mode::Live,
            SmsEnvironment::Sandbox(_) => Mode::Sandbox,
        }
    }
}

#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct InboundSms {
    pub environment: SmsEnvironment,
    /// Name of the connector that received the SMS.
    pub connector: Arc<str>,
    pub from: SmsSender,
    pub to: Msisdn,
    /// The text is hidden in debug output, because it contains a code.
    #[debug("{} characters", text.chars().count())]
    pub text: String,
    pub received_at: Timestamp,
}
