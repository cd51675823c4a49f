//! Signed authorization requests (RFC 9101).

use super::{OAuthError, OAuthErrorCode, assertion};
use crate::camara::{Endpoint, OAuthClient, OperatorState, http::OAuthParameters, jose::Jws};

/// Parameters that the query must repeat with the same values.
const DUPLICATED_PARAMETERS: [&str; 4] = ["scope", "response_type", "client_id", "redirect_uri"];

/// Returns the parameters of the object; all others are ignored.
pub(super) fn verify_request_object(
    state: &OperatorState,
    client: &OAuthClient,
    object: &str,
    query: &OAuthParameters,
) -> Result<OAuthParameters, OAuthError> {
    let invalid = |description| OAuthError::new(OAuthErrorCode::InvalidRequestObject, description);
    let token = Jws::parse(object).ok_or(invalid("the request object is not a JWS"))?;
    let audiences = [state.url(Endpoint::Authorize), state.issuer.clone()];
    let claims = assertion::verify_assertion(state, client, token, &audiences).map_err(invalid)?;
    if !claims.contains_key("iat") {
        return Err(invalid("iat is missing"));
    }
    // With `sub` it could be replayed as a client assertion.
    if ["sub", "request", "request_uri"].iter().any(|name| claims.contains_key(*name)) {
        return Err(invalid("sub, request and request_uri are not allowed in a request object"));
    }
    assertion::consume_jti(state, client, &claims).map_err(invalid)?;
    let parameters = OAuthParameters::from(claims);
    let are_equal = DUPLICATED_PARAMETERS
        .iter()
        .all(|name| parameters.get(name).is_some() && parameters.get(name) == query.get(name));
    if are_equal { Ok(parameters) } else { Err(invalid("the query parameters differ from the request object")) }
}
