//! Reverse SMS checks: `/v1/number-verification/reverse-sms-checks`.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    lifecycle::{ErrorCode, Reference},
    reverse_sms::{ReverseSmsCheck, SEARCH_FIELDS},
    tenancy::Mode,
};
use ringtrue_engine::{
    checks::CreateError,
    reverse_sms::{CreateReverseSms, CreatedReverseSms},
};
use serde::Serialize;

use super::{
    App, Routes,
    body::read_json,
    caller::{ProjectCaller, scope::ReverseSms},
    idempotency::{once, to_the_end},
    json,
    json::{Invalid, Object, parsed, text},
    path::PathIds,
    problem::Problem,
    query::{PageBody, Query},
    time,
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/number-verification/reverse-sms-checks", list)
        .post("/v1/number-verification/reverse-sms-checks", create)
        .get("/v1/number-verification/reverse-sms-checks/{check_id}", get)
}

/// The check as every read shows it.
#[derive(Serialize)]
struct CheckBody {
    check_id: String,
    status: &'static str,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
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

impl From<&ReverseSmsCheck> for CheckBody {
    fn from(check: &ReverseSmsCheck) -> Self {
        CheckBody {
            check_id: check.id.to_string(),
            status: check.status().as_str(),
            matched: check.verdict().map(|verdict| verdict.0),
            created_at: time::format(check.created_at),
            updated_at: check.updated_at().map(time::format),
            reference_id: check.reference.as_ref().map(|reference| reference.as_str().to_owned()),
            error_code: check.error_code().map(ErrorCode::as_str),
        }
    }
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
    let (headers, uri) = (request.headers().clone(), request.uri().clone());
    let bytes = read_json(&app, request).await?;
    let new = create_body(&bytes)?;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        let project = caller.into_project();
        let answers_itself = project.mode == Mode::Sandbox && project.configuration.reverse_sms.auto_reply;
        let handset = answers_itself.then(|| new.phone_number.clone());
        once(
            &app,
            project.id.0,
            &headers,
            &uri,
            &bytes,
            |created| NewCheckBody::from(created),
            async |once| {
                let created = app.engine.create_reverse_sms(&project, new, once).await?;
                if let Some(number) = handset {
                    app.handsets.reply(&number, &created.invitation);
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
