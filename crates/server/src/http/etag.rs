//! `ETag` and `If-Match` of management resources (RFC 9110, sections 8.8.3 and 13.1.1).

use aws_lc_rs::digest;
use axum::response::Response;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;

use super::json_response;

/// A 200 response with the `ETag` of its body.
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

/// `If-Match` header of a change.
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

    /// Whether the change may proceed. A missing header matches; a weak tag never does (RFC 9110, section 13.1.1).
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
