//! Preview of the hosted page with the brand in the settings form, before it is saved.

use std::str::FromStr;

use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::Response,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, header};
use ringtrue_domain::{
    account::Permission,
    reverse_sms::Platform,
    tenancy::{Mode, Project},
    verification::{self, LogoImage},
};
use ringtrue_engine::rate_limits::RateLimitClass;
use ringtrue_verification_page::{Brand, LANGUAGE_PARAMETER, Language, Preview, RenderedPage, SampleState};
use ringtrue_web::{
    app::App,
    assets::HTML_CONTENT_TYPE,
    parameters::{PathParameters, Query},
    routes::Routes,
};
use strum::VariantArray as _;

use crate::{
    page::{SelectOption, error::ConsoleError, select_options},
    session::{console_session::ProjectAccess, forms::SessionForm},
};

/// Name of the form field with the file of a logo.
pub const LOGO_FIELD: &str = "logo";
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
    const PREVIEW: &str = "/console/workspaces/{workspace_id}/projects/{project_id}/settings/preview";
    Routes::default().get(PREVIEW, preview).post(PREVIEW, preview_file)
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
    Ok(render(&access.project, |name| query.get(name), None))
}

/// `POST …/projects/{project_id}/settings/preview`: a preview with the file that the user has chosen as the logo. Stores
/// nothing.
async fn preview_file(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let form = form.with_rate_limit_class(RateLimitClass::ConsolePage);
    let (access, fields) = form.authorize_project(&app, &ids, Permission::View).await?;
    let image = fields.file(LOGO_FIELD).and_then(|file| LogoImage::parse(file.to_vec()).ok());
    Ok(render(&access.project, |name| fields.raw(name), image.as_ref()))
}

fn render<'a>(project: &Project, parameter: impl Fn(&str) -> Option<&'a str>, logo: Option<&LogoImage>) -> Response {
    let brand = parse_brand(&parameter, project);
    let logo_url = logo.map(|image| {
        let content = BASE64_STANDARD.encode(image.content());
        format!("data:{};base64,{content}", image.format().media_type())
    });
    let brand = Brand::from_settings(&brand, Some(&project.name));
    let preview = Preview {
        state: parameter("state").and_then(|state| state.parse().ok()).unwrap_or(DEFAULT_STATE),
        language: Language::negotiate(parameter(LANGUAGE_PARAMETER), None),
        brand: brand.map(|brand| Brand { logo_url: logo_url.as_deref().or(brand.logo_url), ..brand }),
        platform: Platform::Android,
        is_sandbox: project.mode == Mode::Sandbox,
        seconds_left: None,
    };
    respond(preview.render())
}

/// Reads the brand from the parameters. Absent members are those of the project's settings.
fn parse_brand<'a>(parameter: impl Fn(&str) -> Option<&'a str>, project: &Project) -> verification::Brand {
    let saved = &project.configuration.verification.brand;
    let logo_url = parameter("logo_url");
    // The form shows the absolute URL of an uploaded logo.
    let is_saved_logo = |url: &str| saved.logo_url.as_ref().is_some_and(|logo| logo.is_upload_at(url));
    verification::Brand {
        name: parse_member(parameter("name"), saved.name.as_ref()),
        logo_url: parse_member(logo_url.filter(|url| !is_saved_logo(url)), saved.logo_url.as_ref()),
        support_url: parse_member(parameter("support_url"), saved.support_url.as_ref()),
        colour: parse_member(parameter("colour"), saved.colour.as_ref()),
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
