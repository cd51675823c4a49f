//! Layout and rendering of pages.

use std::fmt;

use askama::{Template, filters::HtmlSafe};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use ringtrue_domain::{
    account::Permission,
    tenancy::{Mode, Project, Workspace},
};

use super::{CONTENT_SECURITY_POLICY, session::ConsoleSession};
use crate::{
    http::{problem::Problem, time},
    pages::HTML_CONTENT_TYPE,
};

/// Rows on a page of a list.
pub const PAGE_SIZE: u32 = 25;

/// Menu entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Home,
    Projects,
    Members,
    Overview,
    Checks,
    Live,
    Requests,
    Handset,
    AllowedNetworks,
    Settings,
    Credentials,
    WorkspaceCredentials,
    AuditLog,
    Eligibility,
    Signatures,
    DeploymentNetworks,
    DeploymentEligibility,
    Accounts,
    Keys,
    DeploymentAudit,
}

impl Section {
    fn name(self) -> &'static str {
        match self {
            Section::Home => "home",
            Section::Projects => "projects",
            Section::Members => "members",
            Section::Overview => "overview",
            Section::Checks => "checks",
            Section::Live => "live",
            Section::Requests => "requests",
            Section::Handset => "handset",
            Section::AllowedNetworks => "allowed networks",
            Section::Settings => "settings",
            Section::Credentials => "credentials",
            Section::WorkspaceCredentials => "workspace credentials",
            Section::AuditLog => "audit log",
            Section::Eligibility => "eligibility",
            Section::Signatures => "signatures",
            Section::DeploymentNetworks => "deployment networks",
            Section::DeploymentEligibility => "deployment eligibility",
            Section::Accounts => "accounts",
            Section::Keys => "keys",
            Section::DeploymentAudit => "deployment audit log",
        }
    }
}

/// Rendered as a `<time>` element.
#[derive(Clone, Copy, Debug)]
pub struct UtcTime(pub Timestamp);

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.strftime("%Y-%m-%d %H:%M:%S");
        write!(f, "<time datetime=\"{}\" title=\"UTC\">{shown}</time>", time::format(self.0))
    }
}

/// Contains only digits and punctuation.
impl HtmlSafe for UtcTime {}

/// Title, user and location of a page, for the layout template.
#[derive(Clone, Debug)]
pub struct Layout {
    pub title: String,
    pub section: Section,
    /// `None` without a session.
    pub user: Option<LayoutUser>,
    pub workspace: Option<LayoutWorkspace>,
    pub project: Option<LayoutProject>,
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

impl Layout {
    /// Layout without a user.
    pub fn anonymous(title: &str) -> Self {
        Layout { title: title.to_owned(), section: Section::Home, user: None, workspace: None, project: None }
    }

    pub fn for_session(session: &ConsoleSession, title: &str) -> Self {
        let email = session.user.account.email.to_string();
        let user =
            Some(LayoutUser { email, csrf_token: session.csrf_token.clone(), is_admin: session.user.account.is_admin });
        Layout { user, ..Layout::anonymous(title) }
    }

    #[must_use]
    pub fn in_workspace(mut self, session: &ConsoleSession, workspace: &Workspace, section: Section) -> Self {
        let role = session.user.role_in(workspace.id);
        let may = |permission| role.is_some_and(|role| role.may(permission));
        self.section = section;
        self.workspace = Some(LayoutWorkspace {
            path: format!("/console/workspaces/{}", workspace.id),
            name: workspace.name.to_string(),
            role: role.map_or("", |role| role.as_str()),
            may_develop: may(Permission::Develop),
            may_manage_access: may(Permission::ManageAccess),
        });
        self
    }

    #[must_use]
    pub fn in_deployment(mut self, section: Section) -> Self {
        self.section = section;
        self
    }

    #[must_use]
    pub fn in_project(mut self, project: &Project) -> Self {
        self.project = Some(LayoutProject {
            path: format!("/console/workspaces/{}/projects/{}", project.workspace, project.id),
            name: project.name.to_string(),
            is_sandbox: project.mode == Mode::Sandbox,
            disabled: project.disabled,
        });
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
            Section::DeploymentNetworks
                | Section::DeploymentEligibility
                | Section::Accounts
                | Section::Keys
                | Section::DeploymentAudit
        );
        is_deployment_page || self.workspace.is_some()
    }

    pub fn breadcrumb(&self) -> String {
        match (&self.workspace, &self.project) {
            (Some(workspace), Some(project)) => format!("{} / {}", workspace.name, project.name),
            (Some(workspace), None) => workspace.name.clone(),
            (None, _) => "Deployment".to_owned(),
        }
    }

    /// Whether a menu entry is the current page.
    pub fn is_current(&self, name: &str) -> bool {
        self.section.name() == name
    }
}

pub fn render(status: StatusCode, page: &impl Template) -> Response {
    let body = match page.render() {
        Ok(body) => body,
        Err(error) => {
            tracing::error!(%error, "failed to render console page");
            return html_response(StatusCode::INTERNAL_SERVER_ERROR, "internal error".to_owned());
        }
    };
    html_response(status, body)
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

/// Redirects after a form, so that reloading does not submit it again.
pub fn see_other(path: &str) -> Response {
    let mut response = html_response(StatusCode::SEE_OTHER, String::new());
    match HeaderValue::from_str(path) {
        Ok(location) => {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Err(error) => {
            return render(
                StatusCode::INTERNAL_SERVER_ERROR,
                &FallbackPage { error: Problem::internal(&error).detail },
            );
        }
    }
    response
}

/// Shown when a redirect cannot be rendered.
#[derive(Template)]
#[template(source = "{{ error }}", ext = "html")]
struct FallbackPage {
    error: String,
}
