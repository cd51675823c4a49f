//! Runs a silent check on the simulated phone. The phone's browser follows the redirects from the check's URL through
//! the operator to a code, which the project's server then redeems.
//!
//! Instead of sending HTTP requests to this server, the phone calls the use cases that handle such requests.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use http::header;
use ringtrue_domain::{lifecycle::CheckId, product::Product};
use ringtrue_engine::{
    rate_limits::RateLimitClass,
    silent::{CreatedSilent, DeviceRequest, DeviceReturn, NextStep, RedeemError, RedirectFailure, RedirectOutcome},
};
use ringtrue_sandbox::operator_access::DEFAULT_SIM;
use ringtrue_web::{
    app::App, authorization_forwarder::SimulatedAuthorization, parameters::PathParameters, problem::Problem,
    request_context::RequestContext,
};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    developers::handset::{
        CheckForm, PhoneScreen, authorize, parse_check_id,
        phone_state::{PhoneState, product_name},
        redirect_to_check,
    },
    page::error::{ConsoleError, to_sentence},
    session::forms::{FormFields, SessionForm},
};

/// Maximum wait for the simulated operator, which never responds for some SIMs.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of characters shown of a long query value, such as a token.
const TOKEN_PREFIX_CHARS: usize = 10;

/// The browser of the simulated phone, and its state in one silent check.
#[derive(Serialize, Deserialize)]
pub struct SimulatedBrowser {
    pub check: String,
    #[serde(with = "product_name")]
    pub product: Product,
    pub sim: String,
    /// Path of the check's URL.
    pub path: String,
    pub token: String,
    /// Seconds until the check expires. Set only for a new check.
    pub ttl_seconds: Option<u16>,
    pub hops: Vec<RedirectHop>,
    pub result: Option<RedirectResult>,
}

/// One request of the device and the response to it.
#[derive(Serialize, Deserialize)]
pub struct RedirectHop {
    pub url: String,
    pub status: u16,
    pub text: String,
}

/// Result at the end of the redirect chain.
#[derive(Serialize, Deserialize)]
pub enum RedirectResult {
    Code(String),
    Failed(String),
}

impl SimulatedBrowser {
    pub fn new(created: &CreatedSilent, number: &str) -> Self {
        let url = Url::parse(&created.url).ok();
        let pairs = url.iter().flat_map(|url| url.query_pairs());
        let token = pairs.into_iter().find(|(name, _)| name == "t").map(|(_, token)| token.into_owned());
        let check = &created.check;
        SimulatedBrowser {
            ttl_seconds: Some(created.ttl),
            ..SimulatedBrowser::for_check(check.id, check.product, number, &token.unwrap_or_default())
        }
    }

    fn for_check(check: CheckId, product: Product, sim: &str, token: &str) -> Self {
        let checks = product.facts().api_path.last().copied().unwrap_or_default();
        SimulatedBrowser {
            check: check.to_string(),
            product,
            sim: if sim.is_empty() { DEFAULT_SIM.to_owned() } else { sim.to_owned() },
            path: format!("/v1/number-verification/{checks}/{check}/redirect"),
            token: token.to_owned(),
            ttl_seconds: None,
            hops: vec![],
            result: None,
        }
    }

    /// Returns the code that the device received, or an empty string if it has received none.
    pub fn code(&self) -> &str {
        match &self.result {
            Some(RedirectResult::Code(code)) => code,
            Some(RedirectResult::Failed(_)) | None => "",
        }
    }

    fn record_hop(&mut self, url: &str, status: u16, text: impl Into<String>) {
        self.hops.push(RedirectHop { url: shorten_url(url), status, text: text.into() });
    }

    fn record_failure(&mut self, url: &str, problem: &Problem) {
        let text = to_sentence(&problem.detail);
        self.record_hop(url, problem.code.entry().status.as_u16(), text.clone());
        self.result = Some(RedirectResult::Failed(text));
    }

    /// Follows the redirect chain to its end.
    async fn follow_redirects(&mut self, app: &App, check: CheckId, context: &RequestContext) {
        let first = format!("{}?t={}&sim={}", self.path, self.token, self.sim);
        let (token, sim) = (self.token.clone(), self.sim.clone());
        let request =
            DeviceRequest { product: self.product, check, token: &token, sim: Some(&sim), address: context.client_ip };
        let operator_url = match app.engine.silent.open_device_url(request).await {
            Ok(NextStep::Redirect(location)) => location,
            Ok(NextStep::Finish(outcome)) => return self.finish(&first, outcome),
            Err(error) => return self.record_failure(&first, &error.into()),
        };
        self.record_hop(
            &first,
            302,
            "The check is pending. The device is redirected to the operator, which identifies it by its connection.",
        );
        let Some(callback_url) = self.authorize_at_operator(app, &operator_url).await else { return };
        match return_to_callback(app, &callback_url, context.peer, context).await {
            Ok(outcome) => self.finish(&callback_url, outcome),
            Err(problem) => self.record_failure(&callback_url, &problem),
        }
    }

    /// Sends the authorization request to the operator. Returns the callback URL to which the operator redirects.
    /// `None`: the operator does not redirect, and the failure is recorded as the result.
    async fn authorize_at_operator(&mut self, app: &App, url: &str) -> Option<String> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let response = match tokio::time::timeout(OPERATOR_TIMEOUT, app.authorization_forwarder.forward(query)).await {
            Err(_) | Ok(Some(Ok(SimulatedAuthorization::Silence))) => {
                Err("the operator does not respond; the check expires at the end of its TTL")
            }
            Ok(None) => Err("the sandbox operator is disabled in this deployment"),
            Ok(Some(Err(_))) => Err("the sandbox operator did not respond"),
            Ok(Some(Ok(SimulatedAuthorization::Response(response)))) => Ok(response),
        };
        let response = match response {
            Ok(response) => response,
            Err(text) => {
                self.record_failure(url, &Problem::unavailable(text));
                return None;
            }
        };
        let callback_url =
            response.headers.get(header::LOCATION).and_then(|location| location.to_str().ok()).map(str::to_owned);
        if callback_url.is_some() {
            self.record_hop(
                url,
                response.status,
                "The operator identified the SIM and redirects the device back with an authorization code.",
            );
        } else {
            let text = to_sentence(&String::from_utf8_lossy(&response.body));
            self.record_hop(url, response.status, text.clone());
            self.result = Some(RedirectResult::Failed(text));
        }
        callback_url
    }

    fn finish(&mut self, url: &str, outcome: RedirectOutcome) {
        let next = outcome.redirect_url.as_ref().map(|url| url.as_str().to_owned());
        let status = if next.is_some() { 302 } else { 200 };
        let redirect = next.map(|url| format!(" The app intercepts the redirect to {url}.")).unwrap_or_default();
        match outcome.result {
            Ok(code) => {
                self.record_hop(
                    url,
                    status,
                    format!("The operator’s result is sealed until the code is redeemed.{redirect}"),
                );
                self.result = Some(RedirectResult::Code(code.0));
            }
            Err(failure) => {
                let text = match failure {
                    RedirectFailure::Failed(code) => format!("The check ended with {}.", code.into_str()),
                    RedirectFailure::Expired => "The check has expired.".to_owned(),
                    RedirectFailure::AlreadyCompleted => "The check has already ended or returned its code.".to_owned(),
                };
                self.record_hop(url, status, format!("{text}{redirect}"));
                self.result = Some(RedirectResult::Failed(text));
            }
        }
    }
}

async fn return_to_callback(
    app: &App,
    url: &str,
    peer: SocketAddr,
    context: &RequestContext,
) -> Result<RedirectOutcome, Problem> {
    let url = Url::parse(url).map_err(|error| Problem::internal(&error))?;
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let state = query.iter().find(|(name, _)| name == "state").map_or("", |(_, value)| value);
    let connector = url.path_segments().and_then(|segments| segments.rev().nth(1)).unwrap_or_default();
    let device_return =
        DeviceReturn { connector, state, peer, address: context.client_ip, query: &query, headers: &[] };
    Ok(app.engine.silent.handle_authorization_response(device_return, &[]).await?)
}

/// Shortens a URL for display: removes the host and truncates long query values.
fn shorten_url(url: &str) -> String {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    let (path, query) = after_scheme.split_once('?').unwrap_or((after_scheme, ""));
    let short = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if value.chars().count() > 2 * TOKEN_PREFIX_CHARS => {
            format!("{name}={}…", value.chars().take(TOKEN_PREFIX_CHARS).collect::<String>())
        }
        _ => pair.to_owned(),
    };
    let pairs: Vec<_> = query.split('&').filter(|pair| !pair.is_empty()).map(short).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// `POST …/handset/open`: opens the check's URL and follows its redirects.
pub async fn open(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let (access, fields) = authorize(&app, &ids, form).await?;
    let (product, check) = (parse_product(&fields), parse_check_id(&fields)?);
    // Fails if the check belongs to another project.
    app.engine.checks.read_any_check(access.project.id, product, check).await?;
    let text = |name| fields.get(name).unwrap_or_default();
    let mut browser = SimulatedBrowser::for_check(check, product, text("sim"), text("t"));
    browser.follow_redirects(&app, check, &context).await;
    let check_form = CheckForm { product, ..CheckForm::with_number(browser.sim.clone()) };
    PhoneState::new(&access, check_form, PhoneScreen::Browser(Box::new(browser))).redirect(&app, &access)
}

/// `POST …/handset/code`: redeems the code, as the project's server would.
pub async fn redeem(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = authorize(&app, &ids, form.with_rate_limit_class(RateLimitClass::Create)).await?;
    let (product, check) = (parse_product(&fields), parse_check_id(&fields)?);
    let code = fields.get("code").unwrap_or_default();
    match app.engine.silent.redeem(access.project.id, product, check, code).await {
        // The check's page shows the result.
        Ok(_) | Err(RedeemError::AlreadyCompleted { .. } | RedeemError::Expired) => {
            Ok(redirect_to_check(&app, &access, product, check))
        }
        Err(error) => Err(error.into()),
    }
}

fn parse_product(fields: &FormFields) -> Product {
    let named = fields.get("product").and_then(|name| name.parse::<Product>().ok());
    named.filter(|product| product.facts().is_silent).unwrap_or(Product::SecureSna)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_host_and_long_values() {
        for (url, shown) in [
            ("/v1/x?t=short&sim=+99012345600", "/v1/x?t=short&sim=+99012345600"),
            ("http://127.0.0.1:1/a?state=abcdefghijklmnopqrstu&x=1", "/a?state=abcdefghij…&x=1"),
            ("https://example.com", "/"),
            ("https://example.com/a?", "/a"),
        ] {
            assert_eq!(shorten_url(url), shown);
        }
    }
}
