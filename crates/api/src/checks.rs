//! Endpoints of Reverse SMS and SIM Swap checks, and the endpoint that resends callbacks.
//!
//! SIM Swap checks conclude on creation and have no callbacks. [`super::silent`] contains the endpoints of Secure SNA
//! and Discovery checks.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    lifecycle::{Check, Reference, Verdict},
    product::{Product, Scope},
    reverse_sms::SEARCH_FIELDS,
    sim_swap::{self, SimSwapCheck},
    tenancy::Mode,
    timestamp,
};
use ringtrue_engine::{
    callbacks::ScheduledResend,
    checks::{
        CreateError,
        reverse_sms::{CreateReverseSms, CreatedReverseSms},
        sim_swap::CreateSimSwap,
    },
    rate_limits::RateLimitClass,
};
use ringtrue_web::{
    app::App,
    body::{JsonError, NoBody, Object, as_parsed, as_sim_swap_period, as_text},
    parameters::{PathParameters, Query},
    problem::Problem,
    response::{PageBody, json_response},
    routes::{Routes, get, post},
};
use serde::Serialize;

use crate::{
    caller::{
        ProjectCaller, RequiredScope,
        scope::{Discovery, ReverseSms, SecureSna, SimSwap},
    },
    idempotency::Idempotency,
};

pub fn routes() -> Routes {
    use RateLimitClass::{Create, Read};
    const REVERSE_SMS: &str = "/v1/number-verification/reverse-sms-checks";
    const RESEND_REVERSE_SMS: &str = "/v1/number-verification/reverse-sms-checks/{check_id}/callback-resends";
    const RESEND_SECURE_SNA: &str = "/v1/number-verification/secure-sna-checks/{check_id}/callback-resends";
    const RESEND_DISCOVERY: &str = "/v1/number-verification/discovery-checks/{check_id}/callback-resends";
    Routes::default()
        .route(REVERSE_SMS, get(list_reverse_sms).rate_limit(Read))
        .route(REVERSE_SMS, post(create_reverse_sms).rate_limit(Create).idempotent())
        .route("/v1/number-verification/reverse-sms-checks/{check_id}", get(get_reverse_sms).rate_limit(Read))
        .route("/v1/sim-swap-checks", get(list_sim_swap).rate_limit(Read))
        .route("/v1/sim-swap-checks", post(create_sim_swap).rate_limit(Create).idempotent())
        .route("/v1/sim-swap-checks/{check_id}", get(get_sim_swap).rate_limit(Read))
        .route(RESEND_REVERSE_SMS, post(resend_callback::<ReverseSms>).rate_limit(Create).idempotent())
        .route(RESEND_SECURE_SNA, post(resend_callback::<SecureSna>).rate_limit(Create).idempotent())
        .route(RESEND_DISCOVERY, post(resend_callback::<Discovery>).rate_limit(Create).idempotent())
        .logged()
        .rate_limit_unmatched("/v1/number-verification/{*path}", Read)
        .rate_limit_unmatched("/v1/sim-swap-checks/{check_id}/{*path}", Read)
}

/// JSON representation of a check. All products use it except SIM Swap.
#[derive(Serialize)]
pub struct CheckBody {
    check_id: String,
    status: &'static str,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    /// Phone number that a Discovery check found. `None` for other products, and once the number is erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phone_number: Option<String>,
    /// Mobile network of the device. Only completed Secure SNA and Discovery checks have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_id: Option<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<String>,
    /// Reason why the check failed. Silent checks (Secure SNA and Discovery) also have one if they expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<&'static str>,
}

impl<V: Verdict + Clone> From<&Check<V>> for CheckBody {
    /// Sets the fields that all products have. `phone_number` and `network_id` stay empty.
    fn from(check: &Check<V>) -> Self {
        CheckBody {
            check_id: check.id.to_string(),
            status: check.status().into_str(),
            matched: check.verdict().and_then(Verdict::matched),
            phone_number: None,
            network_id: None,
            created_at: timestamp::format(check.created_at),
            updated_at: check.updated_at().map(timestamp::format),
            reference_id: check.reference.as_ref().map(|reference| reference.as_str().to_owned()),
            error_code: check.error_code().map(|code| code.into_str()),
        }
    }
}

/// Response to the request that creates a Reverse SMS check. Only this response contains the SMS that the user has to
/// send.
#[derive(Serialize)]
struct NewReverseSmsBody {
    #[serde(flatten)]
    check: CheckBody,
    receiver_phone_number: String,
    expected_sms_body: String,
    ttl: u16,
}

impl From<&CreatedReverseSms> for NewReverseSmsBody {
    fn from(created: &CreatedReverseSms) -> Self {
        NewReverseSmsBody {
            check: (&created.check).into(),
            receiver_phone_number: created.instructions.receiver.as_str().to_owned(),
            expected_sms_body: created.instructions.sms_body.clone(),
            ttl: created.instructions.ttl,
        }
    }
}

/// `POST /v1/number-verification/reverse-sms-checks`
async fn create_reverse_sms(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    idempotency: Idempotency,
    request: Request,
) -> Result<Response, Problem> {
    let body = caller.read_json_bytes(&app, request).await?;
    let new = parse_reverse_sms(&body)?;
    let project = caller.project();
    let auto_replies = project.mode == Mode::Sandbox && project.configuration.reverse_sms.auto_reply;
    let handset = auto_replies.then(|| new.phone_number.clone());
    let body_of = |created: &CreatedReverseSms| NewReverseSmsBody::from(created);
    idempotency
        .respond(StatusCode::CREATED, caller.idempotency_scope(), &body, body_of, async |claim| {
            let created = app.engine.checks.create_reverse_sms(project, new, claim).await?;
            idempotency.log_created(created.check.id);
            if let Some(number) = handset {
                app.handsets.send_automatic_reply(project, &number, &created.instructions);
            }
            Ok::<_, CreateError>(created)
        })
        .await
}

fn parse_reverse_sms(document: &[u8]) -> Result<CreateReverseSms, JsonError> {
    let mut body = Object::parse(document)?;
    let new = CreateReverseSms {
        phone_number: body.require("phone_number", as_text)?,
        reference: body.take("reference_id", as_parsed::<Reference>)?,
        callback_url: body.take("callback_url", as_text)?,
    };
    body.finish(new)
}

/// `GET /v1/number-verification/reverse-sms-checks/{check_id}`
async fn get_reverse_sms(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.checks.reverse_sms_check(caller.project().id, ids.check_id()?).await?;
    Ok(json_response(StatusCode::OK, &CheckBody::from(&check)))
}

/// `GET /v1/number-verification/reverse-sms-checks`
async fn list_reverse_sms(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page_request()?, query.search_filter(&SEARCH_FIELDS)?);
    let page = app.engine.checks.reverse_sms_checks(caller.project().id, filter, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |check| CheckBody::from(&check))))
}

/// JSON representation of a SIM Swap check, which concludes on creation.
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
            status: check.status().into_str(),
            no_sim_change: verdict.map(|verdict| verdict.no_sim_change),
            no_sim_change_period: verdict.map(|verdict| verdict.covered_minutes),
            sim_change_within: verdict.and_then(|verdict| verdict.changed_within_minutes),
            network_id: verdict.and(check.network.as_ref()).map(ToString::to_string),
            created_at: timestamp::format(check.created_at),
            updated_at: check.updated_at().map(timestamp::format),
            reference_id: check.reference.as_ref().map(|reference| reference.as_str().to_owned()),
            error_code: check.error_code().map(|code| code.into_str()),
        }
    }
}

/// `POST /v1/sim-swap-checks`
async fn create_sim_swap(
    State(app): State<App>,
    caller: ProjectCaller<SimSwap>,
    idempotency: Idempotency,
    request: Request,
) -> Result<Response, Problem> {
    let body = caller.read_json_bytes(&app, request).await?;
    let new = parse_sim_swap(&body)?;
    let body_of = |check: &SimSwapCheck| SimSwapBody::from(check);
    idempotency
        .respond(StatusCode::CREATED, caller.idempotency_scope(), &body, body_of, async |claim| {
            let check = app.engine.checks.create_sim_swap(caller.project(), new, claim).await?;
            idempotency.log_created(check.id);
            Ok::<_, CreateError>(check)
        })
        .await
}

fn parse_sim_swap(document: &[u8]) -> Result<CreateSimSwap, JsonError> {
    let mut body = Object::parse(document)?;
    let new = CreateSimSwap {
        phone_number: body.require("phone_number", as_text)?,
        period: body.take("period", as_sim_swap_period)?,
        reference: body.take("reference_id", as_parsed::<Reference>)?,
    };
    body.finish(new)
}

/// `GET /v1/sim-swap-checks/{check_id}`
async fn get_sim_swap(
    State(app): State<App>,
    caller: ProjectCaller<SimSwap>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let check = app.engine.checks.sim_swap_check(caller.project().id, ids.check_id()?).await?;
    Ok(json_response(StatusCode::OK, &SimSwapBody::from(&check)))
}

/// `GET /v1/sim-swap-checks`
async fn list_sim_swap(
    State(app): State<App>,
    caller: ProjectCaller<SimSwap>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let (page, filter) = (query.page_request()?, query.search_filter(&sim_swap::SEARCH_FIELDS)?);
    let page = app.engine.checks.sim_swap_checks(caller.project().id, filter, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |check| SimSwapBody::from(&check))))
}

#[derive(Serialize)]
struct ResendBody {
    /// Set for checks. Verifications have `verification_id` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    check_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verification_id: Option<String>,
    scheduled_at: String,
}

/// `POST …-checks/{check_id}/callback-resends` and `POST /v1/verifications/{verification_id}/callback-resends`
pub(super) async fn resend_callback<S: RequiredScope>(
    State(app): State<App>,
    caller: ProjectCaller<S>,
    ids: PathParameters,
    idempotency: Idempotency,
    RawQuery(query): RawQuery,
    _: NoBody,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let Scope::Product(product) = S::SCOPE else { return Err(Problem::not_found()) };
    let is_verification = product == Product::Verification;
    let check = if is_verification { ids.verification_id()? } else { ids.check_id()? };
    app.engine.callbacks.authorize_resend(caller.project(), product, check).await?;
    let body_of = |resend: &ScheduledResend| ResendBody {
        check_id: (!is_verification).then(|| resend.check.to_string()),
        verification_id: is_verification.then(|| resend.check.to_string()),
        scheduled_at: timestamp::format(resend.due_at),
    };
    idempotency
        .respond(StatusCode::ACCEPTED, caller.idempotency_scope(), &[], body_of, async |claim| {
            app.engine
                .callbacks
                .resend_callback(&caller.management_actor(), caller.project(), product, check, claim)
                .await
        })
        .await
}
