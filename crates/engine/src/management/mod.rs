//! Control-plane use cases: workspaces, projects, credentials, allowed networks, usage, audit log.
//!
//! Every change is one transaction that also writes its audit event. Each use case compares the caller's workspace with
//! the resource's, and distinguishes resources of other owners (403) from missing ones (404).

mod credentials;
mod project_patch;
mod projects;
mod reports;
mod workspaces;

pub use credentials::{IssuedCredential, NewCredential};
pub use project_patch::{ConfigurationPatch, InvalidUrl, Patch, ProjectPatch, ReverseSmsPatch, SilentPatch};
pub use projects::{CreatedProject, NewProject, UpdatedProject};
pub use reports::{UsageReport, UsageRequest};
pub use workspaces::CreatedWorkspace;

use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
    network::NetworkId,
    tenancy::{CredentialOwner, WorkspaceId},
};

use crate::{
    Engine,
    idempotency::IdempotencyScope,
    ports::{StoreError, TenantLookup},
};

#[derive(Debug, thiserror::Error)]
pub enum ManagementError {
    #[error("workspace not found")]
    WorkspaceNotFound,
    #[error("project not found in this workspace")]
    ProjectNotFound,
    #[error("credential not found")]
    CredentialNotFound,
    #[error("this {0} belongs to another owner")]
    OtherOwner(&'static str),
    #[error("another project in this workspace already has this name")]
    ProjectNameTaken,
    #[error(transparent)]
    InvalidUrl(#[from] InvalidUrl),
    #[error("{problem}")]
    InvalidMember { member: &'static str, problem: String },
    #[error("`/networks/{position}`: {given} is another id of {network}, which is already in the list")]
    DuplicateNetwork { position: usize, given: NetworkId, network: NetworkId },
    #[error(
        "`/networks/{position}/network_id`: this deployment has no network {given}; see `GET /v1/management/networks`"
    )]
    UnknownNetwork { position: usize, given: NetworkId },
    #[error("{0}")]
    LimitReached(String),
    #[error("the resource has changed: `If-Match` does not match its `ETag`")]
    PreconditionFailed,
    #[error("the resource is being changed by other requests; try again")]
    ConcurrentUpdates,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Limits on what a tenant can create. Every node holds these resources in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    pub projects_per_workspace: u32,
    /// Live credentials of a project, or of a workspace.
    pub credentials_per_owner: u32,
}

impl Default for TenantLimits {
    fn default() -> Self {
        TenantLimits { projects_per_workspace: 1_000, credentials_per_owner: 100 }
    }
}

/// Condition on the current state of a resource, such as `If-Match`. The transaction of the change fails if the state
/// is no longer the one that was tested.
pub type Precondition<'a, T> = &'a (dyn Fn(&T) -> bool + Send + Sync);

/// Attempts at a change while other requests change the same resource.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// The actor of a management use case, by API or console, with the workspace that it is authorised for and the request
/// id for the audit log.
#[derive(Clone, Debug)]
pub struct ManagementActor {
    pub workspace: WorkspaceId,
    pub actor: Actor,
    pub request_id: Option<String>,
}

impl Engine {
    /// Authorises a caller for a workspace, or for a project in it, and returns the scope of its idempotency keys.
    pub async fn authorize(
        &self,
        manager: &ManagementActor,
        owner: CredentialOwner,
    ) -> Result<IdempotencyScope, ManagementError> {
        match owner {
            CredentialOwner::Workspace(workspace) => self.authorize_workspace(manager, workspace).await?,
            CredentialOwner::Project(workspace, project) => {
                self.project(manager, workspace, project).await?;
            }
        }
        Ok(IdempotencyScope::authorized(owner))
    }

    /// Authorises a caller for its own workspace only.
    async fn authorize_workspace(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
    ) -> Result<(), ManagementError> {
        if manager.workspace == workspace {
            return Ok(());
        }
        match self.store().find_workspace(manager.workspace, workspace).await? {
            TenantLookup::Found(_) => Ok(()),
            TenantLookup::OtherTenant => Err(ManagementError::OtherOwner("workspace")),
            TenantLookup::NotFound => Err(ManagementError::WorkspaceNotFound),
        }
    }

    pub(crate) fn new_audit_event(
        &self,
        manager: &ManagementActor,
        action: Action,
        target: String,
        changes: Vec<String>,
    ) -> AuditEvent {
        let mut event = self.new_audit_event_by(manager.actor.clone(), action, manager.workspace, target, changes);
        event.request_id.clone_from(&manager.request_id);
        event
    }

    pub(crate) fn new_audit_event_by(
        &self,
        actor: Actor,
        action: Action,
        workspace: WorkspaceId,
        target: String,
        changes: Vec<String>,
    ) -> AuditEvent {
        let at = self.clock().now();
        AuditEvent {
            id: uuid_v7(at, self.entropy().bytes()),
            workspace: Some(workspace),
            at,
            actor,
            action,
            target,
            changes,
            request_id: None,
        }
    }
}
