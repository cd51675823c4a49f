//! The list of checks, with the search of the API.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    reverse_sms::SEARCH_FIELDS,
    search::{self, SearchError},
};

use super::{CheckRow, PRODUCTS, product_of};
use crate::{
    console::{
        home::Pages,
        page::{self, Frame, Section},
        refusal::{Refusal, sentence},
        visitor::{InProject, SignedIn},
    },
    http::{App, path::PathIds, query::Query},
};

#[derive(Debug, Template)]
#[template(path = "console/checks.html")]
struct ChecksPage {
    frame: Frame,
    tabs: Vec<Tab>,
    product: &'static str,
    search: String,
    fault: Option<Fault>,
    checks: Vec<CheckRow>,
    pages: Pages,
}

#[derive(Debug)]
pub struct Tab {
    pub path: String,
    pub title: &'static str,
    pub is_current: bool,
}

/// What is wrong with a search, and where.
#[derive(Debug)]
struct Fault {
    text: String,
    before: String,
    at: String,
    after: String,
}

impl Fault {
    fn new(search: &str, error: &SearchError) -> Self {
        let mut letters = search.chars();
        let before = letters.by_ref().take(error.column().saturating_sub(1)).collect();
        let at = letters.next().map_or_else(|| "␣".to_owned(), String::from);
        Fault { text: sentence(&error.to_string()), before, at, after: letters.collect() }
    }
}

/// `GET …/projects/{project_id}/checks/{product}`
pub async fn list(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let InProject { workspace, project, .. } = who.project(&app, &ids, Power::Look).await?;
    let product = product_of(&ids)?;
    let query = Query::parse(query.as_deref(), &["search", "page"])?;
    let request = query.page_of(page::ROWS)?;
    let search = query.get("search").unwrap_or_default().trim().to_owned();
    let frame = Frame::of(&who, "Checks").in_workspace(&who, &workspace, Section::Checks).in_project(&project);
    let here = format!("{}/checks/{product}", frame.project_path());

    let filter = if search.is_empty() { Ok(None) } else { search::parse(&search, &SEARCH_FIELDS).map(Some) };
    let (status, fault, found) = match filter {
        Ok(filter) => (StatusCode::OK, None, Some(app.engine.any_checks(project.id, product, filter, request).await?)),
        Err(error) => (StatusCode::BAD_REQUEST, Some(Fault::new(&search, &error)), None),
    };
    let link = |number: u32| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if !search.is_empty() {
            query.append_pair("search", &search);
        }
        format!("{here}?{}", query.append_pair("page", &number.to_string()).finish())
    };
    let pages = found.as_ref().map_or_else(Pages::none, |found| Pages::of(found, link));
    let checks = found.iter().flat_map(|found| &found.items);
    let checks = checks.map(|check| CheckRow::of(frame.project_path(), check)).collect();
    let tab = |other: ringtrue_domain::product::Product| Tab {
        path: format!("{}/checks/{other}", frame.project_path()),
        title: other.title(),
        is_current: other == product,
    };
    let tabs = PRODUCTS.into_iter().map(tab).collect();
    Ok(page::html(status, &ChecksPage { tabs, product: product.title(), search, fault, checks, pages, frame }))
}
