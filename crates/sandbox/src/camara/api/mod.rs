//! CAMARA APIs: common handling of responses and `x-correlator`.

mod access_token;
mod body;
mod error;
mod number_verification;
mod sim_swap;

use http::{HeaderName, HeaderValue};
use serde::Serialize;

pub(super) use self::{
    error::CamaraError,
    number_verification::{device_phone_number, verify_number},
    sim_swap::{check_sim_swap, retrieve_sim_swap_date},
};
use super::http::{HttpResponse, Request, json_response};

pub(super) const X_CORRELATOR: HeaderName = HeaderName::from_static("x-correlator");

/// Runs an operation and echoes the request's `x-correlator`, which must be valid.
pub(super) fn respond<T: Serialize>(
    request: &Request,
    operation: impl FnOnce() -> Result<T, CamaraError>,
) -> HttpResponse {
    let correlator = match parse_correlator(request) {
        Some(Err(InvalidCorrelator)) => {
            return CamaraError::InvalidArgument("x-correlator must match ^[a-zA-Z0-9-_:;.\\/<>{}]{0,256}$.")
                .into_response();
        }
        Some(Ok(correlator)) => Some(correlator),
        None => None,
    };
    let response = operation().map_or_else(CamaraError::into_response, |body| json_response(&body));
    with_correlator(response, correlator)
}

pub(super) fn error_response(request: &Request, error: &CamaraError) -> HttpResponse {
    with_correlator(error.into_response(), parse_correlator(request).and_then(Result::ok))
}

fn with_correlator(mut response: HttpResponse, correlator: Option<&HeaderValue>) -> HttpResponse {
    if let Some(correlator) = correlator.filter(|correlator| !correlator.is_empty()) {
        response.headers_mut().insert(X_CORRELATOR, correlator.clone());
    }
    response
}

struct InvalidCorrelator;

fn parse_correlator(request: &Request) -> Option<Result<&HeaderValue, InvalidCorrelator>> {
    let is_allowed = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_:;./<>{}".contains(octet);
    let found = request.head.headers.get(X_CORRELATOR)?;
    let is_valid = found.len() <= 256 && found.as_bytes().iter().all(is_allowed);
    Some(if is_valid { Ok(found) } else { Err(InvalidCorrelator) })
}
