//! Projects, and the networks that they may use.

use ringtrue_domain::{
    audit::Action,
    id::time_ordered,
    network::AllowedNetwork,
    page::{Page, PageRequest},
    product::Product,
    search::Filter,
    tenancy::{CredentialOwner, Mode, Name, Project, ProjectId, Revision, WorkspaceId},
};

use super::{ConfigurationPatch, IssuedCredential, ManagementError, Manager, ProjectPatch, credentials::every_scope};
use crate::{
    Engine,
    idempotency::Once,
    ports::{Found, ProjectUpdated, ProjectWritten},
};

/// How often a change is tried again when others change the same project in between.
const TRIES: usize = 5;

#[derive(Clone, Debug)]
pub struct NewProject {
    pub name: Name,
    pub mode: Mode,
    pub configuration: ConfigurationPatch,
    pub products: Vec<Product>,
}

#[derive(Clone, Debug)]
pub struct CreatedProject {
    pub project: Project,
    pub credential: IssuedCredential,
}

impl Engine {
    /// Makes a project with its first credential.
    pub async fn create_project(
        &self,
        manager: &Manager,
        workspace: WorkspaceId,
        new: NewProject,
        once: Option<Once<'_, CreatedProject>>,
    ) -> Result<CreatedProject, ManagementError> {
        self.enter(manager, workspace).await?;
        let now = self.clock().now();
        let id = ProjectId(time_ordered(now, self.entropy().bytes()));
        let project = Project {
            id,
            workspace,
            name: new.name,
            mode: new.mode,
            disabled: false,
            configuration: new.configuration.build(new.mode, self.urls())?,
            products: new.products,
            allowed_networks: vec![],
            created_at: now,
            updated_at: now,
            revision: Revision::FIRST,
        };
        let owner = CredentialOwner::Project(workspace, id);
        let credential = self.issue(owner, every_scope(owner), None)?;
        let client_id = credential.credential.client_id.to_string();
        let audit = [
            self.audit(manager, Action::ProjectCreated, id.to_string(), vec![]),
            self.audit(manager, Action::CredentialCreated, client_id, vec![]),
        ];
        let created = CreatedProject { project, credential };
        let completion = self.completion(once, &created)?;
        let written = self
            .store()
            .create_project(&created.project, &created.credential.credential, &audit, completion.as_ref())
            .await?;
        match written {
            ProjectWritten::Done => {
                self.see_own_change().await;
                Ok(created)
            }
            ProjectWritten::NameTaken => Err(ManagementError::ProjectNameTaken),
        }
    }

    pub async fn project(
        &self,
        manager: &Manager,
        workspace: WorkspaceId,
        id: ProjectId,
    ) -> Result<Project, ManagementError> {
        self.enter(manager, workspace).await?;
        match self.store().find_project(workspace, id).await? {
            Found::Mine(project) => Ok(project),
            Found::SomeoneElses => Err(ManagementError::NotYours("project")),
            Found::Nothing => Err(ManagementError::ProjectNotFound),
        }
    }

    pub async fn projects(
        &self,
        manager: &Manager,
        workspace: WorkspaceId,
        page: PageRequest,
        filter: Option<&Filter>,
    ) -> Result<Page<Project>, ManagementError> {
        self.enter(manager, workspace).await?;
        Ok(self.store().list_projects(workspace, page, filter).await?)
    }

    pub async fn patch_project(
        &self,
        manager: &Manager,
        workspace: WorkspaceId,
        id: ProjectId,
        patch: ProjectPatch,
    ) -> Result<Project, ManagementError> {
        self.change_project(manager, workspace, id, Action::ProjectUpdated, |project| {
            Ok(patch.clone().apply(project, self.urls())?)
        })
        .await
    }

    pub async fn replace_allowed_networks(
        &self,
        manager: &Manager,
        workspace: WorkspaceId,
        id: ProjectId,
        networks: Vec<AllowedNetwork>,
    ) -> Result<Project, ManagementError> {
        let networks = self.by_their_own_ids(networks)?;
        self.change_project(manager, workspace, id, Action::AllowedNetworksReplaced, |project| {
            let changes = if project.allowed_networks == networks { vec![] } else { vec!["networks".to_owned()] };
            Ok((Project { allowed_networks: networks.clone(), ..project.clone() }, changes))
        })
        .await
    }

    /// The gate knows networks by their own ids: another one that a network goes by would never let anything pass. Ids
    /// of networks that this deployment does not know, yet, stay as they are.
    fn by_their_own_ids(&self, networks: Vec<AllowedNetwork>) -> Result<Vec<AllowedNetwork>, ManagementError> {
        let directory = self.networks().directory();
        let mut own: Vec<AllowedNetwork> = Vec::with_capacity(networks.len());
        for (position, allowed) in networks.into_iter().enumerate() {
            let network = directory.known_as(&allowed.network).map_or(&allowed.network, |known| &known.id).clone();
            if own.iter().any(|other| other.network == network) {
                return Err(ManagementError::SameNetwork { position, given: allowed.network, network });
            }
            own.push(AllowedNetwork { network, products: allowed.products });
        }
        Ok(own)
    }

    /// Reads, changes and writes a project; again from the start when someone was faster. A change that changes
    /// nothing writes nothing.
    async fn change_project(
        &self,
        manager: &Manager,
        workspace: WorkspaceId,
        id: ProjectId,
        action: Action,
        change: impl Fn(&Project) -> Result<(Project, Vec<String>), ManagementError>,
    ) -> Result<Project, ManagementError> {
        for _ in 0..TRIES {
            let current = self.project(manager, workspace, id).await?;
            let (mut changed, members) = change(&current)?;
            if members.is_empty() {
                return Ok(current);
            }
            let audit = self.audit(manager, action, id.to_string(), members);
            changed.updated_at = audit.at.max(current.updated_at);
            changed.revision = current.revision.next();
            match self.store().update_project(&changed, &audit).await? {
                ProjectUpdated::Done => {
                    self.see_own_change().await;
                    return Ok(changed);
                }
                ProjectUpdated::NameTaken => return Err(ManagementError::ProjectNameTaken),
                ProjectUpdated::Stale => {}
            }
        }
        Err(ManagementError::Contended)
    }
}
