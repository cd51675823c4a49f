//! Demo workspace of `ringtrue dev` with a sandbox project. Reused from an earlier run, or created.

use ringtrue_domain::{
    audit::Actor,
    product::Product,
    tenancy::{
        ClientId, ConfigurationPatch, Credential, CredentialOwner, Mode, Name, Project, ProjectId, Workspace,
        WorkspaceId,
    },
};
use ringtrue_engine::{
    Engine,
    actor::ManagementActor,
    tenants::{IssuedCredential, NewProject},
    tokens::is_correct_secret,
};
use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use crate::cli::{context::read_all_pages, error::CliError, workspace::all_workspaces};

const WORKSPACE_NAME: &str = "Demo";
const PROJECT_NAME: &str = "First project";

/// Content of `dev.json`. Does not implement `Debug`, because it holds secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct DemoWorkspace {
    pub base_url: String,
    pub workspace: WorkspaceCredential,
    pub project: ProjectCredential,
    /// Single-use sign-in link to the console. Printed, but never written to the file.
    #[serde(skip)]
    pub console_url: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WorkspaceCredential {
    pub workspace_id: String,
    #[serde(flatten)]
    pub credential: ClientCredential,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ProjectCredential {
    pub project_id: String,
    #[serde(flatten)]
    pub credential: ClientCredential,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ClientCredential {
    pub client_id: String,
    pub client_secret: String,
}

impl DemoWorkspace {
    /// Reuses the credentials of an earlier run if they still work, and creates what is missing.
    pub(super) async fn set_up(
        engine: &Engine,
        base_url: &str,
        previous: Option<DemoWorkspace>,
    ) -> Result<Self, CliError> {
        let (workspace, project) = previous.map(|demo| (demo.workspace, demo.project)).unzip();
        let (id, workspace) = set_up_workspace(engine, workspace).await?;
        let client_id = workspace.credential.client_id.parse::<ClientId>().map_err(anyhow::Error::new)?;
        let manager = ManagementActor { workspace: id, actor: Actor::Credential(client_id), request_id: None };
        let project = set_up_project(engine, &manager, project).await?;
        let link = super::create_sign_in_link(engine).await?;
        let console_url = format!("{base_url}{}", link.path);
        Ok(DemoWorkspace { base_url: base_url.to_owned(), workspace, project, console_url })
    }
}

async fn set_up_workspace(
    engine: &Engine,
    previous: Option<WorkspaceCredential>,
) -> Result<(WorkspaceId, WorkspaceCredential), CliError> {
    if let Some(previous) = previous
        && let Ok(id) = previous.workspace_id.parse()
        && is_valid_credential(engine, &previous.credential, CredentialOwner::Workspace(id))
    {
        return Ok((id, previous));
    }
    let (id, issued) = if let Some(workspace) = find_demo_workspace(engine).await? {
        let owner = CredentialOwner::Workspace(workspace.id);
        (workspace.id, engine.management.create_credential_as_operator(owner, None).await?)
    } else {
        let created = engine.management.create_workspace(parse_name(WORKSPACE_NAME)?).await?;
        (created.workspace.id, created.credential)
    };
    Ok((id, WorkspaceCredential { workspace_id: id.to_string(), credential: ClientCredential::new(&issued) }))
}

async fn set_up_project(
    engine: &Engine,
    manager: &ManagementActor,
    previous: Option<ProjectCredential>,
) -> Result<ProjectCredential, CliError> {
    let workspace = manager.workspace;
    let projects = read_all_pages(async |page| engine.store().list_projects(workspace, page, None).await).await?;
    if let Some(previous) = previous
        && let Ok(id) = previous.project_id.parse::<ProjectId>()
        && projects.iter().any(|project| project.id == id && !project.disabled)
        && is_valid_credential(engine, &previous.credential, CredentialOwner::Project(workspace, id))
    {
        return Ok(previous);
    }
    let (id, issued) = match find_demo_project(&projects) {
        Some(id) => {
            (id, engine.management.create_credential_as_operator(CredentialOwner::Project(workspace, id), None).await?)
        }
        None => create_project(engine, manager, &projects).await?,
    };
    Ok(ProjectCredential { project_id: id.to_string(), credential: ClientCredential::new(&issued) })
}

/// Returns whether the credential exists, is active, belongs to `owner` and has this secret.
fn is_valid_credential(engine: &Engine, saved: &ClientCredential, owner: CredentialOwner) -> bool {
    let is_valid = |credential: &Credential| {
        credential.is_active(engine.clock().now())
            && credential.owner == owner
            && is_correct_secret(credential, &saved.client_secret)
    };
    engine.control_plane().credential(&saved.client_id).is_some_and(|credential| is_valid(&credential))
}

/// Finds the oldest workspace with the demo name.
async fn find_demo_workspace(engine: &Engine) -> Result<Option<Workspace>, CliError> {
    let mut workspaces = all_workspaces(engine.store()).await?;
    workspaces.retain(|workspace| workspace.name.as_str() == WORKSPACE_NAME);
    Ok(workspaces.pop())
}

/// Finds the oldest enabled sandbox project with the demo name, else the oldest enabled sandbox project.
fn find_demo_project(projects: &[Project]) -> Option<ProjectId> {
    let usable = || projects.iter().rev().filter(|project| project.mode == Mode::Sandbox && !project.disabled);
    let named = usable().find(|project| project.name.as_str() == PROJECT_NAME);
    named.or_else(|| usable().next()).map(|project| project.id)
}

async fn create_project(
    engine: &Engine,
    manager: &ManagementActor,
    existing: &[Project],
) -> Result<(ProjectId, IssuedCredential), CliError> {
    // The demo name may be taken by a disabled project, so a number is appended if needed.
    let is_free = |name: &String| existing.iter().all(|project| project.name.as_str() != name.as_str());
    let numbered = (2..).map(|number| format!("{PROJECT_NAME} {number}"));
    let free = std::iter::once(PROJECT_NAME.to_owned()).chain(numbered).find(is_free).unwrap_or_default();
    let new = NewProject {
        name: parse_name(&free)?,
        mode: Mode::Sandbox,
        configuration: ConfigurationPatch::default(),
        products: Product::VARIANTS.to_vec(),
    };
    let created = engine.management.create_project(manager, manager.workspace, new, None).await?;
    Ok((created.project.id, created.credential))
}

fn parse_name(text: &str) -> Result<Name, CliError> {
    Ok(text.parse::<Name>().map_err(anyhow::Error::new)?)
}

impl ClientCredential {
    fn new(issued: &IssuedCredential) -> Self {
        ClientCredential {
            client_id: issued.credential.client_id.to_string(),
            client_secret: issued.secret.reveal().to_owned(),
        }
    }
}
