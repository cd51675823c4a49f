//! Page that lists and rotates the deployment's keys.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::key_schedule::KeyState;
use ringtrue_engine::{keys::RotateError, ports::keys::KeyPurpose, tenants::KeyWithKid};
use ringtrue_web::{app::App, parameters::Query, routes::Routes};

use crate::{
    page::{
        self, Layout, MenuSection, UtcTime,
        error::{ConsoleError, to_sentence},
    },
    session::{console_session::ConsoleSession, forms::SessionForm},
};

const KEYS_PATH: &str = "/console/deployment/keys";

pub fn routes() -> Routes {
    Routes::default().get("/console/deployment/keys", show_keys).post("/console/deployment/keys", rotate_key)
}

#[derive(Debug, Template)]
#[template(path = "deployment/keys.html")]
struct KeysPage {
    layout: Layout,
    jwks_url: String,
    groups: Vec<KeyGroup>,
    rotated: Option<&'static str>,
    error: Option<String>,
}

#[derive(Debug)]
struct KeyGroup {
    purpose: &'static str,
    title: &'static str,
    description: &'static str,
    /// Texts that describe the effects of a scheduled and of an immediate rotation. `None`: the key cannot be rotated.
    rotation: Option<(&'static str, &'static str)>,
    keys: Vec<KeyRow>,
}

impl KeyGroup {
    /// The title inside a sentence. The name of a token or an algorithm keeps its capitals.
    fn name_in_sentence(&self) -> String {
        if self.title.starts_with("ID ") { self.title.to_owned() } else { self.title.to_lowercase() }
    }
}

#[derive(Debug)]
struct KeyRow {
    name: String,
    state: &'static str,
    css_class: &'static str,
    published_at: UtcTime,
    active_from: UtcTime,
    retires_at: Option<UtcTime>,
    gone_at: Option<UtcTime>,
}

/// `GET /console/deployment/keys`
async fn show_keys(
    State(app): State<App>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let query = Query::parse(query.as_deref(), &["rotated"])?;
    let rotated = query.get("rotated").and_then(|name| name.parse().ok());
    render_keys(&app, &session, StatusCode::OK, rotated, None).await
}

/// `POST /console/deployment/keys`
async fn rotate_key(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let administrator = session.require_admin()?;
    let purpose: Option<KeyPurpose> = fields.get("purpose").and_then(|name| name.parse().ok());
    let purpose = purpose.ok_or_else(ConsoleError::not_found)?;
    let emergency = fields.contains("emergency");
    let confirmation = if emergency { purpose.into_str() } else { "yes" };
    if fields.get("confirm") != Some(confirmation) {
        let error = if emergency {
            format!("Type `{purpose}` to confirm. Nothing was changed.")
        } else {
            "Select the checkbox to confirm. Nothing was changed.".to_owned()
        };
        return render_keys(&app, &session, StatusCode::BAD_REQUEST, None, Some(error)).await;
    }
    match app.engine.management.rotate_key(&administrator, purpose, emergency).await {
        Ok(_) => Ok(page::see_other(&format!("{KEYS_PATH}?rotated={purpose}"))),
        Err(RotateError::Store(cause)) => Err(cause.into()),
        Err(RotateError::RotationPending(_)) => {
            let error = format!("The newest {purpose} key is not active yet. Wait until it is, or rotate immediately.");
            render_keys(&app, &session, StatusCode::CONFLICT, None, Some(error)).await
        }
        Err(
            error @ (RotateError::ConcurrentChange(_)
            | RotateError::NotRotatable(_)
            | RotateError::NoKey(_)
            | RotateError::Unseal(_)),
        ) => render_keys(&app, &session, StatusCode::CONFLICT, None, Some(to_sentence(&error.to_string()))).await,
    }
}

async fn render_keys(
    app: &App,
    session: &ConsoleSession,
    status: StatusCode,
    rotated: Option<KeyPurpose>,
    error: Option<String>,
) -> Result<Response, ConsoleError> {
    let keys = app.engine.management.list_keys(&session.require_admin()?).await?;
    let groups = [
        KeyPurpose::Callback,
        KeyPurpose::SandboxCallback,
        KeyPurpose::IdToken,
        KeyPurpose::IdTokenEc,
        KeyPurpose::Token,
        KeyPurpose::Seal,
        KeyPurpose::Link,
        KeyPurpose::Hash,
    ];
    let page = KeysPage {
        layout: session.layout("Keys").in_deployment(MenuSection::Keys),
        jwks_url: format!("{}/.well-known/jwks.json", app.engine.base_url()),
        groups: groups.map(|purpose| key_group(purpose, &keys)).into(),
        rotated: rotated.map(|purpose| purpose.into_str()),
        error,
    };
    Ok(page::render(status, &page))
}

fn key_group(purpose: KeyPurpose, keys: &[KeyWithKid]) -> KeyGroup {
    let (title, description) = match purpose {
        KeyPurpose::Callback => ("Callback", "Signs callbacks of live checks. The key set contains the public key."),
        KeyPurpose::SandboxCallback => (
            "Sandbox callback",
            "Signs callbacks of sandbox checks. The key set marks its public key; live receivers must reject it.",
        ),
        KeyPurpose::IdToken => ("ID token (RS256)", "Signs ID tokens. The key set contains the public key."),
        KeyPurpose::IdTokenEc => (
            "ID token (ES256)",
            "Signs ID tokens of projects that have chosen ES256. The key set contains the public key.",
        ),
        KeyPurpose::Token => ("Token", "Signs access tokens."),
        KeyPurpose::Seal => ("Seal", "Encrypts stored data such as callback bodies."),
        KeyPurpose::Link => ("Link", "Derives the tokens of page and device links, invitations and forms."),
        KeyPurpose::Hash => {
            ("Hash", "Hashes phone numbers and codes. It cannot be rotated: stored hashes would no longer match.")
        }
    };
    let rotation = match purpose {
        KeyPurpose::Callback | KeyPurpose::SandboxCallback => Some((
            "The new key is published immediately and used after one day. The old key stays published for another day.",
            "The new key is used immediately and all others are withdrawn. Receivers that cache the key set reject \
             callbacks until they reload it.",
        )),
        KeyPurpose::IdToken | KeyPurpose::IdTokenEc => Some((
            "The new key is published immediately and used after one day. The old key stays published for another day.",
            "The new key is used immediately and all others are withdrawn. Clients that cache the key set reject ID \
             tokens until they reload it.",
        )),
        KeyPurpose::Token => Some((
            "The new key is used after ten seconds. Issued tokens stay valid.",
            "All issued access tokens become invalid immediately. Clients must request new ones.",
        )),
        KeyPurpose::Seal => Some((
            "The new key is used after ten seconds. Existing data stays readable.",
            "The new key is used immediately. Existing data stays readable.",
        )),
        KeyPurpose::Link => Some((
            "The new key is used after ten seconds. Existing links stay valid.",
            "All open links become invalid immediately: verification pages, device links, invitations. Users reload \
             open console pages.",
        )),
        KeyPurpose::Hash => None,
    };
    let of_purpose = keys.iter().rev().filter(|key| key.summary.purpose == purpose);
    KeyGroup { purpose: purpose.into_str(), title, description, rotation, keys: of_purpose.map(key_row).collect() }
}

fn key_row(KeyWithKid { summary, kid }: &KeyWithKid) -> KeyRow {
    KeyRow {
        name: kid.clone().unwrap_or_else(|| summary.id.0.to_string()),
        state: summary.state.into_str(),
        css_class: match summary.state {
            KeyState::Active => "s2",
            KeyState::Next => "s3",
            KeyState::Retiring => "s4",
            KeyState::Gone => "s5",
        },
        published_at: UtcTime(summary.schedule.published_at),
        active_from: UtcTime(summary.schedule.active_from),
        retires_at: summary.schedule.retires_at.map(UtcTime),
        gone_at: summary.schedule.gone_at.map(UtcTime),
    }
}
