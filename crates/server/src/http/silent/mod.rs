//! Secure SNA and Discovery: `/v1/number-verification/secure-sna-checks` and `…/discovery-checks`.
//!
//! The products differ in scope, create parameters and result. [`device`] contains the endpoints for devices,
//! [`device_response`] the responses at the end of the redirect chain.

mod device;
mod device_query;
mod device_response;

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    lifecycle::{CheckStatus, Reference, Verdict},
    product::Product,
    reverse_sms::SEARCH_FIELDS,
    silent::SilentCheck,
};
use ringtrue_engine::{
    Engine,
    silent::{CreateSilent, CreatedSilent},
};
use serde::Serialize;

use super::{
    App, Routes,
    caller::{
        ProjectCaller, RequiredScope,
        scope::{Discovery, SecureSna},
    },
    check::CheckBody,
    detached::run_to_completion,
    error_catalog::ProblemCode,
    idempotency::{IdempotencyHeader, idempotent},
    json::{JsonError, Object, as_parsed, as_text},
    json_response,
    path::PathParameters,
    problem::Problem,
    query::{PageBody, Query},
};

pub use device::enrichment_routes;

/// A product that verifies the device by redirects.
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
    device::routes()
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

fn product_routes<S: SilentProduct>([checks, check, redirect]: [&'static str; 3]) -> Routes {
    Routes::default()
        .get(checks, list::<S>)
        .post(checks, create::<S>)
        .get(check, get::<S>)
        .post(check, redeem::<S>)
        .get(redirect, device::open_check_url::<S>)
}

/// Response to a create. Only this response contains the URL for the device.
#[derive(Serialize)]
struct NewCheckBody {
    #[serde(flatten)]
    check: CheckBody,
    url: String,
    ttl: u16,
}

impl From<&CreatedSilent> for NewCheckBody {
    fn from(created: &CreatedSilent) -> Self {
        NewCheckBody { check: (&created.check).into(), url: created.url.clone(), ttl: created.ttl }
    }
}

/// Includes the operator's verdict after completion, and the number until it is erased.
fn render_check(engine: &Engine, check: &SilentCheck) -> CheckBody {
    let verdict = check.verdict();
    let number = verdict.and_then(Verdict::discovered).and_then(|number| engine.open_number(check.id, number));
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
    request: Request,
) -> Result<Response, Problem> {
    let header = IdempotencyHeader::from_request(&request);
    let bytes = caller.read_json(&app, request).await?;
    let new = parse_create_body(S::PRODUCT, &bytes)?;
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        let (scope, project) = (caller.idempotency_scope(), caller.into_project());
        let body_of = |created: &CreatedSilent| NewCheckBody::from(created);
        idempotent(&app, scope, &header, &bytes, body_of, async |idempotency| {
            app.engine.create_silent(&project, S::PRODUCT, new, idempotency).await
        })
        .await
    })
    .await
}

fn parse_create_body(product: Product, document: &[u8]) -> Result<CreateSilent, JsonError> {
    let mut body = Object::parse(document)?;
    let phone_number = if product == Product::Discovery { None } else { Some(body.require("phone_number", as_text)?) };
    let new = CreateSilent {
        phone_number,
        device_ip: body.take("device_ip", as_text)?,
        reference: body.take("reference_id", as_parsed::<Reference>)?,
        callback_url: body.take("callback_url", as_text)?,
        redirect_url: body.take("redirect_url", as_text)?,
    };
    body.finish()?;
    Ok(new)
}

/// `POST …-checks/{check_id}`
async fn redeem<S: SilentProduct>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let check = ids.check()?;
    let mut body = Object::parse(&caller.read_json(&app, request).await?)?;
    let code = body.require("code", as_text)?;
    body.finish()?;
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        let redeemed = app.engine.redeem(caller.project().id, S::PRODUCT, check, &code).await?;
        Ok(json_response(StatusCode::OK, &render_check(&app.engine, &redeemed)))
    })
    .await
}

/// `GET …-checks/{check_id}`
async fn get<S: SilentProduct>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.silent_check(caller.project().id, S::PRODUCT, ids.check()?).await?;
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
    let page = app.engine.silent_checks(caller.project().id, S::PRODUCT, filter, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |check| render_check(&app.engine, &check))))
}
