//! Workspaces.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    page::Page,
    tenancy::{CredentialOwner, Name, Workspace},
};
use serde::Serialize;

use crate::http::{
    App,
    body::read_json,
    caller::{Caller, scope::Management},
    etag::{IfMatch, json_with_etag},
    json::{Object, as_parsed},
    json_response,
    path::PathParameters,
    problem::Problem,
    query::{PageBody, Query},
    time,
};

#[derive(Serialize)]
struct WorkspaceBody {
    workspace_id: String,
    name: String,
    data_residency: &'static str,
    created_at: String,
    updated_at: String,
}

impl From<&Workspace> for WorkspaceBody {
    fn from(workspace: &Workspace) -> Self {
        WorkspaceBody {
            workspace_id: workspace.id.to_string(),
            name: workspace.name.to_string(),
            data_residency: workspace.data_residency.as_str(),
            created_at: time::format(workspace.created_at),
            updated_at: time::format(workspace.updated_at),
        }
    }
}

/// `GET /v1/management/workspaces`: always one item, as a credential belongs to one workspace.
pub async fn list(
    State(app): State<App>,
    caller: Caller<Management>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let request = Query::parse(query.as_deref(), &["size", "page"])?.page_request()?;
    let manager = caller.manager();
    let workspace = app.engine.workspace(&manager, manager.workspace).await?;
    let items = if request.offset() == 0 { vec![workspace] } else { vec![] };
    let page = Page { items, request, total_items: 1 };
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |workspace| WorkspaceBody::from(&workspace))))
}

/// `GET /v1/management/workspaces/{workspace_id}`
pub async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathParameters) -> Result<Response, Problem> {
    let workspace = app.engine.workspace(&caller.manager(), ids.workspace()?).await?;
    Ok(json_with_etag(&WorkspaceBody::from(&workspace)))
}

/// `PATCH /v1/management/workspaces/{workspace_id}`
pub async fn patch(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let id = ids.workspace()?;
    let manager = caller.manager();
    app.engine.authorize(&manager, CredentialOwner::Workspace(id)).await?;
    let if_match = IfMatch::from_headers(request.headers());
    let mut body = Object::parse(&read_json(&app, request).await?)?;
    let name: Option<Name> = body.replace("name", as_parsed)?;
    body.finish()?;
    let name = match name {
        Some(name) => name,
        None => app.engine.workspace(&manager, id).await?.name,
    };
    let condition = |current: &Workspace| if_match.matches(&WorkspaceBody::from(current));
    let workspace = app.engine.rename_workspace(&manager, id, name, &condition).await?;
    Ok(json_with_etag(&WorkspaceBody::from(&workspace)))
}
