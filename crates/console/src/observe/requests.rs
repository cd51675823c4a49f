//! Pages with the request log of a project.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use jiff::SignedDuration;
use ringtrue_domain::{
    page::PageRequest,
    product::Product,
    tenancy::{ClientId, Credential, CredentialOwner},
};
use ringtrue_engine::ports::request_log::{RequestLogEntry, RequestLogFilter, StatusClass};
use ringtrue_web::{
    app::App,
    error_catalog::ProblemCode,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    dependencies::ConsoleDependencies,
    page::{
        self, Layout, MenuSection, Pagination, SelectOption, ShortId,
        error::{ConsoleError, to_sentence},
    },
    session::console_session::ProjectAccess,
};

/// Maximum number of requests on the page of one request id.
const MAX_REQUESTS_PER_ID: u32 = 20;
/// Maximum length of a filter value. Longer values are ignored.
const MAX_FILTER_BYTES: usize = 128;

/// Status classes to filter by: query value, title and class.
const STATUS_CLASSES: [(&str, &str, StatusClass); 3] = [
    ("2xx", "2xx success", StatusClass::Success),
    ("4xx", "4xx client error", StatusClass::ClientError),
    ("5xx", "5xx server error", StatusClass::ServerError),
];

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/requests", list)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/requests/{request_id}", detail)
}

#[derive(Debug, Template)]
#[template(path = "observe/requests.html")]
struct RequestsPage {
    layout: Layout,
    status_classes: Vec<SelectOption>,
    error_codes: Vec<SelectOption>,
    routes: Vec<SelectOption>,
    clients: Vec<SelectOption>,
    request_id: String,
    is_filtered: bool,
    /// How long requests are kept. `None`: requests are not logged.
    retention: Option<String>,
    requests: Vec<RequestRow>,
    pagination: Pagination,
}

#[derive(Debug)]
pub struct RequestRow {
    pub entry: RequestLogEntry,
    pub path: String,
    pub css_class: &'static str,
    /// Detail of the error. Empty if the request succeeded.
    detail: String,
    duration: String,
    /// Link to the check that the request created or named.
    pub check: Option<ShortId>,
}

#[derive(Debug, Template)]
#[template(path = "observe/request.html")]
struct RequestPage {
    layout: Layout,
    back: String,
    request_id: String,
    requests: Vec<RequestRow>,
    /// Whether more requests have this id than the page shows.
    is_truncated: bool,
    retention: Option<String>,
}

/// `GET …/projects/{project_id}/requests`
async fn list(
    State(app): State<App>,
    Extension(dependencies): Extension<Arc<ConsoleDependencies>>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let known = ["status", "error_code", "request_id", "route", "client_id", "page"];
    let query = Query::parse(query.as_deref(), &known)?;
    let filter_value =
        |name| query.get(name).map(str::trim).filter(|text| !text.is_empty() && text.len() <= MAX_FILTER_BYTES);
    let class = filter_value("status").and_then(|given| STATUS_CLASSES.into_iter().find(|(word, ..)| *word == given));
    let code = filter_value("error_code").and_then(|given| error_codes().find(|(code, _)| *code == given));
    let filter = RequestLogFilter {
        class: class.map(|(.., class)| class),
        error_code: code.map(|(code, _)| code.to_owned()),
        request_id: filter_value("request_id").map(str::to_owned),
        route: filter_value("route")
            .and_then(|given| dependencies.logged_routes.iter().copied().find(|route| *route == given))
            .map(str::to_owned),
        client: filter_value("client_id").and_then(|id| id.parse().ok()),
    };
    let request = query.page_with_default_size(page::PAGE_SIZE)?;
    let found = app.engine.request_log.list_requests(access.project.id, &filter, request).await?;
    let owner = CredentialOwner::Project(access.workspace.id, access.project.id);
    let most = PageRequest::new(PageRequest::MAX_SIZE, 1).unwrap_or_default();
    let credentials = app.engine.management.list_credentials(&access.actor, owner, most).await?;
    let layout = access.layout("Requests", MenuSection::Requests);
    let here = format!("{}/requests", layout.project_path());
    let filter_query = [
        ("status", class.map(|(word, ..)| word)),
        ("error_code", filter.error_code.as_deref()),
        ("request_id", filter.request_id.as_deref()),
        ("route", filter.route.as_deref()),
        ("client_id", filter.client.as_ref().map(ClientId::as_str)),
    ];
    Ok(page::render_ok(&RequestsPage {
        pagination: Pagination::new(&found, &here, &filter_query),
        requests: found.items.into_iter().map(|entry| request_row(layout.project_path(), entry)).collect(),
        status_classes: page::select_options(
            STATUS_CLASSES.into_iter().map(|(word, title, _)| (word, title)),
            class.map(|(word, ..)| word),
        ),
        error_codes: page::select_options(error_codes(), code.map(|(code, _)| code)),
        routes: page::select_options(
            dependencies.logged_routes.iter().map(|route| (*route, *route)),
            filter.route.as_deref(),
        ),
        clients: client_options(&credentials.items, filter.client.as_ref()),
        is_filtered: filter != RequestLogFilter::default(),
        request_id: filter.request_id.unwrap_or_default(),
        retention: app.engine.request_log.retention().map(format_retention),
        layout,
    }))
}

/// `GET …/projects/{project_id}/requests/{request_id}`: shows all requests with this id. Clients choose ids, so several
/// requests may share one.
async fn detail(State(app): State<App>, access: ProjectAccess, ids: PathParameters) -> Result<Response, ConsoleError> {
    let request_id = ids.get("request_id").unwrap_or_default().to_owned();
    let filter = RequestLogFilter { request_id: Some(request_id.clone()), ..RequestLogFilter::default() };
    let page = PageRequest::new(MAX_REQUESTS_PER_ID, 1).unwrap_or_default();
    let found = app.engine.request_log.list_requests(access.project.id, &filter, page).await?;
    let layout = access.layout("Request", MenuSection::Requests);
    let back = format!("{}/requests", layout.project_path());
    let is_truncated = found.total_items > u64::from(MAX_REQUESTS_PER_ID);
    let requests: Vec<_> = found.items.into_iter().map(|entry| request_row(layout.project_path(), entry)).collect();
    let status = if requests.is_empty() { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let retention = app.engine.request_log.retention().map(format_retention);
    Ok(page::render(status, &RequestPage { layout, back, request_id, requests, is_truncated, retention }))
}

/// Returns value and title of all error codes, for the filter.
fn error_codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    ProblemCode::ALL.iter().map(|code| (code.entry().code, code.entry().code))
}

/// Returns the options of the client filter: the project's credentials, and the selected one even if it was deleted.
fn client_options(credentials: &[Credential], selected: Option<&ClientId>) -> Vec<SelectOption> {
    let option =
        |id: &ClientId, title: String| SelectOption { value: id.to_string(), title, is_selected: selected == Some(id) };
    let title = |credential: &Credential| match &credential.label {
        Some(label) => format!("{label} ({})", credential.client_id),
        None => credential.client_id.to_string(),
    };
    let mut options: Vec<_> =
        credentials.iter().map(|credential| option(&credential.client_id, title(credential))).collect();
    if let Some(deleted) = selected.filter(|_| !options.iter().any(|option| option.is_selected)) {
        options.push(option(deleted, deleted.to_string()));
    }
    options
}

/// Returns the product to which an API route belongs. `None`: the route has no product.
fn product_of_route(route: &str) -> Option<Product> {
    Product::WITH_CHECKS.iter().copied().find(|product| route.starts_with(&product.api_path()))
}

pub fn request_row(project_path: &str, entry: RequestLogEntry) -> RequestRow {
    let check = entry.check.zip(product_of_route(&entry.route)).map(|(check, product)| {
        ShortId::new(check.to_string()).linked(format!("{project_path}/checks/{product}/{check}"))
    });
    RequestRow {
        check,
        path: request_path(&format!("{project_path}/requests"), &entry.request_id),
        css_class: match entry.status {
            100..=299 => "s2",
            300..=399 => "s3",
            400..=499 => "s4",
            _ => "s5",
        },
        detail: entry.rejection.as_ref().map(|rejection| to_sentence(&rejection.detail)).unwrap_or_default(),
        duration: format_micros(entry.duration_micros),
        entry,
    }
}

/// Returns the path of the page for a request id. An id that consists of dots is in the query, because browsers would
/// normalise it in a path.
fn request_path(here: &str, request_id: &str) -> String {
    let separator = if request_id.bytes().all(|byte| byte == b'.') { "?request_id=" } else { "/" };
    format!("{here}{separator}{request_id}")
}

/// Formats a duration in milliseconds, with decimals below 10 ms.
fn format_micros(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        _ => format!("{} ms", micros / 1_000),
    }
}

/// Formats the retention period in its largest whole unit.
fn format_retention(retention: SignedDuration) -> String {
    let minutes = retention.as_mins();
    let (count, unit) = match minutes {
        _ if minutes % (24 * 60) == 0 && minutes > 24 * 60 => (minutes / (24 * 60), "day"),
        _ if minutes % 60 == 0 => (minutes / 60, "hour"),
        _ => (minutes, "minute"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_in_the_largest_whole_unit() {
        for (micros, expected) in [(0, "0.00 ms"), (1_234, "1.23 ms"), (9_999, "9.99 ms"), (12_345, "12 ms")] {
            assert_eq!(format_micros(micros), expected);
        }
        for (minutes, expected) in
            [(24 * 60, "24 hours"), (1, "1 minute"), (90, "90 minutes"), (60, "1 hour"), (2 * 24 * 60, "2 days")]
        {
            assert_eq!(format_retention(SignedDuration::from_mins(minutes)), expected);
        }
    }
}
