//! Redirects devices. The URLs contain tokens, so responses set `Referrer-Policy: no-referrer`.

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use ringtrue_web::problem::Problem;

const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");

/// Returns a 302 response without a body.
pub fn redirect(location: &str) -> Result<Response, Problem> {
    let location = HeaderValue::from_str(location)
        .map_err(|_| Problem::internal(&"redirect location is not a valid header value"))?;
    let mut response = with_no_referrer(Response::default());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(0));
    Ok(response)
}

pub fn with_no_referrer(mut response: Response) -> Response {
    response.headers_mut().insert(header::REFERRER_POLICY, NO_REFERRER);
    response
}
