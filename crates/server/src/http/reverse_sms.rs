//! Reverse SMS checks: `/v1/number-verification/reverse-sms-checks`.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{lifecycle::Reference, reverse_sms::SEARCH_FIELDS, tenancy::Mode};
use ringtrue_engine::{
    checks::CreateError,
    reverse_sms::{CreateReverseSms, CreatedReverseSms},
};
use serde::Serialize;

use super::{
    App, Routes,
    caller::{ProjectCaller, scope::ReverseSms},
    check::CheckBody,
    idempotency::{Sent, once},
    json,
    json::{Invalid, Object, parsed, text},
    path::PathIds,
    problem::Problem,
    query::{PageBody, Query},
    to_the_end::to_the_end,
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/number-verification/reverse-sms-checks", list)
        .post("/v1/number-verification/reverse-sms-checks", create)
        .get("/v1/number-verification/reverse-sms-checks/{check_id}", get)
}

/// The check as creation shows it, once: with what the end-user must send.
#[derive(Serialize)]
struct NewCheckBody {
    #[serde(flatten)]
    check: CheckBody,
    receiver_phone_number: String,
    expected_sms_body: String,
    ttl: u16,
}

impl From<&CreatedReverseSms> for NewCheckBody {
    fn from(created: &CreatedReverseSms) -> Self {
        NewCheckBody {
            check: (&created.check).into(),
            receiver_phone_number: created.invitation.receiver.as_str().to_owned(),
            expected_sms_body: created.invitation.sms_body.clone(),
            ttl: created.invitation.ttl,
        }
    }
}

/// `POST /v1/number-verification/reverse-sms-checks`
async fn create(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    request: Request,
) -> Result<Response, Problem> {
    let sent = Sent::by(&request);
    let bytes = caller.read_json(&app, request).await?;
    let new = create_body(&bytes)?;
    let (scope, project) = (caller.idempotency_scope(), caller.into_project());
    let answers_itself = project.mode == Mode::Sandbox && project.configuration.reverse_sms.auto_reply;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        let handset = answers_itself.then(|| new.phone_number.clone());
        once(
            &app,
            scope,
            &sent,
            &bytes,
            |created| NewCheckBody::from(created),
            async |once| {
                let created = app.engine.create_reverse_sms(&project, new, once).await?;
                if let Some(number) = handset {
                    app.handsets.reply(&project, &number, &created.invitation);
                }
                Ok::<_, CreateError>(created)
            },
        )
        .await
    })
    .await
}

fn create_body(document: &[u8]) -> Result<CreateReverseSms, Invalid> {
    let mut body = Object::parse(document)?;
    let new = CreateReverseSms {
        phone_number: body.require("phone_number", text)?,
        reference: body.take("reference_id", parsed::<Reference>)?,
        callback_url: body.take("callback_url", text)?,
    };
    body.finish()?;
    Ok(new)
}

/// `GET /v1/number-verification/reverse-sms-checks/{check_id}`
async fn get(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.reverse_sms(caller.project().id, ids.check()?).await?;
    Ok(json(StatusCode::OK, &CheckBody::from(&check)))
}

/// `GET /v1/number-verification/reverse-sms-checks`
async fn list(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page()?, query.search(&SEARCH_FIELDS)?);
    let page = app.engine.reverse_sms_checks(caller.project().id, filter, page).await?;
    Ok(json(StatusCode::OK, &PageBody::new(page, |check| CheckBody::from(&check))))
}
