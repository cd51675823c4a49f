//! CIBA: a client names a user, and asks until it is decided. Here it is always decided by the second question.

use serde_json::json;

use super::{ErrorCode, Refusal, client_authentication::authenticate, subject};
use crate::camara::{
    Client, Core, Endpoint,
    http::{Answer, Parameters, Request, json},
    memory::{BackchannelRequest, Grant},
    scope::Scopes,
    unguessable,
};

/// How long a client may ask, in seconds.
const LIFETIME: i64 = 120;
/// How long an expired request is still known as one that has expired.
const MEMORY: i64 = 600;
/// What one who asks too often has to wait longer, from then on.
const SLOWER: i64 = 5;

/// `POST /bc-authorize`
pub(in crate::camara) fn backchannel_authorize(core: &Core, request: &Request) -> Answer {
    begin(core, request).unwrap_or_else(Refusal::into_answer)
}

fn begin(core: &Core, request: &Request) -> Result<Answer, Refusal> {
    let form = request.form().filter(|form| !form.are_repeated());
    let form = form.ok_or(invalid("a request is a form, with no parameter twice"))?;
    let client = authenticate(core, request, &form, Endpoint::BackchannelAuthorize)?;
    if ["request", "login_hint_token", "id_token_hint"].iter().any(|name| form.get(name).is_some()) {
        return Err(invalid("there is no other hint than login_hint, and no request object"));
    }
    let scopes = form.get("scope").ok_or(Refusal::new(ErrorCode::InvalidScope, "scope is missing"))?;
    let scopes = Scopes::parse(scopes, &client.scopes)?;
    let subject = subject::named(form.get("login_hint").ok_or(invalid("login_hint is missing"))?)?;

    let now = core.now();
    let interval = i64::try_from(core.config.poll_interval.as_secs()).unwrap_or(LIFETIME).min(LIFETIME);
    let begun = BackchannelRequest {
        grant: Grant { client_id: client.id.clone(), scopes, subject: Some(subject) },
        patience_until: None,
        interval,
        until: now + LIFETIME,
    };
    let id = unguessable()?;
    core.memory().backchannel.insert(now, id.clone(), now + LIFETIME + MEMORY, begun);
    Ok(json(&json!({ "auth_req_id": id, "expires_in": LIFETIME, "interval": interval })))
}

/// A client asks whether it has been decided.
pub(super) fn poll(core: &Core, client: &Client, form: &Parameters) -> Result<Grant, Refusal> {
    let id = form.get("auth_req_id").ok_or(invalid("auth_req_id is missing"))?;
    let now = core.now();
    let mut memory = core.memory();
    let asked = memory.backchannel.get_mut(now, id).filter(|asked| asked.grant.client_id == client.id);
    let asked = asked.ok_or(Refusal::new(ErrorCode::InvalidGrant, "this client has no such request"))?;
    if asked.until <= now {
        return Err(Refusal::new(ErrorCode::ExpiredToken, "the time for this request is over"));
    }
    match asked.patience_until {
        None => {
            asked.patience_until = Some(now + asked.interval);
            Err(Refusal::new(ErrorCode::AuthorizationPending, "it is not decided yet"))
        }
        Some(patience_until) if now < patience_until => {
            asked.interval += SLOWER;
            asked.patience_until = Some(now + asked.interval);
            Err(Refusal::new(ErrorCode::SlowDown, "questions come too fast"))
        }
        Some(_) => {
            let grant = asked.grant.clone();
            memory.backchannel.remove(id);
            Ok(grant)
        }
    }
}

fn invalid(why: &'static str) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, why)
}
