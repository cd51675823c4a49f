//! Workspaces: tenants that own projects.

use jiff::Timestamp;

use super::Name;
use crate::{id::identifier, region::Region};

identifier!(
    /// Identifier of a workspace.
    WorkspaceId
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub name: Name,
    pub data_residency: Region,
    /// Overrides of the deployment's rate limits, set by an administrator.
    pub rate_limits: RateLimits,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A workspace's limits in requests per second, by kind of request. `None`: the deployment's limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    pub create: Option<u32>,
    pub read: Option<u32>,
    pub eligibility: Option<u32>,
    pub management: Option<u32>,
    /// Token and revoke requests, per client.
    pub token: Option<u32>,
}
