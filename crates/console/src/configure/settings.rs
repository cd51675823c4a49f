//! Page with the settings of a project. Each part of the page is a form that saves its own settings only.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    product::Product,
    tenancy::{Configuration, InvalidSetting, Mode, Name, Project, Setting, SettingKind, SettingValue},
    verification::{LogoImage, LogoUrl, Method, UploadedLogo},
};
use ringtrue_engine::tenants::{ManagementError, ProjectPatch};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};
use strum::VariantArray as _;

use crate::{
    configure::{
        brand_preview::{self, LOGO_FIELD},
        sign_in_client::{SignInClient, algorithm_options, authentication_options},
    },
    page::{
        self, Layout, MenuSection, SelectOption,
        error::{ConsoleError, to_sentence},
        redaction::redact_query,
    },
    session::{
        console_session::ProjectAccess,
        forms::{FormFields, SessionForm},
    },
};

/// Name of the form field with the id of the submitted part.
const PART_FIELD: &str = "part";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/settings", settings)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings", update)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/disabled", set_disabled)
}

/// A part of the page with its own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
enum Part {
    General,
    Products,
    HostedPage,
    SignIn,
    Callbacks,
    DangerZone,
}

impl Part {
    /// Value of [`PART_FIELD`] and id of the part's HTML element.
    fn id(self) -> &'static str {
        match self {
            Part::General => "general",
            Part::Products => "products",
            Part::HostedPage => "hosted-page",
            Part::SignIn => "sign-in",
            Part::Callbacks => "callbacks",
            Part::DangerZone => "danger-zone",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Part::General => "General",
            Part::Products => "Products",
            Part::HostedPage => "Hosted page",
            Part::SignIn => "Sign-in",
            Part::Callbacks => "Callbacks",
            Part::DangerZone => "Danger zone",
        }
    }

    fn find(id: &str) -> Option<Part> {
        Part::VARIANTS.iter().copied().find(|part| part.id() == id)
    }

    /// Paths of the settings that the part's form saves. The form of [`Part::General`] saves members of the project
    /// that are no settings.
    fn setting_paths(self) -> &'static [&'static str] {
        match self {
            Part::General | Part::DangerZone => &[],
            Part::Products => &[
                "reverse_sms.ttl",
                "reverse_sms.prefix",
                "reverse_sms.auto_reply",
                "secure_sna.redirect_url",
                "secure_sna.app_origins",
                "discovery.redirect_url",
            ],
            Part::HostedPage => &[
                "verification.methods",
                "verification.fall_back_on_mismatch",
                "verification.redirect_url",
                "verification.redirect_origins",
                "verification.frame_origins",
                "verification.ttl",
                "verification.brand.name",
                "verification.brand.logo_url",
                "verification.brand.support_url",
                "verification.brand.colour",
            ],
            Part::SignIn => &[
                "sign_in.redirect_uris",
                "sign_in.token_endpoint_auth_method",
                "sign_in.jwks",
                "sign_in.jwks_uri",
                "sign_in.id_token_signed_response_alg",
                "sign_in.session",
                "sign_in.sim_swap_period",
                "camara.purposes",
            ],
            Part::Callbacks => &[
                "callbacks.url",
                "reverse_sms.callback_url",
                "secure_sna.callback_url",
                "discovery.callback_url",
                "verification.callback_url",
                "callbacks.retry_for",
            ],
        }
    }
}

#[derive(Debug, Template)]
#[template(path = "configure/settings.html")]
struct SettingsPage {
    layout: Layout,
    project_id: String,
    /// The stored name, which confirms that the project is to be disabled.
    stored_name: String,
    is_live: bool,
    disabled: bool,
    form: SettingsForm,
    sign_in: SignInClient,
    preview_states: Vec<SelectOption>,
    preview_languages: Vec<SelectOption>,
}

#[derive(Debug)]
struct ProductCheckbox {
    name: &'static str,
    title: &'static str,
    is_checked: bool,
}

/// Values of the forms, and the result of the one that was submitted. The name of a form field is the path of its
/// setting.
#[derive(Debug)]
struct SettingsForm {
    configuration: Configuration,
    base_url: String,
    name: String,
    products: Vec<Product>,
    shows_queries: bool,
    result: Option<PartResult>,
}

/// What became of a submitted form.
#[derive(Debug)]
enum PartResult {
    Saved(Part),
    Rejected(Part, FormFields, FormError),
}

/// Why a form was rejected.
#[derive(Debug)]
struct FormError {
    /// Name of the invalid field. `None`: the error concerns the whole form.
    field: Option<String>,
    text: String,
}

impl FormError {
    fn at(field: &str, text: &str) -> Self {
        FormError { field: Some(field.to_owned()), text: to_sentence(text) }
    }
}

impl From<InvalidSetting> for FormError {
    fn from(InvalidSetting { pointer, cause }: InvalidSetting) -> Self {
        let path = pointer.trim_start_matches("/configuration/").replace('/', ".");
        // The pointer to an element of a list ends with its index.
        let (list, index) = path.rsplit_once('.').unwrap_or_default();
        let setting = Setting::find(&path).or_else(|| Setting::find(list));
        let text = match index.parse::<usize>() {
            Ok(index) if has_lines(list) => format!("entry {}: {cause}", index.saturating_add(1)),
            _ => cause.to_string(),
        };
        FormError { field: setting.map(|setting| setting.path.to_owned()), text: to_sentence(&text) }
    }
}

impl SettingsForm {
    fn new(project: &Project, base_url: &str, shows_queries: bool, result: Option<PartResult>) -> Self {
        SettingsForm {
            configuration: project.configuration.clone(),
            base_url: base_url.to_owned(),
            name: project.name.to_string(),
            products: project.products.clone(),
            shows_queries,
            result,
        }
    }

    /// Returns the submitted fields of a part that was rejected, so that nothing that the user typed is lost.
    fn submitted(&self, part: Part) -> Option<&FormFields> {
        match &self.result {
            Some(PartResult::Rejected(rejected, fields, _)) if *rejected == part => Some(fields),
            _ => None,
        }
    }

    /// Returns the submitted fields of the part to which a setting belongs.
    fn submitted_with(&self, path: &str) -> Option<&FormFields> {
        self.submitted(Part::VARIANTS.iter().copied().find(|part| part.setting_paths().contains(&path))?)
    }

    /// Returns the text for a form field. Items of a list are separated by spaces, or are lines.
    fn text(&self, path: &str) -> String {
        if let Some(fields) = self.submitted_with(path) {
            return fields.raw(path).unwrap_or_default().to_owned();
        }
        match Setting::find(path).and_then(|setting| setting.value(&self.configuration)) {
            Some(SettingValue::Text(path)) if self.uploaded_logo() == Some(&path) => format!("{}{path}", self.base_url),
            // The query of a URL may contain secrets of its receiver, so only developers see it.
            Some(SettingValue::Text(url)) if is_url(path) && !self.shows_queries => redact_query(&url),
            Some(SettingValue::Text(text)) => text,
            Some(SettingValue::Integer(number)) => number.to_string(),
            Some(SettingValue::List(items)) if has_lines(path) && !self.shows_queries => {
                items.iter().map(|uri| redact_query(uri)).collect::<Vec<_>>().join("\n")
            }
            Some(SettingValue::List(items)) => items.join(if has_lines(path) { "\n" } else { " " }),
            Some(SettingValue::Boolean(_)) | None => String::new(),
        }
    }

    /// Returns the path of the uploaded logo. `None`: the logo is at another site, or there is none.
    fn uploaded_logo(&self) -> Option<&str> {
        let logo = self.configuration.verification.brand.logo_url.as_ref().and_then(LogoUrl::uploaded);
        logo.map(UploadedLogo::path)
    }

    fn logo_url_hint(&self) -> &'static str {
        if self.uploaded_logo().is_some() {
            "of the uploaded file; clear it to remove the logo"
        } else {
            "instead of a file"
        }
    }

    fn is_checked(&self, path: &str) -> bool {
        if let Some(fields) = self.submitted_with(path) {
            return fields.contains(path);
        }
        let value = Setting::find(path).and_then(|setting| setting.value(&self.configuration));
        value == Some(SettingValue::Boolean(true))
    }

    fn name(&self) -> &str {
        self.submitted(Part::General).map_or(&self.name, |fields| fields.raw("name").unwrap_or_default())
    }

    fn product_checkboxes(&self) -> Vec<ProductCheckbox> {
        let submitted = self.submitted(Part::General);
        let checkbox = |product: Product| ProductCheckbox {
            name: product.into_str(),
            title: product.title(),
            is_checked: submitted
                .map_or_else(|| self.products.contains(&product), |fields| fields.contains(product.into_str())),
        };
        Product::VARIANTS.iter().copied().map(checkbox).collect()
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

    fn authentication_methods(&self) -> Vec<SelectOption> {
        authentication_options(&self.text("sign_in.token_endpoint_auth_method"))
    }

    fn id_token_algorithms(&self) -> Vec<SelectOption> {
        algorithm_options(&self.text("sign_in.id_token_signed_response_alg"))
    }

    /// Returns whether a product has its own callback URL, saved or submitted.
    fn has_callback_overrides(&self) -> bool {
        let mut overrides = Part::Callbacks.setting_paths().iter().filter(|path| path.ends_with(".callback_url"));
        overrides.any(|path| !self.text(path).trim().is_empty())
    }

    fn error_at(&self, field: &str) -> Option<&str> {
        match &self.result {
            Some(PartResult::Rejected(_, _, error)) if error.field.as_deref() == Some(field) => Some(&error.text),
            _ => None,
        }
    }

    fn was_saved(&self, part: Part) -> bool {
        matches!(&self.result, Some(PartResult::Saved(saved)) if *saved == part)
    }

    /// Returns the text of a part's alert. An error of a field is shown at the field.
    fn alert(&self, part: Part) -> Option<&str> {
        match &self.result {
            Some(PartResult::Rejected(rejected, _, error)) if *rejected == part => {
                Some(if error.field.is_some() { "Check the marked field." } else { &error.text })
            }
            _ => None,
        }
    }

    fn is_code(path: &str) -> bool {
        is_url(path) || path.ends_with("_origins") || path.ends_with(".colour")
    }

    /// Returns the `inputmode` attribute of a setting's field.
    fn input_mode(path: &str) -> &'static str {
        match Setting::find(path).map(|setting| setting.kind) {
            Some(SettingKind::Integer) => "numeric",
            _ if is_url(path) => "url",
            _ => "text",
        }
    }
}

fn is_url(path: &str) -> bool {
    matches!(path.rsplit(['.', '_']).next(), Some("url" | "uri"))
}

/// Returns whether the field of a setting has a line for each item of the list.
fn has_lines(path: &str) -> bool {
    matches!(path, "sign_in.redirect_uris" | "camara.purposes")
}

/// `GET …/projects/{project_id}/settings`
async fn settings(
    State(app): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let query = Query::parse(query.as_deref(), &["saved"])?;
    let saved = query.get("saved").and_then(Part::find);
    settings_page(&app, &access, StatusCode::OK, saved.map(PartResult::Saved)).await
}

/// `POST …/projects/{project_id}/settings`
async fn update(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let part = fields.get(PART_FIELD).and_then(Part::find).filter(|part| *part != Part::DangerZone);
    let part = part.ok_or_else(ConsoleError::not_found)?;
    match parse_patch(part, &fields) {
        Ok(patch) => apply_patch(&app, access, part, fields, patch).await,
        Err(error) => render_rejected(&app, &access, part, fields, error).await,
    }
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
        let error = FormError::at("confirm", "type the project's name to confirm");
        return render_rejected(&app, &access, Part::DangerZone, fields, error).await;
    }
    let patch = ProjectPatch { disabled: Some(disabled), ..ProjectPatch::default() };
    apply_patch(&app, access, Part::DangerZone, fields, patch).await
}

async fn apply_patch(
    app: &App,
    access: ProjectAccess,
    part: Part,
    fields: FormFields,
    patch: ProjectPatch,
) -> Result<Response, ConsoleError> {
    let (workspace, project) = (access.workspace.id, access.project.id);
    let error = match app.engine.management.patch_project(&access.actor, workspace, project, patch, &|_| true).await {
        Ok(_) => return Ok(page::see_other(&format!("{0}/settings?saved={1}#{1}", access.path(), part.id()))),
        Err(ManagementError::InvalidSetting(invalid)) => invalid.into(),
        Err(error @ ManagementError::ProjectNameTaken) => FormError::at("name", &error.to_string()),
        Err(error @ ManagementError::InvalidMember { .. }) => {
            FormError { field: None, text: to_sentence(&error.to_string()) }
        }
        Err(error) => return Err(error.into()),
    };
    render_rejected(app, &access, part, fields, error).await
}

async fn render_rejected(
    app: &App,
    access: &ProjectAccess,
    part: Part,
    fields: FormFields,
    error: FormError,
) -> Result<Response, ConsoleError> {
    settings_page(app, access, StatusCode::BAD_REQUEST, Some(PartResult::Rejected(part, fields, error))).await
}

/// Builds a patch from the form of a part. An empty field clears its setting. Settings of other parts are not changed.
fn parse_patch(part: Part, fields: &FormFields) -> Result<ProjectPatch, FormError> {
    let settings = part.setting_paths().iter().filter_map(|path| Setting::find(path));
    let mut patch = ProjectPatch {
        configuration: settings.map(|setting| (setting, parse_field(fields, setting))).collect(),
        ..ProjectPatch::default()
    };
    if part == Part::General {
        let name = fields.get("name").unwrap_or_default().parse::<Name>();
        patch.name = Some(name.map_err(|error| FormError::at("name", &error.to_string()))?);
        let products = Product::VARIANTS.iter().copied().filter(|product| fields.contains(product.into_str()));
        patch.products = Some(products.collect());
    }
    if part == Part::HostedPage
        && let Some(file) = fields.file(LOGO_FIELD)
    {
        let image = LogoImage::parse(file.to_vec());
        patch.logo = Some(image.map_err(|error| FormError::at(LOGO_FIELD, &error.to_string()))?);
    }
    Ok(patch)
}

fn parse_field(fields: &FormFields, setting: &Setting) -> Option<SettingValue> {
    let text = fields.get(setting.path);
    match setting.kind {
        SettingKind::Boolean => Some(SettingValue::Boolean(fields.contains(setting.path))),
        SettingKind::Text | SettingKind::Json => text.map(|text| SettingValue::Text(text.to_owned())),
        SettingKind::List => text.map(|text| SettingValue::List(text.split_whitespace().map(str::to_owned).collect())),
        // Text that is not a number is passed on: the setting's validation rejects it and says which numbers it
        // accepts.
        SettingKind::Integer => text.map(|text| match text.parse() {
            Ok(number) => SettingValue::Integer(number),
            Err(_) => SettingValue::Text(text.to_owned()),
        }),
    }
}

async fn settings_page(
    app: &App,
    access: &ProjectAccess,
    status: StatusCode,
    result: Option<PartResult>,
) -> Result<Response, ConsoleError> {
    let layout = access.layout("Settings", MenuSection::Settings);
    let sign_in = SignInClient::load(app, access).await?;
    Ok(page::render(status, &SettingsPage::new(layout, &access.project, sign_in, result)))
}

impl SettingsPage {
    fn new(layout: Layout, project: &Project, sign_in: SignInClient, result: Option<PartResult>) -> Self {
        SettingsPage {
            project_id: project.id.to_string(),
            stored_name: project.name.to_string(),
            is_live: project.mode == Mode::Live,
            disabled: project.disabled,
            form: SettingsForm::new(project, &sign_in.issuer, layout.may_develop(), result),
            sign_in,
            preview_states: brand_preview::state_options(),
            preview_languages: brand_preview::language_options(),
            layout,
        }
    }

    /// Returns the parts that the user sees. Only users who may change the project see the danger zone.
    fn parts(&self) -> impl Iterator<Item = &'static Part> {
        let may_develop = self.layout.may_develop();
        Part::VARIANTS.iter().filter(move |part| may_develop || **part != Part::DangerZone)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use ringtrue_domain::{
        id::uuid_v7,
        region::Region,
        tenancy::{ProjectId, RateLimits, Revision, SETTINGS, SettingError, Workspace, WorkspaceId},
    };

    use super::*;

    fn rendered_page() -> String {
        let id = uuid_v7(Timestamp::UNIX_EPOCH, [0; 10]);
        let project = Project {
            id: ProjectId(id),
            workspace: WorkspaceId(id),
            name: "Shop".parse().unwrap(),
            mode: Mode::Sandbox,
            live_since: None,
            disabled: false,
            configuration: Configuration::default(),
            products: vec![],
            allowed_networks: vec![],
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            revision: Revision::FIRST,
        };
        let workspace = Workspace {
            id: project.workspace,
            name: "Acme".parse().unwrap(),
            data_residency: Region::Eu,
            rate_limits: RateLimits::default(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        };
        let layout = Layout::anonymous("Settings").in_workspace(&workspace, None, MenuSection::Settings);
        let sign_in = SignInClient::without_credentials("https://verify.example");
        SettingsPage::new(layout.in_project(&project), &project, sign_in, None).render().unwrap()
    }

    /// A setting without a field in the form of its part would be cleared each time that the part is saved.
    #[test]
    fn each_setting_has_a_field_in_the_form_of_its_part() {
        let page = rendered_page();
        for setting in SETTINGS {
            let parts: Vec<_> =
                Part::VARIANTS.iter().filter(|part| part.setting_paths().contains(&setting.path)).collect();
            let [part] = parts[..] else { panic!("{} belongs to {parts:?}", setting.path) };
            let form = page.split("<form").find(|form| form.contains(&format!(r#"name="part" value="{}""#, part.id())));
            let form = form.and_then(|form| form.split("</form>").next()).unwrap();
            let field = format!(r#"name="{}""#, setting.path);
            assert_eq!((form.matches(&field).count(), page.matches(&field).count()), (1, 1), "{}", setting.path);
        }
        for path in Part::VARIANTS.iter().flat_map(|part| part.setting_paths()) {
            assert!(Setting::find(path).is_some(), "{path} is no setting");
        }
    }

    #[test]
    fn errors_are_shown_at_the_field_of_the_setting() {
        for (pointer, field) in [
            ("/configuration/reverse_sms/ttl", Some("reverse_sms.ttl")),
            ("/configuration/verification/redirect_origins/1", Some("verification.redirect_origins")),
            ("/configuration/verification/brand/colour", Some("verification.brand.colour")),
            ("/configuration/sign_in/redirect_uris/1", Some("sign_in.redirect_uris")),
            ("/mode", None),
        ] {
            let cause = SettingError::Other("is invalid".to_owned());
            let error = FormError::from(InvalidSetting { pointer: pointer.to_owned(), cause });
            assert_eq!(error.field.as_deref(), field, "{pointer}");
        }
    }
}
