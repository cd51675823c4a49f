//! The web console at `/console`, for administrators and for members of workspaces.
//!
//! Pages are rendered on the server and work without JavaScript. Every change is a form with a CSRF token of the
//! session. Only the engine checks permissions, with
//! [`ConsoleUser::authorize`](ringtrue_engine::accounts::ConsoleUser::authorize); pages merely hide forbidden actions.
//! This crate never accesses the store.
//!
//! Modules are grouped as the menu groups its pages. The routes are not part of the API or its OpenAPI document.

mod configure;
mod dependencies;
mod deployment;
mod developers;
mod identity_provider;
mod observe;
mod page;
mod session;
mod workspace;

use std::sync::Arc;

use axum::extract::State;
use ringtrue_web::{app::App, assets::Asset, routes::Routes};

pub use dependencies::{CertificateStatuses, ConnectorStatuses, ConsoleDependencies};
pub use identity_provider::{IdentityProvider, IdentityProviderSettings};
use page::error::ConsoleError;
use session::{
    console_session::{ConsoleSession, ProjectAccess, WorkspaceAccess},
    response_context::finish_response,
};

/// Static files of the console, in addition to those of all pages.
const ASSETS: [Asset; 7] = [
    Asset {
        path: "/console/assets/console.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("../assets/console.css"),
    },
    Asset {
        path: "/console/assets/console.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../assets/console.js"),
    },
    Asset {
        path: "/console/assets/refresh.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../assets/refresh.js"),
    },
    Asset {
        path: "/console/assets/live.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../assets/live.js"),
    },
    Asset {
        path: "/console/assets/preview.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../assets/preview.js"),
    },
    Asset {
        path: "/console/assets/handset.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../assets/handset.js"),
    },
    Asset {
        path: "/console/assets/settings.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../assets/settings.js"),
    },
];

pub fn routes(dependencies: ConsoleDependencies) -> Routes {
    let routes = Routes::default()
        .merge(session::routes())
        .merge(observe::routes())
        .merge(developers::routes())
        .merge(configure::routes())
        .merge(workspace::routes())
        .merge(deployment::routes())
        .get("/console/{*rest}", not_found)
        .get("/console/workspaces/{workspace_id}/{*rest}", not_found_in_workspace)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/{*rest}", not_found_in_project)
        .with_extension(Arc::new(dependencies))
        .finish_with(finish_response);
    ASSETS.into_iter().fold(routes, |routes, file| routes.get(file.path, move || async move { file }))
}

/// Responds to unknown paths. Visitors without a session are sent to the sign-in page instead.
async fn not_found(State(_): State<App>, _: ConsoleSession) -> ConsoleError {
    ConsoleError::not_found()
}

/// Like [`not_found`], with the menu of the workspace.
async fn not_found_in_workspace(State(_): State<App>, _: WorkspaceAccess) -> ConsoleError {
    ConsoleError::not_found()
}

/// Like [`not_found`], with the menu of the project.
async fn not_found_in_project(State(_): State<App>, _: ProjectAccess) -> ConsoleError {
    ConsoleError::not_found()
}
