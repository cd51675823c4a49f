//! HTTP responses.

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION},
};
use http_body_util::Full;
use serde::Serialize;

pub(in crate::camara) type HttpResponse = Response<Full<Bytes>>;

pub(in crate::camara) fn json_response(body: &impl Serialize) -> HttpResponse {
    json_response_with_status(StatusCode::OK, body)
}

/// Sets `Cache-Control: no-store`, because nearly every response is secret or personal.
pub(in crate::camara) fn json_response_with_status(status: StatusCode, body: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(body) {
        Ok(body) => build_response(status, "application/json", body),
        Err(_) => text_response(StatusCode::INTERNAL_SERVER_ERROR, "the response cannot be serialized"),
    }
}

/// Plain text for browsers.
pub(in crate::camara) fn text_response(status: StatusCode, text: &'static str) -> HttpResponse {
    build_response(status, "text/plain; charset=utf-8", text)
}

pub(in crate::camara) fn redirect_response(location: &str) -> HttpResponse {
    let Ok(location) = HeaderValue::from_str(location) else {
        return text_response(StatusCode::BAD_REQUEST, "the redirect location is not a valid header value");
    };
    let mut response = text_response(StatusCode::FOUND, "");
    response.headers_mut().insert(LOCATION, location);
    response
}

fn build_response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
