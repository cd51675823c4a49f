//! Page of a check: its facts, steps, callback and API commands.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_domain::{
    account::Permission,
    lifecycle::{AnyCheck, AnyVerdict, CheckId, CheckStatus, Lifecycle, Reference},
    product::Product,
    tenancy::ProjectId,
    verification::{Progress, Step, StepState},
};
use ringtrue_engine::{
    callbacks::LoggedCallback, checks::ReadError, ports::callbacks::CallbackState, rate_limits::RateLimitClass,
};
use ringtrue_web::{
    app::App,
    development::shell_quote,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    observe::{
        callbacks::resend_error,
        checks::{
            check_view::{describe_sim_swap, masked_number, parse_product, result_label},
            timeline::{StepRecord, TimelineEvent, VerificationEvents, build_timeline},
        },
    },
    page::{
        self, Badge, BadgeKind, Layout, MenuSection, ShortId, UtcTime,
        error::ConsoleError,
        network_name::network_name,
        redaction::{NumberMask, redact_query},
    },
    session::{console_session::ProjectAccess, forms::SessionForm},
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}/{check_id}", detail)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}/{check_id}/resend", resend)
}

#[derive(Debug, Template)]
#[template(path = "observe/check.html")]
struct CheckPage {
    layout: Layout,
    /// Title of the list to which the page links back.
    list_title: String,
    is_verification: bool,
    list_path: String,
    id: ShortId,
    path: String,
    badge: Badge,
    status: &'static str,
    facts: Vec<(&'static str, String)>,
    /// Path of the verification's page, if this check is a step of a verification.
    verification_path: Option<String>,
    /// Steps, if this check is a verification. Otherwise empty.
    steps: Vec<StepView>,
    events: Vec<TimelineEvent>,
    callback: Option<CallbackView>,
    resend_path: String,
    was_resent: bool,
    is_open: bool,
    /// Titles and curl commands.
    commands: Vec<(&'static str, String)>,
    /// Scope of the token that the commands need.
    scope: Product,
}

/// A step of a verification.
#[derive(Debug)]
struct StepView {
    product: &'static str,
    /// Path of the step's check. `None`: no check was created for this step.
    path: Option<String>,
    status: &'static str,
    badge: Badge,
}

impl StepView {
    fn new(project_path: &str, step: &Step, open_status: Option<CheckStatus>) -> Self {
        let (kind, text) = match (step.state, step.product) {
            (StepState::Open, _) => (BadgeKind::Open, "open"),
            (StepState::Completed { matched: true }, Product::SimSwap) => (BadgeKind::Match, "no SIM change"),
            (StepState::Completed { matched: false }, Product::SimSwap) => (BadgeKind::NoMatch, "SIM changed"),
            (StepState::Completed { matched: true }, _) => (BadgeKind::Match, "match"),
            (StepState::Completed { matched: false }, _) => (BadgeKind::NoMatch, "no match"),
            (StepState::Expired, _) => (BadgeKind::Expired, "expired"),
            (StepState::Error(code), _) => (BadgeKind::Failed, code.into_str()),
        };
        StepView {
            product: step.product.title(),
            path: step.check.map(|check| format!("{project_path}/checks/{}/{check}", step.product)),
            status: step.state.ended_status().or(open_status).unwrap_or(CheckStatus::Accepted).into_str(),
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

/// `GET …/checks/{product}/{check_id}`
async fn detail(
    State(app): State<App>,
    access: ProjectAccess,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let was_resent = Query::parse(query.as_deref(), &["resent"])?.get("resent").is_some();
    let (product, id) = (parse_product(&ids)?, ids.check_id()?);
    let project = access.project.id;
    // Must come first, because reading a verification expires an overdue step, which the reads below then show.
    let (progress, step_status) = match product {
        Product::Verification => {
            let verification = app.engine.verifications.read(project, id).await?;
            (Some(verification.progress), verification.step_status)
        }
        _ => (None, None),
    };
    let check = app.engine.checks.read_any_check(project, product, id).await?;
    let history = app.engine.checks.read_check_history(project, product, id).await?;
    let verification_events = match &progress {
        Some(progress) => Some(load_verification_events(&app, project, id, progress).await?),
        None => None,
    };
    let callback = app.engine.callbacks.read_logged_callback(project, id).await?;
    let is_verification = product == Product::Verification;
    let layout = access.layout(if is_verification { "Verification" } else { "Check" }, MenuSection::Checks);
    let list_path = format!("{}/checks/{product}", layout.project_path());
    let mut facts = vec![
        ("Number", masked_number(&check)),
        ("Reference", check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned()),
        ("Network", check.network.as_ref().map(|id| network_name(&app, id)).unwrap_or_default()),
        ("Mode", check.mode.into_str().to_owned()),
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
    let step_view = |step: &Step| StepView::new(layout.project_path(), step, step_status);
    Ok(page::render_ok(&CheckPage {
        list_title: if is_verification { "Verifications".to_owned() } else { format!("{} checks", product.title()) },
        is_verification,
        path: format!("{list_path}/{id}"),
        resend_path: format!("{list_path}/{id}/resend"),
        list_path,
        id: ShortId::new(id.to_string()),
        badge,
        status: check.status().into_str(),
        facts,
        verification_path: check
            .verification
            .map(|id| format!("{}/checks/{}/{id}", layout.project_path(), Product::Verification)),
        steps: progress.iter().flat_map(|progress| &progress.steps).map(step_view).collect(),
        events: build_timeline(&check, &history, verification_events.as_ref(), callback.as_ref(), layout.may_develop()),
        callback: callback.map(|callback| callback_view(callback, layout.may_develop())),
        was_resent,
        is_open: matches!(check.state, Lifecycle::Open(_)),
        commands: curl_commands(app.engine.base_url(), &check),
        scope: product,
        layout,
    }))
}

/// Loads the steps of a verification, and when its page was opened and its code redeemed.
async fn load_verification_events(
    app: &App,
    project: ProjectId,
    id: CheckId,
    progress: &Progress,
) -> Result<VerificationEvents, ConsoleError> {
    let history = app.engine.verifications.history(project, id).await?;
    let checks = &app.engine.checks;
    let mut steps = Vec::new();
    for step in &progress.steps {
        let check = match step.check {
            // The check of an open SIM Swap step is stored only when the step ends.
            Some(check) if (step.product, step.state) != (Product::SimSwap, StepState::Open) => {
                let record = checks.read_any_check(project, step.product, check).await;
                match record {
                    Ok(record) => Some((record, checks.read_check_history(project, step.product, check).await?)),
                    // A SIM Swap step without an answer has no check.
                    Err(ReadError::NotFound) => None,
                    Err(error) => return Err(error.into()),
                }
            }
            Some(_) | None => None,
        };
        steps.push(StepRecord { step: *step, check });
    }
    Ok(VerificationEvents { history, steps })
}

/// `POST …/checks/{product}/{check_id}/resend`
async fn resend(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let form = form.with_rate_limit_class(RateLimitClass::Create);
    let (access, _) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let (product, id) = (parse_product(&ids)?, ids.check_id()?);
    let resent = app.engine.callbacks.resend_callback(&access.actor, &access.project, product, id, None).await;
    resent.map_err(resend_error)?;
    Ok(page::see_other(&format!("{}/checks/{product}/{id}?resent", access.path())))
}

/// Formats JSON with one member on each line. Returns other text unchanged.
fn indent_json(text: &str) -> String {
    let mut formatted = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let written = serde_transcode::transcode(&mut reader, &mut serde_json::Serializer::pretty(&mut formatted));
    written.and_then(|()| reader.end()).ok().and_then(|()| String::from_utf8(formatted).ok()).unwrap_or(text.to_owned())
}

/// Builds the view of a callback. Only developers see bodies, headers and the URL's query, because they may contain the
/// receiver's secrets.
fn callback_view(callback: LoggedCallback, may_develop: bool) -> CallbackView {
    let mask = NumberMask::for_callback(callback.body.as_deref());
    let (kind, state, next_attempt) = match callback.state {
        CallbackState::Waiting { due_at } => (BadgeKind::Open, "waiting", Some(UtcTime(due_at))),
        CallbackState::Delivered => (BadgeKind::Match, "delivered", None),
        CallbackState::GivenUp => (BadgeKind::Failed, "undeliverable", None),
    };
    let url = callback.url.map(|url| mask.apply(&if may_develop { url } else { redact_query(&url) }));
    CallbackView {
        url: url.unwrap_or_else(|| "erased".to_owned()),
        may_resend: next_attempt.is_none() && callback.body.is_some(),
        body: callback.body.filter(|_| may_develop).map(|body| indent_json(&mask.apply(&body))),
        badge: Badge::new(kind, state),
        next_attempt,
    }
}

/// Renders curl commands that retrieve this check and create a similar one.
fn curl_commands(base_url: &str, check: &AnyCheck) -> Vec<(&'static str, String)> {
    let mut body = serde_json::Map::new();
    if check.product.facts().takes_number {
        // The check's own number is not stored, so the command has an example number.
        body.insert("phone_number".to_owned(), "+990123456710".into());
    }
    if let Some(reference) = &check.reference {
        body.insert("reference_id".to_owned(), reference.as_str().into());
    }
    let body = shell_quote(&serde_json::Value::Object(body).to_string());
    let curl = format!("curl -H \"Authorization: Bearer $TOKEN\" {base_url}{}", check.product.api_path());
    let create = format!("{curl} -H \"Content-Type: application/json\" -d {body}");
    let (retrieve_title, create_title) = match check.product {
        Product::Verification => ("Retrieve this verification", "Create a similar verification"),
        _ => ("Retrieve this check", "Create a similar check"),
    };
    vec![(retrieve_title, format!("{curl}/{}", check.id)), (create_title, create)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_in_its_own_order() {
        for (text, expected) in [
            (r#"{"b":1,"a":[true,{}]}"#, "{\n  \"b\": 1,\n  \"a\": [\n    true,\n    {}\n  ]\n}"),
            ("{}", "{}"),
            ("not JSON", "not JSON"),
            ("{} {}", "{} {}"),
        ] {
            assert_eq!(indent_json(text), expected);
        }
    }
}
