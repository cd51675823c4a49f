//! The CAMARA APIs of the simulated operator: Number Verification 2.1 and SIM Swap 2.1.

use http::{HeaderName, HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    OperatorState,
    client::Scope,
    message::{HttpResponse, Request, json_response, json_response_with_status},
    sim::{PhoneNumber, Recognition, SimHistory},
    store::{AccessToken, AuthenticationMethod, Grant, SealedKind},
};

/// The number to verify.
enum ClaimedNumber {
    Number(PhoneNumber),
    /// SHA-256 in hexadecimal digits.
    Hash(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VerifyResponse {
    device_phone_number_verified: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DevicePhoneNumberResponse {
    device_phone_number: String,
}

/// `POST /number-verification/v2/verify`
pub(super) fn verify_number(state: &OperatorState, request: &Request) -> Result<VerifyResponse, SimulatedApiError> {
    let grant = validate_access_token(state, request, &[Scope::VerifyNumber])?;
    let claim = ClaimedNumber::parse(request)?;
    let number = recognised_number(&grant)?;
    let is_match = match claim {
        ClaimedNumber::Number(claimed) => claimed == *number,
        ClaimedNumber::Hash(hash) => number.hashes_to(&hash),
    };
    let device_phone_number_verified = is_match && number.recognition() == Recognition::Recognised;
    Ok(VerifyResponse { device_phone_number_verified })
}

/// `GET /number-verification/v2/device-phone-number`
pub(super) fn device_phone_number(
    state: &OperatorState,
    request: &Request,
) -> Result<DevicePhoneNumberResponse, SimulatedApiError> {
    let grant = validate_access_token(state, request, &[Scope::ReadDeviceNumber])?;
    let number = recognised_number(&grant)?;
    match number.recognition() {
        Recognition::OtherDevice => Err(SimulatedApiError::IdentifierNotFound),
        _ => Ok(DevicePhoneNumberResponse { device_phone_number: number.as_str().to_owned() }),
    }
}

/// Returns the number of the recognised device, or the error that the last digits of the number select.
fn recognised_number(grant: &Grant) -> Result<&PhoneNumber, SimulatedApiError> {
    let subject = grant.subject.as_ref().filter(|subject| subject.authentication != AuthenticationMethod::Named);
    let number = &subject.ok_or(SimulatedApiError::NotAuthenticatedByNetwork)?.number;
    match number.recognition() {
        Recognition::Recognised | Recognition::OtherDevice => Ok(number),
        Recognition::NotApplicable => Err(SimulatedApiError::ServiceNotApplicable),
        Recognition::NoResponse | Recognition::Timeout => Err(SimulatedApiError::Timeout),
        Recognition::Failure => Err(SimulatedApiError::Internal),
    }
}

impl ClaimedNumber {
    fn parse(request: &Request) -> Result<Self, SimulatedApiError> {
        let body: Map<String, Value> = parse_object(request)?;
        let mut properties = body.iter();
        match (properties.next(), properties.next()) {
            (Some((name, number)), None) if name == "phoneNumber" => Ok(Self::Number(parse_phone_number(number)?)),
            (Some((name, Value::String(hash))), None) if name == "hashedPhoneNumber" && is_sha256(hash) => {
                Ok(Self::Hash(hash.clone()))
            }
            _ => Err(SimulatedApiError::InvalidArgument(
                "The request body must have either phoneNumber or hashedPhoneNumber.",
            )),
        }
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|octet| octet.is_ascii_hexdigit())
}

const HOUR_SECONDS: i64 = 3600;
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;
const DEFAULT_MAX_AGE_HOURS: i64 = 240;
const LONGEST_MAX_AGE_HOURS: i64 = 2400;

/// Latest SIM change of a number.
enum LatestChange {
    At(i64),
    /// No change in the monitored period; earlier changes are not recorded.
    NotWithin {
        days: i64,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SimSwapRequest {
    #[serde(default, deserialize_with = "deserialize_present")]
    phone_number: Option<Value>,
    #[serde(default, deserialize_with = "deserialize_present")]
    max_age: Option<Value>,
}

#[derive(Serialize)]
pub(super) struct CheckSimSwapResponse {
    swapped: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RetrieveSimSwapDateResponse {
    latest_sim_change: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    monitored_period: Option<i64>,
}

/// `POST /sim-swap/v2/check`
pub(super) fn check_sim_swap(
    state: &OperatorState,
    request: &Request,
) -> Result<CheckSimSwapResponse, SimulatedApiError> {
    let grant = validate_access_token(state, request, &[Scope::CheckSimSwap, Scope::SimSwap])?;
    let body: SimSwapRequest = parse_object(request)?;
    let hours = parse_max_age(state, body.max_age.as_ref())?;
    let number = resolve_number(&grant, body.phone_number.as_ref())?;
    let swapped = match latest_change(state, &number)? {
        LatestChange::At(when) => state.now() - when <= hours * HOUR_SECONDS,
        LatestChange::NotWithin { .. } => false,
    };
    Ok(CheckSimSwapResponse { swapped })
}

/// `POST /sim-swap/v2/retrieve-date`
pub(super) fn retrieve_sim_swap_date(
    state: &OperatorState,
    request: &Request,
) -> Result<RetrieveSimSwapDateResponse, SimulatedApiError> {
    let grant = validate_access_token(state, request, &[Scope::RetrieveSimSwapDate, Scope::SimSwap])?;
    let body: SimSwapRequest = parse_object(request)?;
    let number = resolve_number(&grant, body.phone_number.as_ref())?;
    match latest_change(state, &number)? {
        LatestChange::At(when) => {
            let date = Timestamp::from_second(when).map_err(|_| SimulatedApiError::Internal)?;
            Ok(RetrieveSimSwapDateResponse { latest_sim_change: Some(date.to_string()), monitored_period: None })
        }
        LatestChange::NotWithin { days } => {
            Ok(RetrieveSimSwapDateResponse { latest_sim_change: None, monitored_period: Some(days) })
        }
    }
}

/// Returns the number from the access token or from the request body. Both together are an error.
fn resolve_number(grant: &Grant, value_in_body: Option<&Value>) -> Result<PhoneNumber, SimulatedApiError> {
    let number_in_body = value_in_body.map(parse_phone_number).transpose()?;
    match (&grant.subject, number_in_body) {
        (Some(subject), None) => Ok(subject.number.clone()),
        (None, Some(number)) => Ok(number),
        (Some(_), Some(_)) => Err(SimulatedApiError::UnnecessaryIdentifier),
        (None, None) => Err(SimulatedApiError::MissingIdentifier),
    }
}

fn parse_max_age(state: &OperatorState, value_in_body: Option<&Value>) -> Result<i64, SimulatedApiError> {
    let hours = match value_in_body {
        None => return Ok(DEFAULT_MAX_AGE_HOURS),
        Some(value) => {
            value.as_i64().ok_or(SimulatedApiError::InvalidArgument("maxAge must be an integer number of hours."))?
        }
    };
    if !(1..=LONGEST_MAX_AGE_HOURS).contains(&hours) {
        return Err(SimulatedApiError::OutOfRange("maxAge must be between 1 and 2400 hours."));
    }
    if state.config.monitored_days.is_some_and(|days| hours * HOUR_SECONDS > i64::from(days) * DAY_SECONDS) {
        return Err(SimulatedApiError::OutOfRange("maxAge exceeds the monitored period."));
    }
    Ok(hours)
}

fn latest_change(state: &OperatorState, number: &PhoneNumber) -> Result<LatestChange, SimulatedApiError> {
    let now = state.now();
    let swapped_at = state.store().sim_swaps.get_mut(now, number.as_str()).copied();
    let simulated_change = match number.sim_history() {
        SimHistory::NeverChanged => LatestChange::At(state.activated_at),
        SimHistory::ChangedRecently => LatestChange::At(now - SimHistory::RECENT_CHANGE_AGE),
        SimHistory::NotMonitored { monitored_days } => LatestChange::NotWithin { days: monitored_days },
        SimHistory::NotApplicable => return Err(SimulatedApiError::ServiceNotApplicable),
        SimHistory::UnknownNumber => return Err(SimulatedApiError::IdentifierNotFound),
        SimHistory::Timeout => return Err(SimulatedApiError::Timeout),
        SimHistory::Unavailable => return Err(SimulatedApiError::Unavailable),
        SimHistory::Failure => return Err(SimulatedApiError::Internal),
    };
    let last = swapped_at.map_or(simulated_change, LatestChange::At);
    Ok(match (last, state.config.monitored_days.map(i64::from)) {
        (LatestChange::At(when), Some(days)) if now - when > days * DAY_SECONDS => LatestChange::NotWithin { days },
        (last, _) => last,
    })
}

pub(super) const X_CORRELATOR: HeaderName = HeaderName::from_static("x-correlator");

/// Runs an operation and echoes the request's `x-correlator`, which must be valid.
pub(super) fn respond_with_correlator<T: Serialize>(
    request: &Request,
    operation: impl FnOnce() -> Result<T, SimulatedApiError>,
) -> HttpResponse {
    let correlator = Correlator::of(request);
    if correlator == Correlator::Invalid {
        return SimulatedApiError::InvalidArgument("x-correlator must match ^[a-zA-Z0-9-_:;.\\/<>{}]{0,256}$.")
            .into_response();
    }
    correlator.add_to(operation().map_or_else(SimulatedApiError::into_response, |body| json_response(&body)))
}

pub(super) fn error_response(request: &Request, error: &SimulatedApiError) -> HttpResponse {
    Correlator::of(request).add_to(error.into_response())
}

/// `x-correlator` of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Correlator<'a> {
    /// Missing or empty.
    Missing,
    Valid(&'a HeaderValue),
    Invalid,
}

impl<'a> Correlator<'a> {
    fn of(request: &'a Request) -> Self {
        let is_allowed = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_:;./<>{}".contains(octet);
        match request.head.headers.get(X_CORRELATOR).filter(|value| !value.is_empty()) {
            None => Self::Missing,
            Some(value) if value.len() <= 256 && value.as_bytes().iter().all(is_allowed) => Self::Valid(value),
            Some(_) => Self::Invalid,
        }
    }

    fn add_to(self, mut response: HttpResponse) -> HttpResponse {
        if let Self::Valid(correlator) = self {
            response.headers_mut().insert(X_CORRELATOR, correlator.clone());
        }
        response
    }
}

/// Returns the grant of the request's access token. Consumes a single-use token.
fn validate_access_token(
    state: &OperatorState,
    request: &Request,
    any_of: &[Scope],
) -> Result<Grant, SimulatedApiError> {
    let token = request.credentials("Bearer").ok_or(SimulatedApiError::Unauthenticated)?;
    let AccessToken { grant, until } =
        state.sealer.open(SealedKind::AccessToken, token).ok_or(SimulatedApiError::Unauthenticated)?;
    let now = state.now();
    let mut store = state.store();
    if until <= now || store.used_tokens.contains(now, token) {
        return Err(SimulatedApiError::Unauthenticated);
    }
    if !grant.scopes.includes_any(any_of) {
        return Err(SimulatedApiError::PermissionDenied);
    }
    if grant.scopes.requires_single_use_token() {
        store.used_tokens.insert(now, token, until, ());
    }
    Ok(grant)
}

/// Parses the body, which must be a JSON object.
fn parse_object<T: DeserializeOwned>(request: &Request) -> Result<T, SimulatedApiError> {
    if request.body.is_empty() {
        return Err(SimulatedApiError::InvalidArgument("The request body is missing."));
    }
    if !request.has_media_type("application/json") {
        return Err(SimulatedApiError::UnsupportedMediaType);
    }
    // Tested separately, because serde also accepts an array for a struct.
    let is_object = request.body.trim_ascii_start().first() == Some(&b'{');
    let parsed = is_object.then(|| serde_json::from_slice(&request.body).ok()).flatten();
    parsed.ok_or(SimulatedApiError::InvalidArgument("The request body is not a JSON object."))
}

/// Deserialises an optional property, and distinguishes `null` from a missing property.
fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn parse_phone_number(value: &Value) -> Result<PhoneNumber, SimulatedApiError> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.ok_or(SimulatedApiError::InvalidArgument("phoneNumber must be a plus sign and 5 to 15 digits."))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimulatedApiError {
    InvalidArgument(&'static str),
    OutOfRange(&'static str),
    Unauthenticated,
    PermissionDenied,
    NotAuthenticatedByNetwork,
    NotFound,
    IdentifierNotFound,
    MethodNotAllowed,
    UnsupportedMediaType,
    ServiceNotApplicable,
    MissingIdentifier,
    UnnecessaryIdentifier,
    Internal,
    Unavailable,
    Timeout,
    /// Error with the status that a simulated fault of the endpoint requests.
    Simulated(StatusCode),
}

impl SimulatedApiError {
    fn into_response(self) -> HttpResponse {
        let (status, code, message) = self.parts();
        let body = json!({ "status": status.as_u16(), "code": code, "message": message });
        let mut response = json_response_with_status(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""));
        }
        response
    }

    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::InvalidArgument(detail) => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", detail),
            Self::OutOfRange(detail) => (StatusCode::BAD_REQUEST, "OUT_OF_RANGE", detail),
            Self::Unauthenticated => (
                StatusCode::UNAUTHORIZED,
                "UNAUTHENTICATED",
                "The access token is missing, invalid, expired or already used. Request a new one.",
            ),
            Self::PermissionDenied => {
                (StatusCode::FORBIDDEN, "PERMISSION_DENIED", "The access token does not have the required scope.")
            }
            Self::NotAuthenticatedByNetwork => (
                StatusCode::FORBIDDEN,
                "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK",
                "The user was not authenticated by the mobile network or the SIM.",
            ),
            Self::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND", "The resource does not exist."),
            Self::IdentifierNotFound => {
                (StatusCode::NOT_FOUND, "IDENTIFIER_NOT_FOUND", "The phone number is not known to this operator.")
            }
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "The HTTP method is not allowed for this resource.",
            ),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_MEDIA_TYPE",
                "The content type must be application/json.",
            ),
            Self::ServiceNotApplicable => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "SERVICE_NOT_APPLICABLE",
                "The service is not available for this phone number.",
            ),
            Self::MissingIdentifier => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "MISSING_IDENTIFIER",
                "The phone number is missing in the access token and in the request body.",
            ),
            Self::UnnecessaryIdentifier => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "UNNECESSARY_IDENTIFIER",
                "The access token identifies the phone number; remove it from the request body.",
            ),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "Internal error of the network."),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "The network is temporarily unavailable.")
            }
            Self::Timeout => (StatusCode::GATEWAY_TIMEOUT, "TIMEOUT", "The network did not respond in time."),
            Self::Simulated(status) => (status, default_code(status), "Simulated failure."),
        }
    }
}

/// Returns the generic error code of an HTTP status.
fn default_code(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        405 => "METHOD_NOT_ALLOWED",
        406 => "NOT_ACCEPTABLE",
        409 => "ABORTED",
        410 => "GONE",
        412 => "FAILED_PRECONDITION",
        415 => "UNSUPPORTED_MEDIA_TYPE",
        422 => "SERVICE_NOT_APPLICABLE",
        429 => "TOO_MANY_REQUESTS",
        400..=499 => "INVALID_ARGUMENT",
        501 => "NOT_IMPLEMENTED",
        502 => "BAD_GATEWAY",
        503 => "UNAVAILABLE",
        504 => "TIMEOUT",
        _ => "INTERNAL",
    }
}
