//! An SMS that an operator handed to us.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

use crate::{
    phone::Msisdn,
    tenancy::{Mode, Project, ProjectId},
};

/// Who sent an SMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    Number(Msisdn),
    /// The sender cannot be attributed to a subscriber: withheld, alphanumeric, a short code, or unreadable.
    Unattributed,
}

/// Where an SMS comes from, which decides whose checks it can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A real operator: it reaches checks of live projects.
    Operator,
    /// A simulated handset of this sandbox project: it reaches checks of this project.
    Sandbox(ProjectId),
}

impl Origin {
    /// Where the SMS for a project's checks come from.
    pub fn for_project(project: &Project) -> Self {
        match project.mode {
            Mode::Live => Origin::Operator,
            Mode::Sandbox => Origin::Sandbox(project.id),
        }
    }

    pub fn mode(self) -> Mode {
        match self {
            Origin::Operator => Mode::Live,
            Origin::Sandbox(_) => Mode::Sandbox,
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct InboundSms {
    pub origin: Origin,
    /// The configured name of the connector that brought it.
    pub connector: Arc<str>,
    pub from: Sender,
    pub to: Msisdn,
    pub text: String,
    pub received_at: Timestamp,
}

/// Masked: the text holds a code.
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
