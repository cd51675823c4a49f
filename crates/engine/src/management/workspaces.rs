//! Workspaces. Whoever runs the deployment makes them; tenants see and rename their own.

use ringtrue_domain::{
    audit::{Action, Actor},
    id::time_ordered,
    page::{Page, PageRequest},
    product::Scope,
    tenancy::{CredentialOwner, Name, RateLimits, Workspace, WorkspaceId},
};

use super::{Condition, IssuedCredential, ManagementError, Manager, TRIES};
use crate::{
    Engine,
    accounts::Administrator,
    ports::{Found, StoreError},
};

#[derive(Clone, Debug)]
pub struct CreatedWorkspace {
    pub workspace: Workspace,
    pub credential: IssuedCredential,
}

impl Engine {
    /// Makes a workspace with its first credential.
    pub async fn create_workspace(&self, name: Name) -> Result<CreatedWorkspace, StoreError> {
        let workspace = self.new_workspace(name);
        let id = workspace.id;
        let credential = self.issue(CredentialOwner::Workspace(id), vec![Scope::Management], None)?;
        let client_id = credential.credential.client_id.to_string();
        let audit = [
            self.audit_by(Actor::Operator, Action::WorkspaceCreated, id, id.to_string(), vec![]),
            self.audit_by(Actor::Operator, Action::CredentialCreated, id, client_id, vec![]),
        ];
        self.store().create_workspace(&workspace, Some(&credential.credential), &audit).await?;
        self.see_own_change().await;
        Ok(CreatedWorkspace { workspace, credential })
    }

    /// Creates a workspace without a credential: its owners create those that they need.
    pub async fn create_empty_workspace(
        &self,
        administrator: &Administrator,
        name: Name,
    ) -> Result<Workspace, StoreError> {
        let workspace = self.new_workspace(name);
        let (actor, request_id) = administrator.named();
        let manager = Manager { workspace: workspace.id, actor, request_id };
        let audit = self.audit(&manager, Action::WorkspaceCreated, workspace.id.to_string(), vec![]);
        self.store().create_workspace(&workspace, None, &[audit]).await?;
        self.see_own_change().await;
        Ok(workspace)
    }

    fn new_workspace(&self, name: Name) -> Workspace {
        let now = self.clock().now();
        Workspace {
            id: WorkspaceId(time_ordered(now, self.entropy().bytes())),
            name,
            data_residency: self.region(),
            rate_limits: RateLimits::default(),
            created_at: now,
            updated_at: now,
        }
    }

    /// All workspaces: for whoever runs the deployment.
    pub async fn all_workspaces(&self, page: PageRequest) -> Result<Page<Workspace>, StoreError> {
        self.store().all_workspaces(page).await
    }

    /// Replaces a workspace's own rate limits. `None`: there is no such workspace.
    pub async fn limit_workspace(&self, id: WorkspaceId, limits: RateLimits) -> Result<Option<Workspace>, StoreError> {
        let changes = vec!["rate_limits".to_owned()];
        let audit = self.audit_by(Actor::Operator, Action::WorkspaceUpdated, id, id.to_string(), changes);
        let workspace = self.store().limit_workspace(id, limits, audit.at, &audit).await?;
        self.see_own_change().await;
        Ok(workspace)
    }

    pub async fn workspace(&self, manager: &Manager, id: WorkspaceId) -> Result<Workspace, ManagementError> {
        match self.store().find_workspace(manager.workspace, id).await? {
            Found::Mine(workspace) => Ok(workspace),
            Found::SomeoneElses => Err(ManagementError::NotYours("workspace")),
            Found::Nothing => Err(ManagementError::WorkspaceNotFound),
        }
    }

    pub async fn rename_workspace(
        &self,
        manager: &Manager,
        id: WorkspaceId,
        name: Name,
        condition: Condition<'_, Workspace>,
    ) -> Result<Workspace, ManagementError> {
        for _ in 0..TRIES {
            let current = self.workspace(manager, id).await?;
            if !condition(&current) {
                return Err(ManagementError::PreconditionFailed);
            }
            if current.name == name {
                return Ok(current);
            }
            let audit = self.audit(manager, Action::WorkspaceUpdated, id.to_string(), vec!["name".to_owned()]);
            if let Some(renamed) = self.store().rename_workspace(id, &name, Some(&current), audit.at, &audit).await? {
                self.see_own_change().await;
                return Ok(renamed);
            }
        }
        Err(ManagementError::Contended)
    }
}
