//! Checks of a project: list, filters, CSV export, and the page of a check with its timeline and callback attempts.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};
use ringtrue_domain::{
    account::Permission,
    lifecycle::{AnyCheck, AnyVerdict, CheckOutcome, CheckStatus, ErrorCode, Lifecycle, Reference, Verdict},
    page::{Page, PageRequest},
    product::Product,
    reverse_sms::SEARCH_FIELDS,
    search::{self, Field, Filter, SearchError},
    sim_swap::{OLDER_CHANGE_BUCKET_MINUTES, SimSwapVerdict},
    timestamp,
    verification::{self, Progress, Step, StepState},
};
use ringtrue_engine::{
    callback::{Attempt, CallbackLog, ResendError},
    ports::{CallbackState, CheckHistory},
};

use super::{
    check_filters::CheckFilters,
    csv::CsvFile,
    error::{ConsoleError, to_sentence},
    forms::SessionForm,
    masking::{NumberMask, format_headers, redact_query},
    page::{self, Badge, BadgeKind, ExactTime, Layout, MenuSection, Pagination, ShortId, Tab, UtcTime},
    session::ProjectAccess,
};
use crate::http::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};

/// Products with checks.
pub const PRODUCTS: [Product; 5] =
    [Product::Verification, Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];

/// Checks in a CSV file. Larger exports use the API.
const MAX_EXPORTED_CHECKS: usize = 5_000;

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}", list)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}/export.csv", export)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}/{check_id}", detail)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}/{check_id}/resend", resend)
}

#[derive(Debug)]
pub struct CheckRow {
    pub path: String,
    pub id: String,
    pub badge: Badge,
    pub product: &'static str,
    pub number: String,
    pub reference: String,
    pub network: String,
    pub created_at: UtcTime,
    pub changed_at: UtcTime,
}

impl CheckRow {
    pub fn new(project_path: &str, check: &AnyCheck) -> Self {
        CheckRow {
            path: format!("{project_path}/checks/{}/{}", check.product, check.id),
            id: check.id.to_string(),
            badge: Badge::of_check(check),
            product: check.product.title(),
            number: masked_number(check),
            reference: check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned(),
            network: check.network.as_ref().map(ToString::to_string).unwrap_or_default(),
            created_at: UtcTime(check.created_at),
            changed_at: UtcTime(check.updated_at().unwrap_or(check.created_at)),
        }
    }
}

#[derive(Debug, Template)]
#[template(path = "console/checks.html")]
struct ChecksPage {
    layout: Layout,
    tabs: Vec<Tab>,
    product: &'static str,
    is_verification: bool,
    path: String,
    search: String,
    search_error: Option<SearchErrorView>,
    chip_groups: Vec<ChipGroup>,
    from: String,
    to: String,
    csv_path: String,
    csv_limit: usize,
    checks: Vec<CheckRow>,
    pagination: Pagination,
}

/// Filters of one field.
#[derive(Debug)]
struct ChipGroup {
    title: &'static str,
    chips: Vec<Chip>,
}

/// A link that adds a filter, or removes it.
#[derive(Debug)]
struct Chip {
    title: &'static str,
    path: String,
    is_on: bool,
}

/// Links that change the search expression. An expression with other comparisons is replaced.
fn chip_groups(path: &str, filters: &CheckFilters, product: Product, today: Date) -> Vec<ChipGroup> {
    let chip = |title, is_on, changed: CheckFilters| {
        let expression = changed.expression();
        let search = Some(expression.as_str()).filter(|expression| !expression.is_empty());
        Chip { title, path: page::link(path, &[("search", search)]), is_on }
    };
    let statuses = [
        ("Accepted", CheckStatus::Accepted),
        ("Pending", CheckStatus::Pending),
        ("Completed", CheckStatus::Completed),
        ("Expired", CheckStatus::Expired),
        ("Error", CheckStatus::Error),
    ];
    let results = match product {
        Product::Discovery => vec![],
        Product::SimSwap => vec![("No SIM change", true), ("SIM changed", false)],
        _ => vec![("Match", true), ("No match", false)],
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

#[derive(Debug, Template)]
#[template(path = "console/check.html")]
struct CheckPage {
    layout: Layout,
    product: &'static str,
    list_path: String,
    id: ShortId,
    path: String,
    badge: Badge,
    status: &'static str,
    facts: Vec<(&'static str, String)>,
    /// Page of the verification whose step this check is.
    verification_path: Option<String>,
    /// Steps of a verification.
    steps: Vec<StepView>,
    events: Vec<TimelineEvent>,
    callback: Option<CallbackView>,
    resend_path: String,
    was_resent: bool,
    is_open: bool,
    /// Titles and curl commands.
    commands: Vec<(&'static str, String)>,
}

/// A step of a verification.
#[derive(Debug)]
struct StepView {
    product: &'static str,
    /// `None`: no check was created.
    path: Option<String>,
    status: &'static str,
    badge: Badge,
}

impl StepView {
    fn new(project_path: &str, step: &Step) -> Self {
        let (kind, text) = match (step.state, step.product) {
            (StepState::Open, _) => (BadgeKind::Open, "open"),
            (StepState::Completed { matched: true }, Product::SimSwap) => (BadgeKind::Match, "no SIM change"),
            (StepState::Completed { matched: false }, Product::SimSwap) => (BadgeKind::NoMatch, "SIM changed"),
            (StepState::Completed { matched: true }, _) => (BadgeKind::Match, "match"),
            (StepState::Completed { matched: false }, _) => (BadgeKind::NoMatch, "no match"),
            (StepState::Expired, _) => (BadgeKind::Expired, "expired"),
            (StepState::Error(code), _) => (BadgeKind::Failed, code.as_str()),
        };
        StepView {
            product: step.product.title(),
            path: step.check.map(|check| format!("{project_path}/checks/{}/{check}", step.product)),
            status: step.state.status().as_str(),
            badge: Badge::new(kind, text),
        }
    }
}

#[derive(Debug)]
struct CallbackView {
    url: String,
    body: Option<String>,
    badge: Badge,
    next_attempt: Option<UtcTime>,
    may_resend: bool,
}

#[derive(Debug)]
struct AttemptView {
    number: u32,
    millis: i128,
    outcome: String,
    request: Option<String>,
    response: Option<String>,
}

#[derive(Debug)]
struct TimelineEvent {
    at: ExactTime,
    /// Time since the creation of the check.
    after: String,
    title: String,
    text: String,
    is_failure: bool,
    /// Details of an attempt to send the callback.
    attempt: Option<AttemptView>,
}

impl TimelineEvent {
    fn new(at: Timestamp, title: impl Into<String>, text: impl Into<String>) -> Self {
        TimelineEvent {
            at: ExactTime(at),
            after: String::new(),
            title: title.into(),
            text: text.into(),
            is_failure: false,
            attempt: None,
        }
    }

    fn failure(self) -> Self {
        TimelineEvent { is_failure: true, ..self }
    }
}

/// Seconds with milliseconds, or minutes and seconds.
fn format_elapsed(elapsed: SignedDuration) -> String {
    let (seconds, millis) = (elapsed.as_secs(), elapsed.subsec_millis());
    match seconds {
        ..0 => String::new(),
        0..60 => format!("+{seconds}.{millis:03} s"),
        _ => format!("+{} min {}.{millis:03} s", seconds / 60, seconds % 60),
    }
}

fn parse_product(ids: &PathParameters) -> Result<Product, ConsoleError> {
    let named = ids.get("product").and_then(|name| name.parse().ok());
    named.filter(|product| PRODUCTS.contains(product)).ok_or_else(ConsoleError::not_found)
}

fn result_label(check: &AnyCheck) -> String {
    if let Some(code) = check.error_code() {
        return ErrorCode::as_str(code).to_owned();
    }
    let Some(verdict) = check.verdict() else { return String::new() };
    match verdict {
        AnyVerdict::Sim(swap) => {
            return if swap.no_sim_change { "no SIM change" } else { "SIM changed" }.to_owned();
        }
        AnyVerdict::Verification(verdict) => {
            let matched = if verdict.matched { "match" } else { "no match" };
            return format!("{matched} by {}", verdict.method.product().title());
        }
        AnyVerdict::Sender(_) | AnyVerdict::Device(_) => {}
    }
    match (verdict.matched(), verdict.discovered()) {
        (Some(true), _) => "match".to_owned(),
        (Some(false), _) => "no match".to_owned(),
        (None, Some(found)) => {
            found.number.map_or_else(|| "number found".to_owned(), |number| format!("number …{}", number.tail))
        }
        (None, None) => String::new(),
    }
}

pub fn describe_sim_swap(swap: &SimSwapVerdict) -> String {
    let last_change = match swap.changed_within_minutes {
        Some(OLDER_CHANGE_BUCKET_MINUTES) => "; last change more than a year ago".to_owned(),
        Some(minutes) => format!("; last change within the last {}", format_minutes(minutes)),
        None => "; time of the last change unknown".to_owned(),
    };
    let change = if swap.no_sim_change { "SIM not changed" } else { "SIM changed" };
    format!("{change} in the last {}{last_change}", format_minutes(swap.covered_minutes))
}

/// Formats minutes in the largest whole unit.
fn format_minutes(minutes: u32) -> String {
    let units = [(1_440, "day"), (60, "hour"), (1, "minute")];
    let (size, unit) = units.into_iter().find(|(size, _)| minutes.is_multiple_of(*size)).unwrap_or((1, "minute"));
    match minutes / size {
        1 => unit.to_owned(),
        several => format!("{several} {unit}s"),
    }
}

/// The last digits of the claimed number; the others are not stored.
fn masked_number(check: &AnyCheck) -> String {
    check.claimed.map(|claimed| format!("…{}", claimed.tail)).unwrap_or_default()
}

pub fn search_fields(product: Product) -> &'static [Field] {
    if product == Product::Verification { &verification::SEARCH_FIELDS } else { &SEARCH_FIELDS }
}

/// The menu entry of a product's checks.
fn menu_section(product: Product) -> MenuSection {
    if product == Product::Verification { MenuSection::Verifications } else { MenuSection::Checks }
}

/// `None` matches all checks.
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
    let layout = access.layout("Checks", menu_section(product));
    let here = format!("{}/checks/{product}", layout.project_path());
    let filters = CheckFilters::parse(&search);
    if query.get("from").or(query.get("to")).is_some() {
        // The form of the date range: it becomes part of the expression.
        let date = |name| query.get(name).and_then(|date| date.parse().ok());
        let filters = CheckFilters { from: date("from"), to: date("to"), ..filters.unwrap_or_default() };
        return Ok(page::see_other(&page::link(&here, &[("search", Some(&filters.expression()))])));
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
    let checks = found.items.iter().map(|check| CheckRow::new(layout.project_path(), check)).collect();
    let tab = |other: Product| Tab {
        path: format!("{}/checks/{other}", layout.project_path()),
        title: other.title(),
        is_current: other == product,
    };
    let tabs = PRODUCTS.into_iter().map(tab).collect();
    let filters = filters.unwrap_or_default();
    let today = app.engine.clock().now().to_zoned(TimeZone::UTC).date();
    let date = |date: Option<Date>| date.map(|date| date.to_string()).unwrap_or_default();
    Ok(page::render(
        status,
        &ChecksPage {
            tabs,
            product: product.title(),
            is_verification: product == Product::Verification,
            chip_groups: chip_groups(&here, &filters, product, today),
            from: date(filters.from),
            to: date(filters.to),
            csv_path: page::link(&format!("{here}/export.csv"), &[("search", filter)]),
            csv_limit: MAX_EXPORTED_CHECKS,
            path: here,
            search,
            search_error,
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
    let header =
        ["check_id", "product", "status", "result", "number", "reference_id", "network_id", "created_at", "updated_at"];
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

fn csv_row(check: &AnyCheck) -> [String; 9] {
    [
        check.id.to_string(),
        check.product.to_string(),
        check.status().as_str().to_owned(),
        result_label(check),
        masked_number(check),
        check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned(),
        check.network.as_ref().map(ToString::to_string).unwrap_or_default(),
        timestamp::format(check.created_at),
        check.updated_at().map(timestamp::format).unwrap_or_default(),
    ]
}

/// `GET …/checks/{product}/{check_id}`
async fn detail(
    State(app): State<App>,
    access: ProjectAccess,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let was_resent = Query::parse(query.as_deref(), &["resent"])?.get("resent").is_some();
    let (product, id) = (parse_product(&ids)?, ids.check()?);
    let project = access.project.id;
    // First, because it expires an overdue step.
    let progress = match product {
        Product::Verification => Some(app.engine.verifications.read(project, id).await?.progress),
        _ => None,
    };
    let check = app.engine.checks.read_any_check(project, product, id).await?;
    let history = app.engine.checks.check_history(project, product, id).await?;
    let log = app.engine.callbacks.callback_log(project, id).await?;
    let layout = access.layout("Check", menu_section(product));
    let list_path = format!("{}/checks/{product}", layout.project_path());
    let mut facts = vec![
        ("Number", masked_number(&check)),
        ("Reference", check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned()),
        ("Network", check.network.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("Mode", check.mode.as_str().to_owned()),
    ];
    match check.verdict() {
        Some(AnyVerdict::Sim(swap)) => facts.push(("SIM", describe_sim_swap(swap))),
        Some(AnyVerdict::Verification(verdict)) => match verdict.no_sim_change {
            Some(true) => facts.push(("SIM", "not changed".to_owned())),
            Some(false) => facts.push(("SIM", "changed".to_owned())),
            None => {}
        },
        Some(AnyVerdict::Sender(_) | AnyVerdict::Device(_)) | None => {}
    }
    if let Some(Progress { methods, .. }) = &progress {
        let methods: Vec<_> = methods.iter().map(|method| method.product().title()).collect();
        facts.push(("Methods", methods.join(", ")));
    }
    let (badge, result) = (Badge::of_check(&check), result_label(&check));
    if result != badge.text {
        facts.insert(0, ("Result", result));
    }
    facts.retain(|(_, value)| !value.is_empty());
    let step_view = |step: &Step| StepView::new(layout.project_path(), step);
    Ok(page::render_ok(&CheckPage {
        product: product.title(),
        path: format!("{list_path}/{id}"),
        resend_path: format!("{list_path}/{id}/resend"),
        list_path,
        id: ShortId::new(id.to_string()),
        badge,
        status: check.status().as_str(),
        facts,
        verification_path: check
            .verification
            .map(|id| format!("{}/checks/{}/{id}", layout.project_path(), Product::Verification)),
        steps: progress.iter().flat_map(|progress| &progress.steps).map(step_view).collect(),
        events: build_timeline(&check, &history, log.as_ref(), layout.may_develop()),
        callback: log.map(|log| callback_view(log, layout.may_develop())),
        was_resent,
        is_open: matches!(check.state, Lifecycle::Open(_)),
        commands: curl_commands(app.engine.base_url(), &check),
        layout,
    }))
}

/// `POST …/checks/{product}/{check_id}/resend`
async fn resend(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, _) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let (product, id) = (parse_product(&ids)?, ids.check()?);
    let resent = app.engine.callbacks.resend_callback(&access.actor, &access.project, product, id, None).await;
    resent.map_err(resend_error)?;
    Ok(page::see_other(&format!("{}/checks/{product}/{id}?resent", access.path())))
}

pub fn resend_error(error: ResendError) -> ConsoleError {
    let (status, title) = match error {
        ResendError::Read(cause) => return cause.into(),
        ResendError::NoCallback => (StatusCode::NOT_FOUND, "No callback"),
        ResendError::StillOpen | ResendError::StillWaiting => (StatusCode::CONFLICT, "Callback cannot be resent yet"),
        ResendError::Erased => (StatusCode::GONE, "Callback erased"),
        ResendError::LimitReached => (StatusCode::CONFLICT, "Resend limit reached"),
    };
    ConsoleError::new(status, title, error.to_string())
}

/// Only developers see bodies, headers and the URL's query, which may contain the receiver's secrets.
fn callback_view(log: CallbackLog, may_develop: bool) -> CallbackView {
    let mask = NumberMask::for_callback(log.body.as_deref());
    let (kind, state, next_attempt) = match log.state {
        CallbackState::Waiting { due_at } => (BadgeKind::Open, "waiting", Some(UtcTime(due_at))),
        CallbackState::Delivered => (BadgeKind::Match, "delivered", None),
        CallbackState::GivenUp => (BadgeKind::Failed, "undeliverable", None),
    };
    let url = log.url.map(|url| mask.apply(&if may_develop { url } else { redact_query(&url) }));
    CallbackView {
        url: url.unwrap_or_else(|| "erased".to_owned()),
        may_resend: next_attempt.is_none() && log.body.is_some(),
        body: log.body.filter(|_| may_develop).map(|body| mask.apply(&body)),
        badge: Badge::new(kind, state),
        next_attempt,
    }
}

/// Without a mask, only the outcome is shown.
fn attempt_view(attempt: &Attempt, mask: Option<&NumberMask>) -> AttemptView {
    let outcome = describe_attempt(attempt);
    let shown = attempt.exchange.as_ref().zip(mask);
    let (request, response) = shown.map_or((None, None), |(exchange, mask)| {
        let sent = &exchange.sent;
        let request = format!("POST {}\n{}\n{}", sent.url, format_headers(&sent.headers), sent.body);
        let response = exchange
            .received
            .as_ref()
            .map(|received| format!("{}\n{}\n{}", received.status, format_headers(&received.headers), received.body));
        (Some(mask.apply(&request)), response.map(|response| mask.apply(&response)))
    });
    AttemptView {
        number: attempt.number,
        millis: attempt.started_at.duration_until(attempt.ended_at).as_millis(),
        outcome,
        request,
        response,
    }
}

/// Commands that retrieve this check and create a similar one.
fn curl_commands(base_url: &str, check: &AnyCheck) -> Vec<(&'static str, String)> {
    let path = match check.product {
        Product::ReverseSms => "number-verification/reverse-sms-checks",
        Product::SecureSna => "number-verification/secure-sna-checks",
        Product::Discovery => "number-verification/discovery-checks",
        Product::SimSwap | Product::Eligibility => "sim-swap-checks",
        Product::Verification => "verifications",
    };
    let mut body = serde_json::Map::new();
    if check.product != Product::Discovery {
        // The number is not stored.
        body.insert("phone_number".to_owned(), "+990123456710".into());
    }
    if let Some(reference) = &check.reference {
        body.insert("reference_id".to_owned(), reference.as_str().into());
    }
    let body = shell_quote(&serde_json::Value::Object(body).to_string());
    let curl = format!("curl -H \"Authorization: Bearer $TOKEN\" {base_url}/v1/{path}");
    let create = format!("{curl} -H \"Content-Type: application/json\" -d {body}");
    vec![("Retrieve this check", format!("{curl}/{}", check.id)), ("Create a similar check", create)]
}

/// Quotes text as one shell word.
fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn build_timeline(
    check: &AnyCheck,
    history: &CheckHistory,
    log: Option<&CallbackLog>,
    may_develop: bool,
) -> Vec<TimelineEvent> {
    let mut events = vec![TimelineEvent::new(check.created_at, "Created", "")];
    if let Some(at) = history.pending_at {
        events.extend(pending_events(check, history, at));
    }
    match &check.state {
        Lifecycle::Open(_) => {
            events.push(TimelineEvent::new(check.expires_at, "Expires", "Unless it completes earlier."));
        }
        Lifecycle::Concluded { outcome, at } => {
            if is_concluded_by_sms(check) {
                events.push(TimelineEvent::new(*at, "SMS received", describe_connector(history)));
            }
            events.push(conclusion_event(check, outcome, *at, history.pending_at.is_some()));
        }
    }
    let mask = NumberMask::for_callback(log.and_then(|log| log.body.as_deref()));
    for attempt in log.iter().flat_map(|log| &log.attempts) {
        let title = format!("Callback, attempt {}", attempt.number);
        let event = TimelineEvent {
            attempt: Some(attempt_view(attempt, may_develop.then_some(&mask))),
            ..TimelineEvent::new(attempt.started_at, title, "")
        };
        events.push(if attempt.status == Some(200) { event } else { event.failure() });
    }
    if let Some(CallbackState::Waiting { due_at }) = log.map(|log| log.state) {
        events.push(TimelineEvent::new(due_at, "Callback, next attempt", ""));
    }
    for event in events.iter_mut().skip(1) {
        event.after = format_elapsed(check.created_at.duration_until(event.at.0));
    }
    events
}

/// Events of the SMS, device request or step that made the check pending.
fn pending_events(check: &AnyCheck, history: &CheckHistory, at: Timestamp) -> Vec<TimelineEvent> {
    if check.product == Product::Verification {
        return vec![TimelineEvent::new(at, "Pending", "A step has begun or ended.")];
    }
    if check.product == Product::ReverseSms {
        // Only the last connector is stored. If an SMS concluded the check, it belongs to that SMS.
        let connector = if is_concluded_by_sms(check) { String::new() } else { describe_connector(history) };
        let text = "Sent from the number, incomplete or without the code.";
        return vec![TimelineEvent::new(at, "SMS received", connector), TimelineEvent::new(at, "Pending", text)];
    }
    vec![
        TimelineEvent::new(at, "URL opened", ""),
        TimelineEvent::new(at, "Pending", "The device was redirected to its operator."),
    ]
}

/// Reverse SMS checks end only by an SMS or by expiry.
fn is_concluded_by_sms(check: &AnyCheck) -> bool {
    let is_concluded_in_time = matches!(
        check.state,
        Lifecycle::Concluded { outcome: CheckOutcome::Completed(_) | CheckOutcome::Error(_), .. }
    );
    check.product == Product::ReverseSms && is_concluded_in_time
}

fn describe_connector(history: &CheckHistory) -> String {
    history.connector.as_ref().map(|name| format!("via connector {name}")).unwrap_or_default()
}

fn conclusion_event<V: Verdict>(
    check: &AnyCheck,
    outcome: &CheckOutcome<V>,
    at: Timestamp,
    was_pending: bool,
) -> TimelineEvent {
    match outcome {
        CheckOutcome::Completed(verdict) if verdict.matched().is_some() => {
            TimelineEvent::new(at, "Completed", result_label(check))
        }
        CheckOutcome::Completed(_) => TimelineEvent::new(at, "Completed", ""),
        CheckOutcome::Expired if was_pending => TimelineEvent::new(at, "Expired", "Not completed in time."),
        CheckOutcome::Expired => TimelineEvent::new(at, "Expired", "Nothing received in time."),
        CheckOutcome::Error(code) => TimelineEvent::new(at, "Failed", code.as_str()).failure(),
    }
}

fn describe_attempt(attempt: &Attempt) -> String {
    match (attempt.status, &attempt.failure) {
        (Some(status), _) => status.to_string(),
        (None, Some(failure)) => failure.replace('_', " "),
        (None, None) => "no response".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sim_swap_verdict_is_described() {
        for (no_sim_change, covered_minutes, changed_within_minutes, description) in [
            (true, 10_080, Some(525_601), "SIM not changed in the last 7 days; last change more than a year ago"),
            (false, 10_080, Some(1_440), "SIM changed in the last 7 days; last change within the last day"),
            (false, 90, Some(60), "SIM changed in the last 90 minutes; last change within the last hour"),
            (true, 60, None, "SIM not changed in the last hour; time of the last change unknown"),
        ] {
            assert_eq!(
                describe_sim_swap(&SimSwapVerdict { no_sim_change, covered_minutes, changed_within_minutes }),
                description
            );
        }
    }

    #[test]
    fn elapsed_times_have_milliseconds() {
        for (millis, expected) in [(0, "+0.000 s"), (1_234, "+1.234 s"), (61_005, "+1 min 1.005 s"), (-2_000, "")] {
            assert_eq!(format_elapsed(SignedDuration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn shell_quoted_text_is_one_word() {
        for (text, word) in [("{}", "'{}'"), ("it's", "'it'\\''s'"), ("$(x) `y` \\", "'$(x) `y` \\'")] {
            assert_eq!(shell_quote(text), word);
        }
    }
}
