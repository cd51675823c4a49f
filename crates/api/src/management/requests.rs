//! Lists the request log of a project.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::timestamp;
use ringtrue_engine::ports::request_log::{RequestLogEntry, RequestLogFilter, StatusClass};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    problem::Problem,
    response::{PageBody, json_response},
    routes::Routes,
};
use serde::Serialize;

use crate::caller::{Caller, scope::Management};

const MAX_FILTER_BYTES: usize = 128;

pub fn routes() -> Routes {
    Routes::default().get("/v1/management/workspaces/{workspace_id}/projects/{project_id}/requests", list)
}

#[derive(Serialize)]
struct LoggedRequestBody {
    entry_id: String,
    at: String,
    request_id: String,
    method: String,
    route: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    client_id: String,
    authenticated: bool,
    duration_micros: u64,
    skipped: u32,
}

impl From<RequestLogEntry> for LoggedRequestBody {
    fn from(entry: RequestLogEntry) -> Self {
        let (error_code, detail) = entry.rejection.map(|rejection| (rejection.error_code, rejection.detail)).unzip();
        LoggedRequestBody {
            entry_id: entry.id.to_string(),
            at: timestamp::format(entry.at),
            request_id: entry.request_id,
            method: entry.method,
            route: entry.route,
            query: entry.query,
            body: entry.body,
            status: entry.status,
            error_code,
            detail,
            client_id: entry.client.to_string(),
            authenticated: entry.authenticated,
            duration_micros: entry.duration_micros,
            skipped: entry.skipped,
        }
    }
}

/// Parses a text filter. Rejects values that no log entry can have, such as NUL, which PostgreSQL does not accept in
/// text.
fn parse_filter(query: &Query, name: &str) -> Result<Option<String>, Problem> {
    let Some(text) = query.get(name) else { return Ok(None) };
    let is_valid = (1..=MAX_FILTER_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid {
        return Ok(Some(text.to_owned()));
    }
    Err(Problem::bad_request(format!("`{name}` must have 1 to {MAX_FILTER_BYTES} visible ASCII characters")))
}

/// `GET /v1/management/workspaces/{workspace_id}/projects/{project_id}/requests`
async fn list(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "status", "error_code", "request_id"])?;
    let class = match query.get("status") {
        None => None,
        Some("2xx") => Some(StatusClass::Success),
        Some("4xx") => Some(StatusClass::ClientError),
        Some("5xx") => Some(StatusClass::ServerError),
        Some(_) => return Err(Problem::bad_request("`status` must be `2xx`, `4xx` or `5xx`")),
    };
    let filter = RequestLogFilter {
        class,
        error_code: parse_filter(&query, "error_code")?,
        request_id: parse_filter(&query, "request_id")?,
        ..RequestLogFilter::default()
    };
    let page = query.page_request()?;
    let project =
        app.engine.management.project(&caller.management_actor(), ids.workspace_id()?, ids.project_id()?).await?;
    let page = app.engine.request_log.list_requests(project.id, &filter, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, LoggedRequestBody::from)))
}
