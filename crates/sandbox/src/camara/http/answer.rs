//! Answers.

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION},
};
use http_body_util::Full;
use serde::Serialize;

pub(in crate::camara) type Answer = Response<Full<Bytes>>;

pub(in crate::camara) fn json(body: &impl Serialize) -> Answer {
    json_with_status(StatusCode::OK, body)
}

/// Never to be stored: nearly every answer here is a secret, or about a person.
pub(in crate::camara) fn json_with_status(status: StatusCode, body: &impl Serialize) -> Answer {
    match serde_json::to_vec(body) {
        Ok(body) => answer(status, "application/json", body),
        Err(_) => page(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be written"),
    }
}

/// For people who have come to where they should not be.
pub(in crate::camara) fn page(status: StatusCode, text: &'static str) -> Answer {
    answer(status, "text/plain; charset=utf-8", text)
}

pub(in crate::camara) fn redirect(location: &str) -> Answer {
    let Ok(location) = HeaderValue::from_str(location) else {
        return page(StatusCode::BAD_REQUEST, "the way back cannot be written");
    };
    let mut answer = page(StatusCode::FOUND, "");
    answer.headers_mut().insert(LOCATION, location);
    answer
}

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
