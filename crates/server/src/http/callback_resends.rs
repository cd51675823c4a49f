//! Callback resends: `…-checks/{check_id}/callback-resends`.
//!
//! SIM Swap checks conclude on creation and have no callbacks.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::product::Scope;
use ringtrue_engine::callback::ScheduledResend;
use serde::Serialize;

use super::{
    App, Routes,
    body::require_empty_body,
    caller::{
        ProjectCaller, RequiredScope,
        scope::{Discovery, ReverseSms, SecureSna},
    },
    detached::run_to_completion,
    idempotency::{IdempotencyHeader, idempotent_with_status},
    path::PathParameters,
    problem::Problem,
    query::Query,
    time,
};

pub fn routes() -> Routes {
    Routes::default()
        .post("/v1/number-verification/reverse-sms-checks/{check_id}/callback-resends", resend::<ReverseSms>)
        .post("/v1/number-verification/secure-sna-checks/{check_id}/callback-resends", resend::<SecureSna>)
        .post("/v1/number-verification/discovery-checks/{check_id}/callback-resends", resend::<Discovery>)
}

#[derive(Serialize)]
struct ResendBody {
    check_id: String,
    scheduled_at: String,
}

impl From<&ScheduledResend> for ResendBody {
    fn from(resending: &ScheduledResend) -> Self {
        ResendBody { check_id: resending.check.to_string(), scheduled_at: time::format(resending.due_at) }
    }
}

/// `POST …-checks/{check_id}/callback-resends`
async fn resend<S: RequiredScope>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let Scope::Product(product) = S::SCOPE else { return Err(Problem::not_found()) };
    let check = ids.check()?;
    let header = IdempotencyHeader::from_request(&request);
    app.engine.authorize_resend(caller.project(), product, check).await?;
    require_empty_body(&app, request).await?;
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        let (manager, scope, project) = (caller.manager(), caller.idempotency_scope(), caller.into_project());
        let body_of = |resending: &ScheduledResend| ResendBody::from(resending);
        idempotent_with_status(StatusCode::ACCEPTED, &app, scope, (&header, &[]), body_of, async |idempotency| {
            app.engine.resend_callback(&manager, &project, product, check, idempotency).await
        })
        .await
    })
    .await
}
