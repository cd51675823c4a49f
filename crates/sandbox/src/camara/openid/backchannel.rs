//! CIBA in poll mode. The first poll is pending, the second succeeds.

use serde_json::json;

use super::{OAuthError, OAuthErrorCode, client_authentication::authenticate, subject};
use crate::camara::{
    Endpoint, OAuthClient, OperatorState,
    http::{HttpResponse, OAuthParameters, Request, json_response},
    random_token,
    scope::Scopes,
    store::{BackchannelRequest, Grant},
};

/// In seconds.
const REQUEST_LIFETIME: i64 = 120;
/// Time in which an expired request gets `expired_token`, in seconds.
const EXPIRED_RETENTION: i64 = 600;
/// Added to the polling interval by `slow_down`, in seconds.
const SLOW_DOWN_INCREMENT: i64 = 5;

/// `POST /bc-authorize`
pub(in crate::camara) fn backchannel_authorize(state: &OperatorState, request: &Request) -> HttpResponse {
    start_request(state, request).unwrap_or_else(OAuthError::into_response)
}

fn start_request(state: &OperatorState, request: &Request) -> Result<HttpResponse, OAuthError> {
    let form = request.form().filter(|form| !form.has_repeated());
    let form = form.ok_or(invalid("the body must be a form without repeated parameters"))?;
    let client = authenticate(state, request, &form, Endpoint::BackchannelAuthorize)?;
    if ["request", "login_hint_token", "id_token_hint"].iter().any(|name| form.get(name).is_some()) {
        return Err(invalid("unsupported parameter; use login_hint without a request object"));
    }
    let scopes = form.get("scope").ok_or(OAuthError::new(OAuthErrorCode::InvalidScope, "scope is missing"))?;
    let scopes = Scopes::parse(scopes, &client.scopes)?;
    let subject = subject::resolve_subject(form.get("login_hint").ok_or(invalid("login_hint is missing"))?)?;

    let now = state.now();
    let interval =
        i64::try_from(state.config.poll_interval.as_secs()).unwrap_or(REQUEST_LIFETIME).min(REQUEST_LIFETIME);
    let pending = BackchannelRequest {
        grant: Grant { client_id: client.id.clone(), scopes, subject: Some(subject) },
        next_poll_at: None,
        interval,
        expires_at: now + REQUEST_LIFETIME,
    };
    let id = random_token()?;
    state.store().backchannel_requests.insert(now, id.clone(), now + REQUEST_LIFETIME + EXPIRED_RETENTION, pending);
    Ok(json_response(&json!({ "auth_req_id": id, "expires_in": REQUEST_LIFETIME, "interval": interval })))
}

/// Handles a poll of the token endpoint.
pub(super) fn poll(state: &OperatorState, client: &OAuthClient, form: &OAuthParameters) -> Result<Grant, OAuthError> {
    let id = form.get("auth_req_id").ok_or(invalid("auth_req_id is missing"))?;
    let now = state.now();
    let mut store = state.store();
    let request = store.backchannel_requests.get_mut(now, id).filter(|request| request.grant.client_id == client.id);
    let request = request.ok_or(OAuthError::new(OAuthErrorCode::InvalidGrant, "unknown auth_req_id"))?;
    if request.expires_at <= now {
        return Err(OAuthError::new(OAuthErrorCode::ExpiredToken, "the auth_req_id has expired"));
    }
    match request.next_poll_at {
        None => {
            request.next_poll_at = Some(now + request.interval);
            Err(OAuthError::new(OAuthErrorCode::AuthorizationPending, "the request is pending"))
        }
        Some(next_poll_at) if now < next_poll_at => {
            request.interval += SLOW_DOWN_INCREMENT;
            request.next_poll_at = Some(now + request.interval);
            Err(OAuthError::new(OAuthErrorCode::SlowDown, "polling too fast"))
        }
        Some(_) => {
            let grant = request.grant.clone();
            store.backchannel_requests.remove(id);
            Ok(grant)
        }
    }
}

fn invalid(description: &'static str) -> OAuthError {
    OAuthError::new(OAuthErrorCode::InvalidRequest, description)
}
