//! The control plane's use cases: workspaces, projects, credentials, allowed networks, usage, audit.
//!
//! Every change is one transaction that writes its audit event too. A tenant reaches only its own workspace: each use
//! case takes the caller's and compares, and tells "not yours" from "not there".

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
    id::time_ordered,
    network::NetworkId,
    tenancy::{CredentialOwner, WorkspaceId},
};

use crate::{
    Engine,
    idempotency::IdempotencyScope,
    ports::{Found, StoreError},
};

#[derive(Debug, thiserror::Error)]
pub enum ManagementError {
    #[error("there is no such workspace")]
    WorkspaceNotFound,
    #[error("there is no such project in this workspace")]
    ProjectNotFound,
    #[error("there is no such credential")]
    CredentialNotFound,
    #[error("this {0} belongs to someone else")]
    NotYours(&'static str),
    #[error("another project of this workspace has this name")]
    ProjectNameTaken,
    #[error(transparent)]
    InvalidUrl(#[from] InvalidUrl),
    #[error("{problem}")]
    InvalidMember { member: &'static str, problem: String },
    #[error("`/networks/{position}`: {given} is another id of {network}, which the list has already")]
    SameNetwork { position: usize, given: NetworkId, network: NetworkId },
    #[error(
        "`/networks/{position}/network_id`: this deployment has no network {given}; see `GET /v1/management/networks`"
    )]
    UnknownNetwork { position: usize, given: NetworkId },
    #[error("{0}")]
    LimitReached(String),
    #[error("the resource has changed: its `ETag` does not match `If-Match`")]
    PreconditionFailed,
    /// Others changed the same thing again and again while we tried.
    #[error("others are changing the same resource; try again")]
    Contended,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Caps on what a tenant may create, since every node keeps it in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    pub projects_per_workspace: u32,
    /// Live credentials of one project, or of one workspace.
    pub credentials_per_owner: u32,
}

impl Default for TenantLimits {
    fn default() -> Self {
        TenantLimits { projects_per_workspace: 1_000, credentials_per_owner: 100 }
    }
}

/// A condition on the current state of a resource, such as `If-Match`. It holds in the transaction of the change: the
/// change is refused if the state is no longer the one that was tested.
pub type Condition<'a, T> = &'a (dyn Fn(&T) -> bool + Send + Sync);

/// How often a change is tried again when others change the same resource in between.
const TRIES: usize = 5;

/// Whoever does something that is audited, by the API or at the console, and the request that it makes.
#[derive(Clone, Debug)]
pub struct Manager {
    pub workspace: WorkspaceId,
    pub actor: Actor,
    pub request_id: Option<String>,
}

impl Engine {
    /// Authorises a caller for a workspace, or for a project of it, and yields the scope of its idempotency keys.
    pub async fn authorize(
        &self,
        manager: &Manager,
        owner: CredentialOwner,
    ) -> Result<IdempotencyScope, ManagementError> {
        match owner {
            CredentialOwner::Workspace(workspace) => self.enter(manager, workspace).await?,
            CredentialOwner::Project(workspace, project) => {
                self.project(manager, workspace, project).await?;
            }
        }
        Ok(IdempotencyScope::authorized(owner))
    }

    /// Lets a caller into its own workspace only.
    async fn enter(&self, manager: &Manager, workspace: WorkspaceId) -> Result<(), ManagementError> {
        if manager.workspace == workspace {
            return Ok(());
        }
        match self.store().find_workspace(manager.workspace, workspace).await? {
            Found::Mine(_) => Ok(()),
            Found::SomeoneElses => Err(ManagementError::NotYours("workspace")),
            Found::Nothing => Err(ManagementError::WorkspaceNotFound),
        }
    }

    pub(crate) fn audit(&self, manager: &Manager, action: Action, target: String, changes: Vec<String>) -> AuditEvent {
        let mut event = self.audit_by(manager.actor.clone(), action, manager.workspace, target, changes);
        event.request_id.clone_from(&manager.request_id);
        event
    }

    pub(crate) fn audit_by(
        &self,
        actor: Actor,
        action: Action,
        workspace: WorkspaceId,
        target: String,
        changes: Vec<String>,
    ) -> AuditEvent {
        let at = self.clock().now();
        AuditEvent {
            id: time_ordered(at, self.entropy().bytes()),
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
