//! Page that lists a project's callbacks, with filters, charts of response times and results, and counts of failures by
//! receiver and reason. It resends callbacks and shows their progress, and sends test callbacks.

use std::{collections::HashMap, sync::Arc};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{account::Permission, lifecycle::CheckId, page::Page, product::Product, tenancy::Project};
use ringtrue_engine::{
    callbacks::{
        BulkResendResult, CallbackFilter, CallbackSummary, DeliveryPeriod, DeliveryStatistics, MAX_BULK_RESENDS,
        MAX_COUNTED_ATTEMPTS, MAX_LISTED_CALLBACKS, ResendBatch, ResendError, TestCallbackError,
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
    dependencies::ConsoleDependencies,
    observe::{
        failure_label::failure_label,
        issues::{self, IssueView},
    },
    page::{
        self, Badge, BadgeKind, Layout, MenuSection, Pagination, SelectOption, ShortId, Tab, UtcTime,
        chart::{Chart, Plot, Series, Unit},
        error::ConsoleError,
        time_range::TimeRange,
    },
    session::{
        console_session::ProjectAccess,
        flash::Flash,
        forms::{FormFields, SessionForm},
    },
};

/// States to filter by: query value, title and selection. The first one is the default.
const STATES: [(&str, &str, CallbackSelection); 4] = [
    ("all", "All deliveries", CallbackSelection::All),
    (UNDELIVERABLE, "Undeliverable", CallbackSelection::GivenUp),
    ("retrying", "Retrying", CallbackSelection::Retrying),
    ("delivered", "Delivered later", CallbackSelection::Recovered),
];

/// Query value of the state of callbacks that were given up.
const UNDELIVERABLE: &str = "undeliverable";

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
    issues: Vec<IssueView>,
    tabs: Vec<Tab>,
    state: &'static str,
    /// Whether the listed callbacks are undeliverable, so that they can be resent.
    is_resendable: bool,
    products: Vec<SelectOption>,
    receivers: Vec<SelectOption>,
    reasons: Vec<SelectOption>,
    presets: Vec<RangePreset>,
    filter: FilterFields,
    is_filtered: bool,
    /// `None`: the list is complete.
    cut: Option<TruncationNotice>,
    max_listed: u32,
    max_resends: usize,
    /// `None`: the list has no attempts, or does not contain all callbacks.
    charts: Option<DeliveryCharts>,
    groups: Vec<FailureGroup>,
    callbacks: Vec<CallbackRow>,
    columns: Vec<&'static str>,
    /// Whether rows have a button that resends the callback.
    has_row_actions: bool,
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
    from: String,
    to: String,
}

/// A link that shows the callbacks of a common time range, or of all times if the range is selected.
#[derive(Debug)]
struct RangePreset {
    title: &'static str,
    path: String,
    is_on: bool,
}

/// Says that a list leaves out older callbacks.
#[derive(Debug)]
struct TruncationNotice {
    /// Creation time of the oldest check whose callback may be in the list.
    since: UtcTime,
    /// Path of the list of older callbacks.
    older: String,
}

/// Charts of the attempts to deliver the listed callbacks.
#[derive(Debug)]
struct DeliveryCharts {
    response_times: Chart,
    results: Chart,
    is_truncated: bool,
    max_attempts: u32,
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
struct CallbackRow {
    id: ShortId,
    check_id: String,
    product: Product,
    receiver: String,
    /// `None`: all callbacks in the list have the same state.
    state: Option<Badge>,
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
    Extension(dependencies): Extension<Arc<ConsoleDependencies>>,
    access: ProjectAccess,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let known =
        ["state", "product", "receiver", "reason", "from", "to", "page", "queued", "refused", "remaining", "batch"];
    let query = Query::parse(query.as_deref(), &known)?;
    let (state, _, selection) =
        STATES.into_iter().find(|(name, ..)| query.get("state") == Some(*name)).unwrap_or(STATES[0]);
    let filter = parse_filter(selection, |name| query.get(name))?;
    let any_receiver = CallbackFilter { receiver: None, reason: None, ..filter.clone() };
    let found = app.engine.callbacks.list_callbacks(&access.project, &any_receiver).await?;
    let all = found.callbacks;
    let progress = load_progress(&app, &access.project, &query).await?;
    let mut issues = issues::load(&app, &dependencies, &access).await?;
    issues.retain(|issue| issue.section == MenuSection::Callbacks);

    let layout = access.layout("Callbacks", MenuSection::Callbacks);
    let path = format!("{}/callbacks", layout.project_path());
    let matching: Vec<_> = all.iter().filter(|callback| filter.matches(callback)).collect();
    let statistics = match selection {
        CallbackSelection::All => {
            app.engine.callbacks.delivery_statistics(access.project.id, matching.iter().copied()).await?
        }
        _ => None,
    };
    let page = Page::of_list(&matching, query.page_with_default_size(page::PAGE_SIZE)?);
    let fields = FilterFields::from(&filter);
    let has_row_actions =
        layout.may_develop() && matches!(selection, CallbackSelection::All | CallbackSelection::GivenUp);
    let time_column = if selection == CallbackSelection::Retrying { "Next attempt" } else { "Last attempt" };
    let test_result = Flash::read(&app, &access.session, &headers, &path).and_then(test_result);
    let had_result = test_result.is_some();
    let tab = |(name, title, _): (&'static str, &'static str, CallbackSelection)| Tab {
        path: page::path_with_query(&path, &[("state", Some(name))]),
        title,
        is_current: name == state,
    };
    let response = page::render_ok(&CallbacksPage {
        issues,
        tabs: STATES.map(tab).into(),
        state,
        is_resendable: selection == CallbackSelection::GivenUp,
        products: page::select_options(
            Product::WITH_CALLBACKS.iter().copied().map(|product| (product.into_str(), product.title())),
            filter.product.map(|product| product.into_str()),
        ),
        receivers: options(all.iter().map(|callback| callback.receiver.as_str()), &fields.receiver, str::to_owned),
        reasons: options(all.iter().map(|callback| callback.reason.as_str()), &fields.reason, failure_label),
        presets: range_presets(&path, state, &fields, app.engine.clock().now()),
        is_filtered: filter != CallbackFilter::new(selection),
        cut: found.read_back_to.map(|since| truncation_notice(&path, state, &fields, since)),
        max_listed: MAX_LISTED_CALLBACKS,
        max_resends: MAX_BULK_RESENDS,
        charts: statistics.as_ref().map(delivery_charts),
        groups: group_failures(&matching, &path, state, &fields),
        callbacks: page.items.iter().map(|callback| callback_row(&layout, selection, callback)).collect(),
        columns: match selection {
            CallbackSelection::All => {
                vec!["Check", "Product", "Receiver", "State", "Last result", "#Attempts", time_column]
            }
            _ => vec!["Check", "Product", "Receiver", "Last result", "#Attempts", time_column],
        },
        has_row_actions,
        time_column,
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
    let filter = parse_filter(CallbackSelection::GivenUp, |name| fields.get(name))?;
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
    let (check, product) = (ids.check_id()?, parse_product(&fields).ok_or_else(ConsoleError::not_found)?);
    let resent = app.engine.callbacks.resend_callback(&access.actor, &access.project, product, check, None).await;
    let since = resent.map_err(resend_error)?.due_at;
    let batch = Some(ResendBatch { since, first: check, last: check });
    // Keeps the filter of the list. The form's `product` is the callback's own, so the filter's fields have the prefix
    // `filter_`.
    let filter = parse_filter(CallbackSelection::GivenUp, |name| fields.get(&format!("filter_{name}")))?;
    Ok(redirect_to_progress(&access, &filter, BulkResendResult { queued: 1, refused: 0, remaining: 0, batch }))
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
fn parse_filter<'q>(
    selection: CallbackSelection,
    get: impl Fn(&str) -> Option<&'q str>,
) -> Result<CallbackFilter, ConsoleError> {
    let text = |name: &str| {
        let text = get(name).map(str::trim).filter(|text| !text.is_empty() && text.len() <= MAX_FILTER_BYTES);
        text.map(str::to_owned)
    };
    let product = text("product").and_then(|name| name.parse().ok());
    let TimeRange { from, to } = TimeRange::parse(&get)?;
    Ok(CallbackFilter {
        selection,
        product: product.filter(|product: &Product| product.facts().sends_callbacks),
        receiver: text("receiver"),
        reason: text("reason"),
        created_from: from,
        created_before: to,
    })
}

impl From<&CallbackFilter> for FilterFields {
    fn from(filter: &CallbackFilter) -> Self {
        let [from, to] = TimeRange { from: filter.created_from, to: filter.created_before }.fields();
        FilterFields {
            product: filter.product.map(|product| product.to_string()).unwrap_or_default(),
            receiver: filter.receiver.clone().unwrap_or_default(),
            reason: filter.reason.clone().unwrap_or_default(),
            from,
            to,
        }
    }
}

impl FilterFields {
    fn query<'f>(&'f self, state: &'f str) -> [(&'static str, Option<&'f str>); 6] {
        let given = |text: &'f str| Some(text).filter(|text| !text.is_empty());
        [
            ("state", Some(state)),
            ("product", given(&self.product)),
            ("receiver", given(&self.receiver)),
            ("reason", given(&self.reason)),
            ("from", given(&self.from)),
            ("to", given(&self.to)),
        ]
    }

    /// Returns the filter with another time range.
    fn with_range(&self, range: TimeRange) -> Self {
        let [from, to] = range.fields();
        FilterFields { from, to, ..self.clone() }
    }
}

fn range_presets(path: &str, state: &str, fields: &FilterFields, now: Timestamp) -> Vec<RangePreset> {
    let preset = |(title, range): (&'static str, TimeRange)| {
        let selected = fields.with_range(range);
        let is_on = (&selected.from, &selected.to) == (&fields.from, &fields.to);
        let target = if is_on { fields.with_range(TimeRange::default()) } else { selected };
        RangePreset { title, path: page::path_with_query(path, &target.query(state)), is_on }
    };
    TimeRange::presets(now).map(preset).collect()
}

fn truncation_notice(path: &str, state: &str, fields: &FilterFields, since: Timestamp) -> TruncationNotice {
    // Includes the checks that were created in the same millisecond.
    let end = since.checked_add(SignedDuration::from_millis(1)).ok();
    let [_, to] = TimeRange { from: None, to: end }.fields();
    let older = FilterFields { to, ..fields.clone() };
    TruncationNotice { since: UtcTime(since), older: page::path_with_query(path, &older.query(state)) }
}

fn delivery_charts(statistics: &DeliveryStatistics) -> DeliveryCharts {
    let (period, per, format) = match statistics.period.as_mins() {
        ..=1 => ("Minute", "minute", "%H:%M"),
        2..=5 => ("5 minutes from", "5 minutes", "%H:%M"),
        6..60 => ("15 minutes from", "15 minutes", "%b %-d, %H:%M"),
        60 => ("Hour", "hour", "%b %-d, %H:%M"),
        61..=360 => ("6 hours from", "6 hours", "%b %-d, %H:%M"),
        361..=1_440 => ("Day", "day", "%b %-d"),
        _ => ("Week from", "week", "%b %-d"),
    };
    let plot = |subject: &str, unit: Unit, series: Vec<Series>| Plot {
        title: format!("{subject} per {per}"),
        period,
        labels: statistics.periods.iter().map(|period| period.start.strftime(format).to_string()).collect(),
        series,
        unit,
    };
    let series = |name, css_class, value: fn(&DeliveryPeriod) -> Option<i64>| Series {
        name,
        css_class,
        values: statistics.periods.iter().map(value).collect(),
    };
    let percentiles = vec![series("p95", "second", |period| period.p95), series("p50", "first", |period| period.p50)];
    let results = vec![
        series("Delivered", "match", |period| Some(period.delivered)),
        series("Other status", "failed", |period| Some(period.rejected)),
        series("No response", "expired", |period| Some(period.unanswered)),
    ];
    DeliveryCharts {
        response_times: plot("Response times", Unit::Millis, percentiles).into_line_chart(),
        results: plot("Attempts", Unit::Count, results).into_bar_chart(),
        is_truncated: statistics.is_truncated,
        max_attempts: MAX_COUNTED_ATTEMPTS,
    }
}

/// Redirects to the list, which shows the progress of the resend.
fn redirect_to_progress(access: &ProjectAccess, filter: &CallbackFilter, resend: BulkResendResult) -> Response {
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
    let query = [&fields.query(UNDELIVERABLE)[..], &progress].concat();
    page::see_other(&page::path_with_query(&format!("{}/callbacks", access.path()), &query))
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
        let fields = FilterFields { receiver: receiver.to_owned(), reason: reason.to_owned(), ..filter.clone() };
        FailureGroup {
            path: page::path_with_query(path, &fields.query(state)),
            receiver: receiver.to_owned(),
            reason: reason.to_owned(),
            reason_label: failure_label(reason),
            count,
            last_attempt_at: last.map(UtcTime),
        }
    };
    groups.into_iter().map(group).collect()
}

fn callback_row(layout: &Layout, selection: CallbackSelection, callback: &CallbackSummary) -> CallbackRow {
    let (kind, state, due_at) = match callback.state {
        CallbackState::GivenUp => (BadgeKind::Failed, "undeliverable", None),
        CallbackState::Waiting { due_at } if callback.attempts > 0 => (BadgeKind::Open, "retrying", Some(due_at)),
        CallbackState::Waiting { due_at } => (BadgeKind::Open, "waiting", Some(due_at)),
        CallbackState::Delivered => (BadgeKind::Match, "delivered", None),
    };
    let is_all = selection == CallbackSelection::All;
    let path = format!("{}/checks/{}/{}#callback", layout.project_path(), callback.product, callback.check);
    CallbackRow {
        id: ShortId::new(callback.check.to_string()).linked(path),
        check_id: callback.check.to_string(),
        product: callback.product,
        receiver: callback.receiver.clone(),
        state: is_all.then(|| Badge::new(kind, state)),
        reason: Badge::new(if is_all { BadgeKind::Neutral } else { kind }, failure_label(&callback.reason)),
        attempts: callback.attempts,
        last_attempt_at: callback.last_attempt_at.map(UtcTime),
        // Only the list of callbacks that are being retried has a column for the next attempt.
        due_at: due_at.filter(|_| selection == CallbackSelection::Retrying).map(UtcTime),
        may_resend: callback.may_resend && callback.state == CallbackState::GivenUp,
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
    Some(TestResult { product: product.title(), outcome: failure_label(&outcome), millis, is_delivered })
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
            failing_since: None,
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
