//! Token endpoint.

use serde::Serialize;

use super::{
    OAuthError, OAuthErrorCode,
    grants::{GrantType, IssuedToken},
    id_token::issue_id_token,
};
use crate::camara::{
    EndpointFault, OperatorState,
    http::{HttpResponse, Request, json_response},
};

#[derive(Serialize)]
struct TokenResponse<'a> {
    access_token: &'a str,
    token_type: &'static str,
    expires_in: i64,
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_token: Option<String>,
}

/// `POST /token`
pub(in crate::camara) fn token(state: &OperatorState, request: &Request, fault: &EndpointFault) -> HttpResponse {
    issue_token(state, request)
        .and_then(|issued| token_response(state, &issued, fault))
        .unwrap_or_else(OAuthError::into_response)
}

fn issue_token(state: &OperatorState, request: &Request) -> Result<IssuedToken, OAuthError> {
    let invalid = |description| OAuthError::new(OAuthErrorCode::InvalidRequest, description);
    let form = request.form().filter(|form| !form.has_repeated());
    let form = form.ok_or(invalid("the body must be a form without repeated parameters"))?;
    let requested = form.get("grant_type").ok_or(invalid("grant_type is missing"))?;
    let grant_type = GrantType::ALL.into_iter().find(|grant_type| grant_type.as_str() == requested);
    let grant_type =
        grant_type.ok_or(OAuthError::new(OAuthErrorCode::UnsupportedGrantType, "unsupported grant_type"))?;
    grant_type.issue(state, request, &form)
}

fn token_response(
    state: &OperatorState,
    issued: &IssuedToken,
    fault: &EndpointFault,
) -> Result<HttpResponse, OAuthError> {
    Ok(json_response(&TokenResponse {
        access_token: &issued.access_token,
        token_type: "Bearer",
        expires_in: issued.lifetime,
        scope: issued.grant.scopes.as_str(),
        id_token: issue_id_token(state, issued, fault)?,
    }))
}
