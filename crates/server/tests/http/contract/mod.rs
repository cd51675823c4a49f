//! Validates responses against the OpenAPI document.
//!
//! All responses of the HTTP tests pass through [`Contract::check`]. An undocumented path, method, status, content type
//! or member, a missing header or a wrong format is an error, so the document and the code cannot diverge. Rules that
//! the document contains only as extensions, for the sake of client generators, are enforced as well (see [`strict`]).

mod compiler;
mod pointer;
mod response;
pub mod strict;
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use compiler::Compiler;
use pointer::{escape, members, resolve};
use response::{Headers, Response, values};
use serde_json::Value;

const UNKNOWN_PATH: &str = "/components/responses/NotFound";
const WRONG_METHOD: &str = "/x-method-responses/MethodNotAllowed";
const OAUTH_WRONG_METHOD: &str = "/x-method-responses/OAuthMethodNotAllowed";
const CAMARA_WRONG_METHOD: &str = "/x-method-responses/CamaraMethodNotAllowed";

/// The OpenAPI document with compiled schemas.
#[derive(Debug)]
pub struct Contract {
    root: Value,
    paths: Vec<Template>,
    /// Responses by their JSON pointer in the document.
    responses: BTreeMap<String, Response>,
}

#[derive(Debug)]
struct Template {
    text: String,
    /// Operations of a path by upper-case method.
    operations: BTreeMap<String, Operation>,
}

/// JSON pointers of an operation's responses, by status.
type Operation = BTreeMap<u16, String>;

impl Contract {
    /// Parses the document and compiles the schemas of all responses.
    pub fn new(json: &str) -> Result<Self, String> {
        let mut root: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        strict::apply_extensions(&mut root);
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
            let all: BTreeSet<&str> = named
                .map(String::as_str)
                .chain([UNKNOWN_PATH, WRONG_METHOD, OAUTH_WRONG_METHOD, CAMARA_WRONG_METHOD])
                .collect();
            all.into_iter().map(|at| Ok((at.to_owned(), compiler.response(at)?))).collect::<Result<_, String>>()?
        };
        Ok(Self { root, paths, responses })
    }

    /// Returns methods in upper case and path templates. `GET` implies `HEAD`.
    pub fn routes(&self) -> BTreeSet<(String, String)> {
        let of = |path: &Template| path.operations.keys().map(|m| (m.clone(), path.text.clone())).collect::<Vec<_>>();
        self.paths.iter().flat_map(of).collect()
    }

    /// Returns the schema of a route's JSON request body.
    pub fn request_schema(&self, method: &str, template: &str) -> Option<&Value> {
        let method = method.to_lowercase();
        let at = format!("/paths/{}/{method}/requestBody/content/application~1json/schema", escape(template));
        self.root.pointer(&resolve(&self.root, &at).ok()?)
    }

    pub fn error_codes(&self) -> BTreeSet<String> {
        let codes = self.root.pointer("/components/schemas/Problem/properties/error_code/enum");
        codes.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Validates a response. The path may have a query.
    pub fn check(&self, method: &str, path: &str, status: u16, headers: &Headers, body: &[u8]) -> Result<(), String> {
        let call = format!("{method} {path} returned {status}");
        let problem = |what: String| format!("{call}: {what}");
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let at = self.response_for(method, path, status, headers).map_err(problem)?;
        let response = self.responses.get(at).ok_or_else(|| problem(format!("{at} was not compiled")))?;
        response.check_headers(headers).map_err(problem)?;
        response.check_body(method == "HEAD", status, headers, body).map_err(problem)
    }

    fn response_for(&self, method: &str, path: &str, status: u16, headers: &Headers) -> Result<&str, String> {
        let Some(template) = self.find(path) else {
            return if status == 404 { Ok(UNKNOWN_PATH) } else { Err("the path is not documented".to_owned()) };
        };
        let documented = if method == "HEAD" { "GET" } else { method };
        match (template.operations.get(documented), status) {
            (None, 405) if ["/number-verification/", "/sim-swap/"].iter().any(|api| template.text.starts_with(api)) => {
                template.check_allow(headers).map(|()| CAMARA_WRONG_METHOD)
            }
            (None, 405) if template.text.starts_with("/oauth2/") && template.text != "/oauth2/userinfo" => {
                template.check_allow(headers).map(|()| OAUTH_WRONG_METHOD)
            }
            (None, 405) => template.check_allow(headers).map(|()| WRONG_METHOD),
            (None, _) => Err(format!("{} does not document the method", template.text)),
            (Some(_), 405) => Err(format!("{} documents the method", template.text)),
            (Some(operation), _) => operation
                .get(&status)
                .map(String::as_str)
                .ok_or_else(|| format!("{} documents only {:?}", template.text, operation.keys())),
        }
    }

    /// Finds the template of a path. Literal segments take precedence over parameters, from left to right.
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

    /// Checks that `Allow` lists the documented methods, and `HEAD` if it lists `GET`.
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

fn statuses(root: &Value, at: &str) -> Result<Operation, String> {
    let all = members(root, at).map(|(status, _)| {
        let number = status.parse().map_err(|_| format!("{at}: {status} is not a status code"))?;
        Ok((number, resolve(root, &format!("{at}/{status}"))?))
    });
    all.collect()
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{') && segment.ends_with('}')
}
