//! The top-level container of an account.

use jiff::Timestamp;

use super::Name;
use crate::{id::identifier, region::Region};

identifier!(
    /// Names a workspace.
    WorkspaceId
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub name: Name,
    pub data_residency: Region,
    /// Where this workspace's limits differ from the deployment's. Set by whoever runs the deployment.
    pub rate_limits: RateLimits,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Requests per second that a workspace may make, for each kind of call; `None`: as the deployment has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    pub create: Option<u32>,
    pub read: Option<u32>,
    pub eligibility: Option<u32>,
    pub management: Option<u32>,
    /// Token and revoke requests, per client.
    pub token: Option<u32>,
}
