//! Layout of all pages, and functions that render them.

mod blocks;
pub mod chart;
pub mod country_name;
pub mod csv;
pub mod error;
mod menu;
pub mod network_list;
pub mod network_name;
pub mod redaction;
pub mod time_range;

use std::sync::Arc;

use askama::Template;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Permission, Role},
    page::Page,
    tenancy::{Mode, Project, Workspace},
};
use ringtrue_web::assets::HTML_CONTENT_TYPE;

pub use blocks::{Badge, BadgeKind, CodeText, ExactTime, Icon, ShortId, UtcTime};

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; \
     script-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Number of rows on one page of a list.
pub const PAGE_SIZE: u32 = 25;

/// Menu entry that is highlighted on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MenuSection {
    Home,
    Projects,
    Members,
    GettingStarted,
    Overview,
    Checks,
    Callbacks,
    Live,
    Requests,
    Search,
    Handset,
    AllowedNetworks,
    Settings,
    Credentials,
    WorkspaceCredentials,
    AuditLog,
    Usage,
    Eligibility,
    SignatureDebugger,
    DeploymentNetworks,
    DeploymentEligibility,
    Accounts,
    Keys,
    DeploymentAudit,
}

/// Data for the layout template: the page's title, the user, and the workspace and project to which the page belongs.
#[derive(Clone, Debug)]
pub struct Layout {
    pub title: String,
    pub section: MenuSection,
    /// Signed-in user. `None` without a session.
    pub user: Option<LayoutUser>,
    pub workspace: Option<LayoutWorkspace>,
    pub project: Option<LayoutProject>,
    /// Project whose pages are in the menu of a page that belongs to the workspace.
    pub menu_project: Option<LayoutProject>,
    /// Projects of the workspace, for the project switcher.
    pub switcher: Vec<SwitcherProject>,
}

/// A project that the user can switch to.
#[derive(Clone, Debug)]
pub struct SwitcherProject {
    pub path: String,
    pub name: String,
    pub is_sandbox: bool,
    pub is_current: bool,
}

#[derive(Clone, Debug)]
pub struct LayoutUser {
    pub email: String,
    pub csrf_token: String,
    pub is_admin: bool,
}

#[derive(Clone, Debug)]
pub struct LayoutWorkspace {
    pub path: String,
    pub name: String,
    pub role: &'static str,
    pub may_develop: bool,
    pub may_manage_access: bool,
}

#[derive(Clone, Debug)]
pub struct LayoutProject {
    pub path: String,
    pub name: String,
    pub is_sandbox: bool,
    pub disabled: bool,
}

impl LayoutProject {
    fn new(project: &Project) -> Self {
        LayoutProject {
            path: project_path(project),
            name: project.name.to_string(),
            is_sandbox: project.mode == Mode::Sandbox,
            disabled: project.disabled,
        }
    }
}

impl Layout {
    /// Creates the layout of a page without a signed-in user.
    pub fn anonymous(title: &str) -> Self {
        Layout {
            title: title.to_owned(),
            section: MenuSection::Home,
            user: None,
            workspace: None,
            project: None,
            menu_project: None,
            switcher: vec![],
        }
    }

    #[must_use]
    pub fn in_workspace(mut self, workspace: &Workspace, role: Option<Role>, section: MenuSection) -> Self {
        let may = |permission| role.is_some_and(|role| role.may(permission));
        self.section = section;
        self.workspace = Some(LayoutWorkspace {
            path: format!("/console/workspaces/{}", workspace.id),
            name: workspace.name.to_string(),
            role: role.map_or("", |role| role.into_str()),
            may_develop: may(Permission::Develop),
            may_manage_access: may(Permission::ManageAccess),
        });
        self
    }

    #[must_use]
    pub fn in_deployment(mut self, section: MenuSection) -> Self {
        self.section = section;
        self
    }

    #[must_use]
    pub fn in_project(mut self, project: &Project) -> Self {
        self.project = Some(LayoutProject::new(project));
        self
    }

    /// Adds the pages of a project to the menu of a page that belongs to the workspace.
    #[must_use]
    pub fn with_menu_of(mut self, project: Option<&Project>) -> Self {
        self.menu_project = project.map(LayoutProject::new);
        self
    }

    /// Adds the project switcher.
    #[must_use]
    pub fn with_switcher(mut self, projects: &[Arc<Project>]) -> Self {
        let entry = |project: &Arc<Project>| {
            let path = project_path(project);
            SwitcherProject {
                name: project.name.to_string(),
                is_sandbox: project.mode == Mode::Sandbox,
                is_current: self.project.as_ref().is_some_and(|current| current.path == path),
                path,
            }
        };
        self.switcher = projects.iter().map(entry).collect();
        self
    }

    pub fn project_path(&self) -> &str {
        self.project.as_ref().map_or("", |project| &project.path)
    }

    pub fn workspace_path(&self) -> &str {
        self.workspace.as_ref().map_or("", |workspace| &workspace.path)
    }

    pub fn csrf_token(&self) -> &str {
        self.user.as_ref().map_or("", |user| &user.csrf_token)
    }

    pub fn may_develop(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.may_develop)
    }

    pub fn may_manage_access(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.may_manage_access)
    }

    pub fn is_admin(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.is_admin)
    }

    pub fn has_menu(&self) -> bool {
        let is_deployment_page = matches!(
            self.section,
            MenuSection::DeploymentNetworks
                | MenuSection::DeploymentEligibility
                | MenuSection::Accounts
                | MenuSection::Keys
                | MenuSection::DeploymentAudit
        );
        is_deployment_page || self.workspace.is_some()
    }

    /// For templates: shows a timestamp as relative time.
    pub fn utc(at: &Timestamp) -> UtcTime {
        UtcTime(*at)
    }

    /// For templates: shows an id shortened, with a copy button.
    pub fn id(id: &(impl ToString + ?Sized)) -> ShortId {
        ShortId::new(id.to_string())
    }

    /// For templates: shows text with the parts between backticks as code.
    pub fn text(text: &(impl ToString + ?Sized)) -> CodeText {
        CodeText(text.to_string())
    }

    pub fn icon(name: &str) -> Icon {
        Icon::named(name)
    }
}

#[derive(Debug)]
pub struct Tab {
    pub path: String,
    pub title: &'static str,
    pub is_current: bool,
}

/// Position in a paged list, and links to the adjacent pages.
#[derive(Clone, Debug)]
pub struct Pagination {
    pub number: u32,
    pub total_pages: u64,
    pub total_items: u64,
    pub previous: Option<String>,
    pub next: Option<String>,
}

impl Pagination {
    /// Creates the pagination of the list at `path`. `filter` holds the list's other query parameters.
    pub fn new<T>(found: &Page<T>, path: &str, filter: &[(&str, Option<&str>)]) -> Self {
        let (number, total_pages) = (found.request.number(), found.total_pages());
        let page_link = |number: u32| path_with_query(path, &[filter, &[("page", Some(&number.to_string()))]].concat());
        Pagination {
            number,
            total_pages,
            total_items: found.total_items,
            previous: (number > 1).then(|| page_link(number - 1)),
            next: (u64::from(number) < total_pages).then(|| page_link(number + 1)),
        }
    }
}

/// An `<option>` of a `<select>` element.
#[derive(Debug)]
pub struct SelectOption {
    pub value: String,
    pub title: String,
    pub is_selected: bool,
}

/// Builds the options of a `<select>` element from values and titles.
pub fn select_options<'a>(all: impl Iterator<Item = (&'a str, &'a str)>, selected: Option<&str>) -> Vec<SelectOption> {
    let option = |(value, title): (&str, &str)| SelectOption {
        value: value.to_owned(),
        title: title.to_owned(),
        is_selected: selected == Some(value),
    };
    all.map(option).collect()
}

/// Returns the path under which all pages of a project are.
pub fn project_path(project: &Project) -> String {
    format!("/console/workspaces/{}/projects/{}", project.workspace, project.id)
}

/// Returns a URL with the query parameters that have a value.
pub fn path_with_query(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let given = query.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

pub fn render(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(body) => html_response(status, body),
        Err(error) => {
            tracing::error!(%error, "failed to render console page");
            html_response(StatusCode::INTERNAL_SERVER_ERROR, "internal error".to_owned())
        }
    }
}

fn html_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML_CONTENT_TYPE));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

pub fn render_ok(page: &impl Template) -> Response {
    render(StatusCode::OK, page)
}

/// Redirects with 303 after a form, so that a reload does not submit the form again.
pub fn see_other(path: &str) -> Response {
    let Ok(location) = HeaderValue::from_str(path) else {
        tracing::error!(path, "invalid redirect of console page");
        return html_response(StatusCode::INTERNAL_SERVER_ERROR, "internal error".to_owned());
    };
    let mut response = html_response(StatusCode::SEE_OTHER, String::new());
    response.headers_mut().insert(header::LOCATION, location);
    response
}
