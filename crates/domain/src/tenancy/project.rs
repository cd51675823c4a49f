//! Projects.

use jiff::Timestamp;
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::{Configuration, Name, WorkspaceId};
use crate::{id::identifier, network::AllowedNetwork, parse_error::default_error, product::Product};

identifier!(
    /// Identifier of a project.
    ProjectId
);

impl ProjectId {
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
    /// A disabled project's tokens are neither issued nor accepted. Its open checks still conclude.
    pub disabled: bool,
    pub configuration: Configuration,
    pub products: Vec<Product>,
    pub allowed_networks: Vec<AllowedNetwork>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented with every change, for optimistic locking.
    pub revision: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub i64);

impl Revision {
    pub const FIRST: Revision = Revision(1);

    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

/// Live projects reach real operators, sandbox projects the simulated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidMode, parse_err_fn = default_error)]
pub enum Mode {
    Sandbox,
    Live,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode; use `sandbox` or `live`")]
pub struct InvalidMode;

impl Mode {
    /// Whether a project may change to `next`. Live is final: otherwise simulated verifications could pass for real
    /// ones.
    pub fn may_become(self, next: Mode) -> bool {
        self == next || next == Mode::Live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_projects_never_return_to_sandbox() {
        for (now, next, is_allowed) in [
            (Mode::Sandbox, Mode::Sandbox, true),
            (Mode::Sandbox, Mode::Live, true),
            (Mode::Live, Mode::Live, true),
            (Mode::Live, Mode::Sandbox, false),
        ] {
            assert_eq!(now.may_become(next), is_allowed, "{now:?} to {next:?}");
        }
    }
}
