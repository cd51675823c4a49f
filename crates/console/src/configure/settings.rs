//! Page with the settings of a project.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    product::Product,
    tenancy::{Configuration, InvalidSetting, Mode, Name, SETTINGS, Setting, SettingError, SettingKind, SettingValue},
    verification::Method,
};
use ringtrue_engine::tenants::{ManagementError, ProjectPatch};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};
use strum::VariantArray as _;

use crate::{
    configure::brand_preview,
    page::{
        self, Layout, MenuSection, SelectOption,
        error::{ConsoleError, to_sentence},
        masking::redact_query,
    },
    session::{
        console_session::ProjectAccess,
        forms::{FormFields, SessionForm},
    },
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/settings", settings)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings", update)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/disabled", set_disabled)
}

#[derive(Debug, Template)]
#[template(path = "configure/settings.html")]
struct SettingsPage {
    layout: Layout,
    project_id: String,
    name: String,
    is_live: bool,
    disabled: bool,
    products: Vec<ProductCheckbox>,
    form: SettingsForm,
    preview_states: Vec<SelectOption>,
    preview_languages: Vec<SelectOption>,
    error: Option<String>,
    was_saved: bool,
}

#[derive(Debug)]
struct ProductCheckbox {
    name: &'static str,
    title: &'static str,
    is_checked: bool,
}

/// Values of the settings form. The name of a form field is the path of its setting.
#[derive(Debug)]
struct SettingsForm {
    configuration: Configuration,
    shows_queries: bool,
}

impl SettingsForm {
    /// Returns the text for a form field. Items of a list are separated by spaces.
    fn text(&self, path: &str) -> String {
        match Setting::find(path).and_then(|setting| setting.value(&self.configuration)) {
            // The query of a URL may contain secrets of its receiver, so only developers see it.
            Some(SettingValue::Text(url)) if path.ends_with("_url") && !self.shows_queries => redact_query(&url),
            Some(SettingValue::Text(text)) => text,
            Some(SettingValue::Integer(number)) => number.to_string(),
            Some(SettingValue::List(items)) => items.join(" "),
            Some(SettingValue::Boolean(_)) | None => String::new(),
        }
    }

    fn is_checked(&self, path: &str) -> bool {
        let value = Setting::find(path).and_then(|setting| setting.value(&self.configuration));
        value == Some(SettingValue::Boolean(true))
    }

    fn methods(&self) -> Vec<SelectOption> {
        use Method::{ReverseSms, SecureSna};
        let current = self.text("verification.methods");
        let option = |value: String, title: String| SelectOption { is_selected: value == current, value, title };
        let orders: [&[Method]; 4] = [&[SecureSna, ReverseSms], &[ReverseSms, SecureSna], &[SecureSna], &[ReverseSms]];
        let orders = orders.map(|order| {
            let names: Vec<_> = order.iter().map(Method::into_str).collect();
            let titles: Vec<_> = order.iter().map(|method| method.product().title()).collect();
            option(names.join(" "), titles.join(", then "))
        });
        [option(String::new(), "Default".to_owned())].into_iter().chain(orders).collect()
    }
}

/// `GET …/projects/{project_id}/settings`
async fn settings(
    State(_): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let was_saved = Query::parse(query.as_deref(), &["saved"])?.get("saved").is_some();
    Ok(settings_page(&access, StatusCode::OK, None, was_saved))
}

/// `POST …/projects/{project_id}/settings`
async fn update(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let patch = match parse_patch(&fields) {
        Ok(patch) => patch,
        Err(error) => return Ok(settings_error(&access, &error)),
    };
    apply_patch(&app, access, patch).await
}

/// `POST …/projects/{project_id}/settings/disabled`: disables a project if the user has typed its name, or enables it.
async fn set_disabled(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let disabled = fields.get("disabled") != Some("no");
    if disabled && fields.get("confirm") != Some(&access.project.name.to_string()) {
        return Ok(settings_error(&access, "type the project's name to confirm"));
    }
    apply_patch(&app, access, ProjectPatch { disabled: Some(disabled), ..ProjectPatch::default() }).await
}

async fn apply_patch(app: &App, access: ProjectAccess, patch: ProjectPatch) -> Result<Response, ConsoleError> {
    let (workspace, project) = (access.workspace.id, access.project.id);
    match app.engine.management.patch_project(&access.actor, workspace, project, patch, &|_| true).await {
        Ok(_) => Ok(page::see_other(&format!("{}/settings?saved", access.path()))),
        Err(ManagementError::InvalidSetting(InvalidSetting { cause: SettingError::Other(problem), .. })) => {
            Ok(settings_error(&access, &problem))
        }
        Err(
            error @ (ManagementError::ProjectNameTaken
            | ManagementError::InvalidSetting(_)
            | ManagementError::InvalidMember { .. }),
        ) => Ok(settings_error(&access, &error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Renders the stored settings with an error. The submitted values are discarded.
fn settings_error(access: &ProjectAccess, error: &str) -> Response {
    let error = Some(to_sentence(&error.replace("`/configuration/", "`")));
    settings_page(access, StatusCode::BAD_REQUEST, error, false)
}

/// Builds a patch from the form. An empty field clears its setting. Only the project's mode and its disabled state are
/// not part of the form.
fn parse_patch(fields: &FormFields) -> Result<ProjectPatch, String> {
    Ok(ProjectPatch {
        name: Some(fields.get("name").unwrap_or_default().parse::<Name>().map_err(|error| error.to_string())?),
        products: Some(
            Product::VARIANTS.iter().copied().filter(|product| fields.contains(product.into_str())).collect(),
        ),
        configuration: SETTINGS.iter().map(|setting| (setting, parse_field(fields, setting))).collect(),
        // Other forms take the project live and disable it.
        ..ProjectPatch::default()
    })
}

fn parse_field(fields: &FormFields, setting: &Setting) -> Option<SettingValue> {
    let text = fields.get(setting.path);
    match setting.kind {
        SettingKind::Boolean => Some(SettingValue::Boolean(fields.contains(setting.path))),
        SettingKind::Text => text.map(|text| SettingValue::Text(text.to_owned())),
        SettingKind::List => text.map(|text| SettingValue::List(text.split_whitespace().map(str::to_owned).collect())),
        // Text that is not a number is passed on: the setting's validation rejects it and says which numbers it
        // accepts.
        SettingKind::Integer => text.map(|text| match text.parse() {
            Ok(number) => SettingValue::Integer(number),
            Err(_) => SettingValue::Text(text.to_owned()),
        }),
    }
}

fn settings_page(access: &ProjectAccess, status: StatusCode, error: Option<String>, was_saved: bool) -> Response {
    let project = &access.project;
    let layout = access.layout("Settings", MenuSection::Settings);
    let form = SettingsForm { configuration: project.configuration.clone(), shows_queries: layout.may_develop() };
    let checkbox = |product: Product| ProductCheckbox {
        name: product.into_str(),
        title: product.title(),
        is_checked: project.products.contains(&product),
    };
    let page = SettingsPage {
        layout,
        project_id: project.id.to_string(),
        name: project.name.to_string(),
        is_live: project.mode == Mode::Live,
        disabled: project.disabled,
        products: Product::VARIANTS.iter().copied().map(checkbox).collect(),
        form,
        preview_states: brand_preview::state_options(),
        preview_languages: brand_preview::language_options(),
        error,
        was_saved,
    };
    page::render(status, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting without a form field would be cleared each time that the form is saved.
    #[test]
    fn form_has_a_field_for_each_setting() {
        let template = include_str!("../../templates/configure/settings.html");
        for setting in SETTINGS {
            assert!(template.contains(&format!(r#"name="{}""#, setting.path)), "{}", setting.path);
        }
    }
}
