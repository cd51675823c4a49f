//! Sign-in by OpenID Connect.
//!
//! A cookie that only the server can read holds `state`, nonce and code verifier, so a response is accepted only in the
//! browser that sent the request. The sign-in starts with a link instead of a form, because the content security
//! policy's `form-action` would also block the redirect to the provider.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::{
    Extension,
    extract::{RawQuery, Request, State},
    response::Response,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::StatusCode;
use jiff::SignedDuration;
use ringtrue_engine::accounts::{ClientInfo, IdentityError, RejectedFactor, SessionToken};
use ringtrue_operators::openid_connect::RelyingPartyError;
use ringtrue_web::{app::App, request_context::RequestContext, routes::Routes};
use serde::{Deserialize, Serialize};

use crate::{
    dependencies::ConsoleDependencies,
    identity_provider::IdentityProvider,
    page::{self, error::ConsoleError},
    session::{
        console_session::{BrowserClient, Cookie, limit_link_lookup},
        visitor::{invitation_token, query_value, restrict_to_console_path, with_cookie},
    },
};

const START_PATH: &str = "/console/openid-connect";
/// Time that the user has to sign in at the provider.
const FLOW_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);
const FLOW_PURPOSE: &str = "openid-connect";
/// Maximum length of the path at which the user continues. Limits the size of the cookie.
const MAX_NEXT_BYTES: usize = 1_024;

pub fn routes() -> Routes {
    Routes::default().get("/console/openid-connect", start).get("/console/openid-connect/callback", finish)
}

/// State of a sign-in that the cookie keeps until the browser returns from the provider.
#[derive(Serialize, Deserialize)]
struct Flow {
    state: String,
    /// Nonce and code verifier, in base64url.
    secrets: String,
    next: String,
}

enum FlowError {
    /// The cookie is missing or expired, or the `state` belongs to another request.
    UnknownFlow,
    Provider(RelyingPartyError),
    NoSubject,
    Identity(IdentityError),
}

impl From<RelyingPartyError> for FlowError {
    fn from(error: RelyingPartyError) -> Self {
        FlowError::Provider(error)
    }
}

impl From<IdentityError> for FlowError {
    fn from(error: IdentityError) -> Self {
        FlowError::Identity(error)
    }
}

/// Returns the path of the link on the sign-in page that starts a sign-in by OpenID Connect.
pub fn start_path(next: &str) -> String {
    page::path_with_query(START_PATH, &[("next", Some(next).filter(|next| *next != "/console"))])
}

/// `GET /console/openid-connect`
async fn start(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    Extension(dependencies): Extension<Arc<ConsoleDependencies>>,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let provider = dependencies.identity_provider.as_deref().ok_or_else(ConsoleError::not_found)?;
    limit_link_lookup(&app, context.client_ip)?;
    let next = query_value(query.as_deref(), "next").filter(|next| next.len() <= MAX_NEXT_BYTES);
    let state = app.engine.accounts.generate_token();
    let started = provider.build_authorization_redirect(&state).await;
    let started = started.map_err(|error| flow_error(FlowError::Provider(error)))?;
    let flow = Flow {
        state,
        secrets: BASE64_URL_SAFE_NO_PAD.encode(&started.flow),
        next: restrict_to_console_path(next.as_deref()),
    };
    let flow = serde_json::to_vec(&flow).map_err(|_| flow_error(FlowError::UnknownFlow))?;
    let sealed = app.engine.accounts.seal_for_browser(FLOW_PURPOSE, &flow, FLOW_TIMEOUT)?;
    let cookie = Cookie::OpenIdConnect.set_for(&app, &sealed, FLOW_TIMEOUT);
    Ok(with_cookie(page::see_other(&started.url), Some(cookie)))
}

/// `GET /console/openid-connect/callback`
async fn finish(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    Extension(dependencies): Extension<Arc<ConsoleDependencies>>,
    BrowserClient(client): BrowserClient,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    let provider = dependencies.identity_provider.as_deref().ok_or_else(ConsoleError::not_found)?;
    limit_link_lookup(&app, context.client_ip)?;
    let query: Vec<(String, String)> =
        url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let cookie = Cookie::OpenIdConnect.read(&app, request.headers());
    let flow = cookie.and_then(|cookie| app.engine.accounts.unseal_from_browser(FLOW_PURPOSE, cookie));
    let flow: Option<Flow> = flow.and_then(|flow| serde_json::from_slice(&flow).ok());
    let Some(flow) = flow.filter(|flow| is_state_of(flow, &query)) else {
        // Keeps the cookie, because the sign-in to which it belongs may continue in another tab.
        return Err(flow_error(FlowError::UnknownFlow));
    };
    let signed_in = sign_in(&app, provider, &flow, &query, &client).await;
    if let Err(FlowError::NoSubject | FlowError::Provider(_)) = signed_in {
        app.engine.accounts.record_failed_sign_in(None, RejectedFactor::OpenIdConnect);
    }
    let response = match signed_in {
        Ok(token) => {
            let response = page::see_other(&flow.next);
            let response = with_cookie(response, Some(Cookie::Session.set(&app, token.reveal())));
            with_cookie(response, Some(Cookie::Visitor.clear(&app)))
        }
        Err(error) => axum::response::IntoResponse::into_response(flow_error(error)),
    };
    // Deletes the cookie, because a response is accepted only once.
    Ok(with_cookie(response, Some(Cookie::OpenIdConnect.clear(&app))))
}

async fn sign_in(
    app: &App,
    provider: &IdentityProvider,
    flow: &Flow,
    query: &[(String, String)],
    client: &ClientInfo,
) -> Result<SessionToken, FlowError> {
    let secrets = BASE64_URL_SAFE_NO_PAD.decode(&flow.secrets).map_err(|_| FlowError::UnknownFlow)?;
    let identity = provider.receive_identity(query, &secrets).await?.ok_or(FlowError::NoSubject)?;
    let invitation_token = invitation_token(&flow.next);
    let accounts = &app.engine.accounts;
    let signed_in = accounts.sign_in_with_identity(&identity, provider.policy(), invitation_token.as_deref(), client);
    Ok(signed_in.await?)
}

fn is_state_of(flow: &Flow, query: &[(String, String)]) -> bool {
    let mut states = query.iter().filter(|(name, _)| name == "state").map(|(_, value)| value);
    match (states.next(), states.next()) {
        (Some(state), None) => verify_slices_are_equal(state.as_bytes(), flow.state.as_bytes()).is_ok(),
        _ => false,
    }
}

/// Logs the reason without personal data, and returns an error page for the user.
fn flow_error(error: FlowError) -> ConsoleError {
    const TITLE: &str = "Sign-in failed";
    let rejected = |reason: &dyn std::fmt::Display, status: StatusCode, text: &str| {
        tracing::warn!(%reason, "sign-in by OpenID Connect failed");
        ConsoleError::new(status, TITLE, text)
    };
    match error {
        FlowError::UnknownFlow => {
            let text =
                "This sign-in was started too long ago or in another browser. Start again from the sign-in page.";
            rejected(&"unknown or expired `state`", StatusCode::BAD_REQUEST, text)
        }
        FlowError::Provider(error @ RelyingPartyError::Denied) => {
            rejected(&error, StatusCode::FORBIDDEN, "The sign-in was cancelled or denied at the provider.")
        }
        FlowError::Provider(error) => {
            let text = "The OpenID provider could not be reached or sent an invalid response. Try again, or ask an \
                        administrator to look at the log.";
            rejected(&error, StatusCode::BAD_GATEWAY, text)
        }
        FlowError::NoSubject => {
            rejected(&"no valid `sub`", StatusCode::BAD_GATEWAY, "The OpenID provider sent an invalid response.")
        }
        FlowError::Identity(IdentityError::Store(error)) => error.into(),
        FlowError::Identity(error) => {
            let status = match error {
                IdentityError::Conflict => StatusCode::CONFLICT,
                _ => StatusCode::FORBIDDEN,
            };
            rejected(&error, status, &error.to_string())
        }
    }
}
