//! The Management API: `/v1/management`, scope `management`, workspace credentials.

mod allowed_networks;
mod credentials;
mod projects;
mod reports;
mod workspaces;

use super::Routes;

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/management/networks", allowed_networks::list)
        .get("/v1/management/workspaces", workspaces::list)
        .get("/v1/management/workspaces/{workspace_id}", workspaces::get)
        .patch("/v1/management/workspaces/{workspace_id}", workspaces::patch)
        .get("/v1/management/workspaces/{workspace_id}/projects", projects::list)
        .post("/v1/management/workspaces/{workspace_id}/projects", projects::create)
        .get("/v1/management/workspaces/{workspace_id}/projects/{project_id}", projects::get)
        .patch("/v1/management/workspaces/{workspace_id}/projects/{project_id}", projects::patch)
        .get("/v1/management/workspaces/{workspace_id}/projects/{project_id}/allowed-networks", allowed_networks::get)
        .put("/v1/management/workspaces/{workspace_id}/projects/{project_id}/allowed-networks", allowed_networks::put)
        .get("/v1/management/workspaces/{workspace_id}/projects/{project_id}/credentials", credentials::list)
        .post("/v1/management/workspaces/{workspace_id}/projects/{project_id}/credentials", credentials::create)
        .get("/v1/management/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}", credentials::get)
        .delete(
            "/v1/management/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}",
            credentials::delete,
        )
        .get("/v1/management/workspaces/{workspace_id}/credentials", credentials::list)
        .post("/v1/management/workspaces/{workspace_id}/credentials", credentials::create)
        .get("/v1/management/workspaces/{workspace_id}/credentials/{client_id}", credentials::get)
        .delete("/v1/management/workspaces/{workspace_id}/credentials/{client_id}", credentials::delete)
        .get("/v1/management/workspaces/{workspace_id}/usage", reports::usage)
        .get("/v1/management/workspaces/{workspace_id}/audit-events", reports::audit_events)
}
