//! Sending callbacks again: `…-checks/{check_id}/callback-resends`.
//!
//! For products whose checks have callbacks. SIM Swap answers at once, and has none.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::product::Scope;
use ringtrue_engine::callback::Resending;
use serde::Serialize;

use super::{
    App, Routes,
    body::read_nothing,
    caller::{
        ProjectCaller, Required,
        scope::{Discovery, ReverseSms, SecureSna},
    },
    idempotency::{Sent, once_with},
    path::PathIds,
    problem::Problem,
    query::Query,
    time,
    to_the_end::to_the_end,
};

pub fn routes() -> Routes {
    Routes::default()
        .post("/v1/number-verification/reverse-sms-checks/{check_id}/callback-resends", resend::<ReverseSms>)
        .post("/v1/number-verification/secure-sna-checks/{check_id}/callback-resends", resend::<SecureSna>)
        .post("/v1/number-verification/discovery-checks/{check_id}/callback-resends", resend::<Discovery>)
}

/// What will be sent.
#[derive(Serialize)]
struct ResendBody {
    check_id: String,
    scheduled_at: String,
}

impl From<&Resending> for ResendBody {
    fn from(resending: &Resending) -> Self {
        ResendBody { check_id: resending.check.to_string(), scheduled_at: time::format(resending.due_at) }
    }
}

/// `POST …-checks/{check_id}/callback-resends`
async fn resend<S: Required>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathIds,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let Scope::Product(product) = S::SCOPE else { return Err(Problem::not_found()) };
    let check = ids.check()?;
    let sent = Sent::by(&request);
    app.engine.authorize_resend(caller.project(), product, check).await?;
    read_nothing(&app, request).await?;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        let (manager, scope, project) = (caller.manager(), caller.idempotency_scope(), caller.into_project());
        let body_of = |resending: &Resending| ResendBody::from(resending);
        once_with(StatusCode::ACCEPTED, &app, scope, (&sent, &[]), body_of, async |once| {
            app.engine.resend_callback(&manager, &project, product, check, once).await
        })
        .await
    })
    .await
}
