//! What layouts of pages are built from.

use std::sync::Arc;

use ringtrue_domain::tenancy::{Project, Workspace};
use ringtrue_engine::accounts::ConsoleUser;

use crate::page::{Layout, LayoutUser, MenuSection};

/// The user, workspace and project of a request. Cheap to clone, so that every request can keep one for an error page,
/// whose layout is built only if there is an error.
#[derive(Clone, Debug)]
pub struct LayoutSource {
    pub user: Arc<ConsoleUser>,
    pub csrf_token: Arc<str>,
    pub workspace: Option<Arc<Workspace>>,
    pub project: Option<Arc<Project>>,
    /// Project whose pages are in the menu of a page that belongs to the workspace.
    pub menu_project: Option<Arc<Project>>,
    /// The first projects by name, for the project switcher.
    pub projects: Arc<[Arc<Project>]>,
}

impl LayoutSource {
    pub fn layout(&self, title: &str, section: MenuSection) -> Layout {
        let user = LayoutUser {
            email: self.user.account.email.to_string(),
            csrf_token: self.csrf_token.to_string(),
            is_admin: self.user.account.is_admin,
        };
        let layout = Layout { user: Some(user), ..Layout::anonymous(title) };
        let Some(workspace) = &self.workspace else { return layout };
        let layout = layout.in_workspace(workspace, self.user.role_in(workspace.id), section);
        let layout = match &self.project {
            Some(project) => layout.in_project(project),
            None => layout.with_menu_of(self.menu_project.as_deref()),
        };
        layout.with_switcher(&self.projects)
    }

    /// Returns the layout of an error page, which sets its own title.
    pub fn error_layout(&self) -> Layout {
        self.layout("", MenuSection::Home)
    }
}
