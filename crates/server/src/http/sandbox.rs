//! The simulated operator as callers and devices meet it: handsets at `POST /v1/sandbox/inbound-sms`, and the
//! authorization endpoint that simulated devices are sent to.

use axum::{
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use ringtrue_domain::{
    phone::{Msisdn, NotE164},
    tenancy::Mode,
};

use super::{
    App, Routes,
    caller::{Device, ProjectCaller, scope::ReverseSms},
    catalogue::Code,
    json::{Invalid, Node, Object, boolean, integer, object, text},
    problem::Problem,
};
use crate::{
    handsets::{Faults, HandsetError},
    sandbox_operator::AUTHORIZE,
};

/// In seconds: about as long as SMS take that were sent at once.
const RETRY_SMS: u32 = 5;
/// Ten segments.
const MAX_TEXT: usize = 1530;

pub fn routes() -> Routes {
    Routes::default().post("/v1/sandbox/inbound-sms", send).get(AUTHORIZE, authorize)
}

/// `GET /v1/sandbox/operator/authorize`
///
/// The operator's answer as it is: a redirect, or a page that says why there is none.
async fn authorize(State(app): State<App>, _: Device, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let answer = app.authorizer.ask(&query.unwrap_or_default()).await;
    let answer = answer.ok_or_else(|| Problem::unavailable("this deployment runs no sandbox operator"))?;
    let answer = answer.map_err(|_| Problem::unavailable("the sandbox operator does not answer"))?;
    if (400..500).contains(&answer.status) {
        return Err(Problem::bad_request(String::from_utf8_lossy(&answer.body)));
    }
    let mut response = Response::new(answer.body.into());
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for name in [header::LOCATION, header::CONTENT_TYPE] {
        if let Some(value) = answer.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}

struct SmsBody {
    from: String,
    to: String,
    body: String,
    faults: Faults,
}

/// `POST /v1/sandbox/inbound-sms`
async fn send(
    State(app): State<App>,
    caller: ProjectCaller<ReverseSms>,
    request: Request,
) -> Result<Response, Problem> {
    if caller.project().mode != Mode::Sandbox {
        return Err(Problem::new(Code::Forbidden, "only sandbox projects have simulated handsets"));
    }
    let sms = sms_body(&caller.read_json(&app, request).await?)?;
    let number = |pointer: &str, text: &str| {
        let invalid = |error: NotE164| Problem::new(Code::PhoneNumberInvalid, format!("`{pointer}`: {error}"));
        Msisdn::parse(text, Mode::Sandbox).map_err(invalid)
    };
    let (from, to) = (number("/from", &sms.from)?, number("/to", &sms.to)?);
    if let Some(spoofed) = &sms.faults.spoofed_from {
        number("/faults/spoofed_from", spoofed)?;
    }
    app.handsets.text(caller.project(), &from, &to, &sms.body, sms.faults).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

impl From<HandsetError> for Problem {
    fn from(error: HandsetError) -> Self {
        let detail = error.to_string();
        match error {
            HandsetError::NoOperator | HandsetError::Busy => Problem::unavailable(detail),
            HandsetError::TooMany => Problem::new(Code::TooManyRequests, detail).retry_after(RETRY_SMS),
            HandsetError::TooLong => Problem::bad_request(format!("`/body`: {detail}")),
        }
    }
}

fn sms_body(document: &[u8]) -> Result<SmsBody, Invalid> {
    let mut body = Object::parse(document)?;
    let sms = SmsBody {
        from: body.require("from", text)?,
        to: body.require("to", text)?,
        body: body.require("body", |node, pointer| {
            let body = text(node, pointer)?;
            let fits = body.chars().nth(MAX_TEXT).is_none();
            if fits { Ok(body) } else { Err(Invalid::new(pointer, format!("at most {MAX_TEXT} characters"))) }
        })?,
        faults: body.take("faults", faults_body)?.unwrap_or_default(),
    };
    body.finish()?;
    Ok(sms)
}

fn faults_body(node: Node, pointer: &str) -> Result<Faults, Invalid> {
    fn within(range: std::ops::RangeInclusive<i64>) -> impl Fn(Node, &str) -> Result<i64, Invalid> {
        move |node, pointer| {
            let number = integer(node, pointer)?;
            let (least, most) = (range.start(), range.end());
            let fits = range.contains(&number);
            if fits { Ok(number) } else { Err(Invalid::new(pointer, format!("a number from {least} to {most}"))) }
        }
    }
    let mut body = object(node, pointer)?;
    let faults = Faults {
        late_seconds: body.take("late_seconds", within(Faults::LATE_SECONDS))?,
        extra_copies: body.take("extra_copies", within(Faults::EXTRA_COPIES))?,
        spoofed_from: body.take("spoofed_from", text)?,
        garbled: body.take("garbled", boolean)?.unwrap_or_default(),
        parts: body.take("parts", within(Faults::PARTS))?,
        out_of_order: body.take("out_of_order", boolean)?.unwrap_or_default(),
        link_drops: body.take("link_drops", within(Faults::LINK_DROPS))?,
    };
    body.finish()?;
    Ok(faults)
}
