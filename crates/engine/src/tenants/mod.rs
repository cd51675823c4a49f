//! Control-plane use cases: workspaces, projects, credentials, allowed networks, usage and the audit log.
//!
//! Every change is one transaction, which also writes the audit event. Each use case verifies that the resource belongs
//! to the caller's workspace. It distinguishes resources of other owners (403) from missing ones (404).

mod credentials;
mod live_readiness;
mod logos;
mod number_search;
mod project_patch;
mod projects;
mod reports;
mod sign_in_test;

pub use credentials::{IssuedCredential, NewCredential};
pub use live_readiness::{LiveRequirement, LiveTopic};
pub use number_search::{NumberSearchError, NumberSearchPermit};
pub use project_patch::ProjectPatch;
pub use projects::{CreatedProject, NewProject, UpdatedProject};
pub use reports::{KeyWithKid, UsageReport, UsageRequest};
pub use sign_in_test::{SignInTestError, SignInTestPermit};

use std::sync::Arc;

use ringtrue_domain::{
    audit::{Action, Actor},
    network::NetworkId,
    product::Scope,
    tenancy::{CredentialOwner, InvalidSetting, Name, RateLimits, Workspace, WorkspaceId},
};

use crate::{
    actor::{Administrator, ManagementActor},
    context::Context,
    idempotency::{Idempotency, IdempotencyScope},
    lookups::networks::Networks,
    ports::{combined::ManagementStore, store::StoreError},
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
    InvalidSetting(#[from] InvalidSetting),
    #[error("the project is not ready to go live: {}; `?force=true` skips this check", .0.join("; "))]
    NotReadyForLive(Vec<String>),
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
    #[error("a workspace needs a live credential; create another one before you delete this one")]
    LastCredential,
    #[error("the resource has changed: `If-Match` does not match its `ETag`")]
    PreconditionFailed,
    #[error("the resource is being changed by other requests; try again")]
    ConcurrentUpdates,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Limits on the resources that a tenant can create. They are needed because every node holds these resources in
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    pub projects_per_workspace: u32,
    /// Maximum number of live credentials of one project, and of one workspace.
    pub credentials_per_owner: u32,
}

impl Default for TenantLimits {
    fn default() -> Self {
        TenantLimits { projects_per_workspace: 1_000, credentials_per_owner: 100 }
    }
}

/// A condition on the current state of a resource, such as `If-Match`. If the resource changes between the test and the
/// write, the write fails, and both are repeated.
pub type Precondition<'a, T> = &'a (dyn Fn(&T) -> bool + Send + Sync);

/// Maximum number of attempts to write a resource that other requests change at the same time.
const MAX_WRITE_ATTEMPTS: usize = 5;

#[derive(Clone, Debug)]
pub struct CreatedWorkspace {
    pub workspace: Workspace,
    pub credential: IssuedCredential,
}

/// Manages workspaces, projects and credentials, and reports on them.
#[derive(derive_more::Debug)]
#[debug("Management")]
pub struct Management {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn ManagementStore>,
    pub(crate) idempotency: Arc<Idempotency>,
    pub(crate) networks: Arc<Networks>,
}

impl Management {
    /// Authorises a caller for a workspace, or for a project in it. Returns the scope of the caller's idempotency keys.
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
        Ok(IdempotencyScope::of_authorized(owner))
    }

    /// Fails unless the caller belongs to this workspace.
    async fn authorize_workspace(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
    ) -> Result<(), ManagementError> {
        if manager.workspace == workspace { Ok(()) } else { self.workspace(manager, workspace).await.map(drop) }
    }

    /// Creates a workspace with its first credential.
    pub async fn create_workspace(&self, name: Name) -> Result<CreatedWorkspace, StoreError> {
        let workspace = self.new_workspace(name);
        let id = workspace.id;
        let credential =
            self.generate_credential(CredentialOwner::Workspace(id), vec![Scope::Management], None, &Actor::Operator);
        let client_id = credential.credential.client_id.to_string();
        let operator = ManagementActor::of_command_line(id);
        let audit = [
            operator.new_audit_event(&self.context, Action::WorkspaceCreated, id.to_string(), vec![]),
            operator.new_audit_event(&self.context, Action::CredentialCreated, client_id, vec![]),
        ];
        self.store.create_workspace(&workspace, Some(&credential.credential), &audit).await?;
        self.context.refresh_after_write().await;
        Ok(CreatedWorkspace { workspace, credential })
    }

    /// Creates a workspace without a credential. The workspace's owners can create credentials in the console.
    pub async fn create_workspace_without_credential(
        &self,
        administrator: &Administrator,
        name: Name,
    ) -> Result<Workspace, StoreError> {
        let workspace = self.new_workspace(name);
        let (actor, request_id) = administrator.actor_and_request_id();
        let manager = ManagementActor { workspace: workspace.id, actor, request_id };
        let audit = manager.new_audit_event(&self.context, Action::WorkspaceCreated, workspace.id.to_string(), vec![]);
        self.store.create_workspace(&workspace, None, &[audit]).await?;
        self.context.refresh_after_write().await;
        Ok(workspace)
    }

    fn new_workspace(&self, name: Name) -> Workspace {
        let now = self.context.now();
        Workspace {
            id: WorkspaceId(self.context.new_uuid(now)),
            name,
            data_residency: self.context.settings.region,
            rate_limits: RateLimits::default(),
            created_at: now,
            updated_at: now,
        }
    }

    /// Replaces a workspace's rate-limit overrides. `None`: the workspace does not exist.
    pub async fn set_workspace_rate_limits(
        &self,
        id: WorkspaceId,
        limits: RateLimits,
    ) -> Result<Option<Workspace>, StoreError> {
        let changes = vec!["rate_limits".to_owned()];
        let operator = ManagementActor::of_command_line(id);
        let audit = operator.new_audit_event(&self.context, Action::WorkspaceUpdated, id.to_string(), changes);
        let workspace = self.store.set_workspace_rate_limits(id, limits, audit.at, &audit).await?;
        self.context.refresh_after_write().await;
        Ok(workspace)
    }

    pub async fn workspace(&self, manager: &ManagementActor, id: WorkspaceId) -> Result<Workspace, ManagementError> {
        let found = self.store.find_workspace(manager.workspace, id).await?;
        found.found_or(ManagementError::OtherOwner("workspace"), ManagementError::WorkspaceNotFound)
    }

    pub async fn rename_workspace(
        &self,
        manager: &ManagementActor,
        id: WorkspaceId,
        name: Name,
        condition: Precondition<'_, Workspace>,
    ) -> Result<Workspace, ManagementError> {
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let current = self.workspace(manager, id).await?;
            if !condition(&current) {
                return Err(ManagementError::PreconditionFailed);
            }
            if current.name == name {
                return Ok(current);
            }
            let audit = manager.new_audit_event(
                &self.context,
                Action::WorkspaceUpdated,
                id.to_string(),
                vec!["name".to_owned()],
            );
            if let Some(renamed) = self.store.rename_workspace(id, &name, Some(&current), audit.at, &audit).await? {
                self.context.refresh_after_write().await;
                return Ok(renamed);
            }
        }
        Err(ManagementError::ConcurrentUpdates)
    }
}
