//! SMS received from operators.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

use crate::{
    phone::Msisdn,
    tenancy::{Mode, Project, ProjectId},
};

/// The sender of an SMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmsSender {
    Number(Msisdn),
    /// Not attributable to a subscriber: withheld, alphanumeric, short code or malformed.
    Unattributed,
}

/// The origin of an SMS, which decides the checks that it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmsOrigin {
    /// A real operator: checks of live projects.
    Operator,
    /// A simulated handset: checks of this sandbox project.
    Sandbox(ProjectId),
}

impl SmsOrigin {
    /// The origin that a project's checks accept SMS from.
    pub fn for_project(project: &Project) -> Self {
        match project.mode {
            Mode::Live => SmsOrigin::Operator,
            Mode::Sandbox => SmsOrigin::Sandbox(project.id),
        }
    }

    pub fn mode(self) -> Mode {
        match self {
            SmsOrigin::Operator => Mode::Live,
            SmsOrigin::Sandbox(_) => Mode::Sandbox,
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct InboundSms {
    pub origin: SmsOrigin,
    /// Name of the connector that received it.
    pub connector: Arc<str>,
    pub from: SmsSender,
    pub to: Msisdn,
    pub text: String,
    pub received_at: Timestamp,
}

/// Masked: the text contains a code.
impl fmt::Debug for InboundSms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundSms")
            .field("origin", &self.origin)
            .field("connector", &self.connector)
            .field("from", &self.from)
            .field("to", &self.to)
            .field("characters", &self.text.chars().count())
            .field("received_at", &self.received_at)
            .finish()
    }
}
