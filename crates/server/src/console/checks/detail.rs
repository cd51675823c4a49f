//! Detail page of a check: timeline, callback attempts and resending the callback.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    lifecycle::{AnyCheck, AnyVerdict, Lifecycle, Reference},
    product::Product,
};
use ringtrue_engine::{
    callback::{Attempt, CallbackLog, ResendError},
    ports::CallbackState,
};

use super::{
    describe_sim_swap, masked_number, parse_product, result_label, status_class,
    timeline::{TimelineEvent, build_timeline, describe_attempt},
};
use crate::{
    console::{
        error::ConsoleError,
        forms::SessionForm,
        masking::{NumberMask, format_headers, redact_query},
        page::{self, Layout, Section, UtcTime},
        session::{ConsoleSession, ProjectAccess},
    },
    http::{App, path::PathParameters, problem::Problem, query::Query},
};

#[derive(Debug, Template)]
#[template(path = "console/check.html")]
struct CheckPage {
    layout: Layout,
    product: &'static str,
    list_path: String,
    id: String,
    status: &'static str,
    css_class: &'static str,
    result: String,
    facts: Vec<(&'static str, String)>,
    events: Vec<TimelineEvent>,
    callback: Option<CallbackView>,
    resend_path: String,
    was_resent: bool,
    is_open: bool,
    /// Titles and curl commands.
    commands: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct CallbackView {
    url: String,
    body: Option<String>,
    state: &'static str,
    css_class: &'static str,
    next_attempt: Option<UtcTime>,
    may_resend: bool,
    attempts: Vec<AttemptView>,
}

#[derive(Debug)]
struct AttemptView {
    number: u32,
    at: UtcTime,
    millis: i128,
    outcome: String,
    css_class: &'static str,
    request: Option<String>,
    response: Option<String>,
}

/// `GET …/checks/{product}/{check_id}`
pub async fn detail(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let ProjectAccess { workspace, project, .. } = session.authorize_project(&app, &ids, Permission::View).await?;
    let was_resent = Query::parse(query.as_deref(), &["resent"])?.get("resent").is_some();
    let (product, id) = (parse_product(&ids)?, ids.check()?);
    let check = app.engine.read_any_check(project.id, product, id).await.map_err(Problem::from)?;
    let history = app.engine.check_history(project.id, product, id).await.map_err(Problem::from)?;
    let log = app.engine.callback_log(project.id, id).await.map_err(Problem::from)?;
    let layout =
        Layout::for_session(&session, "Check").in_workspace(&session, &workspace, Section::Checks).in_project(&project);
    let list_path = format!("{}/checks/{product}", layout.project_path());
    let mut facts = vec![("Number", masked_number(&check))];
    facts.push(("Reference", check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned()));
    facts.push(("Network", check.network.as_ref().map(ToString::to_string).unwrap_or_default()));
    facts.push(("Mode", check.mode.as_str().to_owned()));
    if let Some(AnyVerdict::Sim(swap)) = check.verdict() {
        facts.push(("SIM", describe_sim_swap(swap)));
    }
    facts.retain(|(_, value)| !value.is_empty());
    Ok(page::render_ok(&CheckPage {
        product: product.title(),
        resend_path: format!("{list_path}/{id}/resend"),
        list_path,
        id: id.to_string(),
        status: check.status().as_str(),
        css_class: status_class(&check),
        result: result_label(&check),
        facts,
        events: build_timeline(&check, &history, log.as_ref()),
        callback: log.map(|log| callback_view(log, layout.may_develop())),
        was_resent,
        is_open: matches!(check.state, Lifecycle::Open(_)),
        commands: curl_commands(app.engine.base_url(), &check),
        layout,
    }))
}

/// `POST …/checks/{product}/{check_id}/resend`
pub async fn resend(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let ProjectAccess { manager, project, .. } =
        form.session.authorize_project(&app, &ids, Permission::Develop).await?;
    let (product, id) = (parse_product(&ids)?, ids.check()?);
    app.engine.resend_callback(&manager, &project, product, id, None).await?;
    let layout = Layout::for_session(&form.session, "").in_project(&project);
    Ok(page::see_other(&format!("{}/checks/{product}/{id}?resent", layout.project_path())))
}

impl From<ResendError> for ConsoleError {
    fn from(error: ResendError) -> Self {
        let text = error.to_string();
        match error {
            ResendError::Read(cause) => Problem::from(cause).into(),
            ResendError::NoCallback => ConsoleError::new(StatusCode::NOT_FOUND, "No callback", text),
            ResendError::StillOpen | ResendError::StillWaiting => {
                ConsoleError::new(StatusCode::CONFLICT, "Callback cannot be resent yet", text)
            }
            ResendError::Erased => ConsoleError::new(StatusCode::GONE, "Callback erased", text),
            ResendError::LimitReached => ConsoleError::new(StatusCode::CONFLICT, "Resend limit reached", text),
        }
    }
}

/// Only developers see bodies, headers and the URL's query, which may contain the receiver's secrets.
fn callback_view(log: CallbackLog, may_develop: bool) -> CallbackView {
    let mask = NumberMask::for_callback(log.body.as_deref());
    let (state, css_class, next_attempt) = match log.state {
        CallbackState::Waiting { due_at } => ("waiting", "s3", Some(UtcTime(due_at))),
        CallbackState::Delivered => ("delivered", "s2", None),
        CallbackState::GivenUp => ("undeliverable", "s5", None),
    };
    let url = log.url.map(|url| mask.apply(&if may_develop { url } else { redact_query(&url) }));
    CallbackView {
        url: url.unwrap_or_else(|| "erased".to_owned()),
        may_resend: next_attempt.is_none() && log.body.is_some(),
        body: log.body.filter(|_| may_develop).map(|body| mask.apply(&body)),
        state,
        css_class,
        next_attempt,
        attempts: log.attempts.into_iter().map(|attempt| attempt_view(attempt, may_develop.then_some(&mask))).collect(),
    }
}

/// Without a mask, only the outcome is shown.
fn attempt_view(attempt: Attempt, mask: Option<&NumberMask>) -> AttemptView {
    let outcome = describe_attempt(&attempt);
    let shown = attempt.exchange.zip(mask);
    let (request, response) = shown.map_or((None, None), |(exchange, mask)| {
        let sent = exchange.sent;
        let request = format!("POST {}\n{}\n{}", sent.url, format_headers(&sent.headers), sent.body);
        let response = exchange
            .received
            .map(|received| format!("{}\n{}\n{}", received.status, format_headers(&received.headers), received.body));
        (Some(mask.apply(&request)), response.map(|response| mask.apply(&response)))
    });
    AttemptView {
        number: attempt.number,
        at: UtcTime(attempt.started_at),
        millis: attempt.started_at.duration_until(attempt.ended_at).as_millis(),
        outcome,
        css_class: if attempt.status == Some(200) { "s2" } else { "s5" },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_quoted_text_is_one_word() {
        for (text, word) in [("{}", "'{}'"), ("it's", "'it'\\''s'"), ("$(x) `y` \\", "'$(x) `y` \\'")] {
            assert_eq!(shell_quote(text), word);
        }
    }
}
