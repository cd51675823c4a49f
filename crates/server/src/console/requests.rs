//! A project's requests: what its callers asked for lately, what they were answered, and why not something better.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use jiff::SignedDuration;
use ringtrue_domain::{account::Power, page::PageRequest};
use ringtrue_engine::ports::{RequestFilter, RequestRecord, StatusClass};

use super::{
    home::Pages,
    page::{self, Frame, Moment, Section},
    refusal::{Refusal, sentence},
    visitor::{InProject, SignedIn},
};
use crate::http::{App, catalogue::Code, path::PathIds, query::Query};

/// How many requests of one id are shown together.
const OF_ONE_ID: u32 = 20;
/// What a filter may be as long as: error codes and request ids are shorter.
const MAX_TYPED: usize = 128;

#[derive(Debug, Template)]
#[template(path = "console/requests.html")]
struct RequestsPage {
    frame: Frame,
    classes: Vec<Choice>,
    codes: Vec<Choice>,
    request_id: String,
    is_filtered: bool,
    /// How long requests are kept; `None`: they are not.
    kept: Option<String>,
    requests: Vec<RequestRow>,
    pages: Pages,
}

/// An entry of a list to choose from.
#[derive(Debug)]
struct Choice {
    value: &'static str,
    title: &'static str,
    is_chosen: bool,
}

#[derive(Debug)]
struct RequestRow {
    path: String,
    at: Moment,
    request_id: String,
    method: String,
    route: String,
    status: u16,
    tone: &'static str,
    error_code: Option<String>,
    error_path: String,
    detail: String,
    client_id: String,
    is_authenticated: bool,
    millis: String,
    query: Option<String>,
    body: Option<String>,
    skipped: u32,
}

#[derive(Debug, Template)]
#[template(path = "console/request.html")]
struct RequestPage {
    frame: Frame,
    back: String,
    request_id: String,
    requests: Vec<RequestRow>,
    /// Whether there are more of them.
    is_cut: bool,
    kept: Option<String>,
}

/// The words in the address and on the page.
const CLASSES: [(&str, &str, StatusClass); 3] = [
    ("2xx", "2xx, served", StatusClass::Served),
    ("4xx", "4xx, rejected", StatusClass::CallersFault),
    ("5xx", "5xx, our fault", StatusClass::OurFault),
];

/// `GET …/projects/{project_id}/requests`
pub async fn list(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let InProject { workspace, project, .. } = who.project(&app, &ids, Power::Look).await?;
    let query = Query::parse(query.as_deref(), &["status", "error_code", "request_id", "page"])?;
    let typed = |name| query.get(name).map(str::trim).filter(|text| !text.is_empty() && text.len() <= MAX_TYPED);
    let class = typed("status").and_then(|given| CLASSES.into_iter().find(|(word, ..)| *word == given));
    let code = typed("error_code").and_then(|given| error_codes().find(|(code, _)| *code == given));
    let filter = RequestFilter {
        class: class.map(|(.., class)| class),
        error_code: code.map(|(code, _)| code.to_owned()),
        request_id: typed("request_id").map(str::to_owned),
    };
    let found = app.engine.requests(project.id, &filter, query.page_of(page::ROWS)?).await?;
    let frame = Frame::of(&who, "Requests").in_workspace(&who, &workspace, Section::Requests).in_project(&project);
    let here = format!("{}/requests", frame.project_path());
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
    Ok(page::ok(&RequestsPage {
        pages: Pages::of(&found, link),
        requests: found.items.iter().map(|request| row(&here, request)).collect(),
        classes: choices(CLASSES.into_iter().map(|(word, title, _)| (word, title)), class.map(|(word, ..)| word)),
        codes: choices(error_codes(), code.map(|(code, _)| code)),
        is_filtered: filter != RequestFilter::default(),
        request_id: filter.request_id.unwrap_or_default(),
        kept: app.engine.requests_are_kept_for().map(in_words),
        frame,
    }))
}

/// `GET …/projects/{project_id}/requests/{request_id}`: all that came under one id, which callers may give.
pub async fn one(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let InProject { workspace, project, .. } = who.project(&app, &ids, Power::Look).await?;
    let request_id = ids.get("request_id").unwrap_or_default().to_owned();
    let filter = RequestFilter { request_id: Some(request_id.clone()), ..RequestFilter::default() };
    let page = PageRequest::new(OF_ONE_ID, 1).unwrap_or_default();
    let found = app.engine.requests(project.id, &filter, page).await?;
    let frame = Frame::of(&who, "Request").in_workspace(&who, &workspace, Section::Requests).in_project(&project);
    let back = format!("{}/requests", frame.project_path());
    let requests: Vec<_> = found.items.iter().map(|request| row(&back, request)).collect();
    let status = if requests.is_empty() { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let is_cut = found.total_items > u64::from(OF_ONE_ID);
    let kept = app.engine.requests_are_kept_for().map(in_words);
    Ok(page::html(status, &RequestPage { frame, back, request_id, requests, is_cut, kept }))
}

/// Codes of the catalogue, which are their own titles.
fn error_codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    Code::ALL.iter().map(|code| (code.entry().code, code.entry().code))
}

fn choices(all: impl Iterator<Item = (&'static str, &'static str)>, chosen: Option<&str>) -> Vec<Choice> {
    all.map(|(value, title)| Choice { value, title, is_chosen: chosen == Some(value) }).collect()
}

fn row(here: &str, request: &RequestRecord) -> RequestRow {
    let rejection = request.rejection.as_ref();
    let error_code = rejection.map(|rejection| rejection.error_code.clone());
    RequestRow {
        path: path_to(here, &request.request_id),
        at: Moment(request.at),
        request_id: request.request_id.clone(),
        method: request.method.clone(),
        route: request.route.clone(),
        status: request.status,
        tone: match request.status {
            100..=299 => "s2",
            300..=399 => "s3",
            400..=499 => "s4",
            _ => "s5",
        },
        error_path: error_code.as_ref().map(|code| format!("/errors/{code}")).unwrap_or_default(),
        error_code,
        detail: rejection.map(|rejection| sentence(&rejection.detail)).unwrap_or_default(),
        client_id: request.client.to_string(),
        is_authenticated: request.authenticated,
        millis: millis(request.micros),
        query: request.query.clone(),
        body: request.body.clone(),
        skipped: request.skipped,
    }
}

/// Where the requests of an id are. Browsers take dots in a path for something else.
fn path_to(here: &str, request_id: &str) -> String {
    let separator = if request_id.bytes().all(|byte| byte == b'.') { "?request_id=" } else { "/" };
    format!("{here}{separator}{request_id}")
}

/// Milliseconds with a digit or two after the point, where these tell something.
fn millis(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        _ => format!("{} ms", micros / 1_000),
    }
}

/// A duration in the largest unit that says it whole.
fn in_words(kept: SignedDuration) -> String {
    let minutes = kept.as_mins();
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
    fn durations_are_said_as_people_say_them() {
        for (micros, said) in [(0, "0.00 ms"), (1_234, "1.23 ms"), (9_999, "9.99 ms"), (12_345, "12 ms")] {
            assert_eq!(millis(micros), said);
        }
        for (minutes, said) in
            [(24 * 60, "24 hours"), (1, "1 minute"), (90, "90 minutes"), (60, "1 hour"), (2 * 24 * 60, "2 days")]
        {
            assert_eq!(in_words(SignedDuration::from_mins(minutes)), said);
        }
    }
}
