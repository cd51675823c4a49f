//! Builds JSON responses, paged lists, and the `ETag` and `If-Match` headers of management resources (RFC 9110,
//! sections 8.8.3 and 13.1.1).

use aws_lc_rs::digest;
use axum::{body::Body, response::Response};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ringtrue_domain::page::Page;
use serde::Serialize;

/// Initial size of the JSON buffer. Most responses fit.
const JSON_BUFFER_BYTES: usize = 512;
/// Initial capacity of the header map. Fits all headers of a response, including those added by the middleware.
const RESPONSE_HEADER_CAPACITY: usize = 12;

pub fn json_response(status: StatusCode, body: &impl Serialize) -> Response {
    json_bytes_response(status, render_json(body))
}

pub fn render_json(body: &impl Serialize) -> Vec<u8> {
    let mut document = Vec::with_capacity(JSON_BUFFER_BYTES);
    if serde_json::to_writer(&mut document, body).is_err() {
        document.clear();
    }
    document
}

pub fn json_bytes_response(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = HeaderMap::with_capacity(RESPONSE_HEADER_CAPACITY);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// JSON body of all lists: the items of one page, and the position of that page in the list.
#[derive(Serialize, derive_more::Debug)]
#[debug("PageBody(…)")]
pub struct PageBody<T> {
    content: Vec<T>,
    page: PageNumbers,
}

#[derive(Serialize)]
struct PageNumbers {
    size: u32,
    number: u32,
    total_pages: u64,
    total_elements: u64,
}

impl<T> PageBody<T> {
    pub fn new<U>(page: Page<U>, of: impl FnMut(U) -> T) -> Self {
        let numbers = PageNumbers {
            size: page.request.size(),
            number: page.request.number(),
            total_pages: page.total_pages(),
            total_elements: page.total_items,
        };
        PageBody { content: page.map(of).items, page: numbers }
    }
}

/// Returns a 200 response with the `ETag` of its body.
pub fn json_with_etag<B: Serialize>(body: &B) -> Response {
    with_etag(json_response(StatusCode::OK, body), body)
}

/// Adds the `ETag` of a resource, computed from its representation.
pub fn with_etag<B: Serialize>(mut response: Response, representation: &B) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&strong_tag(representation)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The `If-Match` header of a request that changes a resource.
#[derive(Debug)]
pub struct IfMatch(Option<Vec<String>>);

impl IfMatch {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return IfMatch(None);
        }
        let tags = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        IfMatch(Some(tags.map(|tag| String::from_utf8_lossy(tag.trim_ascii()).into_owned()).collect()))
    }

    /// Returns whether the change may proceed. Without the header it may; a weak tag never matches (RFC 9110, section
    /// 13.1.1).
    pub fn matches<B: Serialize>(&self, representation: &B) -> bool {
        let Some(tags) = &self.0 else { return true };
        let current = strong_tag(representation);
        tags.iter().any(|tag| *tag == "*" || *tag == current)
    }
}

fn strong_tag<B: Serialize>(representation: &B) -> String {
    let body = serde_json::to_vec(representation).unwrap_or_default();
    let digest = digest::digest(&digest::SHA256, &body);
    format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&digest.as_ref()[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_requires_the_current_strong_tag() {
        let current = strong_tag(&"now");
        let weak = format!("W/{current}");
        let several = format!("\"a\", {current} ,\"b\"");
        for (given, matches) in [
            (&[][..], true),
            (&["*"], true),
            (&[&*current], true),
            (&[&*several], true),
            (&["\"a\"", &*current], true),
            (&["\"a\""], false),
            (&[&*weak], false),
            (&[&current[1..]], false),
            (&[""], false),
        ] {
            let headers = given.iter().map(|value| (header::IF_MATCH, HeaderValue::from_str(value).unwrap()));
            let mut map = HeaderMap::new();
            headers.for_each(|(name, value)| {
                map.append(name, value);
            });
            assert_eq!(IfMatch::from_headers(&map).matches(&"now"), matches, "{given:?}");
        }
    }
}
