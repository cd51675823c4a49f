//! Reads request bodies with a size limit, a timeout and a media type check. Parses forms and strict JSON.
//!
//! Unknown, repeated and mistyped JSON properties are errors with a JSON pointer. Serde's derived deserializers would
//! accept arrays for structs and do not report the position, so bodies are parsed to a tree of [`Node`]s first.

use std::{borrow::Cow, fmt::Display, str::FromStr};

use axum::{
    body::{Body, HttpBody as _},
    extract::FromRequest,
};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::BodyExt;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use ringtrue_domain::{
    sim_swap::{InvalidSimSwapPeriod, SimSwapPeriod},
    timestamp,
};
use ringtrue_engine::ports::operator_tokens::DigitalCredential;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::{app::App, error_catalog::ProblemCode, problem::Problem, request_context::HandlerState};

pub const MAX_JSON_BYTES: usize = 16 * 1024;
pub const MAX_ALLOWED_NETWORKS_BYTES: usize = 256 * 1024;
pub const MAX_FORM_BYTES: usize = 4 * 1024;
/// Maximum number of form fields. Limits the cost of the check for duplicate names, which is quadratic.
const MAX_FORM_FIELDS: usize = 32;
const JSON_REQUIRED: &str = "send the body as `Content-Type: application/json`";

/// Reads a JSON body without parsing it, because idempotency fingerprints need the exact bytes.
pub async fn read_json_bytes(app: &App, request: Request<Body>) -> Result<Bytes, Problem> {
    read_json_bytes_with_limit(app, request, MAX_JSON_BYTES).await
}

/// Like [`read_json_bytes`], with another size limit, in bytes.
pub async fn read_json_bytes_with_limit(app: &App, request: Request<Body>, limit: usize) -> Result<Bytes, Problem> {
    let is_patch = request.method() == http::Method::PATCH;
    let is_json = media_type(request.headers()).is_some_and(|given| {
        given.eq_ignore_ascii_case("application/json")
            || (is_patch && given.eq_ignore_ascii_case("application/merge-patch+json"))
    });
    if !is_json {
        return Err(Problem::new(ProblemCode::UnsupportedMediaType, JSON_REQUIRED));
    }
    reject_content_encoding(request.headers())?;
    let (parts, body) = request.into_parts();
    read_limited(app, &parts.headers, body, limit).await
}

/// Reads a body of one of these media types without parsing it.
pub async fn read_body_of_type(
    app: &App,
    request: Request<Body>,
    media_types: &[&str],
    limit: usize,
) -> Result<Bytes, Problem> {
    let given = media_type(request.headers()).unwrap_or_default();
    if !media_types.iter().any(|accepted| given.eq_ignore_ascii_case(accepted)) {
        let accepted = media_types.join("`, `");
        let detail = format!("send the file as the body, with one of these values in `Content-Type`: `{accepted}`");
        return Err(Problem::new(ProblemCode::UnsupportedMediaType, detail));
    }
    reject_content_encoding(request.headers())?;
    let (parts, body) = request.into_parts();
    read_limited(app, &parts.headers, body, limit).await
}

/// Reads an optional JSON body without parsing it. `None` for an empty body and for `{}`, because many clients always
/// send a body.
pub async fn read_optional_json_bytes(app: &App, request: Request<Body>) -> Result<Option<Bytes>, Problem> {
    let (parts, body) = request.into_parts();
    let body = read_limited(app, &parts.headers, body, MAX_JSON_BYTES).await?;
    let is_absent = match body.trim_ascii() {
        [] => true,
        [b'{', inner @ .., b'}'] => inner.trim_ascii().is_empty(),
        _ => false,
    };
    if is_absent {
        return Ok(None);
    }
    if !media_type(&parts.headers).is_some_and(|given| given.eq_ignore_ascii_case("application/json")) {
        return Err(Problem::new(ProblemCode::UnsupportedMediaType, JSON_REQUIRED));
    }
    reject_content_encoding(&parts.headers)?;
    Ok(Some(body))
}

/// Extractor for requests that take no body. Accepts no body, an empty body and `{}`.
#[derive(Debug)]
pub struct NoBody;

impl FromRequest<HandlerState> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, state: &HandlerState) -> Result<Self, Problem> {
        let unwanted = || Problem::bad_request("this call takes no body; send none, or `{}`");
        match read_optional_json_bytes(&state.app, request).await {
            Ok(None) => Ok(NoBody),
            Ok(Some(_)) => Err(unwanted()),
            Err(problem) if problem.code == ProblemCode::UnsupportedMediaType => Err(unwanted()),
            Err(problem) => Err(problem),
        }
    }
}

/// Reads a form of at most [`MAX_FORM_BYTES`] without parsing it. Errors have the codes of token endpoints (RFC 6749).
pub async fn read_form(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    read_form_with_limit(app, headers, body, MAX_FORM_BYTES).await
}

/// Like [`read_form`], with another size limit, in bytes.
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

/// Form fields. Their names are unique.
#[derive(derive_more::Debug)]
#[debug("Form(…)")]
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

/// Decodes a form name or value. Invalid UTF-8 becomes U+FFFD.
pub fn form_decode(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        return Cow::Owned(percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(text).decode_utf8_lossy()
}

/// Reads a body of any media type, up to a size limit.
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
    // A small body usually arrives together with the request head, and then no timeout has to be set up.
    let collected = match collected.as_mut().now_or_never() {
        Some(collected) => Ok(collected),
        None => tokio::time::timeout(app.http.body_timeout, collected).await,
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

/// Collects the frames of the body. Does not copy a body that consists of one frame.
async fn collect_body(mut body: Body, limit: usize) -> Result<Bytes, BodyError> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // A frame without data is a trailer, which is ignored.
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

/// Returns the media type of the `Content-Type` header without parameters.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    Some(value.split(';').next()?.trim())
}

/// An error in a JSON document, with its position as a JSON pointer (RFC 6901).
#[derive(Debug, PartialEq, Eq)]
pub struct JsonError {
    pub pointer: String,
    pub problem: String,
}

impl JsonError {
    pub fn new(pointer: &str, problem: impl Into<String>) -> Self {
        JsonError { pointer: pointer.to_owned(), problem: problem.into() }
    }
}

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        Problem::bad_request(format!("`{}`: {}", error.pointer, error.problem))
    }
}

/// A JSON value that keeps repeated properties, so that they can be rejected.
#[derive(Debug)]
pub enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    /// A number with a fraction, or an integer that does not fit into 64 bits.
    OtherNumber,
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Boolean(_) => "a boolean",
            Node::Integer(_) | Node::OtherNumber => "a number",
            Node::Text(_) => "a string",
            Node::List(_) => "an array",
            Node::Object(_) => "an object",
        }
    }
}

/// A JSON object. Reading a member removes it, so that [`finish`](Object::finish) can report the remaining members as
/// unknown.
#[derive(Debug)]
pub struct Object {
    pointer: String,
    members: Vec<(String, Node)>,
}

impl Object {
    /// Parses a JSON document that must be an object.
    pub fn parse(document: &[u8]) -> Result<Self, JsonError> {
        if document.starts_with(b"\xEF\xBB\xBF") {
            return Err(JsonError::new("", "the document starts with a byte order mark; send UTF-8 without one"));
        }
        let text = std::str::from_utf8(document)
            .map_err(|error| JsonError::new("", format!("invalid UTF-8 after byte {}", error.valid_up_to())))?;
        if text.trim().is_empty() {
            return Err(JsonError::new("", "the body is empty; expected a JSON object"));
        }
        let node = serde_json::from_str(text).map_err(|error| JsonError::new("", format!("invalid JSON: {error}")))?;
        as_object(node, "")
    }

    /// Reads an optional member. `null` counts as absent: many serializers write it for unset values.
    pub fn take<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node, &str) -> Result<T, JsonError>,
    ) -> Result<Option<T>, JsonError> {
        match self.remove(name) {
            None | Some(Node::Null) => Ok(None),
            Some(node) => read(node, &self.pointer_to(name)).map(Some),
        }
    }

    /// Reads a required member.
    pub fn require<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node, &str) -> Result<T, JsonError>,
    ) -> Result<T, JsonError> {
        let value = self.take_non_null(name, read)?;
        value.ok_or_else(|| JsonError::new(&self.pointer_to(name), "required property is missing"))
    }

    /// Reads a member of a merge patch that can be replaced but not removed, so `null` is a type error.
    pub fn take_non_null<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node, &str) -> Result<T, JsonError>,
    ) -> Result<Option<T>, JsonError> {
        self.remove(name).map(|node| read(node, &self.pointer_to(name))).transpose()
    }

    fn remove(&mut self, name: &str) -> Option<Node> {
        let index = self.members.iter().position(|(member, _)| member == name)?;
        Some(self.members.swap_remove(index).1)
    }

    /// Returns all members with name, JSON pointer and value.
    pub fn into_members(self) -> impl Iterator<Item = (String, String, Node)> {
        let pointers: Vec<String> = self.members.iter().map(|(name, _)| self.pointer_to(name)).collect();
        self.members.into_iter().zip(pointers).map(|((name, node), pointer)| (name, pointer, node))
    }

    /// Returns `value`, which the caller has built from the members. Fails if the object has a member that the caller
    /// has not read.
    pub fn finish<T>(self, value: T) -> Result<T, JsonError> {
        match self.members.first() {
            None => Ok(value),
            Some((name, _)) => Err(JsonError::new(&self.pointer_to(name), "unknown property")),
        }
    }

    fn pointer_to(&self, name: &str) -> String {
        let pointer = [&self.pointer, "/"].concat();
        // Fast path: the names of API properties need no escaping.
        if name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return pointer + name;
        }
        let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        pointer + &shown.replace('~', "~0").replace('/', "~1")
    }
}

pub fn as_object(node: Node, pointer: &str) -> Result<Object, JsonError> {
    let Node::Object(members) = node else {
        return Err(JsonError::new(pointer, format!("expected an object, found {}", node.kind())));
    };
    let object = Object { pointer: pointer.to_owned(), members };
    for (index, (name, _)) in object.members.iter().enumerate() {
        if object.members[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(JsonError::new(&object.pointer_to(name), "repeated property"));
        }
    }
    Ok(object)
}

pub fn as_text(node: Node, pointer: &str) -> Result<String, JsonError> {
    match node {
        Node::Text(text) => Ok(text),
        node => Err(JsonError::new(pointer, format!("expected a string, found {}", node.kind()))),
    }
}

/// Returns any JSON value. Numbers other than integers of 64 bits are errors.
pub fn as_json(node: Node, pointer: &str) -> Result<Value, JsonError> {
    Ok(match node {
        Node::Null => Value::Null,
        Node::Boolean(value) => value.into(),
        Node::Integer(value) => value.into(),
        Node::OtherNumber => return Err(JsonError::new(pointer, "expected an integer")),
        Node::Text(text) => text.into(),
        Node::List(nodes) => {
            let values = nodes.into_iter().enumerate();
            values.map(|(index, node)| as_json(node, &format!("{pointer}/{index}"))).collect::<Result<_, _>>()?
        }
        Node::Object(_) => {
            let members = as_object(node, pointer)?.into_members();
            let members = members.map(|(name, pointer, node)| Ok((name, as_json(node, &pointer)?)));
            Value::Object(members.collect::<Result<_, JsonError>>()?)
        }
    })
}

/// Reads a member of `digital.requests` in the options of `navigator.credentials.get`, or the result of that call.
pub fn as_digital_credential(node: Node, pointer: &str) -> Result<DigitalCredential, JsonError> {
    let mut object = as_object(node, pointer)?;
    let credential = DigitalCredential {
        protocol: object.require("protocol", as_text)?,
        data: object
            .require("data", |node, pointer| as_json(Node::Object(as_object(node, pointer)?.members), pointer))?,
    };
    object.finish(credential)
}

/// Parses a string with [`FromStr`].
pub fn as_parsed<T: FromStr<Err: Display>>(node: Node, pointer: &str) -> Result<T, JsonError> {
    as_text(node, pointer)?.parse().map_err(|error: T::Err| JsonError::new(pointer, error.to_string()))
}

pub fn as_boolean(node: Node, pointer: &str) -> Result<bool, JsonError> {
    match node {
        Node::Boolean(value) => Ok(value),
        node => Err(JsonError::new(pointer, format!("expected a boolean, found {}", node.kind()))),
    }
}

pub fn as_integer(node: Node, pointer: &str) -> Result<i64, JsonError> {
    match node {
        Node::Integer(value) => Ok(value),
        Node::OtherNumber => Err(JsonError::new(pointer, "expected an integer")),
        node => Err(JsonError::new(pointer, format!("expected an integer, found {}", node.kind()))),
    }
}

/// Reads a SIM Swap period in minutes. An invalid period is the inner error, not a `JsonError`, because its response
/// has the error code `period_invalid`.
pub fn as_sim_swap_period(node: Node, pointer: &str) -> Result<Result<SimSwapPeriod, InvalidSimSwapPeriod>, JsonError> {
    match node {
        Node::OtherNumber => Ok(Err(InvalidSimSwapPeriod)),
        node => as_integer(node, pointer).map(SimSwapPeriod::try_from),
    }
}

pub fn as_timestamp(node: Node, pointer: &str) -> Result<Timestamp, JsonError> {
    let text = as_text(node, pointer)?;
    timestamp::parse(&text).ok_or_else(|| JsonError::new(pointer, timestamp::EXPECTED_FORMAT_MESSAGE))
}

/// Reads an array of distinct values.
pub fn as_distinct_list<T: PartialEq>(
    node: Node,
    pointer: &str,
    read: impl Fn(Node, &str) -> Result<T, JsonError>,
) -> Result<Vec<T>, JsonError> {
    let Node::List(nodes) = node else {
        return Err(JsonError::new(pointer, format!("expected an array, found {}", node.kind())));
    };
    let mut values = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.into_iter().enumerate() {
        let pointer = format!("{pointer}/{index}");
        let value = read(node, &pointer)?;
        if values.contains(&value) {
            return Err(JsonError::new(&pointer, "repeated value"));
        }
        values.push(value);
    }
    Ok(values)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(i64::try_from(value).map_or(Node::OtherNumber, Node::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::OtherNumber)
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            members.push(entry);
        }
        Ok(Node::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(document: &[u8]) -> Result<(String, Option<i64>), JsonError> {
        let mut body = Object::parse(document)?;
        let name = body.require("name", as_text)?;
        let nested = body.take("nested", |node, pointer| {
            let mut nested = as_object(node, pointer)?;
            let size = nested.require("size", as_integer)?;
            nested.finish(size)
        })?;
        body.finish((name, nested))
    }

    #[test]
    fn errors_contain_the_json_pointer() {
        assert_eq!(read(br#"{"name":"a","nested":{"size":3}}"#), Ok(("a".to_owned(), Some(3))));
        assert_eq!(read(br#"{"name":"a","nested":null}"#), Ok(("a".to_owned(), None)));
        for (document, pointer, problem) in [
            (&br#"{"nested":{"size":3}}"#[..], "/name", "required"),
            (br#"{"name":null}"#, "/name", "expected a string, found null"),
            (br#"{"name":["a"]}"#, "/name", "found an array"),
            (br#"{"name":"a","nested":{"size":null}}"#, "/nested/size", "expected an integer, found null"),
            (br#"{"name":"a","nested":null,"nested":null}"#, "/nested", "repeated property"),
            (br#"{"name":"a","other":null}"#, "/other", "unknown property"),
            (br#"{"name":"a","nested":[3]}"#, "/nested", "expected an object, found an array"),
            (br#"{"name":"a","nested":{"size":1.5}}"#, "/nested/size", "expected an integer"),
            (br#"{"name":"a","nested":{"size":99999999999999999999}}"#, "/nested/size", "expected an integer"),
            (br#"{"name":"a","nested":{"size":3,"a/b~c":1}}"#, "/nested/a~1b~0c", "unknown property"),
            (br#"{"name":"a","nested":{"size":3,"size":4}}"#, "/nested/size", "repeated property"),
            (br#"{"name":"a","name":"b"}"#, "/name", "repeated property"),
            (br#"{"name":"a",}"#, "", "invalid JSON"),
            (br#"{"name":NaN}"#, "", "invalid JSON"),
            (br#"{"name":"\ud800"}"#, "", "invalid JSON"),
            (br#"{"name":"a"}{"name":"a"}"#, "", "invalid JSON"),
            (br#"["a"]"#, "", "expected an object"),
            (b"\xEF\xBB\xBF{}", "", "byte order mark"),
            (b"{\"name\":\"\xff\"}", "", "invalid UTF-8"),
            (b" ", "", "empty"),
        ] {
            let invalid = read(document).unwrap_err();
            assert_eq!(invalid.pointer, pointer, "{}", String::from_utf8_lossy(document));
            assert!(invalid.problem.contains(problem), "{}: {}", String::from_utf8_lossy(document), invalid.problem);
        }
    }

    #[test]
    fn digital_credential_contains_any_json_object() {
        let read = |document: &[u8]| {
            let mut body = Object::parse(document)?;
            let credential = body.require("request", as_digital_credential)?;
            body.finish(credential)
        };
        let credential = read(br#"{"request":{"protocol":"a","data":{"b":[null,true,1,"c",{"d":{}}]}}}"#).unwrap();
        assert_eq!(credential.protocol, "a");
        assert_eq!(credential.data, serde_json::json!({"b": [null, true, 1, "c", {"d": {}}]}));
        for (document, pointer) in [
            (&br#"{"request":{"protocol":"a","data":[]}}"#[..], "/request/data"),
            (br#"{"request":{"protocol":"a","data":{"b":[{"c":1,"c":2}]}}}"#, "/request/data/b/0/c"),
            (br#"{"request":{"protocol":"a","data":{"b":[0.5]}}}"#, "/request/data/b/0"),
            (br#"{"request":{"protocol":"a"}}"#, "/request/data"),
            (br#"{"request":{"protocol":"a","data":{},"c":1}}"#, "/request/c"),
        ] {
            assert_eq!(read(document).unwrap_err().pointer, pointer, "{}", String::from_utf8_lossy(document));
        }
    }

    #[test]
    fn deeply_nested_document_is_rejected() {
        let deep = [b"[".repeat(8_000), b"]".repeat(8_000)].concat();
        assert!(read(&deep).is_err());
    }
}
