//! Holds what the server answers against the API document.
//!
//! Every answer that the HTTP tests get goes through [`Contract::check`]. An undocumented path, method, status, content
//! type or member, a missing header or a wrong format is an error, so the document and the code cannot drift apart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use jsonschema::{Registry, Validator, draft202012};
use serde_json::{Value, json};

/// Where the validators find the document.
const HOME: &str = "ringtrue:/openapi.json";
const UNKNOWN_PATH: &str = "/components/responses/NotFound";
const WRONG_METHOD: &str = "/components/responses/MethodNotAllowed";

/// Names and values, as they came.
type Headers = [(String, String)];

/// The document, ready to judge.
#[derive(Debug)]
pub struct Contract {
    root: Value,
    paths: Vec<Template>,
    /// By JSON pointer of the response.
    responses: BTreeMap<String, Response>,
}

#[derive(Debug)]
struct Template {
    text: String,
    /// By upper-case method.
    operations: BTreeMap<String, Operation>,
}

/// The pointer of each status's response.
type Operation = BTreeMap<u16, String>;

#[derive(Debug)]
struct Response {
    headers: Vec<Header>,
    /// By content type.
    bodies: BTreeMap<String, Validator>,
}

#[derive(Debug)]
struct Header {
    name: String,
    required: bool,
    is_integer: bool,
    value: Validator,
}

impl Contract {
    /// Reads the document and compiles every schema of a response.
    pub fn new(json: &str) -> Result<Self, String> {
        let root: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let mut paths = Vec::new();
        for (path, item) in members(&root, "/paths") {
            let mut operations = BTreeMap::new();
            for (method, operation) in item.as_object().into_iter().flatten() {
                let at = format!("/paths/{}/{method}/responses", escape(path));
                if operation.get("responses").is_some() {
                    operations.insert(method.to_uppercase(), statuses(&root, &at)?);
                }
            }
            paths.push(Template { text: path.clone(), operations });
        }
        let responses = {
            let compiler = Compiler::new(&root)?;
            let named = paths.iter().flat_map(|template| template.operations.values()).flat_map(BTreeMap::values);
            let all: BTreeSet<&str> = named.map(String::as_str).chain([UNKNOWN_PATH, WRONG_METHOD]).collect();
            all.into_iter().map(|at| Ok((at.to_owned(), compiler.response(at)?))).collect::<Result<_, String>>()?
        };
        Ok(Self { root, paths, responses })
    }

    /// Every method and path template of the document, methods in upper case. `HEAD` comes with `GET` unsaid.
    pub fn routes(&self) -> BTreeSet<(String, String)> {
        let of = |path: &Template| path.operations.keys().map(|m| (m.clone(), path.text.clone())).collect::<Vec<_>>();
        self.paths.iter().flat_map(of).collect()
    }

    /// The schema of the JSON body that a route takes.
    pub fn request_schema(&self, method: &str, template: &str) -> Option<&Value> {
        let method = method.to_lowercase();
        let at = format!("/paths/{}/{method}/requestBody/content/application~1json/schema", escape(template));
        self.root.pointer(&resolve(&self.root, &at).ok()?)
    }

    /// Every error code that a problem may carry.
    pub fn error_codes(&self) -> BTreeSet<String> {
        let codes = self.root.pointer("/components/schemas/Problem/properties/error_code/enum");
        codes.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Judges one answer. The path may carry a query.
    pub fn check(&self, method: &str, path: &str, status: u16, headers: &Headers, body: &[u8]) -> Result<(), String> {
        let place = format!("{method} {path} answered {status}");
        let problem = |what: String| format!("{place}: {what}");
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let at = self.response_for(method, path, status, headers).map_err(problem)?;
        let response = self.responses.get(at).ok_or_else(|| problem(format!("{at} was not compiled")))?;
        response.check_headers(headers).map_err(problem)?;
        response.check_body(method == "HEAD", headers, body).map_err(problem)
    }

    fn response_for(&self, method: &str, path: &str, status: u16, headers: &Headers) -> Result<&str, String> {
        let Some(template) = self.find(path) else {
            return if status == 404 { Ok(UNKNOWN_PATH) } else { Err("the path is not documented".to_owned()) };
        };
        let documented = if method == "HEAD" { "GET" } else { method };
        match (template.operations.get(documented), status) {
            (None, 405) => template.check_allow(headers).map(|()| WRONG_METHOD),
            (None, _) => Err(format!("{} does not document the method", template.text)),
            (Some(_), 405) => Err(format!("{} documents the method", template.text)),
            (Some(operation), _) => operation
                .get(&status)
                .map(String::as_str)
                .ok_or_else(|| format!("{} documents only {:?}", template.text, operation.keys())),
        }
    }

    /// The template that a path belongs to. From left to right, a literal segment wins over a parameter.
    fn find(&self, path: &str) -> Option<&Template> {
        let matching = self.paths.iter().filter(|template| template.matches(path));
        matching.max_by_key(|template| template.text.split('/').map(|part| !is_parameter(part)).collect::<Vec<_>>())
    }
}

impl Template {
    fn matches(&self, path: &str) -> bool {
        let (ours, theirs) = (self.text.split('/'), path.split('/'));
        let fits = |(ours, theirs): (&str, &str)| if is_parameter(ours) { !theirs.is_empty() } else { ours == theirs };
        ours.clone().count() == theirs.clone().count() && ours.zip(theirs).all(fits)
    }

    /// `Allow` names the documented methods, and `HEAD` where there is `GET`.
    fn check_allow(&self, headers: &Headers) -> Result<(), String> {
        let mut expected: BTreeSet<&str> = self.operations.keys().map(String::as_str).collect();
        if expected.contains("GET") {
            expected.insert("HEAD");
        }
        let given: BTreeSet<&str> =
            values(headers, "allow").flat_map(|value| value.split(',')).map(str::trim).collect();
        if given == expected { Ok(()) } else { Err(format!("Allow is {given:?}, the document has {expected:?}")) }
    }
}

impl Response {
    fn check_headers(&self, headers: &Headers) -> Result<(), String> {
        for header in &self.headers {
            let mut given = values(headers, &header.name).peekable();
            if header.required && given.peek().is_none() {
                return Err(format!("the header {} is missing", header.name));
            }
            for text in given {
                let number = header.is_integer.then(|| text.parse::<i64>().ok()).flatten();
                let value = number.map_or_else(|| Value::from(text), Value::from);
                conforms(&header.value, &value).map_err(|what| format!("header {}: {what}", header.name))?;
            }
        }
        Ok(())
    }

    fn check_body(&self, is_head: bool, headers: &Headers, body: &[u8]) -> Result<(), String> {
        if is_head && !body.is_empty() {
            return Err("an answer to HEAD has a body".to_owned());
        }
        if self.bodies.is_empty() {
            return if body.is_empty() { Ok(()) } else { Err("the document has no body here".to_owned()) };
        }
        let given: Vec<_> = values(headers, "content-type").collect();
        let [content_type] = given.as_slice() else { return Err(format!("content types: {given:?}")) };
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let Some(validator) = self.bodies.get(&essence) else {
            return Err(format!("{content_type} is not among {:?}", self.bodies.keys()));
        };
        if is_head {
            return Ok(());
        }
        let text = std::str::from_utf8(body).map_err(|e| e.to_string())?;
        let is_json = essence.ends_with("/json") || essence.ends_with("+json");
        let value = if is_json {
            serde_json::from_str(text).map_err(|e| format!("the body is not JSON: {e}"))?
        } else if text.is_empty() {
            return Err("the body is empty".to_owned());
        } else {
            Value::from(text)
        };
        conforms(validator, &value).map_err(|what| format!("{what}\n{text}"))
    }
}

/// Makes validators whose references lead into the document.
struct Compiler<'d> {
    root: &'d Value,
    registry: Registry<'d>,
}

impl<'d> Compiler<'d> {
    fn new(root: &'d Value) -> Result<Self, String> {
        let registry = Registry::new().add(HOME, root).map_err(|e| e.to_string())?;
        Ok(Self { root, registry: registry.prepare().map_err(|e| e.to_string())? })
    }

    fn response(&self, at: &str) -> Result<Response, String> {
        let mut headers = Vec::new();
        for name in members(self.root, &format!("{at}/headers")).map(|(name, _)| name) {
            let at = resolve(self.root, &format!("{at}/headers/{}", escape(name)))?;
            let is_true = |key: &str| self.root.pointer(&format!("{at}/{key}")) == Some(&Value::Bool(true));
            let schema = format!("{at}/schema");
            let kind = self.root.pointer(&format!("{schema}/type"));
            headers.push(Header {
                name: name.clone(),
                required: is_true("required"),
                is_integer: kind.is_some_and(|kind| kind == "integer"),
                value: self.validator(&schema)?,
            });
        }
        let mut bodies = BTreeMap::new();
        for content_type in members(self.root, &format!("{at}/content")).map(|(content_type, _)| content_type) {
            let validator = self.validator(&format!("{at}/content/{}/schema", escape(content_type)))?;
            bodies.insert(content_type.to_ascii_lowercase(), validator);
        }
        Ok(Response { headers, bodies })
    }

    fn validator(&self, pointer: &str) -> Result<Validator, String> {
        let schema = json!({"$ref": format!("{HOME}#{}", fragment(pointer))});
        let options = draft202012::options().should_validate_formats(true).with_registry(&self.registry);
        options.build(&schema).map_err(|e| format!("{pointer}: {e}"))
    }
}

fn statuses(root: &Value, at: &str) -> Result<Operation, String> {
    let all = members(root, at).map(|(status, _)| {
        let number = status.parse().map_err(|_| format!("{at}: every status is named, so not {status}"))?;
        Ok((number, resolve(root, &format!("{at}/{status}"))?))
    });
    all.collect()
}

/// Follows references, and answers with the pointer of what they lead to.
fn resolve(root: &Value, pointer: &str) -> Result<String, String> {
    let mut pointer = pointer.to_owned();
    for _ in 0..16 {
        let node = root.pointer(&pointer).ok_or_else(|| format!("nothing at {pointer}"))?;
        match node.get("$ref").and_then(Value::as_str) {
            Some(reference) => reference.trim_start_matches('#').clone_into(&mut pointer),
            None => return Ok(pointer),
        }
    }
    Err(format!("{pointer} leads in a circle"))
}

fn conforms(validator: &Validator, value: &Value) -> Result<(), String> {
    let errors = validator.iter_errors(value).map(|e| format!("{e} (at `{}`)", e.instance_path())).collect::<Vec<_>>();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

fn members<'v>(root: &'v Value, pointer: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    root.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
}

fn values<'h>(headers: &'h Headers, name: &str) -> impl Iterator<Item = &'h str> {
    headers.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{') && segment.ends_with('}')
}

/// A key as a part of a JSON pointer.
fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A JSON pointer as the fragment of a URI.
fn fragment(pointer: &str) -> String {
    let mut out = String::with_capacity(pointer.len());
    for byte in pointer.bytes() {
        if byte.is_ascii_alphanumeric() || b"/~-._".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract() -> Contract {
        let problem = |status: u16| {
            json!({
                "headers": {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}},
                "content": {"application/problem+json": {"schema": {
                    "$ref": "#/components/schemas/Problem", "properties": {"status": {"const": status}}}}},
            })
        };
        let document = json!({
            "paths": {
                "/things/{id}": {
                    "get": {"responses": {"200": {"content": {"application/json": {"schema": {
                        "type": "object", "required": ["id", "at"], "additionalProperties": false,
                        "properties": {"id": {"format": "uuid"}, "at": {"format": "date-time"}},
                    }}}}}},
                    "delete": {"responses": {
                        "204": {"headers": {"X-Left": {"required": true, "schema": {"type": "integer", "minimum": 0}}}},
                        "404": {"$ref": "#/components/responses/NotFound"},
                    }},
                },
                "/things/all": {"get": {"responses": {"200": {"content": {"text/plain": {"schema": {}}}}}}},
            },
            "components": {
                "headers": {"RequestId": {"required": true, "schema": {"type": "string", "minLength": 1}}},
                "schemas": {"Problem": {
                    "type": "object", "required": ["status", "error_code"], "additionalProperties": false,
                    "properties": {"status": {}, "error_code": {"enum": ["not_found", "method_not_allowed"]}},
                }},
                "responses": {"NotFound": problem(404), "MethodNotAllowed": problem(405)},
            },
        });
        Contract::new(&document.to_string()).expect("a document")
    }

    /// Judges an answer of a status with headers and a body; says what is wrong.
    fn check(call: &str, status: u16, pairs: &[(&str, &str)], body: &str) -> Result<(), String> {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let headers: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        contract().check(method, path, status, &headers, body.as_bytes())
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const PROBLEM: (&str, &str) = ("Content-Type", "application/problem+json");
    const ID: (&str, &str) = ("x-request-id", "r1");
    const THING: &str = r#"{"id": "01a1d964-6e3b-7c1d-8a52-4f9e0b6d2c71", "at": "2026-11-14T09:30:00.123Z"}"#;
    const MISSING: &str = r#"{"status": 404, "error_code": "not_found"}"#;
    const METHOD: &str = r#"{"status": 405, "error_code": "method_not_allowed"}"#;

    fn accepts(call: &str, status: u16, pairs: &[(&str, &str)], body: &str) {
        assert_eq!(check(call, status, pairs, body), Ok(()));
    }

    fn refuses(call: &str, status: u16, pairs: &[(&str, &str)], body: &str, because: &str) {
        let told = check(call, status, pairs, body).expect_err("refused");
        assert!(told.contains(because), "{told}");
    }

    #[test]
    fn bodies() {
        accepts("GET /things/1?x=/y", 200, &[JSON], THING);
        refuses("GET /things/1", 200, &[JSON], &THING.replace("01a1", "nope"), "uuid");
        refuses("GET /things/1", 200, &[JSON], &THING.replace("T09", " at 09"), "date-time");
        refuses("GET /things/1", 200, &[JSON], &THING.replace('}', r#", "more": 1}"#), "more");
        refuses("GET /things/1", 200, &[JSON], "{", "not JSON");
        refuses("GET /things/1", 200, &[], THING, "content types: []");
        refuses("GET /things/1", 200, &[("content-type", "text/html")], THING, "text/html is not among");
        refuses("GET /things/1", 201, &[JSON], THING, "documents only [200]");
    }

    #[test]
    fn an_answer_to_head_is_that_of_get_without_its_body() {
        accepts("HEAD /things/1", 200, &[JSON], "");
        refuses("HEAD /things/1", 200, &[JSON], THING, "HEAD has a body");
        refuses("HEAD /things/1", 200, &[("content-type", "text/plain")], "", "text/plain is not among");
    }

    #[test]
    fn a_literal_segment_wins() {
        accepts("GET /things/all", 200, &[("content-type", "text/plain")], "one, two");
        refuses("GET /things/all", 200, &[JSON], THING, "not among");
        refuses("GET /things/", 200, &[JSON], THING, "the path is not documented");
    }

    #[test]
    fn header_values() {
        accepts("DELETE /things/1", 204, &[("x-left", "3")], "");
        refuses("DELETE /things/1", 204, &[], "", "X-Left is missing");
        refuses("DELETE /things/1", 204, &[("x-left", "-1")], "", "minimum");
        refuses("DELETE /things/1", 204, &[("x-left", "few")], "", "integer");
        refuses("DELETE /things/1", 204, &[("x-left", "3")], "gone", "no body here");
        accepts("DELETE /things/1", 404, &[PROBLEM, ID], MISSING);
        refuses("DELETE /things/1", 404, &[PROBLEM], MISSING, "X-Request-Id is missing");
    }

    #[test]
    fn an_unknown_path_is_404_and_nothing_else() {
        accepts("PUT /nowhere", 404, &[PROBLEM, ID], MISSING);
        refuses("GET /nowhere", 404, &[JSON, ID], MISSING, "not among");
        refuses("GET /nowhere", 200, &[JSON], THING, "the path is not documented");
        refuses("GET /nowhere", 404, &[PROBLEM, ID], METHOD, "404");
    }

    #[test]
    fn an_unknown_method_is_405_with_the_methods_that_there_are() {
        let allow = ("allow", "GET, HEAD,DELETE");
        accepts("OPTIONS /things/1", 405, &[PROBLEM, ID, allow], METHOD);
        refuses("OPTIONS /things/1", 405, &[PROBLEM, ID, ("allow", "GET")], METHOD, "Allow is");
        refuses("OPTIONS /things/1", 200, &[], "", "does not document the method");
        refuses("GET /things/1", 405, &[PROBLEM, ID, allow], METHOD, "documents the method");
    }

    #[test]
    fn routes_and_codes() {
        let routes = [("DELETE", "/things/{id}"), ("GET", "/things/all"), ("GET", "/things/{id}")];
        assert_eq!(contract().routes(), routes.map(|(method, path)| (method.to_owned(), path.to_owned())).into());
        assert_eq!(contract().error_codes(), ["not_found", "method_not_allowed"].map(str::to_owned).into());
    }
}
