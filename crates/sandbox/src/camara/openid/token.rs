//! The token endpoint.

use serde_json::json;

use super::{
    ErrorCode, Refusal,
    grants::{GrantType, Issued},
    id_token::id_token,
};
use crate::camara::{
    Core, Fault,
    http::{Answer, Request, json},
};

/// `POST /token`
pub(in crate::camara) fn token(core: &Core, request: &Request, fault: &Fault) -> Answer {
    issued(core, request).and_then(|issued| shown(core, &issued, fault)).unwrap_or_else(Refusal::into_answer)
}

fn issued(core: &Core, request: &Request) -> Result<Issued, Refusal> {
    let invalid = |why| Refusal::new(ErrorCode::InvalidRequest, why);
    let form = request.form().filter(|form| !form.are_repeated());
    let form = form.ok_or(invalid("a request is a form, with no parameter twice"))?;
    let asked = form.get("grant_type").ok_or(invalid("grant_type is missing"))?;
    let grant_type = GrantType::ALL.into_iter().find(|grant_type| grant_type.as_str() == asked);
    let grant_type = grant_type.ok_or(Refusal::new(ErrorCode::UnsupportedGrantType, "there is no such grant"))?;
    grant_type.issue(core, request, &form)
}

fn shown(core: &Core, issued: &Issued, fault: &Fault) -> Result<Answer, Refusal> {
    let mut body = json!({
        "access_token": issued.access_token,
        "token_type": "Bearer",
        "expires_in": issued.lifetime,
        "scope": issued.grant.scopes.as_written(),
    });
    if let Some(token) = id_token(core, issued, fault)? {
        body["id_token"] = token.into();
    }
    Ok(json(&body))
}
