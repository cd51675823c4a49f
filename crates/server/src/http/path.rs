//! Identifiers in paths.

use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use ringtrue_domain::{
    lifecycle::CheckId,
    tenancy::{ClientId, CredentialOwner, ProjectId, WorkspaceId},
};

use super::{
    arrival::{Arrival, Context},
    problem::Problem,
};

/// The route that a request has taken.
pub struct Way {
    /// Of its path.
    pub template: &'static str,
    /// The parameters of the template, decoded.
    parameters: Vec<(&'static str, String)>,
}

impl Way {
    /// A way through `template`, with what stands in a path for its parameters.
    pub fn new<'a>(template: &'static str, names: &[&'static str], values: impl Iterator<Item = &'a str>) -> Self {
        Way { template, parameters: names.iter().zip(values).map(|(name, value)| (*name, decoded(value))).collect() }
    }
}

/// A `%` that escapes nothing stands for itself. Bytes that are not UTF-8 become a character that nothing of ours has in
/// it, so that whoever reads the value refuses it.
fn decoded(value: &str) -> String {
    percent_decode_str(value).decode_utf8_lossy().into_owned()
}

/// Masked: a path can hold a number.
impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Way({})", self.template)
    }
}

/// The parameters of a route's path template.
#[derive(Debug)]
pub struct PathIds(Arc<Arrival>);

impl FromRequestParts<Context> for PathIds {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, context: &Context) -> Result<Self, Infallible> {
        Ok(PathIds(Arc::clone(&context.arrival)))
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
        text.parse()
            .map_err(|_| Problem::bad_request("`client_id` in the path must be 1 to 64 letters, digits, `_` and `-`"))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let parameters = &self.0.way.get()?.parameters;
        parameters.iter().find(|(parameter, _)| *parameter == name).map(|(_, value)| value.as_str())
    }

    fn id<T: FromStr>(&self, name: &str) -> Result<T, Problem> {
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
            assert_eq!(decoded(value), expected, "{value}");
        }
    }
}
