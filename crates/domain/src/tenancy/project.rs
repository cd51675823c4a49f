//! Projects.

use jiff::Timestamp;

use super::{Configuration, Mode, Name, WorkspaceId};
use crate::{id::identifier, network::AllowedNetwork, product::Product};

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
    /// Name, unique in the workspace.
    pub name: Name,
    pub mode: Mode,
    /// When the project changed from sandbox to live. `None`: the project never changed its mode.
    pub live_since: Option<Timestamp>,
    /// Whether the project is disabled. Its tokens are then neither issued nor accepted, but its open checks still
    /// conclude.
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
