//! Client authentication by secret or `private_key_jwt`.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use url::form_urlencoded;

use super::{OAuthError, OAuthErrorCode, assertion};
use crate::camara::{
    Endpoint, OAuthClient, OperatorState,
    http::{OAuthParameters, Request},
    jose::Jws,
};

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Authenticates the client, which must use exactly one method.
pub(super) fn authenticate<'a>(
    state: &'a OperatorState,
    request: &Request,
    form: &OAuthParameters,
    endpoint: Endpoint,
) -> Result<&'a OAuthClient, OAuthError> {
    let client = match (request.credentials("Basic"), form.get("client_secret"), form.get("client_assertion")) {
        (Some(credentials), None, None) => authenticate_basic(state, credentials),
        (None, Some(secret), None) => authenticate_secret(state, form.get("client_id"), secret),
        (None, None, Some(assertion)) => authenticate_assertion(state, form, assertion, endpoint),
        (None, None, None) => Err("client authentication is missing"),
        _ => return Err(OAuthError::new(OAuthErrorCode::InvalidRequest, "more than one client authentication method")),
    };
    let client = client.map_err(|description| OAuthError::new(OAuthErrorCode::InvalidClient, description))?;
    if form.get("client_id").is_some_and(|id| id != client.id) {
        return Err(OAuthError::new(
            OAuthErrorCode::InvalidClient,
            "client_id does not match the authenticated client",
        ));
    }
    Ok(client)
}

pub(super) fn has_credentials(request: &Request, form: &OAuthParameters) -> bool {
    request.credentials("Basic").is_some()
        || ["client_secret", "client_assertion"].iter().any(|name| form.get(name).is_some())
}

fn authenticate_basic<'a>(state: &'a OperatorState, credentials: &str) -> Result<&'a OAuthClient, &'static str> {
    const MALFORMED: &str = "malformed Basic credentials";
    let decoded = BASE64_STANDARD.decode(credentials).map_err(|_| MALFORMED)?;
    let (id, secret) = str::from_utf8(&decoded).ok().and_then(|text| text.split_once(':')).ok_or(MALFORMED)?;
    authenticate_secret(state, Some(&form_decode(id)), &form_decode(secret))
}

fn authenticate_secret<'a>(
    state: &'a OperatorState,
    id: Option<&str>,
    secret: &str,
) -> Result<&'a OAuthClient, &'static str> {
    let client = id.and_then(|id| state.client(id)).filter(|client| client.has_secret(secret));
    client.ok_or("unknown client_id or wrong client_secret")
}

fn authenticate_assertion<'a>(
    state: &'a OperatorState,
    form: &OAuthParameters,
    token: &str,
    endpoint: Endpoint,
) -> Result<&'a OAuthClient, &'static str> {
    if form.get("client_assertion_type") != Some(ASSERTION_TYPE) {
        return Err("unsupported client_assertion_type; use jwt-bearer");
    }
    let token = Jws::parse(token).ok_or("client_assertion is not a JWS")?;
    let client = token.claimed_issuer().and_then(|id| state.client(id)).ok_or("iss is not a known client")?;
    // CIBA allows the token endpoint as audience at every endpoint.
    let audiences = [state.url(endpoint), state.url(Endpoint::Token), state.issuer.clone()];
    let claims = assertion::verify_assertion(state, client, token, &audiences)?;
    if assertion::claim_str(&claims, "sub") != Some(&client.id) {
        return Err("sub is not the client_id");
    }
    assertion::consume_jti(state, client, &claims)?;
    Ok(client)
}

/// Basic credentials are form-encoded before base64 (RFC 6749, 2.3.1).
fn form_decode(text: &str) -> String {
    let as_form = format!("={}", text.replace('&', "%26"));
    form_urlencoded::parse(as_form.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}
