//! Creates, reads and changes projects and their allowed networks.

use ringtrue_domain::{
    audit::Action,
    network::{AllowedNetwork, NetworkSelector},
    page::{Page, PageRequest},
    product::Product,
    search::Filter,
    tenancy::{
        Configuration, ConfigurationPatch, CredentialOwner, Mode, Name, Project, ProjectId, Revision, WorkspaceId,
    },
    verification::LogoImage,
};

use super::{
    IssuedCredential, MAX_WRITE_ATTEMPTS, Management, ManagementError, Precondition, ProjectPatch,
    credentials::all_scopes,
};
use crate::actor::ManagementActor;
use crate::{
    idempotency::IdempotentRequest,
    ports::tenants::{CreateProjectOutcome, UpdateProjectOutcome},
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

#[derive(Clone, Debug)]
pub struct UpdatedProject {
    pub project: Project,
    /// New credential, issued when the project goes live. It replaces all other credentials of the project. `None`: the
    /// project did not go live.
    pub credential: Option<IssuedCredential>,
}

impl Management {
    /// Creates a project with its first credential.
    pub async fn create_project(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        new: NewProject,
        idempotency: Option<IdempotentRequest<'_, CreatedProject>>,
    ) -> Result<CreatedProject, ManagementError> {
        self.authorize_workspace(manager, workspace).await?;
        let now = self.context.now();
        let id = ProjectId(self.context.new_uuid(now));
        let policy = self.context.settings.url_policy.for_mode(new.mode);
        let project = Project {
            id,
            workspace,
            name: new.name,
            mode: new.mode,
            live_since: None,
            disabled: false,
            configuration: Configuration::default().patched(&new.configuration, &policy, true)?,
            products: new.products,
            allowed_networks: vec![],
            created_at: now,
            updated_at: now,
            revision: Revision::FIRST,
        };
        let owner = CredentialOwner::Project(workspace, id);
        let credential = self.generate_credential(owner, all_scopes(owner), None, &manager.actor);
        let client_id = credential.credential.client_id.to_string();
        let audit = [
            manager.new_audit_event(&self.context, Action::ProjectCreated, id.to_string(), vec![]),
            manager.new_audit_event(&self.context, Action::CredentialCreated, client_id, vec![]),
        ];
        let created = CreatedProject { project, credential };
        let completion = self.idempotency.seal_response(idempotency.as_ref(), &created)?;
        let max = self.context.settings.tenant_limits.projects_per_workspace;
        let written = self
            .store
            .create_project(&created.project, &created.credential.credential, &audit, completion.as_ref(), max)
            .await?;
        match written {
            CreateProjectOutcome::Created => {
                self.context.refresh_after_write().await;
                Ok(created)
            }
            CreateProjectOutcome::NameTaken => Err(ManagementError::ProjectNameTaken),
            CreateProjectOutcome::LimitReached => {
                Err(ManagementError::LimitReached(format!("the workspace has reached its limit of {max} projects")))
            }
        }
    }

    pub async fn project(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        id: ProjectId,
    ) -> Result<Project, ManagementError> {
        self.authorize_workspace(manager, workspace).await?;
        let found = self.store.find_project(workspace, id).await?;
        found.found_or(ManagementError::OtherOwner("project"), ManagementError::ProjectNotFound)
    }

    pub async fn list_projects(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        page: PageRequest,
        filter: Option<&Filter>,
    ) -> Result<Page<Project>, ManagementError> {
        self.authorize_workspace(manager, workspace).await?;
        Ok(self.store.list_projects(workspace, page, filter).await?)
    }

    pub async fn patch_project(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        id: ProjectId,
        patch: ProjectPatch,
        condition: Precondition<'_, Project>,
    ) -> Result<UpdatedProject, ManagementError> {
        if patch.mode == Some(Mode::Live) && !patch.skip_live_requirements {
            self.check_live_requirements(manager, workspace, id, &patch).await?;
        }
        self.update_project_with(manager, workspace, id, Action::ProjectUpdated, patch.logo.as_ref(), |project| {
            if !condition(project) {
                return Err(ManagementError::PreconditionFailed);
            }
            if patch.mode.is_some_and(|mode| !project.mode.may_become(mode)) {
                let problem = "a live project cannot return to the sandbox; create another project".to_owned();
                return Err(ManagementError::InvalidMember { member: "/mode", problem });
            }
            let (mut patched, changes) = patch.clone().apply(project, &self.context.settings.url_policy)?;
            if patched.mode != project.mode {
                patched.live_since = Some(self.context.now());
            }
            Ok((patched, changes))
        })
        .await
    }

    /// Fails if the patch makes the project live and the patched project does not meet a requirement for going live.
    async fn check_live_requirements(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        id: ProjectId,
        patch: &ProjectPatch,
    ) -> Result<(), ManagementError> {
        let project = self.project(manager, workspace, id).await?;
        if project.mode == Mode::Live {
            return Ok(());
        }
        let (patched, _) = patch.clone().apply(&project, &self.context.settings.url_policy)?;
        let requirements = self.live_requirements(&patched).await?;
        let missing: Vec<String> = requirements.into_iter().filter_map(|requirement| requirement.missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(ManagementError::NotReadyForLive(missing)) }
    }

    pub async fn replace_allowed_networks(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        id: ProjectId,
        networks: Vec<AllowedNetwork>,
        condition: Precondition<'_, Project>,
    ) -> Result<Project, ManagementError> {
        let changed =
            self.update_project_with(manager, workspace, id, Action::AllowedNetworksReplaced, None, |project| {
                if !condition(project) {
                    return Err(ManagementError::PreconditionFailed);
                }
                let networks = self.canonicalize_network_ids(networks.clone(), &project.allowed_networks)?;
                let changes = if project.allowed_networks == networks { vec![] } else { vec!["networks".to_owned()] };
                Ok((Project { allowed_networks: networks, ..project.clone() }, changes))
            });
        Ok(changed.await?.project)
    }

    /// Replaces alias ids of networks with canonical ids, because authorisation compares canonical ids. Rejects an
    /// unknown id, unless the project already has it: the network may have been removed from the configuration since.
    fn canonicalize_network_ids(
        &self,
        networks: Vec<AllowedNetwork>,
        current: &[AllowedNetwork],
    ) -> Result<Vec<AllowedNetwork>, ManagementError> {
        let directory = self.networks.directory();
        let mut canonical: Vec<AllowedNetwork> = Vec::with_capacity(networks.len());
        for (position, AllowedNetwork { network, products }) in networks.into_iter().enumerate() {
            let selector = match network {
                NetworkSelector::All => NetworkSelector::All,
                NetworkSelector::One(given) => {
                    let known = directory.find_by_any_id(&given).map(|known| known.id.clone());
                    let selector = NetworkSelector::One(known.clone().unwrap_or_else(|| given.clone()));
                    if canonical.iter().any(|other| other.network == selector) {
                        let network = known.unwrap_or_else(|| given.clone());
                        return Err(ManagementError::DuplicateNetwork { position, given, network });
                    }
                    if known.is_none() && !current.iter().any(|allowed| allowed.network == selector) {
                        return Err(ManagementError::UnknownNetwork { position, given });
                    }
                    selector
                }
            };
            canonical.push(AllowedNetwork { network: selector, products });
        }
        Ok(canonical)
    }

    /// Reads, changes and writes a project. Retries if another request writes the project at the same time. Writes
    /// nothing if nothing has changed. If the mode changes, issues a credential that replaces the project's
    /// credentials.
    async fn update_project_with(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        id: ProjectId,
        action: Action,
        logo: Option<&LogoImage>,
        change: impl Fn(&Project) -> Result<(Project, Vec<String>), ManagementError>,
    ) -> Result<UpdatedProject, ManagementError> {
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let current = self.project(manager, workspace, id).await?;
            let (mut changed, mut members) = change(&current)?;
            if members.is_empty() {
                return Ok(UpdatedProject { project: current, credential: None });
            }
            let owner = CredentialOwner::Project(workspace, id);
            let credential = if changed.mode == current.mode {
                None
            } else {
                Some(self.generate_credential(owner, all_scopes(owner), None, &manager.actor))
            };
            if credential.is_some() {
                members.push("credentials".to_owned());
            }
            let mut audit = vec![manager.new_audit_event(&self.context, action, id.to_string(), members)];
            changed.updated_at = audit[0].at.max(current.updated_at);
            changed.revision = current.revision.next();
            if let Some(IssuedCredential { credential, .. }) = &credential {
                audit.push(manager.new_audit_event(
                    &self.context,
                    Action::CredentialCreated,
                    credential.client_id.to_string(),
                    vec![],
                ));
            }
            let replacement = credential.as_ref().map(|issued| &issued.credential);
            match self.store.update_project(&changed, replacement, logo, &audit).await? {
                UpdateProjectOutcome::Updated => {
                    self.context.refresh_after_write().await;
                    return Ok(UpdatedProject { project: changed, credential });
                }
                UpdateProjectOutcome::NameTaken => return Err(ManagementError::ProjectNameTaken),
                UpdateProjectOutcome::Stale => {}
            }
        }
        Err(ManagementError::ConcurrentUpdates)
    }
}
