//! Identifiers in paths.

use std::{fmt, str::FromStr};

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use ringtrue_domain::{
    lifecycle::CheckId,
    tenancy::{ClientId, CredentialOwner, ProjectId, WorkspaceId},
};

use super::{App, catalogue::Code, problem::Problem};

/// The parameters of a route's path template.
pub struct PathIds(RawPathParams);

/// Masked: a path can hold a number.
impl fmt::Debug for PathIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl FromRequestParts<App> for PathIds {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        RawPathParams::from_request_parts(parts, app).await.map(PathIds).map_err(|_| Problem::not_found())
    }
}

impl PathIds {
    pub fn workspace(&self) -> Result<WorkspaceId, Problem> {
        self.id("workspace_id")
    }

    pub fn project(&self) -> Result<ProjectId, Problem> {
        self.id("project_id")
    }

    pub fn check(&self) -> Result<CheckId, Problem> {
        self.id("check_id")
    }

    /// Whose credentials the path is about: a project's when it names one, else the workspace's.
    pub fn owner(&self) -> Result<CredentialOwner, Problem> {
        let workspace = self.workspace()?;
        if self.get("project_id").is_some() {
            Ok(CredentialOwner::Project(workspace, self.project()?))
        } else {
            Ok(CredentialOwner::Workspace(workspace))
        }
    }

    pub fn client_id(&self) -> Result<ClientId, Problem> {
        let text = self.get("client_id").unwrap_or_default();
        text.parse().map_err(|_| Problem::new(Code::CredentialNotFound, "there is no such credential"))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(param, _)| *param == name).map(|(_, value)| value)
    }

    fn id<T: FromStr>(&self, name: &str) -> Result<T, Problem> {
        let text = self.get(name).unwrap_or_default();
        text.parse().map_err(|_| Problem::bad_request(format!("`{name}` in the path must be a UUID")))
    }
}
