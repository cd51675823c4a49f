//! Creating projects, and changing their settings and allowed networks.

use std::str::FromStr;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    network::{AllowedNetwork, Network, NetworkId, NetworkSelector},
    product::Product,
    tenancy::{Mode, Name, Project, Ttl},
    verification::{InvalidMethod, Method, VerificationSettings, VerificationTtl},
    web_url::{CallbackUrl, RedirectUrl, WebOrigin},
};
use ringtrue_engine::{
    management::{
        BrandPatch, ConfigurationPatch, CreatedProject, ManagementError, NewProject, Patch, ProjectPatch,
        ReverseSmsPatch, SilentPatch, UpdatedProject, VerificationPatch,
    },
    networks::Networks,
};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
};
use strum::VariantArray as _;

use crate::{
    credentials::show_new_credential,
    error::{ConsoleError, to_sentence},
    forms::{FormFields, SessionForm, form_error},
    masking::redact_query,
    network_list::{NetworkListQuery, PAGE_PARAMETER, SEARCH_PARAMETER},
    page::{self, Layout, MenuSection, Pagination, SelectOption},
    session::{ConsoleSession, ProjectAccess, WorkspaceAccess},
};

/// Products that use the networks of operators.
const NETWORK_PRODUCTS: [Product; 4] = Product::WITH_OPERATOR;

#[derive(Debug, Template)]
#[template(path = "new_project.html")]
struct NewProjectPage {
    layout: Layout,
    name: String,
    error: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "settings.html")]
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

#[derive(Debug, Template)]
#[template(path = "allowed_networks.html")]
struct AllowedNetworksPage {
    layout: Layout,
    is_sandbox: bool,
    products: [&'static str; NETWORK_PRODUCTS.len()],
    networks: Vec<NetworkRow>,
    /// Allowed networks that are not configured in this deployment.
    unknown_networks: Vec<NetworkRow>,
    has_networks: bool,
    search: String,
    pagination: Pagination,
    /// Ids of the networks that the form contains.
    shown: String,
    was_saved: bool,
}

#[derive(Debug)]
struct NetworkRow {
    id: String,
    /// The id if the network is unknown.
    name: String,
    country: String,
    aliases: String,
    cells: Vec<ProductCell>,
}

#[derive(Debug)]
struct ProductCell {
    /// Name of the checkbox.
    name: String,
    product: &'static str,
    is_allowed: bool,
    is_supported: bool,
}

/// `GET …/new-project`
pub async fn new_form(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_workspace(&app, &ids, Permission::Develop).await?;
    Ok(new_project_page(&access, StatusCode::OK, String::new(), None))
}

/// `POST …/new-project`
pub async fn create(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_workspace(&app, &ids, Permission::Develop).await?;
    let input = fields.get("name").unwrap_or_default().to_owned();
    let name = match input.parse::<Name>() {
        Ok(name) => name,
        Err(error) => {
            let (status, error) = form_error(error);
            return Ok(new_project_page(&access, status, input, error));
        }
    };
    let new = NewProject {
        name,
        mode: Mode::Sandbox,
        configuration: ConfigurationPatch::default(),
        products: Product::VARIANTS.to_vec(),
    };
    match app.engine.management.create_project(&access.actor, access.workspace.id, new, None).await {
        Ok(CreatedProject { project, credential }) => {
            let WorkspaceAccess { session, actor, workspace, projects } = access;
            let access = ProjectAccess { session, actor, workspace, project, projects };
            show_new_credential(&app, access, &credential)
        }
        Err(error @ (ManagementError::ProjectNameTaken | ManagementError::LimitReached(_))) => {
            let (status, error) = form_error(error);
            Ok(new_project_page(&access, status, input, error))
        }
        Err(error) => Err(error.into()),
    }
}

/// `GET …/projects/{project_id}/settings`
pub async fn settings(
    State(_): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let was_saved = Query::parse(query.as_deref(), &["saved"])?.get("saved").is_some();
    Ok(settings_page(&access, StatusCode::OK, None, was_saved))
}

/// `POST …/projects/{project_id}/settings`
pub async fn update(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let patch = match parse_patch(&fields) {
        Ok(patch) => patch,
        Err(error) => return Ok(settings_error(&access, &error)),
    };
    apply_patch(&app, access, patch).await
}

/// `POST …/projects/{project_id}/settings/mode`: takes the project live, with a new credential.
pub async fn change_mode(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
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
pub async fn set_disabled(
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

fn new_project_page(access: &WorkspaceAccess, status: StatusCode, name: String, error: Option<String>) -> Response {
    let layout = access.layout("New project", MenuSection::Projects);
    page::render(status, &NewProjectPage { layout, name, error })
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

/// `GET …/projects/{project_id}/networks`
pub async fn show_networks(
    State(app): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let query = Query::parse(query.as_deref(), &["saved", SEARCH_PARAMETER, PAGE_PARAMETER])?;
    let was_saved = query.get("saved").is_some();
    Ok(networks_page(&app, &access, &NetworkListQuery::parse(&query)?, was_saved))
}

/// `POST …/projects/{project_id}/networks`
pub async fn replace_networks(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let allowed = match fields.get("choice") {
        Some("all") => vec![AllowedNetwork { network: NetworkSelector::All, products: NETWORK_PRODUCTS.to_vec() }],
        Some("none") => vec![],
        _ => {
            let selected = parse_allowed_networks(app.engine.networks(), &fields);
            let mut allowed = networks_not_shown(&access.project, &fields);
            allowed.retain(|kept| selected.iter().all(|other| other.network != kept.network));
            allowed.extend(selected);
            allowed
        }
    };
    let (workspace, project) = (access.workspace.id, access.project.id);
    let is_unchanged = |current: &Project| current.allowed_networks == access.project.allowed_networks;
    let replaced =
        app.engine.management.replace_allowed_networks(&access.actor, workspace, project, allowed, &is_unchanged);
    replaced.await.map_err(|error| match error {
        ManagementError::PreconditionFailed => {
            let text = "The allowed networks were changed meanwhile. Reload the page and select again.";
            ConsoleError::new(StatusCode::CONFLICT, "Networks changed", text)
        }
        other => other.into(),
    })?;
    let query = [SEARCH_PARAMETER, PAGE_PARAMETER].map(|name| (name, fields.get(name)));
    let query = [&query[..], &[("saved", Some(""))]].concat();
    Ok(page::see_other(&page::link(&format!("{}/networks", access.path()), &query)))
}

/// The form contains one page of the networks, which it names. Others stay as they are.
fn networks_not_shown(project: &Project, fields: &FormFields) -> Vec<AllowedNetwork> {
    let Some(shown) = fields.get("shown") else { return vec![] };
    let is_shown = |allowed: &&AllowedNetwork| shown.split(' ').any(|id| id == allowed.network.to_string());
    project.allowed_networks.iter().filter(|allowed| !is_shown(allowed)).cloned().collect()
}

/// Checkboxes are named `23410.sim_swap`, or `*.sim_swap` for all networks. Ids of the same network are merged.
fn parse_allowed_networks(networks: &Networks, fields: &FormFields) -> Vec<AllowedNetwork> {
    let directory = networks.directory();
    let mut allowed: Vec<AllowedNetwork> = vec![];
    for name in fields.names() {
        let parts =
            name.split_once('.').map(|(id, product)| (id.parse::<NetworkSelector>(), product.parse::<Product>()));
        let Some((Ok(network), Ok(product))) = parts else { continue };
        if !product.requires_operator() {
            continue;
        }
        let network = match network {
            NetworkSelector::All => NetworkSelector::All,
            NetworkSelector::One(id) => directory.find_by_any_id(&id).map_or(id, |known| known.id.clone()).into(),
        };
        match allowed.iter_mut().find(|other| other.network == network) {
            Some(other) if other.products.contains(&product) => {}
            Some(other) => other.products.push(product),
            None => allowed.push(AllowedNetwork { network, products: vec![product] }),
        }
    }
    allowed
}

fn networks_page(app: &App, access: &ProjectAccess, query: &NetworkListQuery, was_saved: bool) -> Response {
    let project = &access.project;
    let networks = app.engine.networks();
    let directory = networks.directory();
    let single = project.allowed_networks.iter().filter_map(|allowed| match &allowed.network {
        NetworkSelector::All => None,
        NetworkSelector::One(id) => Some(id),
    });
    let unknown = single.filter(|id| directory.get(id).is_none() && query.matches_id(id)).map(ListedNetwork::Unknown);
    let known = directory.networks().filter(|network| query.matches(network)).map(ListedNetwork::Known);
    let found = query.select(known.chain(unknown));
    let mut rows = vec![NetworkRow {
        name: "All networks".to_owned(),
        country: String::new(),
        aliases: "including networks added later".to_owned(),
        cells: product_cells(&NetworkSelector::All, project, |_| true),
        id: NetworkSelector::All.to_string(),
    }];
    let mut unknown_networks = vec![];
    for network in &found.items {
        match network {
            ListedNetwork::Known(network) => {
                let supported = networks.supported_products(network);
                rows.push(NetworkRow {
                    name: network.name.clone(),
                    country: network.country.to_string(),
                    aliases: network.aliases.join(", "),
                    cells: product_cells(&network.id.clone().into(), project, |product| supported.contains(&product)),
                    id: network.id.to_string(),
                });
            }
            ListedNetwork::Unknown(id) => unknown_networks.push(NetworkRow {
                name: id.to_string(),
                country: String::new(),
                aliases: directory.find_by_any_id(id).map(|network| network.name.clone()).unwrap_or_default(),
                cells: product_cells(&(*id).clone().into(), project, |_| false),
                id: id.to_string(),
            }),
        }
    }
    let has_networks = directory.networks().next().is_some();
    if !has_networks {
        rows.clear();
    }
    let shown: Vec<&str> = rows.iter().chain(&unknown_networks).map(|row| row.id.as_str()).collect();
    let layout = access.layout("Allowed networks", MenuSection::AllowedNetworks);
    let path = format!("{}/networks", layout.project_path());
    let page = AllowedNetworksPage {
        is_sandbox: project.mode == Mode::Sandbox,
        products: NETWORK_PRODUCTS.map(Product::title),
        shown: shown.join(" "),
        networks: rows,
        unknown_networks,
        has_networks,
        search: query.text.clone(),
        pagination: Pagination::new(&found, &path, &query.link_parameters()),
        was_saved,
        layout,
    };
    page::render_ok(&page)
}

enum ListedNetwork<'n> {
    Known(&'n Network),
    /// Allowed, but not configured.
    Unknown(&'n NetworkId),
}

fn product_cells(
    network: &NetworkSelector,
    project: &Project,
    is_supported: impl Fn(Product) -> bool,
) -> Vec<ProductCell> {
    let allowed = project.allowed_networks.iter().find(|allowed| allowed.network == *network);
    let cell = |product: Product| ProductCell {
        name: format!("{network}.{product}"),
        product: product.title(),
        is_allowed: allowed.is_some_and(|allowed| allowed.products.contains(&product)),
        is_supported: is_supported(product),
    };
    NETWORK_PRODUCTS.into_iter().map(cell).collect()
}
