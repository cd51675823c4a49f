//! Searches a project across products: by check id, request id, reference or phone number.
//!
//! Browsers and proxies keep URLs, so a phone number must not appear in one. The form is therefore sent by `POST`. If
//! the text is not a number, the response redirects to a result page that can be reloaded and shared. A number is
//! searched by its keyed hash, and the response to the form shows the result. Only developers can search by number:
//! viewers see only the last digits of numbers and must not find whole ones by guessing. These searches are limited by
//! account and recorded in the audit log.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{StatusCode, header};
use ringtrue_domain::{
    account::Permission,
    lifecycle::{AnyCheck, CheckId},
    page::PageRequest,
    phone::Msisdn,
    product::Product,
    search,
    tenancy::Project,
};
use ringtrue_engine::{actor::ManagementActor, ports::request_log::RequestLogFilter, tenants::NumberSearchError};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    observe::{
        checks::{CheckRow, search_fields},
        requests::{RequestRow, request_row},
    },
    page::{self, Layout, MenuSection, error::ConsoleError},
    session::{console_session::ProjectAccess, forms::SessionForm},
};

/// Maximum length of the search text. Longer text matches nothing.
const MAX_QUERY_BYTES: usize = 512;
/// Maximum number of checks of each product, and of requests, that the page shows.
const MAX_RESULTS: u32 = 20;
/// Maximum number of checks that the page shows for a phone number.
const MAX_CHECKS_OF_NUMBER: u32 = 50;
/// Minimum number of digits of a phone number without `+`. Shorter sequences are more likely references.
const MIN_BARE_DIGITS: usize = 10;
/// Maximum number of digits of a phone number.
const MAX_DIGITS: usize = 15;

const NOT_PERMITTED: &str = "Only developers and owners can search by phone number.";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/search", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/search", submit)
}

#[derive(Debug, Template)]
#[template(path = "observe/search.html")]
struct SearchPage {
    layout: Layout,
    /// Search text. Empty after a search by phone number, so that the page does not show the number.
    text: String,
    /// What was searched for. `None`: nothing yet, or the search was rejected.
    subject: Option<Subject>,
    checks: Vec<CheckRow>,
    requests: Vec<RequestRow>,
    error: Option<&'static str>,
}

#[derive(Debug)]
enum Subject {
    Text(String),
    /// A phone number, given by its last digits.
    Number(String),
}

/// Results of a search in the whole project.
#[derive(Default)]
struct Found {
    checks: Vec<AnyCheck>,
    requests: Vec<RequestRow>,
}

/// `GET …/projects/{project_id}/search?q=`
async fn show(
    State(app): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let query = Query::parse(query.as_deref(), &["q"])?;
    let text = query.get("q").unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(render(&app, StatusCode::OK, &access, None, Found::default(), None));
    }
    if number_digits(text).is_some() {
        let error = "Phone numbers do not belong into URLs. Enter the number in the form.";
        return Ok(render(&app, StatusCode::BAD_REQUEST, &access, None, Found::default(), Some(error)));
    }
    let found = search_text(&app, &access, text).await?;
    let is_id = text.parse::<CheckId>().is_ok();
    if let ([check], [], true) = (&found.checks[..], &found.requests[..], is_id) {
        return Ok(page::see_other(&format!("{}/checks/{}/{}", access.path(), check.product, check.id)));
    }
    Ok(render(&app, StatusCode::OK, &access, Some(Subject::Text(text.to_owned())), found, None))
}

/// `POST …/projects/{project_id}/search`
async fn submit(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::View).await?;
    let text = fields.get("q").unwrap_or_default();
    let Some(digits) = number_digits(text) else {
        return Ok(page::see_other(&page::path_with_query(&format!("{}/search", access.path()), &[("q", Some(text))])));
    };
    let number = Msisdn::parse(&format!("+{digits}"), access.project.mode).ok();
    let (user, request_id) = (&access.session.user, Some(access.session.request_id.clone()));
    let developer = user.authorize(access.workspace.id, Permission::Develop, request_id).ok();
    let is_signed = text.starts_with('+');
    let mut found = Found::default();
    match (&number, &developer) {
        (_, None) if is_signed => {
            return Ok(render(&app, StatusCode::FORBIDDEN, &access, None, found, Some(NOT_PERMITTED)));
        }
        (None, Some(_)) if is_signed => {
            let error = "This is not a valid phone number. Enter it with its country code, such as +44 7700 900123.";
            return Ok(render(&app, StatusCode::BAD_REQUEST, &access, None, found, Some(error)));
        }
        (Some(number), Some(developer)) => match search_number(&app, developer, &access.project, number).await? {
            Some(checks) => found.checks = checks,
            None => return Ok(too_many_searches(&app, &access)),
        },
        (None, _) | (_, None) => {}
    }
    let error = (number.is_some() && developer.is_none()).then_some(NOT_PERMITTED);
    if !is_signed {
        // A reference may look like a number without `+`, so the text is also searched for as it is.
        let by_text = search_text(&app, &access, text).await?;
        found.checks.extend(by_text.checks);
        found.requests = by_text.requests;
    }
    let tail: String = digits.chars().skip(digits.len() - 2).collect();
    Ok(render(&app, StatusCode::OK, &access, Some(Subject::Number(tail)), found, error))
}

/// Searches by phone number. `None`: the account has made too many searches.
async fn search_number(
    app: &App,
    developer: &ManagementActor,
    project: &Project,
    number: &Msisdn,
) -> Result<Option<Vec<AnyCheck>>, ConsoleError> {
    match app.engine.management.permit_number_search(developer, project, number).await {
        Ok(search) => Ok(Some(app.engine.checks.find_checks_by_number(&search, MAX_CHECKS_OF_NUMBER).await?)),
        Err(NumberSearchError::TooMany) => Ok(None),
        Err(NumberSearchError::Store(error)) => Err(error.into()),
    }
}

fn too_many_searches(app: &App, access: &ProjectAccess) -> Response {
    let error = "You have searched for too many numbers. Wait a minute and try again.";
    let mut response = render(app, StatusCode::TOO_MANY_REQUESTS, access, None, Found::default(), Some(error));
    response.headers_mut().insert(header::RETRY_AFTER, NumberSearchError::RETRY_AFTER_SECONDS.into());
    response
}

/// Returns the digits if the text may be a phone number.
fn number_digits(text: &str) -> Option<String> {
    let is_separator = |symbol: char| matches!(symbol, ' ' | '-' | '.' | '/' | '(' | ')' | '\u{a0}');
    let (is_signed, rest) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
    let digits: String = rest.chars().filter(|symbol| !is_separator(*symbol)).collect();
    let min = if is_signed { 3 } else { MIN_BARE_DIGITS };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && (min..=MAX_DIGITS).contains(&digits.len());
    is_number.then_some(digits)
}

/// Searches by check id, request id and reference.
async fn search_text(app: &App, access: &ProjectAccess, text: &str) -> Result<Found, ConsoleError> {
    let mut found = Found::default();
    if text.len() > MAX_QUERY_BYTES || text.contains('\0') {
        return Ok(found);
    }
    let project = access.project.id;
    if let Ok(id) = text.parse() {
        found.checks.extend(app.engine.checks.find_check_by_id(project, id).await?);
    }
    let first = PageRequest::new(MAX_RESULTS, 1).unwrap_or_default();
    let expression = format!("reference_id=={}", quote(text));
    for &product in Product::WITH_CHECKS {
        let Ok(filter) = search::parse(&expression, search_fields(product)) else { continue };
        let page = app.engine.checks.list_any_checks(project, product, Some(filter), first).await?;
        found.checks.extend(page.items);
    }
    let filter = RequestLogFilter { request_id: Some(text.to_owned()), ..RequestLogFilter::default() };
    let requests = app.engine.request_log.list_requests(project, &filter, first).await?;
    found.requests = requests.items.into_iter().map(|entry| request_row(&access.path(), entry)).collect();
    Ok(found)
}

/// Quotes text as one value of a search expression, and escapes wildcards.
fn quote(text: &str) -> String {
    let escaped = text.chars().flat_map(|symbol| {
        let escape = matches!(symbol, '"' | '\\' | '*').then_some('\\');
        escape.into_iter().chain([symbol])
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn render(
    app: &App,
    status: StatusCode,
    access: &ProjectAccess,
    subject: Option<Subject>,
    found: Found,
    error: Option<&'static str>,
) -> Response {
    let layout = access.layout("Search", MenuSection::Search);
    let page = SearchPage {
        text: match &subject {
            Some(Subject::Text(text)) => text.clone(),
            Some(Subject::Number(_)) | None => String::new(),
        },
        subject,
        checks: found.checks.iter().map(|check| CheckRow::new(app, layout.project_path(), check)).collect(),
        requests: found.requests,
        error,
        layout,
    };
    page::render(status, &page)
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::reverse_sms::SEARCH_FIELDS;

    use super::*;

    #[test]
    fn numbers_are_recognised() {
        for (text, digits) in [
            ("+447700900123", Some("447700900123")),
            ("+44 (7700) 900-123", Some("447700900123")),
            ("447700900123", Some("447700900123")),
            ("1234567890", Some("1234567890")),
            ("123456789", None),
            ("+", None),
            ("+12a", None),
            ("1234567890123456", None),
            ("order-1234567890", None),
            ("01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b", None),
        ] {
            assert_eq!(number_digits(text).as_deref(), digits, "{text}");
        }
    }

    #[test]
    fn any_text_is_one_value() {
        for text in ["order 7", "a;b==c", "say \"hi\"", "\\", "50%*", "(x)", "'", ""] {
            assert!(search::parse(&format!("reference_id=={}", quote(text)), &SEARCH_FIELDS).is_ok(), "{text}");
        }
    }
}
