//! Page that lists a product's checks, with filters, search and CSV export.

use std::iter;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use jiff::{civil::Date, tz::TimeZone};
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckStatus, Reference},
    page::{Page, PageRequest},
    product::{Product, VerdictKind},
    search::{self, Filter, SearchError},
    timestamp,
};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    observe::checks::{
        check_view::{CheckRow, duration, masked_number, parse_product, result_label, search_fields},
        filters::CheckFilters,
    },
    page::{
        self, Layout, MenuSection, Pagination, Tab,
        csv::CsvFile,
        error::{ConsoleError, to_sentence},
    },
    session::console_session::ProjectAccess,
};

/// Maximum number of checks in a CSV file. Users who need more call the API.
const MAX_EXPORTED_CHECKS: usize = 5_000;

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}", list)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}/export.csv", export)
}

#[derive(Debug, Template)]
#[template(path = "observe/checks.html")]
struct ChecksPage {
    layout: Layout,
    tabs: Vec<Tab>,
    product: &'static str,
    is_verification: bool,
    /// Title of the column that says how the number was checked.
    by: &'static str,
    path: String,
    search: String,
    search_error: Option<SearchErrorView>,
    /// Whether the filters cannot represent the search expression, so that the page must show it.
    is_advanced: bool,
    chip_groups: Vec<ChipGroup>,
    from: String,
    to: String,
    csv_path: String,
    csv_limit: usize,
    checks: Vec<CheckRow>,
    pagination: Pagination,
}

/// Links that filter the list by one field, such as the status.
#[derive(Debug)]
struct ChipGroup {
    title: &'static str,
    chips: Vec<Chip>,
}

/// A link that adds a filter, or removes it if it is selected.
#[derive(Debug)]
struct Chip {
    title: &'static str,
    path: String,
    is_on: bool,
}

/// Builds the filter links. Each link changes the search expression, or replaces it if the filters cannot represent it.
fn chip_groups(path: &str, filters: &CheckFilters, product: Product, today: Date) -> Vec<ChipGroup> {
    let chip = |title, is_on, changed: CheckFilters| {
        let expression = changed.expression();
        let search = Some(expression.as_str()).filter(|expression| !expression.is_empty());
        Chip { title, path: page::path_with_query(path, &[("search", search)]), is_on }
    };
    let statuses = [
        ("Accepted", CheckStatus::Accepted),
        ("Pending", CheckStatus::Pending),
        ("Completed", CheckStatus::Completed),
        ("Expired", CheckStatus::Expired),
        ("Error", CheckStatus::Error),
    ];
    let results = match product.facts().verdict {
        VerdictKind::None | VerdictKind::Number => vec![],
        VerdictKind::SimChange => vec![("No SIM change", true), ("SIM changed", false)],
        VerdictKind::Match => vec![("Match", true), ("No match", false)],
    };
    let days = [("Today", 1), ("7 days", 7), ("30 days", 30)];
    let status = |(title, status)| chip(title, filters.statuses.contains(&status), filters.toggle_status(status));
    let result = |(title, verified)| chip(title, filters.verified == Some(verified), filters.toggle_verified(verified));
    let last = |(title, days)| chip(title, filters.has_last_days(days, today), filters.toggle_last_days(days, today));
    let mut groups = vec![
        ChipGroup { title: "Status", chips: statuses.into_iter().map(status).collect() },
        ChipGroup { title: "Result", chips: results.into_iter().map(result).collect() },
        ChipGroup { title: "Created", chips: days.into_iter().map(last).collect() },
    ];
    groups.retain(|group| !group.chips.is_empty());
    groups
}

/// A syntax error in the search expression, and its position.
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

/// Parses the search expression. `None`: it is empty, so all checks match.
fn parse_search(search: &str, product: Product) -> Result<Option<Filter>, SearchError> {
    if search.is_empty() { Ok(None) } else { search::parse(search, search_fields(product)).map(Some) }
}

/// `GET …/projects/{project_id}/checks/{product}`
async fn list(
    State(app): State<App>,
    access: ProjectAccess,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let product = parse_product(&ids)?;
    let query = Query::parse(query.as_deref(), &["search", "page", "from", "to"])?;
    let request = query.page_with_default_size(page::PAGE_SIZE)?;
    let search = query.get("search").unwrap_or_default().trim().to_owned();
    let is_verification = product == Product::Verification;
    let layout = access.layout(if is_verification { "Verifications" } else { "Checks" }, MenuSection::Checks);
    let here = format!("{}/checks/{product}", layout.project_path());
    let filters = CheckFilters::parse(&search);
    if query.get("from").or(query.get("to")).is_some() {
        // The form for the date range was submitted. The redirect makes the dates part of the search expression.
        let date = |name| query.get(name).and_then(|date| date.parse().ok());
        let filters = CheckFilters { from: date("from"), to: date("to"), ..filters.unwrap_or_default() };
        return Ok(page::see_other(&page::path_with_query(&here, &[("search", Some(&filters.expression()))])));
    }

    let (status, search_error, found) = match parse_search(&search, product) {
        Ok(filter) => {
            let found = app.engine.checks.list_any_checks(access.project.id, product, filter, request).await?;
            (StatusCode::OK, None, found)
        }
        Err(error) => {
            let found = Page { items: vec![], request, total_items: 0 };
            (StatusCode::BAD_REQUEST, Some(SearchErrorView::new(&search, &error)), found)
        }
    };
    let filter = Some(search.as_str()).filter(|search| !search.is_empty());
    let pagination = Pagination::new(&found, &here, &[("search", filter)]);
    let checks = found.items.iter().map(|check| CheckRow::new(&app, layout.project_path(), check)).collect();
    let tab = |other: Product| Tab {
        path: format!("{}/checks/{other}", layout.project_path()),
        title: if other == Product::Verification { "Verifications" } else { other.title() },
        is_current: other == product,
    };
    let checks_alone = Product::WITH_CHECKS.iter().copied().filter(|product| *product != Product::Verification);
    let tabs = iter::once(Product::Verification).chain(checks_alone).map(tab).collect();
    let is_advanced = filters.is_none();
    let filters = filters.unwrap_or_default();
    let today = app.engine.clock().now().to_zoned(TimeZone::UTC).date();
    let date = |date: Option<Date>| date.map(|date| date.to_string()).unwrap_or_default();
    Ok(page::render(
        status,
        &ChecksPage {
            tabs,
            product: product.title(),
            is_verification,
            by: if is_verification { "Method" } else { "Network" },
            chip_groups: chip_groups(&here, &filters, product, today),
            from: date(filters.from),
            to: date(filters.to),
            csv_path: page::path_with_query(&format!("{here}/export.csv"), &[("search", filter)]),
            csv_limit: MAX_EXPORTED_CHECKS,
            path: here,
            search,
            search_error,
            is_advanced,
            checks,
            pagination,
            layout,
        },
    ))
}

/// `GET …/checks/{product}/export.csv`: the listed checks, newest first, at most [`MAX_EXPORTED_CHECKS`].
async fn export(
    State(app): State<App>,
    access: ProjectAccess,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let product = parse_product(&ids)?;
    let query = Query::parse(query.as_deref(), &["search"])?;
    let filter = parse_search(query.get("search").unwrap_or_default().trim(), product);
    let filter = filter.map_err(|error| {
        ConsoleError::new(StatusCode::BAD_REQUEST, "Invalid search", to_sentence(&error.to_string()))
    })?;
    let header = [
        "check_id",
        "product",
        "status",
        "result",
        "number",
        "reference_id",
        "network_id",
        "created_at",
        "updated_at",
        "duration_ms",
    ];
    let mut file = CsvFile::new(&header);
    let mut exported = 0;
    for number in 1.. {
        let Some(request) = PageRequest::new(PageRequest::MAX_SIZE, number) else { break };
        let page = app.engine.checks.list_any_checks(access.project.id, product, filter.clone(), request).await?;
        for check in &page.items {
            file.push_row(&csv_row(check));
        }
        exported += page.items.len();
        if page.items.is_empty() || exported >= MAX_EXPORTED_CHECKS || u64::from(number) >= page.total_pages() {
            break;
        }
    }
    Ok(file.into_response(&format!("{product}-checks")))
}

fn csv_row(check: &AnyCheck) -> [String; 10] {
    [
        check.id.to_string(),
        check.product.to_string(),
        check.status().into_str().to_owned(),
        result_label(check),
        masked_number(check),
        check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned(),
        check.network.as_ref().map(ToString::to_string).unwrap_or_default(),
        timestamp::format(check.created_at),
        check.updated_at().map(timestamp::format).unwrap_or_default(),
        duration(check).map(|duration| duration.as_millis().to_string()).unwrap_or_default(),
    ]
}
