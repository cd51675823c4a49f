//! Identifiers in paths.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use ringtrue_domain::{
    lifecycle::CheckId,
    tenancy::{ClientId, CredentialOwner, ProjectId, WorkspaceId},
};

use super::{
    arrival::{Arrival, Context},
    catalogue::Code,
    problem::Problem,
};

/// The route that a request has taken.
pub struct Way {
    /// Of its path.
    pub template: &'static str,
    /// The parameters of the template, decoded. `None`: one of them is not UTF-8.
    parameters: Option<Vec<(&'static str, String)>>,
}

impl Way {
    /// A way through `template`, with what stands in a path for its parameters.
    pub fn new<'a>(template: &'static str, names: &[&'static str], values: impl Iterator<Item = &'a str>) -> Self {
        let mut parameters = Vec::with_capacity(names.len());
        for (name, value) in names.iter().zip(values) {
            let Some(value) = decoded(value) else { return Way { template, parameters: None } };
            parameters.push((*name, value));
        }
        Way { template, parameters: Some(parameters) }
    }
}

/// `None`: bytes that are not UTF-8. A `%` that escapes nothing stands for itself.
fn decoded(value: &str) -> Option<String> {
    percent_decode_str(value).decode_utf8().ok().map(Cow::into_owned)
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
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, context: &Context) -> Result<Self, Problem> {
        let way = context.arrival.way.get();
        let is_readable = way.is_some_and(|way| way.parameters.is_some());
        is_readable.then(|| PathIds(Arc::clone(&context.arrival))).ok_or_else(Problem::not_found)
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
        let parameters = self.0.way.get()?.parameters.as_ref()?;
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
            ("", Some("")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("+44", Some("+44")),
            ("%2B44%2b", Some("+44+")),
            ("%C3%a9", Some("é")),
            ("%ff", None),
            ("%", Some("%")),
            ("%2", Some("%2")),
            ("%+1", Some("%+1")),
            ("%zz%41", Some("%zzA")),
            ("%%41", Some("%A")),
        ] {
            assert_eq!(decoded(value).as_deref(), expected, "{value}");
        }
    }
}
