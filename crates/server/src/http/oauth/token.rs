//! Token and revocation endpoints.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_domain::tenancy::Credential;
use ringtrue_engine::tokens::MintError;

use super::client;
use crate::http::{
    App,
    body::{Form, read_form},
    error_catalog::ProblemCode,
    json_bytes_response,
    problem::Problem,
    request_context::RequestContext,
};

/// Fits the headers of a token response, including those added by the middleware.
const TOKEN_RESPONSE_HEADERS: usize = 8;

/// `POST /oauth2/token` (RFC 6749, client credentials)
pub async fn issue(
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
        let now = app.engine.clock().now();
        let client = client::authenticate(&app, context.client_ip, &parts.headers, &form, now)?;
        set_client(&context, &client);
        if grant_type != "client_credentials" {
            let detail = "unsupported grant_type; use `client_credentials`";
            return Err(Problem::new(ProblemCode::UnsupportedGrantType, detail));
        }
        let token = app.engine.mint_token(&client, parse_scope(&form)?, now).map_err(|error| match error {
            MintError::Scope(error) => Problem::new(ProblemCode::InvalidScope, error.to_string()),
            MintError::NoKey => Problem::unavailable("no token signing key is active yet"),
        })?;
        // The values need no escaping: base64url, an integer and a scope name.
        let (expires_in, scope) = (token.expires_in.to_string(), token.scope.as_str());
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
        headers.reserve(TOKEN_RESPONSE_HEADERS);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
        Ok(response)
    };
    issue.await.map_err(|problem: Problem| {
        set_claimed_client(&context, client::claimed_credential(&app, &parts.headers, posted.as_deref()));
        problem.for_oauth(&parts.headers)
    })
}

/// `POST /oauth2/revoke` (RFC 7009)
pub async fn revoke(
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
        let client = client::authenticate(&app, context.client_ip, &parts.headers, &form, app.engine.clock().now())?;
        set_client(&context, &client);
        let token = form.get("token").ok_or_else(|| missing_parameter("token"))?;
        app.engine.revoke_token(&client, token).await?;
        // Some clients parse the body of every success response.
        Ok(json_bytes_response(StatusCode::OK, "{}"))
    };
    revoke.await.map_err(|problem: Problem| {
        set_claimed_client(&context, client::claimed_credential(&app, &parts.headers, posted.as_deref()));
        problem.for_oauth(&parts.headers)
    })
}

/// Sets the client of the request log entry.
fn set_client(context: &RequestContext, client: &Arc<Credential>) {
    if let Some(log_draft) = &context.log_draft {
        log_draft.set_client(Arc::clone(client));
    }
}

/// Sets the client that a rejected request names, unless it was authenticated before the rejection.
fn set_claimed_client(context: &RequestContext, client: Option<Arc<Credential>>) {
    if let (Some(log_draft), Some(client)) = (&context.log_draft, client) {
        log_draft.set_claimed_client(client);
    }
}

fn missing_parameter(parameter: &str) -> Problem {
    Problem::new(ProblemCode::InvalidRequest, format!("missing parameter `{parameter}`"))
}

/// Parses exactly one known scope.
fn parse_scope(form: &Form<'_>) -> Result<ringtrue_domain::product::Scope, Problem> {
    let invalid = |detail: &str| Problem::new(ProblemCode::InvalidScope, detail);
    let text = form.get("scope").ok_or_else(|| missing_parameter("scope"))?;
    if text.trim().contains(' ') {
        return Err(invalid("multiple scopes; request a separate token for each scope"));
    }
    text.parse().map_err(|_| {
        invalid(
            "unknown scope; use `reverse_sms`, `secure_sna`, `discovery`, `sim_swap`, `eligibility` or `management`",
        )
    })
}
