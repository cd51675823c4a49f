//! The web console at `/console`, for administrators and for members of workspaces.
//!
//! Pages are rendered on the server and work without JavaScript. Every change is a form with a CSRF token of the
//! session. Only the engine authorizes, by
//! [`ConsoleUser::authorize`](ringtrue_engine::accounts::ConsoleUser::authorize); pages merely hide forbidden actions.
//! This crate never accesses the store.
//!
//! The routes are not part of the API or its OpenAPI document.

mod accounts;
mod audit;
mod blocks;
mod callbacks;
mod chart;
mod checks;
mod credentials;
mod csv;
mod dependencies;
mod deployment;
mod eligibility;
mod error;
mod flash;
mod forms;
mod getting_started;
mod handset;
mod identity_provider;
mod live;
mod masking;
mod members;
mod menu;
mod network_list;
mod openid_connect;
mod overview;
mod page;
mod projects;
mod requests;
mod sandbox_tokens;
mod search;
mod second_factor;
mod session;
mod sign_in;
mod signatures;
mod usage;
mod workspaces;

use std::sync::Arc;

use axum::extract::State;
use ringtrue_web::{app::App, assets::Asset, routes::Routes};

pub use dependencies::{ConnectorStatuses, ConsoleDependencies};
use error::ConsoleError;
pub use identity_provider::{IdentityProvider, IdentityProviderSettings};
use session::ConsoleSession;

/// Assets in addition to those of all pages.
const ASSETS: [Asset; 4] = [
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
];

pub fn routes(dependencies: ConsoleDependencies) -> Routes {
    let routes = Routes::default()
        .get("/console", workspaces::show)
        .get("/console/sign-in", sign_in::show)
        .post("/console/sign-in", sign_in::sign_in)
        .post("/console/sign-out", sign_in::sign_out)
        .get("/console/link", sign_in::show_link)
        .post("/console/link", sign_in::submit_link)
        .merge(sign_in::routes())
        .merge(accounts::routes())
        .merge(openid_connect::routes())
        .merge(second_factor::routes())
        .post("/console/new-workspace", workspaces::create_workspace)
        .get("/console/workspaces/{workspace_id}", workspaces::show_workspace)
        .merge(members::routes())
        .get("/console/workspaces/{workspace_id}/projects/{project_id}", overview::redirect)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/getting-started", getting_started::show)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/overview", overview::show)
        .merge(checks::routes())
        .merge(callbacks::routes())
        .merge(search::routes())
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/live", live::show)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/live/events", live::events)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/requests", requests::list)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/requests/{request_id}", requests::detail)
        .merge(handset::routes())
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/networks", projects::show_networks)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/networks", projects::replace_networks)
        .merge(eligibility::routes())
        .merge(signatures::routes())
        .merge(sandbox_tokens::routes())
        .merge(audit::routes())
        .merge(deployment::routes())
        .get("/console/workspaces/{workspace_id}/new-project", projects::new_form)
        .post("/console/workspaces/{workspace_id}/new-project", projects::create)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/settings", projects::settings)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings", projects::update)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/mode", projects::change_mode)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/disabled", projects::set_disabled)
        .merge(usage::routes())
        .merge(credentials::routes())
        .get("/console/{*rest}", not_found)
        .with_extension(Arc::new(dependencies));
    ASSETS.into_iter().fold(routes, |routes, file| routes.get(file.path, move || async move { file }))
}

/// Responds to unknown paths, after sign-in.
async fn not_found(State(_): State<App>, _: ConsoleSession) -> ConsoleError {
    ConsoleError::not_found()
}
