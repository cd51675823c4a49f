//! The token endpoint.

use serde::Serialize;

use super::{
    ErrorCode, Refusal,
    grants::{GrantType, Issued},
    id_token::id_token,
};
use crate::camara::{
    Core, Fault,
    http::{Answer, Request, json},
};

#[derive(Serialize)]
struct Granted<'a> {
    access_token: &'a str,
    token_type: &'static str,
    expires_in: i64,
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_token: Option<String>,
}

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
    Ok(json(&Granted {
        access_token: &issued.access_token,
        token_type: "Bearer",
        expires_in: issued.lifetime,
        scope: issued.grant.scopes.as_written(),
        id_token: id_token(core, issued, fault)?,
    }))
}
