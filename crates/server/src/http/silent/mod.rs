//! Secure SNA and Discovery: `/v1/number-verification/secure-sna-checks` and `…/discovery-checks`.
//!
//! They differ in their scope, in what a create takes, and in what a completed check tells. The way of the device, which
//! has no token, is in [`device`], and what it is told at its end in [`farewell`].

mod device;
mod farewell;
mod parameters;

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    lifecycle::{Reference, Status, Verdict},
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
        ProjectCaller, Required,
        scope::{Discovery, SecureSna},
    },
    catalogue::Code,
    check::CheckBody,
    idempotency::{Sent, once},
    json,
    json::{Invalid, Object, parsed, text},
    path::PathIds,
    problem::Problem,
    query::{PageBody, Query},
    to_the_end::to_the_end,
};

pub use device::enrichment_routes;

/// A product whose checks go by the way of the device.
trait Silent: Required {
    const PRODUCT: Product;
}

impl Silent for SecureSna {
    const PRODUCT: Product = Product::SecureSna;
}

impl Silent for Discovery {
    const PRODUCT: Product = Product::Discovery;
}

pub fn routes() -> Routes {
    device::routes()
        .merge(product::<SecureSna>([
            "/v1/number-verification/secure-sna-checks",
            "/v1/number-verification/secure-sna-checks/{check_id}",
            "/v1/number-verification/secure-sna-checks/{check_id}/redirect",
        ]))
        .merge(product::<Discovery>([
            "/v1/number-verification/discovery-checks",
            "/v1/number-verification/discovery-checks/{check_id}",
            "/v1/number-verification/discovery-checks/{check_id}/redirect",
        ]))
}

fn product<S: Silent>([checks, check, redirect]: [&'static str; 3]) -> Routes {
    Routes::default()
        .get(checks, list::<S>)
        .post(checks, create::<S>)
        .get(check, get::<S>)
        .post(check, redeem::<S>)
        .get(redirect, device::visit::<S>)
}

/// The check as creation shows it, once: with what the device must open.
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

/// What the operator said is shown when the check has completed, and the number until it is erased.
fn shown(engine: &Engine, check: &SilentCheck) -> CheckBody {
    let verdict = check.verdict();
    let number = verdict.and_then(Verdict::discovered).and_then(|number| engine.open_number(check.id, number));
    let mut body = CheckBody::from(check);
    body.phone_number = number.map(|number| number.as_str().to_owned());
    body.network_id = verdict.and(check.network.as_ref()).map(ToString::to_string);
    if check.status() == Status::Expired {
        body.error_code = Some(Code::CheckExpired.entry().code);
    }
    body
}

/// `POST …-checks`
async fn create<S: Silent>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    request: Request,
) -> Result<Response, Problem> {
    let sent = Sent::by(&request);
    let bytes = caller.read_json(&app, request).await?;
    let new = create_body(S::PRODUCT, &bytes)?;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        let (scope, project) = (caller.idempotency_scope(), caller.into_project());
        let body_of = |created: &CreatedSilent| NewCheckBody::from(created);
        once(&app, scope, &sent, &bytes, body_of, async |once| {
            app.engine.create_silent(&project, S::PRODUCT, new, once).await
        })
        .await
    })
    .await
}

fn create_body(product: Product, document: &[u8]) -> Result<CreateSilent, Invalid> {
    let mut body = Object::parse(document)?;
    let phone_number = if product == Product::Discovery { None } else { Some(body.require("phone_number", text)?) };
    let new = CreateSilent {
        phone_number,
        device_ip: body.take("device_ip", text)?,
        reference: body.take("reference_id", parsed::<Reference>)?,
        callback_url: body.take("callback_url", text)?,
        redirect_url: body.take("redirect_url", text)?,
    };
    body.finish()?;
    Ok(new)
}

/// `POST …-checks/{check_id}`
async fn redeem<S: Silent>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathIds,
    request: Request,
) -> Result<Response, Problem> {
    let check = ids.check()?;
    let mut body = Object::parse(&caller.read_json(&app, request).await?)?;
    let code = body.require("code", text)?;
    body.finish()?;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        let redeemed = app.engine.redeem(caller.project().id, S::PRODUCT, check, &code).await?;
        Ok(json(StatusCode::OK, &shown(&app.engine, &redeemed)))
    })
    .await
}

/// `GET …-checks/{check_id}`
async fn get<S: Silent>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.silent_check(caller.project().id, S::PRODUCT, ids.check()?).await?;
    Ok(json(StatusCode::OK, &shown(&app.engine, &check)))
}

/// `GET …-checks`
async fn list<S: Silent>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page()?, query.search(&SEARCH_FIELDS)?);
    let page = app.engine.silent_checks(caller.project().id, S::PRODUCT, filter, page).await?;
    Ok(json(StatusCode::OK, &PageBody::new(page, |check| shown(&app.engine, &check))))
}
