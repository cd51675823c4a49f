//! Page that creates a project.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    product::Product,
    tenancy::{ConfigurationPatch, Mode, Name},
};
use ringtrue_engine::tenants::{CreatedProject, ManagementError, NewProject};
use ringtrue_web::{app::App, parameters::PathParameters, routes::Routes};
use strum::VariantArray as _;

use crate::{
    configure::credentials::redirect_to_new_credential,
    page::{self, Layout, MenuSection, error::ConsoleError},
    session::{
        console_session::{ConsoleSession, ProjectAccess, WorkspaceAccess},
        forms::{SessionForm, form_error},
    },
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/new-project", new_form)
        .post("/console/workspaces/{workspace_id}/new-project", create)
}

#[derive(Debug, Template)]
#[template(path = "workspace/new_project.html")]
struct NewProjectPage {
    layout: Layout,
    name: String,
    error: Option<String>,
}

/// `GET …/new-project`
async fn new_form(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_workspace(&app, &ids, Permission::Develop).await?;
    Ok(new_project_page(&access, StatusCode::OK, String::new(), None))
}

/// `POST …/new-project`
async fn create(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_workspace(&app, &ids, Permission::Develop).await?;
    let input = fields.get("name").unwrap_or_default().to_owned();
    let name = match input.parse::<Name>() {
        Ok(name) => name,
        Err(error) => {
            let (status, error) = form_error(error);
            return Ok(new_project_page(&access, status, input, error));
        }
    };
    let new = NewProject {
        name,
        mode: Mode::Sandbox,
        configuration: ConfigurationPatch::default(),
        products: Product::VARIANTS.to_vec(),
    };
    match app.engine.management.create_project(&access.actor, access.workspace.id, new, None).await {
        Ok(CreatedProject { project, credential }) => {
            let WorkspaceAccess { session, actor, workspace, projects, .. } = access;
            let access = ProjectAccess { session, actor, workspace, project: project.into(), projects };
            redirect_to_new_credential(&app, access, &credential)
        }
        Err(error @ (ManagementError::ProjectNameTaken | ManagementError::LimitReached(_))) => {
            let (status, error) = form_error(error);
            Ok(new_project_page(&access, status, input, error))
        }
        Err(error) => Err(error.into()),
    }
}

fn new_project_page(access: &WorkspaceAccess, status: StatusCode, name: String, error: Option<String>) -> Response {
    let layout = access.layout("New project", MenuSection::Projects);
    page::render(status, &NewProjectPage { layout, name, error })
}
