//! Path parameters.

use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use ringtrue_domain::{
    lifecycle::CheckId,
    tenancy::{ClientId, CredentialOwner, ProjectId, WorkspaceId},
};

use super::{
    problem::Problem,
    request_context::{HandlerState, RequestContext},
};

/// The route that matched a request.
pub struct MatchedRoute {
    pub template: &'static str,
    /// Decoded parameters.
    parameters: Vec<(&'static str, String)>,
}

impl MatchedRoute {
    pub fn new<'a>(template: &'static str, names: &[&'static str], values: impl Iterator<Item = &'a str>) -> Self {
        MatchedRoute {
            template,
            parameters: names.iter().zip(values).map(|(name, value)| (*name, decode_parameter(value))).collect(),
        }
    }
}

/// A `%` that starts no escape is literal. Invalid UTF-8 becomes U+FFFD, which no valid parameter contains.
fn decode_parameter(value: &str) -> String {
    percent_decode_str(value).decode_utf8_lossy().into_owned()
}

/// Masked: paths can contain phone numbers.
impl fmt::Debug for MatchedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MatchedRoute({})", self.template)
    }
}

/// Extracts the parameters of the matched route.
#[derive(Debug)]
pub struct PathParameters(Arc<RequestContext>);

impl FromRequestParts<HandlerState> for PathParameters {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &HandlerState) -> Result<Self, Infallible> {
        Ok(PathParameters(Arc::clone(&state.context)))
    }
}

impl PathParameters {
    pub fn workspace(&self) -> Result<WorkspaceId, Problem> {
        self.parse_uuid("workspace_id")
    }

    pub fn project(&self) -> Result<ProjectId, Problem> {
        self.parse_uuid("project_id")
    }

    pub fn check(&self) -> Result<CheckId, Problem> {
        self.parse_uuid("check_id")
    }

    /// Owner of the credentials in the path: the project if the path names one, otherwise the workspace.
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
        text.parse()
            .map_err(|_| Problem::bad_request("`client_id` in the path must be 1 to 64 letters, digits, `_` and `-`"))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let parameters = &self.0.matched_route.get()?.parameters;
        parameters.iter().find(|(parameter, _)| *parameter == name).map(|(_, value)| value.as_str())
    }

    fn parse_uuid<T: FromStr>(&self, name: &str) -> Result<T, Problem> {
        let text = self.get(name).unwrap_or_default();
        text.parse().map_err(|_| Problem::bad_request(format!("`{name}` in the path must be a UUID")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        for (value, expected) in [
            ("", ""),
            ("192.0.2.1", "192.0.2.1"),
            ("+44", "+44"),
            ("%2B44%2b", "+44+"),
            ("%C3%a9", "é"),
            ("%ff", "\u{fffd}"),
            ("a%C3b", "a\u{fffd}b"),
            ("%", "%"),
            ("%2", "%2"),
            ("%+1", "%+1"),
            ("%zz%41", "%zzA"),
            ("%%41", "%A"),
        ] {
            assert_eq!(decode_parameter(value), expected, "{value}");
        }
    }
}
