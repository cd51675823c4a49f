//! Reads request bodies with a size limit, a timeout and a media type check.

use std::borrow::Cow;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::BodyExt;

use super::{App, error_catalog::ProblemCode, problem::Problem};

pub const MAX_JSON_BYTES: usize = 16 * 1024;
pub const MAX_ALLOWED_NETWORKS_BYTES: usize = 256 * 1024;
pub const MAX_FORM_BYTES: usize = 4 * 1024;
/// Bounds the quadratic check for duplicate names.
const MAX_FORM_FIELDS: usize = 32;

/// Reads a JSON body without parsing it: callers need the exact bytes for fingerprints.
pub async fn read_json(app: &App, request: Request<Body>) -> Result<Bytes, Problem> {
    read_json_with_limit(app, request, MAX_JSON_BYTES).await
}

/// Like [`read_json`], with a limit in bytes.
pub async fn read_json_with_limit(app: &App, request: Request<Body>, limit: usize) -> Result<Bytes, Problem> {
    let is_patch = request.method() == http::Method::PATCH;
    let is_json = media_type(request.headers()).is_some_and(|given| {
        given.eq_ignore_ascii_case("application/json")
            || (is_patch && given.eq_ignore_ascii_case("application/merge-patch+json"))
    });
    if !is_json {
        return Err(Problem::new(
            ProblemCode::UnsupportedMediaType,
            "send the body as `Content-Type: application/json`",
        ));
    }
    reject_content_encoding(request.headers())?;
    let (parts, body) = request.into_parts();
    read_limited(app, &parts.headers, body, limit).await
}

/// Rejects a request that has a body.
pub async fn require_empty_body(app: &App, request: Request<Body>) -> Result<(), Problem> {
    let (parts, body) = request.into_parts();
    let body = read_limited(app, &parts.headers, body, MAX_JSON_BYTES).await?;
    if body.is_empty() { Ok(()) } else { Err(Problem::bad_request("this call does not accept a body")) }
}

/// Reads the form of a token or revoke request without parsing it.
pub async fn read_form(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    read_form_with_limit(app, headers, body, MAX_FORM_BYTES).await
}

/// Like [`read_form`], with a limit in bytes.
pub async fn read_form_with_limit(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let invalid = |detail: &str| Problem::new(ProblemCode::InvalidRequest, detail);
    let is_form =
        media_type(headers).is_some_and(|given| given.eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    if !is_form {
        return Err(invalid("send the parameters as a form: `Content-Type: application/x-www-form-urlencoded`"));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(invalid("`Content-Encoding` is not supported; send the body uncompressed"));
    }
    read_limited(app, headers, body, limit).await.map_err(|problem| match problem.code {
        ProblemCode::BadRequest => Problem::new(ProblemCode::InvalidRequest, problem.detail),
        _ => problem,
    })
}

/// Form fields with unique names.
pub struct Form<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Form<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        let invalid = |detail: &str| Problem::new(ProblemCode::InvalidRequest, detail);
        let body = std::str::from_utf8(body).map_err(|_| invalid("the form is not valid UTF-8"))?;
        let mut fields: Vec<(Cow<str>, Cow<str>)> = Vec::with_capacity(4);
        for field in body.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = form_decode(name);
            if fields.len() >= MAX_FORM_FIELDS {
                return Err(invalid("too many parameters"));
            }
            if fields.iter().any(|(earlier, _)| *earlier == name) {
                return Err(invalid("a parameter is repeated"));
            }
            fields.push((name, form_decode(value)));
        }
        Ok(Form(fields))
    }

    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }

    /// Returns a non-empty field. RFC 6749 treats an empty parameter as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, value)| field == name && !value.is_empty()).map(|(_, value)| &**value)
    }
}

/// Decodes a form name or value. Returns the input if it contains no escape.
pub fn form_decode(text: &str) -> Cow<'_, str> {
    // Scanning without an early exit lets the compiler vectorise the loop.
    let found = text.bytes().fold(0, |found, byte| found | u8::from(byte == b'%') | u8::from(byte == b'+'));
    if found == 0 {
        return Cow::Borrowed(text);
    }
    // Escape separators so that the parser sees one field name.
    let hidden = text.replace('&', "%26").replace('=', "%3D");
    let name = url::form_urlencoded::parse(hidden.as_bytes()).map(|(name, _)| name.into_owned()).next();
    Cow::Owned(name.unwrap_or_default())
}

/// Reads a body of any type, up to a limit.
pub async fn read_limited(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        // The rest of the body stays unread, so the connection cannot be reused.
        Problem::new(ProblemCode::PayloadTooLarge, format!("the body exceeds the limit of {limit} bytes"))
            .with_header(header::CONNECTION, HeaderValue::from_static("close"))
    };
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large());
    }
    let mut collected = std::pin::pin!(collect_body(body, limit));
    // A small body usually arrives with its head and needs no timer.
    let collected = match collected.as_mut().now_or_never() {
        Some(collected) => Ok(collected),
        None => tokio::time::timeout(app.body_timeout, collected).await,
    };
    match collected {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(BodyError::TooLarge)) => Err(too_large()),
        Ok(Err(BodyError::Broken)) => Err(Problem::bad_request("the body is incomplete")),
        Err(_) => Err(Problem::new(ProblemCode::RequestTimeout, "the body was not received in time")
            .with_header(header::CONNECTION, HeaderValue::from_static("close"))),
    }
}

enum BodyError {
    TooLarge,
    Broken,
}

/// Collects the body. A body of one frame is not copied.
async fn collect_body(mut body: Body, limit: usize) -> Result<Bytes, BodyError> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Ignore trailers.
        let Ok(piece) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if collected.len() + piece.len() > limit {
            return Err(BodyError::TooLarge);
        }
        if collected.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        collected.extend_from_slice(&piece);
    }
    Ok(collected.freeze())
}

fn reject_content_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(
            ProblemCode::UnsupportedMediaType,
            "`Content-Encoding` is not supported; send the body uncompressed",
        ));
    }
    Ok(())
}

/// Media type without parameters.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    Some(value.split(';').next()?.trim())
}
