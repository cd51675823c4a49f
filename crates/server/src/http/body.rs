//! Reading a request's body: bounded in size and in time, of the right type.

use std::borrow::Cow;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::BodyExt;

use super::{App, catalogue::Code, problem::Problem};

pub const MAX_JSON: usize = 16 * 1024;
pub const MAX_ALLOWED_NETWORKS: usize = 256 * 1024;
pub const MAX_FORM: usize = 4 * 1024;
/// Each is compared with the others.
const MAX_FIELDS: usize = 32;

/// The JSON body of a request, unparsed: some need its exact bytes.
pub async fn read_json(app: &App, request: Request<Body>) -> Result<Bytes, Problem> {
    read_json_within(app, request, MAX_JSON).await
}

/// The same, of at most `limit` bytes.
pub async fn read_json_within(app: &App, request: Request<Body>, limit: usize) -> Result<Bytes, Problem> {
    let is_patch = request.method() == http::Method::PATCH;
    let is_json = media_type(request.headers()).is_some_and(|given| {
        given.eq_ignore_ascii_case("application/json")
            || (is_patch && given.eq_ignore_ascii_case("application/merge-patch+json"))
    });
    if !is_json {
        return Err(Problem::new(Code::UnsupportedMediaType, "send the body as `Content-Type: application/json`"));
    }
    refuse_encoding(request.headers())?;
    let (parts, body) = request.into_parts();
    read_limited(app, &parts.headers, body, limit).await
}

/// Sees to it that a request has no body, where none is taken.
pub async fn read_nothing(app: &App, request: Request<Body>) -> Result<(), Problem> {
    let (parts, body) = request.into_parts();
    let body = read_limited(app, &parts.headers, body, MAX_JSON).await?;
    if body.is_empty() { Ok(()) } else { Err(Problem::bad_request("this call takes no body")) }
}

/// The form of a token or revoke request, unparsed.
pub async fn read_form(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    read_form_within(app, headers, body, MAX_FORM).await
}

/// A form of at most so many bytes, unparsed.
pub async fn read_form_within(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let invalid = |detail: &str| Problem::new(Code::InvalidRequest, detail);
    let is_form =
        media_type(headers).is_some_and(|given| given.eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    if !is_form {
        return Err(invalid("send the parameters as a form: `Content-Type: application/x-www-form-urlencoded`"));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(invalid("a body with a `Content-Encoding` is not taken"));
    }
    read_limited(app, headers, body, limit).await.map_err(|problem| match problem.code {
        Code::BadRequest => Problem::new(Code::InvalidRequest, problem.detail),
        _ => problem,
    })
}

/// The fields of a form: each once, whatever its name.
pub struct Form<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Form<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        let invalid = |detail: &str| Problem::new(Code::InvalidRequest, detail);
        let body = std::str::from_utf8(body).map_err(|_| invalid("the form is not UTF-8"))?;
        let mut fields: Vec<(Cow<str>, Cow<str>)> = Vec::with_capacity(4);
        for field in body.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = form_decoded(name);
            if fields.len() >= MAX_FIELDS {
                return Err(invalid("there are too many parameters"));
            }
            if fields.iter().any(|(earlier, _)| *earlier == name) {
                return Err(invalid("a parameter occurs twice"));
            }
            fields.push((name, form_decoded(value)));
        }
        Ok(Form(fields))
    }

    /// All fields, for whoever keeps them.
    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }

    /// A field that is there and not empty: RFC 6749 treats an empty one as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, value)| field == name && !value.is_empty()).map(|(_, value)| &**value)
    }
}

/// A name or a value of a form, decoded. Nearly all are written as they are read.
pub fn form_decoded(text: &str) -> Cow<'_, str> {
    // To the end, whatever is found: so it is many bytes at once that the machine looks at.
    let found = text.bytes().fold(0, |found, byte| found | u8::from(byte == b'%') | u8::from(byte == b'+'));
    if found == 0 {
        return Cow::Borrowed(text);
    }
    // Parsed as the name of a field whose separators are hidden from the parser.
    let hidden = text.replace('&', "%26").replace('=', "%3D");
    let name = url::form_urlencoded::parse(hidden.as_bytes()).map(|(name, _)| name.into_owned()).next();
    Cow::Owned(name.unwrap_or_default())
}

/// Any body, up to a limit.
pub async fn read_limited(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        // What is left of the body is not read: the connection cannot be used again.
        Problem::new(Code::PayloadTooLarge, format!("a body has at most {limit} bytes here"))
            .with(header::CONNECTION, HeaderValue::from_static("close"))
    };
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large());
    }
    let mut gathered = std::pin::pin!(gather(body, limit));
    // A small body is usually there with its head, and needs no timer.
    let gathered = match gathered.as_mut().now_or_never() {
        Some(gathered) => Ok(gathered),
        None => tokio::time::timeout(app.body_timeout, gathered).await,
    };
    match gathered {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(Unread::TooLarge)) => Err(too_large()),
        Ok(Err(Unread::Broken)) => Err(Problem::bad_request("the body could not be read to its end")),
        Err(_) => Err(Problem::new(Code::RequestTimeout, "the body did not arrive in time")
            .with(header::CONNECTION, HeaderValue::from_static("close"))),
    }
}

enum Unread {
    TooLarge,
    Broken,
}

/// The whole body. One that comes in one piece, as small ones do, is not copied.
async fn gather(mut body: Body, limit: usize) -> Result<Bytes, Unread> {
    let mut gathered = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // What is no data is a trailer, of which we need none.
        let Ok(piece) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
        if gathered.len() + piece.len() > limit {
            return Err(Unread::TooLarge);
        }
        if gathered.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        gathered.extend_from_slice(&piece);
    }
    Ok(gathered.freeze())
}

fn refuse_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(Code::UnsupportedMediaType, "a body with a `Content-Encoding` is not taken"));
    }
    Ok(())
}

/// The type without its parameters.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    Some(value.split(';').next()?.trim())
}
