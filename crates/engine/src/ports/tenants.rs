//! Store ports for workspaces, projects and credentials.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    search::Filter,
    tenancy::{ClientId, Credential, CredentialOwner, Name, Project, ProjectId, RateLimits, Workspace, WorkspaceId},
    verification::{LogoImage, UploadedLogo},
};

use super::{
    idempotency::IdempotentResponse,
    store::{StoreError, TenantLookup},
};

#[async_trait]
pub trait WorkspaceStore: Send + Sync {
    async fn create_workspace(
        &self,
        workspace: &Workspace,
        credential: Option<&Credential>,
        audit: &[AuditEvent],
    ) -> Result<(), StoreError>;

    /// Renames a workspace. With `expected`, only if it has not changed since `expected` was read. `None`: it has
    /// changed or does not exist, and nothing was written.
    async fn rename_workspace(
        &self,
        id: WorkspaceId,
        name: &Name,
        expected: Option<&Workspace>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError>;

    /// Replaces the rate limits. `None`: the workspace does not exist.
    async fn set_workspace_rate_limits(
        &self,
        id: WorkspaceId,
        limits: RateLimits,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError>;

    async fn find_workspace(&self, caller: WorkspaceId, id: WorkspaceId)
    -> Result<TenantLookup<Workspace>, StoreError>;

    /// Lists all workspaces, newest first. For administrators only.
    async fn list_all_workspaces(&self, page: PageRequest) -> Result<Page<Workspace>, StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateProjectOutcome {
    Created,
    /// Another project in the workspace has this name.
    NameTaken,
    /// The workspace has reached its maximum number of projects.
    LimitReached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateCredentialOutcome {
    Created,
    /// The owner has reached its maximum number of active credentials.
    LimitReached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteCredentialOutcome {
    Deleted,
    /// The credential has changed since it was read, and nothing was written.
    Stale,
    /// The workspace has no other live credential, and nothing was written. A credential that was replaced by rotation
    /// does not count as live.
    LastOfWorkspace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotateCredentialOutcome {
    Rotated,
    /// The credential has changed since it was read, or no longer exists. Nothing was written.
    Stale,
    /// The owner has reached its maximum number of active credentials.
    LimitReached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateProjectOutcome {
    Updated,
    NameTaken,
    /// The project has changed since it was read, or does not exist. Nothing was written.
    Stale,
}

#[async_trait]
pub trait ProjectStore: Send + Sync {
    /// Stores a project with its first credential.
    async fn create_project(
        &self,
        project: &Project,
        credential: &Credential,
        audit: &[AuditEvent],
        response: Option<&IdempotentResponse>,
        max_projects: u32,
    ) -> Result<CreateProjectOutcome, StoreError>;

    async fn find_project(&self, workspace: WorkspaceId, id: ProjectId) -> Result<TenantLookup<Project>, StoreError>;

    /// Lists projects, newest first.
    async fn list_projects(
        &self,
        workspace: WorkspaceId,
        page: PageRequest,
        filter: Option<&Filter>,
    ) -> Result<Page<Project>, StoreError>;

    /// Replaces the previous revision of a project, `project.revision.0 - 1`. A `replacement` credential replaces all
    /// credentials of the project. Stores a new logo, to which the project's configuration refers, and deletes others.
    async fn update_project(
        &self,
        project: &Project,
        replacement: Option<&Credential>,
        logo: Option<&LogoImage>,
        audit: &[AuditEvent],
    ) -> Result<UpdateProjectOutcome, StoreError>;

    /// Returns the content of an uploaded logo. `None`: the project does not have it any more.
    async fn find_logo(&self, logo: &UploadedLogo) -> Result<Option<Vec<u8>>, StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialLimits {
    /// Maximum number of active credentials per owner.
    pub max_live: u32,
    /// Maximum number of deleted and expired credentials that a workspace keeps. The oldest ones beyond it are removed.
    pub max_dead: u32,
}

/// Stores credentials. Deleted credentials are visible only in
/// [`changes_since`](super::control_plane::ControlPlaneStore::changes_since).
#[async_trait]
pub trait CredentialStore: Send + Sync {
    async fn create_credential(
        &self,
        credential: &Credential,
        audit: &AuditEvent,
        response: Option<&IdempotentResponse>,
        limits: CredentialLimits,
    ) -> Result<CreateCredentialOutcome, StoreError>;

    async fn find_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
    ) -> Result<TenantLookup<Credential>, StoreError>;

    /// Lists credentials, newest first.
    async fn list_credentials(&self, owner: CredentialOwner, page: PageRequest)
    -> Result<Page<Credential>, StoreError>;

    /// Marks a credential as deleted. With `expected`, only if it has not changed since `expected` was read. Refuses to
    /// delete the last live credential of a workspace.
    async fn delete_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
        expected: Option<&Credential>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<TenantLookup<DeleteCredentialOutcome>, StoreError>;

    /// Creates a credential that replaces `old`. The old credential stays valid until `retires_at`. Writes nothing if
    /// the old credential has changed since it was read.
    async fn rotate_credential(
        &self,
        old: &Credential,
        new: &Credential,
        retires_at: Timestamp,
        audit: &AuditEvent,
        limits: CredentialLimits,
    ) -> Result<RotateCredentialOutcome, StoreError>;

    /// Records when credentials were last used, without incrementing the control plane version.
    async fn record_credential_uses(&self, uses: &[(ClientId, Timestamp)]) -> Result<(), StoreError>;
}
