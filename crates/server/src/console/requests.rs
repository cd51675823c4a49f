//! Request log of a project.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use jiff::SignedDuration;
use ringtrue_domain::{account::Permission, page::PageRequest};
use ringtrue_engine::ports::{RequestLogEntry, RequestLogFilter, StatusClass};

use super::{
    error::{ConsoleError, to_sentence},
    home::Pagination,
    page::{self, Layout, Section, UtcTime},
    session::{ConsoleSession, ProjectAccess},
};
use crate::http::{App, error_catalog::ProblemCode, path::PathParameters, query::Query};

/// Requests shown on the page of one request id.
const MAX_REQUESTS_PER_ID: u32 = 20;
/// Longer filter values match nothing and are ignored.
const MAX_FILTER_BYTES: usize = 128;

#[derive(Debug, Template)]
#[template(path = "console/requests.html")]
struct RequestsPage {
    layout: Layout,
    status_classes: Vec<SelectOption>,
    error_codes: Vec<SelectOption>,
    request_id: String,
    is_filtered: bool,
    /// `None`: requests are not logged.
    retention: Option<String>,
    requests: Vec<RequestRow>,
    pagination: Pagination,
}

#[derive(Debug)]
struct SelectOption {
    value: &'static str,
    title: &'static str,
    is_selected: bool,
}

#[derive(Debug)]
struct RequestRow {
    path: String,
    at: UtcTime,
    request_id: String,
    method: String,
    route: String,
    status: u16,
    css_class: &'static str,
    error_code: Option<String>,
    error_path: String,
    detail: String,
    client_id: String,
    is_authenticated: bool,
    duration: String,
    query: Option<String>,
    body: Option<String>,
    skipped: u32,
}

#[derive(Debug, Template)]
#[template(path = "console/request.html")]
struct RequestPage {
    layout: Layout,
    back: String,
    request_id: String,
    requests: Vec<RequestRow>,
    /// More requests have this id.
    is_truncated: bool,
    retention: Option<String>,
}

/// Query values, titles and classes.
const STATUS_CLASSES: [(&str, &str, StatusClass); 3] = [
    ("2xx", "2xx success", StatusClass::Success),
    ("4xx", "4xx client error", StatusClass::ClientError),
    ("5xx", "5xx server error", StatusClass::ServerError),
];

/// `GET …/projects/{project_id}/requests`
pub async fn list(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let ProjectAccess { workspace, project, .. } = session.authorize_project(&app, &ids, Permission::View).await?;
    let query = Query::parse(query.as_deref(), &["status", "error_code", "request_id", "page"])?;
    let filter_value =
        |name| query.get(name).map(str::trim).filter(|text| !text.is_empty() && text.len() <= MAX_FILTER_BYTES);
    let class = filter_value("status").and_then(|given| STATUS_CLASSES.into_iter().find(|(word, ..)| *word == given));
    let code = filter_value("error_code").and_then(|given| error_codes().find(|(code, _)| *code == given));
    let filter = RequestLogFilter {
        class: class.map(|(.., class)| class),
        error_code: code.map(|(code, _)| code.to_owned()),
        request_id: filter_value("request_id").map(str::to_owned),
    };
    let found = app.engine.list_requests(project.id, &filter, query.page_with_default_size(page::PAGE_SIZE)?).await?;
    let layout = Layout::for_session(&session, "Requests")
        .in_workspace(&session, &workspace, Section::Requests)
        .in_project(&project);
    let here = format!("{}/requests", layout.project_path());
    let link = |number: u32| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let words = [
            ("status", class.map(|(word, ..)| word)),
            ("error_code", filter.error_code.as_deref()),
            ("request_id", filter.request_id.as_deref()),
        ];
        for (name, value) in words {
            query.extend_pairs(value.map(|value| (name, value)));
        }
        format!("{here}?{}", query.append_pair("page", &number.to_string()).finish())
    };
    Ok(page::render_ok(&RequestsPage {
        pagination: Pagination::new(&found, link),
        requests: found.items.iter().map(|request| request_row(&here, request)).collect(),
        status_classes: select_options(
            STATUS_CLASSES.into_iter().map(|(word, title, _)| (word, title)),
            class.map(|(word, ..)| word),
        ),
        error_codes: select_options(error_codes(), code.map(|(code, _)| code)),
        is_filtered: filter != RequestLogFilter::default(),
        request_id: filter.request_id.unwrap_or_default(),
        retention: app.engine.request_log_retention().map(format_retention),
        layout,
    }))
}

/// `GET …/projects/{project_id}/requests/{request_id}`: all requests with one id, which clients can set.
pub async fn detail(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    let ProjectAccess { workspace, project, .. } = session.authorize_project(&app, &ids, Permission::View).await?;
    let request_id = ids.get("request_id").unwrap_or_default().to_owned();
    let filter = RequestLogFilter { request_id: Some(request_id.clone()), ..RequestLogFilter::default() };
    let page = PageRequest::new(MAX_REQUESTS_PER_ID, 1).unwrap_or_default();
    let found = app.engine.list_requests(project.id, &filter, page).await?;
    let layout = Layout::for_session(&session, "Request")
        .in_workspace(&session, &workspace, Section::Requests)
        .in_project(&project);
    let back = format!("{}/requests", layout.project_path());
    let requests: Vec<_> = found.items.iter().map(|request| request_row(&back, request)).collect();
    let status = if requests.is_empty() { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let is_truncated = found.total_items > u64::from(MAX_REQUESTS_PER_ID);
    let retention = app.engine.request_log_retention().map(format_retention);
    Ok(page::render(status, &RequestPage { layout, back, request_id, requests, is_truncated, retention }))
}

/// Values and titles of all error codes.
fn error_codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    ProblemCode::ALL.iter().map(|code| (code.entry().code, code.entry().code))
}

fn select_options(
    all: impl Iterator<Item = (&'static str, &'static str)>,
    selected: Option<&str>,
) -> Vec<SelectOption> {
    all.map(|(value, title)| SelectOption { value, title, is_selected: selected == Some(value) }).collect()
}

fn request_row(here: &str, request: &RequestLogEntry) -> RequestRow {
    let rejection = request.rejection.as_ref();
    let error_code = rejection.map(|rejection| rejection.error_code.clone());
    RequestRow {
        path: request_path(here, &request.request_id),
        at: UtcTime(request.at),
        request_id: request.request_id.clone(),
        method: request.method.clone(),
        route: request.route.clone(),
        status: request.status,
        css_class: match request.status {
            100..=299 => "s2",
            300..=399 => "s3",
            400..=499 => "s4",
            _ => "s5",
        },
        error_path: error_code.as_ref().map(|code| format!("/errors/{code}")).unwrap_or_default(),
        error_code,
        detail: rejection.map(|rejection| to_sentence(&rejection.detail)).unwrap_or_default(),
        client_id: request.client.to_string(),
        is_authenticated: request.authenticated,
        duration: format_micros(request.duration_micros),
        query: request.query.clone(),
        body: request.body.clone(),
        skipped: request.skipped,
    }
}

/// Browsers normalise paths of dots, so such ids are passed in the query.
fn request_path(here: &str, request_id: &str) -> String {
    let separator = if request_id.bytes().all(|byte| byte == b'.') { "?request_id=" } else { "/" };
    format!("{here}{separator}{request_id}")
}

/// Formats as milliseconds, with decimals below 10 ms.
fn format_micros(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        _ => format!("{} ms", micros / 1_000),
    }
}

/// Formats in the largest whole unit.
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
