//! Projects, and the networks that they may use.

use ringtrue_domain::{
    audit::Action,
    id::time_ordered,
    network::{AllowedNetwork, NetworkSelector},
    page::{Page, PageRequest},
    product::Product,
    search::Filter,
    tenancy::{CredentialOwner, Mode, Name, Project, ProjectId, Revision, WorkspaceId},
};

use super::{
    Condition, ConfigurationPatch, IssuedCredential, ManagementError, Manager, ProjectPatch, TRIES,
    credentials::every_scope,
};
use crate::{
    Engine,
    idempotency::Once,
    ports::{Found, ProjectUpdated, ProjectWritten},
};

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

/// A project after a change.
#[derive(Clone, Debug)]
pub struct UpdatedProject {
    pub project: Project,
    /// The credential that has replaced all others, if the change took the project live.
    pub credential: Option<IssuedCredential>,
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
            live_since: None,
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
        let most = self.tenant_limits().projects_per_workspace;
        let written = self
            .store()
            .create_project(&created.project, &created.credential.credential, &audit, completion.as_ref(), most)
            .await?;
        match written {
            ProjectWritten::Done => {
                self.see_own_change().await;
                Ok(created)
            }
            ProjectWritten::NameTaken => Err(ManagementError::ProjectNameTaken),
            ProjectWritten::LimitReached => {
                Err(ManagementError::LimitReached(format!("the workspace has {most} projects, which is the limit")))
            }
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
        condition: Condition<'_, Project>,
    ) -> Result<UpdatedProject, ManagementError> {
        self.change_project(manager, workspace, id, Action::ProjectUpdated, |project| {
            if !condition(project) {
                return Err(ManagementError::PreconditionFailed);
            }
            if patch.mode.is_some_and(|mode| !project.mode.may_become(mode)) {
                let problem = "a live project cannot return to the sandbox; create another project".to_owned();
                return Err(ManagementError::InvalidMember { member: "/mode", problem });
            }
            let (mut patched, changes) = patch.clone().apply(project, self.urls())?;
            if patched.mode != project.mode {
                patched.live_since = Some(crate::checks::whole_millis(self.clock().now()));
            }
            Ok((patched, changes))
        })
        .await
    }

    pub async fn replace_allowed_networks(
        &self,
        manager: &Manager,
        workspace: WorkspaceId,
        id: ProjectId,
        networks: Vec<AllowedNetwork>,
        condition: Condition<'_, Project>,
    ) -> Result<Project, ManagementError> {
        let changed = self.change_project(manager, workspace, id, Action::AllowedNetworksReplaced, |project| {
            if !condition(project) {
                return Err(ManagementError::PreconditionFailed);
            }
            let networks = self.with_own_ids(networks.clone(), &project.allowed_networks)?;
            let changes = if project.allowed_networks == networks { vec![] } else { vec!["networks".to_owned()] };
            Ok((Project { allowed_networks: networks, ..project.clone() }, changes))
        });
        Ok(changed.await?.project)
    }

    /// Replaces other ids of networks by their own ones, which the gate compares. An id that this deployment does not
    /// know is refused, unless the project has it already: its network may have left the configuration since.
    fn with_own_ids(
        &self,
        networks: Vec<AllowedNetwork>,
        current: &[AllowedNetwork],
    ) -> Result<Vec<AllowedNetwork>, ManagementError> {
        let directory = self.networks().directory();
        let mut own: Vec<AllowedNetwork> = Vec::with_capacity(networks.len());
        for (position, AllowedNetwork { network, products }) in networks.into_iter().enumerate() {
            let selector = match network {
                NetworkSelector::All => NetworkSelector::All,
                NetworkSelector::One(given) => {
                    let known = directory.known_as(&given).map(|known| known.id.clone());
                    let selector = NetworkSelector::One(known.clone().unwrap_or_else(|| given.clone()));
                    if own.iter().any(|other| other.network == selector) {
                        let network = known.unwrap_or_else(|| given.clone());
                        return Err(ManagementError::SameNetwork { position, given, network });
                    }
                    if known.is_none() && !current.iter().any(|allowed| allowed.network == selector) {
                        return Err(ManagementError::UnknownNetwork { position, given });
                    }
                    selector
                }
            };
            own.push(AllowedNetwork { network: selector, products });
        }
        Ok(own)
    }

    /// Reads, changes and writes a project; again from the start when someone was faster. A change that changes
    /// nothing writes nothing. A change of the mode replaces the project's credentials.
    async fn change_project(
        &self,
        manager: &Manager,
        workspace: WorkspaceId,
        id: ProjectId,
        action: Action,
        change: impl Fn(&Project) -> Result<(Project, Vec<String>), ManagementError>,
    ) -> Result<UpdatedProject, ManagementError> {
        for _ in 0..TRIES {
            let current = self.project(manager, workspace, id).await?;
            let (mut changed, mut members) = change(&current)?;
            if members.is_empty() {
                return Ok(UpdatedProject { project: current, credential: None });
            }
            let owner = CredentialOwner::Project(workspace, id);
            let credential =
                if changed.mode == current.mode { None } else { Some(self.issue(owner, every_scope(owner), None)?) };
            if credential.is_some() {
                members.push("credentials".to_owned());
            }
            let mut audit = vec![self.audit(manager, action, id.to_string(), members)];
            changed.updated_at = audit[0].at.max(current.updated_at);
            changed.revision = current.revision.next();
            if let Some(IssuedCredential { credential, .. }) = &credential {
                audit.push(self.audit(manager, Action::CredentialCreated, credential.client_id.to_string(), vec![]));
            }
            let replacement = credential.as_ref().map(|issued| &issued.credential);
            match self.store().update_project(&changed, replacement, &audit).await? {
                ProjectUpdated::Done => {
                    self.see_own_change().await;
                    return Ok(UpdatedProject { project: changed, credential });
                }
                ProjectUpdated::NameTaken => return Err(ManagementError::ProjectNameTaken),
                ProjectUpdated::Stale => {}
            }
        }
        Err(ManagementError::Contended)
    }
}
