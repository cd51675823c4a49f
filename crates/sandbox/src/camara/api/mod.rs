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
    let correlator = match correlator(request) {
        Some(Err(BadCorrelator)) => {
            return Problem::InvalidArgument("x-correlator is up to 256 characters of few kinds").into_answer();
        }
        Some(Ok(correlator)) => Some(correlator),
        None => None,
    };
    let answer = operation().map_or_else(Problem::into_answer, |body| json(&body));
    correlated(answer, correlator)
}

pub(super) fn refuse(request: &Request, problem: &Problem) -> Answer {
    correlated(problem.into_answer(), correlator(request).and_then(Result::ok))
}

fn correlated(mut answer: Answer, correlator: Option<&HeaderValue>) -> Answer {
    if let Some(correlator) = correlator.filter(|correlator| !correlator.is_empty()) {
        answer.headers_mut().insert(CORRELATOR, correlator.clone());
    }
    answer
}

struct BadCorrelator;

/// The request's correlator, if it has one.
fn correlator(request: &Request) -> Option<Result<&HeaderValue, BadCorrelator>> {
    let is_allowed = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_:;./<>{}".contains(octet);
    let found = request.head.headers.get(CORRELATOR)?;
    let is_good = found.len() <= 256 && found.as_bytes().iter().all(is_allowed);
    Some(if is_good { Ok(found) } else { Err(BadCorrelator) })
}
