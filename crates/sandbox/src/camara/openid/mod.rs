//! OpenID provider of the simulated operator: its metadata and errors, client authentication by secret or
//! `private_key_jwt`, and the checks of all JWTs that clients sign.

mod authorize;
mod token;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::StatusCode;
use serde_json::{Value, json};
use strum::{VariantArray as _, VariantNames as _};
use url::form_urlencoded;

use self::token::GrantType;
pub(super) use self::{
    authorize::authorization_endpoint,
    token::{backchannel_endpoint, token_endpoint},
};
use super::{
    Endpoint, EndpointFault, OAuthClient, OperatorState,
    client::Scope,
    jose::{CLIENT_SIGNING_ALGORITHMS, Claims, Jws},
    message::{HttpResponse, OAuthError, OAuthErrorCode, OAuthParameters, Request},
    sim::PhoneNumber,
};

/// Maximum lifetime of JWTs that clients sign, in seconds (CAMARA security profile).
const MAX_ASSERTION_LIFETIME: i64 = 300;
/// Lifetime of an authorization code, in seconds.
const CODE_LIFETIME: i64 = 60;

/// `GET /.well-known/openid-configuration`
pub(super) fn discovery_document(state: &OperatorState, fault: &EndpointFault) -> Value {
    let scopes = ["openid"].into_iter().chain(Scope::VARIANTS.iter().map(Scope::into_str));
    let methods = ["private_key_jwt", "client_secret_basic", "client_secret_post"];
    json!({
        "issuer": state.stated_issuer(fault),
        "authorization_endpoint": state.url(Endpoint::Authorize),
        "token_endpoint": state.url(Endpoint::Token),
        "backchannel_authentication_endpoint": state.url(Endpoint::BackchannelAuthorize),
        "jwks_uri": state.url(Endpoint::Jwks),
        "scopes_supported": scopes.collect::<Vec<_>>(),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": GrantType::VARIANTS,
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "claims_supported": ["iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "amr", "at_hash"],
        "prompt_values_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": CLIENT_SIGNING_ALGORITHMS,
        "request_parameter_supported": true,
        "request_uri_parameter_supported": false,
        "request_object_signing_alg_values_supported": CLIENT_SIGNING_ALGORITHMS,
        "authorization_response_iss_parameter_supported": true,
        "backchannel_token_delivery_modes_supported": ["poll"],
        "backchannel_user_code_parameter_supported": false,
        "claims_parameter_supported": false,
    })
}

/// Builds the OAuth error response of a simulated fault with this status.
pub(super) fn simulated_error_response(status: StatusCode) -> HttpResponse {
    let code = match status {
        StatusCode::UNAUTHORIZED => OAuthErrorCode::InvalidClient,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT => {
            OAuthErrorCode::TemporarilyUnavailable
        }
        status if status.is_client_error() => OAuthErrorCode::InvalidRequest,
        _ => OAuthErrorCode::ServerError,
    };
    code.with_description("simulated failure").into_response_with(status)
}

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Authenticates the client, which must use exactly one method.
fn authenticate<'a>(
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
        _ => return Err(OAuthErrorCode::InvalidRequest.with_description("more than one client authentication method")),
    };
    let client = client.map_err(|description| OAuthErrorCode::InvalidClient.with_description(description))?;
    if form.get("client_id").is_some_and(|id| id != client.id) {
        return Err(OAuthErrorCode::InvalidClient.with_description("client_id does not match the authenticated client"));
    }
    Ok(client)
}

fn has_credentials(request: &Request, form: &OAuthParameters) -> bool {
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
    let claims = verify_assertion(state, client, token, &audiences)?;
    if claim_str(&claims, "sub") != Some(&client.id) {
        return Err("sub is not the client_id");
    }
    consume_jti(state, client, &claims)?;
    Ok(client)
}

/// Decodes the id or secret of Basic credentials, which are form-encoded before base64 (RFC 6749, 2.3.1).
fn form_decode(text: &str) -> String {
    let as_form = format!("={}", text.replace('&', "%26"));
    form_urlencoded::parse(as_form.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Tolerated clock skew of clients, in seconds.
const CLOCK_SKEW_SECONDS: i64 = 5;

/// Verifies a JWT of this client for one of the audiences, and that its `jti` is unused.
///
/// Does not consume the `jti`: the caller calls [`consume_jti`] after its own checks.
fn verify_assertion(
    state: &OperatorState,
    client: &OAuthClient,
    token: Jws<'_>,
    audiences: &[String],
) -> Result<Claims, &'static str> {
    let claims = token.verify_with(&client.keys).ok_or("the signature does not match a key of this client")?;
    if claim_str(&claims, "iss") != Some(&client.id) {
        return Err("iss is not the client_id");
    }
    if !audience_contains(claims.get("aud"), audiences) {
        return Err("aud does not identify this server");
    }
    let now = state.now();
    let second = |name| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or("a timestamp claim is not an integer"),
    };
    let expires_at = second("exp")?.ok_or("exp is missing")?;
    let issued_at = second("iat")?;
    if expires_at <= now {
        return Err("the token has expired");
    }
    let lifetime = expires_at.saturating_sub(issued_at.unwrap_or(now));
    if lifetime > MAX_ASSERTION_LIFETIME || expires_at.saturating_sub(now) > MAX_ASSERTION_LIFETIME + CLOCK_SKEW_SECONDS
    {
        return Err("the lifetime exceeds 300 seconds");
    }
    let valid_from = [issued_at, second("nbf")?].into_iter().flatten().max();
    if valid_from.is_some_and(|valid_from| valid_from > now + CLOCK_SKEW_SECONDS) {
        return Err("the token is not valid yet");
    }
    if state.store().used_jtis.contains(now, &jti_key(client, &claims)?) {
        return Err("jti was already used");
    }
    Ok(claims)
}

/// Records the `jti` as used until the token has expired.
fn consume_jti(state: &OperatorState, client: &OAuthClient, claims: &Claims) -> Result<(), &'static str> {
    let now = state.now();
    let key = jti_key(client, claims)?;
    let mut store = state.store();
    if store.used_jtis.contains(now, &key) {
        return Err("jti was already used");
    }
    store.used_jtis.insert(now, key.as_str(), now + MAX_ASSERTION_LIFETIME + CLOCK_SKEW_SECONDS + 1, ());
    Ok(())
}

fn claim_str<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

fn jti_key(client: &OAuthClient, claims: &Claims) -> Result<String, &'static str> {
    let jti = claim_str(claims, "jti").filter(|jti| !jti.is_empty()).ok_or("jti is missing")?;
    Ok(format!("{} {jti}", client.id))
}

fn audience_contains(audience: Option<&Value>, names: &[String]) -> bool {
    match audience {
        Some(Value::String(name)) => names.contains(name),
        Some(Value::Array(many)) => many.iter().any(|one| audience_contains(Some(one), names)),
        _ => false,
    }
}

/// Parses `tel:+…` or a plain number.
fn parse_phone_hint(hint: &str) -> Option<PhoneNumber> {
    hint.strip_prefix("tel:").unwrap_or(hint).parse().ok()
}
