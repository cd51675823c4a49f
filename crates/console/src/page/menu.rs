//! Builds the menu of the console: the pages of the project and workspace, or those of the deployment.

use crate::page::{Layout, MenuSection, blocks::Icon};

/// One area of the menu: for a project, a workspace or the deployment.
#[derive(Debug)]
pub struct MenuArea {
    pub name: &'static str,
    pub groups: Vec<MenuGroup>,
}

#[derive(Debug)]
pub struct MenuGroup {
    pub title: &'static str,
    pub entries: Vec<MenuEntry>,
}

#[derive(Debug)]
pub struct MenuEntry {
    pub title: &'static str,
    pub path: String,
    pub icon: Icon,
    pub is_current: bool,
}

/// Builds menu entries for the pages under one path.
struct MenuBuilder<'l> {
    path: &'l str,
    current: MenuSection,
}

impl MenuBuilder<'_> {
    fn entry(&self, section: MenuSection, title: &'static str, icon: &str, page: &str) -> MenuEntry {
        MenuEntry {
            title,
            path: format!("{}{page}", self.path),
            icon: Icon::named(icon),
            is_current: section == self.current,
        }
    }
}

impl Layout {
    /// Returns the areas of the sidebar. Together they must fit into a window 720 pixels high without scrolling.
    pub fn menu(&self) -> Vec<MenuArea> {
        if self.workspace.is_none() {
            return vec![self.deployment_menu()];
        }
        let areas = [self.project_menu(), self.workspace_menu()];
        let mut areas: Vec<MenuArea> = areas.into_iter().flatten().collect();
        if self.project.is_none() && self.menu_project.is_none() && self.is_admin() {
            areas.push(self.deployment_menu());
        }
        areas
    }

    fn project_menu(&self) -> Option<MenuArea> {
        let project = self.project.as_ref().or(self.menu_project.as_ref())?;
        let menu = MenuBuilder { path: &project.path, current: self.section };
        let observe = vec![
            menu.entry(MenuSection::Overview, "Overview", "overview", "/overview"),
            menu.entry(MenuSection::Live, "Live", "live", "/live"),
            menu.entry(MenuSection::Checks, "Checks", "checks", "/checks/verification"),
            menu.entry(MenuSection::Callbacks, "Callbacks", "callbacks", "/callbacks"),
            menu.entry(MenuSection::Requests, "Requests", "requests", "/requests"),
        ];
        let mut build = vec![
            menu.entry(MenuSection::Eligibility, "Eligibility", "eligibility", "/eligibility"),
            menu.entry(MenuSection::SignatureDebugger, "Signatures", "signatures", "/signatures"),
        ];
        if project.is_sandbox {
            build.insert(0, menu.entry(MenuSection::GettingStarted, "Getting started", "start", "/getting-started"));
            build.insert(1, menu.entry(MenuSection::Handset, "Handset", "handset", "/handset"));
        }
        let configure = vec![
            menu.entry(MenuSection::Settings, "Settings", "settings", "/settings"),
            menu.entry(MenuSection::AllowedNetworks, "Allowed networks", "networks", "/networks"),
            menu.entry(MenuSection::Credentials, "Credentials", "credentials", "/credentials"),
        ];
        Some(MenuArea {
            name: "Project",
            groups: vec![
                MenuGroup { title: "Observe", entries: observe },
                MenuGroup { title: "Build", entries: build },
                MenuGroup { title: "Configure", entries: configure },
            ],
        })
    }

    fn workspace_menu(&self) -> Option<MenuArea> {
        let menu = MenuBuilder { path: &self.workspace.as_ref()?.path, current: self.section };
        let mut entries = vec![
            menu.entry(MenuSection::Projects, "Projects", "projects", ""),
            menu.entry(MenuSection::Members, "Members", "members", "/members"),
        ];
        if self.may_manage_access() {
            entries.extend([
                menu.entry(MenuSection::WorkspaceCredentials, "Credentials", "credentials", "/credentials"),
                menu.entry(MenuSection::AuditLog, "Audit log", "audit", "/audit"),
            ]);
        }
        entries.push(menu.entry(MenuSection::Usage, "Usage", "usage", "/usage"));
        Some(MenuArea { name: "Workspace", groups: vec![MenuGroup { title: "Workspace", entries }] })
    }

    pub fn deployment_menu(&self) -> MenuArea {
        let menu = MenuBuilder { path: "/console/deployment", current: self.section };
        let entries = vec![
            menu.entry(MenuSection::DeploymentNetworks, "Networks", "networks", "/networks"),
            menu.entry(MenuSection::DeploymentEligibility, "Eligibility", "eligibility", "/eligibility"),
            menu.entry(MenuSection::Accounts, "Accounts", "accounts", "/accounts"),
            menu.entry(MenuSection::Keys, "Keys", "key", "/keys"),
            menu.entry(MenuSection::DeploymentAudit, "Audit log", "audit", "/audit"),
        ];
        MenuArea { name: "Deployment", groups: vec![MenuGroup { title: "Deployment", entries }] }
    }

    /// Returns the menu entry of the project's search page. `None` outside of projects.
    pub fn search_entry(&self) -> Option<MenuEntry> {
        let menu = MenuBuilder { path: &self.project.as_ref()?.path, current: self.section };
        Some(menu.entry(MenuSection::Search, "Search", "search", "/search"))
    }
}
