//! Authorization endpoint: recognises the device and redirects it to the client.
//!
//! Redirects only to a registered `redirect_uri`; otherwise the response is a text page. There is no user interaction,
//! as if every request had `prompt=none`.

use http::StatusCode;
use url::Url;

use super::{CODE_LIFETIME, consume_jti, parse_phone_hint, verify_assertion};
use crate::camara::{
    Endpoint, EndpointFault, OAuthClient, OperatorState,
    client::{Scope, Scopes},
    jose::Jws,
    message::{HttpResponse, OAuthError, OAuthErrorCode, OAuthParameters, Request, redirect_response, text_response},
    sim::{PhoneNumber, Recognition},
    store::{AuthenticationMethod, AuthorizationCode, Grant, SealedKind, Subject},
};

/// Outcome of a valid authorization request.
enum AuthorizeOutcome {
    Code {
        code: String,
    },
    /// The simulated network times out, so that the device gets no redirect.
    NoRedirect,
}

pub(in crate::camara) fn authorization_endpoint(
    state: &OperatorState,
    request: &Request,
    fault: &EndpointFault,
) -> HttpResponse {
    let query = request.query();
    let registered = query.get("client_id").and_then(|id| state.client(id)).and_then(|client| {
        let redirect_uri = query.get("redirect_uri").filter(|uri| client.allows_redirect_uri(uri))?;
        Some((client, redirect_uri.to_owned()))
    });
    let Some((client, redirect_uri)) = registered else {
        return text_response(StatusCode::BAD_REQUEST, "unknown client_id, or redirect_uri is not registered");
    };
    let client_redirect = ClientRedirect { issuer: state.stated_issuer(fault), redirect_uri: &redirect_uri };
    let parameters = match parse_request_object(state, client, &query) {
        Ok(object) => object.unwrap_or(query),
        Err(error) => return client_redirect.redirect_error(error, query.get("state")),
    };
    match authorize_device(state, client, &redirect_uri, &parameters) {
        Ok(AuthorizeOutcome::Code { code }) => client_redirect.redirect(&[("code", &code)], parameters.get("state")),
        Ok(AuthorizeOutcome::NoRedirect) => {
            text_response(StatusCode::GATEWAY_TIMEOUT, "simulated network timeout: no redirect")
        }
        Err(error) => client_redirect.redirect_error(error, parameters.get("state")),
    }
}

/// Builds redirects to the client.
struct ClientRedirect<'a> {
    issuer: &'a str,
    redirect_uri: &'a str,
}

impl ClientRedirect<'_> {
    fn redirect(&self, parameters: &[(&str, &str)], state: Option<&str>) -> HttpResponse {
        let Ok(mut location) = Url::parse(self.redirect_uri) else {
            return text_response(StatusCode::BAD_REQUEST, "the registered redirect_uri is not an absolute URL");
        };
        let state = state.map(|state| ("state", state));
        location.query_pairs_mut().extend_pairs(parameters).extend_pairs(state).append_pair("iss", self.issuer);
        redirect_response(location.as_str())
    }

    fn redirect_error(&self, error: OAuthError, state: Option<&str>) -> HttpResponse {
        self.redirect(&[("error", error.code.into_str()), ("error_description", error.description)], state)
    }
}

/// Returns the parameters of the request object, if there is one.
fn parse_request_object(
    state: &OperatorState,
    client: &OAuthClient,
    query: &OAuthParameters,
) -> Result<Option<OAuthParameters>, OAuthError> {
    if query.has_repeated() {
        return Err(invalid_request("a parameter is repeated"));
    }
    if query.get("request_uri").is_some() {
        return Err(
            OAuthErrorCode::RequestUriNotSupported.with_description("request_uri is not supported; use request")
        );
    }
    query.get("request").map(|object| verify_request_object(state, client, object, query)).transpose()
}

fn authorize_device(
    state: &OperatorState,
    client: &OAuthClient,
    redirect_uri: &str,
    parameters: &OAuthParameters,
) -> Result<AuthorizeOutcome, OAuthError> {
    validate_parameters(parameters)?;
    let code_challenge = parse_code_challenge(parameters)?;
    let scopes = Scopes::parse(parameters.get("scope"), &client.scopes)?;
    let number = recognise_device(state, parameters)?;
    match number.recognition() {
        Recognition::NoResponse => return Ok(AuthorizeOutcome::NoRedirect),
        Recognition::Failure => {
            return Err(OAuthErrorCode::ServerError.with_description("internal error of the network"));
        }
        Recognition::Timeout => {
            return Err(OAuthErrorCode::TemporarilyUnavailable.with_description("the network did not respond in time"));
        }
        Recognition::OtherDevice if scopes.is_only(Scope::ReadDeviceNumber) => return Err(not_recognised()),
        Recognition::Recognised | Recognition::OtherDevice | Recognition::NotApplicable => {}
    }
    let now = state.now();
    let authorization = AuthorizationCode {
        grant: Grant {
            client_id: client.id.clone(),
            scopes,
            subject: Some(Subject { number, authentication: AuthenticationMethod::Network }),
        },
        redirect_uri: redirect_uri.to_owned(),
        code_challenge,
        nonce: parameters.get("nonce").map(str::to_owned),
        until: now + CODE_LIFETIME,
    };
    Ok(AuthorizeOutcome::Code { code: state.sealer.seal(SealedKind::Code, &authorization)? })
}

fn validate_parameters(parameters: &OAuthParameters) -> Result<(), OAuthError> {
    match parameters.get("response_type") {
        Some("code") => {}
        Some(_) => {
            return Err(OAuthErrorCode::UnsupportedResponseType.with_description("unsupported response_type; use code"));
        }
        None => return Err(invalid_request("response_type is missing")),
    }
    if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err(invalid_request("unsupported response_mode; use query"));
    }
    match parameters.get("prompt") {
        None | Some("none") => Ok(()),
        Some(several) if several.split(' ').any(|one| one == "none") => {
            Err(invalid_request("prompt=none cannot be combined with other values"))
        }
        Some(_) => {
            Err(OAuthErrorCode::InteractionRequired
                .with_description("user interaction is not supported; use prompt=none"))
        }
    }
}

/// Parses the PKCE challenge. Without it, `state` and `nonce` are required.
fn parse_code_challenge(parameters: &OAuthParameters) -> Result<Option<String>, OAuthError> {
    let is_base64url = |text: &str| text.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-_".contains(&octet));
    match (parameters.get("code_challenge"), parameters.get("code_challenge_method")) {
        (Some(challenge), Some("S256")) if challenge.len() == 43 && is_base64url(challenge) => {
            Ok(Some(challenge.to_owned()))
        }
        (Some(_), Some("S256")) => Err(invalid_request("code_challenge must be a SHA-256 in base64url")),
        (Some(_), _) => Err(invalid_request("unsupported code_challenge_method; use S256")),
        (None, Some(_)) => Err(invalid_request("code_challenge is missing")),
        (None, None) if parameters.get("state").is_some() && parameters.get("nonce").is_some() => Ok(None),
        (None, None) => Err(invalid_request("code_challenge, or both state and nonce, are required")),
    }
}

/// Simulates the recognition of a device by its mobile network.
fn recognise_device(state: &OperatorState, parameters: &OAuthParameters) -> Result<PhoneNumber, OAuthError> {
    match parameters.get("login_hint") {
        Some(hint) => {
            parse_phone_hint(hint).ok_or(invalid_request("login_hint must be a phone number, with or without tel:"))
        }
        None => state.config.default_sim.clone().ok_or_else(not_recognised),
    }
}

fn not_recognised() -> OAuthError {
    OAuthErrorCode::LoginRequired.with_description("the network did not recognise the device")
}

fn invalid_request(description: &'static str) -> OAuthError {
    OAuthErrorCode::InvalidRequest.with_description(description)
}

/// Parameters of a request object that the query must repeat with the same values.
const PARAMETERS_REPEATED_IN_QUERY: [&str; 4] = ["scope", "response_type", "client_id", "redirect_uri"];

/// Verifies a signed authorization request (RFC 9101). Returns its parameters; other parameters of the query are
/// ignored.
fn verify_request_object(
    state: &OperatorState,
    client: &OAuthClient,
    object: &str,
    query: &OAuthParameters,
) -> Result<OAuthParameters, OAuthError> {
    let invalid = |description| OAuthErrorCode::InvalidRequestObject.with_description(description);
    let token = Jws::parse(object).ok_or(invalid("the request object is not a JWS"))?;
    let audiences = [state.url(Endpoint::Authorize), state.issuer.clone()];
    let claims = verify_assertion(state, client, token, &audiences).map_err(invalid)?;
    if !claims.contains_key("iat") {
        return Err(invalid("iat is missing"));
    }
    // A request object with `sub` could be replayed as a client assertion.
    if ["sub", "request", "request_uri"].iter().any(|name| claims.contains_key(*name)) {
        return Err(invalid("sub, request and request_uri are not allowed in a request object"));
    }
    consume_jti(state, client, &claims).map_err(invalid)?;
    let parameters = OAuthParameters::from(claims);
    let are_equal = PARAMETERS_REPEATED_IN_QUERY
        .iter()
        .all(|name| parameters.get(name).is_some() && parameters.get(name) == query.get(name));
    if are_equal { Ok(parameters) } else { Err(invalid("the query parameters differ from the request object")) }
}
