//! The keys of the deployment, and relieving them: what `ringtrue keys` can do, as forms.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::key_schedule::KeyState;
use ringtrue_engine::{deployment::NamedKey, keys::RotateError, ports::KeyPurpose};

use super::{
    forms::SignedForm,
    page::{self, Frame, Moment, Section},
    refusal::{Refusal, sentence},
    visitor::SignedIn,
};
use crate::http::{App, Routes, query::Query};

const PATH: &str = "/console/deployment/keys";

pub fn routes() -> Routes {
    Routes::default().get("/console/deployment/keys", show).post("/console/deployment/keys", rotate)
}

#[derive(Debug, Template)]
#[template(path = "console/keys.html")]
struct KeysPage {
    frame: Frame,
    jwks: String,
    groups: Vec<Group>,
    rotated: Option<&'static str>,
    error: Option<String>,
}

/// The keys of one purpose.
#[derive(Debug)]
struct Group {
    purpose: &'static str,
    title: &'static str,
    text: &'static str,
    /// What a rotation does, planned and in an emergency. `None`: there is none.
    rotation: Option<(&'static str, &'static str)>,
    keys: Vec<KeyRow>,
}

#[derive(Debug)]
struct KeyRow {
    name: String,
    state: &'static str,
    tone: &'static str,
    published_at: Moment,
    active_from: Moment,
    retires_at: Option<Moment>,
    gone_at: Option<Moment>,
}

/// `GET /console/deployment/keys`
async fn show(State(app): State<App>, who: SignedIn, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref(), &["rotated"])?;
    let rotated = query.get("rotated").and_then(purpose_of);
    shown(&app, &who, StatusCode::OK, rotated, None).await
}

/// `POST /console/deployment/keys`
async fn rotate(State(app): State<App>, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let administrator = who.administrator()?;
    let purpose = fields.get("purpose").and_then(purpose_of).ok_or_else(Refusal::not_found)?;
    let emergency = fields.has("emergency");
    let wanted = if emergency { purpose.as_str() } else { "yes" };
    if fields.get("confirm") != Some(wanted) {
        let error = if emergency {
            format!("Nothing was changed: type `{purpose}` to confirm.")
        } else {
            "Nothing was changed: tick the box to confirm.".to_owned()
        };
        return shown(&app, &who, StatusCode::BAD_REQUEST, None, Some(error)).await;
    }
    match app.engine.rotate_key(&administrator, purpose, emergency).await {
        Ok(_) => Ok(page::see_other(&format!("{PATH}?rotated={purpose}"))),
        Err(RotateError::Store(cause)) => Err(cause.into()),
        Err(RotateError::UnderWay(_)) => {
            let error = format!("The newest {purpose} key is not in use yet: wait for it, or rotate in an emergency.");
            shown(&app, &who, StatusCode::CONFLICT, None, Some(error)).await
        }
        Err(
            error @ (RotateError::Overtaken(_)
            | RotateError::Fixed(_)
            | RotateError::NoKey(_)
            | RotateError::Unopened(_)),
        ) => shown(&app, &who, StatusCode::CONFLICT, None, Some(sentence(&error.to_string()))).await,
    }
}

fn purpose_of(name: &str) -> Option<KeyPurpose> {
    KeyPurpose::ALL.into_iter().find(|purpose| purpose.as_str() == name)
}

async fn shown(
    app: &App,
    who: &SignedIn,
    status: StatusCode,
    rotated: Option<KeyPurpose>,
    error: Option<String>,
) -> Result<Response, Refusal> {
    let keys = app.engine.keys(&who.administrator()?).await?;
    let groups =
        [KeyPurpose::Callback, KeyPurpose::SandboxCallback, KeyPurpose::Token, KeyPurpose::Seal, KeyPurpose::Hash];
    let page = KeysPage {
        frame: Frame::of(who, "Keys").in_deployment(Section::Keys),
        jwks: format!("{}/.well-known/jwks.json", app.engine.base_url()),
        groups: groups.map(|purpose| group(purpose, &keys)).into(),
        rotated: rotated.map(KeyPurpose::as_str),
        error,
    };
    Ok(page::html(status, &page))
}

fn group(purpose: KeyPurpose, keys: &[NamedKey]) -> Group {
    let (title, text) = match purpose {
        KeyPurpose::Callback => {
            ("Callback", "Signs callbacks of live checks. Receivers find the public half in the key set.")
        }
        KeyPurpose::SandboxCallback => (
            "Sandbox callback",
            "Signs callbacks of sandbox checks. The key set marks its public half, and live receivers refuse it.",
        ),
        KeyPurpose::Token => ("Token", "Signs access tokens."),
        KeyPurpose::Seal => ("Seal", "Seals what must be read again, such as callback bodies."),
        KeyPurpose::Hash => (
            "Hash",
            "Hashes what must be found again and never read: numbers and codes. It is never relieved: what it has \
             hashed would not be found again.",
        ),
    };
    let rotation = match purpose {
        KeyPurpose::Callback | KeyPurpose::SandboxCallback => Some((
            "The new key is published at once and used after a day; the old one stays published for another day.",
            "The new key is used at once, and all others are withdrawn: receivers that keep the key set for a while \
             refuse callbacks until they read it again.",
        )),
        KeyPurpose::Token => Some((
            "The new key is used after ten seconds; tokens that were given out stay good.",
            "All access tokens that were given out end at once: every caller must ask for a new one.",
        )),
        KeyPurpose::Seal => Some((
            "The new key is used after ten seconds; what the old one has sealed stays readable.",
            "The new key is used at once; what the old one has sealed stays readable.",
        )),
        KeyPurpose::Hash => None,
    };
    let of_purpose = keys.iter().rev().filter(|key| key.summary.purpose == purpose);
    Group { purpose: purpose.as_str(), title, text, rotation, keys: of_purpose.map(row).collect() }
}

fn row(NamedKey { summary, kid }: &NamedKey) -> KeyRow {
    KeyRow {
        name: kid.clone().unwrap_or_else(|| summary.id.0.to_string()),
        state: summary.state.as_str(),
        tone: match summary.state {
            KeyState::Active => "s2",
            KeyState::Next => "s3",
            KeyState::Retiring => "s4",
            KeyState::Gone => "s5",
        },
        published_at: Moment(summary.schedule.published_at),
        active_from: Moment(summary.schedule.active_from),
        retires_at: summary.schedule.retires_at.map(Moment),
        gone_at: summary.schedule.gone_at.map(Moment),
    }
}
