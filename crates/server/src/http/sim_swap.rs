//! SIM Swap checks: `/v1/sim-swap-checks`.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    lifecycle::{ErrorCode, Reference},
    reverse_sms::SEARCH_FIELDS,
    sim_swap::SimSwapCheck,
};
use ringtrue_engine::sim_swap::CreateSimSwap;
use serde::Serialize;

use super::{
    App, Routes,
    caller::{ProjectCaller, scope::SimSwap},
    detached::run_to_completion,
    idempotency::{IdempotencyHeader, idempotent},
    json::{JsonError, Node, Object, as_integer, as_parsed, as_text},
    json_response,
    path::PathParameters,
    problem::Problem,
    query::{PageBody, Query},
    time,
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/sim-swap-checks", list)
        .post("/v1/sim-swap-checks", create)
        .get("/v1/sim-swap-checks/{check_id}", get)
}

/// A SIM Swap check. It is concluded when it is created.
#[derive(Serialize)]
struct SimSwapBody {
    check_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_sim_change: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_sim_change_period: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sim_change_within: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_id: Option<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

impl From<&SimSwapCheck> for SimSwapBody {
    fn from(check: &SimSwapCheck) -> Self {
        let verdict = check.verdict();
        SimSwapBody {
            check_id: check.id.to_string(),
            status: check.status().as_str(),
            no_sim_change: verdict.map(|verdict| verdict.no_sim_change),
            no_sim_change_period: verdict.map(|verdict| verdict.covered_minutes),
            sim_change_within: verdict.and_then(|verdict| verdict.changed_within_minutes),
            network_id: verdict.and(check.network.as_ref()).map(ToString::to_string),
            created_at: time::format(check.created_at),
            updated_at: check.updated_at().map(time::format),
            reference_id: check.reference.as_ref().map(|reference| reference.as_str().to_owned()),
            error_code: check.error_code().map(ErrorCode::as_str),
        }
    }
}

/// `POST /v1/sim-swap-checks`
async fn create(State(app): State<App>, caller: ProjectCaller<SimSwap>, request: Request) -> Result<Response, Problem> {
    let header = IdempotencyHeader::from_request(&request);
    let bytes = caller.read_json(&app, request).await?;
    let new = parse_create_body(&bytes)?;
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        let (scope, project) = (caller.idempotency_scope(), caller.into_project());
        let body_of = |check: &SimSwapCheck| SimSwapBody::from(check);
        idempotent(&app, scope, &header, &bytes, body_of, async |idempotency| {
            app.engine.create_sim_swap(&project, new, idempotency).await
        })
        .await
    })
    .await
}

fn parse_create_body(document: &[u8]) -> Result<CreateSimSwap, JsonError> {
    let mut body = Object::parse(document)?;
    let new = CreateSimSwap {
        phone_number: body.require("phone_number", as_text)?,
        period: body.take("period", parse_minutes)?,
        reference: body.take("reference_id", as_parsed::<Reference>)?,
    };
    body.finish()?;
    Ok(new)
}

/// Returns an invalid period for fractions and integers beyond 64 bits, so that the engine rejects it.
fn parse_minutes(node: Node, pointer: &str) -> Result<i64, JsonError> {
    if matches!(node, Node::OtherNumber) { Ok(i64::MIN) } else { as_integer(node, pointer) }
}

/// `GET /v1/sim-swap-checks/{check_id}`
async fn get(
    State(app): State<App>,
    caller: ProjectCaller<SimSwap>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.sim_swap_check(caller.project().id, ids.check()?).await?;
    Ok(json_response(StatusCode::OK, &SimSwapBody::from(&check)))
}

/// `GET /v1/sim-swap-checks`
async fn list(
    State(app): State<App>,
    caller: ProjectCaller<SimSwap>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page_request()?, query.search_filter(&SEARCH_FIELDS)?);
    let page = app.engine.sim_swap_checks(caller.project().id, filter, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |check| SimSwapBody::from(&check))))
}
