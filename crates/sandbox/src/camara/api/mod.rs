//! The CAMARA APIs: what they have in common.

mod access;
mod body;
mod number_verification;
mod problem;
mod sim_swap;

use http::{HeaderName, HeaderValue};
use serde::Serialize;

pub(super) use self::{
    number_verification::{device_phone_number, verify_number},
    problem::Problem,
    sim_swap::{check_sim_swap, retrieve_sim_swap_date},
};
use super::http::{Answer, Request, json};

pub(super) const CORRELATOR: HeaderName = HeaderName::from_static("x-correlator");

/// Answers with what `operation` says, and with the request's correlator, which must be a good one.
pub(super) fn answer<T: Serialize>(request: &Request, operation: impl FnOnce() -> Result<T, Problem>) -> Answer {
    if request.head.headers.contains_key(CORRELATOR) && correlator(request).is_none() {
        return Problem::InvalidArgument("x-correlator is up to 256 characters of few kinds").into_answer();
    }
    match operation() {
        Ok(body) => correlated(json(&body), request),
        Err(problem) => refuse(request, &problem),
    }
}

pub(super) fn refuse(request: &Request, problem: &Problem) -> Answer {
    correlated(problem.into_answer(), request)
}

fn correlated(mut answer: Answer, request: &Request) -> Answer {
    if let Some(correlator) = correlator(request).filter(|correlator| !correlator.is_empty()) {
        answer.headers_mut().insert(CORRELATOR, correlator.clone());
    }
    answer
}

/// The request's correlator, if it has one of the right form.
fn correlator(request: &Request) -> Option<&HeaderValue> {
    let is_allowed = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_:;./<>{}".contains(octet);
    let found = request.head.headers.get(CORRELATOR)?;
    (found.len() <= 256 && found.as_bytes().iter().all(is_allowed)).then_some(found)
}
