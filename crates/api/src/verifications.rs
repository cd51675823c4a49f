//! Endpoints of verifications: `/v1/verifications`.
//!
//! [`super::silent`] contains the redirect endpoints that devices visit when a verification uses Secure SNA.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    lifecycle::{CheckStatus, Reference},
    phone::Country,
    reverse_sms::{Platform, sms_link},
    timestamp,
    verification::{Locale, Method, SEARCH_FIELDS},
};
use ringtrue_engine::{
    checks::CreateError,
    courier::payload::StepBody,
    rate_limits::RateLimitClass,
    verifications::{CreateVerification, Redeemed, StepInstructions, Verification},
};
use ringtrue_web::{
    app::App,
    body::{JsonError, NoBody, Node, Object, as_distinct_list, as_parsed, as_sim_swap_period, as_text},
    error_catalog::ProblemCode,
    parameters::{PathParameters, Query},
    problem::Problem,
    response::{PageBody, json_response},
    routes::{Routes, get, post},
};
use serde::Serialize;

use crate::{
    caller::{ProjectCaller, scope},
    checks::resend_callback,
    digital_credential::{CredentialRequestBody, Proof},
    idempotency::{Idempotency, mark_replayed},
};

pub fn routes() -> Routes {
    use RateLimitClass::{Create, Read};
    const VERIFICATIONS: &str = "/v1/verifications";
    const VERIFICATION: &str = "/v1/verifications/{verification_id}";
    const NEXT: &str = "/v1/verifications/{verification_id}/next";
    const CANCEL: &str = "/v1/verifications/{verification_id}/cancel";
    const RESEND: &str = "/v1/verifications/{verification_id}/callback-resends";
    Routes::default()
        .route(VERIFICATIONS, get(list).rate_limit(Read))
        .route(VERIFICATIONS, post(create).rate_limit(Create).idempotent())
        .route(VERIFICATION, get(show).rate_limit(Read))
        .route(VERIFICATION, post(redeem).rate_limit(Create).completes_after_disconnect())
        .route(NEXT, post(give_up_step).rate_limit(Create).idempotent())
        .route(CANCEL, post(cancel).rate_limit(Create).completes_after_disconnect())
        .route(RESEND, post(resend_callback::<scope::Verification>).rate_limit(Create).idempotent())
        .logged()
        .rate_limit_unmatched("/v1/verifications/{verification_id}/{*path}", Read)
}

/// JSON representation of a verification.
#[derive(Serialize)]
struct VerificationBody {
    verification_id: String,
    status: &'static str,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_sim_change: Option<bool>,
    methods: Vec<&'static str>,
    steps: Vec<StepBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<NextStepBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    expires_at: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

/// Response to the request that creates a verification.
#[derive(Serialize)]
struct NewVerificationBody {
    verification_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    methods: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<NextStepBody>,
    /// Time until the verification expires, in seconds.
    ttl: i64,
    expires_at: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<String>,
}

/// What the device has to do next.
#[derive(Serialize)]
#[serde(tag = "method", rename_all = "snake_case")]
enum NextStepBody {
    SecureSna {
        url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        digital_credential: Option<CredentialRequestBody>,
    },
    ReverseSms {
        receiver_phone_number: String,
        expected_sms_body: String,
        sms_link: String,
    },
}

impl From<&StepInstructions> for NextStepBody {
    fn from(instructions: &StepInstructions) -> Self {
        match instructions {
            StepInstructions::SecureSna { url, digital_credential } => NextStepBody::SecureSna {
                url: url.clone(),
                digital_credential: digital_credential.as_ref().map(CredentialRequestBody::from),
            },
            StepInstructions::ReverseSms { receiver, sms_body } => NextStepBody::ReverseSms {
                receiver_phone_number: receiver.as_str().to_owned(),
                expected_sms_body: sms_body.clone(),
                sms_link: sms_link(receiver, sms_body, Platform::Unknown),
            },
        }
    }
}

impl From<&Verification> for VerificationBody {
    fn from(Verification { check, progress, step_status, next_step, page_url }: &Verification) -> Self {
        let verdict = check.verdict();
        VerificationBody {
            verification_id: check.id.to_string(),
            status: check.status().into_str(),
            matched: verdict.map(|verdict| verdict.matched),
            method: verdict.map(|verdict| verdict.method.into_str()),
            no_sim_change: verdict.and_then(|verdict| verdict.no_sim_change),
            methods: method_names(&progress.methods),
            steps: progress.steps.iter().map(|step| StepBody::new(step, *step_status)).collect(),
            next_step: next_step.as_ref().map(NextStepBody::from),
            url: page_url.clone(),
            expires_at: timestamp::format(check.expires_at),
            created_at: timestamp::format(check.created_at),
            updated_at: check.updated_at().map(timestamp::format),
            reference_id: check.reference.as_ref().map(|reference| reference.as_str().to_owned()),
            error_code: match check.status() {
                CheckStatus::Expired => Some(ProblemCode::CheckExpired.entry().code),
                _ => check.error_code().map(|code| code.into_str()),
            },
        }
    }
}

impl From<&Verification> for NewVerificationBody {
    fn from(created: &Verification) -> Self {
        let Verification { check, progress, next_step, page_url, .. } = created;
        NewVerificationBody {
            verification_id: check.id.to_string(),
            status: check.status().into_str(),
            url: page_url.clone(),
            methods: method_names(&progress.methods),
            next_step: next_step.as_ref().map(NextStepBody::from),
            ttl: created.ttl(),
            expires_at: timestamp::format(check.expires_at),
            created_at: timestamp::format(check.created_at),
            reference_id: check.reference.as_ref().map(|reference| reference.as_str().to_owned()),
        }
    }
}

fn method_names(methods: &[Method]) -> Vec<&'static str> {
    methods.iter().map(Method::into_str).collect()
}

/// `POST /v1/verifications`
async fn create(
    State(app): State<App>,
    caller: ProjectCaller<scope::Verification>,
    idempotency: Idempotency,
    request: Request,
) -> Result<Response, Problem> {
    let body = caller.read_json_bytes(&app, request).await?;
    let new = parse_create_body(&body)?;
    let body_of = |created: &Verification| NewVerificationBody::from(created);
    idempotency
        .respond(StatusCode::CREATED, caller.idempotency_scope(), &body, body_of, async |claim| {
            let created =
                app.engine.verifications.create(caller.project(), new, claim).await.map_err(create_problem)?;
            idempotency.log_created(created.check.id);
            Ok::<_, Problem>(created)
        })
        .await
}

/// Converts an error of the create request. Reports an invalid SIM Swap period under its name in this request,
/// `sim_swap_period`.
fn create_problem(error: CreateError) -> Problem {
    match error {
        CreateError::Period(error) => Problem::new(ProblemCode::PeriodInvalid, format!("`/sim_swap_period`: {error}")),
        error => error.into(),
    }
}

fn parse_create_body(document: &[u8]) -> Result<CreateVerification, JsonError> {
    let mut body = Object::parse(document)?;
    let new = CreateVerification {
        phone_number: body.require("phone_number", as_text)?,
        country: body.take("country", as_parsed::<Country>)?,
        methods: body.take("methods", parse_methods)?,
        device_ip: body.take("device_ip", as_text)?,
        reference: body.take("reference_id", as_parsed::<Reference>)?,
        callback_url: body.take("callback_url", as_text)?,
        redirect_url: body.take("redirect_url", as_text)?,
        sim_swap_period: body.take("sim_swap_period", as_sim_swap_period)?,
        locale: body.take("locale", as_parsed::<Locale>)?,
    };
    body.finish(new)
}

/// Parses the list of methods, in the order in which they are tried.
pub(super) fn parse_methods(node: Node, pointer: &str) -> Result<Vec<Method>, JsonError> {
    let methods = as_distinct_list(node, pointer, as_parsed)?;
    if methods.is_empty() { Err(JsonError::new(pointer, "at least one method is required")) } else { Ok(methods) }
}

/// `GET /v1/verifications/{verification_id}`
async fn show(
    State(app): State<App>,
    caller: ProjectCaller<scope::Verification>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let verification = app.engine.verifications.read(caller.project().id, ids.verification_id()?).await?;
    Ok(json_response(StatusCode::OK, &VerificationBody::from(&verification)))
}

/// `GET /v1/verifications`
async fn list(
    State(app): State<App>,
    caller: ProjectCaller<scope::Verification>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page_request()?, query.search_filter(&SEARCH_FIELDS)?);
    let page = app.engine.verifications.list(caller.project().id, filter, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |verification| VerificationBody::from(&verification))))
}

/// `POST /v1/verifications/{verification_id}`: redeems the code that the browser or device received, or the answer of
/// the phone's wallet.
async fn redeem(
    State(app): State<App>,
    caller: ProjectCaller<scope::Verification>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let id = ids.verification_id()?;
    let (project, verifications) = (caller.project().id, &app.engine.verifications);
    let redeemed = match Proof::parse(&caller.read_json_bytes(&app, request).await?)? {
        Proof::Code(code) => verifications.redeem(project, id, &code).await?,
        Proof::Credential(credential) => verifications.redeem_credential(project, id, &credential).await?,
    };
    let Redeemed { verification, is_replayed } = redeemed;
    let response = json_response(StatusCode::OK, &VerificationBody::from(&verification));
    Ok(if is_replayed { mark_replayed(response) } else { response })
}

/// `POST /v1/verifications/{verification_id}/next`: gives up the current method and continues with the next one.
async fn give_up_step(
    State(app): State<App>,
    caller: ProjectCaller<scope::Verification>,
    ids: PathParameters,
    idempotency: Idempotency,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let (project, id) = (caller.project().id, ids.verification_id()?);
    let verifications = &app.engine.verifications;
    verifications.require_verification_of_project(project, id).await?;
    let body = caller.read_optional_json_bytes(&app, request).await?;
    let method = match body.as_deref().map(Object::parse).transpose()? {
        Some(mut body) => {
            let method = body.take("method", as_parsed::<Method>)?;
            body.finish(method)?
        }
        None => None,
    };
    // The fingerprint is built from the method, because equal requests may differ in their bytes: no body, an empty one
    // and `{}`.
    let fingerprint = method.map_or("", |method| method.into_str()).as_bytes();
    let body_of = |verification: &Verification| VerificationBody::from(verification);
    idempotency
        .respond(StatusCode::OK, caller.idempotency_scope(), fingerprint, body_of, async |claim| {
            verifications.give_up_step(project, id, method, caller.received_at(), claim).await
        })
        .await
}

/// `POST /v1/verifications/{verification_id}/cancel`
async fn cancel(
    State(app): State<App>,
    caller: ProjectCaller<scope::Verification>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
    _: NoBody,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let verification = app.engine.verifications.cancel(caller.project().id, ids.verification_id()?).await?;
    Ok(json_response(StatusCode::OK, &VerificationBody::from(&verification)))
}
