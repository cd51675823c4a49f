//! Uploads and removes the logo of a project.

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use ringtrue_domain::{
    tenancy::{ConfigurationPatch, CredentialOwner, Project},
    verification::{ImageFormat, LogoImage},
};
use ringtrue_engine::tenants::ProjectPatch;
use ringtrue_web::{
    app::App,
    body::{NoBody, read_body_of_type},
    parameters::PathParameters,
    problem::Problem,
    response::{IfMatch, json_with_etag},
    routes::{Routes, delete, put},
};

use crate::{
    caller::{Caller, scope::Management},
    management::projects::ProjectBody,
};

const MEDIA_TYPES: [&str; 3] =
    [ImageFormat::Png.media_type(), ImageFormat::Jpeg.media_type(), ImageFormat::WebP.media_type()];

pub fn routes() -> Routes {
    const LOGO: &str = "/v1/management/workspaces/{workspace_id}/projects/{project_id}/logo";
    Routes::default()
        .route(LOGO, put(upload).completes_after_disconnect())
        .route(LOGO, delete(remove).completes_after_disconnect())
}

/// `PUT /v1/management/workspaces/{workspace_id}/projects/{project_id}/logo`
async fn upload(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let owner = CredentialOwner::Project(ids.workspace_id()?, ids.project_id()?);
    app.engine.management.authorize(&caller.management_actor(), owner).await?;
    let if_match = IfMatch::from_headers(request.headers());
    let content = read_body_of_type(&app, request, &MEDIA_TYPES, LogoImage::MAX_BYTES).await?;
    let image = LogoImage::parse(content.into()).map_err(|error| Problem::bad_request(error.to_string()))?;
    let patch = ProjectPatch { logo: Some(image), ..ProjectPatch::default() };
    let project = change_project(&app, &caller, &ids, &if_match, patch).await?;
    Ok(json_with_etag(&ProjectBody::new(&app, &project)))
}

/// `DELETE /v1/management/workspaces/{workspace_id}/projects/{project_id}/logo`
async fn remove(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    headers: HeaderMap,
    _: NoBody,
) -> Result<StatusCode, Problem> {
    let if_match = IfMatch::from_headers(&headers);
    let patch = ProjectPatch { configuration: ConfigurationPatch::for_logo_removal(), ..ProjectPatch::default() };
    change_project(&app, &caller, &ids, &if_match, patch).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn change_project(
    app: &App,
    caller: &Caller<Management>,
    ids: &PathParameters,
    if_match: &IfMatch,
    patch: ProjectPatch,
) -> Result<Project, Problem> {
    let condition = |current: &Project| if_match.matches(&ProjectBody::new(app, current));
    let (workspace, id) = (ids.workspace_id()?, ids.project_id()?);
    Ok(app.engine.management.patch_project(&caller.management_actor(), workspace, id, patch, &condition).await?.project)
}
