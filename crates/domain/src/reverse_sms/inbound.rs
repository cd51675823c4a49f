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
        Self::for_checks(project.mode, project.id)
    }

    /// The origin that checks of a project accept SMS from.
    pub fn for_checks(mode: Mode, project: ProjectId) -> Self {
        match mode {
            Mode::Live => SmsOrigin::Operator,
            Mode::Sandbox => SmsOrigin::Sandbox(project),
        }
    }

    pub fn mode(self) -> Mode {
        match self {
            SmsOrigin::Operator => Mode::Live,
            SmsOrigin::Sandbox(_) => Mode::Sandbox,
        }
    }
}

#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct InboundSms {
    pub origin: SmsOrigin,
    /// Name of the connector that received it.
    pub connector: Arc<str>,
    pub from: SmsSender,
    pub to: Msisdn,
    /// Masked: contains a code.
    #[debug("{} characters", text.chars().count())]
    pub text: String,
    pub received_at: Timestamp,
}
