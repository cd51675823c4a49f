//! Creating projects and changing their settings.

use std::str::FromStr;

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    product::Product,
    tenancy::{Mode, Name, Project, Ttl},
    web_url::{CallbackUrl, RedirectUrl},
};
use ringtrue_engine::management::{
    ConfigurationPatch, CreatedProject, ManagementError, NewProject, Patch, ProjectPatch, ReverseSmsPatch, SilentPatch,
    UpdatedProject,
};

use super::{
    credentials::{RevealedCredential, show_new_credential},
    error::{ConsoleError, to_sentence},
    forms::{FormFields, SessionForm},
    masking::redact_query,
    page::{self, Layout, Section},
    session::{ConsoleSession, ProjectAccess, WorkspaceAccess},
};
use crate::http::{App, path::PathParameters, problem::Problem};

#[derive(Debug, Template)]
#[template(path = "console/new_project.html")]
struct NewProjectPage {
    layout: Layout,
    name: String,
    error: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "console/settings.html")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate checkbox or state on the page")]
struct SettingsPage {
    layout: Layout,
    project_id: String,
    name: String,
    is_live: bool,
    disabled: bool,
    products: Vec<ProductCheckbox>,
    reverse_sms_callback_url: String,
    ttl: String,
    prefix: String,
    auto_reply: bool,
    secure_sna: SilentUrls,
    discovery: SilentUrls,
    error: Option<String>,
    was_saved: bool,
}

#[derive(Debug)]
struct ProductCheckbox {
    name: &'static str,
    title: &'static str,
    is_checked: bool,
}

#[derive(Debug)]
struct SilentUrls {
    callback_url: String,
    redirect_url: String,
}

/// `GET …/new-project`
pub async fn new_form(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_workspace(&app, &ids, Permission::Develop).await?;
    Ok(new_project_page(&session, &access, StatusCode::OK, String::new(), None))
}

/// `POST …/new-project`
pub async fn create(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let access = session.authorize_workspace(&app, &ids, Permission::Develop).await?;
    let input = fields.get("name").unwrap_or_default().to_owned();
    let show_error = |error: String| {
        Ok(new_project_page(&session, &access, StatusCode::BAD_REQUEST, input.clone(), Some(to_sentence(&error))))
    };
    let name = match input.parse::<Name>() {
        Ok(name) => name,
        Err(error) => return show_error(error.to_string()),
    };
    let new = NewProject {
        name,
        mode: Mode::Sandbox,
        configuration: ConfigurationPatch::default(),
        products: Product::ALL.to_vec(),
    };
    match app.engine.create_project(&access.manager, access.workspace.id, new, None).await {
        Ok(CreatedProject { project, credential }) => {
            let revealed = RevealedCredential::from(&credential);
            show_new_credential(
                &app,
                &session,
                &ProjectAccess { manager: access.manager, workspace: access.workspace, project },
                revealed,
            )
            .await
        }
        Err(error @ (ManagementError::ProjectNameTaken | ManagementError::LimitReached(_))) => {
            show_error(error.to_string())
        }
        Err(error) => Err(Problem::from(error).into()),
    }
}

/// `GET …/projects/{project_id}/settings`
pub async fn settings(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_project(&app, &ids, Permission::View).await?;
    Ok(settings_page(&session, &access, &access.project, StatusCode::OK, None, false))
}

/// `POST …/projects/{project_id}/settings`
pub async fn update(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let access = session.authorize_project(&app, &ids, Permission::Develop).await?;
    let patch = match parse_patch(&fields) {
        Ok(patch) => patch,
        Err(error) => return Ok(settings_error(&session, &access, &error)),
    };
    apply_patch(&app, &session, &access, patch).await
}

/// `POST …/projects/{project_id}/settings/mode`: takes the project live, with a new credential.
pub async fn change_mode(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let access = session.authorize_project(&app, &ids, Permission::ManageAccess).await?;
    let mode = fields.get("mode").unwrap_or_default().parse::<Mode>();
    let patch = match mode {
        Ok(mode) if fields.contains("confirm") => ProjectPatch { mode: Some(mode), ..ProjectPatch::default() },
        Ok(_) => return Ok(settings_error(&session, &access, "select the checkbox to confirm")),
        Err(error) => return Ok(settings_error(&session, &access, &error.to_string())),
    };
    apply_patch(&app, &session, &access, patch).await
}

/// `POST …/projects/{project_id}/settings/disabled`: disables a project after its name is typed, or enables it.
pub async fn set_disabled(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let access = session.authorize_project(&app, &ids, Permission::Develop).await?;
    let disabled = fields.get("disabled") != Some("no");
    if disabled && fields.get("confirm") != Some(&access.project.name.to_string()) {
        return Ok(settings_error(&session, &access, "type the project's name to confirm"));
    }
    apply_patch(&app, &session, &access, ProjectPatch { disabled: Some(disabled), ..ProjectPatch::default() }).await
}

async fn apply_patch(
    app: &App,
    session: &ConsoleSession,
    access: &ProjectAccess,
    patch: ProjectPatch,
) -> Result<Response, ConsoleError> {
    match app.engine.patch_project(&access.manager, access.workspace.id, access.project.id, patch, &|_| true).await {
        Ok(UpdatedProject { project, credential: None }) => {
            Ok(settings_page(session, access, &project, StatusCode::OK, None, true))
        }
        Ok(UpdatedProject { project, credential: Some(issued) }) => {
            let access =
                ProjectAccess { manager: access.manager.clone(), workspace: access.workspace.clone(), project };
            show_new_credential(app, session, &access, RevealedCredential::from(&issued)).await
        }
        Err(
            error @ (ManagementError::ProjectNameTaken
            | ManagementError::InvalidUrl(_)
            | ManagementError::InvalidMember { .. }),
        ) => Ok(settings_error(session, access, &error.to_string())),
        Err(error) => Err(Problem::from(error).into()),
    }
}

/// Shows the unchanged settings with an error.
fn settings_error(session: &ConsoleSession, access: &ProjectAccess, error: &str) -> Response {
    let error = Some(to_sentence(&error.replace("`/configuration/", "`")));
    settings_page(session, access, &access.project, StatusCode::BAD_REQUEST, error, false)
}

/// Builds a patch of all settings except mode and state. Empty fields clear a setting.
fn parse_patch(fields: &FormFields) -> Result<ProjectPatch, String> {
    let text = |name: &str| fields.get(name).map_or(Patch::Clear, |value| Patch::Set(value.to_owned()));
    let ttl = fields.get("ttl").map(|text| {
        let seconds = i64::from_str(text).map_err(|_| "the TTL must be 60 to 900 seconds".to_owned())?;
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
        // These have separate forms.
        mode: None,
        disabled: None,
        products: Some(Product::ALL.into_iter().filter(|product| fields.contains(product.as_str())).collect()),
        configuration: Patch::Set(ConfigurationPatch {
            reverse_sms: Patch::Set(ReverseSmsPatch {
                callback_url: text("reverse_sms_callback_url"),
                ttl: ttl.transpose()?.map_or(Patch::Clear, Patch::Set),
                prefix: prefix.map_or(Patch::Clear, Patch::Set),
                auto_reply: Patch::Set(fields.contains("auto_reply")),
            }),
            secure_sna: silent("secure_sna"),
            discovery: silent("discovery"),
        }),
    })
}

fn new_project_page(
    session: &ConsoleSession,
    access: &WorkspaceAccess,
    status: StatusCode,
    name: String,
    error: Option<String>,
) -> Response {
    let layout =
        Layout::for_session(session, "New project").in_workspace(session, &access.workspace, Section::Projects);
    page::render(status, &NewProjectPage { layout, name, error })
}

fn settings_page(
    session: &ConsoleSession,
    access: &ProjectAccess,
    project: &Project,
    status: StatusCode,
    error: Option<String>,
    was_saved: bool,
) -> Response {
    let layout = Layout::for_session(session, "Settings")
        .in_workspace(session, &access.workspace, Section::Settings)
        .in_project(project);
    let settings = &project.configuration;
    let may_develop = layout.may_develop();
    let url = |url: Option<&str>| match url.unwrap_or_default() {
        url if may_develop => url.to_owned(),
        // A query may contain the receiver's secrets.
        url => redact_query(url),
    };
    let urls = |settings: &ringtrue_domain::tenancy::SilentSettings| SilentUrls {
        callback_url: url(settings.callback_url.as_ref().map(CallbackUrl::as_str)),
        redirect_url: url(settings.redirect_url.as_ref().map(RedirectUrl::as_str)),
    };
    let checkbox = |product: Product| ProductCheckbox {
        name: product.as_str(),
        title: product.title(),
        is_checked: project.products.contains(&product),
    };
    let page = SettingsPage {
        layout,
        project_id: project.id.to_string(),
        name: project.name.to_string(),
        is_live: project.mode == Mode::Live,
        disabled: project.disabled,
        products: Product::ALL.into_iter().map(checkbox).collect(),
        reverse_sms_callback_url: url(settings.reverse_sms.callback_url.as_ref().map(CallbackUrl::as_str)),
        ttl: settings.reverse_sms.ttl.map(|ttl| ttl.seconds().to_string()).unwrap_or_default(),
        prefix: settings.reverse_sms.prefix.as_ref().map(|prefix| prefix.as_str().to_owned()).unwrap_or_default(),
        auto_reply: settings.reverse_sms.auto_reply,
        secure_sna: urls(&settings.secure_sna),
        discovery: urls(&settings.discovery),
        error,
        was_saved,
    };
    page::render(status, &page)
}
