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
    idempotency::{Sent, once},
    json,
    json::{Invalid, Node, Object, integer, parsed, text},
    path::PathIds,
    problem::Problem,
    query::{PageBody, Query},
    time,
    to_the_end::to_the_end,
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/sim-swap-checks", list)
        .post("/v1/sim-swap-checks", create)
        .get("/v1/sim-swap-checks/{check_id}", get)
}

/// The check as creation and every read show it: it has ended before anybody sees it.
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
        let said = check.verdict();
        SimSwapBody {
            check_id: check.id.to_string(),
            status: check.status().as_str(),
            no_sim_change: said.map(|said| said.no_sim_change),
            no_sim_change_period: said.map(|said| said.covered),
            sim_change_within: said.and_then(|said| said.change_within),
            network_id: said.and(check.network.as_ref()).map(ToString::to_string),
            created_at: time::format(check.created_at),
            updated_at: check.updated_at().map(time::format),
            reference_id: check.reference.as_ref().map(|reference| reference.as_str().to_owned()),
            error_code: check.error_code().map(ErrorCode::as_str),
        }
    }
}

/// `POST /v1/sim-swap-checks`
async fn create(State(app): State<App>, caller: ProjectCaller<SimSwap>, request: Request) -> Result<Response, Problem> {
    let sent = Sent::by(&request);
    let bytes = caller.read_json(&app, request).await?;
    let new = create_body(&bytes)?;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        let (scope, project) = (caller.idempotency_scope(), caller.into_project());
        let body_of = |check: &SimSwapCheck| SimSwapBody::from(check);
        once(&app, scope, &sent, &bytes, body_of, async |once| app.engine.create_sim_swap(&project, new, once).await)
            .await
    })
    .await
}

fn create_body(document: &[u8]) -> Result<CreateSimSwap, Invalid> {
    let mut body = Object::parse(document)?;
    let new = CreateSimSwap {
        phone_number: body.require("phone_number", text)?,
        period: body.take("period", minutes)?,
        reference: body.take("reference_id", parsed::<Reference>)?,
    };
    body.finish()?;
    Ok(new)
}

/// Any number, since the engine says which of them are a period. A fraction, or what no integer holds, is none.
fn minutes(node: Node, pointer: &str) -> Result<i64, Invalid> {
    if matches!(node, Node::OtherNumber) { Ok(i64::MIN) } else { integer(node, pointer) }
}

/// `GET /v1/sim-swap-checks/{check_id}`
async fn get(
    State(app): State<App>,
    caller: ProjectCaller<SimSwap>,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.sim_swap(caller.project().id, ids.check()?).await?;
    Ok(json(StatusCode::OK, &SimSwapBody::from(&check)))
}

/// `GET /v1/sim-swap-checks`
async fn list(
    State(app): State<App>,
    caller: ProjectCaller<SimSwap>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page()?, query.search(&SEARCH_FIELDS)?);
    let page = app.engine.sim_swap_checks(caller.project().id, filter, page).await?;
    Ok(json(StatusCode::OK, &PageBody::new(page, |check| SimSwapBody::from(&check))))
}
