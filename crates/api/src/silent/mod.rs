//! Endpoints of Secure SNA and Discovery: `/v1/number-verification/secure-sna-checks` and `…/discovery-checks`, and the
//! redirect endpoints that devices visit.
//!
//! The products differ in scope, create parameters and result. Devices send tokens and codes in the query, so the query
//! is never logged. [`device_response`] renders the responses at the end of the redirect chain. [`browser_cookie`]
//! manages the keys of browsers that entered the chain from the hosted page.

mod device_response;

use std::sync::Arc;

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::{HeaderMap, Method, StatusCode, request::Parts};
use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus, Reference, Verdict},
    product::Product,
    reverse_sms::SEARCH_FIELDS,
    silent::SilentCheck,
};
use ringtrue_engine::{
    Engine,
    checks::CreateError,
    rate_limits::RateLimitClass,
    silent::{
        CreateSilent, CreatedSilent, DeviceRequest, DeviceReturn, HandleReturn, NextStep, RedirectError,
        RedirectOutcome,
    },
};
use ringtrue_web::{
    app::App,
    body::{JsonError, Object, as_parsed, as_text},
    error_catalog::ProblemCode,
    parameters::{PathParameters, Query, decode_component},
    problem::Problem,
    request_context::RequestContext,
    response::{PageBody, json_response},
    routes::{Routes, get, post},
};
use serde::Serialize;

use crate::{
    browser_cookie,
    caller::{
        DeviceVisitor, ProjectCaller, RequiredScope,
        scope::{Discovery, SecureSna},
    },
    checks::CheckBody,
    digital_credential::{CredentialRequestBody, Proof},
    idempotency::Idempotency,
    redirect_response::redirect,
    verification_page,
};
use device_response::{RedirectStep, head_response};
pub(super) use device_response::{ResponseFormat, accept_quality};

/// Path on the public listener to which the header enrichment listener, which has no TLS, redirects a device with a
/// single-use handle.
const HEADER_ENRICHMENT_RETURN_PATH: &str = "/southbound/header-enrichment/return";

/// A product whose checks redirect the device to its operator.
trait SilentProduct: RequiredScope {
    const PRODUCT: Product;
}

impl SilentProduct for SecureSna {
    const PRODUCT: Product = Product::SecureSna;
}

impl SilentProduct for Discovery {
    const PRODUCT: Product = Product::Discovery;
}

pub fn routes() -> Routes {
    Routes::default()
        .route("/southbound/camara/{connector}/callback", get(oauth_callback).completes_after_disconnect())
        .route(HEADER_ENRICHMENT_RETURN_PATH, get(header_enrichment_return).completes_after_disconnect())
        .merge(product_routes::<SecureSna>([
            "/v1/number-verification/secure-sna-checks",
            "/v1/number-verification/secure-sna-checks/{check_id}",
            "/v1/number-verification/secure-sna-checks/{check_id}/redirect",
        ]))
        .merge(product_routes::<Discovery>([
            "/v1/number-verification/discovery-checks",
            "/v1/number-verification/discovery-checks/{check_id}",
            "/v1/number-verification/discovery-checks/{check_id}/redirect",
        ]))
}

/// Routes of the header enrichment listener.
pub fn enrichment_routes() -> Routes {
    Routes::default().route("/he/{connector}/{state}", get(header_enrichment_callback).completes_after_disconnect())
}

fn product_routes<S: SilentProduct>([checks, check, redirect]: [&'static str; 3]) -> Routes {
    Routes::default()
        .route(checks, get(list::<S>).rate_limit(RateLimitClass::Read))
        .route(checks, post(create::<S>).rate_limit(RateLimitClass::Create).idempotent())
        .route(check, get(show::<S>).rate_limit(RateLimitClass::Read))
        .route(check, post(redeem::<S>).rate_limit(RateLimitClass::Create).completes_after_disconnect())
        .route(redirect, get(open_check_url::<S>).rate_limit(RateLimitClass::Device).completes_after_disconnect())
        .logged()
}

/// Response to the request that creates a check. Only this response contains the URL that the device has to open.
#[derive(Serialize)]
struct NewCheckBody {
    #[serde(flatten)]
    check: CheckBody,
    url: String,
    ttl: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    digital_credential: Option<CredentialRequestBody>,
}

impl From<&CreatedSilent> for NewCheckBody {
    fn from(created: &CreatedSilent) -> Self {
        NewCheckBody {
            check: (&created.check).into(),
            url: created.url.clone(),
            ttl: created.ttl,
            digital_credential: created.digital_credential.as_ref().map(CredentialRequestBody::from),
        }
    }
}

/// Renders a check. Adds the operator's verdict once the check is completed, and the discovered number until it is
/// erased.
fn render_check(engine: &Engine, check: &SilentCheck) -> CheckBody {
    let verdict = check.verdict();
    let number = verdict
        .and_then(Verdict::discovered_number)
        .and_then(|number| engine.checks.unseal_discovered_number(check.id, number));
    let mut body = CheckBody::from(check);
    body.phone_number = number.map(|number| number.as_str().to_owned());
    body.network_id = verdict.and(check.network.as_ref()).map(ToString::to_string);
    if check.status() == CheckStatus::Expired {
        body.error_code = Some(ProblemCode::CheckExpired.entry().code);
    }
    body
}

/// `POST …-checks`
async fn create<S: SilentProduct>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    idempotency: Idempotency,
    request: Request,
) -> Result<Response, Problem> {
    let body = caller.read_json_bytes(&app, request).await?;
    let new = parse_create_body(S::PRODUCT, &body)?;
    let body_of = |created: &CreatedSilent| NewCheckBody::from(created);
    idempotency
        .respond(StatusCode::CREATED, caller.idempotency_scope(), &body, body_of, async |claim| {
            let created = app.engine.silent.create_silent(caller.project(), S::PRODUCT, new, claim).await?;
            idempotency.log_created(created.check.id);
            Ok::<_, CreateError>(created)
        })
        .await
}

fn parse_create_body(product: Product, document: &[u8]) -> Result<CreateSilent, JsonError> {
    let mut body = Object::parse(document)?;
    let phone_number = if product.facts().takes_number { Some(body.require("phone_number", as_text)?) } else { None };
    let new = CreateSilent {
        phone_number,
        device_ip: body.take("device_ip", as_text)?,
        reference: body.take("reference_id", as_parsed::<Reference>)?,
        callback_url: body.take("callback_url", as_text)?,
        redirect_url: body.take("redirect_url", as_text)?,
    };
    body.finish(new)
}

/// `POST …-checks/{check_id}`: redeems the code that the device received. For Secure SNA, also the answer of the phone's
/// wallet.
async fn redeem<S: SilentProduct>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let check = ids.check_id()?;
    let (project, silent) = (caller.project().id, &app.engine.silent);
    let redeemed = match parse_proof(S::PRODUCT, &caller.read_json_bytes(&app, request).await?)? {
        Proof::Code(code) => silent.redeem(project, S::PRODUCT, check, &code).await?,
        Proof::Credential(credential) => silent.redeem_credential(project, check, &credential).await?,
    };
    Ok(json_response(StatusCode::OK, &render_check(&app.engine, &redeemed)))
}

/// Only Secure SNA has a wallet, because its operator is asked about a number.
fn parse_proof(product: Product, document: &[u8]) -> Result<Proof, JsonError> {
    if product == Product::SecureSna {
        return Proof::parse(document);
    }
    let mut body = Object::parse(document)?;
    let code = body.require("code", as_text)?;
    body.finish(Proof::Code(code))
}

/// `GET …-checks/{check_id}`
async fn show<S: SilentProduct>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.silent.silent_check(caller.project().id, S::PRODUCT, ids.check_id()?).await?;
    Ok(json_response(StatusCode::OK, &render_check(&app.engine, &check)))
}

/// `GET …-checks`
async fn list<S: SilentProduct>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page_request()?, query.search_filter(&SEARCH_FIELDS)?);
    let page = app.engine.silent.silent_checks(caller.project().id, S::PRODUCT, filter, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |check| render_check(&app.engine, &check))))
}

/// `GET …-checks/{check_id}/redirect`
async fn open_check_url<S: SilentProduct>(
    State(app): State<App>,
    visitor: DeviceVisitor,
    ids: PathParameters,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let format = ResponseFormat::from_headers(&parts.headers);
    format.render(begin_redirect::<S>(&app, &visitor, &ids, &parts, format).await)
}

async fn begin_redirect<S: SilentProduct>(
    app: &App,
    visitor: &DeviceVisitor,
    ids: &PathParameters,
    parts: &Parts,
    format: ResponseFormat,
) -> Result<Response, Problem> {
    let (check, token, query) = match parse_check_url(app, ids, parts) {
        Ok(found) => found,
        Err(problem) => {
            visitor.count_invalid_visit(app)?;
            return Err(problem);
        }
    };
    visitor.count_visit(app, check)?;
    let address = visitor.address();
    // `sim` is the phone number of a simulated SIM. An unescaped `+` in it has been decoded to a space.
    let sim = query.get_unique("sim")?.map(|sim| sim.replace(' ', "+"));
    if parts.method == Method::HEAD {
        return Ok(head_response());
    }
    let visit = DeviceRequest { product: S::PRODUCT, check, token: &token, sim: sim.as_deref(), address };
    match app.engine.silent.open_device_url(visit).await? {
        NextStep::Redirect(location) => redirect(&location),
        NextStep::Finish(end) => format.render_outcome(&app.engine, &end, RedirectStep::First),
    }
}

/// Parses the check id and verifies the device token without a database query.
fn parse_check_url(app: &App, ids: &PathParameters, parts: &Parts) -> Result<(CheckId, String, DeviceQuery), Problem> {
    let check = ids.check_id()?;
    let query = DeviceQuery::parse(parts.uri.query())?;
    let token = query.get_unique("t")?.ok_or(RedirectError::NotFound)?.to_owned();
    if !app.engine.silent.is_device_token(check, &token) {
        return Err(RedirectError::NotFound.into());
    }
    Ok((check, token, query))
}

/// `GET /southbound/camara/{connector}/callback`
///
/// The handler runs to completion even if the device disconnects, because the `state` in its URL is valid only once:
/// the device could not repeat the request.
async fn oauth_callback(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    ids: PathParameters,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let format = ResponseFormat::from_headers(&parts.headers);
    let finish = async {
        let query = DeviceQuery::parse(parts.uri.query())?;
        let state = query.require_state()?;
        if parts.method == Method::HEAD {
            return Ok(head_response());
        }
        // No headers are passed on: devices can forge them here, so enrichment headers count only on their own
        // listener.
        let returned = build_device_return(&context, &ids, &state, &query.0, &[]);
        let keys = browser_cookie::read_keys(&app, &parts.headers);
        let end = app.engine.silent.handle_authorization_response(returned, &keys).await?;
        finish_redirect(&app, &context, &parts.headers, &end).await
    };
    format.render(finish.await)
}

/// `GET /he/{connector}/{state}`
///
/// This listener has no TLS, so the result must not be sent here. The response redirects the device to
/// [`HEADER_ENRICHMENT_RETURN_PATH`] on the public listener, which returns the result.
async fn header_enrichment_callback(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    ids: PathParameters,
    request: Request,
) -> Response {
    if request.method() == Method::HEAD {
        return head_response();
    }
    let format = ResponseFormat::from_headers(request.headers());
    let state = ids.get("state").unwrap_or_default();
    let headers: Vec<_> =
        request.headers().iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let hand_over = async {
        let returned = build_device_return(&context, &ids, state, &[], &headers);
        let handle = app.engine.silent.handle_plain_response(returned).await?;
        redirect(&format!("{}{HEADER_ENRICHMENT_RETURN_PATH}?state={handle}", app.engine.base_url()))
    };
    format.render(hand_over.await)
}

/// `GET /southbound/header-enrichment/return`
///
/// The handler runs to completion even if the device disconnects, because the handle in its URL is valid only once: the
/// device could not repeat the request.
async fn header_enrichment_return(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let format = ResponseFormat::from_headers(&parts.headers);
    let finish = async {
        let handle = DeviceQuery::parse(parts.uri.query())?.require_state()?;
        if parts.method == Method::HEAD {
            return Ok(head_response());
        }
        let browser_keys = browser_cookie::read_keys(&app, &parts.headers);
        let returned = HandleReturn { handle: &handle, address: context.client_ip, browser_keys: &browser_keys };
        let end = app.engine.silent.finish_with_handle(returned).await?;
        finish_redirect(&app, &context, &parts.headers, &end).await
    };
    format.render(finish.await)
}

fn build_device_return<'a>(
    context: &RequestContext,
    ids: &'a PathParameters,
    state: &'a str,
    query: &'a [(String, String)],
    headers: &'a [(String, Vec<u8>)],
) -> DeviceReturn<'a> {
    let connector = ids.get("connector").unwrap_or_default();
    let &RequestContext { peer, client_ip: address, .. } = context;
    DeviceReturn { connector, state, peer, address, query, headers }
}

/// Responds to a device that has returned from its operator: with the hosted page if the check began there, otherwise
/// with the result.
async fn finish_redirect(
    app: &App,
    context: &Arc<RequestContext>,
    headers: &HeaderMap,
    end: &RedirectOutcome,
) -> Result<Response, Problem> {
    if let Some(verification) = end.verification.as_ref().filter(|verification| verification.began_at_page) {
        return verification_page::finish_at_page(app, context, headers, end, verification).await;
    }
    ResponseFormat::from_headers(headers).render_outcome(&app.engine, end, RedirectStep::Return)
}

/// Maximum length of a query value. An operator's authorization code may be a JWT.
const MAX_VALUE_BYTES: usize = 4 * 1024;
const MAX_PARAMETERS: usize = 32;
const KNOWN_PARAMETERS: [&str; 6] = ["t", "sim", "state", "code", "iss", "error"];

/// Query of a device request: decoded names and values in order. Contains tokens and codes; never log it.
///
/// Operators may add parameters: unknown ones are passed on, or dropped if malformed. Known ones must be well-formed
/// and unique.
struct DeviceQuery(Vec<(String, String)>);

impl DeviceQuery {
    fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let fields = query.unwrap_or_default().split('&').filter(|field| !field.is_empty());
        let mut parameters = vec![];
        for field in fields {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = decode(name).filter(|name| name.len() <= MAX_VALUE_BYTES);
            let is_known = name.as_deref().is_some_and(|name| KNOWN_PARAMETERS.contains(&name));
            let pair = name.zip(decode(value).filter(|value| value.len() <= MAX_VALUE_BYTES));
            match pair {
                Some(pair) if is_known || parameters.len() < MAX_PARAMETERS => parameters.push(pair),
                None if is_known => {
                    let problem = format!(
                        "a query parameter is not valid percent-encoded UTF-8 of at most {MAX_VALUE_BYTES} bytes"
                    );
                    return Err(Problem::bad_request(problem));
                }
                // Drop surplus or malformed parameters added by the operator.
                Some(_) | None => {}
            }
        }
        Ok(DeviceQuery(parameters))
    }

    /// Returns the value of a parameter that must not be repeated.
    fn get_unique(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(_) => Err(Problem::bad_request(format!("the query parameter `{name}` is repeated"))),
            None => Ok(first),
        }
    }

    fn require_state(&self) -> Result<String, Problem> {
        let state = self.get_unique("state")?;
        Ok(state.ok_or_else(|| Problem::bad_request("missing query parameter `state`"))?.to_owned())
    }
}

/// Like [`decode_component`], but also returns `None` for an invalid escape.
fn decode(text: &str) -> Option<String> {
    let is_escape = |rest: &str| rest.as_bytes().get(..2).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    if text.split('%').skip(1).all(is_escape) { decode_component(text) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parameters_must_be_valid_and_unique() {
        for (query, expected) in [
            (None, Some(vec![])),
            (Some("state=a-_b&code=x%2By+z&&iss=https%3A%2F%2Fop.example"), {
                Some(vec![("state", "a-_b"), ("code", "x+y z"), ("iss", "https://op.example")])
            }),
            (Some("flag&=v&e=%e2%82%ac"), Some(vec![("flag", ""), ("", "v"), ("e", "€")])),
            (Some("code=%"), None),
            (Some("code=%4"), None),
            (Some("code=%zz"), None),
            (Some("code=%+1"), None),
            (Some("code=%ff"), None),
            (Some("%c3=a&state=b&error_description=Acc%E8s"), Some(vec![("state", "b")])),
        ] {
            let pairs = |parameters: DeviceQuery| parameters.0;
            let expected = expected.map(|pairs| pairs.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect());
            assert_eq!(DeviceQuery::parse(query).ok().map(pairs), expected, "{query:?}");
        }
        assert!(DeviceQuery::parse(Some(&format!("state={}", "x".repeat(4_097)))).is_err());
        for (endless, kept) in [("a=1&".repeat(33), 32), (format!("a={}", "x".repeat(4_097)), 0)] {
            assert_eq!(DeviceQuery::parse(Some(&endless)).map(|query| query.0.len()).ok(), Some(kept));
        }
        let late = format!("{}state=b", "a=1&".repeat(40));
        assert_eq!(DeviceQuery::parse(Some(&late)).unwrap().get_unique("state").unwrap(), Some("b"));
        let twice = DeviceQuery::parse(Some("state=a&code=b&state=a")).unwrap();
        assert!(twice.get_unique("state").is_err());
        assert_eq!(twice.get_unique("code").unwrap(), Some("b"));
        assert_eq!(twice.get_unique("iss").unwrap(), None);
    }
}
