//! List of checks, searchable with the API's `search` syntax.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    reverse_sms::SEARCH_FIELDS,
    search::{self, SearchError},
};

use super::{CheckRow, PRODUCTS, parse_product};
use crate::{
    console::{
        error::{ConsoleError, to_sentence},
        home::Pagination,
        page::{self, Layout, Section},
        session::{ConsoleSession, ProjectAccess},
    },
    http::{App, path::PathParameters, query::Query},
};

#[derive(Debug, Template)]
#[template(path = "console/checks.html")]
struct ChecksPage {
    layout: Layout,
    tabs: Vec<Tab>,
    product: &'static str,
    search: String,
    search_error: Option<SearchErrorView>,
    checks: Vec<CheckRow>,
    pagination: Pagination,
}

#[derive(Debug)]
pub struct Tab {
    pub path: String,
    pub title: &'static str,
    pub is_current: bool,
}

/// A search syntax error and its position.
#[derive(Debug)]
struct SearchErrorView {
    text: String,
    before: String,
    at: String,
    after: String,
}

impl SearchErrorView {
    fn new(search: &str, error: &SearchError) -> Self {
        let mut chars = search.chars();
        let before = chars.by_ref().take(error.column().saturating_sub(1)).collect();
        let at = chars.next().map_or_else(|| "␣".to_owned(), String::from);
        SearchErrorView { text: to_sentence(&error.to_string()), before, at, after: chars.collect() }
    }
}

/// `GET …/projects/{project_id}/checks/{product}`
pub async fn list(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let ProjectAccess { workspace, project, .. } = session.authorize_project(&app, &ids, Permission::View).await?;
    let product = parse_product(&ids)?;
    let query = Query::parse(query.as_deref(), &["search", "page"])?;
    let request = query.page_with_default_size(page::PAGE_SIZE)?;
    let search = query.get("search").unwrap_or_default().trim().to_owned();
    let layout = Layout::for_session(&session, "Checks")
        .in_workspace(&session, &workspace, Section::Checks)
        .in_project(&project);
    let here = format!("{}/checks/{product}", layout.project_path());

    let filter = if search.is_empty() { Ok(None) } else { search::parse(&search, &SEARCH_FIELDS).map(Some) };
    let (status, search_error, found) = match filter {
        Ok(filter) => {
            (StatusCode::OK, None, Some(app.engine.list_any_checks(project.id, product, filter, request).await?))
        }
        Err(error) => (StatusCode::BAD_REQUEST, Some(SearchErrorView::new(&search, &error)), None),
    };
    let link = |number: u32| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if !search.is_empty() {
            query.append_pair("search", &search);
        }
        format!("{here}?{}", query.append_pair("page", &number.to_string()).finish())
    };
    let pagination = found.as_ref().map_or_else(Pagination::empty, |found| Pagination::new(found, link));
    let checks = found.iter().flat_map(|found| &found.items);
    let checks = checks.map(|check| CheckRow::new(layout.project_path(), check)).collect();
    let tab = |other: ringtrue_domain::product::Product| Tab {
        path: format!("{}/checks/{other}", layout.project_path()),
        title: other.title(),
        is_current: other == product,
    };
    let tabs = PRODUCTS.into_iter().map(tab).collect();
    Ok(page::render(
        status,
        &ChecksPage { tabs, product: product.title(), search, search_error, checks, pagination, layout },
    ))
}
