//! The frame around every page, and how pages are sent.

use std::fmt;

use askama::{Template, filters::HtmlSafe};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use ringtrue_domain::{
    account::Power,
    tenancy::{Mode, Project, Workspace},
};

use super::{CONTENT_SECURITY_POLICY, visitor::SignedIn};
use crate::{
    http::{problem::Problem, time},
    pages::HTML,
};

/// How long a page of a list is.
pub const ROWS: u32 = 25;

/// Where a page is in the console.
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

/// An instant, for people and for programs.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.strftime("%Y-%m-%d %H:%M:%S");
        write!(f, "<time datetime=\"{}\" title=\"UTC\">{shown}</time>", time::format(self.0))
    }
}

/// Nothing but digits and marks.
impl HtmlSafe for Moment {}

/// What is around a page.
#[derive(Clone, Debug)]
pub struct Frame {
    pub title: String,
    pub section: Section,
    /// `None` for strangers.
    pub person: Option<PersonMark>,
    pub workspace: Option<WorkspaceMark>,
    pub project: Option<ProjectMark>,
}

#[derive(Clone, Debug)]
pub struct PersonMark {
    pub email: String,
    pub form_token: String,
    pub is_admin: bool,
}

#[derive(Clone, Debug)]
pub struct WorkspaceMark {
    pub path: String,
    pub name: String,
    pub role: &'static str,
    pub may_develop: bool,
    pub may_own: bool,
}

#[derive(Clone, Debug)]
pub struct ProjectMark {
    pub path: String,
    pub name: String,
    pub is_sandbox: bool,
    pub disabled: bool,
}

impl Frame {
    /// For pages about nobody in particular.
    pub fn bare(title: &str) -> Self {
        Frame { title: title.to_owned(), section: Section::Home, person: None, workspace: None, project: None }
    }

    pub fn of(who: &SignedIn, title: &str) -> Self {
        let email = who.person.account.email.to_string();
        let person =
            Some(PersonMark { email, form_token: who.form_token.clone(), is_admin: who.person.account.is_admin });
        Frame { person, ..Frame::bare(title) }
    }

    #[must_use]
    pub fn in_workspace(mut self, who: &SignedIn, workspace: &Workspace, section: Section) -> Self {
        let role = who.person.role_in(workspace.id);
        let may = |power| role.is_some_and(|role| role.may(power));
        self.section = section;
        self.workspace = Some(WorkspaceMark {
            path: format!("/console/workspaces/{}", workspace.id),
            name: workspace.name.to_string(),
            role: role.map_or("", |role| role.as_str()),
            may_develop: may(Power::Develop),
            may_own: may(Power::Own),
        });
        self
    }

    /// For pages about all workspaces.
    #[must_use]
    pub fn in_deployment(mut self, section: Section) -> Self {
        self.section = section;
        self
    }

    #[must_use]
    pub fn in_project(mut self, project: &Project) -> Self {
        self.project = Some(ProjectMark {
            path: format!("/console/workspaces/{}/projects/{}", project.workspace, project.id),
            name: project.name.to_string(),
            is_sandbox: project.mode == Mode::Sandbox,
            disabled: project.disabled,
        });
        self
    }

    /// Where things of the project are.
    pub fn project_path(&self) -> &str {
        self.project.as_ref().map_or("", |project| &project.path)
    }

    pub fn workspace_path(&self) -> &str {
        self.workspace.as_ref().map_or("", |workspace| &workspace.path)
    }

    pub fn form_token(&self) -> &str {
        self.person.as_ref().map_or("", |person| &person.form_token)
    }

    pub fn may_develop(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.may_develop)
    }

    pub fn may_own(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.may_own)
    }

    /// Whether somebody who runs the deployment looks.
    pub fn is_admin(&self) -> bool {
        self.person.as_ref().is_some_and(|person| person.is_admin)
    }

    /// Whether the page is one of several in the same place.
    pub fn has_menu(&self) -> bool {
        let is_of_deployment = matches!(
            self.section,
            Section::DeploymentNetworks
                | Section::DeploymentEligibility
                | Section::Accounts
                | Section::Keys
                | Section::DeploymentAudit
        );
        is_of_deployment || self.workspace.is_some()
    }

    /// Where the page is, in a line.
    pub fn place(&self) -> String {
        match (&self.workspace, &self.project) {
            (Some(workspace), Some(project)) => format!("{} / {}", workspace.name, project.name),
            (Some(workspace), None) => workspace.name.clone(),
            (None, _) => "Deployment".to_owned(),
        }
    }

    /// Whether the page belongs to this entry of the menu.
    pub fn is_at(&self, name: &str) -> bool {
        self.section.name() == name
    }
}

/// A page that is ready to be sent.
pub fn html(status: StatusCode, page: &impl Template) -> Response {
    let body = match page.render() {
        Ok(body) => body,
        Err(error) => {
            tracing::error!(%error, "a page could not be made");
            return text(StatusCode::INTERNAL_SERVER_ERROR, "something went wrong on our side".to_owned());
        }
    };
    text(status, body)
}

fn text(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

pub fn ok(page: &impl Template) -> Response {
    html(StatusCode::OK, page)
}

/// After a form: to a page that can be loaded again without doing the same again.
pub fn see_other(path: &str) -> Response {
    let mut response = text(StatusCode::SEE_OTHER, String::new());
    match HeaderValue::from_str(path) {
        Ok(location) => {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Err(error) => {
            return html(StatusCode::INTERNAL_SERVER_ERROR, &Failed { error: Problem::internal(&error).detail });
        }
    }
    response
}

/// The last resort.
#[derive(Template)]
#[template(source = "{{ error }}", ext = "html")]
struct Failed {
    error: String,
}
