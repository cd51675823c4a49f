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
    detached::run_to_completion,
    idempotency::{IdempotencyHeader, idempotent},
    json::{JsonError, Object, as_parsed, as_text},
    json_response,
    path::PathParameters,
    problem::Problem,
    query::{PageBody, Query},
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/number-verification/reverse-sms-checks", list)
        .post("/v1/number-verification/reverse-sms-checks", create)
        .get("/v1/number-verification/reverse-sms-checks/{check_id}", get)
}

/// Response to a create. Only this response contains the SMS to send.
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
            receiver_phone_number: created.instructions.receiver.as_str().to_owned(),
            expected_sms_body: created.instructions.sms_body.clone(),
            ttl: created.instructions.ttl,
        }
    }
}

/// `POST /v1/number-verification/reverse-sms-checks`
async fn create(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    request: Request,
) -> Result<Response, Problem> {
    let header = IdempotencyHeader::from_request(&request);
    let bytes = caller.read_json(&app, request).await?;
    let new = parse_create_body(&bytes)?;
    let (scope, project) = (caller.idempotency_scope(), caller.into_project());
    let auto_replies = project.mode == Mode::Sandbox && project.configuration.reverse_sms.auto_reply;
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        let handset = auto_replies.then(|| new.phone_number.clone());
        idempotent(
            &app,
            scope,
            &header,
            &bytes,
            |created| NewCheckBody::from(created),
            async |idempotency| {
                let created = app.engine.create_reverse_sms(&project, new, idempotency).await?;
                if let Some(number) = handset {
                    app.handsets.auto_reply(&project, &number, &created.instructions);
                }
                Ok::<_, CreateError>(created)
            },
        )
        .await
    })
    .await
}

fn parse_create_body(document: &[u8]) -> Result<CreateReverseSms, JsonError> {
    let mut body = Object::parse(document)?;
    let new = CreateReverseSms {
        phone_number: body.require("phone_number", as_text)?,
        reference: body.take("reference_id", as_parsed::<Reference>)?,
        callback_url: body.take("callback_url", as_text)?,
    };
    body.finish()?;
    Ok(new)
}

/// `GET /v1/number-verification/reverse-sms-checks/{check_id}`
async fn get(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.reverse_sms_check(caller.project().id, ids.check()?).await?;
    Ok(json_response(StatusCode::OK, &CheckBody::from(&check)))
}

/// `GET /v1/number-verification/reverse-sms-checks`
async fn list(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page_request()?, query.search_filter(&SEARCH_FIELDS)?);
    let page = app.engine.reverse_sms_checks(caller.project().id, filter, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |check| CheckBody::from(&check))))
}
