//! Endpoints for clients that sign users in: the authorization code grant, pushed authorization requests, and userinfo.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ringtrue_domain::sign_in::{AuthorizationError, AuthorizationErrorCode, Parameters};
use ringtrue_engine::{
    rate_limits::RateLimitClass,
    sign_in::{IssuedTokens, PushError, RedeemCodeError, RedeemCodeRequest, UserInfoError},
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
    client_authentication::{AcceptedClients, AuthenticatedClient, authenticate, with_basic_challenge},
    missing_parameter,
};

/// Redeems an authorization code (RFC 6749, section 4.1.3).
pub(super) async fn redeem_code(
    app: &App,
    client: &AuthenticatedClient,
    form: &Form<'_>,
) -> Result<IssuedTokens, Problem> {
    let request = RedeemCodeRequest {
        code: form.get("code").ok_or_else(|| missing_parameter("code"))?,
        redirect_uri: form.get("redirect_uri"),
        code_verifier: form.get("code_verifier"),
        authentication: client.method,
    };
    app.engine.sign_ins.redeem_code(&client.credential, request).await.map_err(|error| {
        let detail = error.to_string();
        match error {
            RedeemCodeError::InvalidGrant(_) => Problem::new(ProblemCode::InvalidGrant, detail),
            RedeemCodeError::WrongAuthentication => {
                with_basic_challenge(Problem::new(ProblemCode::InvalidClient, detail))
            }
            RedeemCodeError::UnauthorizedClient => Problem::new(ProblemCode::UnauthorizedClient, detail),
            RedeemCodeError::NoKey => Problem::unavailable(detail),
            RedeemCodeError::Store(error) => error.into(),
        }
    })
}

/// `POST /oauth2/par` (RFC 9126)
pub async fn push(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let body = read_form(&app, &parts.headers, body).await?;
    let form = Form::parse(&body)?;
    let client =
        authenticate(&app, context.client_ip, &parts.headers, &form, AcceptedClients::ConfidentialOrPublic).await?;
    context.log_client(Arc::clone(&client.credential));
    let pushed = app.engine.sign_ins.push(&client.credential, client.method, Parameters::new(form.into_pairs())).await;
    let pushed = pushed.map_err(|error| match error {
        PushError::Invalid(error) => authorization_problem(&error),
        PushError::WrongAuthentication => {
            with_basic_challenge(Problem::new(ProblemCode::InvalidClient, error.to_string()))
        }
        PushError::Store(error) => error.into(),
    })?;
    let body = json!({ "request_uri": pushed.request_uri, "expires_in": pushed.expires_in });
    Ok(json_response(StatusCode::CREATED, &body))
}

fn authorization_problem(error: &AuthorizationError) -> Problem {
    let code = match error.code {
        AuthorizationErrorCode::InvalidScope => ProblemCode::InvalidScope,
        AuthorizationErrorCode::UnauthorizedClient => ProblemCode::UnauthorizedClient,
        AuthorizationErrorCode::InvalidRequestObject => ProblemCode::InvalidRequestObject,
        AuthorizationErrorCode::UnsupportedResponseType => ProblemCode::UnsupportedResponseType,
        _ => ProblemCode::InvalidRequest,
    };
    Problem::new(code, error.description.clone())
}

/// `GET /oauth2/userinfo` (OpenID Connect Core, section 5.3)
pub async fn userinfo(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    respond_userinfo(&app, &context, bearer_token(&headers)?).await
}

/// `POST /oauth2/userinfo`, with the token in the header or in the form (RFC 6750, section 2.2)
pub async fn userinfo_by_post(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let in_header = bearer_token(&parts.headers)?;
    let has_form = parts.headers.get(header::CONTENT_TYPE).is_some_and(|given| {
        given.to_str().is_ok_and(|given| given.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded"))
    });
    let form = if has_form { read_form(&app, &parts.headers, body).await? } else { bytes::Bytes::new() };
    let form = Form::parse(&form)?;
    match (in_header, form.get("access_token")) {
        (Some(_), Some(_)) => Err(Problem::new(ProblemCode::InvalidRequest, "send the access token once")),
        (in_header, in_form) => {
            respond_userinfo(&app, &context, in_header.or_else(|| in_form.map(str::to_owned))).await
        }
    }
}

async fn respond_userinfo(app: &App, context: &RequestContext, token: Option<String>) -> Result<Response, Problem> {
    let Some(token) = token else {
        let problem = Problem::new(ProblemCode::Unauthorized, "missing access token");
        return Err(problem.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
    };
    let claims = app.engine.sign_ins.userinfo(&token).await.map_err(|error| match error {
        UserInfoError::InvalidToken => {
            let challenge = HeaderValue::from_static(r#"Bearer error="invalid_token""#);
            let problem = Problem::new(ProblemCode::Unauthorized, error.to_string());
            problem.with_header(header::WWW_AUTHENTICATE, challenge)
        }
        UserInfoError::Store(error) => error.into(),
    });
    if claims.is_err() {
        // Wrong tokens count against the address. A client with right tokens is not limited by others behind it.
        let limiter = app.engine.rate_limiter();
        let limit = limiter.limit_by_ip(RateLimitClass::Device, context.client_ip, app.engine.clock().now());
        if !limit.admitted {
            let detail = "too many requests with invalid tokens from this address";
            return Err(Problem::too_many_requests(detail, limit.reset_seconds));
        }
    }
    claims.map(|claims| json_response(StatusCode::OK, &claims))
}

fn bearer_token(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::new(ProblemCode::InvalidRequest, "repeated `Authorization` header"));
    }
    let value = value.to_str().unwrap_or_default();
    Ok(value
        .split_once(' ')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim().to_owned()))
}
