//! Workspaces, projects and credentials.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    search::Filter,
    tenancy::{ClientId, Credential, CredentialOwner, Name, Project, ProjectId, RateLimits, Workspace, WorkspaceId},
};

use super::{Completion, Found, StoreError};

#[async_trait]
pub trait WorkspaceStore: Send + Sync {
    async fn create_workspace(
        &self,
        workspace: &Workspace,
        credential: Option<&Credential>,
        audit: &[AuditEvent],
    ) -> Result<(), StoreError>;

    /// Renames a workspace; with `expected`, only while the workspace is still as it was read. `None`: it is not, or does
    /// not exist, and nothing was written.
    async fn rename_workspace(
        &self,
        id: WorkspaceId,
        name: &Name,
        expected: Option<&Workspace>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError>;

    /// Replaces the limits. `None`: there is no such workspace, and nothing was written.
    async fn limit_workspace(
        &self,
        id: WorkspaceId,
        limits: RateLimits,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError>;

    async fn find_workspace(&self, caller: WorkspaceId, id: WorkspaceId) -> Result<Found<Workspace>, StoreError>;

    /// All of them, newest first: for whoever runs the deployment, never for a tenant.
    async fn all_workspaces(&self, page: PageRequest) -> Result<Page<Workspace>, StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectWritten {
    Done,
    /// Another project of the workspace has this name.
    NameTaken,
    /// The workspace has as many projects as it may have.
    LimitReached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialWritten {
    Done,
    /// The owner has as many live credentials as it may have.
    LimitReached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialDeleted {
    Done,
    /// The credential has changed since it was read.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectUpdated {
    Done,
    NameTaken,
    /// The project has been changed since it was read, or is gone.
    Stale,
}

#[async_trait]
pub trait ProjectStore: Send + Sync {
    /// Stores a project with its first credential and, for a request with an idempotency key, its answer.
    async fn create_project(
        &self,
        project: &Project,
        credential: &Credential,
        audit: &[AuditEvent],
        completion: Option<&Completion>,
        max_projects: u32,
    ) -> Result<ProjectWritten, StoreError>;

    async fn find_project(&self, workspace: WorkspaceId, id: ProjectId) -> Result<Found<Project>, StoreError>;

    /// Newest first.
    async fn list_projects(
        &self,
        workspace: WorkspaceId,
        page: PageRequest,
        filter: Option<&Filter>,
    ) -> Result<Page<Project>, StoreError>;

    /// Stores `project` in place of its previous revision, `project.revision.0 - 1`. A `replacement` takes the place of
    /// all credentials of the project, which are deleted.
    async fn update_project(
        &self,
        project: &Project,
        replacement: Option<&Credential>,
        audit: &[AuditEvent],
    ) -> Result<ProjectUpdated, StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialLimits {
    /// How many live credentials an owner may have.
    pub live: u32,
    /// How many dead credentials (deleted or expired) of a workspace are kept, the newest ones.
    pub dead: u32,
}

/// Deleted credentials are invisible here; [`changes_since`](super::ControlPlaneStore::changes_since) still tells of them.
#[async_trait]
pub trait CredentialStore: Send + Sync {
    async fn create_credential(
        &self,
        credential: &Credential,
        audit: &AuditEvent,
        completion: Option<&Completion>,
        limits: CredentialLimits,
    ) -> Result<CredentialWritten, StoreError>;

    async fn find_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
    ) -> Result<Found<Credential>, StoreError>;

    /// Newest first.
    async fn list_credentials(&self, owner: CredentialOwner, page: PageRequest)
    -> Result<Page<Credential>, StoreError>;

    /// Marks it deleted, and writes the audit event, only when it is the owner's and not deleted yet; with `expected`,
    /// only while it is still as it was read.
    async fn delete_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
        expected: Option<&Credential>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Found<CredentialDeleted>, StoreError>;

    /// Records when credentials were last used. No change of the control plane: no node decides anything by it.
    async fn record_credential_uses(&self, uses: &[(ClientId, Timestamp)]) -> Result<(), StoreError>;
}
