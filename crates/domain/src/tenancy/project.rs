//! A project: the unit that a product is pointed at.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use super::{Configuration, Name, WorkspaceId};
use crate::{id::identifier, network::AllowedNetwork, product::Product};

identifier!(
    /// Names a project.
    ProjectId
);

impl ProjectId {
    /// The identifier that these sixteen octets are.
    pub fn from_octets(octets: [u8; 16]) -> Self {
        ProjectId(uuid::Uuid::from_bytes(octets))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    pub id: ProjectId,
    pub workspace: WorkspaceId,
    /// Unique in its workspace.
    pub name: Name,
    pub mode: Mode,
    /// Instant of the change from sandbox to live. `None` for projects that never changed their mode.
    pub live_since: Option<Timestamp>,
    /// No token of a disabled project is accepted or given out. Its open checks still run to their end.
    pub disabled: bool,
    pub configuration: Configuration,
    pub products: Vec<Product>,
    pub allowed_networks: Vec<AllowedNetwork>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Grows with every change, so that a change based on an older reading is noticed.
    pub revision: Revision,
}

/// How often a project has been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub i64);

impl Revision {
    pub const FIRST: Revision = Revision(1);

    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

/// Whether a project reaches real operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    Sandbox,
    Live,
}

impl Mode {
    pub const ALL: [Mode; 2] = [Mode::Sandbox, Mode::Live];

    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Sandbox => "sandbox",
            Mode::Live => "live",
        }
    }

    /// Whether a project of this mode may have `next`. A project goes live once and never back: otherwise simulated
    /// verifications could pass for real ones.
    pub fn may_become(self, next: Mode) -> bool {
        self == next || next == Mode::Live
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a mode: `sandbox` and `live` are")]
pub struct NotAMode;

impl FromStr for Mode {
    type Err = NotAMode;

    fn from_str(text: &str) -> Result<Self, NotAMode> {
        Mode::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or(NotAMode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_go_live_and_never_back() {
        for (now, next, is_allowed) in [
            (Mode::Sandbox, Mode::Sandbox, true),
            (Mode::Sandbox, Mode::Live, true),
            (Mode::Live, Mode::Live, true),
            (Mode::Live, Mode::Sandbox, false),
        ] {
            assert_eq!(now.may_become(next), is_allowed, "{now} to {next}");
        }
    }
}
