//! The console at `/console`: pages for people who run a deployment, and for those who build on it.
//!
//! Server-rendered, without a build step: forms and links, which work without a script. Every page is made for one
//! person, and every change is a form that carries a token of that person's session. What may be done is decided in the
//! engine, by [`Person::enter`](ringtrue_engine::accounts::Person::enter) and nowhere else; the pages only leave out what
//! would be refused. The store is never touched here.
//!
//! These routes are for browsers, and no part of the API or of its document.

mod account;
mod accounts;
mod allowed_networks;
mod audit;
mod chart;
mod checks;
mod cookies;
mod credentials;
mod eligibility;
mod forms;
mod handset;
mod home;
mod invitation;
mod keys;
mod link;
mod live;
mod masking;
mod members;
mod networks;
mod overview;
mod page;
mod projects;
mod qr;
mod refusal;
mod requests;
mod sign_in;
mod signatures;
mod usage;
mod visitor;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};

use crate::{
    http::{App, Routes},
    pages::Asset,
};
use refusal::Refusal;
use visitor::SignedIn;

/// For every page of the console.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; \
     script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the console's pages load beside the assets of all pages.
const ASSETS: [Asset; 3] = [
    Asset {
        path: "/console/assets/console.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("../../assets/console.css"),
    },
    Asset {
        path: "/console/assets/copy.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../../assets/copy.js"),
    },
    Asset {
        path: "/console/assets/live.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("../../assets/live.js"),
    },
];

/// Every route of the console.
pub fn routes() -> Routes {
    let routes = Routes::default()
        .get("/console", home::home)
        .get("/console/sign-in", sign_in::form)
        .post("/console/sign-in", sign_in::sign_in)
        .post("/console/sign-out", sign_in::sign_out)
        .get("/console/link", link::look)
        .post("/console/link", link::follow)
        .merge(invitation::routes())
        .merge(account::routes())
        .merge(accounts::routes())
        .post("/console/new-workspace", home::create_workspace)
        .get("/console/workspaces/{workspace_id}", home::workspace)
        .merge(members::routes())
        .get("/console/workspaces/{workspace_id}/projects/{project_id}", overview::project)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/overview", overview::show)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}", checks::list)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}/{check_id}", checks::one)
        .post(
            "/console/workspaces/{workspace_id}/projects/{project_id}/checks/{product}/{check_id}/resend",
            checks::resend,
        )
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/live", live::show)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/live/events", live::events)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/requests", requests::list)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/requests/{request_id}", requests::one)
        .merge(handset::routes())
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/networks", allowed_networks::show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/networks", allowed_networks::change)
        .merge(eligibility::routes())
        .merge(signatures::routes())
        .merge(audit::routes())
        .merge(networks::routes())
        .merge(keys::routes())
        .get("/console/workspaces/{workspace_id}/new-project", projects::form)
        .post("/console/workspaces/{workspace_id}/new-project", projects::create)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/settings", projects::settings)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings", projects::change)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/mode", projects::change_mode)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/settings/disabled", projects::disable)
        .get("/console/workspaces/{workspace_id}/usage", usage::show)
        .get("/console/workspaces/{workspace_id}/credentials", credentials::list)
        .post("/console/workspaces/{workspace_id}/credentials", credentials::create)
        .post("/console/workspaces/{workspace_id}/credentials/{client_id}/delete", credentials::delete)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/credentials", credentials::list)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/credentials", credentials::create)
        .post(
            "/console/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}/delete",
            credentials::delete,
        )
        .get("/console/{*rest}", nothing);
    ASSETS.into_iter().fold(routes, |routes, file| routes.get(file.path, move || async move { asset(file) }))
}

/// Whatever there is none of. Strangers are asked to sign in first.
async fn nothing(State(_): State<App>, _: SignedIn) -> Refusal {
    Refusal::not_found()
}

fn asset(file: Asset) -> Response {
    let content_type = HeaderValue::from_static(file.content_type);
    let cached = HeaderValue::from_static("public, max-age=3600");
    ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, cached)], file.body).into_response()
}
