//! Settings of a project.

use std::str::FromStr;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    product::Product,
    tenancy::{Mode, Name, Ttl},
    verification::{InvalidMethod, Method, VerificationSettings, VerificationTtl},
    web_url::{CallbackUrl, RedirectUrl, WebOrigin},
};
use ringtrue_engine::tenants::{
    BrandPatch, ConfigurationPatch, ManagementError, Patch, ProjectPatch, ReverseSmsPatch, SilentPatch, UpdatedProject,
    VerificationPatch,
};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};
use strum::VariantArray as _;

use crate::{
    configure::credentials::show_new_credential,
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
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/mode", change_mode)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/disabled", set_disabled)
}

#[derive(Debug, Template)]
#[template(path = "configure/settings.html")]
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
    verification: VerificationForm,
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

/// Values of the fields of verifications.
#[derive(Debug)]
struct VerificationForm {
    methods: Vec<SelectOption>,
    fall_back_on_mismatch: bool,
    callback_url: String,
    redirect_url: String,
    redirect_origins: String,
    ttl: String,
    brand_name: String,
    brand_logo_url: String,
    brand_colour: String,
}

impl VerificationForm {
    fn new(settings: &VerificationSettings, url: impl Fn(Option<&str>) -> String) -> Self {
        use Method::{ReverseSms, SecureSna};
        let names = |methods: &[Method]| methods.iter().map(Method::into_str).collect::<Vec<_>>().join(" ");
        let titles = |methods: &[Method]| {
            methods.iter().map(|method| method.product().title()).collect::<Vec<_>>().join(", then ")
        };
        let orders: [&[Method]; 4] = [&[SecureSna, ReverseSms], &[ReverseSms, SecureSna], &[SecureSna], &[ReverseSms]];
        let mut methods = vec![SelectOption {
            value: String::new(),
            title: "Default".to_owned(),
            is_selected: settings.methods.is_none(),
        }];
        methods.extend(orders.map(|order| SelectOption {
            value: names(order),
            title: titles(order),
            is_selected: settings.methods.as_deref() == Some(order),
        }));
        let brand = &settings.brand;
        VerificationForm {
            methods,
            fall_back_on_mismatch: settings.fall_back_on_mismatch,
            callback_url: url(settings.callback_url.as_ref().map(CallbackUrl::as_str)),
            redirect_url: url(settings.redirect_url.as_ref().map(RedirectUrl::as_str)),
            redirect_origins: settings.redirect_origins.iter().map(WebOrigin::as_str).collect::<Vec<_>>().join(" "),
            ttl: settings.ttl.map(|ttl| ttl.seconds().to_string()).unwrap_or_default(),
            brand_name: brand.name.as_ref().map(ToString::to_string).unwrap_or_default(),
            brand_logo_url: brand.logo_url.as_ref().map(|url| url.as_str().to_owned()).unwrap_or_default(),
            brand_colour: brand.colour.as_ref().map(|colour| colour.as_str().to_owned()).unwrap_or_default(),
        }
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

/// `POST …/projects/{project_id}/settings/mode`: takes the project live, with a new credential.
async fn change_mode(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::ManageAccess).await?;
    let mode = fields.get("mode").unwrap_or_default().parse::<Mode>();
    let patch = match mode {
        Ok(mode) if fields.contains("confirm") => ProjectPatch { mode: Some(mode), ..ProjectPatch::default() },
        Ok(_) => return Ok(settings_error(&access, "select the checkbox to confirm")),
        Err(error) => return Ok(settings_error(&access, &error.to_string())),
    };
    apply_patch(&app, access, patch).await
}

/// `POST …/projects/{project_id}/settings/disabled`: disables a project after its name is typed, or enables it.
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
        Ok(UpdatedProject { project, credential }) => {
            let access = ProjectAccess { project, ..access };
            match credential {
                Some(issued) => show_new_credential(app, access, &issued),
                None => Ok(page::see_other(&format!("{}/settings?saved", access.path()))),
            }
        }
        Err(
            error @ (ManagementError::ProjectNameTaken
            | ManagementError::InvalidUrl(_)
            | ManagementError::InvalidMember { .. }),
        ) => Ok(settings_error(&access, &error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Shows the unchanged settings with an error.
fn settings_error(access: &ProjectAccess, error: &str) -> Response {
    let error = Some(to_sentence(&error.replace("`/configuration/", "`")));
    settings_page(access, StatusCode::BAD_REQUEST, error, false)
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
        products: Some(
            Product::VARIANTS.iter().copied().filter(|product| fields.contains(product.into_str())).collect(),
        ),
        configuration: Patch::Set(ConfigurationPatch {
            reverse_sms: Patch::Set(ReverseSmsPatch {
                callback_url: text("reverse_sms_callback_url"),
                ttl: ttl.transpose()?.map_or(Patch::Clear, Patch::Set),
                prefix: prefix.map_or(Patch::Clear, Patch::Set),
                auto_reply: Patch::Set(fields.contains("auto_reply")),
            }),
            secure_sna: silent("secure_sna"),
            discovery: silent("discovery"),
            verification: Patch::Set(parse_verification_patch(fields)?),
        }),
    })
}

fn parse_verification_patch(fields: &FormFields) -> Result<VerificationPatch, String> {
    fn parse<T: FromStr<Err: std::fmt::Display>>(fields: &FormFields, name: &str) -> Result<Patch<T>, String> {
        match fields.get(name).map(T::from_str) {
            None => Ok(Patch::Clear),
            Some(Ok(value)) => Ok(Patch::Set(value)),
            Some(Err(error)) => Err(error.to_string()),
        }
    }
    let text = |name: &str| fields.get(name).map_or(Patch::Clear, |value| Patch::Set(value.to_owned()));
    let ttl = fields.get("verification_ttl").map(|text| {
        let seconds = i64::from_str(text).map_err(|_| "the TTL of a verification must be 60 to 3600 seconds")?;
        VerificationTtl::try_from(seconds).map_err(|error| error.to_string())
    });
    let methods = fields.get("verification_methods");
    let methods = methods.map(|names| names.split(' ').map(str::parse).collect::<Result<Vec<Method>, _>>());
    let methods = methods.transpose().map_err(|error: InvalidMethod| error.to_string())?;
    Ok(VerificationPatch {
        methods: methods.map_or(Patch::Clear, Patch::Set),
        fall_back_on_mismatch: Patch::Set(fields.contains("fall_back_on_mismatch")),
        callback_url: text("verification_callback_url"),
        redirect_url: text("verification_redirect_url"),
        redirect_origins: fields
            .get("verification_redirect_origins")
            .map_or(Patch::Clear, |origins| Patch::Set(origins.split_whitespace().map(str::to_owned).collect())),
        ttl: ttl.transpose()?.map_or(Patch::Clear, Patch::Set),
        brand: Patch::Set(BrandPatch {
            name: parse(fields, "brand_name")?,
            logo_url: parse(fields, "brand_logo_url")?,
            colour: parse(fields, "brand_colour")?,
        }),
    })
}

fn settings_page(access: &ProjectAccess, status: StatusCode, error: Option<String>, was_saved: bool) -> Response {
    let project = &access.project;
    let layout = access.layout("Settings", MenuSection::Settings);
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
        reverse_sms_callback_url: url(settings.reverse_sms.callback_url.as_ref().map(CallbackUrl::as_str)),
        ttl: settings.reverse_sms.ttl.map(|ttl| ttl.seconds().to_string()).unwrap_or_default(),
        prefix: settings.reverse_sms.prefix.as_ref().map(|prefix| prefix.as_str().to_owned()).unwrap_or_default(),
        auto_reply: settings.reverse_sms.auto_reply,
        secure_sna: urls(&settings.secure_sna),
        discovery: urls(&settings.discovery),
        verification: VerificationForm::new(&settings.verification, url),
        error,
        was_saved,
    };
    page::render(status, &page)
}
