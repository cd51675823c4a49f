//! Endpoints of the simulated operator: `POST /v1/sandbox/inbound-sms` sends an SMS as a handset would,
//! `POST /v1/sandbox/digital-credentials` confirms a request as a phone's wallet would, and the authorization endpoint
//! receives redirected devices.

use axum::{
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header};
use ringtrue_domain::{
    network::NetworkId,
    phone::{InvalidPhoneNumber, Msisdn},
    silent::AppOrigin,
    tenancy::Mode,
};
use ringtrue_engine::{ports::operator_tokens::DigitalCredential, rate_limits::RateLimitClass};
use ringtrue_sandbox::{
    handsets::{SimulatedSender, SmsFaults},
    wallet::Forgery,
};
use ringtrue_web::{
    app::App,
    authorization_forwarder::{AUTHORIZE_PATH, SimulatedAuthorization},
    body::{JsonError, Node, Object, as_boolean, as_digital_credential, as_integer, as_object, as_text},
    error_catalog::ProblemCode,
    problem::Problem,
    response::json_response,
    routes::{Routes, get, post},
};

use strum::VariantNames;

use crate::{
    caller::{
        ProjectCaller, SandboxDevice,
        scope::{ReverseSms, SecureSnaOrVerification},
    },
    digital_credential::CredentialRequestBody,
    silent::ResponseFormat,
};

/// Maximum length of a simulated SMS: ten segments.
const MAX_SMS_CHARACTERS: usize = 1530;

pub fn routes() -> Routes {
    Routes::default()
        .route("/v1/sandbox/inbound-sms", post(send_inbound_sms).rate_limit(RateLimitClass::Create))
        .route("/v1/sandbox/digital-credentials", post(confirm_credential_request).rate_limit(RateLimitClass::Create))
        .route(AUTHORIZE_PATH, get(authorize).rate_limit(RateLimitClass::Read))
        .logged()
        .rate_limit_unmatched("/v1/sandbox/{*path}", RateLimitClass::Read)
}

/// `GET /v1/sandbox/operator/authorize`
///
/// Returns the operator's response: a redirect, or the reason for an error. If the operator simulates an outage,
/// browsers wait, as they would for a real operator, and other clients get 503 immediately.
async fn authorize(
    State(app): State<App>,
    _: SandboxDevice,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let forwarded = app.authorization_forwarder.forward(&query.unwrap_or_default()).await;
    let forwarded =
        forwarded.ok_or_else(|| Problem::unavailable("the sandbox operator is disabled in this deployment"))?;
    let forwarded = forwarded.map_err(|error| {
        tracing::warn!(%error, "request to the sandbox operator failed");
        Problem::unavailable("the sandbox operator did not respond")
    })?;
    let forwarded = match forwarded {
        SimulatedAuthorization::Response(response) => response,
        SimulatedAuthorization::Silence => {
            if matches!(ResponseFormat::from_headers(&headers), ResponseFormat::Html(_)) {
                tokio::select! {
                    () = app.authorization_forwarder.simulate_silence() => {}
                    () = app.shutdown.cancelled() => {}
                }
            }
            return Err(Problem::unavailable("the simulated operator of this number never answers"));
        }
    };
    if (400..500).contains(&forwarded.status) {
        return Err(Problem::bad_request(String::from_utf8_lossy(&forwarded.body)));
    }
    let mut response = Response::new(forwarded.body.into());
    *response.status_mut() = StatusCode::from_u16(forwarded.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for name in [header::LOCATION, header::CONTENT_TYPE] {
        if let Some(value) = forwarded.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}

struct SmsBody {
    from: String,
    to: String,
    body: String,
    spoofed_from: Option<String>,
    faults: SmsFaults,
}

/// `POST /v1/sandbox/inbound-sms`
async fn send_inbound_sms(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    request: Request,
) -> Result<Response, Problem> {
    require_sandbox(&caller)?;
    let sms = parse_sms_body(&caller.read_json_bytes(&app, request).await?)?;
    let invalid = |pointer: &'static str| {
        move |error: InvalidPhoneNumber| Problem::new(ProblemCode::PhoneNumberInvalid, format!("`{pointer}`: {error}"))
    };
    let from = SimulatedSender::parse(&sms.from).map_err(invalid("/from"))?;
    let to = Msisdn::parse(&sms.to, Mode::Sandbox).map_err(invalid("/to"))?;
    let spoofed_from = sms.spoofed_from.as_deref().map(SimulatedSender::parse).transpose();
    let faults = SmsFaults { spoofed_from: spoofed_from.map_err(invalid("/faults/spoofed_from"))?, ..sms.faults };
    app.handsets.send_sms(caller.project(), from, &to, &sms.body, faults).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

fn require_sandbox<S>(caller: &ProjectCaller<S>) -> Result<(), Problem> {
    if caller.project().mode == Mode::Sandbox {
        return Ok(());
    }
    Err(Problem::new(ProblemCode::Forbidden, "simulated handsets are available in sandbox projects only"))
}

fn parse_sms_body(document: &[u8]) -> Result<SmsBody, JsonError> {
    let mut body = Object::parse(document)?;
    let mut sms = SmsBody {
        from: body.require("from", as_text)?,
        to: body.require("to", as_text)?,
        body: body.require("body", |node, pointer| {
            let body = as_text(node, pointer)?;
            let fits = body.chars().nth(MAX_SMS_CHARACTERS).is_none();
            if fits {
                Ok(body)
            } else {
                Err(JsonError::new(pointer, format!("at most {MAX_SMS_CHARACTERS} characters")))
            }
        })?,
        spoofed_from: None,
        faults: SmsFaults::default(),
    };
    if let Some((faults, spoofed_from)) = body.take("faults", parse_faults)? {
        (sms.faults, sms.spoofed_from) = (faults, spoofed_from);
    }
    body.finish(sms)
}

struct CredentialConfirmationBody {
    request: DigitalCredential,
    sim: String,
    origin: AppOrigin,
    network: Option<NetworkId>,
    forgery: Option<Forgery>,
}

/// `POST /v1/sandbox/digital-credentials`
async fn confirm_credential_request(
    State(app): State<App>,
    caller: ProjectCaller<SecureSnaOrVerification>,
    request: Request,
) -> Result<Response, Problem> {
    require_sandbox(&caller)?;
    let body = parse_credential_confirmation(&caller.read_json_bytes(&app, request).await?)?;
    let sim = Msisdn::parse(&body.sim, Mode::Sandbox)
        .map_err(|error| Problem::new(ProblemCode::PhoneNumberInvalid, format!("`/sim`: {error}")))?;
    let request = app.handsets.validate_credential_request(&body.request)?;
    let network = body.network.as_ref();
    let credential = app.handsets.respond_to_credential_request(&request, &sim, &body.origin, network, body.forgery)?;
    Ok(json_response(StatusCode::OK, &CredentialRequestBody::from(&credential)))
}

fn parse_credential_confirmation(document: &[u8]) -> Result<CredentialConfirmationBody, JsonError> {
    let mut body = Object::parse(document)?;
    let confirmation = CredentialConfirmationBody {
        request: body.require("request", as_digital_credential)?,
        sim: body.require("sim", as_text)?,
        origin: body.require("origin", as_origin)?,
        network: body.take("network_id", |node, pointer| {
            let id = as_text(node, pointer)?.parse();
            id.map_err(|_| JsonError::new(pointer, "must be the MCC and MNC of a network: five or six digits"))
        })?,
        forgery: body.take("forgery", |node, pointer| {
            as_text(node, pointer)?
                .parse()
                .map_err(|_| JsonError::new(pointer, format!("must be one of: {}", Forgery::VARIANTS.join(", "))))
        })?,
    };
    body.finish(confirmation)
}

/// Parses an origin as browsers and Android write it.
fn as_origin(node: Node, pointer: &str) -> Result<AppOrigin, JsonError> {
    let text = as_text(node, pointer)?;
    let origin = AppOrigin::from_stored(&text).ok().filter(|origin| origin.as_str() == text);
    origin.ok_or_else(|| {
        JsonError::new(
            pointer,
            "must be the origin of a site, such as `https://shop.example`, or of an Android app \
             (`android:apk-key-hash:…`)",
        )
    })
}

/// Parses the faults to simulate. Returns the spoofed sender separately, as text: the caller parses it, because an
/// invalid number has its own error code.
fn parse_faults(node: Node, pointer: &str) -> Result<(SmsFaults, Option<String>), JsonError> {
    fn integer_within(range: std::ops::RangeInclusive<i64>) -> impl Fn(Node, &str) -> Result<i64, JsonError> {
        move |node, pointer| {
            let number = as_integer(node, pointer)?;
            let (least, most) = (range.start(), range.end());
            let fits = range.contains(&number);
            if fits { Ok(number) } else { Err(JsonError::new(pointer, format!("must be from {least} to {most}"))) }
        }
    }
    let mut body = as_object(node, pointer)?;
    let faults = SmsFaults {
        late_seconds: body.take("late_seconds", integer_within(SmsFaults::ALLOWED_LATE_SECONDS))?,
        extra_copies: body.take("extra_copies", integer_within(SmsFaults::ALLOWED_EXTRA_COPIES))?,
        spoofed_from: None,
        garbled: body.take("garbled", as_boolean)?.unwrap_or_default(),
        parts: body.take("parts", integer_within(SmsFaults::ALLOWED_PARTS))?,
        out_of_order: body.take("out_of_order", as_boolean)?.unwrap_or_default(),
        link_drops: body.take("link_drops", integer_within(SmsFaults::ALLOWED_LINK_DROPS))?,
    };
    let spoofed_from = body.take("spoofed_from", as_text)?;
    body.finish((faults, spoofed_from))
}
