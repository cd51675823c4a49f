//! CAMARA's Number Verification 2.1 and SIM Swap 2.1, as an operator offers them. Errors have CAMARA's format.

use std::sync::Arc;

use axum::{
    body::HttpBody as _,
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ringtrue_domain::{camara::CamaraScope, lifecycle::ErrorCode, phone::Msisdn};
use ringtrue_engine::{
    camara::{LatestSimChange, SimSwapError, SimSwapQuestion, VerifyError},
    checks::CreateError,
    ports::silent::NumberQuestion,
    rate_limits::RateLimitClass,
    tokens::CamaraBearer,
};
use ringtrue_web::{
    app::App,
    body::{Node, read_json_bytes},
    camara_error::{CamaraError, X_CORRELATOR},
    error_catalog::ProblemCode,
    problem::Problem,
    rate_limit::{limit_by_ip, rate_limit_class, require_within_rate_limit},
    request_context::RequestContext,
    response::json_response,
    routes::{Routes, get, post},
};
use serde::Serialize;

use crate::caller::bearer_token;

const ALLOWED_MAX_AGE_HOURS: std::ops::RangeInclusive<u16> = 1..=2_400;
const HASH_BYTES: usize = 32;

pub fn routes() -> Routes {
    Routes::default()
        .route("/number-verification/v2/verify", post(verify).completes_after_disconnect())
        .route("/number-verification/v2/device-phone-number", get(device_phone_number).completes_after_disconnect())
        .route("/sim-swap/v2/check", post(check_sim_swap).completes_after_disconnect())
        .route("/sim-swap/v2/retrieve-date", post(retrieve_sim_swap_date).completes_after_disconnect())
        .rate_limit(RateLimitClass::Create)
        .logged()
        .with_camara_errors()
        .with_camara_errors_if_unmatched("/number-verification/{*path}")
        .with_camara_errors_if_unmatched("/sim-swap/{*path}")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VerifyBody {
    device_phone_number_verified: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DevicePhoneNumberBody<'a> {
    device_phone_number: &'a str,
}

#[derive(Serialize)]
struct SimSwapCheckBody {
    swapped: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RetrieveDateBody {
    latest_sim_change: Option<String>,
    /// In days.
    #[serde(skip_serializing_if = "Option::is_none")]
    monitored_period: Option<i64>,
}

/// `POST /number-verification/v2/verify`
async fn verify(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let bearer = authorize(&app, &context, request.headers(), CamaraScope::VerifyNumber)?;
    require_network_authentication(&bearer)?;
    let question = parse_number_question(&read_object(&app, &context, request).await?, &bearer)?;
    let (check, matched) = app.engine.camara.verify_number(&bearer, &question).await.map_err(verify_problem)?;
    context.log_check(|| Some(check));
    Ok(json_response(StatusCode::OK, &VerifyBody { device_phone_number_verified: matched }))
}

/// `GET /number-verification/v2/device-phone-number`
async fn device_phone_number(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let bearer = authorize(&app, &context, &headers, CamaraScope::ReadDeviceNumber)?;
    let (check, number) = app.engine.camara.device_number(&bearer).await.map_err(verify_problem)?;
    context.log_check(|| Some(check));
    Ok(json_response(StatusCode::OK, &DevicePhoneNumberBody { device_phone_number: number.as_str() }))
}

/// `POST /sim-swap/v2/check`
async fn check_sim_swap(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let bearer = authorize(&app, &context, request.headers(), CamaraScope::CheckSimSwap)?;
    let body = read_object(&app, &context, request).await?;
    let question = SimSwapQuestion { number: parse_number(&body)?, max_age: parse_max_age(&body)? };
    let answer = app.engine.camara.check_sim_swap(&bearer, question).await;
    let (check, swapped) = answer.map_err(sim_swap_problem)?;
    context.log_check(|| Some(check));
    Ok(json_response(StatusCode::OK, &SimSwapCheckBody { swapped }))
}

/// `POST /sim-swap/v2/retrieve-date`
async fn retrieve_sim_swap_date(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let bearer = authorize(&app, &context, request.headers(), CamaraScope::RetrieveSimSwapDate)?;
    let body = read_object(&app, &context, request).await?;
    let question = SimSwapQuestion { number: parse_number(&body)?, max_age: None };
    let answer = app.engine.camara.latest_sim_change(&bearer, question).await;
    let (check, latest) = answer.map_err(sim_swap_problem)?;
    context.log_check(|| Some(check));
    let body = match latest {
        LatestSimChange::At(at) => RetrieveDateBody { latest_sim_change: Some(at.to_string()), monitored_period: None },
        LatestSimChange::NotWithin { days } => {
            RetrieveDateBody { latest_sim_change: None, monitored_period: Some(days) }
        }
    };
    Ok(json_response(StatusCode::OK, &body))
}

/// Verifies the access token, counts the request, and checks that the token permits the operation.
fn authorize(
    app: &App,
    context: &RequestContext,
    headers: &HeaderMap,
    operation: CamaraScope,
) -> Result<CamaraBearer, Problem> {
    if !app.engine.camara.is_enabled() {
        return Err(Problem::not_found());
    }
    let class = rate_limit_class(context)?;
    let bearer = match authenticate(app, context, headers) {
        Ok(bearer) => bearer,
        Err(problem) => {
            limit_by_ip(app, context)?;
            return Err(problem);
        }
    };
    let _ = context.project_mode.set(bearer.project.mode);
    context.log_client(Arc::clone(&bearer.credential));
    let workspace = bearer.project.workspace;
    let own = app.engine.control_plane().rate_limit_overrides(workspace);
    let limit_state = app.engine.rate_limiter().limit_workspace(class, workspace, &own, context.received_at);
    require_within_rate_limit(context, limit_state)?;
    if headers.contains_key(X_CORRELATOR) && context.correlator().is_none() {
        return Err(Problem::bad_request("`x-correlator` has characters that are not allowed, or more than 256"));
    }
    bearer.require_permission(operation).map_err(|error| Problem::new(ProblemCode::Forbidden, error.to_string()))?;
    Ok(bearer)
}

fn authenticate(app: &App, context: &RequestContext, headers: &HeaderMap) -> Result<CamaraBearer, Problem> {
    let unauthorized = |detail: &str, challenge| {
        let problem = Problem::new(ProblemCode::Unauthorized, detail);
        problem.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
    };
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let token = values.next().filter(|_| values.next().is_none()).and_then(bearer_token);
    let missing = || unauthorized("send an access token as `Authorization: Bearer <token>`, once", "Bearer");
    let token = token.ok_or_else(missing)?;
    app.engine
        .tokens
        .verify_camara_token(token, context.received_at)
        .map_err(|error| unauthorized(&error.to_string(), r#"Bearer error="invalid_token""#))
}

/// Refuses a token of another flow before the body is read.
fn require_network_authentication(bearer: &CamaraBearer) -> Result<(), Problem> {
    if bearer.subject.is_network_authenticated() {
        Ok(())
    } else {
        Err(verify_problem(VerifyError::NotAuthenticatedByNetwork))
    }
}

/// The members of a body, with distinct names.
struct Members(Vec<(String, Node)>);

impl Members {
    fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value)
    }
}

/// Reads a JSON object.
async fn read_object(app: &App, context: &RequestContext, request: Request) -> Result<Members, Problem> {
    // A request without a body need not name a media type.
    if request.body().is_end_stream() {
        return Err(Problem::bad_request("the request has no body"));
    }
    let body = read_json_bytes(app, request).await?;
    context.log_body(&body);
    let parsed: Result<Node, _> = serde_json::from_slice(&body);
    let members = match parsed {
        Ok(Node::Object(members)) => members,
        Ok(_) => return Err(Problem::bad_request("the body must be a JSON object")),
        Err(error) => {
            let detail = format!("invalid JSON at line {}, column {}", error.line(), error.column());
            return Err(Problem::bad_request(detail));
        }
    };
    let is_repeated = |index: usize, name: &String| members[..index].iter().any(|(earlier, _)| earlier == name);
    if members.iter().enumerate().any(|(index, (name, _))| is_repeated(index, name)) {
        return Err(Problem::bad_request("the body has a repeated property"));
    }
    Ok(Members(members))
}

/// Reads the number to verify: exactly one of the two properties, and no others.
fn parse_number_question(body: &Members, bearer: &CamaraBearer) -> Result<NumberQuestion, Problem> {
    let invalid = |detail: &str| Problem::bad_request(detail);
    if body.0.len() != 1 {
        return Err(invalid("the body must have exactly one property, `phoneNumber` or `hashedPhoneNumber`"));
    }
    if let Some(number) = parse_number(body)? {
        // A number that nobody can have is not the device's. Its hash asks the same question.
        return Ok(Msisdn::parse(number, bearer.project.mode)
            .map_or_else(|_| NumberQuestion::of_text(number), NumberQuestion::Plain));
    }
    let mut bytes = [0; HASH_BYTES];
    match body.get("hashedPhoneNumber") {
        None => Err(invalid("the body must have `phoneNumber` or `hashedPhoneNumber`")),
        Some(Node::Text(hash)) if hex::decode_to_slice(hash, &mut bytes).is_ok() => Ok(NumberQuestion::Hashed(bytes)),
        Some(_) => Err(invalid("`hashedPhoneNumber` must be a SHA-256 digest in hexadecimal form")),
    }
}

/// Reads `phoneNumber`, which has the form of E.164. `None`: it is absent.
fn parse_number(body: &Members) -> Result<Option<&str>, Problem> {
    let is_e164 = |number: &str| {
        let digits = number.strip_prefix('+').unwrap_or_default();
        (5..=15).contains(&digits.len()) && !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    match body.get("phoneNumber") {
        None => Ok(None),
        Some(Node::Text(number)) if is_e164(number) => Ok(Some(number)),
        Some(_) => Err(Problem::bad_request("`phoneNumber` must be `+` and 5 to 15 digits")),
    }
}

fn parse_max_age(body: &Members) -> Result<Option<u16>, Problem> {
    let hours = match body.get("maxAge") {
        None => return Ok(None),
        Some(Node::Integer(hours)) => u16::try_from(*hours).ok().filter(|hours| ALLOWED_MAX_AGE_HOURS.contains(hours)),
        Some(_) => return Err(Problem::bad_request("`maxAge` must be an integer")),
    };
    hours.map(Some).ok_or_else(|| {
        Problem::bad_request("`maxAge` must be 1 to 2400 hours").with_camara_error(CamaraError::OutOfRange)
    })
}

fn verify_problem(error: VerifyError) -> Problem {
    let detail = error.to_string();
    match error {
        VerifyError::Used => Problem::new(ProblemCode::Unauthorized, detail)
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer error="invalid_token""#)),
        VerifyError::NotAuthenticatedByNetwork
        | VerifyError::Operator(ErrorCode::MnoUserNotFound | ErrorCode::MnoNoDataAvailable) => {
            Problem::new(ProblemCode::Forbidden, detail).with_camara_error(CamaraError::NotAuthenticatedByNetwork)
        }
        VerifyError::Operator(ErrorCode::MnoNotSupported) => {
            Problem::new(ProblemCode::MnoNotSupported, detail).with_camara_error(CamaraError::ServiceNotApplicable)
        }
        VerifyError::Operator(code) => operator_problem(code, detail),
        VerifyError::Create(error) => create_problem(error),
        VerifyError::Store(error) => error.into(),
    }
}

fn sim_swap_problem(error: SimSwapError) -> Problem {
    let detail = error.to_string();
    let with = |code, error| Problem::new(code, detail.clone()).with_camara_error(error);
    match error {
        SimSwapError::MissingIdentifier => with(ProblemCode::BadRequest, CamaraError::MissingIdentifier),
        SimSwapError::UnnecessaryIdentifier => with(ProblemCode::BadRequest, CamaraError::UnnecessaryIdentifier),
        SimSwapError::WrongToken => Problem::new(ProblemCode::Forbidden, detail),
        SimSwapError::MaxAgeOutOfRange { .. } => with(ProblemCode::BadRequest, CamaraError::OutOfRange),
        SimSwapError::NoDate => with(ProblemCode::MnoNotSupported, CamaraError::ServiceNotApplicable),
        SimSwapError::NoSubscriber | SimSwapError::Operator(ErrorCode::MnoUserNotFound) => {
            with(ProblemCode::SubscriberNotFound, CamaraError::IdentifierNotFound)
        }
        SimSwapError::Operator(ErrorCode::MnoNoDataAvailable | ErrorCode::MnoNotSupported) => {
            with(ProblemCode::MnoNotSupported, CamaraError::ServiceNotApplicable)
        }
        SimSwapError::Operator(code) => operator_problem(code, detail),
        SimSwapError::Create(error) => create_problem(error),
    }
}

fn operator_problem(code: ErrorCode, detail: String) -> Problem {
    let problem = Problem::unavailable(detail);
    if code == ErrorCode::MnoTimeout { problem.with_camara_error(CamaraError::Timeout) } else { problem }
}

fn create_problem(error: CreateError) -> Problem {
    match error {
        // The number has the form of E.164, but nobody can have it.
        CreateError::PhoneNumber(_) => {
            Problem::new(ProblemCode::PhoneNumberInvalid, "no subscriber can have this number")
                .with_camara_error(CamaraError::IdentifierNotFound)
        }
        CreateError::MnoNotSupported | CreateError::OnlyReverseSms => {
            Problem::from(error).with_camara_error(CamaraError::ServiceNotApplicable)
        }
        error => error.into(),
    }
}
