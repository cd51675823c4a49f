//! The demo workspace with its sandbox project: found again, or made.

use ringtrue_domain::{
    account::Email,
    audit::Actor,
    page::PageRequest,
    product::Product,
    tenancy::{ClientId, Credential, CredentialOwner, Mode, Name, Project, ProjectId, Workspace, WorkspaceId},
};
use ringtrue_engine::{
    Engine,
    management::{ConfigurationPatch, IssuedCredential, Manager, NewProject},
    ports::Store,
};
use serde::{Deserialize, Serialize};

use super::Failure;
use crate::cli::workspace::all_workspaces;

const WORKSPACE: &str = "Demo";
const PROJECT: &str = "First project";
const ADMIN: &str = "dev@localhost";

/// What `dev.json` says. No `Debug`: there are secrets in it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Demo {
    pub base_url: String,
    pub workspace: WorkspaceAccess,
    pub project: ProjectAccess,
    /// Where somebody is let into the console: once, so it is said and not kept.
    #[serde(skip)]
    pub console: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WorkspaceAccess {
    pub workspace_id: String,
    #[serde(flatten)]
    pub credential: Access,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ProjectAccess {
    pub project_id: String,
    #[serde(flatten)]
    pub credential: Access,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Access {
    pub client_id: String,
    pub client_secret: String,
}

impl Demo {
    /// Takes over from an earlier run what still opens something, and makes the rest.
    pub(super) async fn set_up(engine: &Engine, base_url: &str, previous: Option<Demo>) -> Result<Self, Failure> {
        let (workspace, project) = previous.map(|demo| (demo.workspace, demo.project)).unzip();
        let (id, workspace) = set_up_workspace(engine, workspace).await?;
        let client_id = workspace.credential.client_id.parse::<ClientId>().map_err(anyhow::Error::new)?;
        let manager = Manager { workspace: id, actor: Actor::Credential(client_id), request_id: None };
        let project = set_up_project(engine, &manager, project).await?;
        let admin = ADMIN.parse::<Email>().map_err(anyhow::Error::new)?;
        let link = engine.let_admin_in(&admin).await.map_err(anyhow::Error::new)?;
        let console = format!("{base_url}{}", link.path);
        Ok(Demo { base_url: base_url.to_owned(), workspace, project, console })
    }
}

async fn set_up_workspace(
    engine: &Engine,
    previous: Option<WorkspaceAccess>,
) -> Result<(WorkspaceId, WorkspaceAccess), Failure> {
    if let Some(previous) = previous
        && let Ok(id) = previous.workspace_id.parse()
        && opens(engine, &previous.credential, CredentialOwner::Workspace(id))
    {
        return Ok((id, previous));
    }
    let (id, issued) = if let Some(workspace) = demo_workspace(engine).await? {
        let owner = CredentialOwner::Workspace(workspace.id);
        (workspace.id, engine.operator_credential(owner, None).await?)
    } else {
        let created = engine.create_workspace(name(WORKSPACE)?).await?;
        (created.workspace.id, created.credential)
    };
    Ok((id, WorkspaceAccess { workspace_id: id.to_string(), credential: Access::new(&issued) }))
}

async fn set_up_project(
    engine: &Engine,
    manager: &Manager,
    previous: Option<ProjectAccess>,
) -> Result<ProjectAccess, Failure> {
    let workspace = manager.workspace;
    let projects = all_projects(engine.store(), workspace).await?;
    if let Some(previous) = previous
        && let Ok(id) = previous.project_id.parse::<ProjectId>()
        && projects.iter().any(|project| project.id == id && !project.disabled)
        && opens(engine, &previous.credential, CredentialOwner::Project(workspace, id))
    {
        return Ok(previous);
    }
    let (id, issued) = match demo_project(&projects) {
        Some(id) => (id, engine.operator_credential(CredentialOwner::Project(workspace, id), None).await?),
        None => create_project(engine, manager, &projects).await?,
    };
    Ok(ProjectAccess { project_id: id.to_string(), credential: Access::new(&issued) })
}

/// Whether a credential is still what it was: known, alive, the owner's, and with this secret.
fn opens(engine: &Engine, access: &Access, owner: CredentialOwner) -> bool {
    let fits = |credential: &Credential| {
        credential.is_live(engine.clock().now())
            && credential.owner == owner
            && engine.has_secret(credential, &access.client_secret)
    };
    engine.control_plane().credential(&access.client_id).is_some_and(|credential| fits(&credential))
}

/// The oldest workspace with the name of the demo.
async fn demo_workspace(engine: &Engine) -> Result<Option<Workspace>, Failure> {
    let mut workspaces = all_workspaces(engine.store()).await?;
    workspaces.retain(|workspace| workspace.name.as_str() == WORKSPACE);
    Ok(workspaces.pop())
}

/// Every page of them, newest first.
async fn all_projects(store: &dyn Store, workspace: WorkspaceId) -> Result<Vec<Project>, Failure> {
    let mut projects = vec![];
    let mut number = 1;
    while let Some(request) = PageRequest::new(PageRequest::MAX_SIZE, number) {
        let page = store.list_projects(workspace, request, None).await?;
        let is_last = u64::from(number) >= page.total_pages();
        projects.extend(page.items);
        if is_last {
            break;
        }
        number += 1;
    }
    Ok(projects)
}

/// The sandbox project with the name of the demo's, or else the oldest one.
fn demo_project(projects: &[Project]) -> Option<ProjectId> {
    let usable = || projects.iter().rev().filter(|project| project.mode == Mode::Sandbox && !project.disabled);
    let named = usable().find(|project| project.name.as_str() == PROJECT);
    named.or_else(|| usable().next()).map(|project| project.id)
}

async fn create_project(
    engine: &Engine,
    manager: &Manager,
    existing: &[Project],
) -> Result<(ProjectId, IssuedCredential), Failure> {
    // A project that was disabled keeps its name.
    let is_free = |name: &String| existing.iter().all(|project| project.name.as_str() != name.as_str());
    let numbered = (2..).map(|number| format!("{PROJECT} {number}"));
    let free = std::iter::once(PROJECT.to_owned()).chain(numbered).find(is_free).unwrap_or_default();
    let new = NewProject {
        name: name(&free)?,
        mode: Mode::Sandbox,
        configuration: ConfigurationPatch::default(),
        products: Product::ALL.to_vec(),
    };
    let created = engine.create_project(manager, manager.workspace, new, None).await?;
    Ok((created.project.id, created.credential))
}

fn name(text: &str) -> Result<Name, Failure> {
    Ok(text.parse::<Name>().map_err(anyhow::Error::new)?)
}

impl Access {
    fn new(issued: &IssuedCredential) -> Self {
        Access { client_id: issued.credential.client_id.to_string(), client_secret: issued.secret.reveal().to_owned() }
    }
}
