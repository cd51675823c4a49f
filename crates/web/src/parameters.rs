//! Extracts path and query parameters.

use std::{borrow::Cow, convert::Infallible, str::FromStr};

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use ringtrue_domain::{
    lifecycle::CheckId,
    page::PageRequest,
    search::{self, Field, Filter},
    tenancy::{ClientId, CredentialOwner, ProjectId, WorkspaceId},
    timestamp,
};

use crate::{error_catalog::ProblemCode, problem::Problem, request_context::HandlerState};

/// Extracts the decoded path parameters. If one of them is not UTF-8, all count as missing: the error is then reported
/// when the handler parses them, which is after authentication. `Debug` is masked, because parameters can be phone
/// numbers.
#[derive(derive_more::Debug)]
#[debug("PathParameters(…)")]
pub struct PathParameters(Option<RawPathParams>);

impl FromRequestParts<HandlerState> for PathParameters {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<Self, Infallible> {
        let parameters = PathParameters(RawPathParams::from_request_parts(parts, state).await.ok());
        state.context.log_check(|| parameters.get("check_id").or(parameters.get("verification_id"))?.parse().ok());
        Ok(parameters)
    }
}

impl PathParameters {
    pub fn workspace_id(&self) -> Result<WorkspaceId, Problem> {
        self.parse_uuid("workspace_id")
    }

    pub fn project_id(&self) -> Result<ProjectId, Problem> {
        self.parse_uuid("project_id")
    }

    pub fn check_id(&self) -> Result<CheckId, Problem> {
        self.parse_uuid("check_id")
    }

    /// Verifications and checks share one id type.
    pub fn verification_id(&self) -> Result<CheckId, Problem> {
        self.parse_uuid("verification_id")
    }

    /// Returns the owner of the credentials at this path: the project if the path names one, otherwise the workspace.
    pub fn credential_owner(&self) -> Result<CredentialOwner, Problem> {
        let workspace = self.workspace_id()?;
        if self.get("project_id").is_some() {
            Ok(CredentialOwner::Project(workspace, self.project_id()?))
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
        self.0.as_ref()?.iter().find(|(parameter, _)| *parameter == name).map(|(_, value)| value)
    }

    fn parse_uuid<T: FromStr>(&self, name: &str) -> Result<T, Problem> {
        let text = self.get(name).unwrap_or_default();
        text.parse().map_err(|_| Problem::bad_request(format!("`{name}` in the path must be a UUID")))
    }
}

/// Query parameters. Unknown and repeated ones are rejected.
#[derive(derive_more::Debug)]
#[debug("Query(…)")]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query. Rejects repeated parameters and those not in `known`.
    pub fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut parameters: Vec<(String, String)> = vec![];
        for field in query.unwrap_or_default().split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = decode_component(name)
                .ok_or_else(|| Problem::bad_request("a query parameter name is not valid UTF-8"))?;
            if !known.contains(&name.as_str()) {
                let known = known.join("`, `");
                return Err(Problem::bad_request(if known.is_empty() {
                    "this call does not accept query parameters".to_owned()
                } else {
                    format!("unknown query parameter; supported: `{known}`")
                }));
            }
            if parameters.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Problem::bad_request(format!("the query parameter `{name}` is repeated")));
            }
            let value = decode_component(value).ok_or_else(|| {
                let code = if name == "search" { ProblemCode::SearchInvalid } else { ProblemCode::BadRequest };
                Problem::new(code, format!("the query parameter `{name}` is not valid UTF-8"))
            })?;
            parameters.push((name, value));
        }
        Ok(Query(parameters))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str())
    }

    pub fn page_request(&self) -> Result<PageRequest, Problem> {
        self.page_with_default_size(PageRequest::DEFAULT_SIZE)
    }

    /// Reads the page number and size from the query. `size` is the default size.
    pub fn page_with_default_size(&self, size: u32) -> Result<PageRequest, Problem> {
        let size = self.get_number("size", size)?;
        let number = self.get_number("page", 1)?;
        PageRequest::new(size, number)
            .ok_or_else(|| Problem::bad_request("`size` must be 1 to 100, and `page` 1 to 2147483647"))
    }

    pub fn search_filter(&self, fields: &'static [Field]) -> Result<Option<Filter>, Problem> {
        self.get("search")
            .map(|text| {
                search::parse(text, fields).map_err(|error| Problem::new(ProblemCode::SearchInvalid, error.to_string()))
            })
            .transpose()
    }

    pub fn get_timestamp(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        self.get(name)
            .map(|text| {
                // A `+` that the client did not escape has been decoded to a space.
                let hint = if text.contains(' ') { "; send a `+` as `%2B`" } else { "" };
                timestamp::parse(text).ok_or_else(|| {
                    Problem::bad_request(format!("`{name}`: {}{hint}", timestamp::EXPECTED_FORMAT_MESSAGE))
                })
            })
            .transpose()
    }

    pub fn get_parsed<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.get(name)
            .map(|text| text.parse().map_err(|error| Problem::bad_request(format!("`{name}`: {error}"))))
            .transpose()
    }

    fn get_number(&self, name: &str, default: u32) -> Result<u32, Problem> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_plain { text.parse().ok() } else { None };
        number.ok_or_else(|| Problem::bad_request(format!("`{name}` must be an integer")))
    }
}

/// Decodes a name or value of a query. A `%` that starts no valid escape stays as it is. Returns `None` for invalid
/// UTF-8.
pub fn decode_component(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(Cow::into_owned)
}
