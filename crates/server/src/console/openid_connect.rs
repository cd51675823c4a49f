//! Sign-in by OpenID Connect.
//!
//! `state`, nonce and code verifier are in a sealed cookie, so a response counts only in the browser that sent the
//! request. The sign-in starts with a link, not a form: `form-action` of the content security policy also covers
//! redirects.

use std::sync::Arc;

use anyhow::Context;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::StatusCode;
use jiff::SignedDuration;
use ringtrue_engine::accounts::{ClientInfo, ExternalIdentity, IdentityError, IdentityPolicy, SessionToken};
use ringtrue_operators::{
    client::ClientSettings,
    openid_connect::{RelyingParty, RelyingPartyConfig, RelyingPartyError},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::{
    error::ConsoleError,
    page,
    session::{BrowserClient, Cookie, limit_link_lookup},
    sign_in::{local_path, query_value, with_cookie},
};
use crate::{
    config::OpenIdConnectSection,
    connectors::ConnectorFactory,
    http::{app::App, request_context::RequestContext, routes::Routes},
};

const START_PATH: &str = "/console/openid-connect";
const CALLBACK_PATH: &str = "/console/openid-connect/callback";
/// Time to sign in at the provider.
const FLOW_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);
const FLOW_PURPOSE: &str = "openid-connect";
/// Bounds the cookie.
const MAX_NEXT_BYTES: usize = 1_024;
/// OpenID Connect Core limits subjects to 255 characters.
const MAX_SUBJECT_BYTES: usize = 255;

pub fn routes() -> Routes {
    Routes::default().get("/console/openid-connect", start).get("/console/openid-connect/callback", finish)
}

/// The configured provider.
#[derive(Debug)]
pub struct OpenIdConnect {
    relying_party: RelyingParty,
    pub provider_name: String,
    roles_claim: String,
    policy: IdentityPolicy,
}

/// What must be known when the browser returns.
#[derive(Serialize, Deserialize)]
struct Flow {
    state: String,
    /// Nonce and code verifier, in base64url.
    secrets: String,
    next: String,
}

enum FlowError {
    /// No cookie, an expired one, or the `state` of another request.
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

impl OpenIdConnect {
    pub fn new(section: OpenIdConnectSection, base_url: &str, factory: &ConnectorFactory) -> anyhow::Result<Self> {
        let settings = ClientSettings { extra_roots: section.ca_file, ..ClientSettings::default() };
        let client = factory.client(settings).context("console.openid_connect.ca_file")?;
        let config = RelyingPartyConfig {
            issuer: section.issuer,
            client_id: section.client_id,
            client_secret: section.client_secret,
            scopes: section.scopes,
            redirect_uri: Url::parse(&format!("{base_url}{CALLBACK_PATH}")).context("base_url")?,
        };
        let (clock, entropy) = (Arc::clone(&factory.clock), Arc::clone(&factory.entropy));
        let relying_party = RelyingParty::new(config, Arc::new(client), clock, entropy);
        Ok(OpenIdConnect {
            relying_party: relying_party.context("console.openid_connect.issuer")?,
            provider_name: section.provider_name,
            roles_claim: section.roles_claim,
            policy: section.policy,
        })
    }

    /// Whether the provider can be used, for `ringtrue doctor`.
    pub async fn check(&self) -> Result<(), RelyingPartyError> {
        self.relying_party.discover().await
    }

    async fn sign_in(
        &self,
        app: &App,
        flow: &Flow,
        query: &[(String, String)],
        client: &ClientInfo,
    ) -> Result<SessionToken, FlowError> {
        let secrets = BASE64_URL_SAFE_NO_PAD.decode(&flow.secrets).map_err(|_| FlowError::UnknownFlow)?;
        let mut wanted = vec!["email", "email_verified"];
        if self.policy.grants_access() {
            wanted.push(self.roles_claim.split('.').next().unwrap_or_default());
        }
        let claims = self.relying_party.handle_authorization_response(query, &secrets, &wanted).await?;
        let identity = self.identity(&claims).ok_or(FlowError::NoSubject)?;
        let invitation_token =
            flow.next.strip_prefix("/console/invitation?").and_then(|query| query_value(Some(query), "token"));
        let signed_in =
            app.engine.accounts.sign_in_with_identity(&identity, &self.policy, invitation_token.as_deref(), client);
        Ok(signed_in.await?)
    }

    /// `None`: no valid subject.
    fn identity(&self, claims: &Map<String, Value>) -> Option<ExternalIdentity> {
        let subject = claims.get("sub").and_then(Value::as_str);
        let subject = subject.filter(|subject| (1..=MAX_SUBJECT_BYTES).contains(&subject.len()))?;
        let email = claims.get("email").and_then(Value::as_str).and_then(|email| email.parse().ok());
        Some(ExternalIdentity {
            issuer: self.relying_party.issuer().to_owned(),
            subject: subject.to_owned(),
            email,
            // Some providers send a string.
            is_email_verified: claims.get("email_verified").is_some_and(|value| *value == true || *value == "true"),
            roles: claim_values(claims, &self.roles_claim),
        })
    }
}

/// Values of a claim: a string, or a list of strings. A name with dots may also be a path.
fn claim_values(claims: &Map<String, Value>, name: &str) -> Vec<String> {
    let by_path = || {
        let mut parts = name.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    };
    match claims.get(name).or_else(by_path) {
        Some(Value::String(value)) => vec![value.clone()],
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => vec![],
    }
}

/// Path of the link on the sign-in page.
pub fn start_path(next: &str) -> String {
    page::link(START_PATH, &[("next", Some(next).filter(|next| *next != "/console"))])
}

/// `GET /console/openid-connect`
async fn start(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let provider = app.openid_connect.as_deref().ok_or_else(ConsoleError::not_found)?;
    limit_link_lookup(&app, context.client_ip)?;
    let next = query_value(query.as_deref(), "next").filter(|next| next.len() <= MAX_NEXT_BYTES);
    let state = app.engine.accounts.generate_token();
    let started = provider.relying_party.begin_authorization(&state).await;
    let started = started.map_err(|error| flow_error(FlowError::Provider(error)))?;
    let flow = Flow { state, secrets: BASE64_URL_SAFE_NO_PAD.encode(&started.flow), next: local_path(next.as_deref()) };
    let flow = serde_json::to_vec(&flow).map_err(|_| flow_error(FlowError::UnknownFlow))?;
    let sealed = app.engine.accounts.seal_for_browser(FLOW_PURPOSE, &flow, FLOW_TIMEOUT)?;
    let cookie = Cookie::OpenIdConnect.set_for(&app, &sealed, FLOW_TIMEOUT);
    Ok(with_cookie(page::see_other(&started.url), Some(cookie)))
}

/// `GET /console/openid-connect/callback`
async fn finish(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    BrowserClient(client): BrowserClient,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    let provider = app.openid_connect.as_deref().ok_or_else(ConsoleError::not_found)?;
    limit_link_lookup(&app, context.client_ip)?;
    let query: Vec<(String, String)> =
        url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let cookie = Cookie::OpenIdConnect.read(&app, request.headers());
    let flow = cookie.and_then(|cookie| app.engine.accounts.unseal_from_browser(FLOW_PURPOSE, cookie));
    let flow: Option<Flow> = flow.and_then(|flow| serde_json::from_slice(&flow).ok());
    let Some(flow) = flow.filter(|flow| is_state_of(flow, &query)) else {
        // The cookie stays: the sign-in that it belongs to may go on in another tab.
        return Err(flow_error(FlowError::UnknownFlow));
    };
    let response = match provider.sign_in(&app, &flow, &query, &client).await {
        Ok(token) => {
            let response = page::see_other(&flow.next);
            let response = with_cookie(response, Some(Cookie::Session.set(&app, token.reveal())));
            with_cookie(response, Some(Cookie::Visitor.clear(&app)))
        }
        Err(error) => axum::response::IntoResponse::into_response(flow_error(error)),
    };
    // A response counts once.
    Ok(with_cookie(response, Some(Cookie::OpenIdConnect.clear(&app))))
}

fn is_state_of(flow: &Flow, query: &[(String, String)]) -> bool {
    let mut states = query.iter().filter(|(name, _)| name == "state").map(|(_, value)| value);
    match (states.next(), states.next()) {
        (Some(state), None) => verify_slices_are_equal(state.as_bytes(), flow.state.as_bytes()).is_ok(),
        _ => false,
    }
}

/// Logs the reason, without personal data, and describes it to the user.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claim_may_be_a_string_a_list_or_a_path() {
        let claims = json!({
            "group": "one",
            "groups": ["one", 2, "three"],
            "realm_access": { "roles": ["four"] },
            "https://example.com/roles": ["five"],
            "flag": true,
        });
        let claims = claims.as_object().unwrap();
        for (name, values) in [
            ("group", &["one"][..]),
            ("groups", &["one", "three"]),
            ("realm_access.roles", &["four"]),
            ("https://example.com/roles", &["five"]),
            ("realm_access", &[]),
            ("realm_access.other", &[]),
            ("flag", &[]),
            ("missing", &[]),
        ] {
            assert_eq!(claim_values(claims, name), values, "{name}");
        }
    }
}
