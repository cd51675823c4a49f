//! Grants for clients of CAMARA's APIs: client credentials, JWT bearer and backchannel authentication.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, StatusCode, header};
use ringtrue_domain::{camara::CamaraScopes, sign_in::Parameters};
use ringtrue_engine::{
    camara::{BackchannelRequest, GrantError},
    rate_limits::RateLimitClass,
    sign_in::IssuedTokens,
};
use ringtrue_web::{
    app::App,
    body::{Form, read_form},
    error_catalog::ProblemCode,
    problem::Problem,
    request_context::RequestContext,
    response::json_response,
};
use serde_json::json;

use super::{
    client_authentication::{
        AcceptedClients, AuthenticatedClient, authenticate, claimed_credential, with_basic_challenge,
    },
    missing_parameter,
};

pub(super) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
pub(super) const CIBA: &str = "urn:openid:params:grant-type:ciba";

/// Whether a client asks for a token of CAMARA's APIs.
pub(super) fn is_requested(app: &App, form: &Form<'_>) -> bool {
    app.engine.camara.is_enabled() && form.get("scope").is_some_and(CamaraScopes::are_requested)
}

/// Issues a token to the client itself.
pub(super) async fn grant_to_client(
    app: &App,
    client: &AuthenticatedClient,
    form: &Form<'_>,
) -> Result<IssuedTokens, Problem> {
    let scope = form.get("scope").ok_or_else(|| missing_parameter("scope"))?;
    let granted = app.engine.camara.grant_to_client(&client.credential, client.method, scope).await;
    granted.map_err(grant_problem)
}

/// Issues a token for the user whom a signed assertion names (RFC 7523, section 2.1).
pub(super) async fn grant_by_assertion(
    app: &App,
    context: &RequestContext,
    headers: &HeaderMap,
    form: &Form<'_>,
) -> Result<IssuedTokens, Problem> {
    let assertion = form.get("assertion").ok_or_else(|| missing_parameter("assertion"))?;
    if form.get("scope").is_some() {
        let detail = "`scope` is a claim of the assertion, not a parameter";
        return Err(Problem::new(ProblemCode::InvalidRequest, detail));
    }
    let other = ["client_secret", "client_assertion"].iter().any(|name| form.get(name).is_some());
    let client = if other || headers.contains_key(header::AUTHORIZATION) {
        Some(authenticate(app, context.client_ip, headers, form, AcceptedClients::Confidential).await?)
    } else {
        None
    };
    let granted = app.engine.camara.grant_by_assertion(assertion).await;
    let (tokens, credential) = granted.map_err(|error| invalid_assertion_problem(app, context, error))?;
    context.log_client(Arc::clone(&credential));
    if client.is_some_and(|client| client.credential.client_id != credential.client_id) {
        let detail = "the assertion is not from the client that has authenticated";
        return Err(with_basic_challenge(Problem::new(ProblemCode::InvalidClient, detail)));
    }
    Ok(tokens)
}

/// Issues the token of a backchannel request.
pub(super) async fn grant_by_backchannel(
    app: &App,
    client: &AuthenticatedClient,
    form: &Form<'_>,
) -> Result<IssuedTokens, Problem> {
    let id = form.get("auth_req_id").ok_or_else(|| missing_parameter("auth_req_id"))?;
    let granted = app.engine.camara.finish_backchannel(&client.credential, client.method, id).await;
    granted.map_err(grant_problem)
}

/// `POST /oauth2/bc-authorize` (OpenID Connect CIBA, section 7)
pub(super) async fn backchannel_authorize(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    if !app.engine.camara.is_enabled() {
        return Err(Problem::not_found());
    }
    let (parts, body) = request.into_parts();
    let mut posted = None;
    let begin = async {
        let body = read_form(&app, &parts.headers, body).await?;
        let form = Form::parse(&body)?;
        posted = form.get("client_id").map(str::to_owned);
        let accepted = AcceptedClients::Confidential;
        let client = authenticate(&app, context.client_ip, &parts.headers, &form, accepted).await?;
        context.log_client(Arc::clone(&client.credential));
        let request = BackchannelRequest {
            credential: &client.credential,
            authentication: client.method,
            parameters: Parameters::new(form.into_pairs()),
        };
        let begun = app.engine.camara.begin_backchannel(request).await.map_err(grant_problem)?;
        let body = json!({
            "auth_req_id": begun.auth_req_id,
            "expires_in": begun.expires_in,
            "interval": begun.interval,
        });
        Ok(json_response(StatusCode::OK, &body))
    };
    begin.await.inspect_err(|_: &Problem| {
        context.log_claimed_client(|| claimed_credential(&app, &parts.headers, posted.as_deref()));
    })
}

/// Returns the problem of an invalid assertion, and counts the assertion against the address that sent it.
fn invalid_assertion_problem(app: &App, context: &RequestContext, error: GrantError) -> Problem {
    let limiter = app.engine.rate_limiter();
    let limit = limiter.limit_by_ip(RateLimitClass::Device, context.client_ip, app.engine.clock().now());
    if limit.admitted {
        return grant_problem(error);
    }
    Problem::too_many_requests("too many requests with invalid assertions from this address", limit.reset_seconds)
}

fn grant_problem(error: GrantError) -> Problem {
    let detail = error.to_string();
    let code = match error {
        GrantError::InvalidRequest(_) => ProblemCode::InvalidRequest,
        GrantError::InvalidScope(_) => ProblemCode::InvalidScope,
        GrantError::InvalidGrant(_) => ProblemCode::InvalidGrant,
        GrantError::InvalidRequestObject(_) => ProblemCode::InvalidRequestObject,
        GrantError::InvalidClient(_) | GrantError::WrongAuthentication => {
            return with_basic_challenge(Problem::new(ProblemCode::InvalidClient, detail));
        }
        GrantError::UnauthorizedClient => ProblemCode::UnauthorizedClient,
        GrantError::UnknownUser(_) => ProblemCode::UnknownUserId,
        GrantError::ExpiredToken => ProblemCode::ExpiredToken,
        GrantError::RateLimited(limit) => return Problem::too_many_requests(detail, limit.reset_seconds),
        GrantError::NoKey => return Problem::unavailable(detail),
        GrantError::Store(error) => return error.into(),
    };
    Problem::new(code, detail)
}
