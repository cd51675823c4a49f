//! The token and revoke endpoints.

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
    arrival::Arrival,
    body::{Form, read_form},
    catalogue::Code,
    json_bytes,
    problem::Problem,
};

/// Room for the headers of an answer with a token, those of the edge included: the map need not grow on the way.
const HEADERS: usize = 8;

/// `POST /oauth2/token` (RFC 6749, client credentials)
pub async fn issue(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut posted = None;
    let issue = async {
        let body = read_form(&app, &parts.headers, body).await?;
        let form = Form::parse(&body)?;
        posted = form.get("client_id").map(str::to_owned);
        let grant_type = form.get("grant_type").ok_or_else(|| missing("grant_type"))?;
        let now = app.engine.clock().now();
        let client = client::authenticate(&app, arrival.address, &parts.headers, &form, now)?;
        set_client(&arrival, &client);
        if grant_type != "client_credentials" {
            let detail = "unsupported grant_type; use `client_credentials`";
            return Err(Problem::new(Code::UnsupportedGrantType, detail));
        }
        let token = app.engine.mint(&client, scope(&form)?, now).map_err(|error| match error {
            MintError::Scope(error) => Problem::new(Code::InvalidScope, error.to_string()),
            MintError::NoKey => Problem::unavailable("no key for tokens is in use yet"),
        })?;
        // Written by hand: base64url, a number and a name of ours need no escape.
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
        headers.reserve(HEADERS);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
        Ok(response)
    };
    issue.await.map_err(|problem: Problem| {
        set_claimed_client(&arrival, client::named(&app, &parts.headers, posted.as_deref()));
        problem.for_oauth(&parts.headers)
    })
}

/// `POST /oauth2/revoke` (RFC 7009)
pub async fn revoke(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut posted = None;
    let revoke = async {
        let body = read_form(&app, &parts.headers, body).await?;
        let form = Form::parse(&body)?;
        posted = form.get("client_id").map(str::to_owned);
        let client = client::authenticate(&app, arrival.address, &parts.headers, &form, app.engine.clock().now())?;
        set_client(&arrival, &client);
        let token = form.get("token").ok_or_else(|| missing("token"))?;
        app.engine.revoke_token(&client, token).await?;
        // Some clients parse the body of every success.
        Ok(json_bytes(StatusCode::OK, "{}"))
    };
    revoke.await.map_err(|problem: Problem| {
        set_claimed_client(&arrival, client::named(&app, &parts.headers, posted.as_deref()));
        problem.for_oauth(&parts.headers)
    })
}

/// Enters the client in the request log.
fn set_client(arrival: &Arrival, client: &Arc<Credential>) {
    if let Some(trail) = &arrival.trail {
        trail.set_client(Arc::clone(client));
    }
}

/// Enters the client that a rejected request names, unless it was authenticated before it was rejected.
fn set_claimed_client(arrival: &Arrival, client: Option<Arc<Credential>>) {
    if let (Some(trail), Some(client)) = (&arrival.trail, client) {
        trail.set_claimed_client(client);
    }
}

fn missing(parameter: &str) -> Problem {
    Problem::new(Code::InvalidRequest, format!("the parameter `{parameter}` is missing"))
}

/// Exactly one known scope.
fn scope(form: &Form<'_>) -> Result<ringtrue_domain::product::Scope, Problem> {
    let invalid = |detail: &str| Problem::new(Code::InvalidScope, detail);
    let text = form.get("scope").ok_or_else(|| missing("scope"))?;
    if text.trim().contains(' ') {
        return Err(invalid("a token has one scope; request one token for each"));
    }
    text.parse().map_err(|_| {
        invalid("the scopes are `reverse_sms`, `secure_sna`, `discovery`, `sim_swap`, `eligibility` and `management`")
    })
}
