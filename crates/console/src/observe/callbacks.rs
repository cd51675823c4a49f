//! Page that lists a project's callbacks, with filters and with counts of failures by receiver and reason. It resends
//! callbacks and shows their progress, and sends test callbacks.

use std::collections::HashMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use ringtrue_domain::{account::Permission, lifecycle::CheckId, page::Page, product::Product, tenancy::Project};
use ringtrue_engine::{
    callbacks::{
        BulkResend, CallbackFilter, CallbackSummary, MAX_BULK_RESENDS, MAX_LISTED_CALLBACKS, ResendBatch, ResendError,
        TestCallbackError,
    },
    ports::callbacks::{CallbackSelection, CallbackState, ResendProgress},
    rate_limits::RateLimitClass,
};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    page::{
        self, Badge, BadgeKind, Layout, MenuSection, Pagination, SelectOption, ShortId, Tab, UtcTime,
        error::ConsoleError,
    },
    session::{
        console_session::ProjectAccess,
        flash::Flash,
        forms::{FormFields, SessionForm},
    },
};

/// States to filter by: query value, title and selection.
const STATES: [(&str, &str, CallbackSelection); 4] = [
    ("undeliverable", "Undeliverable", CallbackSelection::GivenUp),
    ("retrying", "Retrying", CallbackSelection::Retrying),
    ("delivered", "Delivered later", CallbackSelection::Recovered),
    ("all", "All deliveries", CallbackSelection::All),
];

/// Maximum length of a filter value. Longer values are ignored.
const MAX_FILTER_BYTES: usize = 300;

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/callbacks", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/callbacks/resend", resend_all)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/callbacks/{check_id}/resend", resend_one)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/callbacks/test", send_test)
}

#[derive(Debug, Template)]
#[template(path = "observe/callbacks.html")]
struct CallbacksPage {
    layout: Layout,
    path: String,
    tabs: Vec<Tab>,
    state: &'static str,
    /// Whether the listed callbacks are undeliverable, so that they can be resent.
    is_resendable: bool,
    products: Vec<SelectOption>,
    receivers: Vec<SelectOption>,
    reasons: Vec<SelectOption>,
    filter: FilterFields,
    is_filtered: bool,
    is_truncated: bool,
    max_listed: u32,
    max_resends: usize,
    groups: Vec<FailureGroup>,
    failures: Vec<FailureRow>,
    /// Title of the column with the time of the last or next attempt.
    time_column: &'static str,
    pagination: Pagination,
    progress: Option<ProgressView>,
    tests: Vec<TestOption>,
    test_result: Option<TestResult>,
}

/// The filter as form fields. An empty value matches all callbacks.
#[derive(Clone, Debug, Default)]
struct FilterFields {
    product: String,
    receiver: String,
    reason: String,
}

/// Number of failed callbacks with the same receiver and reason.
#[derive(Debug)]
struct FailureGroup {
    receiver: String,
    reason: String,
    reason_label: String,
    count: usize,
    last_attempt_at: Option<UtcTime>,
    path: String,
}

#[derive(Debug)]
struct FailureRow {
    id: ShortId,
    check_id: String,
    product: Product,
    receiver: String,
    reason: Badge,
    attempts: u32,
    last_attempt_at: Option<UtcTime>,
    due_at: Option<UtcTime>,
    may_resend: bool,
}

/// Progress of a resend of several callbacks.
#[derive(Debug)]
struct ProgressView {
    queued: u64,
    refused: u64,
    remaining: u64,
    progress: ResendProgress,
    /// Number of callbacks that were delivered or given up.
    done: u64,
}

/// A product to whose callback URL the user can send a test callback.
#[derive(Debug)]
struct TestOption {
    product: &'static str,
    title: &'static str,
    receiver: String,
}

#[derive(Debug)]
struct TestResult {
    product: &'static str,
    outcome: String,
    millis: u64,
    is_delivered: bool,
}

/// `GET …/projects/{project_id}/callbacks`
async fn show(
    State(app): State<App>,
    access: ProjectAccess,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let known = ["state", "product", "receiver", "reason", "page", "queued", "refused", "remaining", "batch"];
    let query = Query::parse(query.as_deref(), &known)?;
    let (state, _, selection) =
        STATES.into_iter().find(|(name, ..)| query.get("state") == Some(*name)).unwrap_or(STATES[0]);
    let filter = parse_filter(selection, |name| query.get(name));
    let unfiltered = CallbackFilter { receiver: None, reason: None, ..filter.clone() };
    let all = app.engine.callbacks.list_callbacks(&access.project, &unfiltered).await?;
    let progress = load_progress(&app, &access.project, &query).await?;

    let layout = access.layout("Callbacks", MenuSection::Callbacks);
    let path = format!("{}/callbacks", layout.project_path());
    let is_match = |failure: &&CallbackSummary| {
        filter.receiver.as_ref().is_none_or(|receiver| *receiver == failure.receiver)
            && filter.reason.as_ref().is_none_or(|reason| *reason == failure.reason)
    };
    let matching: Vec<_> = all.iter().filter(is_match).collect();
    let page = Page::of_list(&matching, query.page_with_default_size(page::PAGE_SIZE)?);
    let fields = FilterFields::from(&filter);
    let is_truncated = all.len() >= usize::try_from(MAX_LISTED_CALLBACKS).unwrap_or(usize::MAX);
    let test_result = Flash::read(&app, &access.session, &headers, &path).and_then(test_result);
    let had_result = test_result.is_some();
    let tab = |(name, title, _): (&'static str, &'static str, CallbackSelection)| Tab {
        path: page::link(&path, &[("state", Some(name))]),
        title,
        is_current: name == state,
    };
    let response = page::render_ok(&CallbacksPage {
        tabs: STATES.map(tab).into(),
        state,
        is_resendable: selection == CallbackSelection::GivenUp,
        products: page::select_options(
            Product::WITH_CALLBACKS.iter().copied().map(|product| (product.into_str(), product.title())),
            filter.product.map(|product| product.into_str()),
        ),
        receivers: options(all.iter().map(|failure| failure.receiver.as_str()), &fields.receiver, str::to_owned),
        reasons: options(all.iter().map(|failure| failure.reason.as_str()), &fields.reason, reason_label),
        is_filtered: filter != CallbackFilter { product: None, ..unfiltered },
        is_truncated,
        max_listed: MAX_LISTED_CALLBACKS,
        max_resends: MAX_BULK_RESENDS,
        groups: group_failures(&matching, &path, state, &fields),
        failures: page.items.iter().map(|failure| failure_row(&layout, selection, failure)).collect(),
        time_column: if selection == CallbackSelection::Retrying { "Next attempt" } else { "Last attempt" },
        pagination: Pagination::new(&page, &path, &fields.query(state)),
        progress,
        tests: test_options(&access.project),
        test_result,
        filter: fields,
        path,
        layout,
    });
    Ok(if had_result { Flash::clear(&app, response) } else { response })
}

/// `POST …/callbacks/resend`: resends the undeliverable callbacks that match the filter.
async fn resend_all(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let filter = parse_filter(CallbackSelection::GivenUp, |name| fields.get(name));
    let resent = app.engine.callbacks.resend_failed(&access.actor, &access.project, &filter).await;
    let resent = resent.map_err(resend_error)?;
    if resent.batch.is_none() && resent.remaining > 0 {
        let text = "This workspace has just resent many callbacks. Wait a few seconds and resend again.";
        return Err(ConsoleError::new(StatusCode::TOO_MANY_REQUESTS, "Too many resends", text));
    }
    Ok(redirect_to_progress(&access, &filter, resent))
}

/// `POST …/callbacks/{check_id}/resend`
async fn resend_one(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let form = form.with_rate_limit_class(RateLimitClass::Create);
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let (check, product) = (ids.check()?, parse_product(&fields).ok_or_else(ConsoleError::not_found)?);
    let resent = app.engine.callbacks.resend_callback(&access.actor, &access.project, product, check, None).await;
    let since = resent.map_err(resend_error)?.due_at;
    let batch = Some(ResendBatch { since, first: check, last: check });
    // Keeps the filter of the list. The form's `product` is the callback's own, so the filter's fields have the prefix
    // `filter_`.
    let filter = parse_filter(CallbackSelection::GivenUp, |name| fields.get(&format!("filter_{name}")));
    Ok(redirect_to_progress(&access, &filter, BulkResend { queued: 1, refused: 0, remaining: 0, batch }))
}

/// `POST …/callbacks/test`
async fn send_test(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let product = parse_product(&fields).ok_or_else(ConsoleError::not_found)?;
    let sent = app.engine.callbacks.send_test_callback(&access.actor, &access.project, product).await;
    let sent = sent.map_err(|error| {
        let (status, title) = match error {
            TestCallbackError::OtherWorkspace => (StatusCode::FORBIDDEN, "Permission denied"),
            TestCallbackError::NoUrl => (StatusCode::BAD_REQUEST, "No callback URL"),
            TestCallbackError::Busy => (StatusCode::CONFLICT, "Test in progress"),
            TestCallbackError::NoKey => (StatusCode::SERVICE_UNAVAILABLE, "Service unavailable"),
        };
        ConsoleError::new(status, title, error.to_string())
    })?;
    let outcome = match sent.response {
        Ok(status) => status.to_string(),
        Err(error) => error.into_str().to_owned(),
    };
    let millis = u64::try_from(sent.elapsed.as_millis()).unwrap_or(u64::MAX);
    let flash = Flash::TestCallback { product, outcome, millis };
    flash.redirect(&app, &access.session, &format!("{}/callbacks", access.path()))
}

fn parse_product(fields: &FormFields) -> Option<Product> {
    fields.get("product").and_then(|name| name.parse().ok()).filter(|product: &Product| product.facts().sends_callbacks)
}

/// Parses the filter. A receiver or reason that no callback has matches nothing. An unknown product is ignored.
fn parse_filter<'q>(selection: CallbackSelection, get: impl Fn(&str) -> Option<&'q str>) -> CallbackFilter {
    let text = |name: &str| {
        let text = get(name).map(str::trim).filter(|text| !text.is_empty() && text.len() <= MAX_FILTER_BYTES);
        text.map(str::to_owned)
    };
    let product = text("product").and_then(|name| name.parse().ok());
    CallbackFilter {
        selection,
        product: product.filter(|product: &Product| product.facts().sends_callbacks),
        receiver: text("receiver"),
        reason: text("reason"),
    }
}

impl From<&CallbackFilter> for FilterFields {
    fn from(filter: &CallbackFilter) -> Self {
        FilterFields {
            product: filter.product.map(|product| product.to_string()).unwrap_or_default(),
            receiver: filter.receiver.clone().unwrap_or_default(),
            reason: filter.reason.clone().unwrap_or_default(),
        }
    }
}

impl FilterFields {
    fn query<'f>(&'f self, state: &'f str) -> [(&'static str, Option<&'f str>); 4] {
        let given = |text: &'f str| Some(text).filter(|text| !text.is_empty());
        [
            ("state", Some(state)),
            ("product", given(&self.product)),
            ("receiver", given(&self.receiver)),
            ("reason", given(&self.reason)),
        ]
    }
}

/// Redirects to the list, which shows the progress of the resend.
fn redirect_to_progress(access: &ProjectAccess, filter: &CallbackFilter, resend: BulkResend) -> Response {
    let fields = FilterFields::from(filter);
    let counts = [resend.queued, resend.refused, resend.remaining].map(|count| count.to_string());
    let batch =
        resend.batch.map(|ResendBatch { since, first, last }| format!("{}.{first}.{last}", since.as_millisecond()));
    let [queued, refused, remaining] = &counts;
    let progress = [
        ("queued", Some(queued.as_str())),
        ("refused", Some(refused.as_str())),
        ("remaining", Some(remaining.as_str())),
        ("batch", batch.as_deref()),
    ];
    let query = [&fields.query(STATES[0].0)[..], &progress].concat();
    page::see_other(&page::link(&format!("{}/callbacks", access.path()), &query))
}

/// Loads the progress of the resend that the query names. `None`: the query names no resend.
async fn load_progress(app: &App, project: &Project, query: &Query) -> Result<Option<ProgressView>, ConsoleError> {
    let count = |name| query.get(name).and_then(|count| count.parse::<u64>().ok());
    let Some(queued) = count("queued") else { return Ok(None) };
    let progress = match query.get("batch").and_then(parse_batch) {
        Some(batch) => app.engine.callbacks.resend_progress(project.id, batch).await?,
        None => ResendProgress::default(),
    };
    Ok(Some(ProgressView {
        queued,
        refused: count("refused").unwrap_or(0),
        remaining: count("remaining").unwrap_or(0),
        done: progress.delivered + progress.given_up,
        progress,
    }))
}

fn parse_batch(text: &str) -> Option<ResendBatch> {
    let mut parts = text.split('.');
    let since = Timestamp::from_millisecond(parts.next()?.parse().ok()?).ok()?;
    let mut check = || parts.next()?.parse::<CheckId>().ok();
    Some(ResendBatch { since, first: check()?, last: check()? })
}

/// Returns the options of a filter: the distinct values, and the selected value even if no callback has it any more.
fn options<'a>(
    values: impl Iterator<Item = &'a str>,
    selected: &'a str,
    title: fn(&str) -> String,
) -> Vec<SelectOption> {
    let mut values: Vec<&str> = values.chain(Some(selected).filter(|selected| !selected.is_empty())).collect();
    values.sort_unstable();
    values.dedup();
    let option =
        |value: &str| SelectOption { value: value.to_owned(), title: title(value), is_selected: value == selected };
    values.into_iter().map(option).collect()
}

/// Counts failures by receiver and reason. The largest groups come first.
fn group_failures(failures: &[&CallbackSummary], path: &str, state: &str, filter: &FilterFields) -> Vec<FailureGroup> {
    let mut groups: HashMap<(&str, &str), (usize, Option<Timestamp>)> = HashMap::new();
    for failure in failures {
        let (count, last) = groups.entry((&failure.receiver, &failure.reason)).or_default();
        *count += 1;
        *last = (*last).max(failure.last_attempt_at);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by(|(one, (count, _)), (other, (other_count, _))| other_count.cmp(count).then(one.cmp(other)));
    let group = |((receiver, reason), (count, last)): ((&str, &str), (usize, Option<Timestamp>))| {
        let fields =
            FilterFields { receiver: receiver.to_owned(), reason: reason.to_owned(), product: filter.product.clone() };
        FailureGroup {
            path: page::link(path, &fields.query(state)),
            receiver: receiver.to_owned(),
            reason: reason.to_owned(),
            reason_label: reason_label(reason),
            count,
            last_attempt_at: last.map(UtcTime),
        }
    };
    groups.into_iter().map(group).collect()
}

fn failure_row(layout: &Layout, selection: CallbackSelection, failure: &CallbackSummary) -> FailureRow {
    let (kind, due_at) = match failure.state {
        CallbackState::GivenUp => (BadgeKind::Failed, None),
        CallbackState::Waiting { due_at } => (BadgeKind::Open, Some(due_at)),
        CallbackState::Delivered => (BadgeKind::Match, None),
    };
    let path = format!("{}/checks/{}/{}", layout.project_path(), failure.product, failure.check);
    FailureRow {
        id: ShortId::new(failure.check.to_string()).linked(path),
        check_id: failure.check.to_string(),
        product: failure.product,
        receiver: failure.receiver.clone(),
        reason: Badge::new(kind, reason_label(&failure.reason)),
        attempts: failure.attempts,
        last_attempt_at: failure.last_attempt_at.map(UtcTime),
        // Only the list of callbacks that are being retried has a column for the next attempt.
        due_at: due_at.filter(|_| selection == CallbackSelection::Retrying).map(UtcTime),
        may_resend: failure.may_resend && selection == CallbackSelection::GivenUp,
    }
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

/// Returns a label for a failure, whose name is in snake case.
pub fn reason_label(reason: &str) -> String {
    match reason {
        "blocked_address" => "address not allowed".to_owned(),
        "own_address_unknown" => "own host name not found".to_owned(),
        "unresolved" => "host name not found".to_owned(),
        "connection" => "connection failed".to_owned(),
        "certificate_untrusted" => "certificate self-signed or from an unknown issuer".to_owned(),
        "certificate_wrong_host" => "certificate for another host".to_owned(),
        "tls_version" => "TLS 1.2 or 1.3 not supported".to_owned(),
        "not_tls" => "receiver does not use TLS".to_owned(),
        "tls" => "TLS handshake failed".to_owned(),
        other => other.replace('_', " "),
    }
}

fn test_options(project: &Project) -> Vec<TestOption> {
    let option = |product: Product| {
        let receiver = project.configuration.callback_url(product)?.authority().to_owned();
        Some(TestOption { product: product.into_str(), title: product.title(), receiver })
    };
    Product::WITH_CALLBACKS.iter().copied().filter_map(option).collect()
}

fn test_result(flash: Flash) -> Option<TestResult> {
    let Flash::TestCallback { product, outcome, millis } = flash else { return None };
    let is_delivered = outcome == "200";
    Some(TestResult { product: product.title(), outcome: reason_label(&outcome), millis, is_delivered })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(receiver: &str, reason: &str) -> CallbackSummary {
        CallbackSummary {
            check: CheckId(uuid::Uuid::nil()),
            product: Product::ReverseSms,
            receiver: receiver.to_owned(),
            reason: reason.to_owned(),
            attempts: 7,
            last_attempt_at: None,
            state: CallbackState::GivenUp,
            may_resend: true,
        }
    }

    #[test]
    fn failures_are_grouped_by_receiver_and_reason() {
        let failures = [failure("a", "503"), failure("b", "timeout"), failure("b", "timeout"), failure("b", "503")];
        let failures: Vec<_> = failures.iter().collect();
        let fields = FilterFields { product: "reverse_sms".to_owned(), ..FilterFields::default() };
        let groups = group_failures(&failures, "/callbacks", "undeliverable", &fields);
        let shown: Vec<_> = groups.iter().map(|group| (&*group.receiver, &*group.reason, group.count)).collect();
        assert_eq!(shown, [("b", "timeout", 2), ("a", "503", 1), ("b", "503", 1)]);
        assert_eq!(groups[0].path, "/callbacks?state=undeliverable&product=reverse_sms&receiver=b&reason=timeout");
    }

    #[test]
    fn batches_round_trip() {
        let id = "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b";
        let batch = parse_batch(&format!("1700000000123.{id}.{id}")).unwrap();
        assert_eq!((batch.since.as_millisecond(), batch.first.to_string()), (1_700_000_000_123, id.to_owned()));
        for invalid in ["", "x", "1.2.3", &format!("1.{id}")] {
            assert_eq!(parse_batch(invalid), None, "{invalid}");
        }
    }
}
