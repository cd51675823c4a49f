//! A check's own page: what happened and when, every attempt at its callback, and sending that again.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    lifecycle::{AnyCheck, AnyVerdict, Lifecycle, Reference},
    product::Product,
};
use ringtrue_engine::{
    callback::{Attempt, CallbackLog, ResendError},
    ports::CallbackState,
};

use super::{
    number_of, product_of, result_of, swap_words,
    timeline::{Event, outcome_of, timeline},
    tone,
};
use crate::{
    console::{
        forms::SignedForm,
        masking::{NumberMask, header_lines, without_query},
        page::{self, Frame, Moment, Section},
        refusal::Refusal,
        visitor::{InProject, SignedIn},
    },
    http::{App, path::PathIds, problem::Problem, query::Query},
};

#[derive(Debug, Template)]
#[template(path = "console/check.html")]
struct CheckPage {
    frame: Frame,
    product: &'static str,
    back: String,
    id: String,
    status: &'static str,
    tone: &'static str,
    result: String,
    facts: Vec<(&'static str, String)>,
    events: Vec<Event>,
    callback: Option<CallbackView>,
    resend: String,
    was_resent: bool,
    is_open: bool,
    /// The same by the API, and what each does.
    commands: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct CallbackView {
    url: String,
    body: Option<String>,
    state: &'static str,
    tone: &'static str,
    next: Option<Moment>,
    may_resend: bool,
    attempts: Vec<AttemptView>,
}

#[derive(Debug)]
struct AttemptView {
    number: u32,
    at: Moment,
    millis: i128,
    outcome: String,
    tone: &'static str,
    request: Option<String>,
    answer: Option<String>,
}

/// `GET …/checks/{product}/{check_id}`
pub async fn one(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let InProject { workspace, project, .. } = who.project(&app, &ids, Power::Look).await?;
    let was_resent = Query::parse(query.as_deref(), &["resent"])?.get("resent").is_some();
    let (product, id) = (product_of(&ids)?, ids.check()?);
    let check = app.engine.any_check(project.id, product, id).await.map_err(Problem::from)?;
    let course = app.engine.course_of(project.id, product, id).await.map_err(Problem::from)?;
    let log = app.engine.callback_log(project.id, id).await.map_err(Problem::from)?;
    let frame = Frame::of(&who, "Check").in_workspace(&who, &workspace, Section::Checks).in_project(&project);
    let back = format!("{}/checks/{product}", frame.project_path());
    let mut facts = vec![("Number", number_of(&check))];
    facts.push(("Reference", check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned()));
    facts.push(("Network", check.network.as_ref().map(ToString::to_string).unwrap_or_default()));
    facts.push(("Mode", check.mode.as_str().to_owned()));
    if let Some(AnyVerdict::Sim(swap)) = check.verdict() {
        facts.push(("SIM", swap_words(swap)));
    }
    facts.retain(|(_, value)| !value.is_empty());
    Ok(page::ok(&CheckPage {
        product: product.title(),
        resend: format!("{back}/{id}/resend"),
        back,
        id: id.to_string(),
        status: check.status().as_str(),
        tone: tone(&check),
        result: result_of(&check),
        facts,
        events: timeline(&check, &course, log.as_ref()),
        callback: log.map(|log| callback_view(log, frame.may_develop())),
        was_resent,
        is_open: matches!(check.state, Lifecycle::Open(_)),
        commands: commands(app.engine.base_url(), &check),
        frame,
    }))
}

/// `POST …/checks/{product}/{check_id}/resend`
pub async fn resend(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let InProject { manager, project, .. } = form.who.project(&app, &ids, Power::Develop).await?;
    let (product, id) = (product_of(&ids)?, ids.check()?);
    app.engine.resend_callback(&manager, &project, product, id, None).await?;
    let frame = Frame::of(&form.who, "").in_project(&project);
    Ok(page::see_other(&format!("{}/checks/{product}/{id}?resent", frame.project_path())))
}

impl From<ResendError> for Refusal {
    fn from(error: ResendError) -> Self {
        let text = error.to_string();
        match error {
            ResendError::Read(cause) => Problem::from(cause).into(),
            ResendError::NoCallback => Refusal::new(StatusCode::NOT_FOUND, "There is no callback", text),
            ResendError::StillOpen | ResendError::StillWaiting => Refusal::new(StatusCode::CONFLICT, "Not yet", text),
            ResendError::Erased => Refusal::new(StatusCode::GONE, "Nothing is left to send", text),
            ResendError::LimitReached => Refusal::new(StatusCode::CONFLICT, "Sent again too often", text),
        }
    }
}

/// Bodies, headers and the query of the URL are for developers: they may hold the receiver's secrets.
fn callback_view(log: CallbackLog, may_develop: bool) -> CallbackView {
    let mask = NumberMask::for_callback(log.body.as_deref());
    let (state, tone, next) = match log.state {
        CallbackState::Waiting { due_at } => ("waiting", "s3", Some(Moment(due_at))),
        CallbackState::Delivered => ("delivered", "s2", None),
        CallbackState::GivenUp => ("given up", "s5", None),
    };
    let url = log.url.map(|url| mask.apply(&if may_develop { url } else { without_query(&url) }));
    CallbackView {
        url: url.unwrap_or_else(|| "erased".to_owned()),
        may_resend: next.is_none() && log.body.is_some(),
        body: log.body.filter(|_| may_develop).map(|body| mask.apply(&body)),
        state,
        tone,
        next,
        attempts: log.attempts.into_iter().map(|attempt| attempt_view(attempt, may_develop.then_some(&mask))).collect(),
    }
}

/// Without a mask, only the outcome is shown.
fn attempt_view(attempt: Attempt, mask: Option<&NumberMask>) -> AttemptView {
    let outcome = outcome_of(&attempt);
    let shown = attempt.exchange.zip(mask);
    let (request, answer) = shown.map_or((None, None), |(exchange, mask)| {
        let sent = exchange.sent;
        let request = format!("POST {}\n{}\n{}", sent.url, header_lines(&sent.headers), sent.body);
        let answer = exchange
            .received
            .map(|received| format!("{}\n{}\n{}", received.status, header_lines(&received.headers), received.body));
        (Some(mask.apply(&request)), answer.map(|answer| mask.apply(&answer)))
    });
    AttemptView {
        number: attempt.number,
        at: Moment(attempt.started_at),
        millis: attempt.started_at.duration_until(attempt.ended_at).as_millis(),
        outcome,
        tone: if attempt.status == Some(200) { "s2" } else { "s5" },
        request,
        answer,
    }
}

/// The calls that show the same, and that make another like it.
fn commands(base_url: &str, check: &AnyCheck) -> Vec<(&'static str, String)> {
    let path = match check.product {
        Product::ReverseSms => "number-verification/reverse-sms-checks",
        Product::SecureSna => "number-verification/secure-sna-checks",
        Product::Discovery => "number-verification/discovery-checks",
        Product::SimSwap | Product::Eligibility => "sim-swap-checks",
    };
    let mut body = serde_json::Map::new();
    if check.product != Product::Discovery {
        // The number itself is not kept.
        body.insert("phone_number".to_owned(), "+990123456710".into());
    }
    if let Some(reference) = &check.reference {
        body.insert("reference_id".to_owned(), reference.as_str().into());
    }
    let body = quoted(&serde_json::Value::Object(body).to_string());
    let curl = format!("curl -H \"Authorization: Bearer $TOKEN\" {base_url}/v1/{path}");
    let another = format!("{curl} -H \"Content-Type: application/json\" -d {body}");
    vec![("Read it", format!("{curl}/{}", check.id)), ("Make another like it", another)]
}

/// As a shell takes it for one word, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_what_is_quoted_for_one_word() {
        for (text, word) in [("{}", "'{}'"), ("it's", "'it'\\''s'"), ("$(x) `y` \\", "'$(x) `y` \\'")] {
            assert_eq!(quoted(text), word);
        }
    }
}
