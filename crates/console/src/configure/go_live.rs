//! Page that switches a project from sandbox to live mode: shows a checklist, asks for confirmation, and shows the new
//! credential.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{account::Permission, tenancy::Mode};
use ringtrue_engine::tenants::{LiveRequirement, LiveTopic, ManagementError, ProjectPatch, UpdatedProject};
use ringtrue_web::{app::App, parameters::PathParameters, routes::Routes};

use crate::{
    configure::credentials::redirect_to_live_credential,
    page::{
        self, Layout, MenuSection,
        error::{ConsoleError, to_sentence},
    },
    session::{console_session::ProjectAccess, forms::SessionForm},
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/settings/mode", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/mode", go_live)
}

#[derive(Debug, Template)]
#[template(path = "configure/go_live.html")]
struct GoLivePage {
    layout: Layout,
    name: String,
    requirements: Vec<RequirementView>,
    is_ready: bool,
    error: Option<String>,
}

#[derive(Debug)]
struct RequirementView {
    title: String,
    missing: Option<String>,
    /// Page of the project on which the owner can complete this item. `None`: the owner cannot complete it.
    link: Option<&'static str>,
    action: &'static str,
}

impl From<LiveRequirement> for RequirementView {
    fn from(LiveRequirement { topic, missing }: LiveRequirement) -> Self {
        let (title, link, action) = match topic {
            LiveTopic::Products => ("Products".to_owned(), Some("settings"), "Choose products"),
            LiveTopic::AllowedNetworks(product) => {
                (format!("Networks for {}", product.title()), Some("networks"), "Allow networks")
            }
            // Only the deployment's administrator can configure connectors, so there is no link.
            LiveTopic::Connectors(product) => (format!("Connections for {}", product.title()), None, ""),
            LiveTopic::Urls => ("HTTPS URLs".to_owned(), Some("settings"), "Change the URLs"),
            LiveTopic::Callbacks => ("Callbacks tested".to_owned(), Some("handset"), "Complete a check"),
        };
        RequirementView { title, missing: missing.map(|missing| to_sentence(&missing)), link, action }
    }
}

/// `GET …/projects/{project_id}/settings/mode`
async fn show(State(app): State<App>, access: ProjectAccess) -> Result<Response, ConsoleError> {
    if access.project.mode == Mode::Live {
        return Ok(page::see_other(&format!("{}/settings", access.path())));
    }
    go_live_page(&app, &access, StatusCode::OK, None).await
}

/// `POST …/projects/{project_id}/settings/mode`: takes the project live if the user has typed its name.
async fn go_live(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::ManageAccess).await?;
    let refuse =
        async |error: &str| go_live_page(&app, &access, StatusCode::BAD_REQUEST, Some(to_sentence(error))).await;
    let mode = match fields.get("mode").unwrap_or_default().parse::<Mode>() {
        Ok(mode) => mode,
        Err(error) => return refuse(&error.to_string()).await,
    };
    if fields.get("confirm") != Some(&access.project.name.to_string()) {
        return refuse("type the project's name to confirm").await;
    }
    let skip_live_requirements = fields.contains("force");
    let patch = ProjectPatch { mode: Some(mode), skip_live_requirements, ..ProjectPatch::default() };
    let (workspace, project) = (access.workspace.id, access.project.id);
    match app.engine.management.patch_project(&access.actor, workspace, project, patch, &|_| true).await {
        Ok(UpdatedProject { project, credential: Some(issued) }) => {
            redirect_to_live_credential(&app, ProjectAccess { project: project.into(), ..access }, &issued)
        }
        Ok(_) => Ok(page::see_other(&format!("{}/settings", access.path()))),
        Err(ManagementError::NotReadyForLive(_)) => refuse("something is missing").await,
        Err(error @ (ManagementError::InvalidSetting(_) | ManagementError::InvalidMember { .. })) => {
            refuse(&error.to_string()).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn go_live_page(
    app: &App,
    access: &ProjectAccess,
    status: StatusCode,
    error: Option<String>,
) -> Result<Response, ConsoleError> {
    let requirements = app.engine.management.live_requirements(&access.project).await.map_err(ManagementError::from)?;
    let requirements: Vec<RequirementView> = requirements.into_iter().map(RequirementView::from).collect();
    let page = GoLivePage {
        layout: access.layout("Go live", MenuSection::Settings),
        name: access.project.name.to_string(),
        is_ready: requirements.iter().all(|requirement| requirement.missing.is_none()),
        requirements,
        error,
    };
    Ok(page::render(status, &page))
}
