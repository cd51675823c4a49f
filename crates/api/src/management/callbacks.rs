//! Lists the callbacks of a project.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{page::Page, product::Product, timestamp};
use ringtrue_engine::{
    callbacks::{CallbackFilter, CallbackSummary},
    ports::callbacks::{CallbackSelection, CallbackState},
};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    problem::Problem,
    response::{PageBody, json_response},
    routes::Routes,
};
use serde::Serialize;

use crate::caller::{Caller, scope::Management};

const MAX_RECEIVER_BYTES: usize = 300;

pub fn routes() -> Routes {
    Routes::default().get("/v1/management/workspaces/{workspace_id}/projects/{project_id}/callbacks", list)
}

#[derive(Serialize)]
struct CallbackBody {
    check_id: String,
    product: &'static str,
    receiver: String,
    state: &'static str,
    attempts: u32,
    /// Result of the last attempt: an HTTP status, or the name of a failure. `None` before the first attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_attempt_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
}

impl From<CallbackSummary> for CallbackBody {
    fn from(callback: CallbackSummary) -> Self {
        let (state, due_at) = match callback.state {
            CallbackState::Waiting { due_at } => ("waiting", Some(due_at)),
            CallbackState::Delivered => ("delivered", None),
            CallbackState::GivenUp => ("undeliverable", None),
        };
        CallbackBody {
            check_id: callback.check.to_string(),
            product: callback.product.into_str(),
            receiver: callback.receiver,
            state,
            attempts: callback.attempts,
            last_result: callback.last_attempt_at.is_some().then_some(callback.reason),
            last_attempt_at: callback.last_attempt_at.map(timestamp::format),
            next_attempt_at: due_at.map(timestamp::format),
        }
    }
}

/// `GET /v1/management/workspaces/{workspace_id}/projects/{project_id}/callbacks`
async fn list(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "state", "product", "receiver"])?;
    let request = query.page_request()?;
    let filter = parse_filter(&query)?;
    let project =
        app.engine.management.project(&caller.management_actor(), ids.workspace_id()?, ids.project_id()?).await?;
    let callbacks = app.engine.callbacks.list_callbacks(&project, &filter).await?;
    let page = Page::of_list(&callbacks.callbacks, request);
    Ok(json_response(StatusCode::OK, &PageBody::new(page, CallbackBody::from)))
}

fn parse_filter(query: &Query) -> Result<CallbackFilter, Problem> {
    let selection = match query.get("state") {
        None => CallbackSelection::All,
        Some("undeliverable") => CallbackSelection::GivenUp,
        Some("retrying") => CallbackSelection::Retrying,
        Some("recovered") => CallbackSelection::Recovered,
        Some(_) => return Err(Problem::bad_request("`state` must be `undeliverable`, `retrying` or `recovered`")),
    };
    let product = query.get_parsed::<Product>("product")?;
    if product.is_some_and(|product| !Product::WITH_CALLBACKS.contains(&product)) {
        return Err(Problem::bad_request("`product`: this product has no callbacks"));
    }
    let receiver = query.get("receiver").map(str::to_owned);
    if receiver.as_ref().is_some_and(|receiver| !(1..=MAX_RECEIVER_BYTES).contains(&receiver.len())) {
        return Err(Problem::bad_request(format!("`receiver` must have 1 to {MAX_RECEIVER_BYTES} bytes")));
    }
    Ok(CallbackFilter { product, receiver, ..CallbackFilter::new(selection) })
}
