//! Reading a request's body: bounded in size and in time, of the right type.

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::{App, catalogue::Code, problem::Problem};

pub const MAX_JSON: usize = 16 * 1024;
pub const MAX_FORM: usize = 4 * 1024;

/// The JSON body of a request, unparsed: some need its exact bytes.
pub async fn read_json(app: &App, request: Request<Body>) -> Result<Bytes, Problem> {
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
    read(app, &parts.headers, body, MAX_JSON).await
}

/// The form of a token or revoke request: each field once, whatever its name.
pub async fn read_form(app: &App, headers: &HeaderMap, body: Body) -> Result<Form, Problem> {
    let invalid = |detail: &str| Problem::new(Code::InvalidRequest, detail);
    let is_form =
        media_type(headers).is_some_and(|given| given.eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    if !is_form {
        return Err(invalid("send the parameters as a form: `Content-Type: application/x-www-form-urlencoded`"));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(invalid("a body with a `Content-Encoding` is not taken"));
    }
    let body = read(app, headers, body, MAX_FORM).await.map_err(|problem| match problem.code {
        Code::BadRequest => Problem::new(Code::InvalidRequest, problem.detail),
        _ => problem,
    })?;
    if std::str::from_utf8(&body).is_err() {
        return Err(invalid("the form is not UTF-8"));
    }
    let mut fields: Vec<(String, String)> = Vec::with_capacity(4);
    for (name, value) in url::form_urlencoded::parse(&body) {
        if fields.iter().any(|(earlier, _)| *earlier == name) {
            return Err(invalid("a parameter occurs twice"));
        }
        fields.push((name.into_owned(), value.into_owned()));
    }
    Ok(Form(fields))
}

/// The fields of a form.
pub struct Form(Vec<(String, String)>);

impl Form {
    /// A field that is there and not empty: RFC 6749 treats an empty one as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, value)| field == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }
}

async fn read(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        // What is left of the body is not read: the connection cannot be used again.
        Problem::new(Code::PayloadTooLarge, format!("a body has at most {limit} bytes here"))
            .with(header::CONNECTION, HeaderValue::from_static("close"))
    };
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large());
    }
    let mut collected = std::pin::pin!(Limited::new(body, limit).collect());
    // A small body is usually there with its head, and needs no timer.
    let collected = match collected.as_mut().now_or_never() {
        Some(collected) => Ok(collected),
        None => tokio::time::timeout(app.body_timeout, collected).await,
    };
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::bad_request("the body could not be read to its end")),
        Err(_) => Err(Problem::new(Code::RequestTimeout, "the body did not arrive in time")
            .with(header::CONNECTION, HeaderValue::from_static("close"))),
    }
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
