//! Preview of the hosted page with the brand in the settings form, before it is saved.

use std::str::FromStr;

use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderValue, header};
use ringtrue_domain::{
    reverse_sms::Platform,
    tenancy::{Mode, Project},
    verification,
};
use ringtrue_verification_page::{Brand, LANGUAGE_PARAMETER, Language, Preview, RenderedPage, SampleState};
use ringtrue_web::{app::App, assets::HTML_CONTENT_TYPE, parameters::Query, routes::Routes};
use strum::VariantArray as _;

use crate::{
    page::{SelectOption, error::ConsoleError, select_options},
    session::console_session::ProjectAccess,
};

const DEFAULT_STATE: SampleState = SampleState::Start;
/// States that the settings page offers, with their titles.
const STATES: [(SampleState, &str); 6] = [
    (SampleState::Start, "Start"),
    (SampleState::SendSms, "Send a text"),
    (SampleState::SmsReceived, "Text received"),
    (SampleState::Done, "Confirmed"),
    (SampleState::NotMatchedPhone, "Not confirmed"),
    (SampleState::Expired, "Expired"),
];

pub fn routes() -> Routes {
    Routes::default().get("/console/workspaces/{workspace_id}/projects/{project_id}/settings/preview", preview)
}

pub fn state_options() -> Vec<SelectOption> {
    let states = STATES.iter().map(|(state, title)| (state.into_str(), *title));
    select_options(states, Some(DEFAULT_STATE.into_str()))
}

pub fn language_options() -> Vec<SelectOption> {
    let languages = Language::VARIANTS.iter().map(|language| (language.tag(), language.name()));
    select_options(languages, Some(Language::English.tag()))
}

/// `GET …/projects/{project_id}/settings/preview`
async fn preview(
    State(_): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let known = ["state", LANGUAGE_PARAMETER, "name", "logo_url", "support_url", "colour"];
    let query = Query::parse(query.as_deref(), &known)?;
    let project = &access.project;
    let brand = parse_brand(&query, project);
    let preview = Preview {
        state: query.get("state").and_then(|state| state.parse().ok()).unwrap_or(DEFAULT_STATE),
        language: Language::negotiate(query.get(LANGUAGE_PARAMETER), None),
        brand: Brand::from_settings(&brand, Some(&project.name)),
        platform: Platform::Android,
        is_sandbox: project.mode == Mode::Sandbox,
        seconds_left: None,
    };
    Ok(respond(preview.render()))
}

/// Reads the brand from the query. Members that the query does not have are those of the project's settings.
fn parse_brand(query: &Query, project: &Project) -> verification::Brand {
    let saved = &project.configuration.verification.brand;
    verification::Brand {
        name: parse_member(query.get("name"), saved.name.as_ref()),
        logo_url: parse_member(query.get("logo_url"), saved.logo_url.as_ref()),
        support_url: parse_member(query.get("support_url"), saved.support_url.as_ref()),
        colour: parse_member(query.get("colour"), saved.colour.as_ref()),
    }
}

/// Invalid values count as absent: the user may still be typing.
fn parse_member<T: Clone + FromStr>(given: Option<&str>, saved: Option<&T>) -> Option<T> {
    match given {
        Some(text) => text.trim().parse().ok(),
        None => saved.cloned(),
    }
}

fn respond(page: RenderedPage) -> Response {
    let RenderedPage { html, content_security_policy } = page;
    let mut response = Response::new(Body::from(html));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML_CONTENT_TYPE));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    if let Ok(policy) = HeaderValue::try_from(content_security_policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
