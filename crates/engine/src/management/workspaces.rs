//! Workspaces. Operators and administrators create them; tenants can read and rename their own.

use ringtrue_domain::{
    audit::{Action, Actor},
    id::uuid_v7,
    page::{Page, PageRequest},
    product::Scope,
    tenancy::{CredentialOwner, Name, RateLimits, Workspace, WorkspaceId},
};

use super::{IssuedCredential, MAX_WRITE_ATTEMPTS, ManagementActor, ManagementError, Precondition};
use crate::{
    Engine,
    accounts::Administrator,
    ports::{StoreError, TenantLookup},
};

#[derive(Clone, Debug)]
pub struct CreatedWorkspace {
    pub workspace: Workspace,
    pub credential: IssuedCredential,
}

impl Engine {
    /// Creates a workspace with its first credential.
    pub async fn create_workspace(&self, name: Name) -> Result<CreatedWorkspace, StoreError> {
        let workspace = self.new_workspace(name);
        let id = workspace.id;
        let credential = self.generate_credential(CredentialOwner::Workspace(id), vec![Scope::Management], None)?;
        let client_id = credential.credential.client_id.to_string();
        let audit = [
            self.new_audit_event_by(Actor::Operator, Action::WorkspaceCreated, id, id.to_string(), vec![]),
            self.new_audit_event_by(Actor::Operator, Action::CredentialCreated, id, client_id, vec![]),
        ];
        self.store().create_workspace(&workspace, Some(&credential.credential), &audit).await?;
        self.refresh_after_write().await;
        Ok(CreatedWorkspace { workspace, credential })
    }

    /// Creates a workspace without credentials, which its owners create in the console.
    pub async fn create_workspace_without_credential(
        &self,
        administrator: &Administrator,
        name: Name,
    ) -> Result<Workspace, StoreError> {
        let workspace = self.new_workspace(name);
        let (actor, request_id) = administrator.actor_and_request_id();
        let manager = ManagementActor { workspace: workspace.id, actor, request_id };
        let audit = self.new_audit_event(&manager, Action::WorkspaceCreated, workspace.id.to_string(), vec![]);
        self.store().create_workspace(&workspace, None, &[audit]).await?;
        self.refresh_after_write().await;
        Ok(workspace)
    }

    fn new_workspace(&self, name: Name) -> Workspace {
        let now = self.clock().now();
        Workspace {
            id: WorkspaceId(uuid_v7(now, self.entropy().bytes())),
            name,
            data_residency: self.region(),
            rate_limits: RateLimits::default(),
            created_at: now,
            updated_at: now,
        }
    }

    /// All workspaces. For operators and administrators only.
    pub async fn list_all_workspaces(&self, page: PageRequest) -> Result<Page<Workspace>, StoreError> {
        self.store().list_all_workspaces(page).await
    }

    /// Replaces a workspace's rate-limit overrides. Returns `None` if the workspace does not exist.
    pub async fn set_workspace_limits(
        &self,
        id: WorkspaceId,
        limits: RateLimits,
    ) -> Result<Option<Workspace>, StoreError> {
        let changes = vec!["rate_limits".to_owned()];
        let audit = self.new_audit_event_by(Actor::Operator, Action::WorkspaceUpdated, id, id.to_string(), changes);
        let workspace = self.store().set_workspace_limits(id, limits, audit.at, &audit).await?;
        self.refresh_after_write().await;
        Ok(workspace)
    }

    pub async fn workspace(&self, manager: &ManagementActor, id: WorkspaceId) -> Result<Workspace, ManagementError> {
        match self.store().find_workspace(manager.workspace, id).await? {
            TenantLookup::Found(workspace) => Ok(workspace),
            TenantLookup::OtherTenant => Err(ManagementError::OtherOwner("workspace")),
            TenantLookup::NotFound => Err(ManagementError::WorkspaceNotFound),
        }
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
            let audit =
                self.new_audit_event(manager, Action::WorkspaceUpdated, id.to_string(), vec!["name".to_owned()]);
            if let Some(renamed) = self.store().rename_workspace(id, &name, Some(&current), audit.at, &audit).await? {
                self.refresh_after_write().await;
                return Ok(renamed);
            }
        }
        Err(ManagementError::ConcurrentUpdates)
    }
}
