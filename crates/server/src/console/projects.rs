//! Making a project, and changing it: what the Management API can do, as forms.

use std::str::FromStr;

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    product::Product,
    tenancy::{Mode, Name, Project, Ttl},
    web_url::{CallbackUrl, RedirectUrl},
};
use ringtrue_engine::management::{
    ConfigurationPatch, CreatedProject, ManagementError, NewProject, Patch, ProjectPatch, ReverseSmsPatch, SilentPatch,
    UpdatedProject,
};

use super::{
    credentials::{Shown, shown_once},
    forms::{Fields, SignedForm},
    masking::without_query,
    page::{self, Frame, Section},
    refusal::{Refusal, sentence},
    visitor::{InProject, InWorkspace, SignedIn},
};
use crate::http::{App, path::PathIds, problem::Problem};

#[derive(Debug, Template)]
#[template(path = "console/new_project.html")]
struct NewProjectPage {
    frame: Frame,
    name: String,
    error: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "console/settings.html")]
#[expect(clippy::struct_excessive_bools, reason = "each is a box on the page, ticked or not")]
struct SettingsPage {
    frame: Frame,
    project_id: String,
    name: String,
    is_live: bool,
    disabled: bool,
    products: Vec<Tick>,
    reverse_sms_callback_url: String,
    ttl: String,
    prefix: String,
    auto_reply: bool,
    secure_sna: Urls,
    discovery: Urls,
    error: Option<String>,
    was_saved: bool,
}

#[derive(Debug)]
struct Tick {
    name: &'static str,
    title: &'static str,
    is_on: bool,
}

#[derive(Debug)]
struct Urls {
    callback_url: String,
    redirect_url: String,
}

/// `GET …/new-project`
pub async fn form(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let place = who.workspace(&app, &ids, Power::Develop).await?;
    Ok(new_page(&who, &place, StatusCode::OK, String::new(), None))
}

/// `POST …/new-project`
pub async fn create(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = who.workspace(&app, &ids, Power::Develop).await?;
    let typed = fields.get("name").unwrap_or_default().to_owned();
    let again =
        |error: String| Ok(new_page(&who, &place, StatusCode::BAD_REQUEST, typed.clone(), Some(sentence(&error))));
    let name = match typed.parse::<Name>() {
        Ok(name) => name,
        Err(error) => return again(error.to_string()),
    };
    let new = NewProject {
        name,
        mode: Mode::Sandbox,
        configuration: ConfigurationPatch::default(),
        products: Product::ALL.to_vec(),
    };
    match app.engine.create_project(&place.manager, place.workspace.id, new, None).await {
        Ok(CreatedProject { project, credential }) => {
            let shown = Shown::from(&credential);
            shown_once(&app, &who, &InProject { manager: place.manager, workspace: place.workspace, project }, shown)
                .await
        }
        Err(error @ (ManagementError::ProjectNameTaken | ManagementError::LimitReached(_))) => again(error.to_string()),
        Err(error) => Err(Problem::from(error).into()),
    }
}

/// `GET …/projects/{project_id}/settings`
pub async fn settings(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let place = who.project(&app, &ids, Power::Look).await?;
    Ok(settings_page(&who, &place, &place.project, StatusCode::OK, None, false))
}

/// `POST …/projects/{project_id}/settings`
pub async fn change(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = who.project(&app, &ids, Power::Develop).await?;
    let patch = match patch_of(&fields) {
        Ok(patch) => patch,
        Err(error) => return Ok(again(&who, &place, &error)),
    };
    apply(&app, &who, &place, patch).await
}

/// `POST …/projects/{project_id}/settings/mode`: takes the project live, with new credentials. For owners.
pub async fn change_mode(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = who.project(&app, &ids, Power::Own).await?;
    let mode = fields.get("mode").unwrap_or_default().parse::<Mode>();
    let patch = match mode {
        Ok(mode) if fields.has("confirm") => ProjectPatch { mode: Some(mode), ..ProjectPatch::default() },
        Ok(_) => return Ok(again(&who, &place, "tick the box to say that you mean it")),
        Err(error) => return Ok(again(&who, &place, &error.to_string())),
    };
    apply(&app, &who, &place, patch).await
}

/// `POST …/projects/{project_id}/settings/disabled`: whoever switches a project off names it.
pub async fn disable(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = who.project(&app, &ids, Power::Develop).await?;
    let disabled = fields.get("disabled") != Some("no");
    if disabled && fields.get("confirm") != Some(&place.project.name.to_string()) {
        return Ok(again(&who, &place, "type the project's name to say that you mean it"));
    }
    apply(&app, &who, &place, ProjectPatch { disabled: Some(disabled), ..ProjectPatch::default() }).await
}

async fn apply(app: &App, who: &SignedIn, place: &InProject, patch: ProjectPatch) -> Result<Response, Refusal> {
    match app.engine.patch_project(&place.manager, place.workspace.id, place.project.id, patch, &|_| true).await {
        Ok(UpdatedProject { project, credential: None }) => {
            Ok(settings_page(who, place, &project, StatusCode::OK, None, true))
        }
        Ok(UpdatedProject { project, credential: Some(issued) }) => {
            let place = InProject { manager: place.manager.clone(), workspace: place.workspace.clone(), project };
            shown_once(app, who, &place, Shown::from(&issued)).await
        }
        Err(
            error @ (ManagementError::ProjectNameTaken
            | ManagementError::InvalidUrl(_)
            | ManagementError::InvalidMember { .. }),
        ) => Ok(again(who, place, &error.to_string())),
        Err(error) => Err(Problem::from(error).into()),
    }
}

/// The settings as they were, and what is wrong.
fn again(who: &SignedIn, place: &InProject, error: &str) -> Response {
    let error = Some(sentence(&error.replace("`/configuration/", "`")));
    settings_page(who, place, &place.project, StatusCode::BAD_REQUEST, error, false)
}

/// The form says everything but mode and rest: what is empty is taken away.
fn patch_of(fields: &Fields) -> Result<ProjectPatch, String> {
    let text = |name: &str| fields.get(name).map_or(Patch::Clear, |value| Patch::Set(value.to_owned()));
    let ttl = fields.get("ttl").map(|text| {
        let seconds = i64::from_str(text).map_err(|_| "a ttl is 60 to 900 seconds".to_owned())?;
        Ttl::try_from(seconds).map_err(|error| error.to_string())
    });
    let prefix = fields
        .get("prefix")
        .map(str::parse)
        .transpose()
        .map_err(|error: ringtrue_domain::tenancy::InvalidPrefix| error.to_string())?;
    let silent = |product: &str| {
        Patch::Set(SilentPatch {
            callback_url: text(&format!("{product}_callback_url")),
            redirect_url: text(&format!("{product}_redirect_url")),
        })
    };
    Ok(ProjectPatch {
        name: Some(fields.get("name").unwrap_or_default().parse::<Name>().map_err(|error| error.to_string())?),
        // Each of these has a form of its own.
        mode: None,
        disabled: None,
        products: Some(Product::ALL.into_iter().filter(|product| fields.has(product.as_str())).collect()),
        configuration: Patch::Set(ConfigurationPatch {
            reverse_sms: Patch::Set(ReverseSmsPatch {
                callback_url: text("reverse_sms_callback_url"),
                ttl: ttl.transpose()?.map_or(Patch::Clear, Patch::Set),
                prefix: prefix.map_or(Patch::Clear, Patch::Set),
                auto_reply: Patch::Set(fields.has("auto_reply")),
            }),
            secure_sna: silent("secure_sna"),
            discovery: silent("discovery"),
        }),
    })
}

fn new_page(who: &SignedIn, place: &InWorkspace, status: StatusCode, name: String, error: Option<String>) -> Response {
    let frame = Frame::of(who, "New project").in_workspace(who, &place.workspace, Section::Projects);
    page::html(status, &NewProjectPage { frame, name, error })
}

fn settings_page(
    who: &SignedIn,
    place: &InProject,
    project: &Project,
    status: StatusCode,
    error: Option<String>,
    was_saved: bool,
) -> Response {
    let frame = Frame::of(who, "Settings").in_workspace(who, &place.workspace, Section::Settings).in_project(project);
    let settings = &project.configuration;
    let may_develop = frame.may_develop();
    let url = |url: Option<&str>| match url.unwrap_or_default() {
        url if may_develop => url.to_owned(),
        // A query may hold the receiver's secrets.
        url => without_query(url),
    };
    let urls = |settings: &ringtrue_domain::tenancy::SilentSettings| Urls {
        callback_url: url(settings.callback_url.as_ref().map(CallbackUrl::as_str)),
        redirect_url: url(settings.redirect_url.as_ref().map(RedirectUrl::as_str)),
    };
    let tick = |product: Product| Tick {
        name: product.as_str(),
        title: product.title(),
        is_on: project.products.contains(&product),
    };
    let page = SettingsPage {
        frame,
        project_id: project.id.to_string(),
        name: project.name.to_string(),
        is_live: project.mode == Mode::Live,
        disabled: project.disabled,
        products: Product::ALL.into_iter().map(tick).collect(),
        reverse_sms_callback_url: url(settings.reverse_sms.callback_url.as_ref().map(CallbackUrl::as_str)),
        ttl: settings.reverse_sms.ttl.map(|ttl| ttl.seconds().to_string()).unwrap_or_default(),
        prefix: settings.reverse_sms.prefix.as_ref().map(|prefix| prefix.as_str().to_owned()).unwrap_or_default(),
        auto_reply: settings.reverse_sms.auto_reply,
        secure_sna: urls(&settings.secure_sna),
        discovery: urls(&settings.discovery),
        error,
        was_saved,
    };
    page::html(status, &page)
}
