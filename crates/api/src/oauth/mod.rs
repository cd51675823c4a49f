//! OAuth 2.0 and OpenID Connect: token and revocation endpoints, pushed requests, userinfo, metadata and keys.
//!
//! The authorization endpoint and the pages behind it are in [`sign_in_page`](crate::sign_in_page).

mod camara;
mod client_authentication;
mod metadata;
mod sign_in;

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_domain::product::{Product, Scope, join_names};
use ringtrue_engine::{sign_in::IssuedTokens, tokens::MintError};
use ringtrue_web::{
    app::App,
    body::{Form, read_form},
    error_catalog::ProblemCode,
    problem::Problem,
    request_context::RequestContext,
    response::{json_bytes_response, json_response},
    routes::{Routes, get, post},
};
use serde::Serialize;

use client_authentication::{AcceptedClients, authenticate, claimed_credential};
use sign_in::redeem_code;

/// Initial capacity of a token response's header map. Fits all headers, including those added by the middleware.
const TOKEN_RESPONSE_HEADER_CAPACITY: usize = 8;
const AUTHORIZATION_CODE: &str = "authorization_code";

pub fn routes() -> Routes {
    Routes::default()
        .route("/oauth2/token", post(issue).oauth_endpoint().completes_after_disconnect())
        .route("/oauth2/revoke", post(revoke).oauth_endpoint())
        .route("/oauth2/par", post(sign_in::push).oauth_endpoint())
        .route("/oauth2/bc-authorize", post(camara::backchannel_authorize).oauth_endpoint())
        .logged()
        .route("/oauth2/userinfo", get(sign_in::userinfo))
        .route("/oauth2/userinfo", post(sign_in::userinfo_by_post))
        .get("/.well-known/oauth-authorization-server", metadata::authorization_server)
        .get("/.well-known/openid-configuration", metadata::openid_configuration)
        .get("/.well-known/jwks.json", metadata::jwks)
}

/// `POST /oauth2/token` (RFC 6749: client credentials, authorization code; RFC 7523: JWT bearer; CIBA)
async fn issue(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut posted = None;
    let issue = async {
        let body = read_form(&app, &parts.headers, body).await?;
        let form = Form::parse(&body)?;
        posted = form.get("client_id").map(str::to_owned);
        let grant_type = form.get("grant_type").ok_or_else(|| missing_parameter("grant_type"))?;
        let has_camara = app.engine.camara.is_enabled();
        if grant_type == camara::JWT_BEARER && has_camara {
            return camara::grant_by_assertion(&app, &context, &parts.headers, &form)
                .await
                .map(|tokens| token_response(&tokens));
        }
        let accepted = match grant_type {
            AUTHORIZATION_CODE => AcceptedClients::ConfidentialOrPublic,
            _ => AcceptedClients::Confidential,
        };
        let now = app.engine.clock().now();
        let client = authenticate(&app, context.client_ip, &parts.headers, &form, accepted).await?;
        context.log_client(Arc::clone(&client.credential));
        match grant_type {
            "client_credentials" if camara::is_requested(&app, &form) => {
                return camara::grant_to_client(&app, &client, &form).await.map(|tokens| token_response(&tokens));
            }
            "client_credentials" => {}
            AUTHORIZATION_CODE => return redeem_code(&app, &client, &form).await.map(|tokens| token_response(&tokens)),
            camara::CIBA if has_camara => {
                return camara::grant_by_backchannel(&app, &client, &form).await.map(|tokens| token_response(&tokens));
            }
            _ => {
                let camara = if has_camara { [camara::JWT_BEARER, camara::CIBA].as_slice() } else { &[] };
                let supported = ["client_credentials", AUTHORIZATION_CODE].into_iter().chain(camara.iter().copied());
                let detail = format!("unsupported grant_type; use {}", join_names(supported));
                return Err(Problem::new(ProblemCode::UnsupportedGrantType, detail));
            }
        }
        let client = client.credential;
        let token = app.engine.tokens.mint_token(&client, parse_scope(&form)?, now).map_err(|error| match error {
            MintError::Scope(error) => Problem::new(ProblemCode::InvalidScope, error.to_string()),
            MintError::NoKey => Problem::unavailable("no token signing key is active yet"),
        })?;
        // The values need no escaping: base64url, an integer and a scope name.
        let (expires_in, scope) = (token.expires_in.to_string(), token.scope.into_str());
        let body = [
            r#"{"access_token":""#,
            &token.token,
            r#"","token_type":"bearer","expires_in":"#,
            &expires_in,
            r#","scope":""#,
            scope,
            r#""}"#,
        ]
        .concat();
        let mut response = Response::new(body.into());
        let headers = response.headers_mut();
        headers.reserve(TOKEN_RESPONSE_HEADER_CAPACITY);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
        Ok(response)
    };
    issue.await.inspect_err(|_: &Problem| {
        context.log_claimed_client(|| claimed_credential(&app, &parts.headers, posted.as_deref()));
    })
}

#[derive(Serialize)]
struct TokenBody<'a> {
    access_token: &'a str,
    token_type: &'static str,
    expires_in: i64,
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_token: Option<&'a str>,
}

/// Builds the response with tokens that the authorization server issues for users or for CAMARA's APIs.
fn token_response(tokens: &IssuedTokens) -> Response {
    let IssuedTokens { access_token, id_token, expires_in, scope } = tokens;
    let body =
        TokenBody { access_token, token_type: "bearer", expires_in: *expires_in, scope, id_token: id_token.as_deref() };
    let mut response = json_response(StatusCode::OK, &body);
    response.headers_mut().insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

/// `POST /oauth2/revoke` (RFC 7009)
async fn revoke(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut posted = None;
    let revoke = async {
        let body = read_form(&app, &parts.headers, body).await?;
        let form = Form::parse(&body)?;
        posted = form.get("client_id").map(str::to_owned);
        let accepted = AcceptedClients::ConfidentialOrPublic;
        let client = authenticate(&app, context.client_ip, &parts.headers, &form, accepted).await?.credential;
        context.log_client(Arc::clone(&client));
        let token = form.get("token").ok_or_else(|| missing_parameter("token"))?;
        app.engine.tokens.revoke_token(&client, token).await?;
        // The body is not empty, because some clients parse the body of every success response.
        Ok(json_bytes_response(StatusCode::OK, "{}"))
    };
    revoke.await.inspect_err(|_: &Problem| {
        context.log_claimed_client(|| claimed_credential(&app, &parts.headers, posted.as_deref()));
    })
}

pub(crate) fn missing_parameter(parameter: &str) -> Problem {
    Problem::new(ProblemCode::InvalidRequest, format!("missing parameter `{parameter}`"))
}

/// Parses the `scope` parameter, which must be exactly one known scope.
fn parse_scope(form: &Form<'_>) -> Result<Scope, Problem> {
    let invalid = |detail: &str| Problem::new(ProblemCode::InvalidScope, detail);
    let text = form.get("scope").ok_or_else(|| missing_parameter("scope"))?;
    if text.trim().contains(' ') {
        return Err(invalid("multiple scopes; request a separate token for each scope"));
    }
    text.parse().map_err(|_| invalid(&format!("unknown scope; use {}", join_names(token_scopes()))))
}

/// Names of the scopes that access tokens can have.
fn token_scopes() -> impl Iterator<Item = &'static str> {
    Scope::all().filter(|scope| *scope != Scope::Product(Product::SignIn)).map(Scope::into_str)
}
